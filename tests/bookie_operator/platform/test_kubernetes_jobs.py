"""Jobs read back: what their pods left, whatever state that is in."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bookie.cli.summary import SUMMARY_BYTES_MAX
from bookie.errors import UnavailableError
from bookie.ids import BookieId
from bookie.repair.engine.driver_pod import DriverPod, spark_conf
from bookie_operator.model.reports import (
    AuditReport,
    DrainReport,
    LossReport,
    RepairReport,
    RereplicationReport,
)
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.actions import LossDecision, StartJob
from bookie_operator.plan.deadlines import overdue
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import JOB, POD, Kind, Object
from bookie_operator.platform.kubernetes.jobs import (
    executors,
    job_manifest,
    job_of,
    missed_of_job,
    spark_size,
)
from fake_controllers import unscheduled
from fake_pods import CLEAN_AUDIT, REPAIRED
from kubernetes_lab import B0, POD_0, Lab, expanded, repair_job
from operator_scenes import T0, at, cluster

NAME = "demo-bookie-0-2-1"
MOVED = {"ledgers": {"moved": 5}, "ledgers_left": 2, "entries_copied": 9, "engine": "inline"}
CLOSED = {"ledger_id": 7, "last_entry_id": 3, "lost_from": 4, "recorded_on": ["bookie-1"]}
DECISION = LossDecision("7", 4, "burnt", approved_by="ann")


async def started(**facts: Any) -> Lab:
    lab = Lab()
    await lab.reach_metadata()
    await lab.platform.start_job(repair_job(**facts))
    lab.controllers.settle()
    return lab


async def the_job(lab: Lab) -> Job:
    [found] = await lab.platform.jobs()
    return found


async def ended(summary: Any = None, *, facts: dict[str, Any] | None = None, **how: Any) -> Job:
    lab = await started(**(facts or {}))
    lab.controllers.end_job(NAME, summary, **how)
    return await the_job(lab)


async def test_a_job_that_runs_knows_what_it_is_for() -> None:
    found = await the_job(await started(attempt=3))
    assert (found.kind, found.bookie, found.boot_epoch) == (JobKind.REPAIR, "bookie-0", 2)
    assert (found.attempt, found.running, found.started_at) == (3, True, at(0))


async def test_a_job_that_ends_while_jobs_are_listed_has_its_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = await started()
    at_once = lab.api.list

    async def slow(kind: Kind, *labels: Any) -> Sequence[Object]:
        if kind is JOB:
            await asyncio.sleep(0)  # whoever asks for pods at the same time has them before
            lab.controllers.end_job(NAME, REPAIRED)
        return await at_once(kind, *labels)

    monkeypatch.setattr(lab.api, "list", slow)
    found = await the_job(lab)
    assert not found.running and found.reported(RepairReport) is not None


async def test_a_job_of_an_earlier_cluster_of_the_name_is_none_of_this_one() -> None:
    """The garbage collector takes it away some time after that cluster."""
    lab = await started()
    lab.api.edit(JOB, NAME, lambda one: one["metadata"]["ownerReferences"][0].update(uid="earlier"))
    assert list(await lab.platform.jobs()) == []
    with pytest.raises(UnavailableError, match="of an earlier BookieCluster demo"):
        await lab.platform.start_job(repair_job())


async def test_a_repairs_counts_come_back() -> None:
    found = await ended(REPAIRED)
    report = found.reported(RepairReport)
    assert report is not None and (found.exit_code, found.running) == (0, False)
    assert (report.entries_copied, report.ledgers_recovered) == (7, 3)


async def test_an_audits_findings_come_back() -> None:
    found = await ended(CLEAN_AUDIT, facts={"kind": JobKind.AUDIT, "bookie_id": None})
    report = found.reported(AuditReport)
    assert report is not None and report.clean
    assert found.bookie is None


async def test_a_drains_counts_come_back() -> None:
    found = await ended(MOVED, facts={"kind": JobKind.DRAIN}, code=4)
    report = found.reported(DrainReport)
    assert report is not None
    assert (report.ledgers_moved, report.ledgers_left, found.exit_code) == (5, 2, 4)


async def test_a_re_replication_of_another_clusters_bookie_comes_back() -> None:
    """Its name is no label's value."""
    bookie_id = BookieId("10.0.0.7:3181")
    facts: dict[str, Any] = {"kind": JobKind.REREPLICATE, "bookie_id": bookie_id}
    lab = await started(**facts)
    assert names.BOOKIE_LABEL not in lab.api.the(JOB, NAME)["metadata"]["labels"]
    lab.controllers.end_job(NAME, MOVED | {"marks": {"found": 2, "cleared": 1}}, code=4)
    found = await the_job(lab)
    report = found.reported(RereplicationReport)
    assert report is not None and found.bookie == bookie_id
    assert (report.ledgers_moved, report.marks_cleared) == (5, 1)


