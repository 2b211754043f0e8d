"""The blocking operations of a storage: checkpoints, marks, deletions, compaction, space.

A checkpoint captures the ends of the logs, the rows in memory, the changed records and the last
journal number at one instant (`CheckpointCapture`), syncs the logs, commits each index with the end
of its log, and only then trims the journal. Marks, losses and deletions are written directly to the
indexes.

The locks, in the order in which they are taken; never in another order:

1. `_compacting`: held for one piece of a compaction at a time. Checkpoints go on meanwhile.
2. `_committing`: held for one checkpoint, mark or deletion at a time, so that an older state is
   never committed over a newer one.
3. `lock`, the storage's: guards the state in memory (`ledgers`, memtables, `Storage`'s own fields).
   It is never held during disk I/O. The internal locks of journal, logs and indexes come after it.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bookie.errors import DiskFullError, StorageError
from bookie.ids import LedgerId
from bookie.points import passing
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.storage.background import BackgroundTask
from bookie.storage.compaction import CompactReport, compact_directory
from bookie.storage.decisions import PersonDecision
from bookie.storage.directory import Capture, LedgerDirectory, WrongOf
from bookie.storage.disk import Disk
from bookie.storage.durations import Durations
from bookie.storage.index import Loss
from bookie.storage.journal import Journal
from bookie.storage.ledger_table import Ledgers
from bookie.storage.loop_calls import Progress
from bookie.storage.records import Boundary, LedgerRecord
from bookie.storage.routing import route
from bookie.storage.settings import StorageSettings
from bookie.storage.space import DirectoryUsage, SpaceWatch

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CheckpointCapture:
    """The state that one checkpoint makes durable, taken at one instant."""

    sequence: int
    """The number of the journal's last record: the checkpoint covers all records up to it."""
    records: Sequence[LedgerRecord]
    """The records whose present state no index has."""
    directories: Sequence[Capture]
    """The rows and the log end of each directory, in order."""


