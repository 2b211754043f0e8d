"""Stamps: the file in every directory that says which bookie's disk it is, and its role and index.

A boot writes them after its fences and marks are durable, and before it serves. Number, order and
role of the directories are fixed for a bookie's life, since they decide which directory gets a
ledger.
"""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from bookie.bounded import parse_json
from bookie.errors import CorruptError
from bookie.storage.disk import Disk, read_file, write_file

STAMP_NAME: Final = "STAMP"
JOURNAL_ROLE: Final = "journal"
LEDGER_ROLE: Final = "ledger"


@dataclass(frozen=True, slots=True)
class Stamp:
    """The identity of one directory. `boot_epoch`: of the last boot that stamped it.

    `volume_uids`: the volumes of all directories at that boot, journal first, as the platform named
    them; an empty text if it did not. Each stamp has all of them, so that the remaining disks show
    whether a lost one was replaced or wiped.
    """

    instance_id: str
    bookie_id: str
    role: str
    index: int
    ledger_directories: int
    routing_version: int
    disk_id: str
    boot_epoch: int
    volume_uids: tuple[str, ...] = ()

    @property
    def volume_uid(self) -> str:
        """The volume on which this stamp was written; empty when unknown."""
        return self.volume_uid_at(place_of(self.role, self.index))

    def volume_uid_at(self, place: int) -> str:
        """The volume of another directory at that boot, by its place; empty when unknown."""
        return self.volume_uids[place] if place < len(self.volume_uids) else ""


def place_of(role: str, index: int) -> int:
    """The index of a directory in lists of all directories: the journal comes first."""
    return 0 if role == JOURNAL_ROLE else index + 1


def read_stamp(disk: Disk, directory: Path) -> Stamp | None:
    """Read the stamp of a directory; None when there is none, CorruptError when it is malformed."""
    content = read_file(disk, directory / STAMP_NAME)
    if content is None:
        return None
    try:
        return _parse(parse_json(content))
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptError(
            f"{directory / STAMP_NAME} is no stamp ({type(error).__name__}: {error}): "
            "restore the file, or empty the directory to have it treated as a replaced disk"
        ) from error


def _parse(found: Any) -> Stamp:
    uids = found.pop("volume_uids", [])
    stamp = Stamp(**found, volume_uids=tuple(uids))
    wrong = [
        field.name
        for field in fields(Stamp)
        if type(getattr(stamp, field.name)) is not field.type and field.name != "volume_uids"
    ]
    if wrong or type(uids) is not list or not all(isinstance(uid, str) for uid in uids):
        raise ValueError(f"wrong type of {', '.join(wrong) or 'volume_uids'}")
    if min(stamp.index, stamp.ledger_directories, stamp.routing_version, stamp.boot_epoch) < 0:
        raise ValueError("a number is below 0")
    return stamp


def write_stamp(disk: Disk, directory: Path, stamp: Stamp) -> None:
    """Write a stamp durably and atomically: a crash leaves the old stamp or the new one."""
    write_file(disk, directory / STAMP_NAME, json.dumps(asdict(stamp), indent=1).encode())
