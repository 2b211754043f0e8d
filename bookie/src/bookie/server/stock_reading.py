"""Serves the reads of stock clients: single entries, the last one, batches, fences, long polls.

Only fences need the master key, and a fence is durable before the bookie answers with an entry or a
denial. For a ledger in limbo the bookie serves the entries that it has; other entries, and which
one is the last, are unknown.
"""

from collections.abc import Sequence
from functools import partial

from bookie.frames.entry import ENTRY_HEADER_BYTES, Buffer
from bookie.frames.frame import FRAME_HEADER_BYTES
from bookie.ids import ENTRY_ID_MAX, NO_ENTRY, EntryId
from bookie.protocol.admission import absent_status
from bookie.protocol.status import Status
from bookie.server.disk_reads import READ_BYTES_MAX
from bookie.server.operations import Operations
from bookie.server.stock_answers import NO_KEY, Origin
from bookie.server.stock_reads import FoundEntries
from bookie.wire.native import LacReply, LacRequest, ReadReply, ReadRequest
from bookie.wire.stock.framing import FRAME_BYTES_MAX
from bookie.wire.stock.messages import BatchRead, Outcome, Read
from bookie.wire.stock.v2 import BATCH_ANSWER_BYTES, BATCH_ENTRY_BYTES


def is_plain(request: Read) -> bool:
    """True for a read of one entry by its id and nothing else; such reads are gathered."""
    is_of_one = 0 <= request.entry_id <= ENTRY_ID_MAX
    return is_of_one and not request.is_fencing and request.previous_lac is None


