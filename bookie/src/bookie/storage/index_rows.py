"""Index rows: they say which entries lie in which frame of the log.

There is one row per run. A row may cover only a part of its frame's entries: an id that was stored
before keeps its first copy, so the rows of one ledger are cut until no two share an id.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from bookie.frames.frame import CONSECUTIVE, FLAG_RECOVERY, Pattern, RunFrame
from bookie.frames.from_fields import from_fields
from bookie.protocol.availability import EntrySet
from bookie.storage.log_scan import Position

ROWS_PER_READ: Final = 1024
"""How many rows one read uses; a range with more rows takes several reads."""
REJECTED_FILE: Final = -1
"""The file id in rows of rejected copies; no log file has this number."""


class RunRow(NamedTuple):
    """`entry_count` entries of one frame in the log: from `first` to `last`, in a pattern of ids.

    It is a tuple that sorts by first id: rows are stored, searched and passed to SQL unchanged.
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
    """The flags of the frame: whether recovery wrote it."""

    @property
    def position(self) -> Position:
        return Position(self.file_id, self.offset, self.length)

    @property
    def is_rejected(self) -> bool:
        """True when the stored copy is known to be bad: no read uses it, and a recovery add
        replaces it.
        """
        return self.file_id == REJECTED_FILE

    @property
    def is_recovery(self) -> bool:
        """True when recovery wrote the frame: then it replaces a bad copy."""
        return bool(self.flags & FLAG_RECOVERY)

    def rejected(self) -> "RunRow":
        """This row as a rejected one, whose entries cannot be read any more."""
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
        """This row for a copy of the frame at `position`."""
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
    """The union of the entries that the rows cover."""
    return EntrySet.from_runs((row.first, row.entry_count, row.pattern) for row in rows)


def holding(rows: Collection[RunRow]) -> EntrySet:
    """The entries that a ledger has, given all its rows in memory and in the index.

    It counts as the next checkpoint will: only a recovery add replaces a rejected copy.
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
    """As many of these rising rows as fill one read of `first`..`last`, and the id, at least
    `first`, up to which they are complete.
    """
    found: list[RunRow] = []
    size = 0
    for row in rows:
        if (size >= bytes_max or len(found) >= ROWS_PER_READ) and row.first > first:
            return found, row.first - 1
        found.append(row)
        size += row.length
    return found, last
