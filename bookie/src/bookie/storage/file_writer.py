"""The disk side of an append stream: the file being written, and the spare that follows it.

Used by the flusher thread alone (and by `open`, before that thread exists). A failed write or sync
leaves the writer unusable: the stream makes the failure sticky and never calls it again.
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
        """The file being written; None before the first."""
        self._spare: DiskFile | None = None
        """Allocated, without a header yet; becomes the next file."""
        self._unsynced = False
        """Bytes were written since the last sync."""
        self.syncs: Final = Durations()
        """How long the disk took to make writes durable."""
        # The tail block goes through here: in the ring its rest is not ours to fill with zeros,
        # since the next append may be writing there at this moment.
        self._tail = memoryview(mmap.mmap(-1, BLOCK_BYTES))
        """One block: the last, partial one is padded here before it is written."""

    @property
    def has_spare(self) -> bool:
        return self._spare is not None

    def make_spare(self, file_id: int) -> bool:
        """Allocates the file that will be `file_id`; False when the disk is too full for it."""
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
        """Puts the spare into service; the file before it is synced and closed first.

        That order is what lets a reader insist on every byte of all files but the last.
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
        """Writes stream positions [start, end) of the ring to `offset` of the current file.

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
        """Makes all writes so far durable; nothing to do when there were none."""
        if self._unsynced:
            assert self._file is not None
            began = time.perf_counter()
            self._file.fdatasync()
            self._unsynced = False
            self.syncs.observe(time.perf_counter() - began)

    def finish(self, end: int | None) -> None:
        """After the last sync: gives the unused rest of the file back to the file system."""
        if self._file is not None and end is not None:
            self._file.truncate(block_ceil(end))
            self._file.fdatasync()
        self.close()

    def close(self) -> None:
        """Closes both files and removes the spare; nothing is written or synced."""
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
