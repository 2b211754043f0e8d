"""Answers one read of a range of entries from index rows and the frames they point to.

What the rows claim and the log cannot give is reported as unreadable, never left out: leaving it
out would be a denial of entries this bookie has accepted (R8, R10).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.errors import FrameError, StorageError
from bookie.protocol.ids import EntryId, LedgerId
from bookie.protocol.runs import RunFrame, parse_run
from bookie.storage.ledger_log import LedgerLog
from bookie.storage.pieces import RunRow


@dataclass(frozen=True, slots=True)
class StoredRead:
    """What this bookie has of a range.

    `runs`: frames verbatim that hold at least one entry of the range; they may reach beyond it and
    an id may come twice. `answered_through`: the last id this speaks of. `unreadable`: inclusive
    ranges up to there that are stored but cannot be read. All else up to there is absent.
    """

    runs: tuple[bytes, ...]
    answered_through: EntryId
    unreadable: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row with the ids it contributes to the range asked for; not empty."""

    row: RunRow
    wanted: EntrySet


def candidates(rows: Sequence[RunRow], *, first: int, last: int) -> list[Candidate]:
    """The rows that hold an id of the range, by the lowest such id."""
    found = []
    for row in rows:
        wanted = row.entries().clip(first, last)
        if wanted:
            found.append(Candidate(row, wanted))
    found.sort(key=lambda candidate: candidate.wanted.first)
    return found


class RangeRead:
    """Collects frames in the order of ids until the budget is used up."""

    def __init__(self, *, bytes_max: int, fetch: Callable[[RunRow], bytes | None]) -> None:
        """`fetch` gives the checked frame of a row, None when it cannot be read."""
        self._bytes_max = bytes_max
        self._fetch = fetch
        self._runs: list[bytes] = []
        self._bytes = 0
        self._covered = EMPTY
        self._bad = EMPTY

    def collect(self, found: Sequence[Candidate], *, last: int) -> StoredRead:
        """`found` must hold every row for the ids up to `last`. Takes at least one frame."""
        through = last
        for at, candidate in enumerate(found):
            # The table in memory may repeat what the index has, or heal what the index cannot read.
            if not candidate.wanted - self._covered:
                continue
            if self._runs and self._bytes + candidate.row.length > self._bytes_max:
                through = self._first_left(found[at:]) - 1
                break
            self._take(candidate)
        unreadable = (self._bad - self._covered).clip(0, through)
        return StoredRead(tuple(self._runs), EntryId(through), tuple(unreadable.ranges()))

    def _take(self, candidate: Candidate) -> None:
        frame = self._fetch(candidate.row)
        if frame is None:
            # Costs no budget: the copy that heals it may come next and must still be taken.
            self._bad |= candidate.wanted
            return
        self._runs.append(frame)
        self._bytes += len(frame)
        self._covered |= candidate.wanted

    def _first_left(self, rest: Sequence[Candidate]) -> int:
        left = (candidate.wanted - self._covered for candidate in rest)
        return min(wanted.first for wanted in left if wanted)


def read_frame(log: LedgerLog, ledger_id: LedgerId, row: RunRow) -> RunFrame | None:
    """The frame of a row; None when it is not there, damaged, or not the one the row means."""
    try:
        frame = parse_run(log.read(row.position))
    except (StorageError, FrameError):
        return None
    same = frame.ledger_id == ledger_id and len(frame.buffer) == row.length
    return frame if same and _holds(frame, row.first) and _holds(frame, row.last) else None


def _holds(frame: RunFrame, entry_id: int) -> bool:
    index = frame.pattern.index_of(frame.first_entry_id, entry_id)
    return index is not None and index < frame.count
