"""Reads one ledger: ranges of entries, the LAC, and a tail that follows a writer.

A reader never returns an entry beyond the closed end, or beyond the LAC of an open ledger (R15): a
recovery may cut it off. Every payload was verified against its digest. `protocol.reader` has the
rules of a read.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count, repeat
from typing import Any, Final, NamedTuple

from bookie.client.peers import Peers
from bookie.client.recovery import Sleep, check_password
from bookie.errors import DataLossError, UndecidableError
from bookie.frames.entry import EntryCodec, master_key
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.store import MetadataStore, Versioned
from bookie.protocol.lac_read import LacRead
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.reader import (
    AskRange,
    RangeRead,
    ReadEnded,
    check_bounds,
    piece_end,
)
from bookie.protocol.status import Status
from bookie.wire.native import LacReply, LacRequest, ReadRequest

CORRUPT_KEPT_MAX: Final = 1024
"""How many corrupt copies a reader remembers."""
REREADS_MAX: Final = 3
"""How often one piece is read again because the fragments have changed."""
FIRST_ENTRY: Final = EntryId(0)


GUESSED_ENTRY_BYTES: Final = 16 * 1024
"""The assumed mean size of entries in an open ledger until some were read."""
ENTRY_OVERHEAD_BYTES: Final = 64
"""What one payload costs in memory and on the wire beside its bytes."""


class Entry(NamedTuple):
    """One entry of a ledger as its writer appended it."""

    entry_id: EntryId
    payload: bytes


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """`read_bytes`: how much one request asks of a bookie. `pieces_ahead`: how many pieces are read
    at once.

    A piece has about `piece_bytes`, judged by the mean entry of the ledger, and at most
    `piece_entries`. It takes many requests, since bookies answer with whole runs, and a run at the
    border of a piece is sent twice. It ends early at twice its bytes, so that unusual sizes cannot
    fill the memory.

    `poll_ms`: how long a bookie may hold a long poll. After each poll the reader reads the metadata
    again, so this also bounds how late a tail notices a close. `retry_s`: the pause after a poll
    without a new LAC.
    """

    read_bytes: int = 1024 * 1024
    piece_bytes: int = 8 * 1024 * 1024
    piece_entries: int = 65536
    pieces_ahead: int = 3
    poll_ms: int = 1000
    retry_s: float = 0.1


@dataclass(frozen=True, slots=True)
class _Piece:
    first: EntryId
    last: EntryId
    task: "asyncio.Task[tuple[bytes, ...]]"


class LedgerReader:
    """A ledger that is open for reading. `metadata`: as last read."""

    def __init__(
        self,
        store: MetadataStore,
        peers: Peers,
        metadata: Versioned[LedgerMetadata],
        *,
        password: bytes = b"",
        settings: ReaderSettings | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        check_password(metadata.value, password)
        self._store = store
        self._peers = peers
        self._versioned = metadata
        """The metadata of the ledger as last read; its version never falls."""
        self._settings = settings or ReaderSettings()
        self._sleep = sleep
        self._key = master_key(password)
        """The master key that is sent with every request."""
        self._codec = EntryCodec(metadata.value.ledger_id, metadata.value.digest_type, password)
        self._lac = NO_ENTRY
        """The highest LAC known from the ensemble's answers; never falls. -1 = none known."""
        self._entries_read = self._bytes_read = 0
        """Entries and bytes of all reads so far; their ratio decides the size of the next piece."""
        self._suspects: set[BookieId] = set()
        """Bookies that did not answer a request with OK; they are asked after the others."""
        self.corrupt: deque[tuple[BookieId, EntryId]] = deque(maxlen=CORRUPT_KEPT_MAX)
        """The last corrupt copies seen, for callers that report them."""

    @property
    def metadata(self) -> LedgerMetadata:
        return self._versioned.value

    @property
    def ledger_id(self) -> LedgerId:
        return self.metadata.ledger_id

    @property
    def is_closed(self) -> bool:
        return self.metadata.is_closed

    @property
    def last_entry_id(self) -> EntryId:
        """The closed end, or the highest LAC known so far."""
        return self.metadata.last_entry_id if self.is_closed else self._lac

    async def read(self, first: EntryId, last: EntryId) -> list[Entry]:
        """Read entries `first`..`last`, both included; use `stream` for more than memory should
        hold.

        Raises NoSuchEntryError beyond the end, DataLossError when every holder denies an entry,
        UndecidableError when a holder may still have it, UnauthorizedError.
        """
        async with aclosing(self._batches(first, last)) as batches:
            return [entry async for batch in batches for entry in batch]

    async def stream(self, first: EntryId, last: EntryId) -> AsyncIterator[Entry]:
        """Like `read`, but yields entry by entry, with a bounded number of requests ahead."""
        async with aclosing(self._batches(first, last)) as batches:
            async for batch in batches:
                for entry in batch:
                    yield entry

    async def _batches(
        self, first: EntryId, last: EntryId
    ) -> AsyncGenerator[Iterator[Entry], None]:
        assert first >= 0
        if first > last:
            return
        if last > self.last_entry_id and not self.is_closed:
            await self.read_lac()
        check_bounds(self.ledger_id, first=first, last=last, end=self.last_entry_id)
        ahead: deque[_Piece] = deque()
        turns = count(1)
        at = first
        try:
            while at <= last or ahead:
                while at <= last and len(ahead) < self._settings.pieces_ahead:
                    end = self._piece_end(self.metadata, first=at, last=last)
                    ahead.append(self._begin(at, end, turn=next(turns)))
                    at = EntryId(end + 1)
                piece = ahead[0]
                payloads = await piece.task
                ahead.popleft()
                rest = EntryId(piece.first + len(payloads))
                if rest <= piece.last:
                    ahead.appendleft(self._begin(rest, piece.last, turn=next(turns)))
                yield _entries(piece.first, payloads)
        finally:
            await _cancel([piece.task for piece in ahead])

    def _piece_end(self, seen: LedgerMetadata, *, first: EntryId, last: EntryId) -> EntryId:
        fit = self._settings.piece_bytes // (self._mean_bytes() + ENTRY_OVERHEAD_BYTES)
        size = max(min(fit, self._settings.piece_entries), 1)
        return piece_end(seen, first=first, last=last, size=size)

    def _mean_bytes(self) -> int:
        """The mean size of a payload: from the closed ledger's length, or of the entries read so
        far.
        """
        if self.is_closed and self.metadata.length > 0:
            return self.metadata.length // (self.metadata.last_entry_id + 1)
        if self._entries_read:
            return self._bytes_read // self._entries_read
        return GUESSED_ENTRY_BYTES

    def _begin(self, first: EntryId, last: EntryId, *, turn: int) -> "_Piece":
        return _Piece(first, last, asyncio.create_task(self._piece(first, last, turn=turn)))

    async def _piece(self, first: EntryId, last: EntryId, *, turn: int) -> tuple[bytes, ...]:
        """Read the payloads of a piece, or of its start. An error counts only with the newest
        fragments.

        The known fragments may be older than an ensemble change or a repair: then their bookies
        rightly deny entries that others hold.
        """
        for _ in range(REREADS_MAX):
            seen = self.metadata
            try:
                return await self._piece_of(seen, first=first, last=last, turn=turn)
            except (DataLossError, UndecidableError):
                await self._reread()
                if self.metadata.fragments == seen.fragments:
                    raise
        return await self._piece_of(self.metadata, first=first, last=last, turn=turn)

    async def _piece_of(
        self, seen: LedgerMetadata, *, first: EntryId, last: EntryId, turn: int
    ) -> tuple[bytes, ...]:
        # The piece may cross a fragment border that was unknown when it was planned: read up to it;
        # the rest follows.
        core = RangeRead(
            seen,
            self._codec,
            first=first,
            last=self._piece_end(seen, first=first, last=last),
            end=EntryId(max(last, self.last_entry_id)),
            suspects=self._suspects,
            turn=turn,
            bytes_max=2 * self._settings.piece_bytes,
        )
        payloads = await self._drive(core)
        self._entries_read += len(payloads)
        self._bytes_read += sum(map(len, payloads))
        return payloads

    async def _drive(self, core: RangeRead) -> tuple[bytes, ...]:
        step = core.start()
        while isinstance(step, AskRange):
            following = await self._ask(core, step)
            assert following is not None, "one question is out at any time"
            step = following
        self.corrupt.extend(step.corrupt)
        if step.error is not None:
            raise step.error
        return step.payloads

    async def _ask(self, core: RangeRead, ask: AskRange) -> AskRange | ReadEnded | None:
        request = ReadRequest(
            self.ledger_id, ask.first, ask.last, self._settings.read_bytes, self._key
        )
        status, reply = await self._peers.read(ask.bookie_id, request)
        # A bookie without an OK answer is asked last from now on, until it answers again.
        if status is Status.OK:
            self._suspects.discard(ask.bookie_id)
        else:
            self._suspects.add(ask.bookie_id)
        return core.on_read(ask.op, status, reply)

    async def refresh(self) -> LedgerMetadata:
        """Read the metadata again, as there may have been a close or an ensemble change."""
        if not self.is_closed:
            await self._reread()
        return self.metadata

    async def _reread(self) -> None:
        self._versioned = await self._store.read_ledger(self.ledger_id)
        if self.is_closed and self.metadata.last_entry_id < self._lac:
            # The close has cut off acknowledged entries, which no rule of this product allows.
            raise DataLossError(self.ledger_id, EntryId(self.metadata.last_entry_id + 1))

    async def read_lac(self) -> EntryId:
        """Ask for the last acknowledged entry now; the end, once the ledger is closed.

        Raises UndecidableError when no member of the last ensemble can answer.
        """
        await self.refresh()
        if self.is_closed:
            return self.metadata.last_entry_id
        core = LacRead(self.metadata)
        request = LacRequest(self.ledger_id, self._key)
        questions = [
            asyncio.create_task(self._ask_lac(core, position, bookie_id, request))
            for position, bookie_id in enumerate(self.metadata.last_fragment.ensemble)
        ]
        try:
            while not core.is_covered and any(not task.done() for task in questions):
                await asyncio.wait(
                    [task for task in questions if not task.done()],
                    return_when=asyncio.FIRST_COMPLETED,
                )
        finally:
            await _cancel(questions)
        self._lac = max(self._lac, core.result())
        return self._lac

    async def _ask_lac(
        self, core: LacRead, position: int, bookie_id: BookieId, request: LacRequest
    ) -> None:
        status, reply = await self._peers.read_lac(bookie_id, request)
        if reply is None and status is Status.OK:
            status = Status.UNKNOWN
        core.on_lac(position, status, reply.lac if reply is not None else NO_ENTRY)

    async def tail(self, from_entry: EntryId = FIRST_ENTRY) -> AsyncIterator[Entry]:
        """Yield entries from `from_entry` on as they are acknowledged, until the ledger is closed
        and read.

        It follows ensemble changes and the close. Raises DataLossError, UndecidableError and
        UnauthorizedError as `read` does; if no bookie knows the LAC now, it waits.
        """
        following = from_entry
        while True:
            while following <= self.last_entry_id:
                async for entry in self.stream(following, self.last_entry_id):
                    following = EntryId(entry.entry_id + 1)
                    yield entry
            if self.is_closed:
                return
            await self._wait_for_more()

    async def _wait_for_more(self) -> None:
        """Do one round of long polls to the last ensemble; if none brings a new LAC, read the
        metadata.
        """
        request = LacRequest(self.ledger_id, self._key, self._lac, self._settings.poll_ms)
        polls = [
            asyncio.create_task(self._peers.wait_lac(bookie_id, request))
            for bookie_id in self.metadata.last_fragment.ensemble
        ]
        before = self._lac
        try:
            while self._lac == before and any(not poll.done() for poll in polls):
                await asyncio.wait(
                    [poll for poll in polls if not poll.done()],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                known = [_lac_of(poll.result()[1]) for poll in polls if poll.done()]
                self._lac = max(self._lac, *known)
        finally:
            await _cancel(polls)
        if self._lac == before:
            await self.refresh()
            if not self.is_closed:
                await self._sleep(self._settings.retry_s)


def _lac_of(reply: LacReply | None) -> EntryId:
    return reply.lac if reply is not None else NO_ENTRY


def _entries(first: EntryId, payloads: Sequence[bytes]) -> Iterator[Entry]:
    # Not Entry(...) in a loop: this way each is made in C, and only when the caller takes it.
    return map(tuple.__new__, repeat(Entry), zip(count(first), payloads))


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
