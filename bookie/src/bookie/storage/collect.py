"""Compaction: log files of which little lives give their live frames to the end of the log and go.

Crash-safe by order: copy -> sync the log -> point the rows at the copies (one transaction) ->
delete the file. Before the transaction the copies are dead weight that a scan recognises as known
entries; after it the file is. Only files before the last checkpoint are touched: no row in memory
and no later scan needs them.
"""

import threading
from dataclasses import dataclass
from typing import Final

from bookie.points import passing
from bookie.protocol.errors import DiskFullError
from bookie.protocol.ids import LedgerId
from bookie.storage.directory import LedgerDirectory
from bookie.storage.ledger_log import LogFile, Position
from bookie.storage.pieces import RunRow
from bookie.storage.reading import read_frame

BATCH_BYTES: Final = 16 * 1024 * 1024
"""Copied between two syncs."""
BATCH_ROWS: Final = 4096


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
) -> CompactReport:
    """Compacts every file of which less than `live_below` (0..1) is live; blocking.

    Files without any live frame go first: that frees space for the copies of the others.
    """
    report = CompactReport()
    if not directory.has_garbage:
        return report
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
            report += _delete(directory, file)
        elif live_bytes < live_below * file.size_bytes:
            report += _Copying(directory, file, lock).run()
            if report.stopped_by_full_disk:
                directory.has_garbage = True
                break
    return report


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
        self._pending_bytes = 0
        self._copied_bytes = 0

    def run(self) -> CompactReport:
        is_full = False
        try:
            for ledger_id, row in self._directory.index.rows_in_file(self._file.file_id):
                self._take(ledger_id, row)
            self._move()
        except DiskFullError:
            self._move()  # what was copied so far is as good as ever
            is_full = True
        bad = sum(place is None for place in self._places.values())
        done = CompactReport(
            frames_copied=len(self._places) - bad,
            bytes_copied=self._copied_bytes,
            unreadable_frames=bad,
            stopped_by_full_disk=is_full,
        )
        return done if bad or is_full else done + self._delete_if_empty()

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
        while True:
            with self._lock:
                place = self._directory.log.append(frame.buffer)
            if place is not None:
                self._pending_bytes += place.length
                self._copied_bytes += place.length
                return place
            self._directory.log.sync()  # makes room

    def _move(self) -> None:
        if self._moves:
            self._directory.log.sync()
            self._directory.index.move(self._moves)
            self._moves.clear()
            passing("compaction: rows moved, old file not deleted")
            self._pending_bytes = 0

    def _delete_if_empty(self) -> CompactReport:
        # Asked again rather than concluded: a row changed meanwhile was not moved.
        if next(self._directory.index.rows_in_file(self._file.file_id), None) is not None:
            self._directory.has_garbage = True
            return CompactReport()
        return _delete(self._directory, self._file)
