"""`bookie inspect` and `bookie index rebuild`: they lock and read a stopped bookie's
directories."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from bookie.boot.lock import FolderLock
from bookie.boot.marker import MARKER_NAME, FoundMarker, read_marker
from bookie.boot.stamps import STAMP_NAME, read_stamp
from bookie.cli.common import Command, ask, fail, output_option, yes_option
from bookie.cli.lazy import LazyGroup
from bookie.cli.output import progress, show_rows
from bookie.cli.same_folder import check_differ
from bookie.errors import BadRequestError, BookieError, StorageError
from bookie.exit_codes import Exit
from bookie.server.settings import load_settings
from bookie.storage.decisions import PersonDecision
from bookie.storage.disk import RealDisk
from bookie.storage.facts import DirectoryFacts
from bookie.storage.index import INDEX_NAME, Index, Loss
from bookie.storage.journal import JOURNAL_DIRECTORY
from bookie.storage.ledger_log import LOG_DIRECTORY
from bookie.storage.rebuild import rebuild_index
from bookie.times import iso_time

COMMANDS: Final = {
    "rebuild": ("bookie.cli.folders:rebuild", "Rebuild the indexes from the logs."),
}
OWN_NAMES: Final = frozenset({STAMP_NAME, MARKER_NAME, INDEX_NAME})
"""Files by which a bookie's directory is recognised."""


def directories_options(command: Command) -> Callable[..., Any]:
    """Add DIRECTORIES and --config: name directories one by one, or all of a settings file."""
    folder = click.Path(path_type=Path, exists=True, file_okay=False)
    settings = click.Path(path_type=Path, dir_okay=False)
    config = click.option(
        "--config", type=settings, help="Take all directories that this settings file names."
    )
    return click.argument("directories", nargs=-1, type=folder)(config(command))


def _chosen(directories: Sequence[Path], config: Path | None) -> tuple[list[Path], list[Path]]:
    """Return the directories to lock, and which of them hold ledgers (all, if named one by one)."""
    if bool(directories) == (config is not None):
        raise click.UsageError("name either directories or --config FILE")
    if config is None:
        check_differ(directories)
        return list(directories), list(directories)
    settings = load_settings(config, os.environ)
    ledgers = [disk.directory for disk in settings.ledgers]
    chosen = [settings.journal.directory, *ledgers]
    for directory in chosen:
        if not directory.is_dir():
            raise BadRequestError(f"{directory} of {config} is no directory: is its disk mounted?")
    check_differ(chosen)
    return chosen, ledgers


@click.command("inspect")
@directories_options
@output_option
def inspect(directories: tuple[Path, ...], config: Path | None, output: str) -> None:
    """Show the contents of a stopped bookie's directories; change nothing.

    The numbers of ledgers come from the index. Entries that a crash left in the journal are added
    to it at the next boot.
    """
    try:
        chosen, _ledgers = _chosen(directories, config)
        ours = [directory for directory in chosen if not OWN_NAMES.isdisjoint(_names(directory))]
        with FolderLock(ours):
            rows = [_inspect(directory, is_ours=directory in ours) for directory in chosen]
    except BookieError as error:
        fail(error)
    columns = ("directory", "disk", "bookie", "boot_epoch", "last_stop", "ledgers", "limbo", "log")
    show_rows(rows, columns=columns, output=output)
    problems = [f"{row['directory']}: {row['problem']}" for row in rows if row.get("problem")]
    if problems:
        fail("; ".join(problems), Exit.ERROR)


def _names(directory: Path) -> list[str]:
    return RealDisk().list_directory(directory)


def _inspect(directory: Path, *, is_ours: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"directory": str(directory)}
    if not is_ours:
        inside = sorted(name for name in _names(directory) if (directory / name).is_dir())
        hint = f"; it contains {', '.join(inside)}: name those" if inside else ""
        return row | {"problem": f"is no directory of a bookie{hint}"}
    disk = RealDisk()
    try:
        stamp = read_stamp(disk, directory)
        if stamp is None:
            row["problem"] = (
                "has no stamp: the disk was replaced or wiped, or the bookie never booted"
            )
        else:
            row |= asdict(stamp) | {"bookie": stamp.bookie_id}
            row["disk"] = f"{stamp.role} {stamp.index}"
        row["last_stop"] = _last_stop(read_marker(disk, directory))
        row |= _index(directory) | _logs(directory)
    except StorageError as error:
        row["problem"] = str(error)
    return row


