"""The folder lock: one process at a time on a bookie's directories.

The serving bookie, `bookie index rebuild` and `bookie inspect` hold it; the kernel releases it when
the process ends, however it ends.
"""

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from bookie.errors import BootRefusedError, StorageError
from bookie.storage.disk import mapped

LOCK_NAME: Final = "LOCK"
_MACHINE_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_BYTES: Final = 15
"""The pid is written with this length always, so that a shorter number needs no truncation and no
disk space."""


def place_of_lock(holder: str) -> str:
    """The part of a `FolderLock.holders` name that identifies the lock file, whatever the machine's
    boot; empty when the name lacks it. In a copy of the folder it differs.
    """
    return holder.rpartition(" ")[2]


def _file_of(descriptor: int) -> str:
    stat, system = os.fstat(descriptor), os.fstatvfs(descriptor)
    # The device number may change when the machine restarts; the id of the file system does not.
    return f"{stat.st_dev} {system.f_fsid:x}:{stat.st_ino}"


class FolderInUseError(BootRefusedError):
    """Another process holds the lock of one of these folders; trying again helps once
    it has ended.
    """


class FolderLock:
    """Exclusive locks on a set of directories; a context manager."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = tuple(directories)
        """The folders to lock, in the order of the settings."""
        self._descriptors: list[int] = []
        """File descriptors of the lock files that are held; empty before `acquire` and after
        `release`."""

    def acquire(self) -> None:
        """Lock all folders, or raise FolderInUseError with the pid of the process that holds one.
        Blocking.
        """
        try:
            for directory in self._directories:
                self._lock(directory / LOCK_NAME)
        except BaseException:
            self.release()
            raise

    def _lock(self, path: Path) -> None:
        with mapped("open the lock", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._descriptors.append(descriptor)
        try:
            with mapped("lock", path):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except StorageError as error:
            if not isinstance(error.__cause__, BlockingIOError):
                raise
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise FolderInUseError(
                f"{path.parent} is in use by another bookie process (pid {holder}): "
                "stop that one first, or give this bookie directories of its own"
            ) from error
        # The pid is for people only: a bookie must start even if its disk is too full to write it.
        with contextlib.suppress(OSError):
            os.pwrite(descriptor, f"{os.getpid():<{_PID_BYTES}}\n".encode(), 0)

    def holders(self) -> tuple[str, ...]:
        """A name for each held lock, in the order of the directories: the machine's boot, the
        device and the file, as in `5f3a... 2049 9b1c:131`. If a process gets a lock and the marker
        there has the same name, then the process that wrote the marker is gone.

        Each name is empty when the machine's boot is unknown: a copy of the folder could be
        anywhere. Blocking.
        """
        try:
            boot = _MACHINE_BOOT.read_text(encoding="ascii").strip()
        except OSError:
            return ("",) * len(self._descriptors)
        return tuple(f"{boot} {_file_of(descriptor)}" for descriptor in self._descriptors)

    def release(self) -> None:
        """Release all held locks. It only closes files, which does not wait for a disk."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
