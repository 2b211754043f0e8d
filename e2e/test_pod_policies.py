"""What a Spark driver's account may do with pods, and who may add to pods, as a real API server
rules on it by the chart's policies.

Everything is a server-side dry run, so it needs no operator and no image.
"""

import copy
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from bookie.repair.engine.driver_pod import DriverPod, executor_pod

pytestmark = pytest.mark.usefixtures("cluster")

ROOT: Final = Path(__file__).parents[1]
NAMESPACE: Final = "pod-policies"
GROUP: Final = "bookkeeper.bookie-operator.dev"
DRIVER: Final = f"system:serviceaccount:{NAMESPACE}:demo-spark-driver"
POLLS: Final = 100
POLL_S: Final = 0.2
SECURITY: Final = {"allowPrivilegeEscalation": False}
SECRET: Final = {"secretKeyRef": {"name": "other", "key": "password"}}
EXECUTOR: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "exec-1",
        "namespace": NAMESPACE,
        "labels": {f"{GROUP}/component": "executor", f"{GROUP}/cluster": "demo"},
    },
    "spec": {
        "serviceAccountName": "demo-repair",
        "automountServiceAccountToken": False,
        "containers": [{"name": "executor", "image": "repair:1", "securityContext": SECURITY}],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "tls", "secret": {"secretName": "demo-job-tls"}},
            {"name": "login", "secret": {"secretName": "demo-zookeeper-login"}},
        ],
    },
}
CLUSTER: Final[dict[str, Any]] = {
    "apiVersion": f"{GROUP}/v1alpha1",
    "kind": "BookieCluster",
    "metadata": {"name": "demo", "namespace": NAMESPACE},
    "spec": {
        "metadata": {"embedded": {}},
        "storage": {
            "disks": [
                {"name": "journal", "role": "journal", "size": "1Gi"},
                {"name": "ledger-0", "role": "ledger", "size": "1Gi"},
            ]
        },
    },
}
Change = Callable[[dict[str, Any]], Any]


def kubectl(*words: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["kubectl", *words], input=text, capture_output=True, text=True, check=False
    )


def done(*words: str, text: str = "") -> str:
    made = kubectl(*words, text=text)
    assert made.returncode == 0, made.stderr
    return made.stdout


def asked(user: str, body: dict[str, Any], verb: str = "create", *more: str) -> str:
    """What the API server says against it; empty = nothing."""
    words = (verb, "--dry-run=server", "--filename=-", f"--as={user}", *more)
    made = kubectl(*words, text=json.dumps(body))
    return "" if made.returncode == 0 else made.stderr


def changed(body: dict[str, Any], change: Change) -> dict[str, Any]:
    made = copy.deepcopy(body)
    change(made)
    return made


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(POLLS):
        if is_so():
            return
        time.sleep(POLL_S)
    raise AssertionError("it has not become so")


def until_refused(user: str, body: dict[str, Any]) -> None:
    """A policy counts a moment after it was made."""
    until(lambda: "ValidatingAdmissionPolicy" in asked(user, body))


def more(**spec: Any) -> Change:
    return lambda body: body["spec"].update(spec)


def in_container(**fields: Any) -> Change:
    return lambda body: body["spec"]["containers"][0].update(fields)


def volume(**source: Any) -> Change:
    return lambda body: body["spec"]["volumes"].append({"name": "more"} | source)


