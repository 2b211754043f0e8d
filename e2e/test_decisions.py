"""Who may decide about loss, as a real API server rules on it by the chart's policy.

Everything that people ask is a server-side dry run, so it needs no operator and no image.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

pytestmark = pytest.mark.usefixtures("cluster")

ROOT: Final = Path(__file__).parents[1]
NAMESPACE: Final = "decisions"
GROUP: Final = "bookkeeper.bookie-operator.dev"
ROLE: Final = f"{NAMESPACE}-demo-bookie-operator-decisions"
POLLS: Final = 100
POLL_S: Final = 0.2
FIX: Final = {"type": "approve-cookie-fix", "bookie": "bookie-1", "planId": "71ec255cbc1f"}
COLLECTION: Final = FIX | {"type": "approve-collection"}
LOSS: Final = {"type": "accept-loss", "ledger": 7, "reason": "disks burnt"}


def kubectl(*words: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["kubectl", *words], input=text, capture_output=True, text=True, check=False
    )


def done(*words: str, text: str = "") -> str:
    made = kubectl(*words, text=text)
    assert made.returncode == 0, made.stderr
    return made.stdout


def asked(user: str, spec: dict[str, Any]) -> str:
    """What the API server says against this user's task; empty = it takes it."""
    task = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "BookieTask",
        "metadata": {"name": "once", "namespace": NAMESPACE},
        "spec": {"cluster": "demo"} | spec,
    }
    words = ("create", "--dry-run=server", "--filename=-", f"--as={user}")
    made = kubectl(*words, text=json.dumps(task))
    return "" if made.returncode == 0 else made.stderr


def until_refused(user: str, spec: dict[str, Any]) -> str:
    """A policy counts a moment after it was made."""
    for _ in range(POLLS):
        if why := asked(user, spec):
            return why
        time.sleep(POLL_S)
    raise AssertionError(f"{user} may {spec}")


def until_taken(user: str, spec: dict[str, Any]) -> None:
    for _ in range(POLLS):
        why = asked(user, spec)
        if not why:
            return
        time.sleep(POLL_S)
    raise AssertionError(why)


@pytest.fixture(scope="module", autouse=True)
def policy() -> Iterator[None]:
    """The CRDs, the policy, and ann and jo, who may both change tasks."""
    done("apply", "--server-side", "--force-conflicts", f"--filename={ROOT / 'crds'}")
    for kind in ("bookietasks", "bookieclusters"):
        done("wait", "--for=condition=Established", f"crd/{kind}.{GROUP}")
    kubectl("create", "namespace", NAMESPACE)
    chart = ROOT / "charts" / "bookie-operator"
    version = json.loads(done("version", "--output=json"))["serverVersion"]["gitVersion"]
    rendered = subprocess.run(
        ["helm", "template", "demo", str(chart), f"--namespace={NAMESPACE}",
         f"--kube-version={version}", "--show-only=templates/decisions.yaml",
         f"--set=watchNamespaces={{{NAMESPACE}}}"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    done("apply", "--filename=-", text=rendered)
    on = f"--namespace={NAMESPACE}"
    done("create", "role", "tasks", "--verb=create", f"--resource=bookietasks.{GROUP}", on)
    done("create", "rolebinding", "tasks", "--role=tasks", "--user=ann", "--user=jo", on)
    verbs = [f"--verb={verb}" for verb in ("get", "create", "patch", "delete")]
    done("create", "role", "clusters", *verbs, f"--resource=bookieclusters.{GROUP}", on)
    done("create", "rolebinding", "clusters", "--role=clusters", "--user=ann", "--user=jo", on)
    yield
    kubectl("delete", "--filename=-", "--wait=false", text=rendered)
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def test_to_accept_a_loss_is_a_right_of_its_own() -> None:
    why = until_refused("jo", LOSS | {"approvedBy": "jo"})
    assert "jo may not accept-loss" in why and ROLE in why
    assert "jo may not approve-cookie-fix" in until_refused("jo", FIX | {"approvedBy": "jo"})
    for other in (COLLECTION, LOSS | {"type": "retract-loss"}):
        assert f"jo may not {other['type']}" in until_refused("jo", other | {"approvedBy": "jo"})


def test_who_has_the_right_decides_under_the_own_name_alone() -> None:
    on = f"--namespace={NAMESPACE}"
    done("create", "rolebinding", "decide", f"--clusterrole={ROLE}", "--user=ann", on)
    until_taken("ann", LOSS | {"approvedBy": "ann"})
    why = asked("ann", LOSS | {"approvedBy": "jo"})
    assert "approvedBy: found jo, expected ann" in why
    assert "approvedBy: found nothing, expected ann" in asked("ann", FIX)
    assert asked("ann", FIX | {"approvedBy": "ann"}) == ""


def test_what_decides_about_nothing_needs_no_such_right() -> None:
    until_refused("jo", LOSS | {"approvedBy": "jo"})
    assert asked("jo", {"type": "audit"}) == ""
    replaced = {"type": "replace-disk", "bookie": "bookie-1", "disk": "ledger-0"}
    assert asked("jo", replaced) == ""


def test_to_have_the_data_of_a_cluster_deleted_with_it_is_the_same_right() -> None:
    name, on = f"bookieclusters.{GROUP}", f"--namespace={NAMESPACE}"
    why = until_refused_cluster("jo", "Delete")
    assert "jo may not set spec.retention.whenDeleted to Delete" in why and ROLE in why
    assert created("jo", "Retain", dry=False) == ""
    deletes = json.dumps({"spec": {"retention": {"whenDeleted": "Delete"}}})
    words = ("patch", name, "kept", on, "--type=merge", f"--patch={deletes}")
    assert "may not set" in kubectl(*words, "--as=jo").stderr
    done("create", "rolebinding", "delete", f"--clusterrole={ROLE}", "--user=ann", on)
    for _ in range(POLLS):
        if kubectl(*words, "--as=ann").returncode == 0:
            break
        time.sleep(POLL_S)
    label = ("patch", name, "kept", on, "--type=merge", "--as=jo")
    done(*label, '--patch={"metadata": {"labels": {"team": "log"}}}')
    assert '"Delete"' in done("get", name, "kept", on, "--output=json")


def until_refused_cluster(user: str, when_deleted: str) -> str:
    for _ in range(POLLS):
        if why := created(user, when_deleted):
            return why
        time.sleep(POLL_S)
    raise AssertionError(f"{user} may have data deleted")


def created(user: str, when_deleted: str, *, dry: bool = True) -> str:
    """What the API server says against a cluster with this retention; empty = it takes it."""
    manifest = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "BookieCluster",
        "metadata": {"name": "kept", "namespace": NAMESPACE},
        "spec": {
            "replicas": 3,
            "metadata": {"embedded": {}},
            "storage": {
                "disks": [
                    {"name": "journal", "role": "journal", "size": "1Gi"},
                    {"name": "ledger-0", "role": "ledger", "size": "1Gi"},
                ]
            },
            "retention": {"whenDeleted": when_deleted},
        },
    }
    words = ("create", "--filename=-", f"--as={user}", *(("--dry-run=server",) if dry else ()))
    return kubectl(*words, text=json.dumps(manifest)).stderr
