"""An append stream over numbered files: what the ledger log and the journal have in common.

append (any thread, usually the event loop)  ->  ring in memory  ->  flusher  ->  files

The stream gives every appended byte a position; a file covers a range of positions, begins on a
block boundary and never shares a record with the next file. The flusher writes whole blocks from
the ring and the unfinished last block padded with zeros; that block is written again when more
arrives. One sync answers every request made before it began (group commit), the next one starts as
soon as it ended.

A failure of the disk is final: the stream keeps it, refuses all appends from then on and never
touches the file again. Disk full is none as long as it meets only the allocation of the next spare
file: then `is_full` says so while the file in use and the spare still take what recovery and
checkpoints need; an append that needs yet another file raises DiskFullError.
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
"""One write of the flusher; room is made in the ring after each."""

_NONCE_BYTES: Final = 8


class _Spare(Enum):
    READY = "ready"
    WANTED = "wanted"
    FULL = "full"


Render = Callable[[Place], Sequence[Buffer]]
"""Makes the bytes of a record whose place is known."""


class AppendStream:
    """Ring, flusher and files of one directory.

    `begin` is asked once per new file (under the stream's lock, in the appending thread) for what
    its header says; it is given the id of the new file and, unless the new file is the first of
    this process, where the one before it ended. `notify` is called by the flusher without any lock,
    after each sync, when room was made for a refused append, and on failure; it must not raise.
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
        """Longest record: what half the ring and one file hold."""
        self._hasty_bytes = settings.ring_bytes // 2
        """So much that is not written yet is written without waiting for a sync."""
        self._next_id = next_id
        """Of the file that will be begun next; only grows."""
        self._begin = begin
        self._notify = notify
        self._writer = FileWriter(directory, disk=disk, kind=kind, settings=settings)
        """The flusher's alone, but for the first spare file."""
        self._ring = Ring(settings.ring_bytes)
        self._lock = threading.Lock()
        """Guards all that follows; never held over the disk."""
        self._files: deque[StreamFile] = deque()
        """Files whose bytes may still be in the ring; the last one is appended to."""
        self._current: StreamFile | None = None
        """The file the flusher writes, None before its first; changed by the flusher alone."""
        # Positions of the stream, in bytes. Invariant: written <= head <= reserved.
        self._head = 0
        """End of what was appended."""
        self._reserved = 0
        """End of what appends may have overwritten in the ring; readers check against it."""
        self._written = 0
        """End of what the flusher has handed to the files."""
        self._room_end = 0
        """Up to here the last file and the ring have room, as they had when last looked at (it only
        becomes more); 0 when the next append must look: in the beginning, and after the end."""
        # Records, counted. Invariant: synced <= appends.
        self._appends = 0
        """So far; `_synced_appends <= _appends`."""
        self._synced_appends = 0
        """So many records are durable."""
        self._synced_at = (next_id, HEADER_BYTES)
        """(file id, offset) up to which all is durable; only grows."""
        self._sync_wanted = False
        """Somebody waits for a sync of what was appended before now."""
        self._starved = False
        """An append was refused for want of room, and `notify` has not said since that there is."""
        self._closing = False
        """`close` was called; never taken back."""
        self.failure: StorageError | None = None
        """Sticky; for others to read. Changed by `_end_appends` alone."""
        # Whether the file after the last one is there: the flusher makes it ahead of time.
        self._spare = _Spare.READY if self._writer.make_spare(next_id) else _Spare.FULL
        """Whether the next file is there, so that a switch of files waits for no disk."""
        self._flusher = disk.flusher(
            f"flush {directory}", lock=self._lock, has_work=self._has_work, step=self._step
        )
        self._flusher.start()

    def _check(self) -> None:
        """Positions in their order: synced <= written <= head <= reserved. For tests and crash
        images (`log_kit`); it takes the lock."""
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
        """Takes a record of `length` bytes, which `render` makes once its place is known.

        None: no room now, `notify` will be called when there is. Raises the sticky failure,
        DiskFullError when no file is left, FrameError when the record could never fit.
        """
        with self._lock:
            start = self._find_place(length, begins_file)
            if start is None:
                return None
            place = self._files[-1].place(start, self._appends, self._synced_appends)
            self._fill(start, length, render(place))
            return place

    def append_verbatim(self, record: Buffer) -> tuple[int, int] | None:
        """Takes a record that is made already; file id and offset of its place. See `append`."""
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
        """True when an append of that length, made next, will be taken; else `notify` will come.

        Raises like `append`. For a caller who must append to two streams or to none. `beside`: so
        much may another thread append before it, and begin a file with that.
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
        """Stream position for a record, in a new file where it needs one; None = no room now."""
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
        """Stream position for a record, at the start of a new file where it needs one."""
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
        """Locked. An append is refused for want of room."""
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
            # Nothing may follow an end that is not known: every append would fail, for ever.
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
        """Locked. From now on every append is refused: after a failure, or at the end."""
        self.failure, self._room_end = failure, 0
        self._flusher.tell()

    def _forget_files(self, start: int) -> None:
        # Only the flusher's file and what the ring may still hold are needed.
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
        """Asks for a sync of all that was appended so far; `notify` tells when it is done."""
        with self._lock:
            if not self._sync_wanted:
                self._sync_wanted = True
                self._flusher.wake()

    def sync(self) -> None:
        """Blocks until all that was appended before the call is durable; raises on failure."""
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
        """Blocks until a refused append may be tried again (not for the event loop's thread)."""
        with self._lock:
            self._flusher.wait_until(
                lambda: not self._starved or self.failure is not None or self._is_over()
            )

    def look_for_space(self) -> None:
        """Space may have been freed: the flusher tries again to allocate the spare file."""
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
        """How long each sync of its files took; any thread may look."""
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
        """Appended bytes from memory; None when they are there no longer (or not of this process).

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
        # Copied without the lock, so that a reader never holds up appends; whether an append
        # reused the memory meanwhile is checked afterwards.
        found = self._ring.get(start, length) if self._in_ring(start) else None
        return found if self._in_ring(start) else None

    def is_in_ring(self, *, file_id: int, offset: int) -> bool:
        """True while what was appended there can be had from memory."""
        with self._lock:
            file = next((f for f in self._files if f.header.file_id == file_id), None)
            return file is not None and self._in_ring(file.base + offset)

    def _in_ring(self, start: int) -> bool:
        return start >= self._reserved - self._ring.capacity

    # ---- flusher --------------------------------------------------------------------------------

    def _step(self) -> bool:
        """Does what there is to do; False when nothing more is ever to be done."""
        try:
            return self._pass()
        except StorageError as error:
            self._fail(error)
        except Exception as error:  # a defect of ours must not look like a healthy log
            self._fail(StorageError(f"{self._writer.directory}: flusher stopped: {error!r}"), error)
        return False

    def _pass(self) -> bool:
        """One turn; False when the stream was closed and all is on disk."""
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
        # A process that ends without close must end: it was no orderly stop, so nothing is flushed
        # in its name, and its marker stays.
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
        """The file `_written` lies in, put into service when its turn has come."""
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
        """Tells the owner: after a sync, and whenever a refused append may be tried again."""
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
        """Writes and syncs all, ends the thread, closes the files; raises the failure if any.

        Closing again does nothing more than raising again.
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
