"""What a boot inspects before it opens or changes anything: each configured directory, and what the
metadata store says of the bookie.

`inspect_disks` reads the directories; `boot` adds what the store says; `verdicts` judges both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bookie.boot.drain_marker import DRAIN_NAME
from bookie.boot.lock import LOCK_NAME
from bookie.boot.marker import MARKER_NAME, FoundMarker, read_marker
from bookie.boot.stamps import JOURNAL_ROLE, LEDGER_ROLE, STAMP_NAME, Stamp, place_of, read_stamp
from bookie.errors import CorruptError
from bookie.metadata.store import Cookie
from bookie.storage.disk import Disk
from bookie.storage.index import INDEX_NAME
from bookie.storage.journal import JOURNAL_DIRECTORY
from bookie.storage.ledger_log import LOG_DIRECTORY
from bookie.storage.log_files import JOURNAL_FILES, LOG_FILES, FileKind, list_files

_STORE_NAMES: Final = (JOURNAL_DIRECTORY, LOG_DIRECTORY, INDEX_NAME)
_OWN_NAMES: Final = (*_STORE_NAMES, LOCK_NAME, MARKER_NAME, STAMP_NAME, DRAIN_NAME)
_FILE_SYSTEM_NAMES: Final = ("lost+found",)


@dataclass(frozen=True, slots=True)
class DiskInspection:
    """One configured directory and what lies in it.

    `problem`: why its stamp cannot be read. `holds_store`: what every boot makes there (index, or
    folder of the journal) or files of log or journal; `holds_files`: the latter. `strange`: names
    in it that no bookie writes. `volume_uid`: today's, empty when the platform does not name it.
    """

    path: Path
    role: str
    index: int
    stamp: Stamp | None
    marker: FoundMarker
    volume_uid: str = ""
    problem: str = ""
    holds_store: bool = True
    holds_files: bool = True
    strange: tuple[str, ...] = ()

    @property
    def place(self) -> int:
        return place_of(self.role, self.index)


@dataclass(frozen=True, slots=True)
class Inspection:
    """All that a boot decides by.

    From the metadata store: `last_epoch`, None when never booted; `last_served`, the last one that
    came to serve; `generation`: no directory may be older; `is_bare`: a version wrote it that left
    no proof of a clean stop.
    """

    bookie_id: str
    instance_id: str
    disks: tuple[DiskInspection, ...]
    cookie: Cookie | None
    last_epoch: int | None
    last_served: int = 0
    generation: int = 0
    is_bare: bool = False

    @property
    def ledger_directories(self) -> int:
        return sum(disk.role == LEDGER_ROLE for disk in self.disks)

    @property
    def stamps(self) -> list[Stamp]:
        return [disk.stamp for disk in self.disks if disk.stamp is not None]

    @property
    def is_dirty(self) -> bool:
        """Nothing proves that the last stop was clean."""
        says_dirty = any(disk.marker.is_dirty for disk in self.disks)
        return says_dirty or (self.needs_proof and not self._is_proven_clean)

    @property
    def needs_proof(self) -> bool:
        """It has served, and what served left a marker in every directory, however it stopped."""
        return self.last_served > 0 and not self.is_bare

    @property
    def _is_proven_clean(self) -> bool:
        """Each directory that was stamped says so, of the very boot that the store saw serve, or of
        a later one that it knows of and has not seen serve: that one found a clean stop. Where all
        are new, none does: the former process may still run on those of before."""
        boots = range(self.last_served, (self.last_epoch or 0) + 1)
        markers = [disk.marker.marker for disk in self.disks if disk.stamp is not None]
        return bool(markers) and all(
            marker is not None and marker.is_clean and marker.boot_epoch in boots
            for marker in markers
        )

    def is_behind(self, disk: DiskInspection) -> bool:
        """A directory whose marker is of an older generation than the store has seen: it was put
        back. One that is missing or cannot be read proves an unclean stop, and no more."""
        generation = disk.marker.generation
        return generation is not None and generation < self.generation

    @property
    def next_generation(self) -> int:
        known = [disk.marker.generation for disk in self.disks]
        return 1 + max([generation or 0 for generation in known] + [self.generation])

    @property
    def rollback_of_store(self) -> str:
        """What the store no longer knows, of what these directories saw in it; empty when all."""
        confirmed = max(
            (disk.marker.marker.confirmed for disk in self.disks if disk.marker.marker is not None),
            default=0,
        )
        if confirmed <= self.generation:
            return ""
        return (
            f"it says generation {self.generation} of {self.bookie_id}, whose directories saw "
            f"{confirmed} there"
        )

    @property
    def lacks_journal(self) -> bool:
        """No file of the journal is there, not even an old one: it is new, or was taken away."""
        return any(disk.role == JOURNAL_ROLE and not disk.holds_files for disk in self.disks)

    @property
    def has_ended_no_boot(self) -> bool:
        """The first boot ever is still to end: an epoch goes to the store before anything is
        served, so without one only stamps of epoch 1 and no markers can be there."""
        only_first = all(stamp.boot_epoch <= 1 for stamp in self.stamps)
        return self.last_epoch is None and not self.is_dirty and only_first

    @property
    def next_epoch(self) -> int:
        """1 + the highest epoch found on any disk, in any marker or in the metadata store.

        A first boot has used up none until it ends, however often it is begun.
        """
        if self.has_ended_no_boot:
            return 1
        marked = [
            disk.marker.marker.boot_epoch for disk in self.disks if disk.marker.marker is not None
        ]
        stamped = [stamp.boot_epoch for stamp in self.stamps]
        return 1 + max([*stamped, *marked, self.last_epoch or 0])


def inspect_disks(
    disk: Disk, directories: Sequence[Path], *, volume_uids: Sequence[str]
) -> tuple[DiskInspection, ...]:
    """The journal directory first; StorageError when one cannot be read, which is no "empty".
    Blocking."""
    return tuple(
        _look(disk, place, path, volume_uids[place] if place < len(volume_uids) else "")
        for place, path in enumerate(directories)
    )


def _look(disk: Disk, place: int, path: Path, volume_uid: str) -> DiskInspection:
    """Blocking."""
    names = disk.list_directory(path)
    is_journal = place == 0
    kind, folder = (JOURNAL_FILES, JOURNAL_DIRECTORY) if is_journal else (LOG_FILES, LOG_DIRECTORY)
    has_files = folder in names and _has_files(disk, path / folder, kind)
    # An index is there from the first boot on. A journal has no file before its first record.
    own = folder in names if is_journal else any(map(_is_index, names))
    found = DiskInspection(
        path,
        JOURNAL_ROLE if is_journal else LEDGER_ROLE,
        max(place - 1, 0),
        stamp=None,
        marker=read_marker(disk, path),
        volume_uid=volume_uid,
        holds_store=own or has_files,
        holds_files=has_files,
        strange=tuple(name for name in names if _is_strange(name)),
    )
    try:
        return replace(found, stamp=read_stamp(disk, path))
    except CorruptError as error:
        return replace(found, problem=str(error))


def _is_index(name: str) -> bool:
    """The index, or what a rebuild makes of it; the side files of a database are none."""
    return name == INDEX_NAME or name.startswith(INDEX_NAME + ".")


def _has_files(disk: Disk, folder: Path, kind: FileKind) -> bool:
    return bool(list_files(disk, folder, kind=kind))


def _is_strange(name: str) -> bool:
    """Not one of ours, with whatever suffix, nor hidden, nor the file system's own."""
    return not name.startswith((*_OWN_NAMES, ".")) and name not in _FILE_SYSTEM_NAMES
