"""What a person can do about a Degraded cluster, by the reason of the condition.

The condition's message says what was found. Hints about single bookies are in `hints.py`.
"""

from collections.abc import Iterator
from typing import Final

from bookie_operator.kubectl.advice import Hint
from bookie_operator.model.base import GROUP
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus

_EDIT: Final = ("edit", "bookiecluster", "{name}")
_PODS: Final = ("describe", "pods", "-l", f"{GROUP}/cluster={{name}},{GROUP}/component=bookie")
_JOBS: Final = ("logs", "-l", f"{GROUP}/cluster={{name}},{GROUP}/component=job", "--prefix")
_ROLES: Final = (
    "get",
    "clusterroles,roles",  # with the value watchNamespaces its rights are roles of namespaces
    "-l",
    "app.kubernetes.io/name=bookie-operator",
    "-o",
    "yaml",
)
_NODES: Final = ("get", "nodes")
_EVENTS: Final = ("bookie", "events", "--cluster", "{name}")
_STORE: Final = ("get", "bookiecluster", "{name}", "-o", "jsonpath={{.spec.metadata}}")
BY_REASON: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "InvalidSpec": (
        "The operator cannot carry out the spec; what ran before keeps running. Correct it:",
        _EDIT,
    ),
    "Forbidden": (
        "The operator lacks the permission that the message names: upgrade the chart, or grant it. "
        "Show the permissions it has:",
        _ROLES,
    ),
    "NameTaken": (
        "An object that is not the operator's has a name that this cluster needs. The operator "
        "does not change it: delete it, or give the cluster another name. Show what failed:",
        _EVENTS,
    ),
    "ActionFailed": (
        "Kubernetes refused an action of the operator, which tries again by itself: correct what "
        "the message names (a quota, a policy, a storage class). Show what failed:",
        _EVENTS,
    ),
    "CertificatesInvalid": (
        "Certificates do not work, or will soon expire, and the operator does not sign them: the "
        "message says whose and why. Processes that run keep running. Show cert-manager's objects:",
        ("get", "certificates,issuers", "-l", f"{GROUP}/cluster={{name}}"),
    ),
    "LineageMismatch": (
        "The metadata store that answers is not the one that the disks belong to: correct its "
        "address; the operator touches no disk. Show where the cluster looks for it:",
        _STORE,
    ),
    "ImageUnavailable": ("Correct spec.image or the pull secrets, or load the image:", _EDIT),
    "Unschedulable": ("No node has room for a bookie or its volume. Show why:", _PODS),
    "ContainerConfig": ("Kubernetes cannot create a container. Show why:", _PODS),
    "NodeLost": (
        "The node that the message names is gone or does not report. If it comes back, so do its "
        'bookies; if not, see "A node that is lost" in docs/operating.md. Show the nodes:',
        _NODES,
    ),
    "RepairStalled": (
        "Repairs have failed several times, and the operator now tries less often. The condition "
        "RepairStalled names ledger and cause. Show the last lines of their logs:",
        _JOBS,
    ),
    "ScrubFindings": (
        "A scrub left corrupt copies of which no good copy exists, or ledgers that it could not "
        "finish. To try again:",
        ("bookie", "scrub", "--cluster", "{name}"),
    ),
    "RereplicationFindings": (
        "A re-replication could not finish ledgers, or left marks, as the message says. To try "
        "again:",
        ("bookie", "rereplicate", "--cluster", "{name}"),
    ),
}


def reason_hints(name: str, status: ClusterStatus) -> Iterator[Hint]:
    degraded = status.condition(ConditionType.DEGRADED)
    if degraded is None or degraded.status != "True" or degraded.reason not in BY_REASON:
        return
    text, words = BY_REASON[degraded.reason]
    yield Hint(text, tuple(word.format(name=name) for word in words))
