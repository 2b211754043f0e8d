"""The dirty marker: there from before the first answer until a stop that flushed everything (R22).

One file in every directory, with the boot epoch and the durability mode of the boot that wrote it.
Found at a boot it says: the stop before was unclean. One that cannot be read says so too.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bookie.protocol.errors import StorageError
from bookie.storage.disk import Disk, read_file, remove_file, write_file
from bookie.storage.modes import DurabilityMode

MARKER_NAME: Final = "DIRTY"


@dataclass(frozen=True, slots=True)
class Marker:
    """Which boot is or was running, and what its acknowledgements meant."""

    boot_epoch: int
    mode: DurabilityMode


@dataclass(frozen=True, slots=True)
class FoundMarker:
    """What a directory says: `is_dirty` with `marker` None = dirty, but unreadable."""

    is_dirty: bool
    marker: Marker | None = None


NO_MARKER: Final = FoundMarker(is_dirty=False)
UNREADABLE_MARKER: Final = FoundMarker(is_dirty=True)


def read_marker(disk: Disk, directory: Path) -> FoundMarker:
    """The marker of a directory; anything that is not plainly absent counts as dirty."""
    try:
        content = read_file(disk, directory / MARKER_NAME)
    except StorageError:
        return UNREADABLE_MARKER
    if content is None:
        return NO_MARKER
    try:
        fields = json.loads(content)
        return FoundMarker(True, Marker(int(fields["bootEpoch"]), DurabilityMode(fields["mode"])))
    except (ValueError, KeyError, TypeError):
        return UNREADABLE_MARKER


def write_markers(disk: Disk, directories: Sequence[Path], marker: Marker) -> None:
    """Durable in every directory when it returns."""
    content = json.dumps({"bootEpoch": marker.boot_epoch, "mode": marker.mode.value}).encode()
    for directory in directories:
        write_file(disk, directory / MARKER_NAME, content)


def clear_markers(disk: Disk, directories: Sequence[Path]) -> None:
    """After everything was flushed and synced, and only then: this stop was clean."""
    for directory in directories:
        remove_file(disk, directory / MARKER_NAME)
