"""Parts that every pod shares: restricted security, names of the pod in the environment, /tmp.

Used by `bookies`, `surroundings` and `jobs`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bookie import pods
from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.model.pod_options import PodResources

Part = dict[str, Any]


def pod_security() -> Part:
    # A large volume is not walked at every start.
    return pods.pod_security() | {"fsGroupChangePolicy": "OnRootMismatch"}


def resources(wanted: PodResources) -> Part:
    return {
        name: dict(values)
        for name, values in (("requests", wanted.requests), ("limits", wanted.limits))
        if values
    }


def field_env(fields: Mapping[str, str]) -> list[Part]:
    """Environment variables from fields of the pod itself."""
    return [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in fields.items()
    ]


def value_env(values: Mapping[str, str]) -> list[Part]:
    return [{"name": name, "value": literal(value)} for name, value in values.items()]


def literal(text: str) -> str:
    """An argument or a variable's value that comes out as this text: Kubernetes puts variables into
    it for $(NAME), and makes one $ of two."""
    return text.replace("$", "$$")


def scratch(*, size: str = "") -> tuple[Part, Part]:
    """(volume, mount) of a writable /tmp in a container whose root is read-only."""
    empty = {"sizeLimit": size} if size else {}
    return {"name": "tmp", "emptyDir": empty}, {"name": "tmp", "mountPath": "/tmp"}


def image_of(spec: ClusterSpec, image: str) -> Part:
    return {"image": image, "imagePullPolicy": spec.image_pull_policy.value}


def pull_secrets(names: Sequence[str]) -> Part:
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}
