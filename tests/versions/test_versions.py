"""This tree beside the release before: each reads what the other one writes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml
from bookie.ids import BookieId
from bookie_operator.model.audit_status import ScrubStatus
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import JobKind, Volume
from bookie_operator.plan.actions import LossDecision, StartJob, template_of
from bookie_operator.plan.planner import plan
from bookie_operator.platform import bookie_settings
from bookie_operator.platform.job_command import rebuild_words
from bookie_operator.platform.kubernetes.bookies import bookie_set, pod_settings
from bookie_operator.platform.kubernetes.jobs import command
from bookie_operator.platform.kubernetes.surroundings import zookeeper
from format_changes import refused
from format_tables import of_values
from operator_scenes import at, cluster, observed, task
from snapshot import recorded, recorded_documents, recorded_versions, understood
from todays_formats import todays
from written_formats import Sample, samples

B0 = BookieId("bookie-0")
URL = "zk://zookeeper:2181/ledgers"
VERSIONS = recorded_versions()
RECORDED = {version: recorded(version) for version in VERSIONS}
TABLES = todays()
SAMPLES = {sample.name: sample for sample in samples()}
HOW = "the version before cannot live with it: tests/versions/README.md says how it can be done"
DECISION = LossDecision("7", 4, "burnt", approved_by="ann")

released = pytest.mark.parametrize("version", VERSIONS)


@released
@pytest.mark.parametrize("name", sorted(TABLES))
def test_the_release_before_can_live_with_every_change(version: str, name: str) -> None:
    found = refused(RECORDED[version][name], TABLES[name])
    assert not found, "\n".join(["", *found, HOW])


# What is written
@released
@pytest.mark.parametrize("name", [one.name for one in SAMPLES.values() if not one.is_json])
def test_bytes_of_that_release_are_read(version: str, name: str) -> None:
    raw = bytes.fromhex(RECORDED[version]["written"][name]["bytes"])
    assert SAMPLES[name].read(raw) == SAMPLES[name].value


TEXTS = [pytest.param(one, id=one.name) for one in SAMPLES.values() if one.is_json]


@released
@pytest.mark.parametrize("sample", TEXTS)
def test_texts_of_that_release_are_read(version: str, sample: Sample) -> None:
    table = RECORDED[version]["written"]
    names = {path.partition(".")[2]: facts for path, facts in table.items()
             if path.startswith(f"{sample.name}.")}  # fmt: skip
    assert sample.read(json.dumps({n: facts["value"] for n, facts in names.items()}).encode())


@pytest.mark.parametrize("sample", TEXTS)
def test_names_that_a_later_version_adds_are_passed_over(sample: Sample) -> None:
    assert sample.read(json.dumps({**json.loads(sample.raw), "later": 1}).encode()) == sample.value


def test_an_operator_passes_over_what_a_later_one_kept_in_a_status() -> None:
    assert ClusterStatus.model_validate({"later": {"a": 1}}) == ClusterStatus()


# What jobs say
@released
@pytest.mark.parametrize("kind", list(JobKind), ids=lambda kind: kind.value)
def test_results_of_jobs_of_that_release_are_understood_as_they_were(
    version: str, kind: JobKind
) -> None:
    told = recorded_documents(version).get(kind.value)
    if kind is JobKind.INDEX_REBUILD:
        assert told is None, "it reports nothing"
        return
    assert told is not None
    was, now = told["report"], understood(kind, told["document"])
    assert refused(of_values("report", was), of_values("report", now)) == []


# What the operator writes, for bookies and jobs of that release
def paths_of(tree: Any, path: str = "settings") -> set[str]:
    if isinstance(tree, Mapping):
        parts = (paths_of(part, f"{path}.{name}") for name, part in tree.items())
        return {path}.union(*parts)
    if isinstance(tree, Sequence) and not isinstance(tree, str):
        return {path}.union(*(paths_of(part, f"{path}[]") for part in tree))
    return {path}


@released
def test_a_bookie_of_that_release_knows_every_setting_it_is_given(version: str) -> None:
    template = template_of(cluster().spec, B0)
    volumes = {disk.name: Volume(disk.name, "uid", disk.size) for disk in template.disks}
    text = yaml.safe_load(pod_settings(template, volumes, URL))
    assert paths_of(text) <= RECORDED[version]["settings"].keys()


@released
def test_a_setting_that_it_does_not_know_is_written_only_for_a_new_field(version: str) -> None:
    for section, options in bookie_settings.SECTIONS.items():
        for option in options:
            is_known = f"settings.{section}.{option}" in RECORDED[version]["settings"]
            field = f"BookieCluster v1alpha1.spec.{option}"
            assert is_known or field not in RECORDED[version]["resources"], option


def container() -> dict[str, Any]:
    made = cluster()
    template = template_of(made.spec, B0)
    wanted = bookie_set(made, template, settings="settings", metadata_url=URL)
    found: dict[str, Any] = wanted["spec"]["template"]["spec"]["containers"][0]
    return found


@released
def test_it_knows_every_setting_in_its_environment(version: str) -> None:
    known = {path.removeprefix("settings.").lower() for path in RECORDED[version]["settings"]}
    given = [one["name"] for one in container()["env"] if one["name"].startswith("BOOKIE_")]
    paths = {name.removeprefix("BOOKIE_").lower().replace("__", ".") for name in given}
    assert given and paths <= known


def planned() -> list[StartJob]:
    """An audit and a scrub that are due, with all options that the planner gives them."""
    of = cluster(scrub={"schedule": "@daily", "readBytesPerSecond": 1 << 20})
    seen = observed(of=of, seconds=30, tasks=(task("audit"), task("scrub", "task-2")))
    made = plan(of, seen, ClusterStatus(scrub=ScrubStatus(scheduled_at=at(0))))
    return [one for one in made.actions if isinstance(one, StartJob)]


def jobs() -> list[StartJob]:
    """One of each kind that has words of its own."""
    of_a_bookie = (JobKind.REPAIR, JobKind.DRAIN, JobKind.REREPLICATE)
    found = [StartJob("j", kind, "inline", 1, B0, 2) for kind in of_a_bookie]
    found += [StartJob("j", JobKind.MEND, "inline", 1), *planned()]
    found.append(StartJob("j", JobKind.ACCEPT_LOSS, "", 1, decision=DECISION))
    back = replace(DECISION, entry_id=None)
    return [*found, StartJob("j", JobKind.RETRACT_LOSS, "", 1, decision=back)]


def called() -> list[list[str]]:
    """All command lines that the operator gives to pods."""
    [_service, (_kind, server)] = zookeeper(cluster())
    return [
        *(command(job, URL) for job in jobs()),
        ["bookie", *rebuild_words(["/data/ledger-0"])],
        container()["args"],
        container()["lifecycle"]["preStop"]["exec"]["command"],
        server["spec"]["template"]["spec"]["containers"][0]["args"],
    ]


def test_jobs_of_every_kind_are_looked_at() -> None:
    assert {job.kind for job in jobs()} == set(JobKind) - {JobKind.INDEX_REBUILD}
    assert "--ack-quorum" in str(called()) and "--read-rate" in str(called())


@released
@pytest.mark.parametrize("line", called(), ids=" ".join)
def test_programs_of_that_release_know_every_option_they_are_given(
    version: str, line: list[str]
) -> None:
    known = RECORDED[version]["commands"]
    whole = " ".join(line)
    path = max((p for p, facts in known.items() if not facts and whole.startswith(p)), key=len)
    options = {word.partition("=")[0] for word in line if word.startswith("--") and word != "--"}
    assert {f"{path} {option}" for option in options} <= known.keys()
