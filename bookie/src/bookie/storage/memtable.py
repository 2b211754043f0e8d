"""Index rows in memory that are not in SQLite yet: added with each run, taken over by a checkpoint.

Rows may overlap here; they are cut when they are committed. Not thread-safe: the owner holds its
lock around every call, and every call is short.
"""

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field

from bookie.frames.frame import RunFrame
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.storage.index_rows import RunRow, row_of
from bookie.storage.log_scan import Position


@dataclass(slots=True)
class LedgerRows:
    """Rows of one ledger, sorted by first id, and what their frames say."""

    rows: list[RunRow] = field(default_factory=list)
    """By first entry, rising; not in the index yet."""
    span: int = 0
    """Largest last - first of a row: how far before an id the row that holds it may begin."""
    last: EntryId = NO_ENTRY
    """The highest entry id in `rows`."""
    lac: EntryId = NO_ENTRY
    """The highest that a frame of `rows` carries."""

    def add(self, row: RunRow, lac: EntryId) -> None:
        rows = self.rows
        if rows and row < rows[-1]:
            insort(rows, row)
        else:
            rows.append(row)
        # Compared, not max(): this runs for every run that is added.
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
    """Rows by ledger."""

    __slots__ = ("count", "ledgers")

    def __init__(self) -> None:
        self.ledgers: dict[LedgerId, LedgerRows] = {}
        """Those with rows that are not in the index yet."""
        self.count = 0
        """Rows of all ledgers together."""

    def add(self, frame: RunFrame, position: Position) -> None:
        """Takes the row of a frame that lies there."""
        self.put(frame.ledger_id, row_of(frame, position), frame.lac)

    def put(self, ledger_id: LedgerId, row: RunRow, lac: EntryId) -> None:
        """Takes the row of a run that says this LAC."""
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
        """Forgets a deleted ledger."""
        rows = self.ledgers.pop(ledger_id, None)
        if rows is not None:
            self.count -= len(rows.rows)

    def absorb(self, newer: "Memtable") -> None:
        """Takes over the rows of a newer table."""
        for ledger_id, rows in newer.ledgers.items():
            mine = self.ledgers.get(ledger_id)
            if mine is None:
                self.ledgers[ledger_id] = rows
            else:
                mine.absorb(rows)
        self.count += newer.count
