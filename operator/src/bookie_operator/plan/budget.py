"""The loss budget: how many bookies may be out at once with no acknowledged entry at risk.

An acknowledged entry is on ack-quorum bookies, perhaps only in their memory. So the set of bookies
that are down, booting or in limbo, plus the candidate of an action, must stay below the ack
quorum. Every voluntary disruption and every cookie fix asks here; what is not known refuses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bookie.protocol.ids import BookieId

from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.observed import MetadataView
from bookie_operator.plan.actions import Refusal
from bookie_operator.plan.states import Judged

EXCEEDED: Final = "LossBudgetExceeded"


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
        general = self._general_refusal(action, candidate, without_marks=without_marks)
        if general is not None:
            return general
        out = {*self.impaired, candidate}
        if len(out) > self.limit:
            why = f"{len(out)} bookies would be out, {self.limit} may be: already out "
            return _refuse(action, candidate, EXCEEDED, why + self._others(candidate))
        return None

    def leaving_refusal(self, action: str, candidate: BookieId) -> Refusal | None:
        """Why `candidate` may not leave now: no limbo anywhere, and nobody else out.

        It is not counted itself: it serves what it has until no ledger names it.
        """
        general = self._general_refusal(action, candidate, without_marks=True)
        others = self._others(candidate)
        if general is None and others:
            why = f"a bookie leaves only while all others serve: out is {others}"
            return _refuse(action, candidate, EXCEEDED, why)
        return general

    def _others(self, candidate: BookieId) -> str:
        out = {name: why for name, why in self.impaired.items() if name != candidate}
        return ", ".join(f"{name} ({why})" for name, why in out.items())

    def _general_refusal(
        self, action: str, candidate: BookieId, *, without_marks: bool
    ) -> Refusal | None:
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
        return None

    @property
    def disruptions_allowed(self) -> int:
        """For the PodDisruptionBudget: 0 while anyone is in limbo, down, not ready, or unknown."""
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
