"""The marker of a boot: dirty before the first answer, clean after a stop that flushed all (R22).

One file in every directory, JSON on one line: `{"bootEpoch": 7, "clean": false, "confirmed": 11,
"generation": 12, "holder": "...", "mode": "memory"}`. A clean stop is believed on this proof alone:
a marker that is missing or cannot be read counts as an unclean stop. The file is called DIRTY since
versions before wrote it for an unclean stop only, and judge by its being there: to them a clean one
looks dirty, which is safe.
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
    """Which boot is or was running, and what its acknowledgements meant.

    `generation`: rises while the bookie writes; raised here before it is in the metadata store, so
    a directory with a lower one than the store's was put back to an older state. `confirmed`: the
    highest one that the store had when this was written; a store with a lower one was put back.
    `holder`: names the lock that the process holds on this directory, and the machine's boot, empty
    when they cannot be named. `is_clean`: it stopped with everything flushed and synced, or has not
    begun to serve after such a stop.
    """

    boot_epoch: int
    mode: DurabilityMode
    generation: int = 0
    confirmed: int = 0
    holder: str = ""
    is_clean: bool = False

    def encode(self) -> bytes:
        fields = {
            "bootEpoch": self.boot_epoch,
            "clean": self.is_clean,
            "confirmed": self.confirmed,
            "generation": self.generation,
            "holder": self.holder,
            "mode": self.mode.value,
        }
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, content: bytes) -> "Marker":
        """ValueError, KeyError or TypeError when the bytes are no marker; versions before wrote
        epoch and mode alone."""
        fields = parse_json(content)
        return cls(
            _number(fields["bootEpoch"]),
            DurabilityMode(fields["mode"]),
            _number(fields.get("generation", 0)),
            _number(fields.get("confirmed", 0)),
            str(fields.get("holder", "")),
            fields.get("clean", False) is True,
        )


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"found {value!r:.60}, expected a number from 0 on")
    return value


@dataclass(frozen=True, slots=True)
class FoundMarker:
    """What a directory holds: `is_there` with `marker` None = one that cannot be read."""

    is_there: bool
    marker: Marker | None = None

    @property
    def is_dirty(self) -> bool:
        """It says that its boot did not stop cleanly, or it cannot be read."""
        return self.is_there and not (self.marker is not None and self.marker.is_clean)

    @property
    def generation(self) -> int | None:
        """None when no marker says."""
        return None if self.marker is None else self.marker.generation


NO_MARKER: Final = FoundMarker(is_there=False)
UNREADABLE_MARKER: Final = FoundMarker(is_there=True)


def read_marker(disk: Disk, directory: Path) -> FoundMarker:
    """The marker of a directory; anything that is not plainly absent is there."""
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
    """The markers of one boot: `current` is durable in every directory, each with its holder."""

    def __init__(self, disk: Disk, directories: Sequence[Path], *, holders: Sequence[str]) -> None:
        """`holders`: of the directories, in their order; empty when nobody can name them."""
        self._disk = disk
        self._directories = tuple(directories)
        """Every directory has a marker: all of them are one bookie's."""
        self._holders = tuple(holders) or ("",) * len(self._directories)
        self.current: Marker | None = None
        """What every directory has, but for its holder; None before the first write."""

    def write(self, marker: Marker) -> None:
        """Durable in every directory when it returns. Blocking."""
        for directory, holder in zip(self._directories, self._holders, strict=True):
            content = replace(marker, holder=holder).encode()
            write_file(self._disk, directory / MARKER_NAME, content)
        before, self.current = self.current, marker
        assert marker.confirmed <= marker.generation
        assert before is None or before.generation <= marker.generation

    def begin(self, *, confirmed: int) -> None:
        """From now on it serves: whatever ends it is an unclean stop. Blocking."""
        assert self.current is not None
        self.current = replace(self.current, is_clean=False)
        self.raise_generation(confirmed=confirmed)

    def raise_generation(self, *, confirmed: int) -> int:
        """The new generation; `confirmed`: what the metadata store has. Blocking."""
        assert self.current is not None
        raised = replace(self.current, generation=self.current.generation + 1, confirmed=confirmed)
        self.write(raised)
        return raised.generation

    def end_cleanly(self) -> None:
        """After everything was flushed and synced, and only then: this stop was clean. Blocking."""
        assert self.current is not None
        self.write(replace(self.current, is_clean=True))