@dataclass(eq=False)
class Maintenance:
    """Blocking operations on all directories. Any thread may call them, except the event loop's.

    `Storage` passes in its fields, which are never replaced.
    """

    settings: StorageSettings
    disk: Disk
    directories: Sequence[LedgerDirectory]
    """Every ledger directory, in the order of the settings."""
    journal: Journal
    ledgers: Ledgers
    """Changed only with `lock` held, except for the unchecked boundary, which is replaced as a
    whole with `_committing` held."""
    lock: threading.Lock
    """The storage's lock."""
    progress: Progress
    """Notified whenever something that a caller waits for may have happened."""
    capture: Callable[[], CheckpointCapture]
    """Takes the changes since the last call out of the storage's memory."""

    def __post_init__(self) -> None:
        self.own_failure: StorageError | None = None
        """The first failure of an operation here, never a full disk; `failure` includes those of
        log and journal. Set once; `Storage` reads it before it takes an add."""
        self.checkpoints = Durations()
        """How long each successful checkpoint took."""
        self._is_short = False
        """True after a disk had no space for a write, until a checkpoint succeeds."""
        self._closed = False
        """True when no operation may begin any more; set with `_committing` held."""
        self._compaction: Iterator[CompactReport] | None = None
        """The compaction that is paused between two pieces; changed with `_compacting` held."""
        self._early: BackgroundTask | None = None
        """The checkpoint that `hasten` began last; only the event loop's thread sets it."""
        self._compacting = threading.Lock()
        self._committing = threading.Lock()
        settings = self.settings
        self._spaces = [
            SpaceWatch(path, disk=self.disk, marks=settings.space, file_bytes=file_bytes)
            for path, file_bytes in [
                (settings.journal_dir, settings.journal_file_bytes),
                *((path, settings.log_file_bytes) for path in settings.ledger_dirs),
            ]
        ]

    def _check(self) -> None:
        """Assert the invariants at the end of each operation, with `_committing` held; adds go on
        meanwhile.
        """
        fence, unchecked = self.ledgers.fence, self.ledgers.unchecked
        for directory in self.directories:
            facts, end = directory.facts, directory.log.end()
            assert facts.indexed_to <= (end.file_id, end.offset), "an index is ahead of its log"
            assert facts.fence is None or (fence and facts.fence.epoch <= fence.epoch)
            assert facts.unchecked is None or unchecked, "lifted, and a directory still has it"
        assert self.journal.synced_to() <= self.journal.last_sequence()
        assert not isinstance(self.own_failure, DiskFullError), "a full disk passes"

    # ---- failures -------------------------------------------------------------------------------

    @property
    def failure(self) -> StorageError | None:
        """The failure of a disk, which stays: from then on the storage promises nothing."""
        # Makes no list: it is called before every answer.
        failure = self.own_failure or self.journal.stream.failure
        if failure is not None:
            return failure
        for directory in self.directories:
            if (failure := directory.log.stream.failure) is not None:
                return failure
        return None

    def note(self, error: StorageError) -> None:
        """Keep the failure of an operation or an add. Any thread may call it."""
        if isinstance(error, DiskFullError):
            self._is_short = True  # temporary: the transaction was rolled back, nothing is lost
        else:
            self.own_failure = self.own_failure or error

    @contextlib.contextmanager
    def _operation(self, turn: threading.Lock) -> Iterator[None]:
        """Run one blocking operation with the lock `turn` held. None begins after a failure, and
        its own failure is kept.
        """
        with turn:
            if (failure := self.failure) is not None:
                raise failure
            if self._closed:
                raise StorageError("the storage is closed")
            try:
                yield
            except StorageError as error:
                self.note(error)
                self.progress.notify()
                raise
            if turn is self._committing:
                self._check()

    # ---- checkpoints ----------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Make everything that was added before the call durable in logs and indexes. Blocking.

        After DiskFullError nothing is lost: try again when there is space. Any other StorageError
        is final: it becomes `failure`.
        """
        with self._operation(self._committing):
            began = time.perf_counter()
            self._checkpoint()
            self.checkpoints.observe(time.perf_counter() - began)

    def syncs(self) -> dict[tuple[str, str], Durations]:
        """How long syncs took, by stream (`journal`, `log`) and directory."""
        logs = zip(self.settings.ledger_dirs, self.directories, strict=True)
        found = {("log", str(path)): directory.log.stream.syncs for path, directory in logs}
        return {("journal", str(self.settings.journal_dir)): self.journal.stream.syncs} | found

    def _checkpoint(self) -> None:
        sequence = self._commit(covers_journal=True)
        self.journal.trim(sequence)
        for watch in self._spaces:
            watch.measure()
        # Other programs may have freed space too: streams that found none try again.
        self.journal.stream.look_for_space()
        for directory in self.directories:
            directory.log.stream.look_for_space()
        self._is_short = False
        self.progress.notify()

    def commit_replayed(self) -> None:
        """Commit logs and indexes in the middle of a replay: records of the journal are still to
        come, so that it must not be trimmed, and the indexes have no more notes than before.
        """
        self._commit(covers_journal=False)

    def _commit(self, *, covers_journal: bool) -> int:
        """Commit logs and indexes; returns the number of the journal's last record at that time."""
        captured = self.capture()
        sequence = captured.sequence if covers_journal else None
        try:
            for directory in self.directories:
                directory.log.stream.request_sync()  # in parallel; commit waits for each
            for directory, rows in zip(self.directories, captured.directories, strict=True):
                directory.drop_late(rows.rows, self.ledgers.is_deleted)
            routed = self._routed(captured.records)
            for directory, capture, own in zip(
                self.directories, captured.directories, routed, strict=True
            ):
                directory.commit(capture, records=own, sequence=sequence)
        except BaseException:
            with self.lock:
                self.ledgers.give_back(captured.records)
            raise
        passing("checkpoint: indexes committed, journal not trimmed")
        return captured.sequence

    def _routed(self, records: Iterable[LedgerRecord]) -> list[list[LedgerRecord]]:
        """Sort the records by the directory of their ledger."""
        routed: list[list[LedgerRecord]] = [[] for _ in self.directories]
        for record in records:
            routed[route(record.ledger_id, len(routed))].append(record)
        return routed

    def hasten(self) -> None:
        """Begin an early checkpoint in the background, unless one is under way. Never blocks."""
        if self._early is None or not self._early.is_alive():
            self._early = self.disk.start_background("early checkpoint", self._checkpoint_early)

    def _checkpoint_early(self) -> None:
        try:
            self.checkpoint()
        except StorageError as error:
            log.error("early checkpoint failed: %s", error)
            self.progress.notify()

    # ---- marks ----------------------------------------------------------------------------------

    def mark(self, boundary: Boundary, limbo: Iterable[LedgerId], *, fences_lost: bool) -> None:
        """Put `limbo` into limbo, and mark all other ledgers under `boundary` unchecked, durably in
        every directory. If fences may be lost, adds stay out of all of them forever.

        Blocking; may be repeated after a crash in the middle (S26). It also clears the suspicions
        that the open reported.
        """
        limbo = list(limbo)
        # A limbo mark is no fence: once it is cleared, only the boundary stands for a lost one.
        assert all(map(boundary.covers, limbo))
        with self._operation(self._committing):
            with self.lock:
                marked = [self.ledgers.mark(ledger_id, boundary.epoch) for ledger_id in limbo]
                self.ledgers.cover(boundary, fences_lost=fences_lost)
            for directory, own in zip(self.directories, self._routed(marked), strict=True):
                facts = replace(
                    directory.facts, fence=self.ledgers.fence, unchecked=self.ledgers.unchecked
                )
                directory.write(facts=facts, records=own)
                passing("boot: one directory of several is marked")
            # Not earlier: after a crash before this line the next boot must find the suspicions
            # again.
            self._settle()

    def settle(self) -> None:
        """Clear the suspicions that the open reported, and count notes as whole from now on: the
        boot has dealt with what was missing. Blocking.
        """
        with self._operation(self._committing):
            self._settle()

    def _settle(self) -> None:
        sequence = self.journal.last_sequence()
        for directory in self.directories:
            if directory.facts.suspicions or directory.facts.noted_to is None:
                directory.write(facts=directory.facts.settled(sequence=sequence))

    def finish_unchecked(self, epoch: int) -> None:
        """Lift the unchecked boundary of `epoch` or earlier: all ledgers under it are checked.
        Blocking.
        """
        with self._operation(self._committing):
            for directory in self.directories:
                unchecked = directory.facts.unchecked
                if unchecked is not None and unchecked.epoch <= epoch:
                    directory.write(facts=replace(directory.facts, unchecked=None))
            self.ledgers.finish_unchecked(epoch)

    # ---- losses and deletions -------------------------------------------------------------------

    def record_loss(
        self,
        ledger_id: LedgerId,
        lost: EntrySet,
        *,
        reason: str,
        decision: PersonDecision | None = None,
    ) -> None:
        """Record that these entries are lost, durably on every disk. Blocking."""
        with self._operation(self._committing):
            fresh = lost - self.ledgers.losses.get(ledger_id, EMPTY)
            if not fresh:
                return
            loss = Loss(ledger_id, reason, fresh)
            decisions = [] if decision is None else [decision]
            for directory in self.directories:
                directory.write(losses=[loss], decisions=decisions)
            with self.lock:
                self.ledgers.note_losses([loss])
                self.ledgers.note_decisions(decisions)

    def retract_loss(
        self,
        ledger_id: LedgerId,
        entries: EntrySet,
        *,
        decision: PersonDecision | None = None,
        limbo_since: int | None = None,
    ) -> EntrySet:
        """Remove these entries from the loss records, durably on every disk; returns those that a
        record named. Blocking.

        `limbo_since`: epoch of the boot by which the ledger is marked in the same step; None when
        it needs no mark. A crash in the middle leaves the records on some disks, and then they
        still count. The mark is written first, so that no record goes without it, and the call may
        be repeated.
        """
        with self._operation(self._committing):
            named = entries & self.ledgers.losses.get(ledger_id, EMPTY)
            if not named:
                return EMPTY
            decisions = [] if decision is None else [decision]
            marked: list[LedgerRecord] = []
            try:
                with self.lock:
                    # The record first: a thread that sees the mark must not see the record any
                    # more.
                    self.ledgers.retract(ledger_id, named)
                    if limbo_since is not None:
                        marked.append(self.ledgers.doubt(ledger_id, limbo_since))
                # Write to the disk of the ledger first, with its mark.
                own = self.directories[route(ledger_id, len(self.directories))]
                for directory in (own, *(one for one in self.directories if one is not own)):
                    directory.write(
                        records=marked if directory is own else (),
                        retracted={ledger_id: named},
                        decisions=decisions,
                    )
            except BaseException:
                with self.lock:
                    self.ledgers.note_losses([Loss(ledger_id, "", named)])
                    self.ledgers.give_back(marked)
                raise
            self.ledgers.note_decisions(decisions)
            return named

    def note_decision(self, decision: PersonDecision) -> None:
        """Store a person's decision on every disk. Blocking."""
        with self._operation(self._committing):
            for directory in self.directories:
                directory.write(decisions=[decision])
            self.ledgers.note_decisions([decision])

    def reject(self, ledger_id: LedgerId, entries: EntrySet, wrong: WrongOf) -> EntrySet:
        """Reject, durably, those stored copies of `entries` that are `wrong`, and return their ids.
        They are unreadable from now on, and recovery adds replace them. Blocking.

        It judges the copies here, where no other copy can replace them meanwhile: the caller may
        have seen an earlier copy. Before that it trims the journal, as a replay of a bad copy that
        a recovery wrote would replace the rejected copy by itself.
        """
        with self._operation(self._committing):
            self.journal.begin_file()
            self._checkpoint()
            directory = self.directories[route(ledger_id, len(self.directories))]
            return directory.reject(ledger_id, entries, wrong)

    def delete_ledgers(self, ledger_ids: Sequence[LedgerId]) -> None:
        """Drop all runs of these ledgers and leave tombstones (S40). Blocking, with one transaction
        per directory, however many ledgers.
        """
        with self._operation(self._committing):
            with self.lock:
                tombstones = [self.ledgers.bury(ledger_id) for ledger_id in ledger_ids]
            for directory, own in zip(self.directories, self._routed(tombstones), strict=True):
                # Every directory has all loss records, so every directory forgets every ledger.
                directory.forget(ledger_ids, own)
            with self.lock:
                self.ledgers.forget_losses(ledger_ids)

    def revive_ledgers(self, ledger_ids: Sequence[LedgerId], *, epoch: int) -> int:
        """Turn the tombstones of these ledgers into ledgers in limbo, marked by the boot `epoch`,
        durably, and return how many. The metadata store names them again, and a repair may put
        their entries back. Blocking.
        """
        with self._operation(self._committing):
            tried = [self.ledgers.revived(ledger_id, epoch) for ledger_id in ledger_ids]
            revived = [record for record in tried if record is not None]
            for directory, own in zip(self.directories, self._routed(revived), strict=True):
                if own:
                    directory.write(records=own)
                with self.lock:
                    for record in own:
                        self.ledgers.merge(record)
        return len(revived)

    # ---- space ----------------------------------------------------------------------------------

    def compact_some(self) -> CompactReport | None:
        """Compact log files that are mostly garbage: copy their live frames, then delete them.
        Blocking.

        Each call does one piece of about `compaction.SLICE_BYTES`; None when there is no more to
        do. The caller may pause between two calls, or stop, which wastes only the copies made so
        far.
        """
        with self._operation(self._compacting):
            self._compaction = self._compaction or self._compact()
            # An error ends the compaction too: the next call begins another one.
            compaction, self._compaction = self._compaction, None
            done = next(compaction, None)
            if done is not None:
                self._compaction = compaction
        if done is not None and done.files_deleted:
            self.progress.notify()
        return done

    def _compact(self) -> Iterator[CompactReport]:
        for directory in self.directories:
            yield from compact_directory(
                directory, live_below=self.settings.compact_below, lock=self.lock
            )

    def usage(self) -> list[DirectoryUsage]:
        """Measure the usage of the journal directory, then of the ledger directories. Blocking."""
        logs = [0, *(sum(f.size_bytes for f in each.log.files()) for each in self.directories)]
        return [
            watch.usage(log_bytes=log_bytes)
            for watch, log_bytes in zip(self._spaces, logs, strict=True)
        ]

    @property
    def is_full(self) -> bool:
        """True when a disk has too little space for normal adds; recovery adds may still fit."""
        return (
            self._is_short
            or any(watch.is_full for watch in self._spaces)
            or self.journal.stream.is_full
            or any(directory.log.stream.is_full for directory in self.directories)
        )

    # ---- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Make a final checkpoint, then close everything. Blocking.

        Raises when anything failed: then not all adds are known to be on disk.
        """
        if self._early is not None:
            self._early.join()
        with self._compacting, self._committing:
            if self._closed:
                return
            failure = self.failure
            if failure is None:
                try:
                    self._checkpoint()
                except StorageError as error:
                    failure = error
            self._closed = True
            closing = close_all([*self.directories, self.journal])  # also after a failure
            failure = failure or closing
            self.progress.notify()
        if failure is not None:
            raise failure


def close_all(parts: Iterable[LedgerDirectory | Journal]) -> StorageError | None:
    """Close every part, also after a failure; returns the first failure."""
    first: StorageError | None = None
    for part in parts:
        try:
            part.close()
        except StorageError as error:
            first = first or error
    return first
