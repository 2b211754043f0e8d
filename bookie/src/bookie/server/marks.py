"""The limbo and unchecked marks of a running bookie: it lists them, clears them on request, and
lifts the boundary at the end.

`protocol.clearing` judges. This module does the linearizable read before the judgement, the
checkpoint between judgement and clearing, and the record that makes the clearing durable.
"""

import asyncio
import logging
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final

from bookie.errors import (
    MetadataFormatError,
    NoSuchLedgerError,
    StorageError,
    UnavailableError,
)
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.naming import list_ledgers, named_ids
from bookie.metadata.store import MetadataStore
from bookie.points import passing
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.clearing import (
    ClearReason,
    ClearVerdict,
    judge_clear,
    judge_retraction,
    refuse_loss,
)
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.server.found_losses import take_back_losses
from bookie.server.recheck import Recheck, recheck
from bookie.server.state import BookieState
from bookie.storage.decisions import DecisionKind, PersonDecision, now_ms
from bookie.storage.records import LedgerRecord
from bookie.storage.storage import Storage
from bookie.wire.admin.limbo_marks import Mark

log = logging.getLogger(__name__)

CLEARS_AT_ONCE_MAX = 64
RANGES_NAMED_MAX = 10
_MARKED_AGAIN: Final = ClearVerdict(
    ClearReason.ENTRIES_MISSING, "a loss record was taken back meanwhile: repair, then ask again"
)


@dataclass(frozen=True, slots=True)
class Availability:
    """What this bookie holds of one ledger. `lost`: entries with a durable loss record."""

    ledger_id: LedgerId
    status: Status
    held: EntrySet
    lost: EntrySet
    limbo: bool
    unchecked: bool
    fenced: bool
    lac: EntryId


@dataclass(frozen=True, slots=True)
class LossRequest:
    """A request to record entries as lost. `answered_by`: the bookies that answered definitely."""

    ledger_id: LedgerId
    lost: EntrySet
    by_person: bool
    reason: str
    answered_by: frozenset[str]
    said_by: str = ""
    """The sender by its certificate; empty = unknown."""
    decided_by: str = ""
    """The person who decided, by the certificate; empty = unknown."""

    @property
    def kept_reason(self) -> str:
        """The reason text of the loss record: who found or accepted the loss, and why."""
        who = "a person" if self.by_person else "all members answered"
        return f"{who}: {self.reason}{f' (sent by {self.said_by})' if self.said_by else ''}"


@dataclass(frozen=True, slots=True)
class RetractionRequest:
    """A request to take loss records back: by whom and why."""

    ledger_id: LedgerId
    entries: EntrySet | None
    """Entries to take back; None = all of the ledger's recorded losses."""
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Retracted:
    """The result of a request to take loss records back."""

    refusal: str = ""
    """Why the record stays; empty when it was taken back."""
    entries: EntrySet = EMPTY
    """Entries whose loss record was taken back; empty when there was none."""
    into_limbo: bool = False
    """True when the ledger went into limbo here, until its entries are copied or searched for
    again."""


