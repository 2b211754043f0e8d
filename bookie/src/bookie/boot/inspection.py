"""What a boot reads before it opens or changes anything: each configured directory, and what the
metadata store knows of the bookie.

`inspect_disks` reads the directories; `boot` adds what the store knows; `verdicts` judges both.
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

    `problem`: why its stamp cannot be read. `holds_files`: it has files of the log or the journal.
    `holds_store`: it has such files, or the index or the journal folder that every boot makes.
    `strange`: names in it that no bookie writes. `volume_uid`: the present volume's, empty when the
    platform does not name it.
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
    """All facts by which a boot decides.

    From the metadata store come `last_epoch`: of the last boot, None when there was none;
    `last_served`: epoch of the last boot that came to serve; `generation`: no directory may have an
    older one; `is_bare`: a version of the program wrote the claim that left no proof of a clean
    stop.
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
        """True when nothing proves that the last stop was clean."""
        says_dirty = any(disk.marker.is_dirty for disk in self.disks)
        return says_dirty or (self.needs_proof and not self._is_proven_clean)

    @property
    def needs_proof(self) -> bool:
        """True when the bookie has served with a version that leaves a marker in every directory,
        however it stops: then a clean stop needs the markers as proof.
        """
        return self.last_served > 0 and not self.is_bare

    @property
    def _is_proven_clean(self) -> bool:
        """True when the marker in every stamped directory says that its boot stopped cleanly. It
        must be the boot that the store saw serve last, or a later one that the store knows and that
        never served: such a boot began after a clean stop. False when no directory is stamped: the
        former process may still run on the former directories.
        """
        boots = range(self.last_served, (self.last_epoch or 0) + 1)
        markers = [disk.marker.marker for disk in self.disks if disk.stamp is not None]
        return bool(markers) and all(
            marker is not None and marker.is_clean and marker.boot_epoch in boots
            for marker in markers
        )

    def is_behind(self, disk: DiskInspection) -> bool:
        """True when the directory's marker has an older generation than the store: the directory
        was put back to an older state. A marker that is missing or unreadable proves an unclean
        stop, but not this.
        """
        generation = disk.marker.generation
        return generation is not None and generation < self.generation

    @property
    def next_generation(self) -> int:
        known = [disk.marker.generation for disk in self.disks]
        return 1 + max([generation or 0 for generation in known] + [self.generation])

    @property
    def rollback_of_store(self) -> str:
        """What the store no longer knows though these directories saw it there, as a sentence;
        empty when the store was not rolled back.
        """
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
        """True when the journal directory has no journal file, not even an old one: the directory
        is new, or the files were taken away.
        """
        return any(disk.role == JOURNAL_ROLE and not disk.holds_files for disk in self.disks)

    @property
    def has_ended_no_boot(self) -> bool:
        """True when no boot of this bookie has ended yet. A boot writes its epoch to the store
        before it serves, so without one there can be stamps of epoch 1 at most, and no markers.
        """
        only_first = all(stamp.boot_epoch <= 1 for stamp in self.stamps)
        return self.last_epoch is None and not self.is_dirty and only_first

    @property
    def next_epoch(self) -> int:
        """The epoch of this boot: 1 + the highest one on any disk, in any marker or in the metadata
        store.

        The first boot has epoch 1, however often it is begun, until one ends.
        """
        marked = [
            disk.marker.marker.boot_epoch for disk in self.disks if disk.marker.marker is not None
        ]
        if self.has_ended_no_boot and not marked:
            return 1
        stamped = [stamp.boot_epoch for stamp in self.stamps]
        return 1 + max([*stamped, *marked, self.last_epoch or 0])


def inspect_disks(
    disk: Disk, directories: Sequence[Path], *, volume_uids: Sequence[str]
) -> tuple[DiskInspection, ...]:
    """Inspect the directories, the journal's first. StorageError when one cannot be read:
    unreadable is not empty. Blocking.
    """
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
    # From the first boot on there is an index and a journal folder, but a journal has no file
    # before its first record.
    own = folder in names if is_journal else _has_index(disk, path, names)
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


def _has_index(disk: Disk, path: Path, names: Sequence[str]) -> bool:
    """True when there is an index, or what a rebuild makes of it. One without a byte is none: every
    boot puts tables into it, so somebody else has emptied or made that file. Blocking.
    """
    return any(_is_index(name) and _size(disk, path / name) > 0 for name in names)


def _size(disk: Disk, path: Path) -> int:
    """Blocking."""
    file = disk.open(path)
    try:
        return file.size()
    finally:
        file.close()


def _is_index(name: str) -> bool:
    """True for the index, or a file that a rebuild makes of it; not for the side files of a
    database.
    """
    return name == INDEX_NAME or name.startswith(INDEX_NAME + ".")


def _has_files(disk: Disk, folder: Path, kind: FileKind) -> bool:
    return bool(list_files(disk, folder, kind=kind))


def _is_strange(name: str) -> bool:
    """True for a name that is not one of ours (with any suffix), not hidden, and not the file
    system's own.
    """
    return not name.startswith((*_OWN_NAMES, ".")) and name not in _FILE_SYSTEM_NAMES
