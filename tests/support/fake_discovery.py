"""What a fake API server serves: all kinds that the operator knows, and two that kopf asks for."""

from collections.abc import Sequence
from typing import Any, Final

from bookie_operator.platform.kubernetes import api as kinds_of_api
from bookie_operator.platform.kubernetes.api import CLUSTER, TASK, Kind, Object

NAMESPACE: Final = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
DEFINITION: Final = Kind(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
KINDS: Final = (
    *(one for one in vars(kinds_of_api).values() if isinstance(one, Kind)),
    NAMESPACE,
    DEFINITION,
)
WITH_STATUS: Final = (CLUSTER, TASK)
"""Kinds of which a whole status is written by itself here."""
VERBS: Final = ["get", "list", "watch", "create", "update", "patch", "delete"]


def discovered(path: str) -> Any:
    """The answer to a path of discovery; None = it is none."""
    if path == "/api":
        return {"versions": ["v1"]}
    groups = sorted({(kind.group, kind.version) for kind in KINDS} - {("", "v1")})
    if path == "/apis":
        return {"groups": [_group(*one) for one in groups]}
    if path == "/api/v1":
        return {"resources": _resources("", "v1")}
    for group, version in groups:
        if path == f"/apis/{group}/{version}":
            return {"resources": _resources(group, version)}
    return None


def _group(group: str, version: str) -> Object:
    known = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [known], "preferredVersion": known}


def _resources(group: str, version: str) -> list[Object]:
    found = [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
    return [
        {"name": name, "singularName": kind.name.lower(), "kind": kind.name}
        | {"namespaced": kind.namespaced, "verbs": VERBS}
        for kind in found
        for name in _names(kind)
    ]


def _names(kind: Kind) -> Sequence[str]:
    return (kind.plural, f"{kind.plural}/status") if kind in WITH_STATUS else (kind.plural,)
