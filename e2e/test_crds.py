"""The CRDs on a real API server: each rule refuses the bad object in our words and takes the good.

Everything is a server-side dry run beside one paused cluster that updates are tried against, so
it needs no operator and no image. Runs only against a kubeconfig whose context starts with `kind-`.
"""

import copy
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

pytestmark = pytest.mark.usefixtures("cluster")

CRDS: Final = Path(__file__).parents[1] / "crds"
NAMESPACE: Final = "crd-rules"
API_VERSION: Final = "bookkeeper.bookie-operator.dev/v1alpha1"
JOURNAL: Final = {"name": "journal", "role": "journal", "size": "1Gi"}
LEDGER_0: Final = {"name": "ledger-0", "role": "ledger", "size": "2Gi"}
LEDGER_1: Final = {"name": "ledger-1", "role": "ledger", "size": "2Gi"}
DISKS: Final = "storage.disks"
CLUSTER: Final[Mapping[str, Any]] = {
    "apiVersion": API_VERSION,
    "kind": "BookieCluster",
    "metadata": {"name": "demo", "namespace": NAMESPACE},
    "spec": {"paused": True, "replicas": 4, "storage": {"disks": [JOURNAL, LEDGER_0, LEDGER_1]}},
}
TASK: Final[Mapping[str, Any]] = {
    "apiVersion": API_VERSION,
    "kind": "BookieTask",
    "metadata": {"name": "once", "namespace": NAMESPACE},
    "spec": {"cluster": "demo", "type": "audit"},
}
LOSS: Final = {
    "type": "accept-loss",
    "ledger": 7,
    "reason": "disks burnt",
    "approvedBy": "kubernetes-admin",
}
MANY: Final = {
    "type": "accept-loss",
    "ledgers": "4,9-12,40@7",
    "reason": "disks burnt",
    "approvedBy": "kubernetes-admin",
}
COLLECTION: Final = {
    "type": "approve-collection",
    "bookie": "bookie-1",
    "planId": "p1",
    "approvedBy": "kubernetes-admin",
}
CONNECT: Final = "zk://zk-0.zk:2181,zk-1.zk:2181/ledgers"

Change = Mapping[str, Any]
"""Dotted path below spec (or from the root, with a leading dot) -> value; None takes it away."""
OTHER: Final[Change] = {".metadata.name": "other"}

