"""The rules of the CRDs in CEL, as an API server applies them, say what the models say."""

from collections.abc import Iterator
from typing import Any

import pytest
from bookie_operator.errors import ManifestError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.crd import definitions
from bookie_operator.model.pod_overlay import OWN_CONTAINERS, OWN_PATHS, OWN_VOLUMES
from bookie_operator.model.task import BookieTask, TaskType
from bookie_operator.model.transition import check_transition
from cel_rules import Schema, broken, with_defaults
from operator_scenes import DISKS, manifest
from pydantic import ValidationError

Tree = dict[str, Any]
JOURNAL, LEDGER_0, LEDGER_1 = (disk | {"size": "20Gi"} for disk in DISKS)
PODS = ("bookiePod", "zookeeperPod", "jobPod", "executorPod")
ZK, ZKS = "zk://zk:2181/ledgers", "zks://zk:2281/ledgers"


def schema_of(name: str) -> Schema:
    version = definitions()[name]["spec"]["versions"][0]
    found: Schema = version["schema"]["openAPIV3Schema"]
    return found


CLUSTER, TASK = schema_of("bookiecluster.yaml"), schema_of("bookietask.yaml")


def rules_in(schema: Any) -> Iterator[str]:
    for one in schema.get("x-kubernetes-validations", ()):
        yield one["rule"]
    for part in (*schema.get("properties", {}).values(), schema.get("items"), None):
        yield from rules_in(part) if part is not None else ()


def modes(**rest: Any) -> list[Tree]:
    return [rest | {"tls": {"mode": mode}} for mode in ("Off", "Accepted", "Required")]


def overlays() -> Iterator[Tree]:
    names = {
        "sidecars": [*OWN_CONTAINERS, "mesh"],
        "initContainers": [*OWN_CONTAINERS, "mesh"],
        "volumes": [*OWN_VOLUMES, "disk-0", "mine"],
        "env": ["BOOKIE_METADATA", "MINE"],
    }
    for pod in PODS:
        for part, listed in names.items():
            yield from ({pod: {part: [{"name": name}]}} for name in listed)
        for part in ("labels", "annotations"):
            for key in ("bookkeeper.bookie-operator.dev/component", "team"):
                yield {pod: {part: {key: "x"}}}
        for path in (*OWN_PATHS, *(f"{own}/x" for own in OWN_PATHS), "/database", "/mine"):
            yield {pod: {"volumeMounts": [{"name": "mine", "mountPath": path}]}}


SPECS: list[Tree] = [
    {},
    {"replicas": 2},
    {"replicas": 3},
    *({"replicas": 99, "excludedOrdinals": list(range(count))} for count in (1, 2)),
    *(
        {"ack": ack, "journalWriteData": journal, "quorum": {"ensemble": 3, "write": 3, "ack": of}}
        for ack in ("memory", "sync")
        for journal in (True, False)
        for of in (1, 2)
    ),
    *({"quorum": {"ensemble": 3, "write": w, "ack": a}} for w, a in ((4, 2), (3, 3), (2, 3))),
    *modes(authentication={"mechanisms": ["tls"]}),
    *modes(authentication={"mechanisms": ["digest-md5"], "usersSecret": "users"}),
    *modes(metadata={"connect": ZK}),
    *modes(metadata={"connect": ZKS}),
    {"authentication": {"mechanisms": ["digest-md5"]}},
    {"authentication": {"mechanisms": ["tls"], "usersSecret": "users"}},
    {"metadata": {}},
    {"metadata": {"embedded": {}, "connect": ZK}},
    {"metadata": {"embedded": {}, "credentialsSecret": "login"}},
    {"metadata": {"connect": ZK, "credentialsSecret": "login"}},
    *(
        {"storage": {"disks": disks}}
        for disks in ([LEDGER_0], [JOURNAL, JOURNAL | {"name": "two"}, LEDGER_0], [JOURNAL] * 2,
                      [JOURNAL, LEDGER_0, LEDGER_0], [JOURNAL, LEDGER_0, LEDGER_1])
    ),
    *({"external": {"type": kind, "advertisedHost": host}}
      for kind in ("NodePort", "LoadBalancer") for host in ("one", "{bookie}.example")),
    *({"external": {"type": kind, "sourceRanges": ["10.0.0.0/8"]}}
      for kind in ("NodePort", "LoadBalancer")),
    *({"tls": {"lifetimeDays": 60, "renewBeforeDays": days}} for days in (59, 60)),
    *({"tls": {"lifetimeDays": 60, "authorityDays": days}} for days in (119, 120)),
    *({"flushIntervalSeconds": seconds} for seconds in (0.05, 0.1)),
    *({"repair": {"backoffSeconds": seconds}} for seconds in (0.05, 0.1)),
    *({"repair": {"backoffMaxSeconds": seconds}} for seconds in (0.05, 0.1)),
    *overlays(),
]  # fmt: skip
SIGNED: list[Tree] = [{}, {"issuer": {"name": "a"}}, {"issuer": {"name": "b"}}]
CHANGES: list[tuple[Tree, Tree]] = [
    *(
        ({"tls": {"mode": old, **was}}, {"tls": {"mode": new, **now}})
        for old in ("Off", "Accepted", "Required")
        for new in ("Off", "Accepted", "Required")
        for was in SIGNED[:2]
        for now in SIGNED
    ),
    *(
        ({"metadata": was}, {"metadata": now})
        for was in ({"embedded": {}}, {"connect": ZK}, {"embedded": {"size": "9Gi"}})
        for now in ({"embedded": {}}, {"connect": ZK}, {"connect": f"{ZK}2"},
                    {"embedded": {"size": "9Gi"}}, {"embedded": {"storageClass": "fast"}})
    ),
    *(
        ({"storage": {"disks": [JOURNAL, LEDGER_0]}}, {"storage": {"disks": disks}})
        for disks in ([JOURNAL, LEDGER_0], [LEDGER_0, JOURNAL], [JOURNAL, LEDGER_1],
                      [JOURNAL, LEDGER_0, LEDGER_1], [JOURNAL, LEDGER_0 | {"size": "19Gi"}],
                      [JOURNAL, LEDGER_0 | {"size": "1Ti"}], [JOURNAL | {"size": "9Gi"}, LEDGER_0])
    ),
]  # fmt: skip
ASKED: list[Tree] = [
    {"cluster": "demo", "type": kind.value} | fields
    for kind in TaskType
    for fields in (
        {},
        {"bookie": "bookie-0"},
        {"bookie": "bookie-0", "planId": "p"},
        {"bookie": "bookie-0", "planId": "p", "approvedBy": "ann"},
        {"bookie": "bookie-0", "disk": "ledger-0"},
        {"ledger": 4},
        {"ledger": 4, "reason": "r"},
        {"ledger": 4, "approvedBy": "ann"},
        {"reason": "r", "approvedBy": "ann"},
        *(
            {"bookie": "", "reason": "r", "approvedBy": "ann"} | which
            for which in ({"ledger": 4}, {"ledgers": "4-9"}, {"ledger": 4, "entry": 7},
                          {"ledger": 4, "ledgers": "4"}, {"ledgers": "4", "entry": 7},
                          {"ledgers": "4", "dryRun": True}, {"ledger": 4, "dryRun": True})
        ),
    )
]  # fmt: skip
NAMES = ("demo", "d", "d" * 40, "d" * 41, "9demo", "de.mo", "Demo", "demo-")


