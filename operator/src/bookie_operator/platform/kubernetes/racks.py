"""Racks of bookies: a label of a pod's node, as an annotation of the pod. Pure.

A bookie has no rights in Kubernetes and cannot read its node. The operator can, and the kubelet
shows the annotation to the bookie as a file, also when it comes after the bookie's start.
"""

from collections.abc import Mapping, Sequence

from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import Object
from bookie_operator.platform.kubernetes.nodes import Node


def rack_of(pod: Object) -> str:
    """The rack that the pod's bookie hears of; empty = none."""
    return str((pod["metadata"].get("annotations") or {}).get(names.RACK, ""))


def unnamed(pods: Sequence[Object], nodes: Mapping[str, Node], key: str) -> list[Object]:
    """What to apply to pods that do not name the rack of their node; `key`: of the node's label.

    Where the node has no such label, nothing is known, and nothing is written.
    """
    found = []
    for pod in pods:
        metadata = pod["metadata"]
        node = nodes.get(str(pod["spec"].get("nodeName") or ""))
        place = node.labels.get(key, "") if node is not None and key else ""
        if place and "deletionTimestamp" not in metadata and rack_of(pod) != f"/{place}":
            very = {"name": metadata["name"], "uid": metadata["uid"]}
            found.append({"metadata": very | {"annotations": {names.RACK: f"/{place}"}}})
    return found
