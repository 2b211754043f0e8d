"""How a stock client reads: single entries, the last one, batches, fences, long polls.

Only fences need the master key, and a fence is durable before anything is answered, be it an entry
or a denial. What a bookie in limbo has it serves; what it has not, and which entry is its last one,
is unknown.
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
    """One entry by its id and nothing else: such reads are gathered."""
    return not request.is_fencing and request.previous_lac is None and request.entry_id >= 0


class ReadService:
    """Reads of one bookie. What returns a bool returns False when there is no room."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    # Entries by id
    def read_many(self, origin: Origin, requests: Sequence[Read]) -> bool:
        """Plain reads of one ledger with rising ids, as one range."""
        first, last = requests[0], requests[-1]
        asked = ReadRequest(
            first.ledger_id, first.entry_id, _bounded(last.entry_id), READ_BYTES_MAX, NO_KEY
        )
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
        # Where runs lie between each other, some of a later id may be here and one before it not.
        left = []
        for request in requests:
            if found.is_answered(request.entry_id):
                _answer_entry(origin, request, found, request.entry_id)
            else:
                left.append(request)
        if left:
            origin.client.do(partial(self.read_many, origin, left))

    def read_one(self, origin: Origin, request: Read) -> bool:
        """Any read that cannot be gathered with others."""
        if request.is_long_poll:
            return self._poll(origin, request)
        if request.entry_id >= 0:
            return self._read_id(origin, request, request.entry_id)
        return self._read_last(origin, request)

    def _read_id(self, origin: Origin, request: Read, entry_id: EntryId) -> bool:
        asked = ReadRequest(
            request.ledger_id, entry_id, _bounded(entry_id), 1, request.master_key or NO_KEY
        )
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
        """The last entry: nobody knows it here while this bookie may have forgotten some."""
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
        """`status`: whether the fence, if one was asked for, is durable."""
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
        """The entry behind the LAC that the client knew, along with the new LAC."""
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
        # Of a striped ledger it may be on others: the LAC alone is an answer, and no denial.
        _answer_lac(origin, request, lac, entry)

    # Batches
    def read_batch(self, origin: Origin, request: BatchRead) -> bool:
        """Consecutive entries, as many as are here and fit the answer."""
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
    """What run frames may weigh of which a whole answer is cut.

    A stock client counts entries. Of a client that adds one by one each entry is a run with a
    header of its own: as many headers come on top as entries may fit.
    """
    room = max(request.answer_bytes_max, 1)
    fitting = room // (BATCH_ENTRY_BYTES + ENTRY_HEADER_BYTES)
    count = min(request.count_max, fitting) if request.count_max > 0 else fitting
    return min(room + count * FRAME_HEADER_BYTES, READ_BYTES_MAX)


def _fitting(found: FoundEntries, request: BatchRead) -> list[Buffer]:
    """Consecutive entries from the first on; that one whatever its size."""
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
    """No id beyond what a set of entries holds."""
    return EntryId(min(entry_id, ENTRY_ID_MAX))
