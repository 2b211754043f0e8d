"""What a boot finds: each configured directory, and what the metadata store says of the bookie."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from bookie.boot.marker import FoundMarker
from bookie.boot.stamps import JOURNAL_ROLE, LEDGER_ROLE, Stamp, place_of
from bookie.metadata.store import Cookie


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
    """All that a boot decides by.

    From the metadata store: `last_epoch`, None when never booted; `last_served`, the last one that
    came to serve; `generation`: no directory may be older; `is_bare`: a version wrote it that left
    no proof of a clean stop.
    """

    bookie_id: str
    instance_id: str
    disks: tuple[FoundDisk, ...]
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

    def is_behind(self, disk: FoundDisk) -> bool:
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
