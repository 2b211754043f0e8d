"""Index rows in memory that are not in SQLite yet: each run adds one, a checkpoint commits them.

Rows may overlap here; the commit cuts them. Not thread-safe: the owner holds its lock around every
call, and every call is short.
"""

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field

from bookie.frames.frame import RunFrame
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.storage.index_rows import RunRow, row_of
from bookie.storage.log_scan import Position


@dataclass(slots=True)
class LedgerRows:
    """The rows of one ledger, sorted by first id, with some maxima over them."""

    rows: list[RunRow] = field(default_factory=list)
    """The rows, by first id; not in the index yet."""
    span: int = 0
    """The largest last - first of a row: a row that holds an id begins at most so far before it."""
    last: EntryId = NO_ENTRY
    """The highest entry id in `rows`."""
    lac: EntryId = NO_ENTRY
    """The highest LAC in a frame of `rows`."""

    def add(self, row: RunRow, lac: EntryId) -> None:
        rows = self.rows
        if rows and row < rows[-1]:
            insort(rows, row)
        else:
            rows.append(row)
        # Comparisons instead of max(), as this runs for every added run.
        last, span = row.last, row.last - row.first
        if span > self.span:
            self.span = span
        if last > self.last:
            self.last = EntryId(last)
        if lac > self.lac:
            self.lac = lac

    def overlapping(self, first: int, last: int) -> list[RunRow]:
        """Rows whose span touches `first`..`last`, by first id."""
        low = bisect_left(self.rows, (first - self.span,))
        high = bisect_right(self.rows, (last + 1,), low)
        return [row for row in self.rows[low:high] if row.last >= first]

    def absorb(self, newer: "LedgerRows") -> None:
        self.rows = sorted(self.rows + newer.rows)
        self.span = max(self.span, newer.span)
        self.last = max(self.last, newer.last)
        self.lac = max(self.lac, newer.lac)


class Memtable:
    """Index rows in memory, by ledger."""

    __slots__ = ("count", "ledgers")

    def __init__(self) -> None:
        self.ledgers: dict[LedgerId, LedgerRows] = {}
        """The ledgers that have rows which are not in the index yet."""
        self.count = 0
        """Rows of all ledgers together."""

    def add(self, frame: RunFrame, position: Position) -> None:
        """Add the row of a frame that lies at `position`."""
        self.put(frame.ledger_id, row_of(frame, position), frame.lac)

    def put(self, ledger_id: LedgerId, row: RunRow, lac: EntryId) -> None:
        """Add a row; `lac`: the LAC in its run."""
        rows = self.ledgers.get(ledger_id)
        if rows is None:
            rows = self.ledgers[ledger_id] = LedgerRows()
        rows.add(row, lac)
        self.count += 1

    def overlapping(self, ledger_id: LedgerId, *, first: int, last: int) -> list[RunRow]:
        rows = self.ledgers.get(ledger_id)
        return rows.overlapping(first, last) if rows is not None else []

    def rows(self, ledger_id: LedgerId) -> list[RunRow]:
        """All rows of the ledger, by first id; a copy."""
        rows = self.ledgers.get(ledger_id)
        return list(rows.rows) if rows is not None else []

    def drop(self, ledger_id: LedgerId) -> None:
        """Drop all rows of a deleted ledger."""
        rows = self.ledgers.pop(ledger_id, None)
        if rows is not None:
            self.count -= len(rows.rows)

    def absorb(self, newer: "Memtable") -> None:
        """Add all rows of a newer table."""
        for ledger_id, rows in newer.ledgers.items():
            mine = self.ledgers.get(ledger_id)
            if mine is None:
                self.ledgers[ledger_id] = rows
            else:
                mine.absorb(rows)
        self.count += newer.count
