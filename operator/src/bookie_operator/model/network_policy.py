"""Who may reach the pods of a cluster over the network, as far as a NetworkPolicy can say it."""

from typing import Annotated, Any, Final

from pydantic import Field, JsonValue, WithJsonSchema

from bookie_operator.model.base import OPEN_OBJECT, Resource

_PARTS: Final = {
    "podSelector": "Pods with these labels; without namespaceSelector only in the namespace.",
    "namespaceSelector": "Namespaces with these labels; `{}` selects all.",
    "ipBlock": "Address ranges: `cidr`, and `except`.",
}
_PEER: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {name: OPEN_OBJECT | {"description": text} for name, text in _PARTS.items()},
    "minProperties": 1,
}
Peer = Annotated[dict[str, JsonValue], Field(min_length=1), WithJsonSchema(_PEER)]
"""A source of connections, as in `from` of a NetworkPolicy."""
Peers = Annotated[tuple[Peer, ...], Field(max_length=32)]


class NetworkPolicies(Resource):
    """Who else may reach the pods of the cluster; the operator and the pods themselves always
    may."""

    enabled: bool = True
    """True: the operator makes NetworkPolicies for bookies, ZooKeeper, jobs and executors. Some
    Kubernetes networks do not enforce NetworkPolicies."""
    clients: Peers = ()
    """Who may reach the ports for clients (3181 and 3182 of bookies, and the embedded ZooKeeper),
    as in `from` of a NetworkPolicy, such as `- namespaceSelector: {matchLabels: {team: pulsar}}`.
    Empty: every pod of the cluster's namespace."""
    metrics: Peers = ()
    """Who may read metrics (8080 of bookies, 7000 of the embedded ZooKeeper), as in `from` of a
    NetworkPolicy. Empty: everybody."""
