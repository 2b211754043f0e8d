"""Gathers the reads of stock clients, which ask entry by entry, into few reads of the storage.

The plain reads of one read of the socket are gathered by ledger while their ids rise. They become
one read of a range, and their entries are cut out of its run frames.
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
"""The largest distance between the ids of two reads in one range: enough for a stripe, too small
for a read at the other end of the ledger."""
READS_TOGETHER_MAX: Final = 4096


class ReadGather:
    """Collects the plain reads of one read of the socket."""

    def __init__(self) -> None:
        self._groups: list[list[Read]] = []
        """The groups of reads, each of one ledger."""
        self._open: dict[LedgerId, list[Read]] = {}
        """The group of each ledger that may still grow."""

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
        """The groups: reads of one ledger with rising ids, near to each other."""
        yield from self._groups


class FoundEntries:
    """Finds single entries in a read reply."""

    def __init__(self, reply: ReadReply, wanted: Sequence[int]) -> None:
        """`wanted`: the ids that will be looked up, rising; it may be a range."""
        self._reply = reply
        self._entries: dict[int, Buffer] = {}
        """The entries found, by id."""
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
        """The entry verbatim, None when it was not found."""
        return self._entries.get(entry_id)

    def status(self, entry_id: EntryId) -> Status:
        """OK, or why there is no such entry; only for ids with `is_answered`."""
        if entry_id in self._entries:
            return Status.OK
        if any(first <= entry_id <= last for first, last in self._reply.unknown):
            return Status.IO_ERROR
        return self._reply.absent

    def is_answered(self, entry_id: EntryId) -> bool:
        """True when the reply decides about this id."""
        return entry_id <= self._reply.answered_through or entry_id in self._entries

    @property
    def lac(self) -> EntryId | None:
        """The LAC to send along; None if this bookie may have forgotten entries, as its LAC is no
        answer then.
        """
        return None if self._reply.absent is Status.UNKNOWN else self._reply.lac
