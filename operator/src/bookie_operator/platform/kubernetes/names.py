"""Names and labels of everything the operator makes for a cluster; asked by all of this package.

A name is derived from cluster and bookie alone, so that a restarted operator finds what it made.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from bookie.ids import BookieId

from bookie_operator.model.base import GROUP

CLUSTER_LABEL: Final = f"{GROUP}/cluster"
BOOKIE_LABEL: Final = f"{GROUP}/bookie"
DISK_LABEL: Final = f"{GROUP}/disk"
COMPONENT_LABEL: Final = f"{GROUP}/component"
RETAINED_LABEL: Final = f"{GROUP}/retained"
"""Label of a volume whose bookie has left: its data is kept, but it is not part of the fleet."""
REVISION: Final = f"{GROUP}/revision"
RACK: Final = f"{GROUP}/rack"
"""Annotation of a bookie's pod: its rack, from a label of its node."""
ADVERTISED: Final = f"{GROUP}/advertised"
"""Annotation of a bookie's pod: where clients outside of the Kubernetes cluster reach it."""
TLS_MODE: Final = f"{GROUP}/tls"
"""Annotation of a bookie's pod: what its ports take; without it they are plain."""
JOB_FACTS: Final = f"{GROUP}/job"
"""Annotation of a Job: kind, attempt, bookie, boot epoch, start, as JSON."""

BOOKIE: Final = "bookie"
ZOOKEEPER: Final = "zookeeper"
JOBS: Final = "job"
EXTERNAL: Final = "external"
"""Component label of Services for clients outside of the Kubernetes cluster."""
EXECUTOR: Final = "executor"
"""Component label of Spark's executors, which their driver gives them."""
NETWORK: Final = "network"
TLS: Final = "tls"
"""Component label of credentials, and of Certificates for cert-manager."""
OPERATOR: Final = "operator"
"""Label of the operator's own pods, which the chart gives them."""
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_LABEL_MAX: Final = 63
_APPLICATION: Final = {
    BOOKIE: "bookie",
    ZOOKEEPER: "zookeeper",
    JOBS: "repair",
    EXTERNAL: "bookie",
    NETWORK: "bookie",
    TLS: "bookie",
}


def labels(cluster: str, component: str, **more: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": _APPLICATION[component],
        "app.kubernetes.io/instance": cluster,
        "app.kubernetes.io/managed-by": "bookie-operator",
        **selector(cluster, component),
        **{f"{GROUP}/{name}": value for name, value in more.items()},
    }


def can_be_label(value: str) -> bool:
    """Whether a label may have this value. A bookie that the operator does not run may have any
    name, such as `10.0.0.7:3181`."""
    return len(value) <= _LABEL_MAX and _LABEL_VALUE.fullmatch(value) is not None


def selector(cluster: str, component: str) -> dict[str, str]:
    return {CLUSTER_LABEL: cluster, COMPONENT_LABEL: component}


def set_name(cluster: str, bookie_id: BookieId) -> str:
    return f"{cluster}-{bookie_id}"


def pod_name(cluster: str, bookie_id: BookieId) -> str:
    return f"{set_name(cluster, bookie_id)}-0"


def claim_name(cluster: str, bookie_id: BookieId, disk: str) -> str:
    return f"{set_name(cluster, bookie_id)}-{disk}"


def settings_name(cluster: str, bookie_id: BookieId, text: str) -> str:
    """Named by its content: a pod keeps the settings that it was made with."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return f"{set_name(cluster, bookie_id)}-{digest}"


def headless_service(cluster: str) -> str:
    return f"{cluster}-bookies"


def bookie_host(cluster: str, namespace: str, bookie_id: BookieId) -> str:
    """What the bookie registers: its pod's address changes, and others get the one it had.

    Every pod of a StatefulSet has such a name, under the service that the set names.
    """
    return f"{pod_name(cluster, bookie_id)}.{headless_service(cluster)}.{namespace}.svc"


def zookeeper_name(cluster: str) -> str:
    return f"{cluster}-zookeeper"


def repair_account(cluster: str) -> str:
    """Service account of jobs that make no pods, and of Spark's executors; it has no rights."""
    return f"{cluster}-repair"


def driver_account(cluster: str) -> str:
    """Service account of jobs that may be Spark drivers; a policy in the chart matches its
    suffix."""
    return f"{cluster}-spark-driver"


def bookie_account(cluster: str) -> str:
    return f"{cluster}-bookie"


def owner(cluster_name: str, uid: str) -> Mapping[str, Any]:
    """The cluster as owner: what it made goes with it; volumes have none and stay."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "BookieCluster",
        "name": cluster_name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
