"""A disk in memory that forgets like a real one: for crash images and fault injection.

Every file has bytes as readers see them now and bytes that are durable, with the writes in between;
every directory has names as seen now and durable names, with the changes in between. `crash(seed)`
returns the disk as a machine might find it after a power cut: of what was not synced, any subset of
512-byte sectors of each write, any of the file sizes, any subset of the name changes. The crashed
disk refuses everything from then on, like the memory of a dead process.

`kill()` is the other stop: the process is gone, the machine is not, so all writes stay.

SQLite databases live on it too (`testing.database`): real SQL, the file in here.
"""

import contextlib
import errno
import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Final, Self

from bookie.frames.entry import Buffer
from bookie.storage.background import InThreads
from bookie.storage.disk import BLOCK_BYTES, DiskSpace, storage_error
from bookie.testing.database import SimDatabase
from bookie.testing.volatile import (
    Directory,
    Inode,
    Keeps,
    Link,
    Resize,
    Write,
    apply,
    copy_of,
    image_of,
)

_GIB: Final = 1024**3


@dataclass(slots=True)
class _Fault:
    operation: str
    pattern: str
    errno: int
    left: int


class SimDisk(InThreads):
    """See bookie.storage.disk.Disk; plus crashes, faults, a capacity, and a gate for syncs."""

    def __init__(self, *, capacity_bytes: int = _GIB, direct: bool = True) -> None:
        self.capacity_bytes = capacity_bytes
        """Sum of file sizes the disk takes; may be changed at any time."""
        self.sync_count = 0
        """Successful fdatasync calls on files."""
        self.lies = False
        """Syncs of files report success and make nothing durable; databases are spared."""
        self._direct = direct
        self._lock = threading.RLock()
        self._directories: dict[Path, Directory] = {Path("/"): Directory()}
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
            inode = Inode()
            if size:
                inode.change(Resize(size))
            directory.change(Link(path.name, inode, None))
            return SimFile(self, path, inode, is_direct=direct, writable=True)

    def open(self, path: Path, *, writable: bool = False) -> "SimFile":
        with self._operation("open", path):
            return SimFile(self, path, self._inode(path), is_direct=False, writable=writable)

    def rename(self, source: Path, target: Path) -> None:
        assert source.parent == target.parent
        with self._operation("rename", source):
            inode = self._inode(source)
            self._directory(source.parent).change(Link(target.name, inode, source.name))

    def unlink(self, path: Path) -> None:
        with self._operation("unlink", path):
            self._inode(path)
            self._directory(path.parent).change(Link(None, None, path.name))

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
                self._directories.setdefault(each, Directory())

    def sync_directory(self, path: Path) -> None:
        with self._operation("syncdir", path):
            self._directory(path).sync()

    def space(self, path: Path) -> DiskSpace:
        with self._operation("space", path):
            self._directory(path)
            return DiskSpace(max(0, self.capacity_bytes - self._used()), self.capacity_bytes)

    def supports_direct(self, directory: Path) -> bool:
        return self._direct

    def open_database(self, path: Path) -> SimDatabase:
        with self._operation("open", path):
            self._directory(path.parent)
        image = b""
        if self.exists(path):
            with contextlib.closing(self.open(path)) as file:
                image = file.pread(file.size(), 0)
        database = SimDatabase(path, image=image, commit=partial(self._commit_database, path))
        if not image:
            # The file is there from the first moment on, as with real SQLite.
            self._commit_database(path, b"")
        return database

    def _commit_database(self, path: Path, image: bytes) -> None:
        """Replaces the file, durable at once; or raises and changes nothing."""
        for operation in ("write", "sync"):
            with self._operation(operation, path):
                pass
        with self._operation("commit", path):
            names = self._directory(path.parent)
            inode = names.seen.get(path.name)
            self._allocate(len(image) - (len(inode.seen) if inode else 0))
            if inode is None:
                inode = Inode()
                names.change(Link(path.name, inode, None))
            inode.seen[:] = image
            inode.durable[:] = image

    # ---- faults and crashes ---------------------------------------------------------------------

    def fail(
        self, operation: str, *, pattern: str = "*", error: int = errno.EIO, times: int = 1
    ) -> None:
        """The next `times` operations of this kind on names matching `pattern` fail.

        Operations: create open rename unlink stat list mkdir syncdir space read write sync
        truncate, and commit of a database (which writes and syncs before). A write that a failed
        sync covered is never durable, as after a real one.
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

    def crash(self, seed: int) -> Self:
        """The disk after a power cut; this one is dead. The same seed gives the same image."""
        chance = random.Random(seed)
        # Whole seeds lean to losing or keeping: uniform choices alone would hardly ever give the
        # extreme images, all gone or all there.
        keep = chance.choice([0.0, 0.2, 0.5, 0.8, 1.0])
        return self.image(lambda _path, _change: chance.random() < keep)

    def power_cut(self) -> Self:
        """The disk after losing everything that was not synced; this one is dead."""
        return self.image(lambda _path, _change: False)

    def image(self, keeps: Keeps) -> Self:
        """The disk after a power cut that leaves what `keeps` says; this one is dead."""
        with self._lock:
            self._dead = True
            return self._successor(image_of(self._directories, keeps))

    def durable(self) -> Self:
        """What a power cut right now would leave at least; this one goes on."""
        with self._lock:
            return self._successor(image_of(self._directories, lambda _path, _change: False))

    def kill(self) -> Self:
        """The disk as the next process finds it after SIGKILL: nothing written is lost."""
        with self._lock:
            self._dead = True
            return self._successor(self._directories)

    def snapshot(self, known: dict[int, tuple[Inode, Inode]]) -> Self:
        """A dead copy as of now, to take any number of images from; this disk goes on.

        `known` is for the snapshots of one disk to share what did not change between them.
        """
        with self._lock:
            copy = self._successor(copy_of(self._directories, known))
            copy._dead = True
            return copy

    def damage(self, path: Path, offset: int, content: bytes) -> None:
        """Overwrites bytes durably, as bit rot would."""
        with self._lock:
            inode = self._inode(path)
            apply(inode.seen, Write(offset, content))
            apply(inode.durable, Write(offset, content))

    def write_back(self) -> None:
        """What the system does by itself after a while: everything is durable."""
        with self._lock:
            for directory in self._directories.values():
                directory.sync()
                for inode in directory.seen.values():
                    inode.sync()

    def replace_volume(
        self, path: Path, volume: Mapping[Path, Directory] | None = None
    ) -> dict[Path, Directory]:
        """Another volume is mounted at `path`, a new and empty one by default; the one that was."""
        with self._lock:
            inside = [each for each in self._directories if path in (each, *each.parents)]
            former = {each: self._directories.pop(each) for each in inside}
            self._directories.update(volume or {path: Directory()})
            return former

    @property
    def directories(self) -> Mapping[Path, Directory]:
        """All it holds; not to be changed."""
        return self._directories

    def content(self, path: Path) -> bytes:
        """The file as a reader sees it."""
        with self._lock:
            return bytes(self._inode(path).seen)

    def _successor(self, directories: dict[Path, Directory]) -> Self:
        disk = type(self)(capacity_bytes=self.capacity_bytes, direct=self._direct)
        disk._directories = directories
        return disk

    # ---- inside ---------------------------------------------------------------------------------

    def _operation(self, operation: str, path: Path) -> "_Operation":
        return _Operation(self, operation, path)

    def _check(self, operation: str, path: Path) -> None:
        if self._dead:
            raise OSError(errno.EIO, "the simulated machine has crashed")
        if self._watch is not None:
            self._watch(operation, path)
        for fault in self._faults:
            if fault.left and fault.operation == operation and fnmatch(path.name, fault.pattern):
                fault.left -= 1
                raise OSError(fault.errno, os.strerror(fault.errno))

    def _directory(self, path: Path) -> Directory:
        directory = self._directories.get(path)
        if directory is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return directory

    def _inode(self, path: Path) -> Inode:
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


class _Operation:
    """One operation, alone on the disk; its errors are storage errors, like those of a real one."""

    __slots__ = ("_disk", "_name", "_path")

    def __init__(self, disk: SimDisk, name: str, path: Path) -> None:
        self._disk = disk
        self._name = name
        self._path = path

    def __enter__(self) -> None:
        self._disk._lock.acquire()
        try:
            self._disk._check(self._name, self._path)
        except BaseException as error:
            self._disk._lock.release()
            if isinstance(error, OSError):
                raise storage_error(self._name, self._path, error) from error
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: object
    ) -> None:
        self._disk._lock.release()
        if isinstance(error, OSError):
            raise storage_error(self._name, self._path, error) from error


class SimFile:
    """An open file of a SimDisk; see bookie.storage.disk.DiskFile."""

    __slots__ = ("_disk", "_inode", "_is_direct", "_is_open", "_path", "_writable")

    def __init__(
        self, disk: SimDisk, path: Path, inode: Inode, *, is_direct: bool, writable: bool
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

    def _operation(self, operation: str) -> _Operation:
        return self._disk._operation(operation, self._path)

    def _expect_open(self, is_allowed: bool = True) -> None:
        if not (self._is_open and is_allowed):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def size(self) -> int:
        with self._operation("stat"):
            self._expect_open()
            return len(self._inode.seen)

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> None:
        with self._operation("write"):
            self._expect_open(self._writable)
            content = b"".join(buffers)
            if self._is_direct and (offset % BLOCK_BYTES or len(content) % BLOCK_BYTES):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            self._disk._allocate(offset + len(content) - len(self._inode.seen))
            self._inode.change(Write(offset, content))

    def pread(self, length: int, offset: int) -> bytes:
        with self._operation("read"):
            self._expect_open()
            return bytes(self._inode.seen[offset : offset + length])

    def fdatasync(self) -> None:
        self._disk._wait_at_gate()
        try:
            with self._operation("sync"):
                self._expect_open()
                if not self._disk.lies:
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
        with self._operation("truncate"):
            self._expect_open(self._writable)
            self._inode.change(Resize(size))

    def close(self) -> None:
        self._is_open = False
