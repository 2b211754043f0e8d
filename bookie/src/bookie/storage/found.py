"""What a boot finds: each configured directory, and what the metadata store says of the bookie."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from bookie.metadata.store import Cookie
from bookie.storage.marker import FoundMarker
from bookie.storage.stamps import JOURNAL_ROLE, LEDGER_ROLE, Stamp, place_of


class DiskVerdict(Enum):
    """What one directory turned out to be."""

    OK = "ok"
    NEW = "new"
    EMPTY = "empty"
    """No stamp though the bookie is known, or nothing beside the stamp: replaced or wiped."""
    STALE = "stale"
    """Ours, but of an older boot or on another volume: a restored snapshot or a cloned volume."""
    FOREIGN = "foreign"
    """Of another bookie or cluster, or not a bookie's directory at all."""
    SWAPPED = "swapped"
    RESHAPED = "reshaped"
    """Ours, of another number of directories or routing."""
    TORN = "torn"
    """Its stamp cannot be read."""


@dataclass(frozen=True, slots=True)
class FoundDisk:
    """One configured directory and what lies in it.

    `problem`: why its stamp cannot be read. `holds_store`: what every boot makes there (index, or
    folder of the journal) or files of log or journal; `holds_files`: the latter. `strange`: names
    in it that no bookie writes. `volume_uid`: today's, empty when not told.
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
class Found:
    """All that a boot decides by. `last_epoch`: from the metadata store, None when never booted."""

    bookie_id: str
    instance_id: str
    disks: tuple[FoundDisk, ...]
    cookie: Cookie | None
    last_epoch: int | None

    @property
    def ledger_directories(self) -> int:
        return sum(disk.role == LEDGER_ROLE for disk in self.disks)

    @property
    def stamps(self) -> list[Stamp]:
        return [disk.stamp for disk in self.disks if disk.stamp is not None]

    @property
    def is_dirty(self) -> bool:
        return any(disk.marker.is_dirty for disk in self.disks)

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