ACCEPTED: Final[Mapping[str, Change]] = {
    "defaults": {},
    "one ack with sync": {"ack": "sync", "quorum": {"ensemble": 3, "write": 3, "ack": 1}},
    "one ack with a journal": {
        "journalWriteData": True,
        "quorum": {"ensemble": 3, "write": 3, "ack": 1},
    },
    "as many replicas as the ensemble": {"replicas": 3},
    "a name of 40 characters": {".metadata.name": "d" * 40},
    "an outer ZooKeeper": {"metadata": {"connect": CONNECT}},
    "an embedded ZooKeeper with settings": {
        "metadata": {"embedded": {"size": "2Gi", "storageClass": "fast"}}
    },
    "a number as quantity": {"resources": {"requests": {"cpu": 1, "memory": "1.5Gi"}}},
    "a schedule of its own": {"audit": {"schedule": "@every 30m"}},
    "no schedule": {"audit": {"schedule": "@never"}},
    "spark-kubernetes": {"repair": {"engine": "spark-kubernetes", "executors": 3}},
    "a class for each disk": {DISKS: [JOURNAL | {"storageClass": "fast"}, LEDGER_0]},
    "tolerations": {
        "scheduling": {
            "tolerations": [{"key": "storage", "operator": "Exists", "effect": "NoExecute"}],
            "nodeSelector": {"disk": "nvme"},
            "required": True,
        }
    },
}
REFUSED: Final[Mapping[str, tuple[Change, str]]] = {
    "write over ensemble": (
        {"quorum": {"ensemble": 3, "write": 4, "ack": 2}},
        "quorum.write must be at most quorum.ensemble",
    ),
    "ack over write": (
        {"quorum": {"ensemble": 3, "write": 2, "ack": 3}},
        "quorum.ack must be at most quorum.write",
    ),
    "one ack in memory": (
        {"quorum": {"ensemble": 3, "write": 3, "ack": 1}},
        "quorum.ack must be at least 2 when journalWriteData is false and ack is memory",
    ),
    "no ack at all": (
        {"quorum": {"ensemble": 3, "write": 3, "ack": 0}},
        "should be greater than or equal to 1",
    ),
    "fewer replicas than the ensemble": (
        {"replicas": 2},
        "replicas must be at least quorum.ensemble",
    ),
    "too many replicas": ({"replicas": 101}, "should be less than or equal to 100"),
    "an unknown ack": ({"ack": "disk"}, 'supported values: "memory", "sync"'),
    "no disks": ({"storage": None}, "spec.storage: Required value"),
    "one disk": ({DISKS: [JOURNAL]}, "should have at least 2 items"),
    "two journals": (
        {DISKS: [JOURNAL, JOURNAL | {"name": "other"}, LEDGER_0]},
        "storage.disks needs exactly one disk of role journal",
    ),
    "no journal": (
        {DISKS: [LEDGER_0, LEDGER_1]},
        "storage.disks needs exactly one disk of role journal",
    ),
    "a disk twice": (
        {DISKS: [JOURNAL, LEDGER_0, LEDGER_0]},
        "storage.disks must have different names",
    ),
    "no flush interval": ({"flushIntervalSeconds": 0}, "must be at least 0.1"),
    "a repair's wait of nothing": ({"repair": {"backoffSeconds": 0}}, "must be at least 0.1"),
    "an unknown role": ({DISKS: [JOURNAL, LEDGER_0 | {"role": "index"}]}, '"journal", "ledger"'),
    "a size of nothing": ({DISKS: [JOURNAL, LEDGER_0 | {"size": "0Gi"}]}, "disks[1].size in body"),
    "a disk with a bad name": ({DISKS: [JOURNAL, LEDGER_0 | {"name": "L_0"}]}, "disks[1].name"),
    "a disk with a long name": (
        {DISKS: [JOURNAL, LEDGER_0 | {"name": "l" * 21}]},
        "Too long: may not be more than 20",
    ),
    "both metadata stores": (
        {"metadata": {"embedded": {}, "connect": CONNECT}},
        "metadata needs exactly one of embedded and connect",
    ),
    "no metadata store": (
        {"metadata": {}},
        "metadata needs exactly one of embedded and connect",
    ),
    "metadata without a path": ({"metadata": {"connect": "zk://zk:2181"}}, "metadata.connect in"),
    "a schedule in words": ({"audit": {"schedule": "sometimes"}}, "audit.schedule in body"),
    "an unknown engine": ({"repair": {"engine": "mapreduce"}}, '"spark-kubernetes"'),
    "no executors": ({"repair": {"executors": 0}}, "repair.executors in body should be greater"),
    "an unknown policy": ({"cookieFix": {"policy": "Always"}}, '"Auto", "Approve", "Never"'),
    "an unknown retention": ({"retention": {"whenDeleted": "Keep"}}, '"Retain", "Delete"'),
    "an unknown pull policy": ({"imagePullPolicy": "Often"}, '"Always", "IfNotPresent", "Never"'),
    "a quantity in words": (
        {"resources": {"limits": {"memory": "1 gig"}}},
        "resources.limits.memory in body should match",
    ),
    "an unknown effect": (
        {"scheduling": {"tolerations": [{"key": "a", "effect": "NoRun"}]}},
        '"NoSchedule", "PreferNoSchedule", "NoExecute"',
    ),
    "no time to flush": ({"gracePeriodSeconds": 0}, "gracePeriodSeconds in body should be greater"),
    "a typo": ({"replicsa": 4}, 'unknown field "spec.replicsa"'),
    "a name of 41 characters": (
        {".metadata.name": "d" * 41},
        "metadata.name may have 40 characters at most",
    ),
    "a name with a dot": (
        {".metadata.name": "de.mo"},
        "metadata.name must be a DNS label that starts with a letter",
    ),
    "a name that starts with a digit": (
        {".metadata.name": "1demo"},
        "metadata.name must be a DNS label that starts with a letter",
    ),
}
ACCEPTED_UPDATES: Final[Mapping[str, Change]] = {
    "a disk grows": {DISKS: [JOURNAL, LEDGER_0, LEDGER_1 | {"size": "3000Mi"}]},
    "a size in another unit": {DISKS: [JOURNAL | {"size": "1024Mi"}, LEDGER_0, LEDGER_1]},
    "replicas": {"replicas": 5},
    "the journal": {"journalWriteData": True},
    "the embedded ZooKeeper's resources": {
        "metadata": {"embedded": {"resources": {"requests": {"memory": "1Gi"}}}}
    },
}
REFUSED_UPDATES: Final[Mapping[str, tuple[Change, str]]] = {
    "a disk more": (
        {DISKS: [JOURNAL, LEDGER_0, LEDGER_1, LEDGER_1 | {"name": "ledger-2"}]},
        "number, order, name and role of disks cannot change",
    ),
    "a disk less": (
        {DISKS: [JOURNAL, LEDGER_0]},
        "number, order, name and role of disks cannot change",
    ),
    "another order": (
        {DISKS: [JOURNAL, LEDGER_1, LEDGER_0]},
        "number, order, name and role of disks cannot change",
    ),
    "another name": (
        {DISKS: [JOURNAL, LEDGER_0, LEDGER_1 | {"name": "spare"}]},
        "number, order, name and role of disks cannot change",
    ),
    "another role": (
        {DISKS: [JOURNAL | {"role": "ledger"}, LEDGER_0 | {"role": "journal"}, LEDGER_1]},
        "number, order, name and role of disks cannot change",
    ),
    "a smaller disk": (
        {DISKS: [JOURNAL, LEDGER_0, LEDGER_1 | {"size": "2047Mi"}]},
        "a disk's size can only grow",
    ),
    "another metadata store": (
        {"metadata": {"connect": CONNECT}},
        "metadata cannot change: the ledgers are known there",
    ),
    "a smaller embedded ZooKeeper": (
        {"metadata": {"embedded": {"size": "512Mi"}}},
        "metadata.embedded.size can only grow",
    ),
}
ACCEPTED_TASKS: Final[Mapping[str, Change]] = {
    "audit": {},
    "repair": {"type": "repair", "bookie": "bookie-1"},
    "repair of every ledger": {"type": "repair"},
    "replace-disk": {"type": "replace-disk", "bookie": "bookie-1", "disk": "ledger-0"},
    "approve-cookie-fix": {"type": "approve-cookie-fix", "bookie": "bookie-1", "planId": "p1"},
    "index-rebuild": {"type": "index-rebuild", "bookie": "bookie-1", "disk": "ledger-0"},
    "index-rebuild of all disks": {"type": "index-rebuild", "bookie": "bookie-1"},
    "rereplicate": {"type": "rereplicate"},
    "rereplicate a bookie of others": {"type": "rereplicate", "bookie": "10.0.0.7:3181"},
    "approve-collection": COLLECTION,
    "accept-loss": LOSS,
    "retract-loss": LOSS | {"type": "retract-loss"},
    "accept-loss of many": MANY,
    "a look at many": MANY | {"dryRun": True},
    "accept-loss of the greatest ledger": LOSS | {"ledger": 2**63 - 1},
}
REFUSED_TASKS: Final[Mapping[str, tuple[Change, str]]] = {
    "an unknown type": ({"type": "explode"}, '"repair"'),
    "index-rebuild of no bookie": ({"type": "index-rebuild"}, "bookie is needed by"),
    "replace no disk": ({"type": "replace-disk", "bookie": "bookie-1"}, "disk is needed"),
    "approve no plan": (
        {"type": "approve-cookie-fix", "bookie": "bookie-1"},
        "planId is needed: it names the fix that is approved",
    ),
    "approve a collection by nobody's word": (
        COLLECTION | {"approvedBy": None},
        "planId and approvedBy are needed: what is approved, and by whom",
    ),
    "lose no ledger": (
        LOSS | {"ledger": None},
        "reason and approvedBy are needed",
    ),
    "lose without a reason": (
        LOSS | {"reason": ""},
        "reason and approvedBy are needed",
    ),
    "lose on nobody's word": (
        LOSS | {"approvedBy": None},
        "reason and approvedBy are needed",
    ),
    "take back one entry": (
        LOSS | {"type": "retract-loss", "entry": 5},
        "entry is of accept-loss: all that is recorded of the ledger is taken back",
    ),
    "lose many and one": (MANY | {"ledger": 7}, "ledgers replaces ledger and entry"),
    "lose what nobody can read": (MANY | {"ledgers": "4-"}, "should match"),
    "a dry run of an audit": ({"dryRun": True}, "ledgers and dryRun are of accept-loss"),
    "lose a negative ledger": (LOSS | {"ledger": -1}, "should be greater than or equal to 0"),
    "no cluster": ({"cluster": None}, "spec.cluster: Required value"),
    "a cluster with a long name": ({"cluster": "d" * 41}, "may not be more than 40"),
    "a long name": ({".metadata.name": "t" * 41}, "metadata.name may have 40 characters at most"),
}


