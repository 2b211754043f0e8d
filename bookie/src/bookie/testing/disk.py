"""A disk in memory that forgets like a real one: for crash images and fault injection.

Every file has bytes as readers see them now and bytes that are durable, with the writes in between;
every directory has names as seen now and durable names, with the changes in between. `crash(seed)`
returns the disk as a machine might find it after a power cut: of what was not synced, any subset of
512-byte sectors of each write, any of the file sizes, any subset of the name changes. The crashed
disk refuses everything from then on, like the memory of a dead process.

`kill()` is the other stop: the process is gone, the machine is not, so all writes stay.
"""

import contextlib
import errno
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from bookie.protocol.entry import Buffer
from bookie.storage.disk import BLOCK_BYTES, DiskSpace, mapped

SECTOR_BYTES: Final = 512
"""What a disk writes whole or not at all."""

_GIB: Final = 1024**3


@dataclass(frozen=True, slots=True)
class _Write:
    offset: int
    content: bytes


@dataclass(frozen=True, slots=True)
class _Resize:
    size: int


@dataclass(slots=True)
class _Inode:
    """One file: `seen` is what readers get, `durable` what a crash leaves at least."""

    seen: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[_Write | _Resize] = field(default_factory=list)

    def change(self, change: _Write | _Resize) -> None:
        _apply(self.seen, change)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()


def _apply(content: bytearray, change: _Write | _Resize) -> None:
    if isinstance(change, _Resize):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
        return
    end = change.offset + len(change.content)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    content[change.offset : end] = change.content


@dataclass(frozen=True, slots=True)
class _Link:
    """A change of names: `name` now means `inode`, and `gone` nothing any more."""

    name: str | None
    inode: _Inode | None
    gone: str | None


@dataclass(slots=True)
class _Directory:
    seen: dict[str, _Inode] = field(default_factory=dict)
    durable: dict[str, _Inode] = field(default_factory=dict)
    pending: list[_Link] = field(default_factory=list)

    def change(self, link: _Link) -> None:
        _relink(self.seen, link)
        self.pending.append(link)

    def sync(self) -> None:
        for link in self.pending:
            _relink(self.durable, link)
        self.pending.clear()


def _relink(names: dict[str, _Inode], link: _Link) -> None:
    if link.gone is not None:
        names.pop(link.gone, None)
    if link.name is not None and link.inode is not None:
        names[link.name] = link.inode


@dataclass(slots=True)
class _Fault:
    operation: str
    pattern: str
    errno: int
    left: int


