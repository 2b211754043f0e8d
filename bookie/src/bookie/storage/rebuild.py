"""Rebuilds the index of one ledger directory from its log, for `bookie index rebuild`, while the
bookie is stopped.

The order: rename the old index (until the end a boot refuses with "index is missing") -> save the
records from it, if it is still readable -> scan the log into a new file -> give that the index's
name, durably -> delete the old one. If the rebuild is interrupted anywhere, run it again.

The log does not have the fences, limbo marks, keys and boundaries of a lost index, and no frames
behind damaged bytes. So the new index carries a suspicion, and the next boot, whatever its markers
say, fences, marks and checks as after an unclean stop.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bookie.errors import BadRequestError, CorruptError, FrameError, StorageError
from bookie.frames.frame import RunFrame, parse_run
from bookie.ids import LedgerId
from bookie.storage.decisions import PersonDecision
from bookie.storage.directory import FRESH_SUFFIX, OLD_SUFFIX
from bookie.storage.disk import Disk, remove_database
from bookie.storage.facts import DirectoryFacts, Suspicion
from bookie.storage.index import INDEX_NAME, Batch, Index, Loss
from bookie.storage.index_rows import RunRow
from bookie.storage.ledger_log import LOG_DIRECTORY
from bookie.storage.log_files import LOG_FILES, list_files
from bookie.storage.log_scan import LogEnd, LogScan, Position
from bookie.storage.memtable import Memtable
from bookie.storage.records import LedgerRecord
from bookie.storage.sqlite import LOG_SUFFIX, SIDE_SUFFIXES

ROWS_PER_COMMIT: Final = 50_000


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What a rebuild did. `records_saved`: None when the old index was no longer readable."""

    runs: int
    ledgers: int
    records_saved: int | None
    damage: tuple[str, ...]
    """Where the log is damaged: frames behind these places are not in the index."""
    torn: bool


@dataclass(slots=True)
class _Saved:
    records: dict[LedgerId, LedgerRecord] = field(default_factory=dict)
    """The old index's records of ledgers."""
    losses: list[Loss] = field(default_factory=list)
    """The old index's loss records."""
    decisions: list[PersonDecision] = field(default_factory=list)
    """The old index's decisions of people."""
    facts: DirectoryFacts = field(default_factory=DirectoryFacts)
    readable: bool = False
    """True when all of it was read; False when only the log is known."""


def rebuild_index(
    directory: Path, *, disk: Disk, on_progress: Callable[[int], None] = lambda _runs: None
) -> RebuildReport:
    """Rebuild the index; the caller holds the folder lock.

    `on_progress` gets the number of runs found so far. BadRequestError when the directory has
    neither a log nor an index: it is no ledger directory.
    """
    index_path = directory / INDEX_NAME
    old_path = directory / (INDEX_NAME + OLD_SUFFIX)
    if not any(map(disk.exists, (index_path, old_path, directory / LOG_DIRECTORY))):
        raise BadRequestError(f"{directory} is no ledger directory: it has no index and no log")
    _rename_old(index_path, old_path, disk=disk)
    saved = _save(old_path, disk=disk)
    fresh = directory / (INDEX_NAME + FRESH_SUFFIX)
    remove_database(disk, fresh)
    index = Index.open(fresh, disk=disk)
    try:
        report = _Rebuild(directory, disk=disk, index=index, on_progress=on_progress).run(saved)
    finally:
        index.close()
    _check_folded(fresh, disk=disk)
    disk.rename(fresh, index_path)
    disk.sync_directory(directory)
    remove_database(disk, old_path)
    disk.sync_directory(directory)
    return report


def _rename_old(index_path: Path, old_path: Path, *, disk: Disk) -> None:
    # Each step is durable before the next. A write-ahead log of the rebuild before must not lie
    # beside this index, and the database without its own log must never pass for the index: that is
    # renamed second.
    if disk.exists(index_path):
        remove_database(disk, old_path)  # of a rebuild that missed its last step
        disk.sync_directory(old_path.parent)
        disk.rename(index_path, old_path)
        disk.sync_directory(old_path.parent)
    for suffix in SIDE_SUFFIXES:
        beside = index_path.with_name(index_path.name + suffix)
        if disk.exists(beside):
            disk.rename(beside, old_path.with_name(old_path.name + suffix))
    disk.sync_directory(old_path.parent)


