"""One ledger directory: its log, its index, and the rows in memory between them.

The path of an add: `add` puts it into the log's ring and the memtable, under the storage's lock ->
`capture` freezes the memtable and reads the end of the log at one instant -> `commit` syncs the
log, then puts the rows and that end into the index in one transaction. After a crash the next start
scans the log from that end on.

Thread rules: a caller of a method that says "locked" holds the storage's lock, and the method
touches only memory. All other methods take that lock themselves, briefly, and may block on the
disk.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bookie.errors import CorruptError, StorageError
from bookie.frames.entry import Buffer
from bookie.frames.frame import RunFrame, parse_run
from bookie.ids import EntryId, LedgerId
from bookie.points import passing
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.storage.decisions import PersonDecision
from bookie.storage.disk import Disk, remove_database
from bookie.storage.facts import DirectoryFacts
from bookie.storage.index import INDEX_NAME, Batch, Index, LedgerEnd, Loss
from bookie.storage.index_rows import RunRow, entries_of, holding, row_of, rows_to_read
from bookie.storage.ledger_log import LedgerLog
from bookie.storage.log_files import LogSettings
from bookie.storage.log_scan import Position
from bookie.storage.memtable import Memtable
from bookie.storage.reading import RangeRead, StoredRead, cut, part_of, read_frame
from bookie.storage.records import LedgerRecord

OLD_SUFFIX: Final = ".old"
FRESH_SUFFIX: Final = ".new"
"""Suffixes of the index that a rebuild has replaced, and of the one that it is making. If either
exists and there is no index, a rebuild was interrupted."""

WrongOf = Callable[[RunFrame], EntrySet]
"""Returns which entries of a parsed frame are corrupt all the same."""

_MOVED_RETRIES: Final = 3
"""How often one read follows a frame that compaction moves meanwhile."""


@dataclass(frozen=True, slots=True)
class Capture:
    """The state of one directory that a checkpoint commits, taken at one instant."""

    indexed_to: tuple[int, int]
    rows: Memtable


class LedgerDirectory:
    """Log and index of one disk."""

    def __init__(self, path: Path, *, index: Index, log: LedgerLog, lock: threading.Lock) -> None:
        """Use `open`."""
        self.path: Final = path
        self.index: Final = index
        self.log: Final = log
        self._lock = lock
        self._active = Memtable()
        """Rows added since the last capture."""
        self._frozen: Memtable | None = None
        """Rows that a checkpoint is committing or has failed to commit; None between two
        checkpoints."""
        self.facts = DirectoryFacts.decode(index.facts())
        """The facts as they are in the index; one commit at a time changes them
        (`Maintenance._committing`)."""
        self._ends = index.ledger_ends()
        """The end of every ledger with a row in memory or in the index."""
        self.has_garbage = True
        """True when log files may hold garbage since the last compaction (unknown after an
        open)."""

    def _check(self) -> None:
        """Locked. Assert the invariants; only for tests, as it looks at every row in memory."""
        for table in filter(None, (self._active, self._frozen)):
            assert table.count == sum(len(rows.rows) for rows in table.ledgers.values())
            for ledger_id, rows in table.ledgers.items():
                end = self._ends[ledger_id]
                assert rows.last <= end.last and rows.lac <= end.lac
                assert rows.rows == sorted(rows.rows)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        disk: Disk,
        settings: LogSettings,
        lock: threading.Lock,
        notify: Callable[[], None],
    ) -> "LedgerDirectory":
        """Open or create log and index, without a scan. CorruptError when the index is gone."""
        disk.make_directory(path)
        index_path = path / INDEX_NAME
        is_new = not disk.exists(index_path)
        log = LedgerLog.open(path, disk=disk, settings=settings, notify=notify)
        try:
            rebuilt = [path / (INDEX_NAME + suffix) for suffix in (OLD_SUFFIX, FRESH_SUFFIX)]
            was_used = log.has_files or any(map(disk.exists, rebuilt))
            if is_new and was_used:
                raise CorruptError(
                    f"{index_path} is missing though the directory was in use: what was stored is "
                    f"unknown; run `bookie index rebuild` for {path}"
                )
            index = Index.open(index_path, disk=disk, is_owner=True, may_create=not was_used)
            try:
                disk.sync_directory(path)  # the index keeps its name whatever goes below
                opened = cls(path, index=index, log=log, lock=lock)
                for left in rebuilt:  # of a rebuild that missed its last step
                    remove_database(disk, left)
                return opened
            except BaseException:
                index.close()
                raise
        except BaseException:
            log.close()
            raise

    def recover(self, *, deleted: Collection[LedgerId]) -> int:
        """Make the rows of the frames behind the last checkpoint, from the log; returns how many
        frames.

        Afterwards all these frames are durable, and `log.torn` says whether the log ends in half a
        frame. CorruptError when synced frames are gone. Call it before the first append.
        """
        found, is_behind = 0, False
        for position, frame in self.log.scan(self.facts.indexed_to):
            is_behind = True
            if frame.ledger_id not in deleted:
                self.note(frame, position)
                found += 1
        if is_behind:
            self.log.write_again(self.facts.indexed_to)
        return found

    # ---- adding ---------------------------------------------------------------------------------

    def add(self, frame: RunFrame) -> Position | None:
        """Locked. Append a frame and make it readable; None when the log has no room now."""
        position = self.log.append(frame.buffer)
        if position is not None:
            self.note(frame, position)
        return position

    def keeps(self, frame: RunFrame) -> bool:
        """Locked. True when memory already holds all entries of this recovery frame, from recovery
        adds that wait for the next checkpoint.

        That checkpoint would drop a second copy, so the frame need not be stored. Only frames in
        memory count, as they are surely good without a look at a disk. Frames of the writer do not
        count: a checkpoint drops them if there is an older copy, even a bad one.
        """
        first, last = frame.first_entry_id, frame.last_entry_id
        rows = self._active.overlapping(frame.ledger_id, first=first, last=last)
        kept = [row for row in rows if row.is_recovery and self.log.is_in_memory(row.position)]
        if frame.count == 1:
            return any(row.holds(first) for row in kept)
        wanted = EntrySet.from_runs([(first, frame.count, frame.pattern)])
        return bool(kept) and not wanted - entries_of(kept)

    def note(self, frame: RunFrame, position: Position) -> None:
        """Locked. Add the row of a frame that lies at `position`."""
        ledger_id, lac, row = frame.ledger_id, frame.lac, row_of(frame, position)
        self._active.put(ledger_id, row, lac)
        end = self._ends.get(ledger_id)
        if end is None:
            end = self._ends[ledger_id] = LedgerEnd()
        if row.last > end.last:
            end.last = EntryId(row.last)
        if lac > end.lac:
            end.lac = lac

    def has_unsynced(self, ledger_id: LedgerId) -> bool:
        """Locked. True when a row of the ledger is in memory, so that no index has it yet."""
        frozen = self._frozen
        return ledger_id in self._active.ledgers or (
            frozen is not None and ledger_id in frozen.ledgers
        )

    @property
    def pending_rows(self) -> int:
        """Rows added since the last capture."""
        return self._active.count

    @property
    def rows_in_memory(self) -> int:
        """Rows not committed yet."""
        frozen = self._frozen
        return self._active.count + (frozen.count if frozen is not None else 0)

    def end_of(self, ledger_id: LedgerId) -> LedgerEnd | None:
        """The end of a ledger, None when nothing of it is here. Cheap, and callable from any
        thread.
        """
        return self._ends.get(ledger_id)

    def ledger_ids(self) -> list[LedgerId]:
        return list(self._ends)

    # ---- reading --------------------------------------------------------------------------------

    def read(self, ledger_id: LedgerId, *, first: int, last: int, bytes_max: int) -> StoredRead:
        """See Storage.read."""
        rows, horizon = self._lookup(ledger_id, first, last, bytes_max=bytes_max)

        def fetch(row: RunRow) -> Buffer | None:
            frame = self._fetch(ledger_id, row)
            if frame is not None and row.entry_count < frame.count:
                # The frame's other entries belong to other rows, or do not count: they were
                # rejected, or were here before.
                frame = parse_run(part_of(frame, row))
            return cut(frame, first=first, last=horizon) if frame is not None else None

        reading = RangeRead(first=first, last=horizon, bytes_max=bytes_max, fetch=fetch)
        return reading.collect(rows)

    def _lookup(
        self, ledger_id: LedgerId, first: int, last: int, *, bytes_max: float = inf
    ) -> tuple[list[RunRow], int]:
        """Rows that may hold ids of the range, and the id up to which these rows are complete."""
        # Look in memory before the index: then a row that a checkpoint moves meanwhile is seen
        # twice, not missed.
        with self._lock:
            rows = self._active.overlapping(ledger_id, first=first, last=last)
            if self._frozen is not None:
                rows += self._frozen.overlapping(ledger_id, first=first, last=last)
        # Take from memory and from the index no more than fills one read: a long range takes
        # several reads.
        rows, horizon = rows_to_read(sorted(rows), first=first, last=last, bytes_max=bytes_max)
        stored, indexed = self.index.rows_to_read(
            ledger_id, first=first, last=horizon, bytes_max=bytes_max
        )
        return rows + stored, indexed

    def _fetch(self, ledger_id: LedgerId, row: RunRow) -> RunFrame | None:
        for _ in range(_MOVED_RETRIES):
            frame = read_frame(self.log, ledger_id, row)
            if frame is not None:
                return frame
            moved = self._moved(ledger_id, row)
            if moved is None:
                break
            row = moved
        return None

    def _moved(self, ledger_id: LedgerId, row: RunRow) -> RunRow | None:
        """The row as compaction has changed it, None when it still points to the same place."""
        stored = self.index.rows(ledger_id, first=row.first, last=row.first)
        same = (now for now in stored if now.first == row.first and now.last == row.last)
        return next((now for now in same if now.position != row.position), None)

    def is_readable(self, ledger_id: LedgerId, row: RunRow) -> bool:
        """True when the row's frame can be read and is the right one."""
        return read_frame(self.log, ledger_id, row) is not None

    def held(self, ledger_id: LedgerId) -> EntrySet:
        """See Storage.held."""
        with self._lock:
            rows = self._active.rows(ledger_id)
            if self._frozen is not None:
                rows += self._frozen.rows(ledger_id)
        return holding(rows + self.index.all_rows(ledger_id))

    def lacks(self, frame: RunFrame) -> bool:
        """True when an entry of the frame is not stored, or only as a bad copy: rejected or
        unreadable.

        Bad copies count as missing only for recovery frames, since only those replace them.
        """
        wanted = EntrySet.from_runs([(frame.first_entry_id, frame.count, frame.pattern)])
        rows, horizon = self._lookup(
            frame.ledger_id, frame.first_entry_id, int(frame.last_entry_id)
        )
        if horizon < frame.last_entry_id:
            return True
        if not frame.is_recovery:
            return bool(wanted - entries_of(rows))
        # For a recovery frame an unreadable copy is the same as a rejected one.
        judged = [r if self.is_readable(frame.ledger_id, r) else r.rejected() for r in rows]
        return bool(wanted - holding(judged))

    # ---- checkpoints ----------------------------------------------------------------------------

    def capture(self) -> Capture:
        """Locked. Freeze the rows in memory, together with those of a failed checkpoint, if there
        are any.
        """
        if self._frozen is None:
            self._frozen = self._active
        else:
            self._frozen.absorb(self._active)
        self._active = Memtable()
        end = self.log.end()
        return Capture((end.file_id, end.offset), self._frozen)

    def commit(
        self, capture: Capture, *, records: Sequence[LedgerRecord], sequence: int | None
    ) -> None:
        """Sync the log, then commit the capture, with which the index has all up to the journal's
        record `sequence` (None: unknown). After an error all rows are kept: try again.
        """
        if capture.indexed_to != self.facts.indexed_to:
            self.log.stream.sync()  # the next scan demands every byte before this position
            passing("checkpoint: log synced, index not committed")
        facts = self.facts.with_position(capture.indexed_to, sequence=sequence)
        if capture.rows.count or records or facts != self.facts:
            dead = self.index.commit(
                Batch(rows=capture.rows.ledgers, records=records, facts=facts.encode()),
                is_readable=self.is_readable,
            )
            # Of files that lie behind it only now a compaction has looked at none.
            has_passed_file = facts.indexed_to[0] != self.facts.indexed_to[0]
            self.has_garbage = self.has_garbage or dead > 0 or has_passed_file
            self.facts = facts
        with self._lock:
            self._frozen = None

    def write(
        self,
        *,
        facts: DirectoryFacts | None = None,
        records: Sequence[LedgerRecord] = (),
        losses: Sequence[Loss] = (),
        retracted: Mapping[LedgerId, EntrySet] = MappingProxyType({}),
        decisions: Sequence[PersonDecision] = (),
    ) -> None:
        """Commit these in one transaction. The caller keeps checkpoints out meanwhile."""
        after = facts or self.facts
        self.index.commit(
            Batch(
                records=records,
                losses=losses,
                facts=after.encode(),
                retracted=retracted,
                decisions=decisions,
            ),
            is_readable=self.is_readable,
        )
        self.facts = after

    def reject(self, ledger_id: LedgerId, entries: EntrySet, wrong: WrongOf) -> EntrySet:
        """Reject, durably, those stored copies of `entries` that are `wrong`; returns their ids.

        The caller has committed the rows in memory and keeps checkpoints out.
        """
        found = EMPTY
        for row in self.index.rows(ledger_id, first=entries.first, last=entries.last):
            asked = row.entries() & entries
            if not asked or row.is_rejected:
                continue
            frame = self._fetch(ledger_id, row)
            if frame is not None:
                found |= asked & wrong(frame)
        if found:
            self.index.reject(ledger_id, found)
            self.has_garbage = True
        return found

    def forget(self, ledger_ids: Sequence[LedgerId], tombstones: Sequence[LedgerRecord]) -> None:
        """Drop the rows of deleted ledgers, durably. The caller keeps checkpoints out."""
        self.index.commit(
            Batch(records=tombstones, forget=ledger_ids), is_readable=self.is_readable
        )
        # Not earlier: an index that had no space for the commit still has the rows.
        self._drop(dict.fromkeys(ledger_ids))
        self.has_garbage = True

    def drop_late(self, rows: Memtable, is_deleted: Callable[[LedgerId], bool]) -> None:
        """Drop the rows of deleted ledgers from those that a checkpoint has captured.

        Such an add was allowed before the ledger was deleted and was stored after that. Under a
        tombstone no code would ever look for its row again. What the index had no space to delete
        stays known: the next collection deletes it. The caller keeps other checkpoints out.
        """
        late = [ledger_id for ledger_id in rows.ledgers if is_deleted(ledger_id)]
        if late:
            self._drop({ledger_id: self.index.end_of(ledger_id) for ledger_id in late})
            self.has_garbage = True

    def _drop(self, left: Mapping[LedgerId, LedgerEnd | None]) -> None:
        """Drop these ledgers' rows in memory. `left`: the end of what the index has of each."""
        with self._lock:
            for ledger_id, end in left.items():
                self._active.drop(ledger_id)
                if self._frozen is not None:
                    self._frozen.drop(ledger_id)
                if end is None:
                    self._ends.pop(ledger_id, None)
                else:
                    self._ends[ledger_id] = end

    def close(self) -> None:
        """Flush, sync and close the log, and close the index; raises the first failure."""
        failures = []
        for part in (self.log, self.index):
            try:
                part.close()
            except StorageError as error:
                failures.append(error)
        if failures:
            raise failures[0]
