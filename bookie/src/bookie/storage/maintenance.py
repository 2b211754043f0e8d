"""What a storage does beside adds and reads, blocking: checkpoints, marks, deletions.

A checkpoint captures the ends of the logs, the rows in memory, the changed records and the number
of the journal at one instant, syncs the logs, commits each index with the end of its log, and only
then trims the journal. Marks, losses and deletions go straight into the indexes; the maintenance
lock keeps checkpoints out meanwhile, so no older state is ever committed over a newer one.
"""

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from bookie.errors import DiskFullError, StorageError
from bookie.ids import LedgerId
from bookie.points import passing
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.storage.compaction import CompactReport, compact_directory
from bookie.storage.directory import LedgerDirectory
from bookie.storage.index import Loss
from bookie.storage.journal import Journal
from bookie.storage.ledgers import Ledgers
from bookie.storage.progress import Progress
from bookie.storage.records import Boundary, LedgerRecord
from bookie.storage.routing import route
from bookie.storage.space import SpaceWatch


class Upkeep:
    """Blocking operations on all directories. Any thread; not the event loop's."""

    def __init__(
        self,
        directories: Sequence[LedgerDirectory],
        *,
        journal: Journal,
        ledgers: Ledgers,
        lock: threading.Lock,
        progress: Progress,
        spaces: Sequence[SpaceWatch],
    ) -> None:
        """`lock` guards the state in memory and is never held over a disk."""
        self._directories = directories
        self._journal = journal
        self._ledgers = ledgers
        self._lock = lock
        self._progress = progress
        self._spaces = spaces
        self._maintenance = threading.Lock()
        self._compacting = threading.Lock()
        self._compaction: Iterator[CompactReport] | None = None
        """The one under way; changed with `_compacting` held."""
        self.own_failure: StorageError | None = None
        """What a blocking operation met; `failure` knows those of log and journal as well."""
        self._closed = False
        self.is_short = False
        """A disk had no space for what had to be written; until a checkpoint succeeds."""
        self.unflushed_bytes = 0
        """Appended since the last capture; changed with the lock held."""

    # ---- failures -------------------------------------------------------------------------------

    @property
    def failure(self) -> StorageError | None:
        """Sticky: a disk failed, nothing is promised any more."""
        # Without a list of all: asked before every answer.
        failure = self.own_failure or self._journal.failure()
        if failure is not None:
            return failure
        for directory in self._directories:
            if (failure := directory.log.failure()) is not None:
                return failure
        return None

    @contextlib.contextmanager
    def _operation(self) -> Iterator[None]:
        """One blocking operation: none is begun after a failure, and its own failure is kept."""
        if (failure := self.failure) is not None:
            raise failure
        if self._closed:
            raise StorageError("the storage is closed")
        try:
            yield
        except StorageError as error:
            if isinstance(error, DiskFullError):
                self.is_short = True  # passes: the transaction was rolled back, nothing is lost
            else:
                self.own_failure = self.own_failure or error
            self._progress.notify()
            raise

    # ---- checkpoints ----------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """See Storage.checkpoint."""
        with self._maintenance, self._operation():
            self._checkpoint()

    def _checkpoint(self) -> None:
        sequence = self.commit()
        self._journal.trim(sequence)
        for watch in self._spaces:
            watch.measure()
        # Space may also have been freed by others: whoever found none tries again.
        self._journal.look_for_space()
        for directory in self._directories:
            directory.log.look_for_space()
        self.is_short = False
        self._progress.notify()

    def commit(self) -> int:
        """Logs and indexes only; returns the journal number up to which they hold everything.

        For the open, which must not trim what it is replaying; all others come by `checkpoint`.
        """
        with self._lock:
            sequence = self._journal.last_sequence()
            records = self._ledgers.take_dirty()
            captures = [directory.capture() for directory in self._directories]
            self.unflushed_bytes = 0
        try:
            for directory in self._directories:
                directory.log.request_sync()  # all disks at once; commit waits for each
            for directory, capture in zip(self._directories, captures, strict=True):
                directory.drop_late(capture.rows, self._ledgers.is_deleted)
            routed = self._routed(records)
            for directory, capture, own in zip(self._directories, captures, routed, strict=True):
                directory.commit(capture, records=own)
        except BaseException:
            with self._lock:
                self._ledgers.give_back(records)
            raise
        passing("checkpoint: indexes committed, journal not trimmed")
        return sequence

    def _routed(self, records: Iterable[LedgerRecord]) -> list[list[LedgerRecord]]:
        """The records of each directory's ledgers."""
        routed: list[list[LedgerRecord]] = [[] for _ in self._directories]
        for record in records:
            routed[route(record.ledger_id, len(routed))].append(record)
        return routed

    # ---- marks ----------------------------------------------------------------------------------

    def mark(self, boundary: Boundary, limbo: Iterable[LedgerId], *, unchecked: bool) -> None:
        """See Storage.mark."""
        with self._maintenance, self._operation():
            with self._lock:
                marked = [self._ledgers.mark(ledger_id, boundary.epoch) for ledger_id in limbo]
                self._ledgers.cover(boundary, unchecked=unchecked)
            for directory, own in zip(self._directories, self._routed(marked), strict=True):
                facts = replace(
                    directory.facts, fence=self._ledgers.fence, unchecked=self._ledgers.unchecked
                )
                directory.write(facts=facts, records=own)
                passing("boot: one directory of several is marked")
            # Only now: a crash before this line must find the suspicions again.
            self._settle()

    def settle(self) -> None:
        """See Storage.settle."""
        with self._maintenance, self._operation():
            self._settle()

    def _settle(self) -> None:
        for directory in self._directories:
            if directory.facts.suspicions:
                directory.write(facts=directory.facts.settled())

    def finish_unchecked(self, epoch: int) -> None:
        """See Storage.finish_unchecked."""
        with self._maintenance, self._operation():
            for directory in self._directories:
                unchecked = directory.facts.unchecked
                if unchecked is not None and unchecked.epoch <= epoch:
                    directory.write(facts=replace(directory.facts, unchecked=None))
            self._ledgers.finish_unchecked(epoch)

    # ---- losses and deletions -------------------------------------------------------------------

    def record_loss(self, ledger_id: LedgerId, lost: EntrySet, *, reason: str) -> None:
        """See Storage.record_loss."""
        with self._maintenance, self._operation():
            fresh = lost - self._ledgers.losses.get(ledger_id, EMPTY)
            if not fresh:
                return
            loss = Loss(ledger_id, reason, fresh)
            for directory in self._directories:
                directory.write(losses=[loss])
            with self._lock:
                self._ledgers.note_losses([loss])

    def reject(self, ledger_id: LedgerId, entries: EntrySet) -> None:
        """See Storage.reject."""
        with self._maintenance, self._operation():
            self._directories[route(ledger_id, len(self._directories))].reject(ledger_id, entries)

    def delete_ledgers(self, ledger_ids: Sequence[LedgerId]) -> None:
        """See Storage.delete_ledgers."""
        with self._maintenance, self._operation():
            with self._lock:
                tombstones = [self._ledgers.bury(ledger_id) for ledger_id in ledger_ids]
            for directory, own in zip(self._directories, self._routed(tombstones), strict=True):
                # Loss records lie in every directory, so every directory forgets every ledger.
                directory.forget(ledger_ids, own)

    def revive_ledgers(self, ledger_ids: Sequence[LedgerId], epoch: int) -> int:
        """See Storage.revive_ledgers."""
        with self._maintenance, self._operation():
            with self._lock:
                tried = [self._ledgers.revive(ledger_id, epoch) for ledger_id in ledger_ids]
            revived = [record for record in tried if record is not None]
            for directory, own in zip(self._directories, self._routed(revived), strict=True):
                if own:
                    directory.write(records=own)
        return len(revived)

    # ---- space and the end ----------------------------------------------------------------------

    def compact_some(self, *, live_below: float) -> CompactReport | None:
        """See Storage.compact_some. Checkpoints go on meanwhile."""
        with self._compacting, self._operation():
            self._compaction = self._compaction or self._compact(live_below)
            # After an error it has ended, too: the next call begins another one.
            compaction, self._compaction = self._compaction, None
            done = next(compaction, None)
            if done is not None:
                self._compaction = compaction
        if done is not None and done.files_deleted:
            self._progress.notify()
        return done

    def _compact(self, live_below: float) -> Iterator[CompactReport]:
        for directory in self._directories:
            yield from compact_directory(directory, live_below=live_below, lock=self._lock)

    def close(self) -> None:
        """See Storage.close."""
        with self._compacting, self._maintenance:
            if self._closed:
                return
            failure = self.failure
            if failure is None:
                try:
                    self._checkpoint()
                except StorageError as error:
                    failure = error
            self._closed = True
            closing = close_all([*self._directories, self._journal])  # also after a failure
            failure = failure or closing
            self._progress.notify()
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
