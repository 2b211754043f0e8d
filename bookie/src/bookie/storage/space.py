"""Decides when a disk counts as full: early enough, and without flapping.

A bookie turns read-only while there is still space for recovery adds, checkpoints and the copies of
compaction, which must go on. It takes adds again only when clearly more than the mark is free.
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
    """How much space must stay free on a disk."""

    files_min: int = 2
    """At least space for this many files of the log (or journal),"""
    fraction_min: float = 0.05
    """and at least this part of the disk,"""
    fraction_bytes_max: int = 4 * _GIB
    """which however never demands more than this: 5 percent of a large disk is a lot."""
    resume_factor: float = 1.25
    """The bookie takes adds again when this many times the mark is free."""

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
    """The space on one directory's disk, and the size of its log files; in bytes.

    `log_bytes`: size of the allocated log files, 0 for the journal directory. `is_full`: too little
    is free for normal adds, until `resume_bytes` are free.
    """

    path: Path
    free_bytes: int
    total_bytes: int
    log_bytes: int
    is_full: bool
    resume_bytes: int = 0


def shortage(usages: Sequence[DirectoryUsage]) -> str:
    """A sentence for people: which disks have too little space, how little, and how much is enough.

    If a file could not be allocated although no disk is full by its marks, it names the fullest
    disk.
    """
    full = [usage for usage in usages if usage.is_full]
    return "; ".join(
        f"{usage.path} has {usage.free_bytes / _GIB:.2f} of {usage.total_bytes / _GIB:.2f} "
        f"GiB free, adds are taken again from {usage.resume_bytes / _GIB:.2f} GiB on"
        for usage in full or [min(usages, key=lambda usage: usage.free_bytes)]
    )


@dataclass(eq=False)
class SpaceWatch:
    """Knows whether one directory's disk is full; `measure` asks the file system."""

    path: Path
    _: KW_ONLY
    disk: Disk
    marks: SpaceMarks
    file_bytes: int
    """The size of one log or journal file there, the unit of allocation."""
    is_full: bool = field(default=False, init=False)
    """Whether the disk was full at the last measurement."""

    def measure(self) -> DiskSpace:
        """Measure free and total bytes now; StorageError when the file system does not answer."""
        space = self.disk.space(self.path)
        low = self.marks.low_bytes(space, file_bytes=self.file_bytes)
        self.is_full = space.free_bytes < (self.resume_bytes(space) if self.is_full else low)
        return space

    def usage(self, *, log_bytes: int) -> DirectoryUsage:
        """Measure now and return the usage; raises StorageError like `measure`."""
        space = self.measure()
        return DirectoryUsage(
            self.path, space.free_bytes, space.total_bytes, log_bytes, self.is_full,
            resume_bytes=self.resume_bytes(space),
        )  # fmt: skip

    def resume_bytes(self, space: DiskSpace) -> int:
        """How many bytes must be free before a full disk counts as not full again."""
        low = self.marks.low_bytes(space, file_bytes=self.file_bytes)
        return math.ceil(low * self.marks.resume_factor)
