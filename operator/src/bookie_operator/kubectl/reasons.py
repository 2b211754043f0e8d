"""What a person can do about a cluster that is Degraded, where its bookies do not tell already.

By the reason alone; the condition's message has what was found.
"""

from collections.abc import Iterator
from typing import Final

from bookie_operator.kubectl.advice import Hint
from bookie_operator.model.base import GROUP
from bookie_operator.model.status import ClusterStatus, ConditionType

_EDIT: Final = ("edit", "bookiecluster", "{name}")
_PODS: Final = ("describe", "pods", "-l", f"{GROUP}/cluster={{name}},{GROUP}/component=bookie")
_JOBS: Final = ("logs", "-l", f"{GROUP}/cluster={{name}},{GROUP}/component=job", "--prefix")
_ROLES: Final = (
    "get",
    "clusterroles",
    "-l",
    "app.kubernetes.io/name=bookie-operator",
    "-o",
    "yaml",
)
_NODES: Final = ("get", "nodes")
_EVENTS: Final = ("bookie", "events", "--cluster", "{name}")
_STORE: Final = ("get", "bookiecluster", "{name}", "-o", "jsonpath={{.spec.metadata}}")
BY_REASON: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "InvalidSpec": ("The spec cannot be carried out; what ran runs on. To correct it:", _EDIT),
    "Forbidden": (
        "The operator lacks the permission that the message names: upgrade the chart, or grant it. "
        "What it has:",
        _ROLES,
    ),
    "NameTaken": (
        "Somebody else's object has a name that this cluster needs, and is left as it is: delete "
        "it, or make the cluster under another name. What the operator was refused:",
        _EVENTS,
    ),
    "ActionFailed": (
        "The operator was refused what it wants to do, and tries again by itself: mend what the "
        "message names (a quota, a policy, a storage class). What it was refused:",
        _EVENTS,
    ),
    "CertificatesInvalid": (
        "Certificates do not work, or soon will not, and the operator does not sign them: the "
        "message names whose, and why. What runs goes on. Of an issuer of cert-manager:",
        ("get", "certificates,issuers", "-l", f"{GROUP}/cluster={{name}}"),
    ),
    "LineageMismatch": (
        "Another metadata store answers than the one that the disks are of: give back the right "
        "one; no disk is touched. Where the cluster looks for it:",
        _STORE,
    ),
    "ImageUnavailable": ("Correct spec.image or the pull secrets, or load the image:", _EDIT),
    "Unschedulable": ("No node has room for a bookie, or its volume. Why:", _PODS),
    "ContainerConfig": ("A container cannot be made. Why:", _PODS),
    "NodeLost": (
        "The node that the message names is gone or does not report. If it comes back, so do its "
        'bookies; if not, docs/operating.md says what to do, "A node that is lost". The nodes:',
        _NODES,
    ),
    "RepairStalled": (
        "Repairs have failed again and again, and go on more slowly; RepairStalled names ledger "
        "and cause. Their last words:",
        _JOBS,
    ),
    "ScrubFindings": (
        "A scrub left corrupt copies without a good one, or ledgers that it could not finish. To "
        "have it tried again:",
        ("bookie", "scrub", "--cluster", "{name}"),
    ),
    "RereplicationFindings": (
        "A re-replication left ledgers or marks, as the message says. To have it tried again:",
        ("bookie", "rereplicate", "--cluster", "{name}"),
    ),
}


def reason_hints(name: str, status: ClusterStatus) -> Iterator[Hint]:
    degraded = status.condition(ConditionType.DEGRADED)
    if degraded is None or degraded.status != "True" or degraded.reason not in BY_REASON:
        return
    text, words = BY_REASON[degraded.reason]
    yield Hint(text, tuple(word.format(name=name) for word in words))
