"""Definite losses: found, looked at again, and recorded on the bookies that owed the entries.

An entry is definitely lost when it must exist within a CLOSED end, no copy can be read, and every
member of its write set has answered after searching its disks. Anything less is left as it is: a
bookie that is merely down may have the entry, and what an open ledger must hold is not settled.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bookie.ids import BookieId, LedgerId
from bookie.protocol.assignment import assigned
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.repair.judge.expect import Verdict
from bookie.repair.look.audit import Auditor, Look
from bookie.repair.look.bookie_control import BookieControl
from bookie.repair.reports.result import ranges_json

LOSS_REASON: Final = "repair: every member of the write set searched its disks and none has a copy"


@dataclass(frozen=True, slots=True)
class Loss:
    """Entries of one ledger that no bookie has. `recorded_on` and `refused`: by bookie."""

    ledger_id: LedgerId
    entries: EntrySet
    recorded_on: tuple[BookieId, ...]
    refused: tuple[tuple[BookieId, str], ...]

    def json(self) -> dict[str, Any]:
        return {
            "ledger_id": self.ledger_id,
            **ranges_json(self.entries),
            "recorded_on": list(self.recorded_on),
            "refused": dict(self.refused),
        }


def suspects(findings: Iterable[Verdict]) -> list[LedgerId]:
    """Ledgers with entries that look definitely lost, and are not in all loss records yet."""
    return [v.ledger_id for v in findings if _may_lose(v)]


def _may_lose(verdict: Verdict) -> bool:
    return verdict.state is LedgerState.CLOSED and bool(verdict.unrecorded)


async def record_losses(
    auditor: Auditor, control: BookieControl, found: Iterable[Verdict]
) -> list[Loss]:
    """Look at the suspects once more and record what is still gone."""
    before = {verdict.ledger_id: verdict for verdict in found}
    looks = await auditor.look(suspects(before.values()))
    return [
        await _record(control, look, gone)
        for ledger_id, look in looks.items()
        if (gone := before[ledger_id].gone & look.verdict.unrecorded) and _may_lose(look.verdict)
    ]


async def _record(control: BookieControl, look: Look, gone: EntrySet) -> Loss:
    metadata = look.metadata.value
    # On all that owe them, also where it stands already: a bookie whose disk is a new one could
    # never be cleared without a record of its own.
    owed = shares_of(metadata, look.verdict.shares, gone)
    refused = await record_on_each(
        control, look.ledger_id, owed, reason=LOSS_REASON, answered_by=list(owed)
    )
    recorded = tuple(bookie_id for bookie_id in owed if bookie_id not in refused)
    return Loss(look.ledger_id, gone, recorded, tuple(refused.items()))


def shares_of(
    metadata: LedgerMetadata, bookies: Iterable[BookieId], lost: EntrySet
) -> dict[BookieId, EntrySet]:
    """What each of these bookies owes of `lost`, which is not empty; those without any left out."""
    return {
        bookie_id: share
        for bookie_id in bookies
        if (share := assigned(metadata, bookie_id, through=lost.last) & lost)
    }


async def record_on_each(
    control: BookieControl,
    ledger_id: LedgerId,
    shares: Mapping[BookieId, EntrySet],
    *,
    reason: str,
    answered_by: Sequence[BookieId],
) -> dict[BookieId, str]:
    """Have each bookie record its share as lost, durably; the words of those that refused.

    Goes on after a refusal: each record is true by itself. A person's decision (`accept_loss`)
    needs all members, and stops.
    """
    refused: dict[BookieId, str] = {}
    for bookie_id, lost in shares.items():
        answer = await control.record_loss(
            bookie_id, ledger_id, lost, reason=reason, by_person=False, answered_by=answered_by
        )
        if not answer.accepted:
            refused[bookie_id] = answer.message
    return refused