def kubectl(*words: str, stdin: object = None) -> "subprocess.CompletedProcess[str]":
    text = None if stdin is None else json.dumps(stdin)
    return subprocess.run(
        ["kubectl", *words], input=text, capture_output=True, text=True, timeout=60, check=False
    )


def answer(*words: str, stdin: object = None) -> str:
    done = kubectl(*words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def changed(manifest: Mapping[str, Any], change: Change) -> dict[str, Any]:
    tree = copy.deepcopy(dict(manifest))
    for path, value in change.items():
        steps = (path[1:] if path.startswith(".") else f"spec.{path}").split(".")
        node = tree
        for step in steps[:-1]:
            node = node.setdefault(step, {})
        node[steps[-1]] = value
        if value is None:
            del node[steps[-1]]
    return tree


def dry_run(verb: str, manifest: Mapping[str, Any], change: Change) -> tuple[bool, str]:
    done = kubectl(
        verb, "--dry-run=server", "-o", "name", "-f", "-", stdin=changed(manifest, change)
    )
    return done.returncode == 0, done.stderr


@pytest.fixture(scope="module", autouse=True)
def api_server() -> Iterator[None]:
    """The CRDs, and one paused cluster and one task in a namespace of their own."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH")
    context = kubectl("config", "current-context").stdout.strip()
    if not context.startswith("kind-"):
        pytest.skip(f"the context is {context or 'not set'!r}, expected one that starts with kind-")
    is_ours = kubectl("get", "-f", str(CRDS)).returncode != 0
    answer("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    answer("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=60s")
    answer("create", "namespace", NAMESPACE)
    answer("create", "-f", "-", stdin=CLUSTER)
    answer("create", "-f", "-", stdin=TASK)
    yield
    kubectl("delete", "namespace", NAMESPACE, "--timeout=60s")
    if is_ours:  # a chart that is installed later could not make them its own
        kubectl("delete", "-f", str(CRDS), "--timeout=60s")


def rows(table: Mapping[str, Any]) -> Sequence[Any]:
    return [pytest.param(row, id=name.replace(" ", "-")) for name, row in table.items()]


@pytest.mark.parametrize("name", sorted(path.stem for path in CRDS.glob("*.yaml")))
def test_the_api_server_finds_nothing_wrong_with_a_crd(name: str) -> None:
    wanted = yaml.safe_load((CRDS / f"{name}.yaml").read_text(encoding="utf-8"))
    crd = json.loads(answer("get", "crd", wanted["metadata"]["name"], "-o", "json"))
    found = {c["type"]: (c["status"], c["message"]) for c in crd["status"]["conditions"]}
    assert found["Established"][0] == "True" and found["NamesAccepted"][0] == "True"
    assert "NonStructuralSchema" not in found, found["NonStructuralSchema"]


@pytest.mark.parametrize("change", rows(ACCEPTED))
def test_a_good_cluster_is_accepted(change: Change) -> None:
    assert dry_run("create", changed(CLUSTER, OTHER), change) == (True, "")


@pytest.mark.parametrize("row", rows(REFUSED))
def test_a_bad_cluster_is_refused(row: tuple[Change, str]) -> None:
    change, message = row
    accepted, told = dry_run("create", changed(CLUSTER, OTHER), change)
    assert not accepted and message in told


@pytest.mark.parametrize("change", rows(ACCEPTED_UPDATES))
def test_a_good_change_is_accepted(change: Change) -> None:
    assert dry_run("replace", CLUSTER, change) == (True, "")


@pytest.mark.parametrize("row", rows(REFUSED_UPDATES))
def test_a_bad_change_is_refused(row: tuple[Change, str]) -> None:
    change, message = row
    accepted, told = dry_run("replace", CLUSTER, change)
    assert not accepted and message in told


@pytest.mark.parametrize("change", rows(ACCEPTED_TASKS))
def test_a_good_task_is_accepted(change: Change) -> None:
    assert dry_run("create", changed(TASK, OTHER), change) == (True, "")


@pytest.mark.parametrize("row", rows(REFUSED_TASKS))
def test_a_bad_task_is_refused(row: tuple[Change, str]) -> None:
    change, message = row
    accepted, told = dry_run("create", changed(TASK, OTHER), change)
    assert not accepted and message in told


def test_a_task_cannot_change() -> None:
    accepted, told = dry_run("replace", TASK, {"type": "repair", "bookie": "bookie-1"})
    assert not accepted and "a task cannot change: create another one" in told


def test_an_omitted_spec_field_gets_its_default_from_the_schema() -> None:
    spec = json.loads(answer("get", "bkc", "demo", "-n", NAMESPACE, "-o", "json"))["spec"]
    assert spec["quorum"] == {"ensemble": 3, "write": 3, "ack": 2}
    assert spec["ack"] == "memory" and spec["retention"]["whenDeleted"] == "Retain"


@pytest.mark.parametrize("name", ["bookieclusters", "bookiecluster", "bkc", "bookkeeper"])
def test_a_cluster_is_found_by_short_name_and_category(name: str) -> None:
    assert "/demo" in answer("get", name, "-n", NAMESPACE, "-o", "name")


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("bkc", "NAME PHASE READY REPLICAS LIMBO UNCHECKED AVAILABLE VERIFIED AGE"),
        ("bkt", "NAME TYPE CLUSTER BOOKIE PHASE AGE"),
    ],
)
def test_the_columns_tell_how_it_goes(kind: str, columns: str) -> None:
    header = answer("get", kind, "-n", NAMESPACE).splitlines()[0]
    assert " ".join(header.split()) == columns


def scale(replicas: int) -> "subprocess.CompletedProcess[str]":
    return kubectl(
        *("scale", "bkc/demo", "-n", NAMESPACE, f"--replicas={replicas}", "--dry-run=server")
    )


def test_kubectl_scale_changes_the_replicas() -> None:
    assert scale(5).returncode == 0


def test_kubectl_scale_is_held_to_the_rules() -> None:
    done = scale(2)
    assert done.returncode != 0 and "replicas must be at least quorum.ensemble" in done.stderr


def patched_status(patch: Mapping[str, Any], *words: str) -> dict[str, Any]:
    words = ("patch", "bkc", "demo", "-n", NAMESPACE, "--type=merge", "-o", "json", *words)
    found = answer(*words, "--dry-run=server", "-p", json.dumps(patch))
    tree: dict[str, Any] = json.loads(found)
    return tree


def test_status_is_a_subresource_that_leaves_the_spec_alone() -> None:
    patch = {"status": {"phase": "Running", "replicas": 4}, "spec": {"replicas": 9}}
    found = patched_status(patch, "--subresource=status")
    assert found["status"]["phase"] == "Running" and found["spec"]["replicas"] == 4


def test_a_person_cannot_write_status_beside_the_spec() -> None:
    assert patched_status({"status": {"phase": "Fine"}}).get("status", {}).get("phase") != "Fine"
