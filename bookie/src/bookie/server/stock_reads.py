"""Reads of stock clients, which ask for entry by entry, answered from few reads of the storage.

Plain reads that one read of the socket brings are gathered per ledger while their ids rise, asked
as one range, and cut out of the run frames that come back.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from bookie.frames.entry import Buffer
from bookie.frames.frame import RunFrame
from bookie.ids import EntryId, LedgerId
from bookie.protocol.status import Status
from bookie.wire.native import ReadReply
from bookie.wire.stock.messages import Read

GAP_MAX: Final = 16
"""Ids between two reads of a range: a stripe's share, but no read of a ledger's other end."""
READS_TOGETHER_MAX: Final = 4096


class ReadGather:
    """Collects the plain reads of one read of the socket."""

    def __init__(self) -> None:
        self._groups: list[list[Read]] = []
        """Reads of one turn, those of one ledger together; empty between turns."""
        self._open: dict[LedgerId, list[Read]] = {}
        """The group of a ledger that may still grow in this turn."""

    def add(self, request: Read) -> None:
        group = self._open.get(request.ledger_id)
        if (
            group is None
            or not 0 <= request.entry_id - group[-1].entry_id <= GAP_MAX
            or len(group) == READS_TOGETHER_MAX
        ):
            group = self._open[request.ledger_id] = []
            self._groups.append(group)
        group.append(request)

    def groups(self) -> Iterator[Sequence[Read]]:
        """Reads of one ledger with rising ids, near to each other."""
        yield from self._groups


class FoundEntries:
    """What a read reply says of single entries."""

    def __init__(self, reply: ReadReply, wanted: Sequence[int]) -> None:
        """`wanted`: the ids that will be asked for, rising; a range will do."""
        self._reply = reply
        self._entries: dict[int, Buffer] = {}
        """By entry id, those that were found."""
        for run in reply.runs:
            self._cut(RunFrame.trusted(run), wanted)

    def _cut(self, frame: RunFrame, wanted: Sequence[int]) -> None:
        low = bisect_left(wanted, frame.first_entry_id)
        ids = wanted[low : bisect_right(wanted, frame.last_entry_id)]
        if not ids:
            return
        offsets = frame.offsets()
        first, pattern, count = frame.first_entry_id, frame.pattern, frame.count
        for entry_id in ids:
            index = pattern.index_of(first, entry_id)
            if index is not None and index < count:
                self._entries[entry_id] = frame.buffer[offsets[index] : offsets[index + 1]]

    def entry(self, entry_id: EntryId) -> Buffer | None:
        """The entry verbatim, None when it is not among what was found."""
        return self._entries.get(entry_id)

    def status(self, entry_id: EntryId) -> Status:
        """OK, or why there is no such entry; of one that was `answered` only."""
        if entry_id in self._entries:
            return Status.OK
        if any(first <= entry_id <= last for first, last in self._reply.unknown):
            return Status.IO_ERROR
        return self._reply.absent

    def is_answered(self, entry_id: EntryId) -> bool:
        """The reply went as far as this id."""
        return entry_id <= self._reply.answered_through or entry_id in self._entries

    @property
    def lac(self) -> EntryId | None:
        """The LAC to tell along; None from one that may have forgotten: its LAC is no answer."""
        return None if self._reply.absent is Status.UNKNOWN else self._reply.lac
