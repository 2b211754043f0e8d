"""NetworkPolicies of one cluster: each port is for those who need it. Pure.

They say who may connect, not whom a pod may connect to: a repair reads from bookies of Apache's and
from metadata stores that may be anywhere. The kubelet's probes and `kubectl port-forward` come from
the node, which no policy keeps out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bookie.pods import BLOCKS_PORT, DRIVER_PORT

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import NETWORK_POLICY, Kind, Object
from bookie_operator.platform.kubernetes.bookies import (
    ADMIN_PORT,
    HTTP_PORT,
    RUN_PORT,
    STOCK_PORT,
)
from bookie_operator.platform.kubernetes.surroundings import (
    ZOOKEEPER_METRICS_PORT,
    ZOOKEEPER_PORT,
    owned,
)

Peer = Mapping[str, Any]
EVERYWHERE: Final[tuple[Peer, ...]] = (
    {"ipBlock": {"cidr": "0.0.0.0/0"}},
    {"ipBlock": {"cidr": "::/0"}},
)
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""Label that the API server gives each namespace: its name."""


def network_policies(
    cluster: BookieCluster, *, operator_namespace: str
) -> list[tuple[Kind, Object]]:
    """One for each kind of pod; none unless the spec wants them.

    `operator_namespace`: where the operator's pods are; empty = it runs elsewhere, and its address
    is not known.
    """
    wanted, external = cluster.spec.network_policies, cluster.spec.external
    if not wanted.enabled:
        return []
    name = cluster.metadata.name
    bookies, jobs, executors = (
        _own(name, component) for component in (names.BOOKIE, names.JOBS, names.EXECUTOR)
    )
    operator = _operator(operator_namespace)
    clients = wanted.clients or ({"podSelector": {}},)
    # Who comes by a Service for clients outside may come with an address of any node.
    outside = EVERYWHERE if external is not None else ()
    rules = {
        names.BOOKIE: [
            # Bookies: no process of ours, but commands that people run in a bookie's pod.
            _rule([*clients, *outside, bookies, jobs, executors], STOCK_PORT, RUN_PORT),
            _rule([*operator, bookies, jobs, executors], ADMIN_PORT),
            _rule(wanted.metrics, HTTP_PORT),
        ],
        names.JOBS: [_rule([executors], DRIVER_PORT, BLOCKS_PORT)],
        # Executors hand each other blocks, on ports of their own choice.
        names.EXECUTOR: [_rule([jobs, executors])],
    }
    if cluster.spec.metadata.embedded is not None:
        beyond = EVERYWHERE if external is not None and external.zookeeper else ()
        known = [*clients, *beyond, bookies, jobs, executors, *operator]
        rules[names.ZOOKEEPER] = [
            _rule(known, ZOOKEEPER_PORT),
            _rule(wanted.metrics, ZOOKEEPER_METRICS_PORT),
        ]
    return [(NETWORK_POLICY, _policy(cluster, kind, ingress)) for kind, ingress in rules.items()]


def _own(cluster: str, component: str) -> Peer:
    return {"podSelector": {"matchLabels": names.selector(cluster, component)}}


def _operator(namespace: str) -> Sequence[Peer]:
    if not namespace:
        return EVERYWHERE
    place = {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: namespace}}}
    return [place | {"podSelector": {"matchLabels": {names.COMPONENT_LABEL: names.OPERATOR}}}]


def _rule(peers: Sequence[Peer], *ports: int) -> Object:
    """No peers = everybody; no ports = all of them."""
    rule: Object = {"from": list(peers)} if peers else {}
    if ports:
        rule["ports"] = [{"port": port, "protocol": "TCP"} for port in ports]
    return rule


def _policy(cluster: BookieCluster, component: str, ingress: Sequence[Object]) -> Object:
    name = cluster.metadata.name
    spec = {
        "podSelector": {"matchLabels": names.selector(name, component)},
        "policyTypes": ["Ingress"],
        "ingress": list(ingress),
    }
    return owned(cluster, f"{name}-{component}", names.NETWORK, {"spec": spec})
