"""The file layer below all storage modules: few operations, all checked, with one error tree.

Log, journal, stamps and markers use only `Disk`, so that tests can replace it by a simulated disk
(`bookie.testing.disk.SimDisk`) and crash that at any point. SQLite writes its own files, which
`Disk.open_database` opens.

Only this counts as durable: the bytes of a file after `DiskFile.fdatasync`, and names (create,
rename, unlink) after `Disk.sync_directory` of their directory.
"""

import contextlib
import errno
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bookie.errors import DiskFullError, StorageError
from bookie.frames.entry import Buffer
from bookie.storage.background import BackgroundTask, Flusher, InThreads
from bookie.storage.sqlite import SIDE_SUFFIXES, Database, DatabaseFile

BLOCK_BYTES: Final = 4096
"""Offsets, lengths and buffers of direct writes are multiples of this."""

WRITE_PARTS_MAX: Final = 512
"""How many buffers one write may have (the kernel's own limit is 1024)."""

_FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NEW_FILE_MODE: Final = 0o640
_PROBE_NAME: Final = ".direct-probe"


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Bytes of the file system that holds a directory: free for us, and in total."""

    free_bytes: int
    total_bytes: int


class DiskFile(Protocol):
    """An open file. Positional reads are safe from any thread; one thread writes."""

    @property
    def path(self) -> Path: ...

    @property
    def is_direct(self) -> bool:
        """True when writes bypass the page cache and so must be aligned to BLOCK_BYTES."""

    def size(self) -> int: ...

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> None:
        """Write all the buffers one after the other from `offset` on; StorageError unless all is
        written.
        """

    def pread(self, length: int, offset: int) -> bytes:
        """Read the bytes there: fewer than `length` only at the end of the file."""

    def fdatasync(self) -> None:
        """Make all written bytes durable. After an error the file must not be used again."""

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """Operations on names and directories. Every failure is a StorageError."""

    def create(self, path: Path, *, size: int = 0, direct: bool = False) -> DiskFile:
        """Create a file of `size` allocated zero bytes, open for reading and writing.

        DiskFullError, and no file, when the disk lacks the space. StorageError when the name
        exists.
        """

    def open(self, path: Path, *, writable: bool = False) -> DiskFile: ...

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file atomically; it replaces an existing target. Both must be in
        one directory.
        """

    def unlink(self, path: Path) -> None: ...

    def exists(self, path: Path) -> bool: ...

    def list_directory(self, path: Path) -> list[str]:
        """The names in a directory, sorted."""

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents; their names are durable when it returns."""

    def sync_directory(self, path: Path) -> None: ...

    def space(self, path: Path) -> DiskSpace: ...

    def supports_direct(self, directory: Path) -> bool:
        """True when an aligned direct write works there; it tries one."""

    def open_database(self, path: Path) -> Database:
        """Open the SQLite database in this file; create it when there is none."""

    def flusher(
        self,
        name: str,
        *,
        lock: threading.Lock,
        has_work: Callable[[], bool],
        step: Callable[[], bool],
    ) -> Flusher:
        """Make the flusher that writes to this disk for one stream; the caller starts it."""

    def start_background(self, name: str, work: Callable[[], None]) -> BackgroundTask:
        """Start blocking work for which the caller does not wait."""


def write_file(disk: Disk, path: Path, content: bytes) -> None:
    """Write `content` durably and atomically: a crash leaves the old file or the new one."""
    fresh = path.with_name(path.name + ".new")
    if disk.exists(fresh):
        disk.unlink(fresh)
    file = disk.create(fresh)
    try:
        file.pwrite([content], 0)
        file.fdatasync()
    finally:
        file.close()
    disk.rename(fresh, path)
    disk.sync_directory(path.parent)


def read_file(disk: Disk, path: Path) -> bytes | None:
    """The whole file, None when there is none; StorageError when it cannot be read."""
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        size = file.size()
        content = file.pread(size, 0)
    finally:
        file.close()
    if len(content) != size:
        raise StorageError(f"{path}: read {len(content)} of {size} bytes; check the disk")
    return content


def remove_file(disk: Disk, path: Path) -> None:
    """Removes the file durably; nothing happens when there is none."""
    if disk.exists(path):
        disk.unlink(path)
        disk.sync_directory(path.parent)


def remove_database(disk: Disk, path: Path) -> None:
    """Remove a SQLite database that nobody has open, and the files beside it, as far as they exist;
    durable once the caller syncs the directory. Blocking.
    """
    for suffix in ("", *SIDE_SUFFIXES):
        file = path.with_name(path.name + suffix)
        if disk.exists(file):
            disk.unlink(file)


def storage_error(action: str, path: Path, error: OSError) -> StorageError:
    """The error of our tree for an OSError that `action` on `path` has met."""
    reason = error.strerror or str(error)
    if error.errno in _FULL_ERRNOS:
        return DiskFullError(f"{path}: cannot {action}: {reason}; free space or add a disk")
    return StorageError(f"{path}: cannot {action}: {reason}; check the disk and its permissions")


@contextlib.contextmanager
def mapped(action: str, path: Path) -> Iterator[None]:
    """Turn an OSError into a StorageError that names the action and the file."""
    try:
        yield
    except OSError as error:
        raise storage_error(action, path, error) from error


class RealFile:
    """A file descriptor; see DiskFile."""

    __slots__ = ("_fd", "_is_direct", "_path")

    def __init__(self, path: Path, fd: int, *, is_direct: bool) -> None:
        self._path = path
        self._fd = fd
        self._is_direct = is_direct

    @property
    def path(self) -> Path:
        return self._path

    @property
    def is_direct(self) -> bool:
        return self._is_direct

    def size(self) -> int:
        with mapped("stat", self._path):
            return os.fstat(self._fd).st_size

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> None:
        assert len(buffers) <= WRITE_PARTS_MAX
        total = sum(map(len, buffers))
        with mapped("write", self._path):
            written = os.pwritev(self._fd, buffers, offset)
            if written != total:
                self._write_rest(buffers, offset, written)

    def _write_rest(self, buffers: Sequence[Buffer], offset: int, written: int) -> None:
        # A short write is legal (signals, quotas, odd file systems) though rare on files. The rest
        # is written from views: copies would not be aligned for a direct file.
        rest = _skip(buffers, written)
        while rest:
            count = os.pwritev(self._fd, rest, offset + written)
            if count <= 0 or (self._is_direct and count % BLOCK_BYTES):
                raise OSError(errno.EIO, f"short write of {count} bytes")
            written += count
            rest = _skip(rest, count)

    def pread(self, length: int, offset: int) -> bytes:
        with mapped("read", self._path):
            found = os.pread(self._fd, length, offset)
            while len(found) < length:
                more = os.pread(self._fd, length - len(found), offset + len(found))
                if not more:
                    break
                found += more
            return found

    def fdatasync(self) -> None:
        with mapped("sync", self._path):
            os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        with mapped(f"truncate to {size} bytes", self._path):
            os.ftruncate(self._fd, size)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with mapped("close", self._path):
                os.close(fd)


def _skip(buffers: Sequence[Buffer], count: int) -> list[memoryview]:
    """Views of the buffers without their first `count` bytes."""
    rest = []
    for buffer in buffers:
        taken = min(count, len(buffer))
        count -= taken
        if taken < len(buffer):
            rest.append(memoryview(buffer)[taken:])
    return rest


class RealDisk(InThreads):
    """The file systems of this machine; see Disk."""

    __slots__ = ()

    def create(self, path: Path, *, size: int = 0, direct: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with mapped("create", path):
            fd = os.open(path, flags | (os.O_DIRECT if direct else 0), _NEW_FILE_MODE)
        file = RealFile(path, fd, is_direct=direct)
        try:
            if size:
                with mapped(f"allocate {size} bytes for", path):
                    os.posix_fallocate(fd, 0, size)
        except StorageError:
            file.close()
            self.unlink(path)
            raise
        return file

    def open(self, path: Path, *, writable: bool = False) -> RealFile:
        with mapped("open", path):
            fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        return RealFile(path, fd, is_direct=False)

    def rename(self, source: Path, target: Path) -> None:
        assert source.parent == target.parent
        with mapped(f"rename to {target.name}", source):
            os.rename(source, target)

    def unlink(self, path: Path) -> None:
        with mapped("unlink", path):
            os.unlink(path)

    def exists(self, path: Path) -> bool:
        # Path.exists() returns False for some errors; here only "no such file" means no.
        try:
            os.stat(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise storage_error("stat", path, error) from error
        return True

    def list_directory(self, path: Path) -> list[str]:
        with mapped("list", path):
            return sorted(os.listdir(path))

    def make_directory(self, path: Path) -> None:
        if not self.exists(path):
            self.make_directory(path.parent)
            with mapped("create directory", path):
                os.mkdir(path)
        # Sync also when it exists: an earlier process may have died between creating and syncing
        # it.
        self.sync_directory(path.parent)

    def sync_directory(self, path: Path) -> None:
        with mapped("sync directory", path):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def space(self, path: Path) -> DiskSpace:
        with mapped("measure", path):
            found = os.statvfs(path)
        return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)

    def supports_direct(self, directory: Path) -> bool:
        probe = directory / _PROBE_NAME
        if self.exists(probe):
            self.unlink(probe)
        try:
            file = self.create(probe, direct=True)
        except StorageError:
            with contextlib.suppress(StorageError):
                self.unlink(probe)  # some file systems create the file and then refuse the flag
            return False
        try:
            file.pwrite([memoryview(mmap.mmap(-1, BLOCK_BYTES))], 0)
        except StorageError:
            return False
        finally:
            file.close()
            self.unlink(probe)
        return True

    def open_database(self, path: Path) -> DatabaseFile:
        return DatabaseFile(path)
