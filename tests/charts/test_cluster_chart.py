"""The chart of one cluster: its values are the spec's fields, with the spec's defaults."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.manifest import parse
from bookie_operator.platform.kubernetes.surroundings import zookeeper_url
from helm_charts import CLUSTER, ROOT, helm, only, render, template, with_notes
from values_schema import values_schema

OWN_DEFAULTS = {"replicas": 4}
"""One more than the ensemble: a cluster that is to be used needs a spare."""


def rendered(*words: str) -> BookieCluster:
    tree = only(render(CLUSTER, *words), "BookieCluster")
    tree["metadata"].pop("labels")
    return parse(BookieCluster, tree, source="the chart")


def test_lint_finds_nothing() -> None:
    done = helm("lint", "--strict", CLUSTER)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_is_one_cluster_and_nothing_else() -> None:
    assert [tree["kind"] for tree in render(CLUSTER)] == ["BookieCluster"]


def test_a_cluster_may_be_called_what_yaml_takes_for_something_else() -> None:
    words = ("--kube-version=1.34.0", "--namespace=007")
    tree = yaml.safe_load(helm("template", "no", CLUSTER, *words).stdout)
    assert (tree["metadata"]["name"], tree["metadata"]["namespace"]) == ("no", "007")


def test_its_defaults_are_those_of_the_crd() -> None:
    spec = rendered().spec.as_dict()
    bare = {"storage": spec["storage"], **OWN_DEFAULTS}
    wanted = BookieCluster.model_validate({"metadata": {"name": "demo"}, "spec": bare})
    assert spec == wanted.spec.as_dict()


def test_every_field_of_the_spec_is_among_the_values() -> None:
    values = yaml.safe_load((CLUSTER / "values.yaml").read_text(encoding="utf-8"))
    assert set(rendered().spec.as_dict()) <= set(values)


def test_the_schema_of_the_values_is_the_crd() -> None:
    crd = yaml.safe_load((ROOT / "crds" / "bookiecluster.yaml").read_text(encoding="utf-8"))
    text = (CLUSTER / "values.schema.json").read_text(encoding="utf-8")
    assert text == values_schema(crd), "run `make crds`"


@pytest.mark.parametrize(
    "mistake",
    [
        "replicsa=4",
        "quorum.acks=2",
        "repair.engin=inline",
        "ack=disk",
        "replicas=0",
        "resources.requests.memory=1 gig",
        "nameOverride=Demo",
    ],
)
def test_a_mistake_in_the_values_is_refused(mistake: str) -> None:
    assert "don't meet the specifications" in template(CLUSTER, f"--set={mistake}").stderr


def test_what_is_added_to_pods_reaches_the_spec() -> None:
    pod = {"labels": {"a": "b"}, "sidecars": [{"name": "mesh", "image": "mesh:1"}]}
    found = rendered(f"--set-json=bookiePod={json.dumps(pod)}").spec.bookie_pod
    assert found is not None and found.as_dict().items() >= pod.items()


@pytest.mark.parametrize("mode", ["Required", "Accepted", "Off"])
def test_the_notes_tell_clients_the_address_that_the_operator_makes(
    tmp_path: Path, mode: str
) -> None:
    objects = with_notes(tmp_path, CLUSTER, f"--set=tls.mode={mode}")
    cluster = BookieCluster.model_validate(only(objects, "BookieCluster"))
    assert f"find it at {zookeeper_url(cluster)}\n" in only(objects, "Notes")["text"]


@pytest.mark.parametrize("mode", ["Required", "Off"])
def test_the_notes_of_an_upgrade_know_no_address_of_a_zookeeper_that_was_there_before(
    tmp_path: Path, mode: str
) -> None:
    """It stays with TLS or without, as it was when it was made."""
    text = only(with_notes(tmp_path, CLUSTER, f"--set=tls.mode={mode}", "--is-upgrade"), "Notes")[
        "text"
    ]
    assert "://" not in text and "-o jsonpath='{.status.metadata.url}'" in text


def test_the_notes_of_an_upgrade_have_the_address_of_the_spec(tmp_path: Path) -> None:
    words = (f"--values={CLUSTER / 'values-external-zookeeper.yaml'}", "--is-upgrade")
    assert "find it at zk://zk-0.zk" in only(with_notes(tmp_path, CLUSTER, *words), "Notes")["text"]


def test_an_outer_zookeeper_replaces_the_embedded_one() -> None:
    spec = rendered(f"--values={CLUSTER / 'values-external-zookeeper.yaml'}").spec
    assert spec.metadata.embedded is None
    assert spec.metadata.connect is not None and spec.metadata.connect.startswith("zk://zk-0.zk")
    assert spec.metadata.credentials_secret is None


def test_secrets_that_people_bring_are_named_in_the_spec() -> None:
    asked = '{"mechanisms": ["tls", "digest-md5"], "usersSecret": "stock-users"}'
    outside = f"--values={CLUSTER / 'values-external-zookeeper.yaml'}"
    login = "--set=metadata.credentialsSecret=demo-zookeeper-login"
    spec = rendered(outside, login, f"--set-json=authentication={asked}").spec
    assert spec.metadata.credentials_secret == "demo-zookeeper-login"
    assert spec.authentication is not None and spec.authentication.users_secret == "stock-users"


def test_the_cluster_has_the_release_s_name() -> None:
    assert rendered().metadata.name == "demo"
    assert rendered("--set=nameOverride=other").metadata.name == "other"


def test_settings_reach_the_spec() -> None:
    disks: Any = '[{"name": "j", "role": "journal"}, {"name": "l", "role": "ledger"}]'
    words = ("--set=journalWriteData=true", f"--set-json=storage.disks={disks}")
    spec = rendered(*words, "--set=resources.requests.cpu=1").spec
    assert spec.journal_write_data and [disk.name for disk in spec.storage.disks] == ["j", "l"]
    assert spec.resources.requests == {"cpu": "1", "memory": "256Mi"}


def test_values_that_are_the_charts_or_its_parents_are_in_no_spec() -> None:
    added = "team=storage"
    own = (f"--set=labels.{added}", f"--set=annotations.{added}", "--set=nameOverride=other")
    tree = only(render(CLUSTER, f"--set=global.{added}", *own), "BookieCluster")
    assert tree["spec"] == only(render(CLUSTER), "BookieCluster")["spec"]
    assert tree["metadata"]["labels"]["team"] == "storage"
    assert tree["metadata"]["annotations"] == {"team": "storage"}
