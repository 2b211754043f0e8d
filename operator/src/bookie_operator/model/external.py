"""How clients outside of the Kubernetes cluster reach the bookies: a Service for each of them.

A client must reach each single bookie, since each holds other entries. So every bookie needs an
address of its own, and registers it.
"""

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from bookie_operator.model.base import LongText, Resource, ShortText, rule

PLACE: Final = "{bookie}"
"""Placeholder for the name of a bookie, such as `bookie-0`."""
HOST_PATTERN: Final = r"^([A-Za-z0-9]|\{bookie\})([A-Za-z0-9.-]|\{bookie\})*$"
RANGE_PATTERN: Final = r"^[0-9A-Fa-f.:]+/[0-9]{1,3}$"


class ExternalType(StrEnum):
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class External(Resource):
    """How clients outside of the Kubernetes cluster reach the bookies."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule(
                    "self.type != 'LoadBalancer' || !has(self.advertisedHost) || "
                    f"self.advertisedHost.contains('{PLACE}')",
                    f"external.advertisedHost needs {PLACE} with type LoadBalancer: all bookies "
                    "have the same port there",
                ),
                rule(
                    "self.type == 'LoadBalancer' || self.sourceRanges.size() == 0",
                    "external.sourceRanges counts with type LoadBalancer alone",
                ),
            ]
        }
    )

    type: ExternalType
    """Type of the Service of each bookie: `NodePort` gives it a port on every node; `LoadBalancer`
    an address from the cloud or from a controller such as MetalLB."""
    advertised_host: (
        Annotated[str, StringConstraints(pattern=HOST_PATTERN, max_length=253)] | None
    ) = None
    """Host name that bookies register for outside clients; `{bookie}` in it is replaced by the
    bookie's name, as in `{bookie}.books.example.org`. Absent: the address of the load balancer, or
    with NodePort an address of the bookie's node, preferably its external one."""
    annotations: Annotated[dict[str, LongText], Field(max_length=32)] = Field(default_factory=dict)
    """Annotations of each Service, for load balancers and DNS; `{bookie}` in a value is replaced by
    the bookie's name."""
    load_balancer_class: ShortText | None = None
    """Class of the load balancer's implementation. Absent: the cluster's default. Kubernetes does
    not allow a change while the type is LoadBalancer."""
    load_balancer_node_ports: bool | None = None
    """False: the Service of a load balancer gets no node ports, which `sourceRanges` do not
    protect; use it with load balancers that need none, such as MetalLB. Absent: the default of
    Kubernetes, true."""
    source_ranges: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=RANGE_PATTERN, max_length=64)], ...],
        Field(max_length=64),
    ] = ()
    """Address ranges from which a load balancer accepts clients, such as `192.0.2.0/24`. Empty:
    all. Not allowed with NodePort, which accepts everybody who reaches a node."""
    zookeeper: bool = False
    """True: the embedded ZooKeeper gets such a Service too, with `zookeeper` in place of
    `{bookie}`. Clients need it. Everybody who reaches it can change and delete the metadata, so let
    in only those whom you trust."""

    @model_validator(mode="after")
    def _hosts_differ(self) -> Self:
        host = self.advertised_host
        if self.type is ExternalType.LOAD_BALANCER and host is not None and PLACE not in host:
            raise ValueError(
                f"advertisedHost: found {host!r}, expected {PLACE} in it with type LoadBalancer: "
                "all bookies have the same port there"
            )
        if self.type is ExternalType.NODE_PORT and self.source_ranges:
            raise ValueError(
                f"sourceRanges: found {len(self.source_ranges)}, expected none with type NodePort, "
                "which lets in everybody who reaches a node"
            )
        return self
