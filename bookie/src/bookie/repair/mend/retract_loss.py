"""A person takes a wrong loss record back: on every bookie that has one of the ledger.

Each bookie judges for itself (`protocol.clearing.judge_retraction`). What it may deny no more is
unknown from then on, and a repair copies it, or records it again once every member has searched.
"""

from dataclasses import dataclass
from typing import Any

from bookie.ids import BookieId, LedgerId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.repair.look.cluster import Cluster
from bookie.wire.admin.request_answer import RetractionAnswer


@dataclass(frozen=True, slots=True)
class LossRetraction:
    """The result of withdrawing the loss records of one ledger."""

    ledger_id: LedgerId
    answers: dict[BookieId, RetractionAnswer]
    """The answer of each bookie that had a record."""
    silent: tuple[BookieId, ...]
    """Bookies that did not say whether they have a record."""

    @property
    def refused(self) -> dict[BookieId, str]:
        return {one: answer.message for one, answer in self.answers.items() if not answer.accepted}

    def json(self) -> dict[str, Any]:
        taken = {one: answer for one, answer in self.answers.items() if answer.accepted}
        return {
            "ledger_id": self.ledger_id,
            "retracted_on": {one: answer.entries for one, answer in taken.items()},
            "in_limbo_on": [one for one, answer in taken.items() if answer.in_limbo],
            "refused": self.refused,
            "silent": list(self.silent),
        }


async def retract_loss(
    cluster: Cluster,
    ledger_id: LedgerId,
    *,
    by: str,
    reason: str,
    entries: EntrySet = EMPTY,
) -> LossRetraction:
    """Take back what is recorded as lost of the ledger, or of `entries` of it where some are named.

    Every bookie is asked, since a wrong record may be on one that is no member. One after the
    other, and on after a refusal: each record that goes was wrong by itself.
    """
    answers: dict[BookieId, RetractionAnswer] = {}
    silent: list[BookieId] = []
    for bookie_id in await cluster.all_bookies():
        holding = (await cluster.control.availability(bookie_id, [ledger_id]))[ledger_id]
        named = holding.lost & entries if entries else holding.lost
        if named:
            answers[bookie_id] = await cluster.control.retract_loss(
                bookie_id, ledger_id, named, by=by, reason=reason
            )
        elif not holding.has_searched:
            # Whatever kept it from an answer, its record may be there.
            silent.append(bookie_id)
    return LossRetraction(ledger_id, answers, tuple(silent))