class ReadService:
    """Serves the reads of one bookie. A method that returns a bool returns False when there is no
    room.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    # Entries by id
    def read_many(self, origin: Origin, requests: Sequence[Read]) -> bool:
        """Serve plain reads of one ledger with rising ids by one read of a range."""
        first, last = requests[0], requests[-1]
        asked = ReadRequest(first.ledger_id, first.entry_id, last.entry_id, READ_BYTES_MAX, NO_KEY)
        then = partial(self._answer_many, origin, requests)
        return self._operations.read(origin.client, asked, fence=False, then=then)

    def _answer_many(
        self,
        origin: Origin,
        requests: Sequence[Read],
        status: Status,
        reply: ReadReply | None,
        _reason: str,
    ) -> None:
        if reply is None:
            for request in requests:
                origin.refuse(request, status)
            return
        found = FoundEntries(reply, [request.entry_id for request in requests])
        # With interleaved runs the reply may have an entry but not one before it.
        left = []
        for request in requests:
            if found.is_answered(request.entry_id):
                _answer_entry(origin, request, found, request.entry_id)
            else:
                left.append(request)
        if left:
            origin.client.do(partial(self.read_many, origin, left))

    def read_one(self, origin: Origin, request: Read) -> bool:
        """Serve a read that cannot be gathered with others."""
        if request.is_long_poll:
            return self._poll(origin, request)
        if request.entry_id >= 0:
            return self._read_id(origin, request, request.entry_id)
        return self._read_last(origin, request)

    def _read_id(self, origin: Origin, request: Read, entry_id: EntryId) -> bool:
        # No bookie ever takes an id above ENTRY_ID_MAX: what is answered of that one denies it.
        only = _bounded(entry_id)
        asked = ReadRequest(request.ledger_id, only, only, 1, request.master_key or NO_KEY)
        then = partial(self._answer_one, origin, request, entry_id)
        return self._operations.read(origin.client, asked, fence=request.is_fencing, then=then)

    def _answer_one(
        self,
        origin: Origin,
        request: Read,
        entry_id: EntryId,
        status: Status,
        reply: ReadReply | None,
        _reason: str,
    ) -> None:
        if reply is None:
            origin.refuse(request, status)
        else:
            _answer_entry(origin, request, FoundEntries(reply, [entry_id]), entry_id)

    def _read_last(self, origin: Origin, request: Read) -> bool:
        """Read the last entry, which is unknown while this bookie may have forgotten entries."""
        facts = self._operations.facts_of(request.ledger_id)
        if facts.is_here and not facts.may_have_forgotten and facts.last_entry_id >= 0:
            return self._read_id(origin, request, facts.last_entry_id)
        absent = absent_status(facts)
        asked = LacRequest(request.ledger_id, request.master_key or NO_KEY, NO_ENTRY, 0)
        then = partial(self._answer_no_last, origin, request, absent)
        client = origin.client
        return self._operations.read_lac(client, asked, fence=request.is_fencing, then=then)

    def _answer_no_last(
        self,
        origin: Origin,
        request: Read,
        absent: Status,
        status: Status,
        _found: LacReply | None,
        _reason: str,
    ) -> None:
        """`status` is OK when the fence, if one was asked for, is durable."""
        origin.refuse(request, absent if status is Status.OK else status)

    # Long polls
    def _poll(self, origin: Origin, request: Read) -> bool:
        """Wait for the LAC to exceed `previous_lac`, if there is time to wait, then read."""
        previous = request.previous_lac
        assert previous is not None
        then = partial(self._polled, origin, request)
        asked = LacRequest(request.ledger_id, NO_KEY, previous, request.timeout_ms or 0)
        if request.timeout_ms is None:
            return self._operations.read_lac(origin.client, asked, fence=False, then=then)
        self._operations.wait_lac(origin.client, asked, then=then)
        return True

    def _polled(
        self, origin: Origin, request: Read, status: Status, found: LacReply | None, _reason: str
    ) -> None:
        previous = request.previous_lac
        assert previous is not None
        if status is not Status.OK or found is None:
            origin.refuse(request, status)
        elif not request.is_piggyback:
            plain = request._replace(previous_lac=None)
            origin.client.do(partial(self.read_one, origin, plain))
        elif found.lac > previous and previous >= NO_ENTRY:
            origin.client.do(partial(self._read_next, origin, request, found.lac))
        else:
            _answer_lac(origin, request, found.lac)

    def _read_next(self, origin: Origin, request: Read, lac: EntryId) -> bool:
        """Read the entry after the LAC that the client knew, to answer it with the new LAC."""
        assert request.previous_lac is not None
        entry_id = EntryId(request.previous_lac + 1)
        asked = ReadRequest(request.ledger_id, entry_id, entry_id, 1, NO_KEY)
        then = partial(self._answer_next, origin, request, lac)
        return self._operations.read(origin.client, asked, fence=False, then=then)

    def _answer_next(
        self,
        origin: Origin,
        request: Read,
        lac: EntryId,
        status: Status,
        reply: ReadReply | None,
        _reason: str,
    ) -> None:
        if reply is None:
            origin.refuse(request, status)
            return
        assert request.previous_lac is not None
        entry_id = EntryId(request.previous_lac + 1)
        entry = FoundEntries(reply, [entry_id]).entry(entry_id)
        # In a striped ledger other bookies may have the entry: the LAC alone is an answer and does
        # not deny it.
        _answer_lac(origin, request, lac, entry)

    # Batches
    def read_batch(self, origin: Origin, request: BatchRead) -> bool:
        """Read consecutive entries, as many as are here and fit the answer."""
        count = request.count_max if request.count_max > 0 else ENTRY_ID_MAX
        last = _bounded(request.first + count - 1)
        bytes_max = _frames_bytes_max(request)
        key = request.master_key or NO_KEY
        asked = ReadRequest(request.ledger_id, _bounded(request.first), last, bytes_max, key)
        then = partial(self._answer_batch, origin, request, last)
        return self._operations.read(origin.client, asked, fence=request.is_fencing, then=then)

    def _answer_batch(
        self,
        origin: Origin,
        request: BatchRead,
        last: EntryId,
        status: Status,
        reply: ReadReply | None,
        _reason: str,
    ) -> None:
        if reply is None:
            origin.refuse(request, status)
            return
        held = FoundEntries(reply, range(request.first, last + 1))
        entries = _fitting(held, request)
        if entries:
            origin.client.send(origin.wire.answer_batch_read(request, Outcome.OK, entries))
        else:
            origin.refuse(request, held.status(request.first))


def _frames_bytes_max(request: BatchRead) -> int:
    """How many bytes of run frames to read, so that they hold the entries of a full answer.

    A stock client counts bytes of entries. If a client added one entry at a time, each entry is a
    run with its own header: so add one header for each entry that may fit.
    """
    room = max(request.answer_bytes_max, 1)
    fitting = room // (BATCH_ENTRY_BYTES + ENTRY_HEADER_BYTES)
    count = min(request.count_max, fitting) if request.count_max > 0 else fitting
    return min(room + count * FRAME_HEADER_BYTES, READ_BYTES_MAX)


def _fitting(found: FoundEntries, request: BatchRead) -> list[Buffer]:
    """Consecutive entries from the first on that fit the answer; the first one fits always."""
    entries: list[Buffer] = []
    room = min(request.answer_bytes_max, FRAME_BYTES_MAX) - BATCH_ANSWER_BYTES
    entry_id = request.first
    while (entry := found.entry(entry_id)) is not None:
        room -= len(entry) + BATCH_ENTRY_BYTES
        if entries and room < 0:
            break
        entries.append(entry)
        entry_id = EntryId(entry_id + 1)
    return entries


def _answer_entry(origin: Origin, request: Read, found: FoundEntries, entry_id: EntryId) -> None:
    entry = found.entry(entry_id)
    if entry is None:
        origin.refuse(request, found.status(entry_id))
        return
    wire = origin.wire
    origin.client.send(wire.answer_read(request, Outcome.OK, entry=entry, max_lac=found.lac))


def _answer_lac(origin: Origin, request: Read, lac: EntryId, entry: Buffer | None = None) -> None:
    answer = origin.wire.answer_read(request, Outcome.OK, entry=entry, max_lac=lac)
    origin.client.send(answer)


def _bounded(entry_id: int) -> EntryId:
    """The id, or ENTRY_ID_MAX if it is larger."""
    return EntryId(min(entry_id, ENTRY_ID_MAX))
