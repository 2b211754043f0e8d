"""A person's decision to close a ledger at a possible loss (S33), re-checked and recorded.

When too many members forgot, nobody can say whether an entry at the tail was acknowledged, and
recovery refuses to close for ever. A person may then accept the loss. It is refused while a member
is merely away; if a copy or enough denials turned up, the ledger is closed without any loss. The
decision stays visible: in the loss records of the members and in the ledger's own metadata.
"""

import time
from dataclasses import dataclass
from typing import Any

from bookie.client.recovery import RecoveryResult, accepted_loss, recover
from bookie.errors import BadRequestError, UndecidableError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.answers import UndecidedError
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.recovery_effects import AcceptedLoss
from bookie.repair.judge.expect import Holding
from bookie.repair.look.cluster import Cluster
from bookie.repair.mend.losses import shares_of


@dataclass(frozen=True, slots=True)
class LossDecision:
    """How the ledger ended. `lost_from`: None when it could be closed without accepting anything.

    `recorded_on`: the bookies with a durable loss record.
    """

    ledger_id: LedgerId
    last_entry_id: EntryId
    lost_from: EntryId | None
    recorded_on: tuple[BookieId, ...]

    def json(self) -> dict[str, Any]:
        return {
            "ledger_id": self.ledger_id,
            "last_entry_id": self.last_entry_id,
            "lost_from": self.lost_from,
            "recorded_on": list(self.recorded_on),
        }


async def accept_loss(
    cluster: Cluster,
    ledger_id: LedgerId,
    *,
    by: str,
    reason: str,
    first_entry_id: EntryId | None = None,
) -> LossDecision:
    """Close the ledger before the entry that nobody can decide; `first_entry_id` names it.

    Raises BadRequestError when the ledger is CLOSED (its end never changes) or another entry than
    the one named is in question, UndecidableError while members are away, NoSuchLedgerError.
    """
    metadata = (await cluster.store.read_ledger(ledger_id)).value
    if metadata.is_closed:
        raise BadRequestError(
            f"ledger {ledger_id} is CLOSED at entry {metadata.last_entry_id} and its end never "
            "changes; entries missing within it are found by the audit and recorded by a repair"
        )
    try:
        closed = await _recover(cluster, metadata)
    except UndecidedError as undecided:
        question = undecided
    else:
        return LossDecision(ledger_id, closed.metadata.value.last_entry_id, None, ())
    if first_entry_id not in (None, question.entry_id):
        raise BadRequestError(
            f"ledger {ledger_id}: entry {question.entry_id} is in question, not {first_entry_id}; "
            "look at it again and name that one"
        )
    metadata = (await cluster.store.read_ledger(ledger_id)).value
    holdings = await _answers_of_all(cluster, metadata)
    recorded_on = await _record(
        cluster, metadata, holdings, question.entry_id, reason=f"{by}: {reason}"
    )
    decision = accepted_loss(question.entry_id, by=by, reason=reason, at_ms=int(time.time() * 1000))
    # Recovery asks everyone again, and honours the decision only if nothing has turned up.
    closed = await _recover(cluster, metadata, decision)
    end = closed.metadata.value.last_entry_id
    lost_from = None if end >= question.entry_id else question.entry_id
    return LossDecision(ledger_id, end, lost_from, recorded_on)


async def _recover(
    cluster: Cluster, metadata: LedgerMetadata, decision: AcceptedLoss | None = None
) -> RecoveryResult:
    return await recover(
        cluster.store,
        cluster.peers,
        metadata.ledger_id,
        password=metadata.password,
        accepted_loss=decision,
        settings=cluster.recovery,
    )


async def _answers_of_all(cluster: Cluster, metadata: LedgerMetadata) -> dict[BookieId, Holding]:
    """What each member of the last ensemble holds; refused while one has not searched its disks."""
    ensemble = metadata.last_fragment.ensemble
    ledger_id = metadata.ledger_id
    found = {
        bookie_id: (await cluster.control.availability(bookie_id, [ledger_id]))[ledger_id]
        for bookie_id in ensemble
    }
    away = [bookie_id for bookie_id, holding in found.items() if not holding.has_searched]
    if away:
        said = ", ".join(f"{bookie_id}: {found[bookie_id].status.name}" for bookie_id in away)
        raise UndecidableError(
            f"ledger {ledger_id}: no loss can be accepted while members are merely away ({said}); "
            "bring them back first: they may hold the entry"
        )
    return found


async def _record(
    cluster: Cluster,
    metadata: LedgerMetadata,
    holdings: dict[BookieId, Holding],
    first: EntryId,
    *,
    reason: str,
) -> tuple[BookieId, ...]:
    """Write the durable record on every member before the close; UndecidableError if one refuses.

    It names what no member lists, up to the highest id one holds; those beyond the end are cut off.
    Each member takes its own share; those that have one are returned. Asked no further after a
    refusal: nothing is closed then, and what is not lost should have few such records.
    """
    last = max([first, *(holding.entries.last for holding in holdings.values() if holding.entries)])
    lost = EntrySet.from_ranges([(first, last)])
    for bookie_id, holding in holdings.items():
        if first in holding.entries:
            raise UndecidableError(
                f"ledger {metadata.ledger_id}: {bookie_id} lists entry {first} though it could not "
                "return it; repair its disk or replace it, then decide"
            )
        lost -= holding.entries
    shares = shares_of(metadata, holdings, lost)
    for bookie_id, share in shares.items():
        answer = await cluster.control.record_loss(
            bookie_id,
            metadata.ledger_id,
            share,
            reason=reason,
            by_person=True,
            answered_by=list(holdings),
        )
        if not answer.accepted:
            raise UndecidableError(
                f"ledger {metadata.ledger_id}: {bookie_id} did not record the loss "
                f"({answer.message}); nothing was closed"
            )
    return tuple(shares)
