"""The folder lock: one process at a time on a bookie's directories.

Held by the serving bookie, by `bookie index rebuild`, by `bookie inspect`; the system gives it up
when the process ends, however it ends.
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
"""Always as long, so that a shorter number needs no truncation and no space."""


def place_of_lock(holder: str) -> str:
    """Which file a name of `FolderLock.holders` means, whatever boot of the machine gave it; empty
    when the name does not say. A copy of a folder has other files."""
    return holder.rpartition(" ")[2]


def _file_of(descriptor: int) -> str:
    stat, system = os.fstat(descriptor), os.fstatvfs(descriptor)
    # A device's number may change when the machine restarts; the file system's id does not.
    return f"{stat.st_dev} {system.f_fsid:x}:{stat.st_ino}"


class FolderInUseError(BootRefusedError):
    """Another process works on these folders; over when it ends."""


class FolderLock:
    """Exclusive locks on a set of directories; a context manager."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = tuple(directories)
        """The folders to be locked, in the order of the settings."""
        self._descriptors: list[int] = []
        """Of the lock files that are held; empty before `acquire` and after the end."""

    def acquire(self) -> None:
        """Lock all, or FolderInUseError that names the process which holds one. Blocking."""
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
        # For people only: a disk too full for it must still be locked, and its bookie start.
        with contextlib.suppress(OSError):
            os.pwrite(descriptor, f"{os.getpid():<{_PID_BYTES}}\n".encode(), 0)

    def holders(self) -> tuple[str, ...]:
        """A name for each lock held, in the order of the directories: the machine's boot, device,
        and the file: `5f3a... 2049 9b1c:131`. Who gets the lock of a name that another process left
        knows that it is gone.

        Empty where the machine's boot cannot be named: a copy of the folder could be anywhere.
        Blocking.
        """
        try:
            boot = _MACHINE_BOOT.read_text(encoding="ascii").strip()
        except OSError:
            return ("",) * len(self._descriptors)
        return tuple(f"{boot} {_file_of(descriptor)}" for descriptor in self._descriptors)

    def release(self) -> None:
        """Give up what is held, if anything is. It only closes files, which waits for no disk."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
