"""The loss budget: how many bookies may be out at once with no acknowledged entry at risk.

An acknowledged entry is on ack-quorum bookies, perhaps only in their memory. So the set of bookies
that are down, booting or in limbo, plus the candidate of an action, must stay below the ack
quorum. Every voluntary disruption and every cookie fix asks here; what is not known refuses.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bookie.protocol.ids import BookieId

from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.observed import MetadataView
from bookie_operator.plan.actions import Refusal
from bookie_operator.plan.states import Judged


@dataclass(frozen=True, slots=True)
class Budget:
    """|impaired or candidate| <= limit, else refuse."""

    limit: int
    impaired: Mapping[BookieId, str]
    metadata: MetadataView
    is_paused: bool
    is_loss_possible: bool

    def refusal(
        self, action: str, candidate: BookieId, *, without_marks: bool = False
    ) -> Refusal | None:
        """Why `action` on `candidate` must wait, or None.

        `without_marks`: any bookie in limbo refuses, even when the budget had room for it.
        """
        if self.is_paused:
            return _refuse(action, candidate, "Paused", "spec.paused is true")
        if not self.metadata.reachable:
            why = f"the metadata store does not answer: {self.metadata.message}"
            return _refuse(action, candidate, "MetadataUnreachable", why)
        if self.is_loss_possible:
            why = "acknowledged entries may be lost; nothing is changed until a person has looked"
            return _refuse(action, candidate, "PossibleDataLoss", why)
        in_limbo = [bookie for bookie, why in self.impaired.items() if why == "in limbo"]
        if without_marks and in_limbo:
            return _refuse(action, candidate, "LimboPresent", f"{', '.join(in_limbo)} in limbo")
        out = {*self.impaired, candidate}
        if len(out) > self.limit:
            others = ", ".join(
                f"{bookie} ({why})" for bookie, why in self.impaired.items() if bookie != candidate
            )
            why = f"{len(out)} bookies would be out, {self.limit} may be: already out {others}"
            return _refuse(action, candidate, "LossBudgetExceeded", why)
        return None

    @property
    def disruptions_allowed(self) -> int:
        """For the PodDisruptionBudget: 0 while anything is in limbo, down, or unknown."""
        if self.is_loss_possible or not self.metadata.reachable or self.impaired:
            return 0
        return min(1, self.limit)


def budget_of(
    spec: ClusterSpec,
    judged: Mapping[BookieId, Judged],
    metadata: MetadataView,
    *,
    is_loss_possible: bool,
) -> Budget:
    impaired = {
        bookie_id: one.impairment for bookie_id, one in judged.items() if one.impairment is not None
    }
    return Budget(
        limit=spec.loss_budget,
        impaired=impaired,
        metadata=metadata,
        is_paused=spec.paused,
        is_loss_possible=is_loss_possible,
    )


def _refuse(action: str, candidate: BookieId, predicate: str, message: str) -> Refusal:
    return Refusal(action=action, predicate=predicate, message=message, bookie=candidate)
