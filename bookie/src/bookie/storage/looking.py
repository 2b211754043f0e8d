"""What lies in each configured directory before anything in it is opened or changed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bookie.protocol.errors import CorruptError
from bookie.storage.disk import Disk
from bookie.storage.found import FoundDisk
from bookie.storage.index import INDEX_NAME
from bookie.storage.journal import JOURNAL_DIRECTORY
from bookie.storage.ledger_log import LOG_DIRECTORY
from bookie.storage.lock import LOCK_NAME
from bookie.storage.marker import MARKER_NAME, read_marker
from bookie.storage.stamps import JOURNAL_ROLE, LEDGER_ROLE, STAMP_NAME, read_stamp

_STORE_NAMES: Final = (JOURNAL_DIRECTORY, LOG_DIRECTORY, INDEX_NAME)
_OWN_NAMES: Final = (*_STORE_NAMES, LOCK_NAME, MARKER_NAME, STAMP_NAME)
_FILE_SYSTEM_NAMES: Final = ("lost+found",)


def look_at_disks(
    disk: Disk, directories: Sequence[Path], *, volume_uids: Sequence[str]
) -> tuple[FoundDisk, ...]:
    """The journal directory first; StorageError when one cannot be read, which is no "empty"."""
    return tuple(
        _look(disk, place, path, volume_uids[place] if place < len(volume_uids) else "")
        for place, path in enumerate(directories)
    )


def _look(disk: Disk, place: int, path: Path, volume_uid: str) -> FoundDisk:
    names = disk.list_directory(path)
    found = FoundDisk(
        path,
        JOURNAL_ROLE if place == 0 else LEDGER_ROLE,
        max(place - 1, 0),
        stamp=None,
        marker=read_marker(disk, path),
        volume_uid=volume_uid,
        holds_store=any(name.startswith(_STORE_NAMES) for name in names),
        strange=tuple(name for name in names if _is_strange(name)),
    )
    try:
        return replace(found, stamp=read_stamp(disk, path))
    except CorruptError as error:
        return replace(found, problem=str(error))


def _is_strange(name: str) -> bool:
    """Not one of ours, with whatever suffix, nor hidden, nor the file system's own."""
    return not name.startswith((*_OWN_NAMES, ".")) and name not in _FILE_SYSTEM_NAMES
