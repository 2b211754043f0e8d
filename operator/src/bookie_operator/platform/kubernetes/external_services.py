"""Services by which clients outside of the Kubernetes cluster reach each bookie, and the addresses
that these Services were given. Pure.

The operator writes a bookie's addresses into an annotation of its pod, where the kubelet shows them
to the bookie as a file, also when they come long after its start.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from bookie.hosts import at_port
from bookie.ids import BookieId

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.external import PLACE, External, ExternalType
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import SERVICE, Kind, Object
from bookie_operator.platform.kubernetes.bookies import RUN_PORT, STOCK_PORT, bookie_selector
from bookie_operator.platform.kubernetes.nodes import Node
from bookie_operator.platform.kubernetes.surroundings import ZOOKEEPER_PORT, owned

ADVERTISED_PORTS: Final = {"stock": STOCK_PORT, "run": RUN_PORT}
"""A bookie's ports for clients; outside clients cannot reach its control plane."""
GIVEN_AFTER: Final = timedelta(minutes=5)
"""How long a Service may have no address before a warning event."""


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
        if wanted.load_balancer_node_ports is not None:
            spec["allocateLoadBalancerNodePorts"] = wanted.load_balancer_node_ports
    service = owned(cluster, f"{name}-external", names.EXTERNAL, {"spec": spec}, bookie=place)
    if wanted.annotations:  # an empty mapping would stand for all that others write there
        written = wanted.annotations.items()
        texts = {key: value.replace(PLACE, place) for key, value in written}
        service["metadata"]["annotations"] = texts
    return service


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
            found[bookie_id] = " ".join(
                f"{name}={at_port(host, ports[name])}" for name in ADVERTISED_PORTS
            )
    return found


def without_doubles(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """What each bookie is to advertise, where what is not known `now` stays as it was `before`.

    A request of a stock client names no bookie, so no two may ever advertise one address: one that
    was given to another bookie meanwhile is not kept, and of one that two have now neither has it.
    """
    counts = Counter(part for address in now.values() for part in _parts(address))
    unique = {
        bookie_id: address
        for bookie_id, address in now.items()
        if all(counts[part] == 1 for part in _parts(address))
    }
    kept = {
        bookie_id: address
        for bookie_id, address in before.items()
        if bookie_id not in now and not any(part in counts for part in _parts(address))
    }
    return unique | kept


def _parts(address: str) -> list[str]:
    """`stock=a:1 run=a:2` -> `a:1`, `a:2`."""
    return [part.partition("=")[2] for part in address.split()]


def unreached(
    wanted: External,
    services: Sequence[Object],
    advertised: Mapping[str, str],
    *,
    now: datetime,
) -> dict[str, str]:
    """Name of a Service -> why its bookie advertises nothing, of those that were given time."""
    found = {}
    for service in services:
        metadata = service["metadata"]
        bookie_id = str(metadata["labels"].get(names.BOOKIE_LABEL, ""))
        made_at = datetime.fromisoformat(metadata["creationTimestamp"])
        if bookie_id == names.ZOOKEEPER or bookie_id in advertised or now - made_at < GIVEN_AFTER:
            continue
        if _is_on_nodes(service) and wanted.advertised_host is None:
            why = "no address of its node may be read (rbac.nodes of the operator's chart), or its "
            why += "node has none: name an advertisedHost"
        elif wanted.advertised_host is None:
            why = "no load balancer has given it an address: look at the events of its Service"
        else:
            why = "it shares its address with another bookie, or has no ports yet"
        found[str(metadata["name"])] = f"{bookie_id} is not reached from outside: {why}"
    return found


def _host(wanted: External, service: Object, bookie_id: str, node: Node | None) -> str:
    if wanted.advertised_host is not None:
        return wanted.advertised_host.replace(PLACE, bookie_id)
    if _is_on_nodes(service):
        return node.address if node is not None else ""
    given = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return next((str(one.get("hostname") or one.get("ip") or "") for one in given), "")


def _is_on_nodes(service: Object) -> bool:
    """As it is, not as it is wanted: a change of the type may have been refused."""
    return bool(service["spec"].get("type") == ExternalType.NODE_PORT.value)


def _ports(service: Object) -> dict[str, int]:
    """By name: of the nodes, or of the load balancer. 0 = it has not been given yet."""
    key = "nodePort" if _is_on_nodes(service) else "port"
    return {str(port["name"]): int(port.get(key) or 0) for port in service["spec"]["ports"]}
