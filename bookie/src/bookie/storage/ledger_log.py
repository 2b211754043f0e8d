"""The ledger log of one ledger directory: it appends run frames verbatim and syncs them in groups.

The storage appends a frame and gets its `Position` for the index; the flusher thread calls `notify`
when more is durable. Reads, and the scan after a start, return the same bytes. The files are in
`log/` under the ledger directory; after a restart the log begins a new file.

The next file is allocated in advance. When the disk has no space for this spare, `is_full` becomes
true, while the rest of the present file still takes recovery adds and the copies of compaction.
"""

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bookie.errors import CorruptError, StorageError
from bookie.frames.entry import Buffer
from bookie.frames.from_fields import from_fields
from bookie.storage.disk import Disk, DiskFile
from bookie.storage.log_files import (
    HEADER_BYTES,
    LOG_FILES,
    LogSettings,
    list_files,
    remove_spares,
)
from bookie.storage.log_scan import LogEnd, LogScan, OnDamage, Position
from bookie.storage.positions import Begin
from bookie.storage.readers import ReaderPool
from bookie.storage.stream import WRITE_BYTES_MAX, AppendStream

log = logging.getLogger(__name__)

LOG_DIRECTORY: Final = "log"
_position: Final = from_fields(Position)


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of the log: its id, its allocated bytes, and whether it may be deleted."""

    file_id: int
    size_bytes: int
    """0 when the file could not be opened or measured."""
    is_last: bool
    """The file is being appended to, or is the newest from before the start. It is never deleted,
    so that its id is not used a second time."""


class LedgerLog:
    """The log. Any thread may append (usually the event loop's) and read."""

    def __init__(
        self, directory: Path, *, disk: Disk, settings: LogSettings, notify: Callable[[], None]
    ) -> None:
        """Use `open`."""
        self._directory = directory
        self._disk = disk
        self._file_ids = list_files(disk, directory, kind=LOG_FILES)
        """Ids of all files, rising; the appending thread adds at the end, `delete_file` removes."""
        self._opened_ids = tuple(self._file_ids)
        """Files from before this process; a scan reads these."""
        self._tail: LogEnd | None = None
        """Where the last of these files ends, once a scan has reached it."""
        self._sync_tail()
        self._readers = ReaderPool(self._open_reader)
        self.stream: Final = AppendStream(
            directory,
            disk=disk,
            kind=LOG_FILES,
            settings=settings,
            next_id=self._last_id() + 1,
            begin=self._begin_file,
            notify=notify,
        )
        """The append stream; it knows of syncs, failures and full disks."""

    @classmethod
    def open(
        cls, directory: Path, *, disk: Disk, settings: LogSettings, notify: Callable[[], None]
    ) -> "LedgerLog":
        """Open the log under `directory`, or create it. Blocking; it starts the flusher thread.

        That thread calls `notify` after each sync, when there is room again after a refused append,
        and on failure; `notify` must not raise and must not block.
        """
        log_directory = directory / LOG_DIRECTORY
        disk.make_directory(log_directory)
        remove_spares(disk, log_directory, kind=LOG_FILES)
        return cls(log_directory, disk=disk, settings=settings, notify=notify)

    def _last_id(self) -> int:
        return self._file_ids[-1] if self._file_ids else 0

    def _sync_tail(self) -> None:
        # A killed process may have left frames that are readable but not durable. Every frame that
        # the scan will count as present must be durable; all files but the last were synced at
        # their end.
        if self._file_ids:
            file = self._disk.open(self._path(self._last_id()), writable=True)
            try:
                file.fdatasync()
            finally:
                file.close()
        self._disk.sync_directory(self._directory)

    def _path(self, file_id: int) -> Path:
        return self._directory / LOG_FILES.name(file_id)

    # ---- appending ------------------------------------------------------------------------------

    def append(self, frame: Buffer) -> Position | None:
        """Append a copy of the frame; None when there is no room now: try again after `notify`.

        Raises the stream's failure, if there is one; DiskFullError when there is no further file,
        which is not a failure, as deleting files helps; FrameError when the frame is longer than
        half the ring or than a file.
        """
        place = self.stream.append_verbatim(frame)
        return None if place is None else _position((*place, len(frame)))

    def _begin_file(self, file_id: int, ended: tuple[int, int] | None) -> Begin:
        if ended is None:
            ended = self._find_tail()
        self._file_ids.append(file_id)
        return Begin(*ended, first_sequence=0, first_needed=0)

    def _find_tail(self) -> tuple[int, int]:
        if not self._file_ids:
            return (0, 0)
        if self._tail is None:
            try:
                for _ in self.scan((self._last_id(), HEADER_BYTES)):
                    pass
            except CorruptError as error:
                # The index has all frames of that file, else the open would have scanned it. So the
                # disk has damaged stored frames: reads will report that, and the log still takes
                # new frames.
                log.error(
                    "the newest log file is damaged, its good frames can still be read: %s", error
                )
                return (self._last_id(), HEADER_BYTES)
        assert self._tail is not None
        return (self._tail.file_id, self._tail.offset)

    def end(self) -> Position:
        """The (empty) position behind the last appended frame; the scan after a checkpoint starts
        there.
        """
        return Position(*self.stream.end, length=0)

    def synced_to(self) -> tuple[int, int]:
        """(file id, offset) before which every frame is durable."""
        return self.stream.synced_at

    # ---- reading --------------------------------------------------------------------------------

    def read(self, position: Position) -> bytes:
        """Read the bytes at `position`, from memory or disk; any thread may call it.

        The caller checks them (`parse_run`). CorruptError when the file ends before, StorageError
        when the disk fails; it never returns fewer bytes than asked for.
        """
        found = self.stream.read_ring(
            file_id=position.file_id, offset=position.offset, length=position.length
        )
        if found is not None:
            return found
        with self._readers.borrow(position.file_id) as file:
            found = file.pread(position.length, position.offset)
        if len(found) != position.length:
            raise CorruptError(
                f"{self._path(position.file_id)}: {len(found)} bytes at {position.offset}, "
                f"expected {position.length}; the frame is lost"
            )
        return found

    def is_in_memory(self, position: Position) -> bool:
        """True while a read of this position needs no disk; never blocks."""
        return self.stream.is_in_ring(file_id=position.file_id, offset=position.offset)

    def _open_reader(self, file_id: int) -> DiskFile:
        return self._disk.open(self._path(file_id))

    def scan(self, start: tuple[int, int], *, on_damage: OnDamage | None = None) -> LogScan:
        """Iterate over checked frames from `start` (a former `end` or `synced_to`, or (0, 0)) to
        the end.

        It reads the files from before this process; call it before the first append. CorruptError
        when synced frames are gone; with `on_damage` the scan passes the error there and goes on
        behind.
        """
        self._check_start(start)
        return LogScan(
            self._directory,
            disk=self._disk,
            file_ids=[file_id for file_id in self._opened_ids if file_id >= start[0]],
            start=start,
            on_end=self._learn_tail,
            on_damage=on_damage,
        )

    def _learn_tail(self, tail: LogEnd) -> None:
        self._tail = tail

    def write_again(self, start: tuple[int, int]) -> None:
        """Write again, durably, what a scan from `start` has found; call it after the scan, before
        the first append.

        A sync that failed earlier may have left frames in the page cache: they can be read, but the
        kernel counts them as written, so no later sync writes them, and a crash of the machine
        loses them. This can only be the last file, since the next file is begun after a successful
        sync.
        """
        assert self._tail is not None
        tail = self._tail
        first = start[1] if start[0] == tail.file_id else HEADER_BYTES
        file = self._disk.open(self._path(tail.file_id), writable=True)
        try:
            for offset in range(first, tail.offset, WRITE_BYTES_MAX):
                length = min(WRITE_BYTES_MAX, tail.offset - offset)
                file.pwrite([file.pread(length, offset)], offset)
            file.fdatasync()
        finally:
            file.close()

    def _check_start(self, start: tuple[int, int]) -> None:
        file_id, offset = start
        known = file_id == 0 or file_id in self._file_ids
        if known or (file_id == self._last_id() + 1 and offset <= HEADER_BYTES):
            return
        raise CorruptError(
            f"{self._directory}: log file {file_id}, synced up to {offset}, is missing; "
            f"the newest file is {self._last_id()}; treat the directory as lost"
        )

    @property
    def torn(self) -> bool:
        """True when a scan found bytes after the last good frame of the last file."""
        return self._tail is not None and self._tail.torn

    # ---- files ----------------------------------------------------------------------------------

    @property
    def has_files(self) -> bool:
        """True when there is a file; it opens none."""
        return bool(self._file_ids)

    def files(self) -> list[LogFile]:
        """All files of the log, oldest first."""
        last = self._last_id()
        return [
            LogFile(file_id, self._size(file_id), file_id == last)
            for file_id in list(self._file_ids)
        ]

    def _size(self, file_id: int) -> int:
        with contextlib.suppress(StorageError), self._readers.borrow(file_id) as file:
            return file.size()
        return 0

    def delete_file(self, file_id: int) -> None:
        """Delete a file that no row refers to any more; durable when it returns.

        Only a file before the last checkpoint may go: a scan from a checkpoint demands all the
        others.
        """
        if file_id not in self._file_ids or file_id == self._last_id():
            raise StorageError(
                f"{self._directory}: log file {file_id} cannot be deleted; "
                f"expected one of {self._file_ids[:-1]}"
            )
        if self.stream.synced_at <= (self._last_id(), HEADER_BYTES):
            # The last file may exist only in memory: it must be on disk before another is deleted.
            self.stream.sync()
        self._disk.unlink(self._path(file_id))
        self._readers.forget(file_id)  # after the unlink: no reader can open the file any more
        self._disk.sync_directory(self._directory)
        self._file_ids.remove(file_id)
        self.stream.look_for_space()

    def close(self) -> None:
        """Write and sync everything, end the flusher, close the files; raises the
        failure, if any.
        """
        self._readers.close()
        self.stream.close()