@pytest.fixture(scope="module", autouse=True)
def policies() -> Iterator[None]:
    """The CRDs, the policies, a driver's account with its role, ann and jo, who change clusters."""
    done("apply", "--server-side", "--force-conflicts", f"--filename={ROOT / 'crds'}")
    kubectl("create", "namespace", NAMESPACE)
    until(lambda: not asked("admin", CLUSTER, "apply", "--as-group=system:masters"))
    version = json.loads(done("version", "--output=json"))["serverVersion"]["gitVersion"]
    rendered = subprocess.run(
        ["helm", "template", "demo", str(ROOT / "charts" / "bookie-operator"),
         f"--namespace={NAMESPACE}", f"--kube-version={version}",
         "--show-only=templates/pod-policies.yaml", f"--set=watchNamespaces={{{NAMESPACE}}}"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    done("apply", "--filename=-", text=rendered)
    on = f"--namespace={NAMESPACE}"
    for account in ("demo-spark-driver", "demo-repair"):
        done("create", "serviceaccount", account, on)
    done("create", "role", "driver", "--verb=create,delete,get", "--resource=pods", on)
    # ann may make pods as well, as the role edit allows.
    users = (f"--serviceaccount={NAMESPACE}:demo-spark-driver", "--user=ann")
    done("create", "rolebinding", "driver", "--role=driver", *users, on)
    verbs = "--verb=create,get,update,patch"
    done("create", "role", "clusters", verbs, f"--resource=bookieclusters.{GROUP}", on)
    done("create", "rolebinding", "clusters", "--role=clusters", "--user=ann", "--user=jo", on)
    until_refused(DRIVER, changed(EXECUTOR, more(serviceAccountName="default")))
    until_refused("jo", changed(CLUSTER, more(jobPod={"serviceAccountName": "default"})))
    yield
    kubectl("delete", "--filename=-", "--wait=false", text=rendered)
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")


# Spark's driver


def test_a_driver_makes_executors() -> None:
    assert asked(DRIVER, EXECUTOR) == ""


def test_a_driver_may_make_the_pod_by_which_it_asks_why_it_has_no_executors() -> None:
    names = {"name": "demo-bookie-1-1-1-x", "namespace": NAMESPACE, "cluster": "demo"}
    driver = DriverPod("", "", image="repair:1", service_account="demo-repair", **names)
    made = executor_pod(driver)
    made["metadata"]["namespace"] = NAMESPACE  # where the product posts it to
    assert asked(DRIVER, made) == ""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda body: body["metadata"].pop("labels"), "has not their labels"),
        (lambda body: body["metadata"]["labels"].update({f"{GROUP}/cluster": "x"}), "labels"),
        (lambda body: body["metadata"]["labels"].update({f"{GROUP}/component": "bookie"}), "label"),
        (more(serviceAccountName="demo-spark-driver"), "found demo-spark-driver"),
        (more(automountServiceAccountToken=True), "without its token"),
        (lambda body: body["spec"].pop("automountServiceAccountToken"), "without its token"),
        (volume(hostPath={"path": "/"}), "volumes are of kinds"),
        (volume(secret={"secretName": "other"}), "volumes are of kinds"),
        (volume(secret={"secretName": "demo-decision-0a1b2c3d4e5f-tls"}), "volumes are of kinds"),
        (volume(secret={"secretName": "x-zookeeper-login"}), "volumes are of kinds"),
        (volume(persistentVolumeClaim={"claimName": "demo-bookie-0-ledger-0"}), "of kinds"),
        (volume(projected={"sources": [{"serviceAccountToken": {"path": "x"}}]}), "of kinds"),
        (in_container(envFrom=[{"secretRef": {"name": "other"}}]), "variables from secrets"),
        (in_container(env=[{"name": "A", "valueFrom": SECRET}]), "variables from secrets"),
        (more(hostNetwork=True), "nothing of its node"),
        (more(hostPID=True), "nothing of its node"),
        (in_container(securityContext={"privileged": True}), "no more privileges"),
        (more(initContainers=[{"name": "i", "image": "i"}]), "no more privileges"),
    ],
)  # fmt: skip
def test_a5_a_driver_makes_no_other_pod(change: Change, why: str) -> None:
    said = asked(DRIVER, changed(EXECUTOR, change))
    assert "ValidatingAdmissionPolicy" in said and why in said


def test_a5_a_driver_deletes_no_bookie() -> None:
    unlabelled = changed(EXECUTOR, lambda body: body["metadata"].update(name="bookie", labels={}))
    for body in (EXECUTOR, unlabelled):
        done("create", "--filename=-", text=json.dumps(body))
    assert "has not their labels" in asked(DRIVER, unlabelled, "delete")
    assert asked(DRIVER, EXECUTOR, "delete") == ""


def test_others_make_what_they_may() -> None:
    other = changed(EXECUTOR, lambda body: body["metadata"].update(name="other", labels={}))
    assert asked("ann", changed(other, more(serviceAccountName="default"))) == ""


# Who adds to pods


@pytest.mark.parametrize("part", ["bookiePod", "zookeeperPod", "jobPod", "executorPod"])
def test_to_add_to_pods_takes_the_right_to_make_pods(part: str) -> None:
    body = changed(CLUSTER, more(**{part: {"serviceAccountName": "default"}}))
    assert "it takes the right to create pods" in asked("jo", body)
    assert asked("ann", body) == ""


def test_who_may_change_clusters_alone_changes_all_else() -> None:
    body = changed(CLUSTER, more(jobPod={"labels": {"team": "a"}}))
    done("create", "--filename=-", "--as=ann", text=json.dumps(body))
    assert asked("jo", changed(body, more(replicas=5)), "apply") == ""
    other = changed(body, more(jobPod={"labels": {"team": "b"}}))
    assert "right to create pods" in asked("jo", other, "apply")
