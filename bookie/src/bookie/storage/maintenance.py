"""Maintenance of a storage: checkpoints, marks, deletions, compaction, space; all that blocks.

A checkpoint captures the ends of the logs, the rows in memory, the changed records and the number
of the journal at one instant (`CheckpointCapture`), syncs the logs, commits each index with the end
of its log, and only then trims the journal. Marks, losses and deletions go straight into
the indexes.

Locks, in the order in which they are taken; none is ever taken the other way round:

1. `_compacting`: one piece of a compaction at a time. Checkpoints go on meanwhile.
2. `_committing`: one checkpoint, mark or deletion at a time, so that no older state is ever
   committed over a newer one.
3. `lock`, the storage's: guards the state in memory (`ledgers`, memtables, `Storage`'s own fields).
   It is never held over a disk. What journal, logs and indexes lock inside comes after it.
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
    """What one checkpoint makes durable, as it was at one instant."""

    sequence: int
    """The journal's last record: what the checkpoint holds, the journal need not."""
    records: Sequence[LedgerRecord]
    """Those that no index has in this state."""
    directories: Sequence[Capture]
    """Rows and log ends, in the order of the directories."""


@dataclass(eq=False)
class Maintenance:
    """Blocking operations on all directories. Any thread; not the event loop's.

    Its fields are what `Storage` hands over, and are never replaced.
    """

    settings: StorageSettings
    disk: Disk
    directories: Sequence[LedgerDirectory]
    """Every ledger directory, in the order of the settings."""
    journal: Journal
    ledgers: Ledgers
    """Changed with `lock` held, also here; but for the unchecked boundary, which is replaced as a
    whole, and by turns of `_committing` alone."""
    lock: threading.Lock
    """The storage's."""
    progress: Progress
    """Called whenever something that somebody waits for may have come."""
    capture: Callable[[], CheckpointCapture]
    """Takes what has changed since the last call out of the storage's memory."""

    def __post_init__(self) -> None:
        self.own_failure: StorageError | None = None
        """What an operation here met first, never a full disk; `failure` knows those of log and
        journal as well. Set once, here alone; `Storage` reads it before it takes an add."""
        self.checkpoints = Durations()
        """How long those that succeeded took."""
        self._is_short = False
        """A disk had no space for what had to be written; until a checkpoint succeeds."""
        self._closed = False
        """Nothing is begun any more; set with `_committing` held."""
        self._compaction: Iterator[CompactReport] | None = None
        """The one under way, resting between two pieces; changed with `_compacting` held."""
        self._early: BackgroundTask | None = None
        """The checkpoint that `hasten` began last; the event loop's thread alone sets it."""
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
        """At the end of each operation, with `_committing` held; adds go on meanwhile."""
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
        """Sticky: a disk failed, nothing is promised any more."""
        # Without a list of all: asked before every answer.
        failure = self.own_failure or self.journal.stream.failure
        if failure is not None:
            return failure
        for directory in self.directories:
            if (failure := directory.log.stream.failure) is not None:
                return failure
        return None

    def note(self, error: StorageError) -> None:
        """Keeps what an operation, or an add, has met. Any thread."""
        if isinstance(error, DiskFullError):
            self._is_short = True  # passes: the transaction was rolled back, nothing is lost
        else:
            self.own_failure = self.own_failure or error

    @contextlib.contextmanager
    def _operation(self, turn: threading.Lock) -> Iterator[None]:
        """One blocking operation, when it is its turn: none is begun after a failure, and its own
        failure is kept."""
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
        """Makes everything taken before the call durable in logs and indexes. Blocking.

        DiskFullError: nothing is lost, try again when there is space. Any other StorageError is
        final: `failure` is set.
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
        sequence = self.commit()
        self.journal.trim(sequence)
        for watch in self._spaces:
            watch.measure()
        # Space may also have been freed by others: whoever found none tries again.
        self.journal.stream.look_for_space()
        for directory in self.directories:
            directory.log.stream.look_for_space()
        self._is_short = False
        self.progress.notify()

    def commit(self) -> int:
        """Logs and indexes only; returns the journal number up to which they hold everything.

        For the open, which must not trim what it is replaying; all others come by `checkpoint`.
        """
        captured = self.capture()
        try:
            for directory in self.directories:
                directory.log.stream.request_sync()  # all disks at once; commit waits for each
            for directory, rows in zip(self.directories, captured.directories, strict=True):
                directory.drop_late(rows.rows, self.ledgers.is_deleted)
            routed = self._routed(captured.records)
            for directory, capture, own in zip(
                self.directories, captured.directories, routed, strict=True
            ):
                directory.commit(capture, records=own)
        except BaseException:
            with self.lock:
                self.ledgers.give_back(captured.records)
            raise
        passing("checkpoint: indexes committed, journal not trimmed")
        return captured.sequence

    def _routed(self, records: Iterable[LedgerRecord]) -> list[list[LedgerRecord]]:
        """The records of each directory's ledgers."""
        routed: list[list[LedgerRecord]] = [[] for _ in self.directories]
        for record in records:
            routed[route(record.ledger_id, len(routed))].append(record)
        return routed

    def hasten(self) -> None:
        """Begins a checkpoint before its time, unless one is under way. Never blocks."""
        if self._early is None or not self._early.is_alive():
            self._early = self.disk.start_background("early checkpoint", self._checkpoint_early)

    def _checkpoint_early(self) -> None:
        try:
            self.checkpoint()
        except StorageError as error:
            log.error("early checkpoint failed: %s", error)
            self.progress.notify()

    # ---- marks ----------------------------------------------------------------------------------

    def mark(self, boundary: Boundary, limbo: Iterable[LedgerId], *, unchecked: bool) -> None:
        """Fences all under `boundary` and puts `limbo` in limbo, durable in every directory when
        it returns; with `unchecked`, all under the boundary is to be checked as well.

        Blocking; may be repeated after a crash in the middle (S26). Settles what the open reported.
        """
        with self._operation(self._committing):
            with self.lock:
                marked = [self.ledgers.mark(ledger_id, boundary.epoch) for ledger_id in limbo]
                self.ledgers.cover(boundary, unchecked=unchecked)
            for directory, own in zip(self.directories, self._routed(marked), strict=True):
                facts = replace(
                    directory.facts, fence=self.ledgers.fence, unchecked=self.ledgers.unchecked
                )
                directory.write(facts=facts, records=own)
                passing("boot: one directory of several is marked")
            # Only now: a crash before this line must find the suspicions again.
            self._settle()

    def settle(self) -> None:
        """The boot has dealt with what the open reported: the next one need not say it again.
        Blocking."""
        with self._operation(self._committing):
            self._settle()

    def _settle(self) -> None:
        for directory in self.directories:
            if directory.facts.suspicions:
                directory.write(facts=directory.facts.settled())

    def finish_unchecked(self, epoch: int) -> None:
        """Every ledger under the unchecked boundary of `epoch` (or before) is checked. Blocking."""
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
        """Entries that are gone for good; durable on every disk when it returns. Blocking."""
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
        decision: PersonDecision,
        limbo_since: int | None,
    ) -> EntrySet:
        """Calls these entries lost no more; those that a record named, durably, on every disk.
        Blocking.

        `limbo_since`: the boot that the ledger is marked by, together with that; None: it need not
        be. A crash in the middle leaves records on some disks, which count as all of them: the
        mark is never missing where a record is, and the call may be repeated.
        """
        with self._operation(self._committing):
            named = entries & self.ledgers.losses.get(ledger_id, EMPTY)
            if not named:
                return EMPTY
            marked: list[LedgerRecord] = []
            try:
                with self.lock:
                    # The record first: who sees the mark must not see the record any more.
                    self.ledgers.retract(ledger_id, named)
                    if limbo_since is not None:
                        marked.append(self.ledgers.doubt(ledger_id, limbo_since))
                # The disk of the ledger first, with its mark.
                own = self.directories[route(ledger_id, len(self.directories))]
                for directory in (own, *(one for one in self.directories if one is not own)):
                    directory.write(
                        records=marked if directory is own else (),
                        retracted={ledger_id: named},
                        decisions=[decision],
                    )
            except BaseException:
                with self.lock:
                    self.ledgers.note_losses([Loss(ledger_id, decision.about, named)])
                    self.ledgers.give_back(marked)
                raise
            self.ledgers.note_decisions([decision])
            return named

    def note_decision(self, decision: PersonDecision) -> None:
        """Kept on every disk when it returns. Blocking."""
        with self._operation(self._committing):
            for directory in self.directories:
                directory.write(decisions=[decision])
            self.ledgers.note_decisions([decision])

    def reject(self, ledger_id: LedgerId, entries: EntrySet, wrong: WrongOf) -> EntrySet:
        """The stored copies of these that are `wrong` are no good: from now on unreadable, and
        recovery's adds take their place; which ones, durably, when it returns. Blocking.

        They are looked at here, when nothing else can take their place meanwhile: what was seen
        before may be another copy. The journal lets go of them first: replayed, a copy that
        recovery brought would take the place of itself.
        """
        with self._operation(self._committing):
            self.journal.begin_file()
            self._checkpoint()
            directory = self.directories[route(ledger_id, len(self.directories))]
            return directory.reject(ledger_id, entries, wrong)

    def delete_ledgers(self, ledger_ids: Sequence[LedgerId]) -> None:
        """Drops all runs of these ledgers; a fenced tombstone stays (S40). Blocking, with one
        transaction per directory, however many ledgers."""
        with self._operation(self._committing):
            with self.lock:
                tombstones = [self.ledgers.bury(ledger_id) for ledger_id in ledger_ids]
            for directory, own in zip(self.directories, self._routed(tombstones), strict=True):
                # Loss records lie in every directory, so every directory forgets every ledger.
                directory.forget(ledger_ids, own)

    def revive_ledgers(self, ledger_ids: Sequence[LedgerId], *, epoch: int) -> int:
        """The metadata store names these collected ledgers again: each goes into limbo, marked by
        the boot `epoch`, so that its entries can be put back; how many did, durably. Blocking."""
        with self._operation(self._committing):
            with self.lock:
                tried = [self.ledgers.revive(ledger_id, epoch) for ledger_id in ledger_ids]
            revived = [record for record in tried if record is not None]
            for directory, own in zip(self.directories, self._routed(revived), strict=True):
                if own:
                    directory.write(records=own)
        return len(revived)

    # ---- space ----------------------------------------------------------------------------------

    def compact_some(self) -> CompactReport | None:
        """Frees log files that are mostly dead: copies what lives, then deletes them. Blocking.

        A piece at a time, of about `compaction.SLICE_BYTES`; None when there is no more to do. What
        lies between two calls is the caller's: a piece that never comes costs what was copied.
        """
        with self._operation(self._compacting):
            self._compaction = self._compaction or self._compact()
            # After an error it has ended, too: the next call begins another one.
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
        """Of the journal directory, then of the ledger directories. Blocking, measured now."""
        logs = [0, *(sum(f.size_bytes for f in each.log.files()) for each in self.directories)]
        return [
            watch.usage(log_bytes=log_bytes)
            for watch, log_bytes in zip(self._spaces, logs, strict=True)
        ]

    @property
    def is_full(self) -> bool:
        """Take no normal adds: too little space on a disk. Recovery adds may still fit."""
        return (
            self._is_short
            or any(watch.is_full for watch in self._spaces)
            or self.journal.stream.is_full
            or any(directory.log.stream.is_full for directory in self.directories)
        )

    # ---- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Final checkpoint, then everything is ended. Blocking.

        Raises when anything failed: not all that was taken is known to be on disk.
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
    """Closes every part whatever the others say; the first failure."""
    first: StorageError | None = None
    for part in parts:
        try:
            part.close()
        except StorageError as error:
            first = first or error
    return first
