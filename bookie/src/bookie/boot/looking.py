"""What lies in each configured directory before anything in it is opened or changed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bookie.boot.drain_marker import DRAIN_NAME
from bookie.boot.found import FoundDisk
from bookie.boot.lock import LOCK_NAME
from bookie.boot.marker import MARKER_NAME, read_marker
from bookie.boot.stamps import JOURNAL_ROLE, LEDGER_ROLE, STAMP_NAME, read_stamp
from bookie.errors import CorruptError
from bookie.storage.disk import Disk
from bookie.storage.index import INDEX_NAME
from bookie.storage.journal import JOURNAL_DIRECTORY
from bookie.storage.ledger_log import LOG_DIRECTORY
from bookie.storage.log_files import JOURNAL_FILES, LOG_FILES, FileKind, list_files

_STORE_NAMES: Final = (JOURNAL_DIRECTORY, LOG_DIRECTORY, INDEX_NAME)
_OWN_NAMES: Final = (*_STORE_NAMES, LOCK_NAME, MARKER_NAME, STAMP_NAME, DRAIN_NAME)
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
    is_journal = place == 0
    kind, folder = (JOURNAL_FILES, JOURNAL_DIRECTORY) if is_journal else (LOG_FILES, LOG_DIRECTORY)
    has_files = folder in names and _has_files(disk, path / folder, kind)
    # An index is there from the first boot on. A journal has no file before its first record.
    own = folder in names if is_journal else any(map(_is_index, names))
    found = FoundDisk(
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
