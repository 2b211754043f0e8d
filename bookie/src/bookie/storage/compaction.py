"""Compaction: it copies the live frames of mostly dead log files to the end of the log, then
deletes these files.

The order makes it crash-safe: copy -> sync the log -> point the rows at the copies (one
transaction) -> delete the file. After a crash before the transaction the copies are garbage, whose
entries a scan knows already; after a crash behind it the file is garbage. Only files before the
last checkpoint are compacted: no row in memory and no later scan needs them.

It runs in pieces, so that the caller may pause between them. During a pause it holds no lock, no
snapshot of the index, and only the moves of one batch in memory; the caller may also stop there.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from bookie.errors import DiskFullError, StorageError
from bookie.frames.build import plain_copy
from bookie.ids import LedgerId
from bookie.points import passing
from bookie.storage.directory import LedgerDirectory
from bookie.storage.index_rows import RunRow
from bookie.storage.ledger_log import LogFile
from bookie.storage.log_scan import Position
from bookie.storage.reading import stored_frame

BATCH_BYTES: Final = 16 * 1024 * 1024
"""How many bytes are copied between two syncs."""
BATCH_ROWS: Final = 4096
PAGE_ROWS: Final = 1024
"""How many rows are read from the index at a time."""
SLICE_BYTES: Final = 1024 * 1024
"""How many bytes are copied between two pauses, plus one frame at most."""


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What compaction did. A file with unreadable frames (`unreadable_frames`) stays: if it were
    deleted, the bookie would deny their entries. A repair replaces such entries, and then the next
    compaction deletes the file.
    """

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
    """Compact every file of which less than `live_below` (0..1) is live, piece by piece. Blocking.

    It deletes files without any live frame first: that frees space for the copies of the others.
    """
    if not directory.has_garbage:
        return
    directory.has_garbage = False  # garbage that arises from now on is for the next call
    try:
        yield from _compact_files(directory, live_below=live_below, lock=lock)
    except BaseException:
        directory.has_garbage = True  # what is left is for the next call
        raise


def _compact_files(
    directory: LedgerDirectory, *, live_below: float, lock: threading.Lock
) -> Iterator[CompactReport]:
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
        elif not file.size_bytes:
            directory.has_garbage = True  # nobody could look at it; the next call may
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
    """The copying of one file's live frames to the end of the log."""

    def __init__(self, directory: LedgerDirectory, file: LogFile, lock: threading.Lock) -> None:
        self._directory = directory
        self._file = file
        self._lock = lock
        self._places: dict[int, Position | None] = {}
        """By offset of a frame: where its copy lies, None = unreadable. Several rows may share a
        frame."""
        self._moves: list[tuple[LedgerId, RunRow, RunRow]] = []
        """Rows whose frame is copied while the index still names the old place; each batch empties
        it."""
        self._pending_bytes = 0
        """Bytes copied since the last batch; a batch ends at BATCH_BYTES."""
        self._frames_copied = self._bytes_copied = 0
        """Frames and bytes copied since the last report."""
        self.is_stopped = False
        """True when the disk had no space for another copy."""

    def run(self) -> Iterator[CompactReport]:
        """Yield a report for each piece; the last one says whether the file was deleted."""
        try:
            for ledger_id, row in self._rows():
                self._take(ledger_id, row)
                if self._bytes_copied >= SLICE_BYTES:
                    yield self._report()
            self._move()
        except DiskFullError:
            self._move()  # the copies made so far are good
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
        try:
            frame = stored_frame(self._directory.log, ledger_id, row)
        except StorageError:
            self._directory.has_garbage = True  # the next call may read it
            return None
        if frame is None:
            return None
        # Copy it without the recovery flag: if a scan finds the copy before any row points to it,
        # the copy must not replace anything, or a rejected entry in it would count as good again.
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
        # Ask the index again: a row that changed meanwhile was not moved.
        if self._directory.index.rows_in_file(self._file.file_id, limit=1):
            self._directory.has_garbage = True
            return CompactReport()
        return _delete(self._directory, self._file)
