"""`bookie inspect` and `bookie index rebuild`: a stopped bookie's folders, under their lock."""

from pathlib import Path
from typing import Any

import click

from bookie.cli.common import fail, output_option
from bookie.cli.output import progress, show_rows
from bookie.protocol.errors import BookieError, StorageError
from bookie.storage.disk import RealDisk
from bookie.storage.index import INDEX_NAME, Index
from bookie.storage.ledger_log import LOG_DIRECTORY
from bookie.storage.lock import FolderLock
from bookie.storage.marker import read_marker
from bookie.storage.rebuild import rebuild_index
from bookie.storage.stamps import read_stamp

directories_argument = click.argument(
    "directories",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)


@click.command("inspect")
@directories_argument
@output_option
def inspect(directories: tuple[Path, ...], output: str) -> None:
    """What lies in the directories of a stopped bookie; changes nothing."""
    try:
        with FolderLock(directories):
            rows = [_inspect(directory) for directory in directories]
    except BookieError as error:
        fail(error)
    columns = ("directory", "role", "bookie", "boot_epoch", "last_stop", "ledgers", "limbo", "log")
    show_rows(rows, columns=columns, output=output)


def _inspect(directory: Path) -> dict[str, Any]:
    disk = RealDisk()
    row: dict[str, Any] = {"directory": directory}
    try:
        stamp = read_stamp(disk, directory)
        if stamp is not None:
            row |= {
                "role": f"{stamp.role} {stamp.index}",
                "bookie": stamp.bookie_id,
                "boot_epoch": stamp.boot_epoch,
                "instance_id": stamp.instance_id,
                "disk_id": stamp.disk_id,
            }
        found = read_marker(disk, directory)
        mode = found.marker.mode.value if found.marker else "unreadable"
        row["last_stop"] = f"unclean ({mode})" if found.is_dirty else "clean"
        row |= _index(directory) | _log(directory)
    except StorageError as error:
        row["error"] = row["last_stop"] = str(error)
    return row


def _index(directory: Path) -> dict[str, Any]:
    path = directory / INDEX_NAME
    if not path.exists():
        return {}
    index = Index.open(path)
    try:
        records, tails = index.records(), index.tails()
        return {
            "ledgers": len(set(records) | set(tails)),
            "limbo": sum(record.limbo for record in records.values()),
            "fenced": sum(record.fenced for record in records.values()),
            "losses": len(index.losses()),
        }
    finally:
        index.close()


def _log(directory: Path) -> dict[str, Any]:
    folder = directory / LOG_DIRECTORY
    files = sorted(folder.iterdir()) if folder.exists() else []
    allocated = sum(path.stat().st_size for path in files)
    return {"log": f"{len(files)} files, {allocated >> 20} MiB" if files else None}


@click.group("index")
def index_group() -> None:
    """The index of entries beside the logs."""


@index_group.command("rebuild")
@directories_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
def rebuild(directories: tuple[Path, ...], yes: bool, output: str) -> None:
    """Build the indexes of these ledger directories anew from their logs.

    The next boot treats the bookie as stopped uncleanly: fence, limbo, repair.
    """
    if not yes:
        click.confirm(f"Rebuild the index of {', '.join(map(str, directories))}?", abort=True)
    try:
        with FolderLock(directories):
            rows = [_rebuild(directory) for directory in directories]
    except BookieError as error:
        fail(error)
    show_rows(rows, columns=("directory", "runs", "ledgers", "damage"), output=output)


def _rebuild(directory: Path) -> dict[str, Any]:
    with progress(f"runs found in {directory}", total=None) as meter:
        seen = 0

        def on_progress(runs: int) -> None:
            nonlocal seen
            meter.advance(runs - seen)
            seen = runs

        report = rebuild_index(directory, disk=RealDisk(), on_progress=on_progress)
    return {
        "directory": directory,
        "runs": report.runs,
        "ledgers": report.ledgers,
        "records_saved": report.records_saved,
        "damage": list(report.damage),
        "torn": report.torn,
    }