@dataclass(eq=False)
class Marks:
    """The marks of one bookie."""

    storage: Storage
    store: MetadataStore
    _: KW_ONLY
    bookie_id: BookieId
    """The bookie's own id, as metadata names it."""
    state: BookieState
    unchecked: set[LedgerId]
    """Ledgers that name the bookie and are not checked yet, without those in limbo."""

    def __post_init__(self) -> None:
        self._maintenance = self.storage.maintenance
        self._rechecking = asyncio.Lock()
        """Held during a recheck: one at a time; see `recheck`."""
        self._logged_unreadable: frozenset[LedgerId] = frozenset()
        """The ledgers with unreadable metadata that were logged last."""

    @property
    def limbo_count(self) -> int:
        return len(self.storage.limbo_ledgers())

    @property
    def unchecked_count(self) -> int:
        return len(self.unchecked)

    @property
    def losses_count(self) -> int:
        """How many ledgers have a durable loss record."""
        return self.storage.losses_count

    @property
    def ledgers_held(self) -> int:
        return len(self.storage.ledger_ids())

    async def flush(self) -> int:
        """Make a checkpoint; returns the size of all log files after it, in bytes. It also takes
        back loss records of entries that are here: a repair asks for a flush when it has copied.
        """

        def work() -> int:
            self._maintenance.checkpoint()
            return sum(usage.log_bytes for usage in self._maintenance.usage())

        log_bytes = await asyncio.to_thread(work)
        await take_back_losses(self.storage, self.store)
        return log_bytes

    def marked(self, *, include_unchecked: bool) -> list[Mark]:
        """The marked ledgers, ids rising."""
        boundary = self.storage.unchecked_boundary()
        epoch = boundary.epoch if boundary else 0
        found = [
            Mark(ledger_id, True, self._record(ledger_id).mark_epoch)
            for ledger_id in self.storage.limbo_ledgers()
        ]
        if include_unchecked:
            found += [Mark(ledger_id, False, epoch) for ledger_id in self.unchecked]
        return sorted(found, key=lambda marked: marked.ledger_id)

    # Availability
    async def availability(self, ledger_ids: Sequence[LedgerId]) -> list[Availability]:
        """What this bookie holds of each ledger; IO_ERROR for a ledger whose disk
        does not answer.
        """
        return [await self._availability(ledger_id) for ledger_id in ledger_ids]

    async def _availability(self, ledger_id: LedgerId) -> Availability:
        # Read the marks before the index: a mark that is cleared meanwhile must not turn unknown
        # entries into missing ones.
        record = self.storage.record(ledger_id)
        limbo = record is not None and record.limbo
        unchecked = self.storage.is_unchecked(ledger_id)
        # A process that may no longer be the bookie must deny nothing either; a call of the control
        # plane has not checked the lease before.
        forgot = limbo or unchecked or not self.state.look_at_lease()
        try:
            held = await asyncio.to_thread(self.storage.held, ledger_id)
            lost = self.storage.loss(ledger_id)
            status = self._presence(record, held, forgot=forgot)
        except StorageError as error:
            log.error("availability of ledger %d: %s", ledger_id, error)
            held, lost, status = EMPTY, EMPTY, Status.IO_ERROR
        return Availability(
            ledger_id,
            status,
            held,
            lost,
            limbo=limbo,
            unchecked=unchecked,
            fenced=record is not None and record.fenced,
            lac=self.storage.lac(ledger_id),
        )

    def _presence(self, record: LedgerRecord | None, held: EntrySet, *, forgot: bool) -> Status:
        if forgot:
            return Status.UNKNOWN
        gone = record is None or record.deleted
        return Status.NO_SUCH_LEDGER if gone and held.is_empty else Status.OK

    # Clearing
    async def clear(self, ledger_ids: Sequence[LedgerId]) -> list[ClearVerdict]:
        """Judge each mark, make the held entries durable, then clear the marks that may go.

        Returns one verdict per ledger, in order; if it says that the mark may go, the mark is gone.

        The metadata is read after a write barrier. A lagging server of the store might show an old
        state, such as a ledger that did not exist yet, or metadata without this bookie; a mark that
        is cleared because of it would not come back.
        """
        try:
            await self.store.barrier()
        except UnavailableError as error:
            return [ClearVerdict(ClearReason.METADATA_UNAVAILABLE, str(error))] * len(ledger_ids)
        # Read the records before the judgements: a mark that is made meanwhile outlives the
        # clearing.
        records = {ledger_id: self._record(ledger_id) for ledger_id in ledger_ids}
        verdicts: list[ClearVerdict] = []
        for start in range(0, len(ledger_ids), CLEARS_AT_ONCE_MAX):
            batch = ledger_ids[start : start + CLEARS_AT_ONCE_MAX]
            verdicts += await asyncio.gather(*(self._judge(records[i]) for i in batch))
        going = [i for i, found in zip(ledger_ids, verdicts, strict=True) if found.may_clear]
        if going:
            await asyncio.to_thread(self._maintenance.checkpoint)
            passing("clear: copies synced, mark not cleared")
            await asyncio.gather(*(self._clear(records[i]) for i in going))
            log.info("cleared the marks of %d ledgers", len(going))
        marked = {ledger_id for ledger_id in going if self._record(ledger_id).limbo}
        return [
            _MARKED_AGAIN if i in marked else v for i, v in zip(ledger_ids, verdicts, strict=True)
        ]

    async def _judge(self, record: LedgerRecord) -> ClearVerdict:
        ledger_id = record.ledger_id
        if not record.limbo and ledger_id not in self.unchecked:
            return ClearVerdict(ClearReason.NOT_MARKED)
        try:
            metadata = await self._read(ledger_id)
            held = await asyncio.to_thread(self.storage.held, ledger_id)
        except UnavailableError as error:
            return ClearVerdict(ClearReason.METADATA_UNAVAILABLE, str(error))
        except MetadataFormatError as error:
            return ClearVerdict(ClearReason.METADATA_UNREADABLE, str(error))
        except StorageError as error:
            return ClearVerdict(ClearReason.IO_ERROR, str(error))
        return judge_clear(
            metadata,
            self.bookie_id,
            held=held,
            lost=self.storage.loss(ledger_id),
            in_limbo=record.limbo,
            was_recovering=self._was_recovering(ledger_id),
        )

    def _was_recovering(self, ledger_id: LedgerId) -> bool:
        """True when a recoverer may have made this bookie a replacement before its unclean stop."""
        boundary = self.storage.unchecked_boundary()
        return boundary is not None and ledger_id in boundary.recovering

    async def _clear(self, record: LedgerRecord) -> None:
        ledger_id = record.ledger_id
        boundary = self.storage.unchecked_boundary()
        epoch = boundary.epoch if boundary else record.mark_epoch
        await self._persist(
            replace(record, limbo=False, checked_epoch=max(record.checked_epoch, epoch))
        )
        self.unchecked.discard(ledger_id)
        self.state.traffic.limbo_cleared += 1

    async def _persist(self, record: LedgerRecord) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def written(error: StorageError | None) -> None:
            if done.cancelled():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self.storage.put_record(record, done=written)
        await done

    async def _read(self, ledger_id: LedgerId) -> LedgerMetadata | None:
        try:
            return (await self.store.read_ledger(ledger_id)).value
        except NoSuchLedgerError:
            return None

    def _record(self, ledger_id: LedgerId) -> LedgerRecord:
        return self.storage.record(ledger_id) or LedgerRecord(ledger_id)

    # Losses
    async def record_loss(self, request: LossRequest) -> str:
        """Store a loss record durably; returns why not, or an empty text. It reads the metadata as
        `clear` does.
        """
        await self.store.barrier()
        try:
            metadata = await self._read(request.ledger_id)
        except MetadataFormatError as error:
            return str(error)
        if metadata is None:
            return f"ledger {request.ledger_id} does not exist"
        held = await asyncio.to_thread(self.storage.held, request.ledger_id)
        refusal = refuse_loss(
            metadata,
            request.lost,
            own_id=self.bookie_id,
            held=held,
            answered_by=request.answered_by,
            by_person=request.by_person,
        )
        if refusal:
            return refusal
        await asyncio.to_thread(
            self._maintenance.record_loss,
            request.ledger_id,
            request.lost,
            reason=request.kept_reason,
            decision=self._decided(request) if request.by_person else None,
        )
        log.error("ledger %d: %d entries recorded as lost", request.ledger_id, len(request.lost))
        return ""

    def _decided(self, request: LossRequest) -> PersonDecision:
        about = f"{ranges_text(request.ledger_id, request.lost)} are given up: {request.reason}"
        return PersonDecision(now_ms(), DecisionKind.LOSS, request.decided_by, about)

    async def retract_loss(self, request: RetractionRequest) -> Retracted:
        """Take loss records back durably. It reads the metadata as `clear` does."""
        ledger_id = request.ledger_id
        if not request.reason.strip():
            return Retracted("reason: found nothing, expected why the record is wrong")
        await self.store.barrier()
        # Read the marks before the metadata: a clearing that ends meanwhile may have seen a later
        # state.
        in_limbo = self._record(ledger_id).limbo
        is_unchecked = self.storage.is_unchecked(ledger_id)
        try:
            metadata = await self._read(ledger_id)
        except MetadataFormatError as error:
            return Retracted(str(error))
        held = await asyncio.to_thread(self.storage.held, ledger_id)
        named = self.storage.loss(ledger_id)
        named = named if request.entries is None else named & request.entries
        judged = judge_retraction(
            metadata,
            self.bookie_id,
            named,
            held=held,
            in_limbo=in_limbo,
            is_unchecked=is_unchecked,
        )
        if judged.refusal or named.is_empty:
            return Retracted(judged.refusal)
        about = f"{ranges_text(ledger_id, named)} are lost no more: {request.reason}"
        named = await asyncio.to_thread(
            self._maintenance.retract_loss,
            ledger_id,
            named,
            decision=PersonDecision(now_ms(), DecisionKind.RETRACTION, request.by, about),
            limbo_since=self.state.boot_epoch if judged.into_limbo else None,
        )
        if judged.into_limbo:
            self.unchecked.discard(ledger_id)  # it has no ledgers in limbo
        log.warning("%s (%s)", about, request.by or "nobody said who")
        return Retracted("", named, judged.into_limbo)

    # Copies
    async def recheck(self, ledger_id: LedgerId, entries: EntrySet) -> Recheck:
        """Verify stored copies and reject the corrupt ones; see `recheck`. One at a time: otherwise
        a second recheck that has read a bad copy could reject the good one that has replaced it
        meanwhile.
        """
        async with self._rechecking:
            return await recheck(self.storage, self.store, ledger_id, entries)

    # The end of the check
    async def finish_unchecked(self) -> bool:
        """Once no mark is left, list the ledgers again, and lift the unchecked boundary if no
        ledger came to name this bookie.

        A recoverer may have put this bookie into a fragment that no metadata showed at the boot
        (S37, R28). Such a ledger was IN_RECOVERY when this bookie acknowledged the copy, and at the
        boot, and stays so until its closing write; so the boundary stays while there is such a
        ledger. A recovery that began later does not count: it may be waiting for this bookie's
        answer. A ledger that was IN_RECOVERY at the boot and has unreadable metadata now may still
        be, so it counts too. Returns True when the boundary was lifted: from then on this bookie
        denies absent entries.
        """
        boundary = self.storage.unchecked_boundary()
        if boundary is None or self.unchecked or self.limbo_count:
            return False
        listing = await list_ledgers(self.store, self.bookie_id)
        late = {i for i in listing.named if self.storage.is_unchecked(i)}
        if late:
            log.warning("%d ledgers came to name this bookie since its boot", len(late))
            self.unchecked.update(late)
        pending = [i for i in listing.recovering if self._was_recovering(i)]
        self._log_unreadable(listing.unreadable.keys() & {*late, *pending})
        if late or any(boundary.covers(ledger_id) for ledger_id in pending):
            return False
        passing("clear: boundary not lifted yet")
        await asyncio.to_thread(self._maintenance.finish_unchecked, boundary.epoch)
        return True

    def _log_unreadable(self, waited_for: AbstractSet[LedgerId]) -> None:
        """Log the ledgers with unreadable metadata; the same set only once, as this runs every few
        seconds.
        """
        if waited_for and waited_for != self._logged_unreadable:
            log.warning(
                "the check of this bookie waits for %d ledgers whose metadata cannot be read (%s): "
                "mend it, or delete the ledgers",
                len(waited_for),
                named_ids(waited_for),
            )
        self._logged_unreadable = frozenset(waited_for)


def ranges_text(ledger_id: LedgerId, entries: EntrySet) -> str:
    """Entries of a ledger in words; at most RANGES_NAMED_MAX ranges."""
    ranges = entries.ranges()
    named = ", ".join(f"{first}..{last}" for first, last in ranges[:RANGES_NAMED_MAX])
    more = ", ..." if len(ranges) > RANGES_NAMED_MAX else ""
    return f"entries {named}{more} of ledger {ledger_id}"
