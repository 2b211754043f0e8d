"""The metadata store of a cluster: one that the operator runs, or one that exists."""

from typing import Annotated, Self

from pydantic import ConfigDict, StringConstraints, model_validator

from bookie_operator.model.authentication import SecretName
from bookie_operator.model.base import Resource, ShortText, rule
from bookie_operator.model.pod_options import PodResources
from bookie_operator.model.quantity import Size


class EmbeddedMetadata(Resource):
    """A ZooKeeper that the operator runs for this cluster: one server, not an ensemble."""

    size: Size = "1Gi"
    """Size of its volume. It can grow but not shrink."""
    storage_class: ShortText = ""
    """Storage class of its volume; it cannot change. Empty: the default class of the Kubernetes
    cluster."""
    resources: PodResources = PodResources(requests={"cpu": "50m", "memory": "256Mi"})
    """CPU and memory of ZooKeeper's pod; its heap is 128 MB."""


class Metadata(Resource):
    """The metadata store, which knows the ledgers: set exactly one of `embedded` and `connect`."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule(
                    "has(self.embedded) != has(self.connect)",
                    "metadata needs exactly one of embedded and connect",
                ),
                rule(
                    "has(self.connect) || !has(self.credentialsSecret)",
                    "metadata.credentialsSecret is for metadata.connect: a ZooKeeper of the "
                    "cluster's own knows the fleet by its certificates",
                ),
                rule(
                    "has(self.connect) == has(oldSelf.connect) && "
                    "(!has(self.connect) || self.connect == oldSelf.connect)",
                    "metadata cannot change: the ledgers are known there",
                ),
                rule(
                    "!has(self.embedded) || !has(oldSelf.embedded) || "
                    "(quantity(self.embedded.size).compareTo(quantity(oldSelf.embedded.size)) >= 0 "
                    "&& self.embedded.storageClass == oldSelf.embedded.storageClass)",
                    "metadata.embedded.size can only grow, and storageClass counts when its volume "
                    "is made: it cannot change",
                ),
            ]
        }
    )

    embedded: EmbeddedMetadata | None = None
    """Run a ZooKeeper for this cluster; this is the default."""
    connect: (
        Annotated[
            str, StringConstraints(pattern=r"^zks?://[^/,\s]+(,[^/,\s]+)*(/\S+)$", max_length=1024)
        ]
        | None
    ) = None
    """Use an existing ZooKeeper: `zk://host:port[,host:port]/ledgers`, or `zks://` for TLS. It
    cannot change."""
    credentials_secret: SecretName | None = None
    """Secret with a ZooKeeper user under the key `credentials`: YAML with scheme (digest or sasl),
    user and password. From then on only this user may change what the bookies and the operator
    create there. Absent: they have no user."""

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        found = [name for name in ("embedded", "connect") if getattr(self, name) is not None]
        if len(found) != 1:
            raise ValueError(
                f"found {' and '.join(found) or 'neither'}, expected exactly one of embedded and "
                "connect"
            )
        if self.credentials_secret is not None and self.connect is None:
            raise ValueError(
                f"credentialsSecret: found {self.credentials_secret}, expected none beside "
                "embedded: a ZooKeeper of the cluster's own knows the fleet by its certificates"
            )
        return self