class SimDisk:
    """See bookie.storage.disk.Disk; plus crashes, faults, a capacity, and a gate for syncs."""

    def __init__(self, *, capacity_bytes: int = _GIB, direct: bool = True) -> None:
        self.capacity_bytes = capacity_bytes
        """Sum of file sizes the disk takes; may be changed at any time."""
        self.sync_count = 0
        """Successful fdatasync calls on files."""
        self._direct = direct
        self._lock = threading.RLock()
        self._directories: dict[Path, _Directory] = {Path("/"): _Directory()}
        self._faults: list[_Fault] = []
        self._dead = False
        self._sync_gate: threading.Event | None = None
        self._sync_waiting = threading.Event()
        self._watch: Callable[[str, Path], None] | None = None

    # ---- Disk -----------------------------------------------------------------------------------

    def create(self, path: Path, *, size: int = 0, direct: bool = False) -> "SimFile":
        with self._operation("create", path):
            directory = self._directory(path.parent)
            if path.name in directory.seen or path in self._directories:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            if direct and not self._direct:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            self._allocate(size)
            inode = _Inode()
            if size:
                inode.change(_Resize(size))
            directory.change(_Link(path.name, inode, None))
            return SimFile(self, path, inode, is_direct=direct, writable=True)

    def open(self, path: Path, *, writable: bool = False) -> "SimFile":
        with self._operation("open", path):
            return SimFile(self, path, self._inode(path), is_direct=False, writable=writable)

    def rename(self, source: Path, target: Path) -> None:
        assert source.parent == target.parent
        with self._operation("rename", source):
            inode = self._inode(source)
            self._directory(source.parent).change(_Link(target.name, inode, source.name))

    def unlink(self, path: Path) -> None:
        with self._operation("unlink", path):
            self._inode(path)
            self._directory(path.parent).change(_Link(None, None, path.name))

    def exists(self, path: Path) -> bool:
        with self._operation("stat", path):
            if path in self._directories:
                return True
            parent = self._directories.get(path.parent)
            return parent is not None and path.name in parent.seen

    def list_directory(self, path: Path) -> list[str]:
        with self._operation("list", path):
            inside = [child.name for child in self._directories if child.parent == path != child]
            return sorted([*self._directory(path).seen, *inside])

    def make_directory(self, path: Path) -> None:
        # Durable at once: the operation promises it, so a crash has nothing to choose here.
        with self._operation("mkdir", path):
            for each in (path, *path.parents):
                self._directories.setdefault(each, _Directory())

    def sync_directory(self, path: Path) -> None:
        with self._operation("syncdir", path):
            self._directory(path).sync()

    def space(self, path: Path) -> DiskSpace:
        with self._operation("space", path):
            self._directory(path)
            return DiskSpace(max(0, self.capacity_bytes - self._used()), self.capacity_bytes)

    def supports_direct(self, directory: Path) -> bool:
        return self._direct

    # ---- faults and crashes ---------------------------------------------------------------------

    def fail(
        self, operation: str, *, pattern: str = "*", error: int = errno.EIO, times: int = 1
    ) -> None:
        """The next `times` operations of this kind on names matching `pattern` fail.

        Operations: create open rename unlink stat list mkdir syncdir space read write sync
        truncate. A write that a failed sync covered is never durable, as after a real one.
        """
        with self._lock:
            self._faults.append(_Fault(operation, pattern, error, times))

    def watch(self, observer: Callable[[str, Path], None] | None) -> None:
        """`observer(operation, path)` is called before every operation; it may raise OSError."""
        self._watch = observer

    @contextlib.contextmanager
    def held_syncs(self) -> Iterator[threading.Event]:
        """While inside, file syncs wait; the event tells that one is waiting."""
        gate = threading.Event()
        self._sync_waiting.clear()
        self._sync_gate = gate
        try:
            yield self._sync_waiting
        finally:
            self._sync_gate = None
            gate.set()

    def crash(self, seed: int) -> "SimDisk":
        """The disk after a power cut; this one is dead. The same seed gives the same image."""
        chance = random.Random(seed)
        # Whole seeds lean to losing or keeping: uniform choices alone would hardly ever give the
        # extreme images, all gone or all there.
        keep = chance.choice([0.0, 0.2, 0.5, 0.8, 1.0])
        return self._image(lambda: chance.random() < keep)

    def power_cut(self) -> "SimDisk":
        """The disk after losing everything that was not synced; this one is dead."""
        return self._image(lambda: False)

    def kill(self) -> "SimDisk":
        """The disk as the next process finds it after SIGKILL: nothing written is lost."""
        with self._lock:
            self._dead = True
            return self._successor(self._directories)

    def damage(self, path: Path, offset: int, content: bytes) -> None:
        """Overwrites bytes durably, as bit rot would."""
        with self._lock:
            inode = self._inode(path)
            _apply(inode.seen, _Write(offset, content))
            _apply(inode.durable, _Write(offset, content))

    def content(self, path: Path) -> bytes:
        """The file as a reader sees it."""
        with self._lock:
            return bytes(self._inode(path).seen)

    def _image(self, keeps: Callable[[], bool]) -> "SimDisk":
        with self._lock:
            self._dead = True
            inodes: dict[int, _Inode] = {}
            directories = {
                path: _directory_image(directory, inodes, keeps)
                for path, directory in sorted(self._directories.items())
            }
            return self._successor(directories)

    def _successor(self, directories: dict[Path, _Directory]) -> "SimDisk":
        disk = SimDisk(capacity_bytes=self.capacity_bytes, direct=self._direct)
        disk._directories = directories
        return disk

    # ---- inside ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _operation(self, operation: str, path: Path) -> Iterator[None]:
        with self._lock, mapped(operation, path):
            self._check(operation, path)
            yield

    def _check(self, operation: str, path: Path) -> None:
        if self._dead:
            raise OSError(errno.EIO, "the simulated machine has crashed")
        if self._watch is not None:
            self._watch(operation, path)
        for fault in self._faults:
            if fault.left and fault.operation == operation and fnmatch(path.name, fault.pattern):
                fault.left -= 1
                raise OSError(fault.errno, os.strerror(fault.errno))

    def _directory(self, path: Path) -> _Directory:
        directory = self._directories.get(path)
        if directory is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return directory

    def _inode(self, path: Path) -> _Inode:
        inode = self._directory(path.parent).seen.get(path.name)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return inode

    def _used(self) -> int:
        return sum(
            len(inode.seen) for each in self._directories.values() for inode in each.seen.values()
        )

    def _allocate(self, size: int) -> None:
        if size > 0 and self._used() + size > self.capacity_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _wait_at_gate(self) -> None:
        gate = self._sync_gate
        if gate is not None:
            self._sync_waiting.set()
            gate.wait()


