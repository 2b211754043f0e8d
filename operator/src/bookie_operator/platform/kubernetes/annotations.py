"""What the operator writes about a bookie into its pod: its rack, and where clients elsewhere reach
it. Pure.

A bookie has no rights in Kubernetes and can read neither its node nor a Service. The operator can,
and the kubelet shows the annotations to the bookie as files, also when they come after its start.
All of them are written at once: of an apply the API server takes away what it does not name.
"""

from collections.abc import Callable, Sequence

from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import Object

ANNOTATIONS = (names.RACK, names.ADVERTISED)


def annotation_of(pod: Object, name: str) -> str:
    """Empty = the operator has not written it."""
    return str((pod["metadata"].get("annotations") or {}).get(name, ""))


def unwritten(pods: Sequence[Object], wanted: Callable[[Object], dict[str, str]]) -> list[Object]:
    """What to apply to pods that do not say what is `wanted` of them; empty values are left out."""
    found = []
    for pod in pods:
        metadata = pod["metadata"]
        text = {name: value for name, value in wanted(pod).items() if value}
        there = {name: annotation_of(pod, name) for name in ANNOTATIONS}
        if "deletionTimestamp" in metadata or text == {k: v for k, v in there.items() if v}:
            continue
        very = {"name": metadata["name"], "uid": metadata["uid"]}
        found.append({"metadata": very | {"annotations": text}})
    return found
