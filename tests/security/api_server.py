"""Attacks on the API server with the token of a pod's account, by HTTP alone.

What would make, change or delete something is a dry run: the API server's authorization and its
policies rule on that as on anything else, and a line that is red leaves nothing behind.
"""

import base64
import contextlib
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from catalogue import Attack
from strangers import Attacker

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SERVER: Final = "https://kubernetes.default.svc"
GROUP: Final = "bookkeeper.bookie-operator.dev"
FORBIDDEN: Final = 403
RBAC: Final = "cannot "
"""In the words of a refusal by rights."""
POLICY: Final = "ValidatingAdmissionPolicy"
DRY: Final = "?dryRun=All"
WAIT_S: Final = 20.0
LINE: Final = "API server"


@dataclass(frozen=True, slots=True)
class Names:
    """What is attacked."""

    namespace: str
    elsewhere: str
    """Another namespace, which is none of the operator's."""
    cluster: str

    @property
    def core(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    @property
    def ours(self) -> str:
        return f"/apis/{GROUP}/v1alpha1/namespaces/{self.namespace}"


def ask(method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, str]:
    """Code and words of the answer, as this pod's account."""
    patch = "application/merge-patch+json" if method == "PATCH" else "application/json"
    headers = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}", "Content-Type": patch}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(SERVER + path, data, headers, method=method)
    context = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S, context=context) as answer:
            return int(answer.status), "answered"
    except urllib.error.HTTPError as error:
        text = error.read().decode("utf-8", "replace")
        with contextlib.suppress(ValueError):
            text = str(json.loads(text).get("message", text))
        return int(error.code), text


def tried(method: str, path: str, body: Mapping[str, Any] | None, right: str) -> tuple[bool, str]:
    """Refused: with 403, and by what should refuse it."""
    code, words = ask(method, path, body)
    return code == FORBIDDEN and right in words, f"{code} {words}"


def attack(
    who: Attacker,
    what: str,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    right: str = RBAC,
    must_work: bool = False,
) -> Attack:
    return Attack(LINE, who, what, partial(tried, method, path, body, right), must_work)


def by_anyone(who: Attacker, names: Names) -> Iterator[Attack]:
    """What nobody's account of the fleet, nor of an application beside it, may do."""
    bookie, secrets = f"{names.cluster}-bookie-0", f"{names.core}/secrets"
    yield attack(who, "list secrets", "GET", secrets)
    yield attack(who, "read the authority's key", "GET", f"{secrets}/{names.cluster}-ca")
    yield attack(who, "read the job's key", "GET", f"{secrets}/{names.cluster}-job-tls")
    run = f"{names.core}/pods/{bookie}-0/exec?command=id&stdout=true"
    yield attack(who, "exec in a bookie", "POST", run)
    paused = {"spec": {"paused": True}}
    path = f"{names.ours}/bookieclusters/{names.cluster}{DRY}"
    yield attack(who, "pause the cluster", "PATCH", path, paused)
    yield attack(who, "accept a loss", "POST", f"{names.ours}/bookietasks{DRY}", task(names, LOSS))
    sets = f"/apis/apps/v1/namespaces/{names.namespace}/statefulsets/{bookie}{DRY}"
    yield attack(who, "delete a bookie's set", "DELETE", sets)


def by_who_makes_no_pods(who: Attacker, names: Names) -> Iterator[Attack]:
    yield from by_anyone(who, names)
    yield attack(who, "make a pod", "POST", f"{names.core}/pods{DRY}", executor(names))
    path = f"{names.core}/pods/{names.cluster}-bookie-0-0{DRY}"
    yield attack(who, "delete a bookie's pod", "DELETE", path)


def by_driver(who: Attacker, names: Names) -> Iterator[Attack]:
    """With the one account of a fleet that makes pods: executors, and nothing else."""
    yield from by_anyone(who, names)
    pods = f"{names.core}/pods"
    good = executor(names)
    yield attack(who, "make an executor", "POST", pods + DRY, good, must_work=True)
    for what, change in (
        ("mount the authority", volume(good, secret={"secretName": f"{names.cluster}-ca"})),
        ("mount a bookie's disk", volume(good, persistentVolumeClaim=claim(names))),
        ("mount the node", volume(good, hostPath={"path": "/"})),
        ("take another's token", spec(good, automountServiceAccountToken=True)),
        ("run as a driver", spec(good, serviceAccountName=f"{names.cluster}-spark-driver")),
        ("run as a bookie", labels(good, "bookie")),
        ("take the node's network", spec(good, hostNetwork=True)),
    ):
        yield attack(who, what, "POST", pods + DRY, change, right=POLICY)
    path = f"{pods}/{names.cluster}-bookie-0-0{DRY}"
    yield attack(who, "delete a bookie's pod", "DELETE", path, right=POLICY)