def _check_folded(database: Path, *, disk: Disk) -> None:
    """Raise StorageError when SQLite has left a write-ahead log beside the closed database: its
    commits are not in the file, and would be lost with the new name. A close that cannot fold the
    log, as on a full disk, raises nothing.
    """
    left = database.with_name(database.name + LOG_SUFFIX)
    if disk.exists(left):
        raise StorageError(
            f"{left} could not be folded into the new index: the disk is full or fails, or another "
            "program has that index open; the old one is kept, run the rebuild again"
        )


def _save(path: Path, *, disk: Disk) -> _Saved:
    """Read all but the rows from the old index; all of it or nothing."""
    if not disk.exists(path):
        return _Saved()
    with (
        contextlib.suppress(StorageError),
        contextlib.closing(Index.open(path, disk=disk, may_create=False)) as old,
    ):
        return _Saved(
            old.records(),
            old.losses(),
            old.decisions(),
            DirectoryFacts.decode(old.facts()),
            readable=True,
        )
    return _Saved()


class _Rebuild:
    """The scan of one log into one new index."""

    def __init__(
        self, directory: Path, *, disk: Disk, index: Index, on_progress: Callable[[int], None]
    ) -> None:
        self._log_directory = directory / LOG_DIRECTORY
        """Where the log's files are."""
        self._disk = disk
        self._index = index
        self._on_progress = on_progress
        self._rows = Memtable()
        self._ledgers: set[LedgerId] = set()
        """Every ledger of which a frame was found."""
        self._runs = 0
        """How many frames were found."""
        self._end: LogEnd | None = None
        """Where the good frames end; None until the scan is over."""
        self._damage: list[str] = []
        """The damage that the scan passed over, in words."""

    def run(self, saved: _Saved) -> RebuildReport:
        deleted = {record.ledger_id for record in saved.records.values() if record.deleted}
        file_ids = (
            list_files(self._disk, self._log_directory, kind=LOG_FILES)
            if self._disk.exists(self._log_directory)
            else []
        )
        scan = LogScan(
            self._log_directory,
            disk=self._disk,
            file_ids=file_ids,
            start=(0, 0),
            on_end=self._ended,
            on_damage=self._damaged,
        )
        for position, frame in scan:
            if frame.ledger_id not in deleted:
                self._take(frame, position)
        self._commit()
        self._finish(saved)
        return RebuildReport(
            self._runs,
            len(self._ledgers),
            len(saved.records) if saved.readable else None,
            tuple(self._damage),
            scan.torn,
        )

    def _ended(self, end: LogEnd) -> None:
        self._end = end

    def _damaged(self, error: CorruptError) -> None:
        self._damage.append(str(error))

    def _take(self, frame: RunFrame, position: Position) -> None:
        self._rows.add(frame, position)
        self._ledgers.add(frame.ledger_id)
        self._runs += 1
        if self._rows.count >= ROWS_PER_COMMIT:
            self._commit()

    def _commit(self) -> None:
        self._index.commit(Batch(rows=self._rows.ledgers), is_readable=self._is_readable)
        self._rows = Memtable()
        self._on_progress(self._runs)

    def _finish(self, saved: _Saved) -> None:
        """Make the last commit: the saved records, and the position from which the next open scans
        (so it sees a torn end).
        """
        indexed_to = (self._end.file_id, self._end.offset) if self._end is not None else (0, 0)
        found = frozenset({Suspicion.INDEX_REBUILT})
        facts = replace(saved.facts, indexed_to=indexed_to).with_suspicions(found)
        self._index.commit(
            Batch(
                records=list(saved.records.values()),
                losses=saved.losses,
                facts=facts.encode(),
                decisions=saved.decisions,
            ),
            is_readable=self._is_readable,
        )

    def _is_readable(self, ledger_id: LedgerId, row: RunRow) -> bool:
        try:
            file = self._disk.open(self._log_directory / LOG_FILES.name(row.file_id))
            with contextlib.closing(file):
                frame = parse_run(file.pread(row.length, row.offset))
        except (StorageError, FrameError):
            return False
        return frame.ledger_id == ledger_id
