"""One decision of a person about many ledgers (S33), or a look at what it would mean.

After a power cut of several bookies hundreds of ledgers may wait for the same word. Each is decided
for itself, by the rules of `accept_loss`: what is refused of one leaves the others as they are.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from bookie.errors import BadRequestError, BookieError, MetadataFormatError
from bookie.ids import EntryId, LedgerId
from bookie.ledger_selector import LedgerSelector, SelectedLedgers
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.repair.judge.outlook import Outlook, outlook
from bookie.repair.look.cluster import Cluster
from bookie.repair.mend.accept_loss import LossDecision, accept_loss

LEDGERS_AT_ONCE: Final = 1000
"""Metadata of a range that is read together."""
MESSAGE_MAX: Final = 1000
"""Characters of why one ledger was refused."""


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
        in_question = one.first_in_question
        if in_question is not None and expected not in (None, in_question):
            found.refused[ledger_id] = (
                f"ledger {ledger_id}: entry {in_question} is in question, not {expected}"
            )
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
    """Those that nobody can read as well: what they are is unknown, and each is refused."""
    ids = iter([one async for one in cluster.store.ledger_ids() if _is_in(one, ranges)])
    found: list[LedgerId] = []
    while block := list(islice(ids, LEDGERS_AT_ONCE)):
        unreadable: dict[LedgerId, MetadataFormatError] = {}
        known = await cluster.store.read_ledgers(block, unreadable=unreadable)
        states = {ledger_id: one.value.state for ledger_id, one in known.items()}
        begun = {one for one, state in states.items() if state is LedgerState.IN_RECOVERY}
        found += [one for one in block if one in begun or one in unreadable]
    return found


def _refusals(refused: dict[LedgerId, str]) -> list[dict[str, Any]]:
    return [
        {"ledger_id": ledger_id, "message": why[:MESSAGE_MAX]} for ledger_id, why in refused.items()
    ]
