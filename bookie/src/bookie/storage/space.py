"""When a disk counts as full: before it is, and not flapping.

A bookie turns read-only while there is still space for what must go on: recovery adds, checkpoints,
the copies of compaction. It takes adds again only when clearly more than the mark is free.
"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Final

from bookie.errors import SettingsError
from bookie.storage.disk import Disk, DiskSpace

_GIB: Final = 1024**3


@dataclass(frozen=True, slots=True)
class SpaceMarks:
    """How much must stay free."""

    files_min: int = 2
    """Space for this many files of the log (or journal) ..."""
    fraction_min: float = 0.05
    """... and this part of the disk,"""
    fraction_bytes_max: int = 4 * _GIB
    """but for the part's sake never more than this: 5 percent of a large disk is a lot."""
    resume_factor: float = 1.25
    """Adds are taken again from this many times the mark on."""

    def __post_init__(self) -> None:
        if self.files_min < 1 or not 0 <= self.fraction_min < 1 or self.resume_factor < 1:
            raise SettingsError(
                f"space marks need files >= 1, 0 <= fraction < 1, factor >= 1, found {self}"
            )

    def low_bytes(self, space: DiskSpace, *, file_bytes: int) -> int:
        """Free bytes below which the disk counts as full."""
        part = min(int(self.fraction_min * space.total_bytes), self.fraction_bytes_max)
        return max(self.files_min * file_bytes, part)


@dataclass(frozen=True, slots=True)
class DirectoryUsage:
    """Space of one directory's disk, and what its own files take; in bytes.

    `log_bytes`: of allocated log files, 0 for the journal directory. `is_full`: too little is free
    for normal adds, until `resume_bytes` are.
    """

    path: Path
    free_bytes: int
    total_bytes: int
    log_bytes: int
    is_full: bool
    resume_bytes: int = 0


def shortage(usages: Sequence[DirectoryUsage]) -> str:
    """Which disks have too little space, how little, and how much is enough, for people.

    A file that could not be made may have found a disk full that has room by its marks: then the
    fullest one is named.
    """
    full = [usage for usage in usages if usage.is_full]
    return "; ".join(
        f"{usage.path} has {usage.free_bytes / _GIB:.2f} of {usage.total_bytes / _GIB:.2f} "
        f"GiB free, adds are taken again from {usage.resume_bytes / _GIB:.2f} GiB on"
        for usage in full or [min(usages, key=lambda usage: usage.free_bytes)]
    )


@dataclass(eq=False)
class SpaceWatch:
    """Full or not, of one directory; `measure` asks the file system."""

    path: Path
    _: KW_ONLY
    disk: Disk
    marks: SpaceMarks
    file_bytes: int
    """Of a file of the log or journal there: what is allocated at a time."""
    is_full: bool = field(default=False, init=False)
    """As measured last."""

    def measure(self) -> DiskSpace:
        """Free and total bytes now; raises StorageError when the file system does not answer."""
        space = self.disk.space(self.path)
        low = self.marks.low_bytes(space, file_bytes=self.file_bytes)
        self.is_full = space.free_bytes < (self.resume_bytes(space) if self.is_full else low)
        return space

    def usage(self, *, log_bytes: int) -> DirectoryUsage:
        """As of now; raises StorageError like `measure`."""
        space = self.measure()
        return DirectoryUsage(
            self.path, space.free_bytes, space.total_bytes, log_bytes, self.is_full,
            resume_bytes=self.resume_bytes(space),
        )  # fmt: skip

    def resume_bytes(self, space: DiskSpace) -> int:
        """Free bytes from which on a disk that was full is so no longer."""
        low = self.marks.low_bytes(space, file_bytes=self.file_bytes)
        return math.ceil(low * self.marks.resume_factor)
