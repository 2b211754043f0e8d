"""Index rows: which entries lie in which frame of the log, and how sets of entries become rows.

One row per run. A row may cover only a part of its frame's entries: ids that were stored before
keep their first copy, so the rows of one ledger are cut until none overlaps another.
"""

from collections.abc import Iterable
from typing import NamedTuple

from bookie.protocol.availability import EntrySet
from bookie.protocol.runs import CONSECUTIVE, Pattern, RunFrame
from bookie.storage.log_scan import Position


class RunRow(NamedTuple):
    """Entries `first`..`last` in the pattern, `entry_count` of them, of one frame in the log.

    A tuple that sorts by first id: rows are kept, searched and bound to SQL as they are.
    """

    first: int
    last: int
    entry_count: int
    size: int
    period: int
    file_id: int
    offset: int
    length: int
    flags: int
    """Flags of the frame: whether it was written by recovery."""

    @property
    def position(self) -> Position:
        return Position(self.file_id, self.offset, self.length)

    @property
    def pattern(self) -> Pattern:
        return Pattern(self.size, self.period) if self.period else CONSECUTIVE

    def entries(self) -> EntrySet:
        """The ids this row covers."""
        return EntrySet.from_runs([(self.first, self.entry_count, self.pattern)])

    def holds(self, entry_id: int) -> bool:
        """True when this row covers the id."""
        if not self.first <= entry_id <= self.last:
            return False
        return self.period == 0 or self.pattern.index_of(self.first, entry_id) is not None

    def at(self, position: Position) -> "RunRow":
        """The same entries in a copy of the frame that lies elsewhere."""
        return self._replace(
            file_id=position.file_id, offset=position.offset, length=position.length
        )


def row_of(frame: RunFrame, position: Position) -> RunRow:
    """The row of a whole frame."""
    pattern = frame.pattern
    return RunRow(
        frame.first_entry_id,
        frame.last_entry_id,
        frame.count,
        pattern.size,
        pattern.period,
        position.file_id,
        position.offset,
        position.length,
        frame.flags,
    )


def rows_of(entries: EntrySet, origin: RunRow) -> list[RunRow]:
    """Rows that cover exactly `entries`, all in the frame of `origin`."""
    return [
        origin._replace(
            first=first,
            last=pattern.id_at(first, count - 1),
            entry_count=count,
            size=pattern.size,
            period=pattern.period,
        )
        for first, count, pattern in entries.runs()
    ]


def entries_of(rows: Iterable[RunRow]) -> EntrySet:
    """The union of what the rows cover."""
    return EntrySet.from_runs((row.first, row.entry_count, row.pattern) for row in rows)
