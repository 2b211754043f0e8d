"""Manifests: what is accepted, and the sentence for what is not."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from bookie_operator.errors import ManifestError
from bookie_operator.model.cluster import BookieCluster, bookie_name
from bookie_operator.model.manifest import load_cluster, parse
from bookie_operator.model.quantity import is_smaller, size_bytes
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.transition import check_transition
from bookie_operator.plan.actions import template_of
from operator_scenes import DISKS, cluster, manifest

ROOT = Path(__file__).parents[3]


def refusal(**spec: Any) -> str:
    with pytest.raises(ManifestError) as caught:
        parse(BookieCluster, manifest(**spec), source="demo.yaml")
    return str(caught.value)


def test_the_example_is_the_cluster_that_the_readme_tells_of() -> None:
    spec = load_cluster(ROOT / "examples" / "bookiecluster.yaml").spec
    assert spec.replicas == 4 and not spec.journal_write_data and spec.ack == "memory"
    assert [disk.role for disk in spec.storage.disks] == ["journal", "ledger", "ledger"]
    assert (spec.quorum.ensemble, spec.quorum.write, spec.quorum.ack) == (3, 3, 2)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"replicas": 2}, "replicas: found 2, expected at least quorum.ensemble (3)"),
        ({"replicas": "x"}, "spec.replicas: found 'x', it should be a valid integer"),
        ({"quorum": {"ack": 4}}, "found ensemble 3, write 3, ack 4; expected ensemble >= write"),
        ({"quorum": {"ack": 1}}, "quorum.ack: found 1, expected at least 2"),
        ({"excludedOrdinals": [1, 2, 1]}, "excludedOrdinals: found 1 twice, expected each number"),
        ({"excludedOrdinals": [100]}, "spec.excludedOrdinals[0]: found 100"),
        ({"excludedOrdinals": [-1]}, "spec.excludedOrdinals[0]: found -1"),
        ({"replicas": 99, "excludedOrdinals": [0, 1]}, "found 2 numbers beside 99 replicas"),
        ({"ack": "disk"}, "spec.ack: found 'disk', expected 'memory' or 'sync'"),
        ({"replicsa": 4}, "spec.replicsa: unknown field; did you mean replicas?"),
        ({"storage": {"disks": list(DISKS[1:])}}, "found 0 disks of role journal"),
        ({"storage": {"disks": [*DISKS, DISKS[2]]}}, "found ledger-1 twice"),
        ({"metadata": {}}, "found neither, expected exactly one of embedded and connect"),
        ({"audit": {"schedule": "sometimes"}}, "spec.audit.schedule: found 'sometimes'"),
        ({"resources": {"limits": {"memory": "1 gig"}}}, "limits.memory: found '1 gig'"),
    ],
)
def test_a_mistake_is_named_with_field_found_and_expected(
    spec: dict[str, Any], sentence: str
) -> None:
    assert sentence in refusal(**spec)


def test_every_mistake_is_told_at_once() -> None:
    told = refusal(ack="disk", replicsa=1)
    assert "spec.ack" in told and "spec.replicsa" in told


@pytest.mark.parametrize(
    ("replicas", "excluded", "numbers"),
    [(4, [], "0123"), (4, [1], "0234"), (3, [3, 0], "124"), (3, [7], "012"), (3, [0, 1, 2], "345")],
)
def test_bookies_have_the_lowest_numbers_that_are_not_excluded(
    replicas: int, excluded: list[int], numbers: str
) -> None:
    spec = cluster(replicas=replicas, excludedOrdinals=excluded).spec
    assert spec.bookie_ids == tuple(f"bookie-{number}" for number in numbers)
    assert [spec.replicas_for(int(number)) for number in numbers] == list(range(1, replicas + 1))


def test_a_partition_is_a_number_whatever_is_excluded_below_it() -> None:
    spec = cluster(excludedOrdinals=[1], rollout={"partition": 3}).spec
    assert [b for b in spec.bookie_ids if spec.is_held_back(b)] == ["bookie-0", "bookie-2"]


def test_a_cluster_without_the_field_has_the_settings_that_it_had() -> None:
    plain, excluding = cluster().spec, cluster(excludedOrdinals=[1]).spec
    assert template_of(plain, bookie_name(2)) == template_of(excluding, bookie_name(2))


@pytest.mark.parametrize("safe", [{"ack": "sync"}, {"journalWriteData": True}])
def test_one_ack_is_enough_when_it_means_a_synced_copy(safe: dict[str, Any]) -> None:
    assert cluster(quorum={"ensemble": 3, "write": 3, "ack": 1}, **safe).spec.quorum.ack == 1


def test_the_example_for_kubernetes_is_accepted() -> None:
    example = load_cluster(ROOT / "examples" / "kubernetes.yaml")
    assert example.spec.replicas > example.spec.quorum.ensemble


def test_a_quantity_may_be_written_as_a_number() -> None:
    assert cluster(resources={"requests": {"cpu": 1}}).spec.resources.requests == {"cpu": "1"}


def test_a_file_needs_exactly_one_cluster(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("kind: Pod\n---\nkind: BookieCluster\n")
    with pytest.raises(ManifestError, match="found Pod, BookieCluster; expected exactly one"):
        load_cluster(path)
    path.write_text("a: [")
    with pytest.raises(ManifestError, match="not valid YAML"):
        load_cluster(path)
    with pytest.raises(ManifestError, match="cannot read"):
        load_cluster(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"storage": {"disks": list(DISKS[:2])}}, "number, order, name and role"),
        ({"storage": {"disks": [DISKS[0], DISKS[2], DISKS[1]]}}, "number, order, name and role"),
        ({"metadata": {"connect": "zk://other:2181/ledgers"}}, "spec.metadata"),
        ({"metadata": {"embedded": {"size": "512Mi"}}}, "found 512Mi .* expected at least 1Gi"),
        ({"metadata": {"embedded": {"storageClass": "fast"}}}, "its class cannot change"),
    ],
)
def test_what_ledgers_depend_on_cannot_change(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ManifestError, match=sentence):
        check_transition(cluster().spec, cluster(**change).spec)


def test_a_disk_can_only_grow() -> None:
    def sized(size: str) -> BookieCluster:
        return cluster(storage={"disks": [DISKS[0], DISKS[1], DISKS[2] | {"size": size}]})

    check_transition(sized("5Gi").spec, sized("6Gi").spec)
    with pytest.raises(ManifestError, match="found 5119Mi, expected at least 5Gi"):
        check_transition(sized("5Gi").spec, sized("5119Mi").spec)


@pytest.mark.parametrize(("power", "unit"), list(enumerate(["", "Ki", "Mi", "Gi", "Ti", "Pi"])))
def test_sizes_are_bytes_and_each_unit_has_1024_of_the_one_before(power: int, unit: str) -> None:
    text = f"3{unit}"
    assert size_bytes(text) == 3 * 1024**power
    assert is_smaller(f"1023{unit}", f"1024{unit}") and not is_smaller(text, text)


def test_a_newer_objects_unknown_fields_are_ignored_by_the_operator() -> None:
    assert BookieCluster.model_validate(manifest(somethingNew=1)).spec.replicas == 4


def test_status_survives_its_own_json() -> None:
    tree = cluster().as_dict()
    assert ClusterStatus.model_validate(tree["status"]) == ClusterStatus()
    assert BookieCluster.model_validate(tree) == cluster()


CLUSTER = yaml.safe_dump(manifest())


@pytest.mark.parametrize(
    "text", [CLUSTER, f"---\n{CLUSTER}---\n", f"---\n---\n{CLUSTER}---\n---\n"]
)
def test_documents_with_nothing_in_them_do_not_count(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    assert load_cluster(path).metadata.name == "demo"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "found nothing"),
        ("---\n---\n", "found nothing"),
        ("[1]", "found list"),
        ("{}", "found None"),
        ("kind: BookieTask", "found BookieTask"),
        (f"{CLUSTER}---\n{CLUSTER}", "found BookieCluster, BookieCluster"),
    ],
)
def test_a_file_that_is_not_one_cluster_is_told_with_what_it_is(
    tmp_path: Path, text: str, found: str
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(ManifestError, match=f"{found}; expected exactly one BookieCluster$"):
        load_cluster(path)