async def test_an_accepted_loss_comes_back() -> None:
    facts: dict[str, Any] = {"kind": JobKind.ACCEPT_LOSS, "decision": DECISION, "bookie_id": None}
    found = await ended(CLOSED, facts=facts)
    report = found.reported(LossReport)
    assert report is not None
    assert (report.ledger_id, report.lost_from) == (7, 4)


@pytest.mark.parametrize(
    "text", ["", "Traceback (most recent call last)", '{"entries_copied": 3', "[1]", "null", '"x"']
)
async def test_garbage_in_the_termination_message_is_no_report(text: str) -> None:
    found = await ended(text=text, code=1)
    assert (found.report, found.running, found.exit_code) == (None, False, 1)
    assert found.message == text or "exit code 1" in found.message


async def test_a_summary_cut_in_the_middle_is_no_report() -> None:
    whole = json.dumps(REPAIRED | {"message": "x" * SUMMARY_BYTES_MAX})
    assert (await ended(text=whole[:SUMMARY_BYTES_MAX])).report is None


async def test_a_job_whose_pod_is_gone_has_ended_all_the_same() -> None:
    lab = await started()
    lab.controllers.end_job(NAME, REPAIRED)
    lab.api.remove(POD, f"{NAME}-pod")
    found = await the_job(lab)
    assert (found.running, found.report, found.exit_code) == (False, None, None)


async def test_a_job_past_its_deadline_says_so() -> None:
    lab = await started()
    lab.controllers.end_job_as(NAME, "Failed", "Job was active longer than specified deadline")
    found = await the_job(lab)
    assert not found.running and "longer than specified deadline" in found.message


async def test_conditions_that_are_no_end_are_none() -> None:
    lab = await started()
    for kind in ("Suspended", "SuccessCriteriaMet", "FailureTarget"):
        lab.controllers.end_job_as(NAME, kind)
        assert (await the_job(lab)).running


