"""Racks of bookies: a label of a pod's node. Pure."""

from collections.abc import Mapping

from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.annotations import annotation_of
from bookie_operator.platform.kubernetes.api import Object
from bookie_operator.platform.kubernetes.nodes import Node


def rack_of(pod: Object) -> str:
    """The rack that the pod's bookie hears of; empty = none."""
    return annotation_of(pod, names.RACK)


def wanted_rack(pod: Object, nodes: Mapping[str, Node], key: str) -> str:
    """The rack of the pod's node; `key`: of the node's label.

    Where the node has no such label, nothing is known, and what is written stays. Without a key no
    bookie is to have a rack.
    """
    if not key:
        return ""
    node = nodes.get(str(pod["spec"].get("nodeName") or ""))
    place = node.labels.get(key, "") if node is not None else ""
    return f"/{place}" if place else rack_of(pod)
