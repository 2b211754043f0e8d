"""What the chart's admission policies let through, as an API server judges them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from bookie.pods import executor_template
from bookie_operator.model.base import GROUP
from bookie_operator.model.task import TaskType
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.bookies import ADMIN_PORT
from cel_rules import ADDED, meant
from helm_charts import OPERATOR, Object, of_kind, render
from kubernetes_lab import B0

DECISIONS = {
    TaskType.ACCEPT_LOSS,
    TaskType.RETRACT_LOSS,
    TaskType.APPROVE_COOKIE_FIX,
    TaskType.APPROVE_COLLECTION,
}
DRIVER = f"system:serviceaccount:fleet:{names.driver_account('demo')}"
SOME = "--set=watchNamespaces={one,two}"


DECIDE = "create bookkeeper.bookie-operator.dev/bookietasks/decision in fleet"
MAKE_PODS = "create /pods in fleet"


def authorizer(*allowed: str) -> dict[str, Callable[..., Any]]:
    """The authorizer of a request: its calls put together what is asked, `allowed` has the ayes."""
    return ADDED | {
        "group": lambda _whole, name: name,
        "resource": lambda asked, name: f"{asked}/{name}",
        "subresource": lambda asked, name: f"{asked}/{name}",
        "namespace": lambda asked, name: f"{asked} in {name}",
        "check": lambda asked, verb: f"{verb} {asked}",
        "allowed": lambda asked: asked in allowed,
    }


def policy_of(end: str) -> Object:
    found = of_kind(render(OPERATOR), "ValidatingAdmissionPolicy")
    [policy] = [one for one in found if one["metadata"]["name"].endswith(f"-{end}")]
    return policy


@pytest.fixture(scope="module")
def policies() -> dict[str, Object]:
    return {end: policy_of(end) for end in ("decisions", "retention", "executors", "overlays")}


def is_let_in(
    policy: Object,
    *,
    by: str = "ann",
    made: Object | None = None,
    before: Object | None = None,
    rights: tuple[str, ...] = (),
) -> bool:
    """Whether this object may be made, changed, or deleted (`made` None)."""
    operation = "DELETE" if made is None else "UPDATE" if before is not None else "CREATE"
    [rule] = policy["spec"]["matchConstraints"]["resourceRules"]
    who = {"username": by}
    request = {"operation": operation, "namespace": "fleet", "userInfo": who}
    known: dict[str, Any] = {"request": request, "object": made, "oldObject": before}
    known["authorizer"] = "authorizer"
    judged = partial(meant, functions=authorizer(*rights), **known)
    conditions = policy["spec"].get("matchConditions", ())
    is_matched = all(judged(one["expression"]) for one in conditions)
    if operation not in rule["operations"] or not is_matched:
        return True
    variables: Object = {}
    for one in policy["spec"].get("variables", ()):
        variables[one["name"]] = judged(one["expression"], variables=variables)
    checks = [one["expression"] for one in policy["spec"]["validations"]]
    return all(judged(one, variables=variables) for one in checks)


@pytest.mark.parametrize(
    ("end", "group", "resource", "operations"),
    [
        ("decisions", GROUP, "bookietasks", ["CREATE"]),
        ("retention", GROUP, "bookieclusters", ["CREATE", "UPDATE"]),
        ("executors", "", "pods", ["CREATE", "DELETE"]),
        ("overlays", GROUP, "bookieclusters", ["CREATE", "UPDATE"]),
    ],
)
def test_a_policy_is_asked_of_every_version_of_its_resource_and_silence_is_a_no(
    policies: dict[str, Object], end: str, group: str, resource: str, operations: list[str]
) -> None:
    spec = policies[end]["spec"]
    asked = {"apiGroups": [group], "apiVersions": ["*"], "resources": [resource]}
    assert spec["matchConstraints"] == {"resourceRules": [asked | {"operations": operations}]}
    assert spec["failurePolicy"] == "Fail"


@pytest.mark.parametrize("values", [(), (SOME,)], ids=str)
def test_every_policy_is_in_force_and_refuses(values: tuple[str, ...]) -> None:
    """Without a binding nothing is judged, and one that only audits refuses nobody."""
    objects = render(OPERATOR, *values)
    made = [one["metadata"]["name"] for one in of_kind(objects, "ValidatingAdmissionPolicy")]
    bindings = [one["spec"] for one in of_kind(objects, "ValidatingAdmissionPolicyBinding")]
    assert sorted(one["policyName"] for one in bindings) == sorted(made)
    assert all(one["validationActions"] == ["Deny", "Audit"] for one in bindings)


@pytest.mark.parametrize("kind", TaskType)
@pytest.mark.parametrize("named", ["", "ann", "bob"])
@pytest.mark.parametrize("rights", [(), (DECIDE,)])
def test_a_decision_takes_its_own_right_and_ones_own_name(
    policies: dict[str, Object], kind: TaskType, named: str, rights: tuple[str, ...]
) -> None:
    spec = {"cluster": "demo", "type": kind.value} | ({"approvedBy": named} if named else {})
    decides = kind in DECISIONS
    is_expected = (named == "ann" or (not named and not decides)) and (not decides or bool(rights))
    found = is_let_in(policies["decisions"], made={"spec": spec}, rights=rights)
    assert found is is_expected


@pytest.mark.parametrize("was", [None, {}, {"whenDeleted": "Retain"}, {"whenDeleted": "Delete"}])
@pytest.mark.parametrize("now", [{}, {"whenDeleted": "Retain"}, {"whenDeleted": "Delete"}])
@pytest.mark.parametrize("rights", [(), (DECIDE,)])
def test_to_have_volumes_deleted_takes_the_right_to_decide(
    policies: dict[str, Object], was: Object | None, now: Object, rights: tuple[str, ...]
) -> None:
    before = None if was is None else {"spec": {"retention": was}}
    made = {"spec": {"retention": now}}
    begins = now == {"whenDeleted": "Delete"} and was != now
    found = is_let_in(policies["retention"], made=made, before=before, rights=rights)
    assert found is (not begins or bool(rights))


def executor(**pod: Any) -> Object:
    """A pod as a driver of `demo` makes it."""
    spec = executor_template()["spec"] | {
        "serviceAccountName": names.repair_account("demo"),
        "automountServiceAccountToken": False,
    }
    return {
        "metadata": {"name": "exec-1", "labels": names.selector("demo", names.EXECUTOR)},
        "spec": spec | pod,
    }


SAFE = executor()["spec"]["containers"][0]
SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}
ODD_CONTAINERS: list[Object] = [
    {"env": [{"name": "A", "valueFrom": SECRET}]},
    {"envFrom": [{"secretRef": {"name": "s"}}]},
    {"securityContext": {"allowPrivilegeEscalation": True}},
    {"securityContext": {}},
]
ODD_PODS: list[Object] = [
    *({part: [SAFE, SAFE | odd]} for part in ("containers", "initContainers")
      for odd in ODD_CONTAINERS),
    *({part: True} for part in ("hostNetwork", "hostPID", "hostIPC")),
    {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]},
    {"volumes": [{"name": "x", "secret": {"secretName": "demo-operator-tls"}}]},
    {"volumes": [{"name": "x", "projected": {"sources": []}}]},
    {"serviceAccountName": "demo-bookie"},
    {"serviceAccountName": "other-repair"},
    {"automountServiceAccountToken": True},
]  # fmt: skip
GOOD_PODS: list[Object] = [
    {},
    {"initContainers": [SAFE | {"env": [{"name": "A", "value": "b"}]}]},
    {"volumes": [{"name": "x", "emptyDir": {}}, {"name": "y", "configMap": {"name": "y"}}]},
    *({"volumes": [{"name": "x", "secret": {"secretName": name}}]}
      for name in ("demo-job-tls", "demo-zookeeper-login")),
]  # fmt: skip


@pytest.mark.parametrize("pod", [*GOOD_PODS, *ODD_PODS], ids=str)
def test_a_driver_makes_executors_and_nothing_that_has_more(
    policies: dict[str, Object], pod: Object
) -> None:
    made = executor(**pod)
    assert is_let_in(policies["executors"], by=DRIVER, made=made) is (pod in GOOD_PODS)
    assert is_let_in(policies["executors"], by="ann", made=made), "others have rights of their own"


@pytest.mark.parametrize(
    ("labels", "is_own"),
    [
        (names.selector("demo", names.EXECUTOR), True),
        (names.selector("other", names.EXECUTOR), False),
        (names.labels("demo", names.BOOKIE, bookie=B0), False),
        ({}, False),
    ],
)
def test_a_driver_makes_and_deletes_executors_of_its_own_cluster_alone(
    policies: dict[str, Object], labels: dict[str, str], is_own: bool
) -> None:
    pod = executor()
    pod["metadata"]["labels"] = labels
    assert is_let_in(policies["executors"], by=DRIVER, made=pod) is is_own
    assert is_let_in(policies["executors"], by=DRIVER, before=pod) is is_own


@pytest.mark.parametrize("part", ["bookiePod", "zookeeperPod", "jobPod", "executorPod", "image"])
@pytest.mark.parametrize("before", [None, {}, {"a": "1"}, {"a": "2"}])
@pytest.mark.parametrize("rights", [(), (MAKE_PODS,)])
def test_what_is_added_to_pods_is_changed_by_those_who_may_make_pods(
    policies: dict[str, Object], part: str, before: Object | None, rights: tuple[str, ...]
) -> None:
    made = {"spec": {part: {"a": "1"}}}
    was = None if before is None else {"spec": {part: before} if before else {}}
    is_change = part != "image" and before != {"a": "1"}
    found = is_let_in(policies["overlays"], made=made, before=was, rights=rights)
    assert found is (not is_change or bool(rights))


def test_the_operators_own_network_policy_lets_it_reach_control_planes() -> None:
    [policy] = of_kind(render(OPERATOR, "--set=networkPolicy.enabled=true"), "NetworkPolicy")
    [rule] = [one for one in policy["spec"]["egress"] if "to" in one]
    [peer] = rule["to"]
    assert rule["ports"] == [{"port": ADMIN_PORT, "protocol": "TCP"}]
    chosen = peer["podSelector"]["matchLabels"].items()
    assert chosen <= names.labels("demo", names.BOOKIE, bookie=B0).items()


@pytest.mark.parametrize(("values", "where"), [((), []), ((SOME,), ["one", "two"])])
def test_the_check_before_an_uninstall_looks_only_where_the_operator_does(
    values: tuple[str, ...], where: list[str]
) -> None:
    objects = render(OPERATOR, *values)
    found = {kind: [one["metadata"] for one in of_kind(objects, kind)
                    if one["metadata"]["name"].endswith("-uninstall-check")]
             for kind in ("RoleBinding", "ClusterRoleBinding")}  # fmt: skip
    assert [one["namespace"] for one in found["RoleBinding"]] == where
    assert len(found["ClusterRoleBinding"]) == (not where)
