"""Disks that can be filled: tmpfs mounts in a namespace that only the soak and its children see.

They vanish with the last of these processes, however it ends. Root can have them, and so can anyone
where the system allows user namespaces; without them a soak leaves disk-full out and says so.
"""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NoReturn

INSIDE: Final = "SOAK_MOUNT_NAMESPACE"
FILLER: Final = "filler"
MIB: Final = 1 << 20
FILL_TRIES_MAX: Final = 100
"""Of filling a disk that its bookie writes to."""


def namespace_command() -> list[str]:
    """What runs a command where it may mount."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *as_root]


def is_inside() -> bool:
    """True when `mount` is for us alone."""
    return os.environ.get(INSIDE) == str(os.getpid())


def can_mount() -> bool:
    """Tried, not guessed."""
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return False
    probe = [*namespace_command(), "mount", "-t", "tmpfs", "tmpfs", "/tmp"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def enter(command: list[str]) -> NoReturn:
    """Becomes `command` in a namespace of its own; the process id stays."""
    sys.stdout.flush()
    os.environ[INSIDE] = str(os.getpid())
    os.execvp("unshare", [*namespace_command(), *command])


def fill(filler: Path, *, free_bytes: int) -> None:
    """Makes the file so long that its file system has at most `free_bytes` left.

    Others write there meanwhile: what was free a moment ago may be too much to ask for now.
    """
    with filler.open("ab") as file:
        for _ in range(FILL_TRIES_MAX):
            found = os.statvfs(filler.parent)
            wanted = found.f_bavail * found.f_frsize - free_bytes
            if wanted <= 0:
                return
            try:
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), wanted)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    raise OSError(errno.EAGAIN, f"others took or made room {FILL_TRIES_MAX} times", str(filler))


class SmallDisk:
    """One mounted folder."""

    def __init__(self, folder: Path, *, size: int) -> None:
        self.folder = folder
        self._filler = folder / FILLER
        folder.mkdir(parents=True, exist_ok=True)
        options = ["-t", "tmpfs", "-o", f"size={size // MIB}m"]
        subprocess.run(["mount", *options, "tmpfs", str(folder)], check=True)

    def fill(self, *, free_bytes: int) -> None:
        """Leaves so much free."""
        fill(self._filler, free_bytes=free_bytes)

    def empty(self) -> None:
        """Takes the filler away."""
        self._filler.unlink(missing_ok=True)

    def unmount(self) -> None:
        """What is on it is gone."""
        subprocess.run(["umount", str(self.folder)], check=True)

    def keep(self, target: Path) -> None:
        """Copies what is on it to where it outlives the mount."""
        shutil.copytree(self.folder, target, ignore=shutil.ignore_patterns(FILLER))
