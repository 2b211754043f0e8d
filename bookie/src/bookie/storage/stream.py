"""An append stream over numbered files; the ledger log and the journal are built on it.

append (any thread, usually the event loop) -> ring in memory -> flusher -> files

The stream gives every appended byte a position; a file covers a range of positions, begins on a
block boundary and never shares a record with the next file. The flusher writes whole blocks from
the ring, and the unfinished last block padded with zeros; it writes that block again when more
bytes arrive. One sync serves every request made before it began (group commit), and the next one
starts as soon as it has ended.

A failure of the disk is final: the stream keeps it, refuses all appends from then on and never
touches the file again. A full disk is not a failure if only the allocation of the next spare file
meets it: then `is_full` becomes true, while the file in use still takes the appends of recovery and
checkpoints; an append that needs another file raises DiskFullError.
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from bookie.errors import CorruptError, DiskFullError, FrameError, StorageError
from bookie.frames.entry import Buffer
from bookie.storage.background import is_orphaned
from bookie.storage.disk import Disk
from bookie.storage.durations import Durations
from bookie.storage.file_writer import FileWriter, block_ceil, block_floor
from bookie.storage.log_files import HEADER_BYTES, FileHeader, FileKind, LogSettings
from bookie.storage.positions import Begin, Place, StreamFile
from bookie.storage.ring import Ring

WRITE_BYTES_MAX: Final = 1024 * 1024
"""The longest write of the flusher; each write makes room in the ring."""

_NONCE_BYTES: Final = 8


class _Spare(Enum):
    READY = "ready"
    WANTED = "wanted"
    FULL = "full"


Render = Callable[[Place], Sequence[Buffer]]
"""Makes the bytes of a record, given its place."""


class AppendStream:
    """The ring, the flusher and the files of one directory.

    `begin` returns the header fields of a new file. The stream calls it once per file (under the
    stream's lock, in the appending thread) with the id of the new file and, unless it is the first
    of this process, with the end of the file before. The flusher calls `notify` without any lock
    after each sync, when there is room again after a refused append, and on failure; `notify` must
    not raise.
    """

    def __init__(
        self,
        directory: Path,
        *,
        disk: Disk,
        kind: FileKind,
        settings: LogSettings,
        next_id: int,
        begin: Callable[[int, tuple[int, int] | None], Begin],
        notify: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._append_bytes_max = settings.append_bytes_max
        """The longest record: it must fit in half the ring and in one file."""
        self._hasty_bytes = settings.ring_bytes // 2
        """With so many unwritten bytes the flusher writes without a request for a sync."""
        self._next_id = next_id
        """The id of the next file to begin; only grows."""
        self._begin = begin
        self._notify = notify
        self._writer = FileWriter(directory, disk=disk, kind=kind, settings=settings)
        """Only the flusher uses it, except for the first spare file."""
        self._ring = Ring(settings.ring_bytes)
        self._lock = threading.Lock()
        """Guards all fields that follow; never held during disk I/O."""
        self._files: deque[StreamFile] = deque()
        """Files whose bytes may still be in the ring; appends go to the last one."""
        self._current: StreamFile | None = None
        """The file that the flusher writes, None before its first; only the flusher changes it."""
        # Positions of the stream, in bytes. Invariant: written <= head <= reserved.
        self._head = 0
        """End of the appended bytes."""
        self._reserved = 0
        """End of the bytes that appends may have overwritten in the ring; readers check against
        it."""
        self._written = 0
        """End of the bytes that the flusher has written to the files."""
        self._room_end = 0
        """The position up to which the last file and the ring have room, as computed last (the room
        only grows meanwhile). 0 when the next append must compute it: in the beginning, and after
        the end."""
        # Records, counted. Invariant: synced <= appends.
        self._appends = 0
        """How many records were appended so far."""
        self._synced_appends = 0
        """How many records are durable."""
        self._synced_at = (next_id, HEADER_BYTES)
        """(file id, offset) up to which all bytes are durable; only grows."""
        self._sync_wanted = False
        """True when a sync of the bytes appended so far is requested."""
        self._starved = False
        """True when an append was refused for lack of room, and `notify` was not called for room
        since."""
        self._closing = False
        """True once `close` was called."""
        self.failure: StorageError | None = None
        """The failure of the disk, which stays; anyone may read it, only `_end_appends` sets it."""
        # The flusher allocates the next file in advance.
        self._spare = _Spare.READY if self._writer.make_spare(next_id) else _Spare.FULL
        """Whether the next file is allocated, so that beginning it waits for no disk."""
        self._flusher = disk.flusher(
            f"flush {directory}", lock=self._lock, has_work=self._has_work, step=self._step
        )
        self._flusher.start()

    def _check(self) -> None:
        """Assert the invariants, such as synced <= written <= head <= reserved. For tests and crash
        images (`log_kit`); it takes the lock.
        """
        with self._lock:
            assert self._written <= self._head <= self._reserved
            assert self._head - block_floor(self._written) <= self._ring.capacity
            assert self._synced_appends <= self._appends
            assert not self._room_end or (self.failure is None and not self._closing)
            current = self._current
            if current is not None and current.header.file_id == self._synced_at[0]:
                assert current.base + self._synced_at[1] <= max(
                    self._written, current.base + HEADER_BYTES
                )

    # ---- appending side -------------------------------------------------------------------------

    def append(self, length: int, render: Render, *, begins_file: bool = False) -> Place | None:
        """Append a record of `length` bytes, which `render` makes once its place is known.

        Returns None when there is no room now; `notify` will be called when there is. Raises the
        stream's failure, DiskFullError when there is no further file, FrameError when the record
        could never fit.
        """
        with self._lock:
            start = self._find_place(length, begins_file)
            if start is None:
                return None
            place = self._files[-1].place(start, self._appends, self._synced_appends)
            self._fill(start, length, render(place))
            return place

    def append_verbatim(self, record: Buffer) -> tuple[int, int] | None:
        """Append the bytes of a record; returns the file id and the offset of its place. See
        `append`.
        """
        length = len(record)
        with self._lock:
            start: int | None = self._head
            if self._head + length > self._room_end or length > self._append_bytes_max:
                start = self._find_place(length)
                if start is None:
                    return None
            assert start is not None
            self._reserved = start + length
            self._ring.put(start, record)
            self._appended(start + length)
            file = self._files[-1]
            return file.header.file_id, start - file.base

    def has_room(self, length: int, *, beside: int = 0) -> bool:
        """True when the next append of that length will be taken; else `notify` will be called
        later.

        For a caller that must append to two streams or to none. `beside`: so many bytes another
        thread may append before, and begin a file with them. Raises like `append`.
        """
        self._refuse_oversize(length + beside)
        with self._lock:
            if self._find_room(length + beside) is None:
                return False
            end = block_ceil(self._head) + beside + length
            if beside and end - block_floor(self._written) > self._ring.capacity:
                self._starve()
                return False
            return True

    def _refuse_oversize(self, length: int) -> None:
        if length > self._append_bytes_max:
            raise FrameError(
                f"a record of {length} bytes exceeds {self._append_bytes_max}, which "
                "half the ring and one file must hold; raise ring_bytes or file_bytes"
            )

    def _find_place(self, length: int, begins_file: bool = False) -> int | None:
        """Find the stream position for a record, and begin a new file if it needs one; None = no
        room now.
        """
        self._refuse_oversize(length)
        found = self._find_room(length, begins_file)
        if found is not None:
            if begins_file or self._needs_file(length):
                self._roll(found)
            self._room_end = min(
                self._files[-1].base + self._settings.file_bytes,
                block_floor(self._written) + self._ring.capacity,
            )
        return found

    def _needs_file(self, length: int) -> bool:
        """True when the last file cannot take a record of that length."""
        last = self._files[-1] if self._files else None
        return last is None or self._head - last.base + length > self._settings.file_bytes

    def _find_room(self, length: int, begins_file: bool = False) -> int | None:
        """Find the stream position for a record, at the start of a new file if it needs one; None =
        no room now.
        """
        if self.failure is not None:
            raise self.failure
        if self._closing:
            raise StorageError(f"{self._writer.directory}: closed; open it again to append")
        start = self._head
        rolls = begins_file or self._needs_file(length)
        if rolls:
            if self._spare is _Spare.FULL:
                raise _no_space(self._writer.directory, self._settings)
            start = block_ceil(start)
        no_spare = rolls and self._spare is _Spare.WANTED
        if no_spare or start + length - block_floor(self._written) > self._ring.capacity:
            self._starve()
            return None
        return start

    def _starve(self) -> None:
        """Locked. Note that an append is refused for lack of room."""
        self._starved = True
        self._flusher.wake()

    def _roll(self, start: int) -> None:
        ended = None
        if self._files:
            last = self._files[-1]
            last.end = self._head
            ended = (last.header.file_id, last.end - last.base)
        try:
            begin = self._begin(self._next_id, ended)
        except StorageError as error:
            # The end of the last file is unknown and nothing may follow it: every append fails from
            # now on.
            self._end_appends(error)
            raise
        header = FileHeader(
            file_id=self._next_id,
            previous_id=begin.previous_id,
            previous_end=begin.previous_end,
            nonce=int.from_bytes(os.urandom(_NONCE_BYTES), "big"),
            first_sequence=begin.first_sequence,
            first_needed=begin.first_needed,
        )
        self._files.append(StreamFile(header, start - HEADER_BYTES))
        self._next_id += 1
        self._spare = _Spare.WANTED
        self._forget_files(start)

    def _end_appends(self, failure: StorageError | None) -> None:
        """Locked. Refuse every append from now on: after a failure, or at the end."""
        self.failure, self._room_end = failure, 0
        self._flusher.tell()

    def _forget_files(self, start: int) -> None:
        # Only the flusher's file and files with bytes in the ring are needed.
        floor = min(start - self._ring.capacity, block_floor(self._written))
        while (end := self._files[0].end) is not None and end < floor:
            self._files.popleft()

    def _fill(self, start: int, length: int, parts: Sequence[Buffer]) -> None:
        self._reserved = start + length
        position = start
        for part in parts:
            self._ring.put(position, part)
            position += len(part)
        assert position == self._reserved
        self._appended(position)

    def _appended(self, position: int) -> None:
        self._head = position
        self._appends += 1
        if position - self._written >= self._hasty_bytes:
            self._flusher.wake()

    def request_sync(self) -> None:
        """Request a sync of everything appended so far; `notify` is called when it is done."""
        with self._lock:
            if not self._sync_wanted:
                self._sync_wanted = True
                self._flusher.wake()

    def sync(self) -> None:
        """Block until everything appended before the call is durable; raises on failure."""
        with self._lock:
            target = self._appends
            self._sync_wanted = True
            self._flusher.wake()
            self._flusher.wait_until(
                lambda: (
                    self._synced_appends >= target or self.failure is not None or self._is_over()
                )
            )
            if self._synced_appends < target:
                raise self.failure or StorageError(f"{self._writer.directory}: closed")

    def wait_for_room(self) -> None:
        """Block until a refused append may be tried again (not for the event loop's thread)."""
        with self._lock:
            self._flusher.wait_until(
                lambda: not self._starved or self.failure is not None or self._is_over()
            )

    def look_for_space(self) -> None:
        """Let the flusher try again to allocate the spare file, as space may have been freed."""
        with self._lock:
            if self._spare is _Spare.FULL:
                self._spare = _Spare.WANTED
                self._flusher.wake()

    def _is_over(self) -> bool:
        return self._closing and not self._flusher.is_alive()

    # ---- what was appended ----------------------------------------------------------------------

    @property
    def end(self) -> tuple[int, int]:
        """(file id, offset) behind the last appended record."""
        with self._lock:
            if not self._files:
                return (self._next_id, HEADER_BYTES)
            last = self._files[-1]
            return (last.header.file_id, self._head - last.base)

    @property
    def syncs(self) -> Durations:
        """How long each sync took; any thread may read it."""
        return self._writer.syncs

    @property
    def synced_at(self) -> tuple[int, int]:
        return self._synced_at

    @property
    def synced_appends(self) -> int:
        return self._synced_appends

    @property
    def appends(self) -> int:
        return self._appends

    @property
    def is_closed(self) -> bool:
        return self._closing

    @property
    def is_full(self) -> bool:
        """True when there is no spare file because the disk has no space for one."""
        return self._spare is _Spare.FULL

    @property
    def is_direct(self) -> bool:
        return self._writer.is_direct

    def read_ring(self, *, file_id: int, offset: int, length: int) -> bytes | None:
        """Read appended bytes from memory; None when they are no longer there, or not of this
        process.

        CorruptError when the range was never appended.
        """
        with self._lock:
            file = next((f for f in self._files if f.header.file_id == file_id), None)
            if file is None:
                return None
            end = self._head if file.end is None else file.end
        start = file.base + offset
        if start + length > end:
            raise CorruptError(
                f"{self._writer.directory}: bytes {offset}..{offset + length} of file {file_id} "
                f"were never appended; it ends at {end - file.base}"
            )
        # Copy without the lock, so that a reader never delays appends; then check whether an append
        # has overwritten the memory meanwhile.
        found = self._ring.get(start, length) if self._in_ring(start) else None
        return found if self._in_ring(start) else None

    def is_in_ring(self, *, file_id: int, offset: int) -> bool:
        """True while the bytes appended there are still in memory."""
        with self._lock:
            file = next((f for f in self._files if f.header.file_id == file_id), None)
            return file is not None and self._in_ring(file.base + offset)

    def _in_ring(self, start: int) -> bool:
        return start >= self._reserved - self._ring.capacity

    # ---- flusher --------------------------------------------------------------------------------

    def _step(self) -> bool:
        """Do the work there is; False when the flusher's work is over."""
        try:
            return self._pass()
        except StorageError as error:
            self._fail(error)
        except Exception as error:  # a defect of ours must not look like a healthy log
            self._fail(StorageError(f"{self._writer.directory}: flusher stopped: {error!r}"), error)
        return False

    def _pass(self) -> bool:
        """One turn of the flusher; False when the stream was closed and everything is on disk."""
        self._check_orphaned()
        with self._lock:
            closing = self._closing
            syncing = self._sync_wanted or closing
            self._sync_wanted = False
            head, appends = self._head, self._appends
        self._write_until(head)
        if syncing:
            self._writer.sync()
            self._publish_sync(appends)
        if closing:
            current = self._current
            self._writer.finish(None if current is None else self._written - current.base)
        else:
            self._find_spare()
        self._announce(always=syncing)
        return not closing

    def _check_orphaned(self) -> None:
        # A process that ends without `close` must be able to end. It was no orderly stop, so
        # nothing is flushed and the marker stays dirty.
        if is_orphaned():
            raise StorageError(f"{self._writer.directory}: the process ended without closing it")

    def _has_work(self) -> bool:
        return (
            self._closing
            or self._sync_wanted
            or self._spare is _Spare.WANTED
            or self._head - self._written >= self._hasty_bytes
            or (self._starved and self._written < self._head)
            or is_orphaned()
        )

    def _write_until(self, head: int) -> None:
        while self._written < head:
            file = self._file_to_write()
            end = min(head, head if file.end is None else file.end)
            start = block_floor(self._written)
            stop = min(end, start + WRITE_BYTES_MAX)
            self._writer.write(self._ring, start=start, end=stop, offset=start - file.base)
            with self._lock:
                self._written = stop
            self._announce(always=False)

    def _file_to_write(self) -> StreamFile:
        """The file in which `_written` lies; puts it into service if it is the next file."""
        current = self._current
        if current is not None and (current.end is None or self._written < current.end):
            return current
        with self._lock:
            following = next(f for f in self._files if f is not current and self._follows(f))
        self._writer.start_file(following.header)
        self._current = following
        with self._lock:
            self._written = following.base + HEADER_BYTES
        self._find_spare()
        return following

    def _follows(self, file: StreamFile) -> bool:
        current = self._current
        return current is None or file.header.file_id == current.header.file_id + 1

    def _find_spare(self) -> None:
        if self._writer.has_spare:
            return
        found = self._writer.make_spare(self._next_id)
        with self._lock:
            self._spare = _Spare.READY if found else _Spare.FULL
        self._announce(always=False)

    def _publish_sync(self, appends: int) -> None:
        with self._lock:
            self._synced_appends = appends
            if self._current is not None:
                current = self._current
                self._synced_at = (current.header.file_id, self._written - current.base)
            self._flusher.tell()

    def _announce(self, *, always: bool) -> None:
        """Notify the owner: after a sync, and whenever a refused append may be tried again."""
        with self._lock:
            starved = self._starved and self._spare is not _Spare.WANTED
            if starved:
                self._starved = False
                self._flusher.tell()
        if always or starved:
            self._notify()

    def _fail(self, error: StorageError, cause: Exception | None = None) -> None:
        error.__cause__ = cause or error.__cause__
        with self._lock:
            self._end_appends(error)
        with contextlib.suppress(Exception):  # the failure is kept, whatever `notify` makes of it
            self._notify()

    def close(self) -> None:
        """Write and sync everything, end the flusher, close the files; raises the failure, if any.

        A second call only raises the failure again.
        """
        with self._lock:
            self._closing = True
            self._end_appends(self.failure)
            self._flusher.wake()
        self._flusher.join()
        if self.failure is not None:
            with contextlib.suppress(StorageError):  # the first failure is the one to report
                self._writer.close()
            raise self.failure


def _no_space(directory: Path, settings: LogSettings) -> DiskFullError:
    return DiskFullError(
        f"{directory}: no space for another file of {settings.file_bytes} bytes beside "
        f"{settings.reserve_bytes} in reserve; free space, collect ledgers or add a bookie"
    )
