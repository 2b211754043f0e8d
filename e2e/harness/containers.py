"""The processes of a pod's containers, as its node's container runtime knows them."""

from collections.abc import Sequence

from harness.kind import Kind
from harness.kube import Object


def running_containers(pod: Object) -> dict[str, str]:
    """By their names, what the runtime calls those of which a process runs."""
    found = (pod.get("status") or {}).get("containerStatuses") or []
    return {
        str(one["name"]): str(one["containerID"]).removeprefix("containerd://")
        for one in found
        if one["state"].get("running")
    }


def signal_containers(kind: Kind, node: str, identities: Sequence[str], signal: str) -> None:
    """To all processes of these containers in one stroke; some may end with others before it."""
    kind.on_node(
        node,
        f"for one in {' '.join(identities)}; do "
        "first=$(crictl inspect --output go-template --template {{.info.pid}} $one); "
        'all="$all $(pgrep --parent $first || true) $first"; done; '
        f"kill -{signal} $all || true",
    )
