"""The bookies' gRPC control planes as a `BookieControl`: the only importer of grpc in repair.

One channel per bookie, found by its registered `bookie-admin` endpoint; at most CALLS_MAX calls at
once to each; every call has a deadline. No answer is an answer (UNREACHABLE); only a settings
mistake or a defect of ours raises.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc

from bookie.client.addresses import Address, AddressBook
from bookie.errors import UnavailableError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import ADMIN_ENDPOINT, MetadataStore
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.status import Status
from bookie.repair.judge.columns import NO_ANSWER, Answer, holding_of
from bookie.repair.judge.expect import Holding
from bookie.repair.look.bookie_control import Cleared, DrainAnswer, LossAnswer, Mark, Marks
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import BookieAdminStub
from bookie.wire.admin.calls import CHANNEL_OPTIONS, ask

CALLS_MAX: Final = 4
LEDGERS_PER_CALL: Final = 256
MARKS_PER_PAGE: Final = 10_000
MARK_PAGES_MAX: Final = 10_000
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    *CHANNEL_OPTIONS,
)
_STATUS_OF_CODE: Final = {
    grpc.StatusCode.RESOURCE_EXHAUSTED: Status.OVERLOADED,
    grpc.StatusCode.INVALID_ARGUMENT: Status.BAD_REQUEST,
    grpc.StatusCode.UNIMPLEMENTED: Status.BAD_REQUEST,
}


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """Deadlines in seconds; `address_ttl_s`: how long registrations are trusted."""

    deadline_s: float = 10.0
    slow_deadline_s: float = 60.0
    """For what reads indexes or syncs disks: availability, clear, flush, record loss."""
    address_ttl_s: float = 2.0


@dataclass(slots=True)
class _Line:
    target: str
    channel: Any
    stub: Any
    calls: asyncio.Semaphore


Dial = Callable[[str], tuple[Any, Any]]
"""From `host:port` to a channel, whose `close` is awaited, and a stub over it."""


def _dial(target: str) -> tuple[Any, Any]:
    channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
    return channel, BookieAdminStub(channel)  # type: ignore[no-untyped-call]


class AdminClient:
    """Implements `repair.control.BookieControl` over the network."""

    def __init__(
        self, store: MetadataStore, *, settings: AdminSettings | None = None, dial: Dial = _dial
    ) -> None:
        self._settings = settings or AdminSettings()
        self._dial = dial
        ttl_s = self._settings.address_ttl_s
        self._addresses = AddressBook(
            store, ttl_s=ttl_s, absent_ttl_s=ttl_s, endpoint_id=ADMIN_ENDPOINT
        )
        self._lines: dict[BookieId, _Line] = {}

    async def close(self) -> None:
        await self._addresses.close()
        lines, self._lines = list(self._lines.values()), {}
        await asyncio.gather(*(line.channel.close(None) for line in lines))

    async def list_marks(self, bookie_id: BookieId) -> Marks:
        marks: list[Mark] = []
        after = -1
        for _page in range(MARK_PAGES_MAX):
            request = pb.ListLimboRequest(
                after_ledger_id=after, limit=MARKS_PER_PAGE, include_unchecked=True
            )
            status, reply, message = await self._call(bookie_id, request)
            if reply is None:
                return Marks(bookie_id, status, tuple(marks), message)
            marks.extend(Mark(LedgerId(m.ledger_id), m.limbo, m.boot_epoch) for m in reply.ledgers)
            if not reply.more or not reply.ledgers:
                break
            after = reply.ledgers[-1].ledger_id
        return Marks(bookie_id, Status.OK, tuple(marks))

    async def availability(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Holding]:
        found = await self.answers(bookie_id, ledger_ids)
        return {i: holding_of(bookie_id, i, found.get(i, NO_ANSWER)) for i in ledger_ids}

    async def answers(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Answer]:
        found: dict[LedgerId, Answer] = {}
        for start in range(0, len(ledger_ids), LEDGERS_PER_CALL):
            asked = ledger_ids[start : start + LEDGERS_PER_CALL]
            found.update(await self._answers(bookie_id, asked))
        return found

    async def _answers(
        self, bookie_id: BookieId, asked: Sequence[LedgerId]
    ) -> dict[LedgerId, Answer]:
        request = pb.GetAvailabilityRequest(ledger_ids=asked)
        status, reply, _message = await self._call(bookie_id, request, slow=True)
        if status is Status.OVERLOADED and len(asked) > 1:
            # The answer was larger than a message may be: ask for half.
            middle = len(asked) // 2
            first = await self._answers(bookie_id, asked[:middle])
            return first | await self._answers(bookie_id, asked[middle:])
        if reply is None:
            return dict.fromkeys(asked, Answer(int(status)))
        # A ledger left out of the answer was not spoken of: unknown.
        return {LedgerId(a.ledger_id): _answer(a) for a in reply.ledgers}

    async def clear(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Cleared]:
        results: dict[LedgerId, Cleared] = {}
        for start in range(0, len(ledger_ids), LEDGERS_PER_CALL):
            asked = ledger_ids[start : start + LEDGERS_PER_CALL]
            request = pb.ClearLimboRequest(ledger_ids=asked)
            status, reply, message = await self._call(bookie_id, request, slow=True)
            silent = f"no answer from {bookie_id}: {status.name} {message}".rstrip()
            results.update({i: Cleared(i, False, "Unreachable", silent) for i in asked})
            for one in reply.results if reply is not None else ():
                ledger_id = LedgerId(one.ledger_id)
                results[ledger_id] = Cleared(ledger_id, one.cleared, one.reason, one.message)
        return results

    async def record_loss(
        self,
        bookie_id: BookieId,
        ledger_id: LedgerId,
        lost: EntrySet,
        *,
        reason: str,
        by_person: bool,
        answered_by: Sequence[BookieId],
    ) -> LossAnswer:
        request = pb.RecordLossRequest(
            ledger_id=ledger_id,
            ranges=[pb.EntryRange(first=first, last=last) for first, last in lost.ranges()],
            by_person=by_person,
            reason=reason,
            answered_by=answered_by,
        )
        status, reply, message = await self._call(bookie_id, request, slow=True)
        if reply is None:
            return LossAnswer(False, f"no answer from {bookie_id}: {status.name} {message}")
        return LossAnswer(reply.recorded, reply.message)

    async def recheck(
        self, bookie_id: BookieId, ledger_id: LedgerId, entries: EntrySet
    ) -> EntrySet:
        ranges = [pb.EntryRange(first=first, last=last) for first, last in entries.ranges()]
        request = pb.RecheckEntriesRequest(ledger_id=ledger_id, ranges=ranges)
        _status, reply, _message = await self._call(bookie_id, request, slow=True)
        if reply is None:
            return EMPTY
        return EntrySet.from_ranges((item.first, item.last) for item in reply.rejected)

    async def flush(self, bookie_id: BookieId) -> Status:
        status, _reply, _message = await self._call(bookie_id, pb.FlushRequest(), slow=True)
        return status

    async def drain(self, bookie_id: BookieId, *, cancel: bool = False) -> DrainAnswer:
        request = pb.DrainRequest(cancel=cancel)
        status, reply, message = await self._call(bookie_id, request, slow=True)
        if reply is None:
            return DrainAnswer(False, message or f"no answer from {bookie_id}: {status.name}")
        return DrainAnswer(True)

    async def is_draining(self, bookie_id: BookieId) -> bool | None:
        _status, reply, _message = await self._call(bookie_id, pb.GetHealthRequest())
        return None if reply is None else bool(reply.draining)

    async def _call(
        self, bookie_id: BookieId, request: Any, *, slow: bool = False
    ) -> tuple[Status, Any, str]:
        """(OK, reply, "") or (why not, None, the bookie's words)."""
        deadline_s = self._settings.slow_deadline_s if slow else self._settings.deadline_s
        try:
            address = await self._addresses.find(bookie_id)
            async with self._line(bookie_id, address) as line:
                # Another process at the address is found out there, or by its answer.
                meant = self._addresses.meant(bookie_id)
                reply, told = await ask(line.stub, request, meant=meant, timeout_s=deadline_s)
        except grpc.aio.AioRpcError as error:
            status = _STATUS_OF_CODE.get(error.code(), Status.UNREACHABLE)
            return status, None, str(error.details() or error.code().name)
        except UnavailableError as error:
            return Status.UNREACHABLE, None, str(error)
        self._addresses.saw(bookie_id, told.epoch)
        return Status.OK, reply, ""

    @asynccontextmanager
    async def _line(self, bookie_id: BookieId, address: Address) -> AsyncIterator[_Line]:
        target = f"{address.endpoint.host}:{address.endpoint.port}"
        line = self._lines.get(bookie_id)
        if line is not None and line.target != target:
            del self._lines[bookie_id]
            await line.channel.close(None)
            line = None
        if line is None:
            line = _Line(target, *self._dial(target), asyncio.Semaphore(CALLS_MAX))
            self._lines[bookie_id] = line
        async with line.calls:
            yield line


def _answer(said: pb.LedgerAvailability) -> Answer:
    return Answer(said.status, said.entries, said.limbo, said.unchecked, said.lac, said.lost)
