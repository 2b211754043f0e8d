"""The storage of one bookie: every entry, fence and mark it is answerable for.

server -> `Storage` -> journal + one `LedgerDirectory` per disk (log, memtable, index)

What makes an add durable is the mode's matter (`modes`); what is visible is always the same: an
entry from the moment `add_run` takes it, a record from the moment `put_record` is called. What
makes it durable for good, and all else that blocks, is `upkeep`.

Thread rules: `add_run`, `put_record` and all callbacks belong to the event loop's thread; methods
said to block may run in any other. One lock guards the state in memory, never held over a disk.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bookie.errors import DiskFullError, StorageError
from bookie.frames.frame import RunFrame
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.storage.acks import AckQueue, Done, Taken
from bookie.storage.background import Aside
from bookie.storage.collect import CompactReport
from bookie.storage.directory import LedgerDirectory
from bookie.storage.disk import Disk, RealDisk
from bookie.storage.journal import Journal, RecordKind
from bookie.storage.ledgers import Ledgers
from bookie.storage.log_scan import Position
from bookie.storage.modes import DurabilityMode
from bookie.storage.opening import Opening, OpenReport
from bookie.storage.permits import AddPermits
from bookie.storage.progress import CallSoon, Progress
from bookie.storage.reading import StoredRead
from bookie.storage.records import Boundary, LedgerRecord
from bookie.storage.routing import route
from bookie.storage.settings import StorageSettings
from bookie.storage.space import DirectoryUsage, SpaceWatch
from bookie.storage.upkeep import Upkeep, close_all

__all__ = [
    "Boundary", "CompactReport", "DirectoryUsage", "Done", "DurabilityMode", "LedgerRecord",
    "OpenReport", "Storage", "StorageSettings", "StoredRead",
]  # fmt: skip

log = logging.getLogger(__name__)

_DONE: Final = Taken.DONE
_PENDING: Final = Taken.PENDING
_NO_ROOM: Final = Taken.NO_ROOM


class Storage:
    """See the module. Made by `open`."""

    def __init__(
        self,
        settings: StorageSettings,
        *,
        disk: Disk,
        progress: Progress,
        lock: threading.Lock,
        directories: Sequence[LedgerDirectory],
        journal: Journal,
    ) -> None:
        """Use `open`."""
        self._settings = settings
        # Asked at every add.
        self._acks_from_memory = settings.mode is DurabilityMode.MEMORY
        self._journals = settings.mode is DurabilityMode.JOURNAL
        self._disk = disk
        self._progress = progress
        self._lock = lock
        self._directories = directories
        self._journal = journal
        self._ledgers = Ledgers()
        self.permits: Final[AddPermits] = self._ledgers.permits
        """Whose normal adds need no ruling."""
        self._log_acks: list[AckQueue[tuple[int, int]]] = [AckQueue() for _ in directories]
        self._journal_acks: AckQueue[int] = AckQueue()
        self._unwritten: dict[LedgerId, list[Done]] = {}
        """Changed records that found no room in the journal yet, and who waits for them."""
        self._starved = False
        self._early: Aside | None = None
        self._spaces = [
            SpaceWatch(path, disk=disk, marks=settings.space, file_bytes=file_bytes)
            for path, file_bytes in [
                (settings.journal_dir, settings.journal_file_bytes),
                *((path, settings.log_file_bytes) for path in settings.ledger_dirs),
            ]
        ]
        self._upkeep = Upkeep(
            directories, journal=journal, ledgers=self._ledgers, lock=lock, progress=progress,
            spaces=self._spaces,
        )  # fmt: skip
        self.report = OpenReport()
        self.on_room: Callable[[], None] = lambda: None
        self.failure: StorageError | None = None
        """Sticky: a disk failed, this storage promises nothing any more. Asked before every answer,
        so whoever finds a failure of any part notes it here, in its own thread, at once."""
        progress.on_progress = self._on_progress
        progress.on_notify = self._note_failure

    @classmethod
    def open(
        cls, settings: StorageSettings, *, disk: Disk | None = None, call_soon: CallSoon
    ) -> "Storage":
        """Opens or makes the directories, scans and replays; blocking.

        Raises CorruptError when an index or bytes of a log that were synced are gone; the message
        says what to do. `report` tells what was found.
        """
        disk = disk or RealDisk()
        progress = Progress(call_soon)
        lock = threading.Lock()
        directories: list[LedgerDirectory] = []
        journal: Journal | None = None
        try:
            for path in settings.ledger_dirs:
                directories.append(
                    LedgerDirectory.open(
                        path, disk=disk, settings=settings.log, lock=lock, notify=progress.notify
                    )
                )
            journal = Journal.open(
                settings.journal_dir, disk=disk, settings=settings.journal, notify=progress.notify
            )
            storage = cls(
                settings, disk=disk, progress=progress, lock=lock, directories=directories,
                journal=journal,
            )  # fmt: skip
            storage._recover()
        except BaseException:
            close_all([*directories, *([journal] if journal is not None else [])])
            raise
        return storage

    def _recover(self) -> None:
        opening = Opening(
            self._directories,
            journal=self._journal,
            ledgers=self._ledgers,
            directory_of=self._directory_of,
            commit=self._upkeep.commit,
            rows_max=self._settings.checkpoint_rows,
        )
        self.report = opening.run()
        self._upkeep.checkpoint()

    def _directory_of(self, ledger_id: LedgerId) -> LedgerDirectory:
        return self._directories[route(ledger_id, len(self._directories))]

    # ---- records --------------------------------------------------------------------------------

    def record(self, ledger_id: LedgerId) -> LedgerRecord | None:
        """The current state, durable or not; None when nothing is known of the ledger."""
        return self._ledgers.records.get(ledger_id)

    def put_record(self, record: LedgerRecord, *, done: Done) -> None:
        """Merges the record into what is known, at once; `done` when that is durable.

        Merged, not replaced (`LedgerRecord.merged`): no call takes back a fence or a tombstone.
        """
        with self._lock:
            self._ledgers.merge(record)
            self._unwritten.setdefault(record.ledger_id, []).append(done)
            failed = self._write_records()
        self._call_later(failed)

    def _write_records(self) -> list[tuple[Done, StorageError]]:
        """Locked. Journals what there is room for; returns those for whom it failed."""
        while self._unwritten:
            ledger_id = next(iter(self._unwritten))
            payload = self._ledgers.records[ledger_id].encode()
            try:
                # Asked first also here: what has_room spares is what a trim needs on a full disk.
                has_room = self._journal.has_room(len(payload))
                sequence = self._journal.append(RecordKind.LEDGER, [payload]) if has_room else None
            except StorageError as error:
                waiting, self._unwritten = self._unwritten, {}
                return [(done, error) for dones in waiting.values() for done in dones]
            if sequence is None:
                break
            for done in self._unwritten.pop(ledger_id):
                self._journal_acks.add(sequence, done)
        return []

    def boundary(self) -> Boundary | None:
        """The fence boundary of all unclean boots so far; None when there was none."""
        return self._ledgers.fence

    def unchecked_boundary(self) -> Boundary | None:
        """Ledgers under it that are not checked yet may lack entries; None when all is checked."""
        return self._ledgers.unchecked

    def limbo_ledgers(self) -> list[LedgerId]:
        return self._ledgers.limbo()

    def is_unchecked(self, ledger_id: LedgerId) -> bool:
        """True when an unclean boot left this ledger to be checked and that has not ended."""
        return self._ledgers.is_unchecked(ledger_id)

    def mark(self, boundary: Boundary, limbo: Iterable[LedgerId], *, unchecked: bool) -> None:
        """Fences all under `boundary` and puts `limbo` in limbo, durable in every directory when
        it returns; with `unchecked`, all under the boundary is to be checked as well.

        Blocking; may be repeated after a crash in the middle (S26). Settles what the open reported.
        """
        self._upkeep.mark(boundary, limbo, unchecked=unchecked)

    def settle(self) -> None:
        """The boot has dealt with what `report` found: the next open need not say it again."""
        self._upkeep.settle()

    def finish_unchecked(self, epoch: int) -> None:
        """Every ledger under the unchecked boundary of `epoch` (or before) is checked. Blocking."""
        self._upkeep.finish_unchecked(epoch)

    # ---- entries --------------------------------------------------------------------------------

    def add_run(self, frame: RunFrame, *, done: Done) -> Taken:
        """Takes a run, readable at once; says whether it is as durable as the mode promises now,
        or will be when `done` is called.

        NO_ROOM: `on_room` says when to try again. In memory mode a run is DONE in memory, whatever
        has become of other disks: who answers asks `failure`. FrameError when the frame is too long
        for the log.
        """
        directory = self._directories[route(frame.ledger_id, len(self._directories))]
        settings, upkeep = self._settings, self._upkeep
        try:
            with self._lock:
                if upkeep.own_failure is not None:
                    raise upkeep.own_failure  # those of the streams come from their appends
                if frame.flags and frame.is_recovery and directory.keeps(frame):
                    return self._acknowledge_kept(directory, done)
                rows = directory.rows_in_memory
                # All or nothing: room in the journal is made sure of before the log takes it.
                has_room = rows < settings.rows_max and (
                    not self._journals or self._journal.has_room(len(frame.buffer))
                )
                position = directory.add(frame) if has_room else None
                if position is None:
                    self._starved = True
                    return _NO_ROOM
                upkeep.unflushed_bytes += position.length
                if not self._acks_from_memory:
                    self._acknowledge_later(directory, position, frame, done)
        except StorageError as error:
            upkeep.is_short |= isinstance(error, DiskFullError)
            self._call_later([(done, error)])
            return _PENDING
        is_long = rows + 1 >= settings.checkpoint_rows  # with those of a checkpoint under way
        if (is_long and directory.pending_rows >= settings.checkpoint_rows) or (
            upkeep.unflushed_bytes >= settings.checkpoint_bytes
        ):
            self._hasten()
        return _DONE if self._acks_from_memory else _PENDING

    def _acknowledge_later(
        self, directory: LedgerDirectory, position: Position, frame: RunFrame, done: Done
    ) -> None:
        """Locked. When the journal has synced the frame, or the log, as the mode says."""
        if self._journals:
            sequence = self._journal.append(RecordKind.RUN, [frame.buffer])
            assert sequence is not None, "has_room said so, and this lock keeps others out"
            self._journal_acks.add(sequence, done)
        else:
            self._acks_of(directory).add((position.file_id, position.end), done)
            directory.log.request_sync()

    def _acks_of(self, directory: LedgerDirectory) -> AckQueue[tuple[int, int]]:
        return self._log_acks[self._directories.index(directory)]

    def _acknowledge_kept(self, directory: LedgerDirectory, done: Done) -> Taken:
        """Locked. What was appended before is durable when all is that was appended until now."""
        log = directory.log
        if (failure := log.failure()) is not None:
            raise failure
        if self._acks_from_memory:
            return _DONE
        if self._journals:
            self._journal_acks.add(self._journal.last_sequence(), done)
        else:
            end = log.end()
            self._acks_of(directory).add((end.file_id, end.offset), done)
            log.request_sync()
        self._progress.notify()  # it may be durable already
        return _PENDING

    def last_entry_id(self, ledger_id: LedgerId) -> EntryId:
        """The highest id held; -1 = none. From memory."""
        tail = self._directory_of(ledger_id).tail(ledger_id)
        return tail.last if tail is not None else NO_ENTRY

    def lac(self, ledger_id: LedgerId) -> EntryId:
        """The highest LAC seen, in runs or explicit; -1 = none. From memory."""
        tail = self._directory_of(ledger_id).tail(ledger_id)
        record = self._ledgers.records.get(ledger_id)
        return max(
            tail.lac if tail is not None else NO_ENTRY,
            record.explicit_lac if record is not None else NO_ENTRY,
        )

    def read(
        self, ledger_id: LedgerId, *, first: EntryId, last: EntryId, bytes_max: int
    ) -> StoredRead:
        """Frames for `first`..`last`, about `bytes_max` of them and at least one; blocking.

        Raises StorageError when the index cannot be read: then nothing is known of the range.
        """
        assert 0 <= first <= last
        directory = self._directory_of(ledger_id)
        return directory.read(ledger_id, first=first, last=last, bytes_max=bytes_max)

    def held(self, ledger_id: LedgerId) -> EntrySet:
        """The entries that were stored, readable or not, but for those rejected since; blocking.

        StorageError: unknown.
        """
        return self._directory_of(ledger_id).held(ledger_id)

    def ledger_ids(self) -> list[LedgerId]:
        """Every ledger with a record or a run, tombstones included."""
        found = set(self._ledgers.records)
        found.update(ledger_id for each in self._directories for ledger_id in each.ledger_ids())
        return sorted(found)

    # ---- losses and deletions -------------------------------------------------------------------

    def record_loss(self, ledger_id: LedgerId, lost: EntrySet, *, reason: str) -> None:
        """Entries that are gone for good; durable on every disk when it returns. Blocking."""
        self._upkeep.record_loss(ledger_id, lost, reason=reason)

    def reject(self, ledger_id: LedgerId, entries: EntrySet) -> None:
        """The stored copies of these are no good: from now on unreadable, and recovery's adds take
        their place; durable when it returns. Blocking, right after a checkpoint.
        """
        self._upkeep.reject(ledger_id, entries)

    def loss(self, ledger_id: LedgerId) -> EntrySet:
        """The entries recorded as lost."""
        return self._ledgers.losses.get(ledger_id, EMPTY)

    @property
    def losses_count(self) -> int:
        """Ledgers with a loss record."""
        return len(self._ledgers.losses)

    def delete_ledger(self, ledger_id: LedgerId) -> None:
        """See `delete_ledgers`."""
        self._upkeep.delete_ledgers([ledger_id])

    def delete_ledgers(self, ledger_ids: Sequence[LedgerId]) -> None:
        """Drops all runs of these ledgers; a fenced tombstone stays (S40). Blocking, with one
        transaction per directory, however many ledgers."""
        self._upkeep.delete_ledgers(ledger_ids)

    def revive_ledgers(self, ledger_ids: Sequence[LedgerId], *, epoch: int) -> int:
        """The metadata store names these collected ledgers again: each goes into limbo, marked by
        the boot `epoch`, so that its entries can be put back; how many did, durably. Blocking."""
        return self._upkeep.revive_ledgers(ledger_ids, epoch)

    # ---- checkpoints ----------------------------------------------------------------------------

    @property
    def unflushed_bytes(self) -> int:
        """Bytes of runs taken since the last checkpoint: in memory mode, what a kill may lose."""
        return self._upkeep.unflushed_bytes

    @property
    def extent(self) -> object:
        """How far journal and logs have come; another value when anything was written since."""
        return self._journal.last_sequence(), [each.log.end() for each in self._directories]

    def checkpoint(self) -> None:
        """Makes everything taken before the call durable in logs and indexes. Blocking.

        DiskFullError: nothing is lost, try again when there is space. Any other StorageError is
        final: `failure` is set.
        """
        self._upkeep.checkpoint()

    def _hasten(self) -> None:
        """So much has piled up that the next checkpoint should not wait for its time."""
        if self._early is None or not self._early.is_alive():
            self._early = self._disk.aside("early checkpoint", self._checkpoint_early)

    def _checkpoint_early(self) -> None:
        try:
            self.checkpoint()
        except StorageError as error:
            log.error("early checkpoint failed: %s", error)
            self._progress.notify()

    # ---- space ----------------------------------------------------------------------------------

    def compact_some(self) -> CompactReport | None:
        """Frees log files that are mostly dead: copies what lives, then deletes them. Blocking.

        A piece at a time, of about `collect.SLICE_BYTES`; None when there is no more to do. What
        lies between two calls is the caller's: a piece that never comes costs what was copied.
        """
        return self._upkeep.compact_some(live_below=self._settings.compact_below)

    def compact(self) -> CompactReport:
        """All pieces at once. Blocking."""
        report = CompactReport()
        while (done := self.compact_some()) is not None:
            report += done
        return report

    def usage(self) -> list[DirectoryUsage]:
        """Of the journal directory, then of the ledger directories. Blocking, measured now."""
        logs = [0, *(sum(f.size_bytes for f in each.log.files()) for each in self._directories)]
        return [
            watch.usage(log_bytes=log_bytes)
            for watch, log_bytes in zip(self._spaces, logs, strict=True)
        ]

    @property
    def is_full(self) -> bool:
        """Take no normal adds: too little space on a disk. Recovery adds may still fit."""
        return (
            self._upkeep.is_short
            or any(watch.is_full for watch in self._spaces)
            or self._journal.is_full
            or any(directory.log.is_full for directory in self._directories)
        )

    # ---- failures and the end -------------------------------------------------------------------

    def _note_failure(self) -> None:
        if self.failure is None:
            self.failure = self._upkeep.failure

    def _call_later(self, failed: Iterable[tuple[Done, StorageError]]) -> None:
        self._note_failure()  # of an append, which raises it and notifies nobody
        for done, error in failed:
            self._progress.call_soon(lambda done=done, error=error: done(error))  # type: ignore[misc]

    def _on_progress(self) -> None:
        """In the event loop: answers what has become durable, or has failed."""
        with self._lock:
            ready: list[tuple[Done, StorageError | None]] = []
            for directory, acks in zip(self._directories, self._log_acks, strict=True):
                ready += [(done, None) for done in acks.reached(directory.log.synced_to())]
                if (failure := directory.log.failure()) is not None:
                    ready += [(done, failure) for done in acks.take_all()]
            ready += [
                (done, None) for done in self._journal_acks.reached(self._journal.synced_to())
            ]
            if (failure := self._journal.failure()) is not None:
                ready += [(done, failure) for done in self._journal_acks.take_all()]
            ready += self._write_records()
            starved, self._starved = self._starved, False
        for done, error in ready:
            done(error)
        if starved:
            self.on_room()

    def close(self) -> None:
        """Final checkpoint, then everything is ended. Blocking.

        Raises when anything failed: not all that was taken is known to be on disk.
        """
        if self._early is not None:
            self._early.join()
        self._upkeep.close()
