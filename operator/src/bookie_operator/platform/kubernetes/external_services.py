"""Services by which clients outside of the Kubernetes cluster reach each bookie, and the addresses
that these Services were given. Pure.

The operator writes a bookie's addresses into an annotation of its pod, where the kubelet shows them
to the bookie as a file, also when they come long after its start.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from bookie.ids import BookieId

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.external import PLACE, External, ExternalType
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import SERVICE, Kind, Object
from bookie_operator.platform.kubernetes.bookies import RUN_PORT, STOCK_PORT, bookie_selector
from bookie_operator.platform.kubernetes.nodes import Node
from bookie_operator.platform.kubernetes.surroundings import ZOOKEEPER_PORT

ADVERTISED_PORTS: Final = {"stock": STOCK_PORT, "run": RUN_PORT}
"""Of a bookie, for clients. Nobody outside gets to its control plane."""


def external_services(
    cluster: BookieCluster, bookie_ids: Iterable[BookieId]
) -> list[tuple[Kind, Object]]:
    """One for each bookie, and for the embedded ZooKeeper if that is wanted."""
    wanted, name = cluster.spec.external, cluster.metadata.name
    if wanted is None:
        return []
    found = [
        _service(
            cluster,
            wanted,
            names.set_name(name, bookie_id),
            place=bookie_id,
            chosen=bookie_selector(name, bookie_id),
            ports=ADVERTISED_PORTS,
        )
        for bookie_id in sorted(set(bookie_ids))
    ]
    if wanted.zookeeper and cluster.spec.metadata.embedded is not None:
        found.append(
            _service(
                cluster,
                wanted,
                names.zookeeper_name(name),
                place=names.ZOOKEEPER,
                chosen=names.selector(name, names.ZOOKEEPER),
                ports={"client": ZOOKEEPER_PORT},
            )
        )
    return [(SERVICE, service) for service in found]


def _service(
    cluster: BookieCluster,
    wanted: External,
    name: str,
    *,
    place: str,
    chosen: Mapping[str, str],
    ports: Mapping[str, int],
) -> Object:
    spec: Object = {
        "type": wanted.type.value,
        "selector": dict(chosen),
        # A bookie that is registered is asked, whether or not its pod is ready.
        "publishNotReadyAddresses": True,
        "ports": [{"name": one, "port": port, "targetPort": one} for one, port in ports.items()],
    }
    if wanted.type is ExternalType.LOAD_BALANCER:
        if wanted.load_balancer_class is not None:
            spec["loadBalancerClass"] = wanted.load_balancer_class
        if wanted.source_ranges:
            spec["loadBalancerSourceRanges"] = list(wanted.source_ranges)
    own = cluster.metadata
    return {
        "metadata": {
            "name": f"{name}-external",
            "labels": names.labels(own.name, names.EXTERNAL, bookie=place),
            "annotations": {
                key: value.replace(PLACE, place) for key, value in wanted.annotations.items()
            },
            "ownerReferences": [names.owner(own.name, own.uid)],
        },
        "spec": spec,
    }


def addresses_by_bookie(
    wanted: External,
    services: Sequence[Object],
    nodes_of_bookies: Mapping[str, Node],
) -> dict[str, str]:
    """What each bookie is to advertise, as it reads it: `stock=host:port run=host:port`.

    A bookie whose Service has no address yet, or whose node may not be read, is not among them.
    """
    found = {}
    for service in services:
        bookie_id = str(service["metadata"]["labels"].get(names.BOOKIE_LABEL, ""))
        host = _host(wanted, service, bookie_id, nodes_of_bookies.get(bookie_id))
        ports = _ports(service)
        if host and all(ports.get(name) for name in ADVERTISED_PORTS):
            at = f"[{host}]" if ":" in host else host
            found[bookie_id] = " ".join(f"{name}={at}:{ports[name]}" for name in ADVERTISED_PORTS)
    return found


def _host(wanted: External, service: Object, bookie_id: str, node: Node | None) -> str:
    if wanted.advertised_host is not None:
        return wanted.advertised_host.replace(PLACE, bookie_id)
    if wanted.type is ExternalType.NODE_PORT:
        return node.address if node is not None else ""
    given = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return next((str(one.get("hostname") or one.get("ip") or "") for one in given), "")


def _ports(service: Object) -> dict[str, int]:
    """By name: of the nodes, or of the load balancer. 0 = it has not been given yet."""
    is_on_nodes = service["spec"].get("type") == ExternalType.NODE_PORT.value
    key = "nodePort" if is_on_nodes else "port"
    return {str(port["name"]): int(port.get(key) or 0) for port in service["spec"]["ports"]}
