"""What Kubernetes's NetworkPolicies let through, by the words of their API: an evaluator for tests.

It shares no code with the product. A pod that no policy selects is open; one that a policy with
type Ingress selects is reached only by what some rule of some such policy allows.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A pod, or, with no namespace, an address outside of the Kubernetes cluster."""

    address: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace_labels: Mapping[str, str] = field(default_factory=dict)


def lets_in(
    policies: Iterable[Object], source: Place, target: Place, port: int, *, namespace: str
) -> bool:
    """Whether `source` may open a TCP connection to a port of `target`.

    `namespace`: of the policies.
    """
    selecting = [
        policy["spec"]
        for policy in policies
        if target.namespace == namespace
        and _selects(policy["spec"]["podSelector"], target.labels)
        and "Ingress" in policy["spec"].get("policyTypes", ["Ingress"])
    ]
    if not selecting:
        return True
    rules = [rule for spec in selecting for rule in spec.get("ingress") or ()]
    return any(
        _has_port(rule.get("ports") or (), port)
        and _has_peer(rule.get("from") or (), source, namespace)
        for rule in rules
    )


def _has_port(ports: Sequence[Object], port: int) -> bool:
    if not ports:
        return True
    return any(
        one.get("protocol", "TCP") == "TCP"
        and one.get("port", port) <= port <= one.get("endPort", one.get("port", port))
        for one in ports
    )


def _has_peer(peers: Sequence[Object], source: Place, namespace: str) -> bool:
    return not peers or any(_is_peer(peer, source, namespace) for peer in peers)


def _is_peer(peer: Object, source: Place, namespace: str) -> bool:
    block = peer.get("ipBlock")
    if block is not None:
        return _within(source.address, block["cidr"]) and not any(
            _within(source.address, one) for one in block.get("except", ())
        )
    if not source.namespace:
        return False
    if "namespaceSelector" in peer:
        is_there = _selects(peer["namespaceSelector"], source.namespace_labels)
    else:
        is_there = source.namespace == namespace
    return is_there and _selects(peer.get("podSelector", {}), source.labels)


def _within(address: str, block: str) -> bool:
    network, one = ipaddress.ip_network(block), ipaddress.ip_address(address)
    return network.version == one.version and one in network


def _selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """An empty selector selects everything."""
    wanted = selector.get("matchLabels") or {}
    return wanted.items() <= labels.items() and all(
        _meets(one, labels) for one in selector.get("matchExpressions") or ()
    )


def _meets(expression: Object, labels: Mapping[str, str]) -> bool:
    key, operator = expression["key"], expression["operator"]
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    is_in = labels.get(key) in expression["values"]
    return is_in if operator == "In" else not is_in
