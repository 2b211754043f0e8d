"""One decision of a person about many ledgers (S33), or a look at what it would mean.

After a power cut of several bookies hundreds of ledgers may wait for the same word. Each is decided
for itself, by the rules of `accept_loss`: what is refused of one leaves the others as they are.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from bookie.errors import BadRequestError, BookieError
from bookie.ids import EntryId, LedgerId
from bookie.ledger_selector import LedgerSelector, SelectedLedgers
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.repair.judge.outlook import Outlook, outlook
from bookie.repair.look.cluster import Cluster
from bookie.repair.mend.accept_loss import LossDecision, accept_loss

LEDGERS_AT_ONCE: Final = 1000
"""Metadata of a range that is read together."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Who decides, and why; both are kept with each ledger."""

    by: str
    reason: str


@dataclass(slots=True)
class LossDecisions:
    """What came of each ledger, in the order of the selector."""

    decided: list[LossDecision] = field(default_factory=list)
    """Those that are closed now."""
    refused: dict[LedgerId, str] = field(default_factory=dict)
    """Why it is as it was."""

    def json(self) -> dict[str, Any]:
        given_up = [one for one in self.decided if one.lost_from is not None]
        return {
            "closed": len(self.decided),
            "given_up": len(given_up),
            "refused": len(self.refused),
            "decisions": [one.json() for one in self.decided],
            "refusals": _refusals(self.refused),
        }


@dataclass(slots=True)
class Outlooks:
    """What a close of each ledger would mean, in the order of the selector."""

    seen: list[Outlook] = field(default_factory=list)
    """Those that a decision could be about."""
    refused: dict[LedgerId, str] = field(default_factory=dict)
    """Why nothing can be decided about it."""

    def json(self) -> dict[str, Any]:
        waiting = [one for one in self.seen if one.away]
        return {
            "dry_run": True,
            "closed": len(self.seen) - len(waiting),
            "given_up": sum(bool(one.forgotten_by) for one in self.seen if not one.away),
            "refused": len(self.refused) + len(waiting),
            "decisions": [one.json() for one in self.seen],
            "refusals": _refusals(self.refused),
        }


async def decide_losses(
    cluster: Cluster, selector: LedgerSelector, approval: Approval
) -> LossDecisions:
    """Accept the loss of each selected ledger.

    Raises what reading a range of metadata raises, before anything is decided.
    """
    found = LossDecisions()
    for ledger_id, expected in [one async for one in _selected(cluster, selector)]:
        try:
            decision = await accept_loss(
                cluster, ledger_id, by=approval.by, reason=approval.reason, first_entry_id=expected
            )
        except BookieError as error:
            found.refused[ledger_id] = str(error)
        else:
            found.decided.append(decision)
    return found


async def outlooks(cluster: Cluster, selector: LedgerSelector) -> Outlooks:
    """What a decision about them would mean now; nothing is fenced, written or closed."""
    found = Outlooks()
    for ledger_id, expected in [one async for one in _selected(cluster, selector)]:
        try:
            metadata = (await cluster.store.read_ledger(ledger_id)).value
            one = await _outlook(cluster, metadata)
        except BookieError as error:
            found.refused[ledger_id] = str(error)
            continue
        if expected not in (None, one.first_in_question):
            found.refused[ledger_id] = _other_entry(one, expected)
        else:
            found.seen.append(one)
    return found


async def _outlook(cluster: Cluster, metadata: LedgerMetadata) -> Outlook:
    ledger_id = metadata.ledger_id
    if metadata.is_closed:
        raise BadRequestError(f"ledger {ledger_id} is CLOSED at entry {metadata.last_entry_id}")
    members = metadata.last_fragment.ensemble
    holdings = {
        member: (await cluster.control.availability(member, [ledger_id]))[ledger_id]
        for member in members
    }
    return outlook(metadata, holdings)


def _other_entry(found: Outlook, expected: EntryId | None) -> str:
    which = found.first_in_question
    seen = "no entry" if which is None else f"entry {which}"
    return f"ledger {found.ledger_id}: {seen} is in question, not {expected}"


async def _selected(
    cluster: Cluster, selector: LedgerSelector
) -> AsyncIterator[tuple[LedgerId, EntryId | None]]:
    """Ledgers and the entry expected of each. Of a range only those whose recovery was begun and
    has not ended: an OPEN one has a writer, perhaps, whom nobody named."""
    ranges = [part for part in selector.parts if part.is_range]
    begun = await _in_recovery(cluster, ranges) if ranges else []
    for part in selector.parts:
        if not part.is_range:
            yield part.first, part.entry
            continue
        for ledger_id in begun:
            if part.first <= ledger_id <= part.last:
                yield ledger_id, None


def _is_in(ledger_id: LedgerId, ranges: Sequence[SelectedLedgers]) -> bool:
    return any(part.first <= ledger_id <= part.last for part in ranges)


async def _in_recovery(cluster: Cluster, ranges: Sequence[SelectedLedgers]) -> list[LedgerId]:
    ids = iter([one async for one in cluster.store.ledger_ids() if _is_in(one, ranges)])
    found = []
    while block := list(islice(ids, LEDGERS_AT_ONCE)):
        known = await cluster.store.read_ledgers(block)
        states = {ledger_id: one.value.state for ledger_id, one in known.items()}
        found += [one for one in block if states.get(one) is LedgerState.IN_RECOVERY]
    return found


def _refusals(refused: dict[LedgerId, str]) -> list[dict[str, Any]]:
    return [{"ledger_id": ledger_id, "message": why} for ledger_id, why in refused.items()]