def _last_stop(found: FoundMarker) -> str:
    if not found.is_there:
        return "no marker (unclean, unless a version before 0.1 stopped it)"
    mode = found.marker.mode.value if found.marker else "marker unreadable"
    return f"unclean ({mode})" if found.is_dirty else "clean"


def _index(directory: Path) -> dict[str, Any]:
    path = directory / INDEX_NAME
    if not path.exists() or path.stat().st_size == 0:  # opening an empty file would write to it
        return {}
    # Tables made here would pass for an index in which nothing was ever stored.
    index = Index.open(path, disk=RealDisk(), may_create=False)
    try:
        found, ends = index.records(), index.ledger_ends()
        records = {name: record for name, record in found.items() if not record.deleted}
        facts = DirectoryFacts.decode(index.facts())
        return {
            "ledgers": len(set(records) | set(ends)),
            "limbo": sum(record.limbo for record in records.values()),
            "fenced": sum(record.fenced for record in records.values()),
            "losses": len(index.losses()),
            "loss_records": [_loss(loss) for loss in index.losses()],
            "decisions": [_decision(one) for one in index.decisions()],
            "fence_boundary": facts.fence.last_ledger_id if facts.fence else None,
            "unchecked_boundary": facts.unchecked.last_ledger_id if facts.unchecked else None,
            "suspicions": sorted(suspicion.value for suspicion in facts.suspicions),
        }
    finally:
        index.close()


def _loss(loss: Loss) -> dict[str, Any]:
    ranges = [list(pair) for pair in loss.entries.ranges()]
    return {"ledger_id": loss.ledger_id, "entries": ranges, "reason": loss.reason}


def _decision(one: PersonDecision) -> dict[str, Any]:
    return {"at": iso_time(one.at_ms), "kind": one.kind, "by": one.by, "about": one.about}


def _logs(directory: Path) -> dict[str, Any]:
    """The number of files of the log or journal, and their size in bytes."""
    for name in (LOG_DIRECTORY, JOURNAL_DIRECTORY):
        folder = directory / name
        if folder.is_dir():
            sizes = [path.stat().st_size for path in folder.iterdir()]
            return {
                "log": f"{len(sizes)} files, {sum(sizes) / 2**20:.1f} MiB",
                "log_files": len(sizes),
                "log_bytes": sum(sizes),
            }
    return {}


@click.group("index", cls=LazyGroup, lazy=COMMANDS)
def index_group() -> None:
    """The index says where in the logs each entry is."""


@click.command("rebuild")
@directories_options
@yes_option
@output_option
def rebuild(directories: tuple[Path, ...], config: Path | None, yes: bool, output: str) -> None:
    """Rebuild the indexes of these ledger directories from their logs.

    The next boot treats the stop before it as unclean: it fences all ledgers and puts those of
    which entries may be missing into limbo, until a repair has checked them.
    """
    try:
        chosen, ledgers = _chosen(directories, config)
    except BookieError as error:
        fail(error)
    ask(
        f"Rebuild the index of {', '.join(map(str, ledgers))}? The next boot fences all ledgers "
        "and marks them, as after an unclean stop.",
        yes=yes,
    )
    try:
        with FolderLock(chosen):
            rows = [_rebuild(directory) for directory in ledgers]
    except BookieError as error:
        fail(error)
    show_rows(rows, columns=("directory", "runs", "ledgers", "torn", "damage"), output=output)
    if any(row["damage"] for row in rows):
        fail("the log itself is damaged: entries after these places are missing", Exit.FINDINGS)


def _rebuild(directory: Path) -> dict[str, Any]:
    with progress(f"runs found in {directory}", total=None) as meter:
        seen = 0

        def on_progress(runs: int) -> None:
            nonlocal seen
            meter.advance(runs - seen)
            seen = runs

        report = rebuild_index(directory, disk=RealDisk(), on_progress=on_progress)
    return {
        "directory": str(directory),
        "runs": report.runs,
        "ledgers": report.ledgers,
        "records_saved": report.records_saved,
        "damage": list(report.damage),
        "torn": report.torn,
    }
