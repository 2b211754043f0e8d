"""Control planes of a `FakeFleet`: marks, availability, clear and loss records by the real rules.

Stands where `repair.look.grpc_control.GrpcControl` stands; `testing.admin_service` serves the same
over gRPC. A bookie that is down answers nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bookie.errors import NoSuchLedgerError
from bookie.frames.entry import EntryCodec
from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.clearing import ClearReason, judge_clear, judge_retraction, refuse_loss
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.judge.columns import Answer, answer_of
from bookie.repair.judge.expect import Holding, no_answer
from bookie.repair.look.bookie_control import Marks
from bookie.testing.fake_bookie import FakeBookie, FakeLedger
from bookie.testing.fleet import FakeFleet
from bookie.wire.admin.limbo_marks import Cleared, Mark
from bookie.wire.admin.request_answer import RequestAnswer, RetractionAnswer


class FakeControl:
    """Implements `repair.look.bookie_control.BookieControl` over a fleet in memory.

    `unreachable`: bookies whose control plane alone gives no answer. `unable`: bookies that say
    nothing of what they hold, and the status that they answer instead. `lost`: the loss records.
    `refuse_loss`, `refuse_flush`: bookies that refuse to record one, that fail to sync. `draining`:
    those that are to leave. `never_recheck`: too old to look at their own copies.
    `asked` records (call, bookie), in order.
    """

    def __init__(self, fleet: FakeFleet, store: MetadataStore) -> None:
        self.fleet = fleet
        self.store = store
        self.unreachable: set[BookieId] = set()
        self.unable: dict[BookieId, Status] = {}
        self.refuse_loss: set[BookieId] = set()
        self.refuse_flush: set[BookieId] = set()
        self.lost: dict[tuple[BookieId, LedgerId], EntrySet] = {}
        self.by_person: set[tuple[BookieId, LedgerId]] = set()
        self.draining: set[BookieId] = set()
        self.never_recheck: set[BookieId] = set()
        self.asked: list[tuple[str, BookieId]] = []

    def _bookie(self, call: str, bookie_id: BookieId) -> FakeBookie | None:
        self.asked.append((call, bookie_id))
        bookie = self.fleet.bookies.get(bookie_id)
        if bookie is None or bookie.down or bookie_id in self.unreachable:
            return None
        return bookie

    async def list_marks(self, bookie_id: BookieId) -> Marks:
        bookie = self._bookie("list_marks", bookie_id)
        if bookie is None:
            return Marks(bookie_id, Status.UNREACHABLE, (), f"{bookie_id} is down")
        marks = tuple(
            Mark(ledger_id, ledger.limbo)
            for ledger_id, ledger in sorted(bookie.ledgers.items())
            if ledger.limbo or ledger.unchecked
        )
        return Marks(bookie_id, Status.OK, marks)

    async def availability(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Holding]:
        bookie = self._bookie("availability", bookie_id)
        if bookie is None or bookie_id in self.unable:
            status = self.unable.get(bookie_id, Status.UNREACHABLE)
            return {i: no_answer(bookie_id, i, status) for i in ledger_ids}
        return {i: self._holding(bookie, i) for i in ledger_ids}

    async def answers(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Answer]:
        found = await self.availability(bookie_id, ledger_ids)
        return {ledger_id: answer_of(holding) for ledger_id, holding in found.items()}

    def _holding(self, bookie: FakeBookie, ledger_id: LedgerId) -> Holding:
        ledger = bookie.ledgers.get(ledger_id)
        if ledger is None:
            return Holding(bookie.bookie_id, ledger_id, Status.NO_SUCH_LEDGER)
        marked = ledger.limbo or ledger.unchecked
        return Holding(
            bookie.bookie_id,
            ledger_id,
            Status.UNKNOWN if marked else Status.OK,
            entries=_entries(ledger),
            limbo=ledger.limbo,
            unchecked=ledger.unchecked,
            lac=ledger.lac,
            lost=self.lost.get((bookie.bookie_id, ledger_id), EMPTY),
        )

    async def clear(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Cleared]:
        bookie = self._bookie("clear", bookie_id)
        if bookie is None:
            return {i: Cleared(i, False, "Unreachable", f"{bookie_id} is down") for i in ledger_ids}
        return {i: await self._clear(bookie, i) for i in ledger_ids}

    async def _clear(self, bookie: FakeBookie, ledger_id: LedgerId) -> Cleared:
        ledger = bookie.ledgers.get(ledger_id)
        if ledger is None or not (ledger.limbo or ledger.unchecked):
            return Cleared(ledger_id, False, ClearReason.NOT_MARKED.value)
        # Stricter than a real bookie, which syncs on its own before it clears: what was not
        # flushed does not count.
        verdict = judge_clear(
            await self._metadata(ledger_id),
            bookie.bookie_id,
            held=EntrySet.from_ranges(
                (i, i) for i in (set(ledger.entries) - ledger.rejected) & ledger.durable
            ),
            lost=self.lost.get((bookie.bookie_id, ledger_id), EMPTY),
            in_limbo=ledger.limbo,
        )
        if verdict.may_clear:
            bookie.clear(ledger_id)
        return Cleared(ledger_id, verdict.may_clear, verdict.reason.value, verdict.message)

    async def _metadata(self, ledger_id: LedgerId) -> LedgerMetadata | None:
        try:
            return (await self.store.read_ledger(ledger_id)).value
        except NoSuchLedgerError:
            return None

    async def record_loss(
        self,
        bookie_id: BookieId,
        ledger_id: LedgerId,
        lost: EntrySet,
        *,
        reason: str,
        by_person: bool,
        answered_by: Sequence[BookieId],
    ) -> RequestAnswer:
        bookie = self._bookie("record_loss", bookie_id)
        if bookie is None:
            return RequestAnswer(False, f"{bookie_id} is down")
        if bookie_id in self.refuse_loss:
            return RequestAnswer(False, "a member of the write set has not answered definitely")
        metadata = await self._metadata(ledger_id)
        ledger = bookie.ledgers.get(ledger_id)
        if metadata is None:
            return RequestAnswer(False, f"ledger {ledger_id} does not exist")
        refusal = refuse_loss(
            metadata,
            lost,
            own_id=bookie_id,
            held=_entries(ledger) if ledger is not None else EMPTY,
            answered_by=set(answered_by),
            by_person=by_person,
        )
        if refusal:
            return RequestAnswer(False, refusal)
        key = (bookie_id, ledger_id)
        self.lost[key] = self.lost.get(key, EMPTY) | lost
        if by_person:
            self.by_person.add(key)
        return RequestAnswer(True)

    async def retract_loss(
        self, bookie_id: BookieId, ledger_id: LedgerId, entries: EntrySet, *, by: str, reason: str
    ) -> RetractionAnswer:
        bookie = self._bookie("retract_loss", bookie_id)
        if bookie is None:
            return RetractionAnswer(False, f"{bookie_id} is down")
        ledger = bookie.ledgers.get(ledger_id)
        key = (bookie_id, ledger_id)
        before = self.lost.get(key, EMPTY)
        named = before & entries if entries else before
        judged = judge_retraction(
            await self._metadata(ledger_id),
            bookie_id,
            named,
            held=_entries(ledger) if ledger is not None else EMPTY,
            in_limbo=ledger is not None and ledger.limbo,
        )
        if judged.refusal:
            return RetractionAnswer(False, judged.refusal)
        if left := before - named:
            self.lost[key] = left
        else:
            self.lost.pop(key, None)
        if judged.into_limbo:
            bookie.ledgers.setdefault(ledger_id, FakeLedger()).limbo = True
        return RetractionAnswer(True, "", len(named), judged.into_limbo)

    async def recheck(
        self, bookie_id: BookieId, ledger_id: LedgerId, entries: EntrySet
    ) -> EntrySet:
        bookie = self._bookie("recheck", bookie_id)
        metadata = await self._metadata(ledger_id)
        if bookie is None or metadata is None or ledger_id not in bookie.ledgers:
            return EMPTY
        if bookie_id in self.never_recheck or not metadata.password_is_stored:
            return EMPTY
        codec = EntryCodec(ledger_id, metadata.digest_type, metadata.password)
        return bookie.reject(ledger_id, codec, entries)

    async def flush(self, bookie_id: BookieId) -> Status:
        bookie = self._bookie("flush", bookie_id)
        if bookie is None:
            return Status.UNREACHABLE
        if bookie_id in self.refuse_flush:
            return Status.IO_ERROR
        bookie.flush()
        return Status.OK

    async def drain(self, bookie_id: BookieId, *, cancel: bool = False) -> RequestAnswer:
        bookie = self._bookie("drain", bookie_id)
        if bookie is None:
            return RequestAnswer(False, f"{bookie_id} is down")
        if not cancel and any(led.limbo or led.unchecked for led in bookie.ledgers.values()):
            return RequestAnswer(False, f"{bookie_id} has marks")
        (self.draining.discard if cancel else self.draining.add)(bookie_id)
        bookie.read_only = not cancel
        info = (await self.store.bookies()).get(bookie_id)
        if info is not None:
            await self.store.register(replace(info, read_only=not cancel))
        return RequestAnswer(True)

    async def is_draining(self, bookie_id: BookieId) -> bool | None:
        bookie = self._bookie("is_draining", bookie_id)
        return None if bookie is None else bookie_id in self.draining

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _entries(ledger: FakeLedger) -> EntrySet:
    return EntrySet.from_ids(ledger.entries.keys() - ledger.rejected)
