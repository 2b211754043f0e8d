"""Compaction: log files of which little lives give their live frames to the end of the log and go.

Crash-safe by order: copy -> sync the log -> point the rows at the copies (one transaction) ->
delete the file. Before the transaction the copies are dead weight that a scan recognises as known
entries; after it the file is. Only files before the last checkpoint are touched: no row in memory
and no later scan needs them.

It is done in pieces, so that who asks for it may rest between them: no lock, no snapshot of the
index and no memory but the moves of one batch are held then, and it may as well go no further.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from bookie.errors import DiskFullError
from bookie.frames.build import plain_copy
from bookie.ids import LedgerId
from bookie.points import passing
from bookie.storage.directory import LedgerDirectory
from bookie.storage.index_rows import RunRow
from bookie.storage.ledger_log import LogFile
from bookie.storage.log_scan import Position
from bookie.storage.reading import read_frame

BATCH_BYTES: Final = 16 * 1024 * 1024
"""Copied between two syncs."""
BATCH_ROWS: Final = 4096
PAGE_ROWS: Final = 1024
"""Looked up at a time."""
SLICE_BYTES: Final = 1024 * 1024
"""Copied between two rests; a frame more at most."""


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What compaction did. `unreadable_frames` keep their file: what is there must not be denied
    because it was swept away; a repair replaces them and the next compaction takes the file."""

    files_deleted: int = 0
    bytes_freed: int = 0
    frames_copied: int = 0
    bytes_copied: int = 0
    unreadable_frames: int = 0
    stopped_by_full_disk: bool = False

    def __add__(self, other: "CompactReport") -> "CompactReport":
        return CompactReport(
            self.files_deleted + other.files_deleted,
            self.bytes_freed + other.bytes_freed,
            self.frames_copied + other.frames_copied,
            self.bytes_copied + other.bytes_copied,
            self.unreadable_frames + other.unreadable_frames,
            self.stopped_by_full_disk or other.stopped_by_full_disk,
        )


def compact_directory(
    directory: LedgerDirectory, *, live_below: float, lock: threading.Lock
) -> Iterator[CompactReport]:
    """Compacts every file of which less than `live_below` (0..1) is live; blocking, in pieces.

    Files without any live frame go first: that frees space for the copies of the others.
    """
    if not directory.has_garbage:
        return
    directory.has_garbage = False  # what dies from now on is for the next time
    checkpoint_file = directory.facts.indexed_to[0]
    live = directory.index.live_bytes()
    found = [
        (live.get(file.file_id, 0), file)
        for file in directory.log.files()
        if file.file_id < checkpoint_file and not file.is_last
    ]
    for live_bytes, file in sorted(found, key=lambda item: item[0]):
        if live_bytes == 0:
            yield _delete(directory, file)
        elif live_bytes < live_below * file.size_bytes:
            copying = _Copying(directory, file, lock)
            yield from copying.run()
            if copying.is_stopped:
                directory.has_garbage = True
                break


def _delete(directory: LedgerDirectory, file: LogFile) -> CompactReport:
    directory.log.delete_file(file.file_id)
    return CompactReport(files_deleted=1, bytes_freed=file.size_bytes)


class _Copying:
    """The live frames of one file on their way to the end of the log."""

    def __init__(self, directory: LedgerDirectory, file: LogFile, lock: threading.Lock) -> None:
        self._directory = directory
        self._file = file
        self._lock = lock
        self._places: dict[int, Position | None] = {}
        """Offset of a frame -> its copy; None = unreadable. Several rows may share a frame."""
        self._moves: list[tuple[LedgerId, RunRow, RunRow]] = []
        """Rows that were copied and whose index still names the old place; emptied with each
        batch."""
        self._pending_bytes = 0
        """Copied since the last batch; at BATCH_BYTES a batch ends."""
        self._frames_copied = self._bytes_copied = 0
        """Since the last report."""
        self.is_stopped = False
        """There was no space for another copy."""

    def run(self) -> Iterator[CompactReport]:
        """A report for each piece; the last one says whether the file went."""
        try:
            for ledger_id, row in self._rows():
                self._take(ledger_id, row)
                if self._bytes_copied >= SLICE_BYTES:
                    yield self._report()
            self._move()
        except DiskFullError:
            self._move()  # what was copied so far is as good as ever
            self.is_stopped = True
        bad = sum(place is None for place in self._places.values())
        done = replace(self._report(), unreadable_frames=bad, stopped_by_full_disk=self.is_stopped)
        yield done if bad or self.is_stopped else done + self._delete_if_empty()

    def _report(self) -> CompactReport:
        done = CompactReport(frames_copied=self._frames_copied, bytes_copied=self._bytes_copied)
        self._frames_copied = self._bytes_copied = 0
        return done

    def _rows(self) -> Iterator[tuple[LedgerId, RunRow]]:
        page = self._directory.index.rows_in_file(self._file.file_id, limit=PAGE_ROWS)
        while page:
            yield from page
            ledger_id, row = page[-1]
            page = self._directory.index.rows_in_file(
                self._file.file_id, behind=(ledger_id, row.first), limit=PAGE_ROWS
            )

    def _take(self, ledger_id: LedgerId, row: RunRow) -> None:
        if row.offset not in self._places:
            self._places[row.offset] = self._copy(ledger_id, row)
        place = self._places[row.offset]
        if place is None:
            return
        self._moves.append((ledger_id, row, row.at(place)))
        if self._pending_bytes >= BATCH_BYTES or len(self._moves) >= BATCH_ROWS:
            self._move()

    def _copy(self, ledger_id: LedgerId, row: RunRow) -> Position | None:
        frame = read_frame(self._directory.log, ledger_id, row)
        if frame is None:
            return None
        # A scan that meets the copy before any row points to it must let nothing give way to it:
        # what this frame has of a rejected entry would count as good again.
        copied = plain_copy(frame) if frame.is_recovery else frame.buffer
        while True:
            with self._lock:
                place = self._directory.log.append(copied)
            if place is not None:
                self._pending_bytes += place.length
                self._bytes_copied += place.length
                self._frames_copied += 1
                return place
            self._directory.log.stream.sync()  # makes room

    def _move(self) -> None:
        if self._moves:
            self._directory.log.stream.sync()
            self._directory.index.move(self._moves)
            self._moves.clear()
            passing("compaction: rows moved, old file not deleted")
            self._pending_bytes = 0

    def _delete_if_empty(self) -> CompactReport:
        # Asked again rather than concluded: a row changed meanwhile was not moved.
        if self._directory.index.rows_in_file(self._file.file_id, limit=1):
            self._directory.has_garbage = True
            return CompactReport()
        return _delete(self._directory, self._file)
