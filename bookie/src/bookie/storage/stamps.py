"""Stamps: the file in every directory that says whose disk it is, and which place it has.

Written after the fences and marks of a boot are durable, before anything is served. Number, order
and role of the directories are fixed for a bookie's life, since ledgers are routed by them.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bookie.protocol.errors import CorruptError
from bookie.storage.disk import Disk, read_file, write_file

STAMP_NAME: Final = "STAMP"
JOURNAL_ROLE: Final = "journal"
LEDGER_ROLE: Final = "ledger"


@dataclass(frozen=True, slots=True)
class Stamp:
    """Identity of one directory. `boot_epoch`: the last boot that stamped it."""

    instance_id: str
    bookie_id: str
    role: str
    index: int
    ledger_directories: int
    routing_version: int
    disk_id: str
    boot_epoch: int


def read_stamp(disk: Disk, directory: Path) -> Stamp | None:
    """The stamp of a directory, None when there is none; CorruptError when it makes no sense."""
    content = read_file(disk, directory / STAMP_NAME)
    if content is None:
        return None
    try:
        return Stamp(**json.loads(content))
    except (ValueError, TypeError) as error:
        raise CorruptError(f"{directory / STAMP_NAME} is no stamp: {error}") from error


def write_stamp(disk: Disk, directory: Path, stamp: Stamp) -> None:
    """Durable and atomic: a crash leaves the old stamp or the new one."""
    write_file(disk, directory / STAMP_NAME, json.dumps(asdict(stamp), indent=1).encode())