def by_editor(who: Attacker, names: Names) -> Iterator[Attack]:
    """Who may change BookieClusters and BookieTasks, and make no pods and decide nothing."""
    path = f"{names.ours}/bookieclusters/{names.cluster}{DRY}"
    flush = {"spec": {"flushIntervalSeconds": 20}}
    yield attack(who, "flush less often", "PATCH", path, flush, must_work=True)
    account = {"serviceAccountName": f"{names.cluster}-spark-driver"}
    loot = {"name": "loot", "secret": {"secretName": f"{names.cluster}-ca"}}
    for what, change in (
        ("jobPod: an account", {"jobPod": account}),
        ("jobPod: a secret", {"jobPod": {"volumes": [loot]}}),
        ("executorPod: a secret", {"executorPod": {"volumes": [loot]}}),
        ("bookiePod: an account", {"bookiePod": account}),
        ("zookeeperPod: an account", {"zookeeperPod": account}),
        ("delete data at the end", {"retention": {"whenDeleted": "Delete"}}),
    ):
        yield attack(who, what, "PATCH", path, {"spec": change}, right=POLICY)
    tasks = f"{names.ours}/bookietasks{DRY}"
    audit = task(names, {"type": "audit"})
    yield attack(who, "ask for an audit", "POST", tasks, audit, must_work=True)
    for what, wanted in (
        ("accept a loss", LOSS),
        ("approve a cookie fix", FIX),
        ("ask in ann's name", {"type": "audit", "approvedBy": "ann"}),
    ):
        yield attack(who, what, "POST", tasks, task(names, wanted), right=POLICY)


def by_operator(who: Attacker, names: Names) -> Iterator[Attack]:
    """Somebody in the operator's pod: its reach ends at the namespaces that it has."""
    own = f"{names.core}/secrets/{names.cluster}-ca"
    yield attack(who, "read its authority's key", "GET", own, must_work=True)
    yield attack(who, "list secrets", "GET", f"{names.core}/secrets")
    run = f"{names.core}/pods/{names.cluster}-bookie-0-0/exec?command=id&stdout=true"
    yield attack(who, "exec in a bookie", "POST", run)
    for namespace in (names.elsewhere, "kube-system"):
        away = f"/api/v1/namespaces/{namespace}"
        body = spec(executor(names), serviceAccountName="default")
        body["metadata"] = {**body["metadata"], "namespace": namespace}
        yield attack(who, f"make a pod in {namespace}", "POST", f"{away}/pods{DRY}", body)
        yield attack(who, f"secrets of {namespace}", "GET", f"{away}/secrets/any")


Body = dict[str, Any]


LOSS: Final = {"type": "accept-loss", "ledger": 7, "reason": "an attack"}
FIX: Final = {"type": "approve-cookie-fix", "bookie": "bookie-0", "planId": "71ec255cbc1f"}


def task(names: Names, wanted: Mapping[str, Any]) -> Body:
    """Asked in the name of who asks."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "BookieTask",
        "metadata": {"name": "attack", "namespace": names.namespace},
        "spec": {"cluster": names.cluster, "approvedBy": account_name(), **wanted},
    }


def account_name() -> str:
    """As the API server knows this pod's account."""
    payload = (ACCOUNT / "token").read_text().split(".")[1]
    found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return str(found["sub"])


def executor(names: Names) -> Body:
    """A pod as Spark's driver makes it."""
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "attack",
            "namespace": names.namespace,
            "labels": {f"{GROUP}/component": "executor", f"{GROUP}/cluster": names.cluster},
        },
        "spec": {
            "serviceAccountName": f"{names.cluster}-repair",
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{"name": "executor", "image": "any:1", "securityContext": security}],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }


def spec(body: Body, **fields: Any) -> Body:
    return {**body, "spec": {**body["spec"], **fields}}


def volume(body: Body, **source: Any) -> Body:
    return spec(body, volumes=[*body["spec"]["volumes"], {"name": "loot", **source}])


def labels(body: Body, component: str) -> Body:
    found = {**body["metadata"]["labels"], f"{GROUP}/component": component}
    return {**body, "metadata": {**body["metadata"], "labels": found}}


def claim(names: Names) -> Body:
    return {"claimName": f"{names.cluster}-bookie-0-ledger-0"}
