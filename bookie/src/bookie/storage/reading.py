"""Answers one read of a range of entries from index rows and the frames they point to.

Entries that the rows name but the log cannot return are reported as unreadable. To leave them out
would deny entries that this bookie has accepted (R8, R10).
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bookie.errors import CorruptError, FrameError, StorageError
from bookie.frames.build import build_run
from bookie.frames.entry import Buffer
from bookie.frames.frame import RunFrame, parse_run
from bookie.ids import EntryId, LedgerId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.storage.index_rows import RunRow
from bookie.storage.ledger_log import LedgerLog

CUT_BYTES_MIN: Final = 32 * 1024
"""Shorter frames are sent whole: cutting them costs more."""


@dataclass(frozen=True, slots=True)
class StoredRead:
    """What this bookie has of a range of entries.

    `runs`: frames that hold at least one entry of the range, verbatim unless only a small part of a
    frame was asked for (`cut`); they may reach beyond the range, and an id may come twice.
    `answered_through`: the last id that this answers for. `unreadable`: inclusive ranges up to
    there that are stored but cannot be read. All other ids up to there are absent.
    """

    runs: tuple[Buffer, ...]
    answered_through: EntryId
    unreadable: tuple[tuple[int, int], ...]


class RangeRead:
    """Collects frames for the ids `first`..`last`, in order, until `bytes_max` is used up."""

    def __init__(
        self, *, first: int, last: int, bytes_max: int, fetch: Callable[[RunRow], Buffer | None]
    ) -> None:
        """`fetch` reads and checks the frame of a row and returns the bytes to send; None if it is
        unreadable.
        """
        self._first = first
        self._last = last
        self._bytes_max = bytes_max
        self._fetch = fetch
        self._runs: list[Buffer] = []
        """The collected frames, in the order of entries."""
        self._bytes = 0
        """Total size of `_runs`; only a single first frame may exceed the limit."""
        self._covered = EMPTY
        """Ids in `_runs`; filled only if rows overlap, as it is not needed otherwise."""
        self._bad = EMPTY
        """Ids of which a copy could not be read; an id that is also in `_covered` has a good
        copy."""

    def collect(self, rows: Sequence[RunRow]) -> StoredRead:
        """Collect the answer. `rows` must be all rows that may hold an id of the range. It takes at
        least one frame.
        """
        rows = sorted(rows)
        if self._first == self._last:
            through = self._collect_one(rows)
        else:
            through = self._collect_apart(rows) if _are_apart(rows) else self._collect_mixed(rows)
        unreadable = (self._bad - self._covered).clip(0, through)
        return StoredRead(tuple(self._runs), EntryId(through), tuple(unreadable.ranges()))

    def _collect_one(self, rows: Sequence[RunRow]) -> int:
        """A read of one id: take its first readable copy, without set arithmetic."""
        copies = [row for row in rows if row.holds(self._first)]
        if copies and not any(map(self._take, copies)):
            self._bad = EntrySet.from_ranges([(self._first, self._first)])
        return self._last

    def _collect_apart(self, rows: Sequence[RunRow]) -> int:
        """The usual case: rows that do not overlap, without set arithmetic per row."""
        for row in rows:
            lowest = self._lowest(row)
            if lowest is None:
                continue
            if self._is_spent(row):
                return lowest - 1
            if not self._take(row):
                self._bad |= self._wanted(row)
        return self._last

    def _lowest(self, row: RunRow) -> int | None:
        """The row's lowest id in the range; None when it has none."""
        if row.first >= self._first:
            return row.first if row.first <= self._last else None
        if row.period == 0:
            return self._first if row.last >= self._first else None
        wanted = self._wanted(row)
        return wanted.first if wanted else None

    def _collect_mixed(self, rows: Sequence[RunRow]) -> int:
        """Rows that overlap: interleaved stripes, or rows in memory that repeat or repair entries
        of the index.
        """
        pending = [(row, wanted) for row in rows if (wanted := self._wanted(row))]
        pending.sort(key=lambda item: item[1].first)
        for at, (row, wanted) in enumerate(pending):
            if not wanted - self._covered:
                continue
            if self._is_spent(row):
                left = [ids - self._covered for _, ids in pending[at:]]
                return min(ids.first for ids in left if ids) - 1
            if self._take(row):
                self._covered |= wanted
            else:
                self._bad |= wanted
        return self._last

    def _wanted(self, row: RunRow) -> EntrySet:
        return row.entries().clip(self._first, self._last)

    def _is_spent(self, row: RunRow) -> bool:
        # Unreadable frames do not count: a good copy may come next.
        return bool(self._runs) and self._bytes + row.length > self._bytes_max

    def _take(self, row: RunRow) -> bool:
        frame = self._fetch(row)
        if frame is None:
            return False
        self._runs.append(frame)
        self._bytes += len(frame)
        return True