def refusals(schema: Schema, tree: Tree, old: Tree | None = None) -> list[str]:
    before = None if old is None else with_defaults(schema, old)
    return list(broken(schema, with_defaults(schema, tree), before))


def named(name: str) -> Tree:
    made = manifest()
    return made | {"metadata": {"name": name}}


def is_valid(model: type[BookieCluster | BookieTask], tree: Tree) -> bool:
    try:
        model.model_validate(tree)
    except ValidationError:
        return False
    return True


def may_become(old: Tree, new: Tree) -> bool:
    was, now = (BookieCluster.model_validate(one).spec for one in (old, new))
    try:
        check_transition(was, now)
    except ManifestError:
        return False
    return True


def task_of(spec: Tree) -> Tree:
    kind = {"apiVersion": manifest()["apiVersion"], "kind": "BookieTask"}
    return kind | {"metadata": {"name": "task-1"}, "spec": spec}


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_spec_is_refused_by_both_or_by_neither(spec: Tree) -> None:
    tree = manifest(**spec)
    found = refusals(CLUSTER, tree)
    assert (found == []) is is_valid(BookieCluster, tree), found


@pytest.mark.parametrize(("old", "new"), CHANGES, ids=str)
def test_a_change_is_refused_by_both_or_by_neither(old: Tree, new: Tree) -> None:
    was, now = manifest(**old), manifest(**new)
    found = refusals(CLUSTER, now, was)
    assert (found == []) is may_become(was, now), found


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_refused_by_both_or_by_neither(name: str) -> None:
    assert (refusals(CLUSTER, named(name)) == []) is is_valid(BookieCluster, named(name))


@pytest.mark.parametrize("spec", ASKED, ids=str)
def test_a_task_is_refused_by_both_or_by_neither(spec: Tree) -> None:
    found = refusals(TASK, task_of(spec))
    assert (found == []) is is_valid(BookieTask, task_of(spec)), found
    other = task_of(spec | {"ttlSecondsAfterFinished": 60})
    assert "self == oldSelf" in refusals(TASK, other, task_of(spec))


def test_each_rule_refuses_something_here() -> None:
    refused = {rule for spec in SPECS for rule in refusals(CLUSTER, manifest(**spec))}
    for old, new in CHANGES:
        refused |= set(refusals(CLUSTER, manifest(**new), manifest(**old)))
    refused |= {rule for name in NAMES for rule in refusals(CLUSTER, named(name))}
    for spec in ASKED:
        refused |= set(refusals(TASK, task_of(spec)))
    wanted = {*rules_in(CLUSTER), *rules_in(TASK)} - {"self == oldSelf"}
    assert wanted - refused == set()
