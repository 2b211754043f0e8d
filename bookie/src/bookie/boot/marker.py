"""The marker of a boot: dirty before the first answer, clean after a stop that flushed all (R22).

It is a file in every directory, JSON on one line: `{"bootEpoch": 7, "clean": false, "confirmed":
11, "generation": 12, "holder": "...", "mode": "memory", "notes": true}`. Only this file proves a
clean stop: a marker that is missing or unreadable counts as an unclean one. The file is called
DIRTY because older versions wrote it only for an unclean stop, and judge by its existence: a clean
marker looks dirty to them, which is safe.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bookie.bounded import parse_json
from bookie.errors import StorageError
from bookie.storage.disk import Disk, read_file, write_file
from bookie.storage.modes import DurabilityMode

MARKER_NAME: Final = "DIRTY"


@dataclass(frozen=True, slots=True)
class Marker:
    """Which boot is or was running, and (`mode`) what was durable when it acknowledged an add.

    `generation`: rises while the bookie writes. The bookie raises it here before it raises it in
    the metadata store, so a directory with a lower one than the store's was put back to an older
    state. `confirmed`: the highest generation in the store when this marker was written; a store
    with a lower one was put back. `holder`: the name of the process's lock on this directory
    (`FolderLock.holders`), empty when unknown. `is_clean`: the boot stopped with everything flushed
    and synced, or has not begun to serve after such a stop. `keeps_notes`: the boot notes a ledger
    before it acknowledges an add of it from memory.
    """

    boot_epoch: int
    mode: DurabilityMode
    generation: int = 0
    confirmed: int = 0
    holder: str = ""
    is_clean: bool = False
    keeps_notes: bool = False

    def encode(self) -> bytes:
        fields = {
            "bootEpoch": self.boot_epoch,
            "clean": self.is_clean,
            "confirmed": self.confirmed,
            "generation": self.generation,
            "holder": self.holder,
            "mode": self.mode.value,
            "notes": self.keeps_notes,
        }
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, content: bytes) -> "Marker":
        """Parse a marker; ValueError, KeyError or TypeError when the bytes are none. Older versions
        wrote only epoch and mode.
        """
        fields = parse_json(content)
        return cls(
            _number(fields["bootEpoch"]),
            DurabilityMode(fields["mode"]),
            _number(fields.get("generation", 0)),
            _number(fields.get("confirmed", 0)),
            str(fields.get("holder", "")),
            fields.get("clean", False) is True,
            fields.get("notes", False) is True,
        )


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"found {value!r:.60}, expected a number from 0 on")
    return value


@dataclass(frozen=True, slots=True)
class FoundMarker:
    """The marker found in a directory. `is_there` with `marker` None = it cannot be read."""

    is_there: bool
    marker: Marker | None = None

    @property
    def is_dirty(self) -> bool:
        """True when the marker says that its boot did not stop cleanly, or cannot be read."""
        return self.is_there and not (self.marker is not None and self.marker.is_clean)

    @property
    def generation(self) -> int | None:
        """The marker's generation; None when there is no readable marker."""
        return None if self.marker is None else self.marker.generation


NO_MARKER: Final = FoundMarker(is_there=False)
UNREADABLE_MARKER: Final = FoundMarker(is_there=True)


def read_marker(disk: Disk, directory: Path) -> FoundMarker:
    """Read the marker of a directory; unless the file is certainly absent, it counts as there."""
    try:
        content = read_file(disk, directory / MARKER_NAME)
    except StorageError:
        return UNREADABLE_MARKER
    if content is None:
        return NO_MARKER
    try:
        return FoundMarker(True, Marker.decode(content))
    except (ValueError, KeyError, TypeError):
        return UNREADABLE_MARKER


class BootMarkers:
    """The markers of one boot: `current` is durable in every directory, each with its
    own holder.
    """

    def __init__(self, disk: Disk, directories: Sequence[Path], *, holders: Sequence[str]) -> None:
        """`holders`: of each directory, in their order; empty when unknown."""
        self._disk = disk
        self._directories = tuple(directories)
        """The bookie's directories; each gets a marker."""
        self._holders = tuple(holders) or ("",) * len(self._directories)
        self.current: Marker | None = None
        """The marker in every directory, except for its holder; None before the first write."""

    def write(self, marker: Marker) -> None:
        """Write the marker, durably, into every directory. Blocking."""
        for directory, holder in zip(self._directories, self._holders, strict=True):
            content = replace(marker, holder=holder).encode()
            write_file(self._disk, directory / MARKER_NAME, content)
        before, self.current = self.current, marker
        assert marker.confirmed <= marker.generation
        assert before is None or before.generation <= marker.generation

    def begin(self, *, confirmed: int) -> None:
        """Mark that the bookie serves from now on: without `end_cleanly` its end is an unclean
        stop. Blocking.
        """
        assert self.current is not None
        self.current = replace(self.current, is_clean=False)
        self.raise_generation(confirmed=confirmed)

    def raise_generation(self, *, confirmed: int) -> int:
        """Raise the generation by one and return it; `confirmed`: the generation in the metadata
        store. Blocking.
        """
        assert self.current is not None
        raised = replace(self.current, generation=self.current.generation + 1, confirmed=confirmed)
        self.write(raised)
        return raised.generation

    def end_cleanly(self) -> None:
        """Mark the stop as clean. Call it only after everything was flushed and
        synced. Blocking.
        """
        assert self.current is not None
        self.write(replace(self.current, is_clean=True))
