"""What the operator's pods and those that a repair makes have in common, so far as both must agree.

The operator may import nothing of a bookie's server or of repair, and these nothing of it.
"""

from pathlib import PurePosixPath
from typing import Any, Final

GROUP: Final = "bookkeeper.bookie-operator.dev"
"""Of the custom resources, and before the slash of labels and annotations."""
USER: Final = 10001
"""uid and gid of the images' user."""
DRIVER_PORT, BLOCKS_PORT = 7078, 7079
"""Of a Spark driver; fixed, so that network policies can name them."""
EXECUTOR: Final = "executor"
"""Name of the container of a Spark executor."""
RACK_FILE: Final = PurePosixPath("/etc/bookie-node/rack")
"""Where a pod has its rack: the default of a bookie's setting `rackFile`. One of an older version
does not look there."""
ADVERTISED_FILE: Final = RACK_FILE.with_name("advertised")
"""Where a pod has the addresses at which clients elsewhere reach its bookie: the default of the
setting `advertisedFile`."""


def pod_security() -> dict[str, Any]:
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def executor_template() -> dict[str, Any]:
    """The pod of a Spark executor as far as Spark leaves it to us: restricted, read-only, without a
    token. The operator may add to it; a driver labels it as its own.
    """
    container = {
        "name": EXECUTOR,
        "securityContext": container_security(),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    return {
        "metadata": {"labels": {}},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 10,
            "securityContext": pod_security(),
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }
