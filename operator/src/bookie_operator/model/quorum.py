"""Sizes of ledgers: the number of bookies, of copies of an entry, and of acknowledgements."""

from typing import Annotated, Final, Self

from pydantic import ConfigDict, Field, model_validator

from bookie_operator.model.base import Resource, rule

REPLICAS_MAX: Final = 100
"""Bookies of a cluster, at most."""


class Quorum(Resource):
    """Sizes that the cluster's ledgers use. The loss budget is at most `ack` - 1."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule("self.write <= self.ensemble", "quorum.write must be at most quorum.ensemble"),
                rule("self.ack <= self.write", "quorum.ack must be at most quorum.write"),
            ]
        }
    )

    ensemble: Annotated[int, Field(ge=1, le=REPLICAS_MAX)] = 3
    """Number of bookies over which a ledger's entries are spread; `replicas` must be at least as
    many."""
    write: Annotated[int, Field(ge=1, le=REPLICAS_MAX)] = 3
    """Number of copies of each entry; at most `ensemble`."""
    ack: Annotated[int, Field(ge=1, le=REPLICAS_MAX)] = 2
    """Number of bookies that must acknowledge an entry before its writer gets an acknowledgement;
    at most `write`. `ack` - 1 bookies may lose their entries at the same time without loss of
    acknowledged entries."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.ack <= self.write <= self.ensemble:
            raise ValueError(
                f"found ensemble {self.ensemble}, write {self.write}, ack {self.ack}; "
                "expected ensemble >= write >= ack"
            )
        return self
