"""The storage of one bookie: its entries, fences and marks.

server -> `Storage` -> journal + one `LedgerDirectory` per disk (log, memtable, index)

The durability mode (`modes`) decides what makes an add durable. Visibility is the same in every
mode: an entry is visible from the moment `add_run` takes it, a record from the call of
`put_record`. `maintenance` writes both to the indexes and does all other blocking work except
reads; callers use it directly (`Storage.maintenance`).

Thread rules: `add_run`, `put_record` and all callbacks run in the event loop's thread; blocking
methods may run in any other. One lock guards the state in memory, and is never held during disk
I/O; `maintenance` has the order of all locks.
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
from bookie.storage.decisions import PersonDecision
from bookie.storage.directory import LedgerDirectory
from bookie.storage.disk import Disk, RealDisk
from bookie.storage.journal import Journal
from bookie.storage.journal_records import NOTED, RecordKind
from bookie.storage.ledger_table import Ledgers
from bookie.storage.log_scan import Position
from bookie.storage.loop_calls import CallSoon, Progress
from bookie.storage.maintenance import CheckpointCapture, Maintenance, close_all
from bookie.storage.modes import DurabilityMode
from bookie.storage.notes import LedgerNotes
from bookie.storage.opening import Opening, OpenReport
from bookie.storage.permits import AddPermits
from bookie.storage.reading import StoredRead
from bookie.storage.records import Boundary, LedgerRecord
from bookie.storage.routing import route
from bookie.storage.settings import StorageSettings

log = logging.getLogger(__name__)

_DONE: Final = Taken.DONE
_PENDING: Final = Taken.PENDING
_NO_ROOM: Final = Taken.NO_ROOM


class Storage:
    """Journal and ledger directories of one bookie as one object: adds, reads,
    records. Use `open`.
    """

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
        # Read at every add.
        self._acks_from_memory = settings.mode is DurabilityMode.MEMORY
        """True when an add is acknowledged as soon as it is in memory."""
        self._journals = settings.mode is DurabilityMode.JOURNAL
        """True when an add waits for its record in the journal; if neither, it waits for a sync of
        its log."""
        self._progress = progress
        self._lock = lock
        """Guards all fields below except `maintenance`, whose module has the order of locks."""
        self._directories = directories
        self._journal = journal
        self._ledgers = Ledgers()
        self.permits: Final[AddPermits] = self._ledgers.permits
        """The ledgers whose normal adds need no ruling."""
        self._log_acks: list[AckQueue[tuple[int, int]]] = [AckQueue() for _ in directories]
        """By directory, adds that wait until their log is synced to (file id, offset)."""
        self._journal_acks: AckQueue[int] = AckQueue()
        """Records and adds that wait until the journal is synced to their number."""
        self._unwritten: dict[LedgerId, list[Done]] = {}
        """Changed records for which the journal had no room yet, with the callbacks that wait for
        them."""
        self.needs_notes: Final = (
            settings.mode is DurabilityMode.MEMORY and settings.note_idle_flushes is not None
        )
        """True when an add may be answered only once its ledger has a durable note."""
        self._notes: Final = LedgerNotes(
            self._ledgers,
            idle_flushes=settings.note_idle_flushes or 1,
            has_unsynced=self._has_unsynced,
        )
        """For how long each noted ledger has been idle."""
        self._starved = False
        """An add was refused since `on_room` was called last."""
        self.unflushed_bytes = 0
        """Bytes of runs added since the last capture; in memory mode a kill may lose these."""
        self.maintenance: Final = Maintenance(
            settings, disk, directories, journal, self._ledgers, lock, progress, self._capture
        )
        """Checkpoints, marks, deletions, space; callers use it outside the event loop's thread."""
        self.report = OpenReport()
        """The report of the open; never changes."""
        self.on_room: Callable[[], None] = lambda: None
        """Called in the event loop when a refused add may be tried again."""
        self.failure: StorageError | None = None
        """The failure of a disk, which stays: this storage promises nothing any more. It is read
        before every answer, so a thread that finds a failure of any part sets it here at once."""
        progress.on_progress = self._on_progress
        progress.on_notify = self._note_failure

    @classmethod
    def open(
        cls, settings: StorageSettings, *, disk: Disk | None = None, call_soon: CallSoon
    ) -> "Storage":
        """Open or create the directories, scan the logs and replay the journal; blocking.

        Raises CorruptError when an index or synced bytes of a log are gone; the message says what
        to do. `report` has what was found.
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
            commit=self.maintenance.commit_replayed,
            rows_max=self._settings.checkpoint_rows,
        )
        self.report = opening.run()
        self.maintenance.checkpoint()

    def _directory_of(self, ledger_id: LedgerId) -> LedgerDirectory:
        return self._directories[route(ledger_id, len(self._directories))]

    # ---- records --------------------------------------------------------------------------------

    def record(self, ledger_id: LedgerId) -> LedgerRecord | None:
        """The current record, durable or not; None when nothing is known of the ledger."""
        return self._ledgers.records.get(ledger_id)

    def put_record(self, record: LedgerRecord, *, done: Done) -> None:
        """Merge the record into the known one at once, and call `done` when that is durable.

        As records are merged and not replaced (`LedgerRecord.merged`), no call takes back a fence
        or a tombstone.
        """
        with self._lock:
            self._ledgers.merge(record)
            self._unwritten.setdefault(record.ledger_id, []).append(done)
            failed = self._write_records()
        self._fail_soon(failed)

    def _write_records(self) -> list[tuple[Done, StorageError]]:
        """Locked. Write waiting records to the journal while it has room; returns the callbacks for
        which it failed.
        """
        while self._unwritten:
            ledger_id = next(iter(self._unwritten))
            record = self._ledgers.records[ledger_id]
            payload, traits = [record.encode()], NOTED * record.noted
            try:
                # has_room leaves free what a trim needs on a full disk, so it is asked here too.
                has_room = self._journal.has_room(len(payload[0]))
                sequence = (
                    self._journal.append(RecordKind.LEDGER, payload, traits=traits)
                    if has_room
                    else None
                )
            except StorageError as error:
                waiting, self._unwritten = self._unwritten, {}
                return [(done, error) for dones in waiting.values() for done in dones]
            if sequence is None:
                break
            for done in self._unwritten.pop(ledger_id):
                self._journal_acks.add(sequence, done)
        return []

    def noted_ledgers(self) -> list[LedgerId]:
        """The ledgers with a note, ids rising: entries of them may be here that no disk has."""
        return sorted(self._ledgers.noted())

    @property
    def noted_count(self) -> int:
        return self._ledgers.noted_count

    def take_back_notes(self) -> bool:
        """Take back notes of ledgers that have been idle for long enough; call it after each flush
        until it returns False. It does a piece at a time. In the event loop's thread: so it never
        comes between the ruling on an add and the add.
        """
        with self._lock:
            return self._notes.take_back_some()

    def _has_unsynced(self, ledger_id: LedgerId) -> bool:
        return self._directory_of(ledger_id).has_unsynced(ledger_id)

    @property
    def waits_for_disk(self) -> bool:
        """True when the mode demands that a disk has an add before it is acknowledged."""
        return not self._acks_from_memory

    def boundary(self) -> Boundary | None:
        """The fence boundary of all boots so far that may have lost fences; None when there was
        none.
        """
        return self._ledgers.fence

    def unchecked_boundary(self) -> Boundary | None:
        """The boundary of ledgers that may lack entries unless they are checked; None when all are
        checked.
        """
        return self._ledgers.unchecked

    @property
    def marked_epoch(self) -> int:
        """The highest epoch of a boot whose marks are here, or were, 0 when there was none. It
        looks at every record.
        """
        return self._ledgers.marked_epoch

    def limbo_ledgers(self) -> list[LedgerId]:
        return self._ledgers.limbo()

    def is_unchecked(self, ledger_id: LedgerId) -> bool:
        """True when this ledger needs a check since an unclean boot, and the check
        has not ended.
        """
        return self._ledgers.is_unchecked(ledger_id)

    # ---- entries --------------------------------------------------------------------------------

    def add_run(self, frame: RunFrame, *, done: Done) -> Taken:
        """Add a run, which is readable at once. The result says whether it is as durable as the
        mode promises now, or will be when `done` is called.

        After NO_ROOM try again when `on_room` is called. In memory mode a run in memory is DONE
        even if another disk has failed: the caller must check `failure` before it answers.
        FrameError when the frame is too long for the log.
        """
        index = route(frame.ledger_id, len(self._directories))
        directory = self._directories[index]
        settings, maintenance = self._settings, self.maintenance
        try:
            with self._lock:
                if maintenance.own_failure is not None:
                    raise maintenance.own_failure  # failures of the streams come from their appends
                if frame.flags and frame.is_recovery and directory.keeps(frame):
                    return self._acknowledge_kept(index, done)
                rows = directory.rows_in_memory
                # All or nothing: check for room in the journal before the log takes the run.
                has_room = rows < settings.rows_max and (
                    not self._journals or self._journal.has_room(len(frame.buffer))
                )
                position = directory.add(frame) if has_room else None
                if position is None:
                    self._starved = True
                    return _NO_ROOM
                self.unflushed_bytes += position.length
                if not self._acks_from_memory:
                    self._acknowledge_when_durable(index, position, frame, done)
        except StorageError as error:
            if isinstance(error, DiskFullError):
                maintenance.note(error)
            self._fail_soon([(done, error)])
            return _PENDING
        is_long = rows + 1 >= settings.checkpoint_rows  # including those of a checkpoint under way
        if (is_long and directory.pending_rows >= settings.checkpoint_rows) or (
            self.unflushed_bytes >= settings.checkpoint_bytes
        ):
            maintenance.hasten()
        return _DONE if self._acks_from_memory else _PENDING

    def _acknowledge_when_durable(
        self, index: int, position: Position, frame: RunFrame, done: Done
    ) -> None:
        """Locked. Queue `done` until the journal or the log, as the mode says, has synced the
        frame.
        """
        if self._journals:
            sequence = self._journal.append(RecordKind.RUN, [frame.buffer])
            assert sequence is not None, "has_room said so, and this lock keeps others out"
            self._journal_acks.add(sequence, done)
        else:
            self._log_acks[index].add((position.file_id, position.end), done)
            self._directories[index].log.stream.request_sync()

    def _acknowledge_kept(self, index: int, done: Done) -> Taken:
        """Locked. Acknowledge a run that memory already holds: it is durable once everything
        appended so far is.
        """
        log = self._directories[index].log
        if (failure := log.stream.failure) is not None:
            raise failure
        if self._acks_from_memory:
            return _DONE
        if (self._journal_acks if self._journals else self._log_acks[index]).is_full:
            self._starved = True
            return _NO_ROOM
        if self._journals:
            self._journal_acks.add(self._journal.last_sequence(), done)
        else:
            end = log.end()
            self._log_acks[index].add((end.file_id, end.offset), done)
            log.stream.request_sync()
        self._progress.notify()  # it may be durable already
        return _PENDING

    def last_entry_id(self, ledger_id: LedgerId) -> EntryId:
        """The highest entry id held; -1 = none. It reads only memory."""
        end = self._directory_of(ledger_id).end_of(ledger_id)
        return end.last if end is not None else NO_ENTRY

    def lac(self, ledger_id: LedgerId) -> EntryId:
        """The highest LAC seen, in runs or explicit; -1 = none. It reads only memory."""
        end = self._directory_of(ledger_id).end_of(ledger_id)
        record = self._ledgers.records.get(ledger_id)
        return max(
            end.lac if end is not None else NO_ENTRY,
            record.explicit_lac if record is not None else NO_ENTRY,
        )

    def read(
        self, ledger_id: LedgerId, *, first: EntryId, last: EntryId, bytes_max: int
    ) -> StoredRead:
        """Read frames for `first`..`last`: about `bytes_max`, but at least one frame if there is
        any. Blocking.

        StorageError when the index cannot be read: then nothing is known of the range.
        """
        assert 0 <= first <= last
        directory = self._directory_of(ledger_id)
        return directory.read(ledger_id, first=first, last=last, bytes_max=bytes_max)

    def held(self, ledger_id: LedgerId) -> EntrySet:
        """The entries that were stored, readable or not, without those rejected since; blocking.

        StorageError when the index cannot be read: then they are unknown.
        """
        return self._directory_of(ledger_id).held(ledger_id)

    def ledger_ids(self) -> list[LedgerId]:
        """Every ledger with a record or a run, including tombstones."""
        found = set(self._ledgers.records)
        found.update(ledger_id for each in self._directories for ledger_id in each.ledger_ids())
        return sorted(found)

    def loss(self, ledger_id: LedgerId) -> EntrySet:
        """The entries of a ledger that are recorded as lost."""
        return self._ledgers.losses.get(ledger_id, EMPTY)

    def lossy_ledgers(self) -> list[LedgerId]:
        """The ledgers that have a loss record, ids rising."""
        return sorted(self._ledgers.losses.copy())

    @property
    def losses_count(self) -> int:
        """How many ledgers have a loss record."""
        return len(self._ledgers.losses)

    @property
    def decisions(self) -> tuple[PersonDecision, ...]:
        """The newest decisions of people, oldest first."""
        return self._ledgers.decisions

    @property
    def extent(self) -> object:
        """A value that changes whenever the journal or a log grows."""
        return self._journal.last_sequence(), [each.log.end() for each in self._directories]

    # ---- answers --------------------------------------------------------------------------------

    def _capture(self) -> CheckpointCapture:
        """Take what has changed since the last call, for a checkpoint to commit."""
        with self._lock:
            self.unflushed_bytes = 0
            captures = [directory.capture() for directory in self._directories]
            for capture in captures:
                self._notes.written(capture.rows.ledgers)
            return CheckpointCapture(
                self._journal.last_sequence(), self._ledgers.take_dirty(), captures
            )

    def _note_failure(self) -> None:
        if self.failure is None:
            self.failure = self.maintenance.failure

    def _fail_soon(self, failed: Iterable[tuple[Done, StorageError]]) -> None:
        self._note_failure()  # an append that fails notifies nobody
        for done, error in failed:
            self._progress.call_soon(lambda done=done, error=error: done(error))  # type: ignore[misc]

    def _on_progress(self) -> None:
        """In the event loop: call back what has become durable or has failed."""
        with self._lock:
            ready: list[tuple[Done, StorageError | None]] = []
            for directory, acks in zip(self._directories, self._log_acks, strict=True):
                ready += [(done, None) for done in acks.reached(directory.log.synced_to())]
                if (failure := directory.log.stream.failure) is not None:
                    ready += [(done, failure) for done in acks.take_all()]
            ready += [
                (done, None) for done in self._journal_acks.reached(self._journal.synced_to())
            ]
            if (failure := self._journal.stream.failure) is not None:
                ready += [(done, failure) for done in self._journal_acks.take_all()]
            ready += self._write_records()
            starved, self._starved = self._starved, False
        for done, error in ready:
            done(error)
        if starved:
            self.on_room()

    def close(self) -> None:
        """Close everything; see Maintenance.close. Blocking."""
        self.maintenance.close()

    def _check(self) -> None:
        """Assert the invariants between two events of the loop; only for tests, as it looks at
        every row in memory.
        """
        with self._lock:
            assert self.unflushed_bytes >= 0
            assert self._unwritten.keys() <= self._ledgers.records.keys()
            assert not any(self._log_acks) or not (self._acks_from_memory or self._journals)
            assert not self._journal_acks or self._journal.last_sequence() > 0
            self._ledgers._check()
            for directory in self._directories:
                directory._check()
