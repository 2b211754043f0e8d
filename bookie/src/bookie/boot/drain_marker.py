"""The drain marker: this bookie is to leave. It stays, over every restart, until a cancel.

One file in every directory, since a disk that is replaced takes its own along. Found in
any of them it counts: a drain that was only half cancelled is cancelled again by whoever wants it
ended, while one that were forgotten would put new ledgers on a bookie about to go.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bookie.storage.disk import Disk, remove_file, write_file

DRAIN_NAME: Final = "DRAINING"
_CONTENT: Final = b"This bookie is being drained: Drain(cancel) at its control plane ends it.\n"


def is_draining(disk: Disk, directories: Sequence[Path]) -> bool:
    """What the last process left; StorageError when a disk does not say. Blocking."""
    return any([disk.exists(directory / DRAIN_NAME) for directory in directories])


def mark_draining(disk: Disk, directories: Sequence[Path]) -> None:
    """Durable in every directory when it returns. Blocking."""
    for directory in directories:
        write_file(disk, directory / DRAIN_NAME, _CONTENT)


def unmark_draining(disk: Disk, directories: Sequence[Path]) -> None:
    """Gone from every directory when it returns. Blocking."""
    for directory in directories:
        remove_file(disk, directory / DRAIN_NAME)
