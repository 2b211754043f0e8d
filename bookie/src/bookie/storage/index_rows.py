"""Index rows: which entries lie in which frame of the log, and how sets of entries become rows.

One row per run. A row may cover only a part of its frame's entries: ids that were stored before
keep their first copy, so the rows of one ledger are cut until none overlaps another.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from bookie.frames.frame import CONSECUTIVE, FLAG_RECOVERY, Pattern, RunFrame
from bookie.frames.from_fields import from_fields
from bookie.protocol.availability import EntrySet
from bookie.storage.log_scan import Position

ROWS_PER_READ: Final = 1024
"""Rows one read looks at; a range with more is answered in parts."""
REJECTED_FILE: Final = -1
"""Where rejected copies lie: no log file has this number."""


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
    def is_rejected(self) -> bool:
        """Stored, and known to be no good: nothing to read, for recovery's copy to replace."""
        return self.file_id == REJECTED_FILE

    @property
    def is_recovery(self) -> bool:
        """Recovery wrote its frame: it takes the place of a copy that is no good."""
        return bool(self.flags & FLAG_RECOVERY)

    def rejected(self) -> "RunRow":
        """This row, with nothing of its entries to be read any more."""
        return self._replace(file_id=REJECTED_FILE, offset=0, length=0)

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
        """This row, of a copy of the frame that lies elsewhere."""
        return self._replace(
            file_id=position.file_id, offset=position.offset, length=position.length
        )


_row: Final = from_fields(RunRow)


def row_of(frame: RunFrame, position: Position) -> RunRow:
    """The row of a whole frame."""
    _ledger_id, first, _lac, count, pattern, flags, _buffer = frame
    last = first if count == 1 else frame.last_entry_id
    return _row((first, last, count, pattern.size, pattern.period, *position, flags))


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


def holding(rows: Collection[RunRow]) -> EntrySet:
    """What a ledger has of which these are the rows, in memory and index.

    It is what the next checkpoint makes of them: in the place of a rejected copy it puts recovery's
    and no other.
    """
    rejected = [row for row in rows if row.is_rejected]
    if not rejected:
        return entries_of(rows)
    good = [row for row in rows if not row.is_rejected]
    renewed = entries_of(row for row in good if row.is_recovery)
    return entries_of(good) - (entries_of(rejected) - renewed)


def rows_to_read(
    rows: Iterable[RunRow], *, first: int, last: int, bytes_max: float
) -> tuple[list[RunRow], int]:
    """So many of these, rising, as fill one read of `first`..`last`, and the id up to which they
    are all of them: `first` at least.
    """
    found: list[RunRow] = []
    size = 0
    for row in rows:
        if (size >= bytes_max or len(found) >= ROWS_PER_READ) and row.first > first:
            return found, row.first - 1
        found.append(row)
        size += row.length
    return found, last
