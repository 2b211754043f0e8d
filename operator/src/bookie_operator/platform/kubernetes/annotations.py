"""What the operator writes about a bookie into its pod: its rack, and where clients elsewhere reach
it. Pure.

A bookie has no rights in Kubernetes and can read neither its node nor a Service. The operator can,
and the kubelet shows the annotations to the bookie as files, also when they come after its start.
All of them are written at once: of an apply the API server takes away what it does not name.
"""

from collections.abc import Callable, Sequence

from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import Object
from bookie_operator.platform.kubernetes.claims import very

ANNOTATIONS = (names.RACK, names.ADVERTISED)


def annotation_of(pod: Object, name: str) -> str:
    """Empty = the operator has not written it."""
    return str((pod["metadata"].get("annotations") or {}).get(name, ""))


def unwritten(pods: Sequence[Object], wanted: Callable[[Object], dict[str, str]]) -> list[Object]:
    """What to apply to pods that do not say what is `wanted` of them, of every one of ANNOTATIONS.

    One that is to be empty is written so where it stands: another hand may have written it, and an
    apply takes away only what is its own.
    """
    found = []
    for pod in pods:
        metadata, text = pod["metadata"], wanted(pod)
        there = {name: annotation_of(pod, name) for name in ANNOTATIONS}
        if "deletionTimestamp" in metadata or text == there:
            continue
        written = {name: value for name, value in text.items() if value or there[name]}
        found.append({"metadata": very(metadata) | {"annotations": written}})
    return found
