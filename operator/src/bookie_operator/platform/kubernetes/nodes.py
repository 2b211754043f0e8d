"""The nodes under a cluster's pods: their boots tell restarted nodes from killed bookies, their
labels say which bookies are in one rack.

Both are hints, and were a quarter of all requests of a fleet at rest. A node that restarts starts
its containers as well, so it is asked in every pass while its pods are new there, and seldom after.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bookie.errors import BookieError, UnavailableError

from bookie_operator.platform.kubernetes.api import NODE, Api, Object

SETTLED_AFTER: Final = timedelta(seconds=60)
"""How long after a change of a container on it a node is read in every pass."""
AGAIN_AFTER: Final = timedelta(seconds=60)
"""Between two questions to a node whose containers stay as they are."""


@dataclass(frozen=True, slots=True)
class Node:
    """What a node says of itself."""

    boot_id: str
    """Changes when the node itself was restarted; empty = it does not say."""
    labels: Mapping[str, str]
    trouble: str = ""
    """Why its pods cannot be relied on: it is gone, or its kubelet does not report. Empty = no."""
    address: str = ""
    """Its address for outside clients, preferably external; empty = not known."""


@dataclass(frozen=True, slots=True)
class _Known:
    """One node, which containers of ours it had, since when, and when it was asked."""

    node: Node
    containers: str
    since: datetime
    asked_at: datetime


class Nodes:
    """The nodes of one cluster's pods, as they were last asked."""

    def __init__(self, api: Api, clock: Callable[[], datetime]) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[str, _Known] = {}
        """Nodes with pods of the cluster as last read, by name."""

    async def of(self, pods: Sequence[Object]) -> dict[str, Node]:
        """Nodes by name. One that may not be read is missing; one that does not exist is empty."""
        now = self._clock()
        before, self._known = self._known, {}
        for node, containers in sorted(_containers_by_node(pods).items()):
            known = before.get(node)
            if known is not None and known.containers != containers:
                known = None
            if known is not None and _may_rest(known, now):
                self._known[node] = known
                continue
            since = known.since if known is not None else now
            try:
                found = await self._api.get(NODE, node)
                self._known[node] = _Known(_node(found), containers, since, now)
            except UnavailableError:  # what is known of it is no less true
                if known is not None:
                    self._known[node] = known
            except BookieError:  # a hint for people; no right, no hint
                pass
        return {name: known.node for name, known in self._known.items()}


def _node(found: Object | None) -> Node:
    if found is None:
        return Node("", {}, trouble="is gone")
    status = found.get("status") or {}
    info = status.get("nodeInfo") or {}
    labels = (found.get("metadata") or {}).get("labels") or {}
    return Node(str(info.get("bootID") or ""), dict(labels), _trouble(status), _address(status))


def _address(status: Object) -> str:
    """Of a kind that has several the first one: a Service of one stack listens on that family."""
    listed = status.get("addresses") or ()
    for kind in ("ExternalIP", "InternalIP"):
        for one in listed:
            if one.get("type") == kind and one.get("address"):
                return str(one["address"])
    return ""


def _trouble(status: Object) -> str:
    for one in status.get("conditions") or ():
        if one.get("type") == "Ready" and one.get("status") != "True":
            return f"is not ready: {one.get('reason')}: {one.get('message')}"
    return ""


def _may_rest(known: _Known, now: datetime) -> bool:
    """A clock that went back says nothing about how long ago that was."""
    is_settled = now - known.since >= SETTLED_AFTER
    return is_settled and timedelta() <= now - known.asked_at < AGAIN_AFTER


def _containers_by_node(pods: Sequence[Object]) -> Mapping[str, str]:
    """What changes with every start of a container of these pods."""
    found: dict[str, str] = {}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["uid"])):
        node = str(pod["spec"].get("nodeName") or "")
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        starts = [(one.get("restartCount"), one.get("state")) for one in statuses]
        if node:
            found[node] = f"{found.get(node, '')}{pod['metadata']['uid']}{starts}"
    return found