@pytest.mark.parametrize("kind", ["Complete", "Failed", "Suspended"])
@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
async def test_a_condition_ends_a_job_only_where_it_is_true(kind: str, status: str) -> None:
    lab = await started()
    stamped = {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:01:00Z"}
    lab.api.set_status(JOB, NAME, conditions=[stamped])
    is_over = status == "True" and kind != "Suspended"
    assert (await the_job(lab)).running is not is_over


async def test_a_job_that_cannot_start_says_why() -> None:
    lab = await started()
    waiting = {"reason": "ErrImagePull", "message": "not found"}
    container = {"name": "repair", "state": {"waiting": waiting}}
    lab.api.set_status(POD, f"{NAME}-pod", containerStatuses=[container])
    assert (await the_job(lab)).waiting == "ErrImagePull: not found"
    lab.api.set_status(POD, f"{NAME}-pod", containerStatuses=[])
    unscheduled(lab.api, f"{NAME}-pod", "no room")
    assert (await the_job(lab)).waiting == "Unschedulable: no room"


async def test_a_job_that_has_ended_waits_for_nothing_whatever_its_pod_says() -> None:
    lab = await started()
    waiting = {"name": "repair", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    lab.api.set_status(POD, f"{NAME}-pod", containerStatuses=[waiting])
    lab.controllers.end_job_as(NAME, "Failed", "Job was active longer than specified deadline")
    found = await the_job(lab)
    assert (found.running, found.waiting) == (False, "")


@pytest.mark.parametrize(
    ("kind", "said", "message"),
    [("Failed", "", "failed"), ("Failed", "too late", "too late"), ("Complete", "well done", "")],
)
async def test_a_job_without_a_pod_says_what_kubernetes_says_of_its_failure(
    kind: str, said: str, message: str
) -> None:
    lab = await started()
    end = {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}
    lab.api.set_status(JOB, NAME, conditions=[end | ({"message": said} if said else {})])
    lab.api.remove(POD, f"{NAME}-pod")
    assert (await the_job(lab)).message == message


CREATING: Object = {"waiting": {"reason": "ContainerCreating"}}


@pytest.mark.parametrize(
    ("state", "missed"),
    [
        (None, NAME),
        ({}, f"{NAME}-pod"),
        (CREATING, f"{NAME}-pod"),
        ({"waiting": {"reason": "ErrImagePull"}}, ""),
        ({"running": {"startedAt": "2026-01-01T00:00:00Z"}}, ""),
        ({"terminated": {"exitCode": 0}}, ""),
    ],
    ids=str,
)
async def test_events_say_why_a_job_does_not_start_where_its_pod_does_not(
    state: Object | None, missed: str
) -> None:
    lab = await started()
    lab.api.set_status(POD, f"{NAME}-pod", containerStatuses=[{"name": "repair", "state": state}])
    pods = lab.api.all(POD) if state is not None else []
    assert missed_of_job(lab.api.the(JOB, NAME), pods) == missed


@pytest.mark.parametrize("secrets", [[], ["one", "two"]])
@pytest.mark.parametrize("kind", [JobKind.REPAIR, JobKind.AUDIT, JobKind.INDEX_REBUILD])
async def test_every_kind_of_job_is_pulled_with_the_secrets_of_the_spec(
    kind: JobKind, secrets: list[str]
) -> None:
    wanted = repair_job(kind=kind, disks=("ledger-1",))
    of = cluster(imagePullSecrets=secrets)
    made = job_manifest(of, wanted, metadata_url="zk://z:1/ledgers", now=T0)
    pod = made["spec"]["template"]["spec"]
    assert pod.get("imagePullSecrets", []) == [{"name": name} for name in secrets]


async def test_only_pods_of_jobs_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet has hundreds of others."""
    lab = await started()
    at_once, asked = lab.api.list, list[tuple[Kind, Any]]()

    async def noted(kind: Kind, labels: Any = None, **more: Any) -> Sequence[Object]:
        asked.append((kind, labels))
        return await at_once(kind, labels, **more)

    monkeypatch.setattr(lab.api, "list", noted)
    await the_job(lab)
    own = names.selector("demo", names.JOBS)
    assert [labels for kind, labels in asked if kind in (JOB, POD)] == [own, own]


async def test_a_container_of_other_people_that_cannot_start_is_no_word_about_the_job() -> None:
    """A job that waits for long is stopped: this one is at work."""
    lab = await started()
    waiting = {"name": "logs", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    working = {"name": "repair", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    lab.api.set_status(POD, f"{NAME}-pod", containerStatuses=[waiting, working])
    assert (await the_job(lab)).waiting == ""


def test_executors_are_as_many_and_as_large_as_the_spec_says() -> None:
    sizes = {"executorMemory": "1Gi", "executorMemoryOverhead": "200Mi", "executorCpu": "300m"}
    made = executors(cluster(repair={"executors": 5, **sizes}), TlsMode.OFF)
    assert {name: made[name] for name in made if name != "REPAIR_EXECUTOR_TEMPLATE"} == {
        "REPAIR_EXECUTORS": "5",
        "REPAIR_EXECUTOR_CPU": "300m",
        "REPAIR_EXECUTOR_MEMORY": "1024m",
        "REPAIR_EXECUTOR_OVERHEAD": "200m",
    }


async def test_a_persons_reason_is_kept_as_it_was_written() -> None:
    """Kubernetes expands variables in arguments, and makes one $ of two."""
    wish = replace(DECISION, reason="$(HOME) burnt, 5 $$")
    lab = await started(kind=JobKind.ACCEPT_LOSS, decision=wish, bookie_id=None)
    [container] = lab.api.the(JOB, NAME)["spec"]["template"]["spec"]["containers"]
    words = [expanded(word, HOME="/tmp") for word in container["args"]]
    assert "--reason=$(HOME) burnt, 5 $$ (approved by ann)" in words


async def test_another_jobs_pod_tells_nothing_of_this_one() -> None:
    """Executors carry the labels of jobs as well."""
    lab = await started()
    lab.controllers.end_job(NAME, REPAIRED)
    labels = names.labels("demo", names.JOBS, bookie=BookieId("bookie-0"))
    waiting = {"name": "repair", "state": {"terminated": {"exitCode": 9, "message": "{}"}}}
    status = {"containerStatuses": [waiting]}
    lab.api.put(POD, {"metadata": {"name": "a-exec", "labels": labels}, "status": status})
    assert (await the_job(lab)).exit_code == 0


async def test_an_end_before_its_start_is_put_right() -> None:
    """Kubernetes cuts to seconds, and clocks differ."""
    lab = await started()
    lab.api.now = at(-5)
    lab.controllers.end_job(NAME, REPAIRED)
    found = await the_job(lab)
    assert found.ended_at == found.started_at


@pytest.mark.parametrize(
    "facts",
    [
        None,
        "",
        "{}",
        "null",
        "[]",
        '{"kind": "explode", "startedAt": "2026-01-01T00:00:00+00:00"}',
        '{"kind": "repair", "startedAt": "yesterday"}',
        '{"kind": "repair", "startedAt": "2026-01-01T00:00:00"}',
        '{"kind": "repair", "startedAt": null}',
        '{"kind": "repair", "startedAt": "2026-01-01T00:00:00+00:00"}',
        '{"kind": "repair", "startedAt": "2026-01-01T00:00:00+00:00", "attempt": null}',
    ],
)
async def test_jobs_of_others_are_left_alone(facts: str | None) -> None:
    notes = {} if facts is None else {names.JOB_FACTS: facts}
    assert job_of({"metadata": {"name": "x", "uid": "u", "annotations": notes}}, []) is None


def test_an_unknown_jobs_annotations_may_be_missing() -> None:
    assert job_of({"metadata": {"name": "x", "uid": "u"}}, []) is None


async def test_jobs_are_created_for_the_day_they_are_found_again() -> None:
    lab = await started()
    again = [job_of(one, lab.api.all(POD)) for one in lab.api.all(JOB)]
    assert again == [await the_job(lab)]


@pytest.mark.parametrize("kind", [JobKind.REPAIR, JobKind.AUDIT, JobKind.SCRUB, JobKind.DRAIN])
async def test_spark_is_told_by_its_pod_what_the_spec_says(kind: JobKind) -> None:
    lab = await started(kind=kind, engine="auto")
    [container] = lab.api.the(JOB, NAME)["spec"]["template"]["spec"]["containers"]
    given = {one["name"]: one.get("value", "10.0.0.7") for one in container["env"]}
    driver = DriverPod.from_environment({**given, "KUBERNETES_SERVICE_HOST": "10.96.0.1"})
    repair = lab.cluster.spec.repair
    assert (driver.image, driver.executors) == (repair.image, repair.executors)
    assert (driver.start_deadline_s, driver.cluster) == (repair.start_deadline_seconds, "demo")
    assert driver.service_account == "demo-repair"
    assert (driver.cpu, driver.memory, driver.overhead) == ("100m", "512m", "384m")


async def test_executors_are_pulled_as_the_spec_says() -> None:
    how = {"imagePullSecrets": ["one", "two"], "imagePullPolicy": "Always"}
    lab = Lab(repair={"image": "registry/repair:1"}, **how)
    await lab.reach_metadata()
    await lab.platform.start_job(repair_job(engine="auto"))
    [container] = lab.api.the(JOB, NAME)["spec"]["template"]["spec"]["containers"]
    given = {one["name"]: one.get("value", "10.0.0.7") for one in container["env"]}
    driver = DriverPod.from_environment({**given, "KUBERNETES_SERVICE_HOST": "10.96.0.1"})
    conf, image = spark_conf(driver, Path("template")), "spark.kubernetes.container.image"
    assert (conf[image], conf[f"{image}.pullPolicy"]) == ("registry/repair:1", "Always")
    assert conf[f"{image}.pullSecrets"] == "one,two"


@pytest.mark.parametrize(
    ("size", "told"), [("512Mi", "512m"), ("2Gi", "2048m"), ("1", "1m"), ("1048577", "2m")]
)
def test_sparks_sizes_are_no_less_than_what_was_asked_for(size: str, told: str) -> None:
    assert spark_size(size) == told


# An index is built anew on the bookie's own volumes, which one pod at a time may mount


REBUILD = repair_job("demo-index-1", kind=JobKind.INDEX_REBUILD, engine="", disks=("ledger-1",))


async def test_d5_the_bookie_is_gone_before_its_index_is_built_anew() -> None:
    lab = Lab()
    await lab.run_bookie()
    lab.controllers.clings.add(POD_0)
    for _ in range(2):
        assert not await lab.platform.start_job(REBUILD)
        lab.controllers.settle()
    assert not lab.api.all(JOB), "its pod still ends"
    lab.controllers.clings.clear()
    lab.controllers.settle()
    assert await lab.platform.start_job(REBUILD)


async def test_d5_the_job_has_the_bookies_image_and_that_volume_alone() -> None:
    lab = Lab(image="mine:1", scheduling={"nodeSelector": {"disk": "fast"}})
    await lab.reach_metadata()
    assert await lab.platform.start_job(REBUILD)
    [pod] = [one["spec"]["template"]["spec"] for one in lab.api.all(JOB)]
    [container] = pod["containers"]
    assert container["image"] == "mine:1" and pod["nodeSelector"] == {"disk": "fast"}
    assert container["args"] == ["bookie", "index", "rebuild", "--yes", "/data/ledger-1"]
    claims = [one["persistentVolumeClaim"] for one in pod["volumes"] if one["name"] != "tmp"]
    assert claims == [{"claimName": "demo-bookie-0-ledger-1"}]
    assert not pod["automountServiceAccountToken"]


async def test_d5_the_bookie_runs_again_after_it() -> None:
    lab = Lab()
    await lab.run_bookie()
    for _ in range(4):
        await lab.platform.start_job(REBUILD)
        lab.controllers.settle()
    lab.controllers.end_job("demo-index-1", code=1, text="/data/ledger-1 is no ledger directory")
    [job] = await lab.platform.jobs()
    assert (job.kind, job.exit_code) == (JobKind.INDEX_REBUILD, 1)
    assert job.message == "/data/ledger-1 is no ledger directory"
    await lab.platform.start_bookie(lab.template())
    lab.controllers.settle()
    assert (await lab.process()).running


@pytest.mark.parametrize("kind", JobKind)
def test_kubernetes_ends_a_job_of_any_kind_right_after_the_planner_would(kind: JobKind) -> None:
    of = cluster(repair={"deadlineSeconds": 600}, scrub={"deadlineSeconds": 86400})
    wanted = StartJob("a", kind, "inline", 1, B0, 1, disks=("ledger-0",), decision=DECISION)
    spec = job_manifest(of, wanted, metadata_url="zk://z:1/ledgers", now=T0)["spec"]
    after_s = (spec["activeDeadlineSeconds"] - 1, spec["activeDeadlineSeconds"] - 61)
    job = Job("a", kind, 1, running=True, started_at=T0)
    assert [overdue(job, of.spec, at(s)) for s in after_s] == ["DeadlineExceeded", None]
