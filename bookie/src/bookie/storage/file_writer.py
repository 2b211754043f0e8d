"""The disk side of an append stream: the file being written, and the spare file that will follow
it.

Only the flusher thread uses it (and `open`, before that thread exists). After a failed write or
sync the writer is unusable: the stream keeps the failure and never calls the writer again.
"""

import mmap
import time
from pathlib import Path
from typing import Final

from bookie.errors import DiskFullError, StorageError
from bookie.storage.disk import BLOCK_BYTES, Disk, DiskFile
from bookie.storage.durations import Durations
from bookie.storage.log_files import NEW_SUFFIX, FileHeader, FileKind, LogSettings
from bookie.storage.ring import Ring


def block_floor(position: int) -> int:
    return position - position % BLOCK_BYTES


def block_ceil(position: int) -> int:
    return block_floor(position + BLOCK_BYTES - 1)


class FileWriter:
    """Writes aligned blocks to one file after the other."""

    def __init__(
        self, directory: Path, *, disk: Disk, kind: FileKind, settings: LogSettings
    ) -> None:
        self.directory: Final = directory
        self._disk = disk
        self._kind = kind
        self._settings = settings
        self.is_direct: Final = _decide_direct(directory, disk=disk, settings=settings)
        self._file: DiskFile | None = None
        """The file being written; None before the first one."""
        self._spare: DiskFile | None = None
        """An allocated file without a header, which becomes the next file."""
        self._unsynced = False
        """Bytes were written since the last sync."""
        self.syncs: Final = Durations()
        """How long each sync took."""
        # The last block is padded in this buffer and not in the ring, where the next append may be
        # writing behind the data at this moment.
        self._tail = memoryview(mmap.mmap(-1, BLOCK_BYTES))
        """A buffer of one block, for padding a partial last block before it is written."""

    @property
    def has_spare(self) -> bool:
        return self._spare is not None

    def make_spare(self, file_id: int) -> bool:
        """Allocate the spare that will become file `file_id`; False when the disk is too full."""
        assert self._spare is None
        size = self._settings.file_bytes
        if self._disk.space(self.directory).free_bytes - size < self._settings.reserve_bytes:
            return False
        path = self.directory / (self._kind.name(file_id) + NEW_SUFFIX)
        try:
            self._spare = self._disk.create(path, size=size, direct=self.is_direct)
        except DiskFullError:
            return False
        return True

    def start_file(self, header: FileHeader) -> None:
        """Put the spare into service, after the file before it is synced and closed.

        Because of that order a reader can demand every byte of all files but the last.
        """
        self.sync()
        if self._file is not None:
            self._file.close()
        spare, self._spare = self._spare, None
        assert spare is not None
        self._file = spare
        block = memoryview(mmap.mmap(-1, BLOCK_BYTES))
        block[:] = header.encode(self._kind)
        spare.pwrite([block], 0)
        spare.fdatasync()
        self._disk.rename(spare.path, self.directory / self._kind.name(header.file_id))
        self._disk.sync_directory(self.directory)

    def write(self, ring: Ring, *, start: int, end: int, offset: int) -> None:
        """Write stream positions [start, end) of the ring to `offset` of the current file.

        `start` and `offset` are block aligned; an unaligned end is padded with zeros.
        """
        assert start % BLOCK_BYTES == 0 and offset % BLOCK_BYTES == 0 and start < end
        assert self._file is not None
        whole = block_floor(end)
        buffers = ring.views(start, whole - start) if whole > start else []
        if whole < end:
            tail = end - whole
            self._tail[:tail] = ring.get(whole, tail)
            self._tail[tail:] = bytes(BLOCK_BYTES - tail)
            buffers.append(self._tail)
        self._unsynced = True
        self._file.pwrite(buffers, offset)

    def sync(self) -> None:
        """Make all writes so far durable; does nothing when there were none."""
        if self._unsynced:
            assert self._file is not None
            began = time.perf_counter()
            self._file.fdatasync()
            self._unsynced = False
            self.syncs.observe(time.perf_counter() - began)

    def finish(self, end: int | None) -> None:
        """Truncate the unused rest of the file behind `end`, and close; call it after the last
        sync.
        """
        if self._file is not None and end is not None:
            self._file.truncate(block_ceil(end))
            self._file.fdatasync()
        self.close()

    def close(self) -> None:
        """Close both files and remove the spare, without writing or syncing."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._spare is not None:
            spare, self._spare = self._spare, None
            spare.close()
            self._disk.unlink(spare.path)


def _decide_direct(directory: Path, *, disk: Disk, settings: LogSettings) -> bool:
    if settings.direct_io == "off":
        return False
    possible = disk.supports_direct(directory)
    if settings.direct_io == "on" and not possible:
        raise StorageError(
            f"{directory}: direct_io is on and the file system refuses direct writes; "
            "set it to auto or off, or use another file system"
        )
    return possible