def _directory_image(
    directory: _Directory, inodes: dict[int, _Inode], keeps: Callable[[], bool]
) -> _Directory:
    names = dict(directory.durable)
    for link in directory.pending:
        if keeps():
            _relink(names, link)
    found = {}
    for name, inode in names.items():
        if id(inode) not in inodes:
            inodes[id(inode)] = _inode_image(inode, keeps)
        found[name] = inodes[id(inode)]
    return _Directory(dict(found), dict(found))


def _inode_image(inode: _Inode, keeps: Callable[[], bool]) -> _Inode:
    content = bytearray(inode.durable)
    for change in inode.pending:
        if isinstance(change, _Resize):
            if keeps():
                _apply(content, change)
            continue
        for sector in _sectors(change):
            if keeps():
                _apply(content, sector)
    return _Inode(bytearray(content), bytearray(content))


def _sectors(write: _Write) -> Iterator[_Write]:
    """The write cut at sector boundaries of the file."""
    end = write.offset + len(write.content)
    start = write.offset
    while start < end:
        stop = min(end, start - start % SECTOR_BYTES + SECTOR_BYTES)
        yield _Write(start, write.content[start - write.offset : stop - write.offset])
        start = stop


class SimFile:
    """An open file of a SimDisk; see bookie.storage.disk.DiskFile."""

    __slots__ = ("_disk", "_inode", "_is_direct", "_is_open", "_path", "_writable")

    def __init__(
        self, disk: SimDisk, path: Path, inode: _Inode, *, is_direct: bool, writable: bool
    ) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._is_direct = is_direct
        self._writable = writable
        self._is_open = True

    @property
    def path(self) -> Path:
        return self._path

    @property
    def is_direct(self) -> bool:
        return self._is_direct

    @contextlib.contextmanager
    def _operation(self, operation: str, *, writes: bool = False) -> Iterator[None]:
        with self._disk._operation(operation, self._path):
            if not self._is_open or (writes and not self._writable):
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            yield

    def size(self) -> int:
        with self._operation("stat"):
            return len(self._inode.seen)

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> None:
        with self._operation("write", writes=True):
            content = b"".join(buffers)
            if self._is_direct and (offset % BLOCK_BYTES or len(content) % BLOCK_BYTES):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            self._disk._allocate(offset + len(content) - len(self._inode.seen))
            self._inode.change(_Write(offset, content))

    def pread(self, length: int, offset: int) -> bytes:
        with self._operation("read"):
            return bytes(self._inode.seen[offset : offset + length])

    def fdatasync(self) -> None:
        self._disk._wait_at_gate()
        try:
            with self._operation("sync"):
                self._inode.sync()
                self._disk.sync_count += 1
        except Exception:
            # Like the page cache: after a failed sync the pages count as clean, a second sync
            # would succeed, and what they held is never written. (A dead disk fails nothing: its
            # files may live on in the one that came after it.)
            if not self._disk._dead:
                self._inode.pending.clear()
            raise

    def truncate(self, size: int) -> None:
        with self._operation("truncate", writes=True):
            self._inode.change(_Resize(size))

    def close(self) -> None:
        self._is_open = False
