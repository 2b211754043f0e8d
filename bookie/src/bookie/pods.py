"""Constants and pod fields on which the operator and a repair must agree, as both create pods.

They stand here because the operator must not import a bookie's server or the repair, and these must
not import the operator.
"""

from pathlib import PurePosixPath
from typing import Any, Final

GROUP: Final = "bookkeeper.bookie-operator.dev"
"""API group of the custom resources, and the prefix of labels and annotations."""
USER: Final = 10001
"""uid and gid of the user in the images."""
DRIVER_PORT, BLOCKS_PORT = 7078, 7079
"""Ports of a Spark driver; they are fixed, so that network policies can name them."""
EXECUTOR: Final = "executor"
"""Name of the container of a Spark executor."""
RACK_FILE: Final = PurePosixPath("/etc/bookie-node/rack")
"""File in which a bookie's pod finds its rack: the default of the setting `rackFile`. A bookie of
an older version does not read it."""
ADVERTISED_FILE: Final = RACK_FILE.with_name("advertised")
"""File in which a pod finds the addresses at which clients elsewhere reach its bookie: the default
of the setting `advertisedFile`."""


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
    """Return the template for Spark executor pods: restricted, read-only, without a token.

    Spark fills in the rest. The operator may add to the template; a driver labels the pods as its
    own.
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