def _are_apart(rows: Sequence[RunRow]) -> bool:
    """True when the spans of these rows, sorted by first id, do not overlap."""
    return all(row.last < following.first for row, following in itertools.pairwise(rows))


def cut(frame: RunFrame, *, first: int, last: int) -> Buffer:
    """The frame, or a shorter one with the entries of the range if the frame is long and at most
    half of it is asked for.

    A writer's runs are long: without this, a client that reads single entries at random would get a
    thousand entries for each.
    """
    if len(frame.buffer) < CUT_BYTES_MIN:
        return frame.buffer
    size = frame.pattern.size or 1
    # Round down to the start of a stripe, so that the pattern still fits.
    low = _index_from(frame, first) // size * size
    high = min(_index_from(frame, last + 1), frame.count)
    if not 0 < (high - low) * 2 <= frame.count:
        return frame.buffer
    offsets = frame.offset_vector()[low : high + 1].tolist()
    return build_run(
        frame.ledger_id,
        EntryId(frame.pattern.id_at(frame.first_entry_id, low)),
        [frame.buffer[start:end] for start, end in itertools.pairwise(offsets)],
        lac=frame.lac,
        pattern=frame.pattern,
        flags=frame.flags,
    )


def part_of(frame: RunFrame, row: RunRow) -> Buffer:
    """A frame with only those entries of `frame` that the row covers."""
    offsets = frame.offset_vector().tolist()
    ids = (row.pattern.id_at(row.first, number) for number in range(row.entry_count))
    found = [frame.pattern.index_of(frame.first_entry_id, EntryId(i)) for i in ids]
    places = [place for place in found if place is not None]
    assert len(places) == row.entry_count
    return build_run(
        frame.ledger_id,
        EntryId(row.first),
        [frame.buffer[offsets[place] : offsets[place + 1]] for place in places],
        lac=frame.lac,
        pattern=row.pattern,
        flags=frame.flags,
    )


def _index_from(frame: RunFrame, entry_id: int) -> int:
    """How many entries the run has before that id, its count not considered."""
    distance, pattern = max(entry_id - frame.first_entry_id, 0), frame.pattern
    if pattern.period == 0:
        return distance
    group, within = divmod(distance, pattern.period)
    return group * pattern.size + min(within, pattern.size)


def read_frame(log: LedgerLog, ledger_id: LedgerId, row: RunRow) -> RunFrame | None:
    """Read the frame of a row; None when it is missing, damaged, or not the frame that the row
    means.
    """
    try:
        return stored_frame(log, ledger_id, row)
    except StorageError:
        return None


def stored_frame(log: LedgerLog, ledger_id: LedgerId, row: RunRow) -> RunFrame | None:
    """Like `read_frame`, but StorageError when the disk does not give the bytes: they may be good,
    and come another time.
    """
    if row.is_rejected:
        return None
    try:
        frame = parse_run(log.read(row.position))
    except (CorruptError, FrameError):
        return None
    same = frame.ledger_id == ledger_id and len(frame.buffer) == row.length
    return frame if same and _holds(frame, row.first) and _holds(frame, row.last) else None


def _holds(frame: RunFrame, entry_id: int) -> bool:
    index = frame.pattern.index_of(frame.first_entry_id, entry_id)
    return index is not None and index < frame.count
