"""Sizes of ledgers: how many bookies they are spread over, how many copies, how many acks."""

from typing import Annotated, Final, Self

from pydantic import ConfigDict, Field, model_validator

from bookie_operator.model.base import Resource, rule

REPLICAS_MAX: Final = 100
"""Bookies of a cluster."""


class Quorum(Resource):
    """Sizes that the cluster's ledgers use; the loss budget is ack - 1 at most."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule("self.write <= self.ensemble", "quorum.write must be at most quorum.ensemble"),
                rule("self.ack <= self.write", "quorum.ack must be at most quorum.write"),
            ]
        }
    )

    ensemble: Annotated[int, Field(ge=1, le=REPLICAS_MAX)] = 3
    """Bookies that a ledger's entries are spread over; replicas must be at least as many."""
    write: Annotated[int, Field(ge=1, le=REPLICAS_MAX)] = 3
    """Copies that are made of each entry; at most `ensemble`."""
    ack: Annotated[int, Field(ge=1, le=REPLICAS_MAX)] = 2
    """Copies that must be acknowledged before an add is; at most `write`. One less may be lost at
    once without a loss of acknowledged entries."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.ack <= self.write <= self.ensemble:
            raise ValueError(
                f"found ensemble {self.ensemble}, write {self.write}, ack {self.ack}; "
                "expected ensemble >= write >= ack"
            )
        return self
