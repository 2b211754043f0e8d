"""The drain marker: it says that this bookie is to leave, and stays over restarts until a cancel.

It is a file in every directory, since a replaced disk takes its file along. A marker in any one
directory counts: if a cancel removed only some files, a person can cancel again; but if a drain
were forgotten, writers would put new ledgers on a bookie that is about to leave.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from bookie.errors import BookieError
from bookie.storage.disk import Disk, remove_file, write_file

DRAIN_NAME: Final = "DRAINING"
_CONTENT: Final = b"This bookie is being drained: Drain(cancel) at its control plane ends it.\n"


def is_draining(disk: Disk, directories: Sequence[Path]) -> bool:
    """True when a directory has the marker; StorageError when a disk cannot be read. Blocking."""
    return any([disk.exists(directory / DRAIN_NAME) for directory in directories])


def mark_draining(disk: Disk, directories: Sequence[Path]) -> None:
    """Write the marker, durably, into every directory; into none of them if that fails, so that a
    drain that was refused does not begin at the next start. Blocking.
    """
    written: list[Path] = []
    try:
        for directory in directories:
            written.append(directory)
            write_file(disk, directory / DRAIN_NAME, _CONTENT)
    except BookieError:
        with suppress(BookieError):
            unmark_draining(disk, written)
        raise


def unmark_draining(disk: Disk, directories: Sequence[Path]) -> None:
    """Remove the marker from every directory. Blocking."""
    for directory in directories:
        remove_file(disk, directory / DRAIN_NAME)
