"""Records of all ledgers, boundaries and losses in memory, for the ruling on every request.

Any thread may look up without a lock (each lookup is one read of a dict or a field). While the
storage is open, records, losses and the fence boundary are changed only with its lock held. The
unchecked boundary is one value, and one operation of `maintenance` at a time changes it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from bookie.ids import LedgerId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.storage.decisions import PersonDecision, newest
from bookie.storage.index import Loss
from bookie.storage.permits import AddPermits
from bookie.storage.records import Boundary, LedgerRecord, union


class Ledgers:
    """The state of all ledgers: the sum of the indexes, the journal and this boot's marks."""

    def __init__(self) -> None:
        self.permits: Final = AddPermits()
        """Permits; whatever changes a record or a boundary drops them: `_put` and the setters of
        `fence` and `unchecked`."""
        self._records: dict[LedgerId, LedgerRecord] = {}
        """The records by ledger; the same dict as `records`."""
        self.records: Final[Mapping[LedgerId, LedgerRecord]] = MappingProxyType(self._records)
        """The current records, durable or not, including tombstones. Records are immutable; only
        `_put` replaces them."""
        self.losses: dict[LedgerId, EntrySet] = {}
        """Entries with a durable loss record, by ledger; a tombstone has none."""
        self.decisions: tuple[PersonDecision, ...] = ()
        """The newest decisions of people, oldest first; durable."""
        self._fence: Boundary | None = None
        """See the property `fence`."""
        self._unchecked: Boundary | None = None
        """See the property `unchecked`."""
        self.dirty: set[LedgerId] = set()
        """Ledgers whose present record is not in the index yet."""
        self._limbo: set[LedgerId] = set()
        """The ledgers whose record says limbo: usually few of many, and every probe asks for
        them."""
        self._noted: set[LedgerId] = set()
        """The ledgers whose record is noted; a flush looks at each of them."""

    def _check(self) -> None:
        """Assert the invariants, with the storage's lock held; only for tests, as it looks at every
        record.
        """
        assert self._limbo == {i for i, record in self.records.items() if record.limbo}
        assert self._noted == {i for i, record in self.records.items() if record.noted}
        assert self.dirty <= self.records.keys()

    def merge(self, record: LedgerRecord) -> LedgerRecord:
        """Merge a record into the known one; returns the result."""
        known = self.records.get(record.ledger_id)
        merged = record if known is None else known.merged(record)
        if merged != known:
            self._put(merged)
            self.dirty.add(record.ledger_id)
        return merged

    def mark(self, ledger_id: LedgerId, epoch: int) -> LedgerRecord:
        """Put a ledger into limbo by a mark of the boot `epoch`; the caller makes it durable."""
        known = self.records.get(ledger_id) or LedgerRecord(ledger_id)
        marked = known.marked(epoch)
        self._put(marked)
        return marked

    @property
    def fence(self) -> Boundary | None:
        """The union of the fence boundaries of all boots that may have lost fences, never lowered;
        None when there was none.
        """
        return self._fence

    @fence.setter
    def fence(self, boundary: Boundary | None) -> None:
        self._fence = boundary
        self.permits.drop_all()

    @property
    def unchecked(self) -> Boundary | None:
        """The boundary of ledgers that may be unchecked; None once all under it are checked."""
        return self._unchecked

    @unchecked.setter
    def unchecked(self, boundary: Boundary | None) -> None:
        self._unchecked = boundary
        self.permits.drop_all()

    def _put(self, record: LedgerRecord) -> None:
        self._records[record.ledger_id] = record
        self.permits.drop(record.ledger_id)
        if record.limbo:
            self._limbo.add(record.ledger_id)
        else:
            self._limbo.discard(record.ledger_id)
        if record.noted:
            self._noted.add(record.ledger_id)
        else:
            self._noted.discard(record.ledger_id)

    def take_back_note(self, ledger_id: LedgerId) -> None:
        """Take back the ledger's note; the next checkpoint makes that durable. The caller has
        seen, with the lock held, that an index has everything of the ledger.
        """
        self._put(replace(self.records[ledger_id], noted=False))
        self.dirty.add(ledger_id)

    @property
    def marked_epoch(self) -> int:
        """The highest epoch of a boot whose marks are here, or were, 0 when there was none."""
        boundaries = (one.epoch for one in (self._fence, self._unchecked) if one is not None)
        records = (max(r.mark_epoch, r.checked_epoch) for r in self._records.values())
        return max(0, *boundaries, max(records, default=0))

    def is_deleted(self, ledger_id: LedgerId) -> bool:
        record = self.records.get(ledger_id)
        return record is not None and record.deleted

    def deleted(self) -> frozenset[LedgerId]:
        return frozenset(r.ledger_id for r in list(self.records.values()) if r.deleted)

    def limbo(self) -> list[LedgerId]:
        return sorted(self._limbo.copy())

    def noted(self) -> list[LedgerId]:
        """In no order; in the event loop's thread or with the lock held."""
        return list(self._noted)

    @property
    def noted_count(self) -> int:
        return len(self._noted)

    def is_unchecked(self, ledger_id: LedgerId) -> bool:
        boundary = self.unchecked
        if boundary is None or not boundary.covers(ledger_id):
            return False
        record = self.records.get(ledger_id)
        return record is None or record.checked_epoch < boundary.epoch

    def cover(self, boundary: Boundary, *, fences_lost: bool) -> None:
        """Add a boundary of ledgers that existed at an unclean boot: all of them need a check, and
        they are fenced forever if their fences may be lost.
        """
        self.unchecked = union([self.unchecked, boundary])
        if fences_lost:
            self.fence = union([self.fence, boundary])

    def finish_unchecked(self, epoch: int) -> None:
        if self.unchecked is not None and self.unchecked.epoch <= epoch:
            self.unchecked = None

    def bury(self, ledger_id: LedgerId) -> LedgerRecord:
        """Replace a ledger's record by a tombstone, without limbo. Its loss records stay until no
        disk has them (`forget_losses`).
        """
        record = self.records.get(ledger_id) or LedgerRecord(ledger_id)
        return self.merge(replace(record, limbo=False, deleted=True))

    def revived(self, ledger_id: LedgerId, epoch: int) -> LedgerRecord | None:
        """A tombstone as a ledger in limbo; None when there is no tombstone or it must stay. The
        caller makes the record durable, and merges it then: what a bookie took meanwhile for a
        ledger that is a tombstone on the disk, the next open would drop.
        """
        known = self.records.get(ledger_id)
        if known is None or not known.deleted:
            return None
        revived = known.marked(max(epoch, known.mark_epoch))
        return None if revived.deleted else revived

    def note_losses(self, losses: Iterable[Loss]) -> None:
        for loss in losses:
            self.losses[loss.ledger_id] = self.losses.get(loss.ledger_id, EMPTY) | loss.entries

    def forget_losses(self, ledger_ids: Iterable[LedgerId]) -> None:
        for ledger_id in ledger_ids:
            self.losses.pop(ledger_id, None)

    def retract(self, ledger_id: LedgerId, entries: EntrySet) -> None:
        left = self.losses.get(ledger_id, EMPTY) - entries
        if left:
            self.losses[ledger_id] = left
        else:
            self.losses.pop(ledger_id, None)

    def doubt(self, ledger_id: LedgerId, epoch: int) -> LedgerRecord:
        """Put a ledger into limbo by a mark that outlives every earlier judgement, also one of the
        boot `epoch`; the caller makes it durable.
        """
        known = self.records.get(ledger_id) or LedgerRecord(ledger_id)
        doubted = known.doubted(max(epoch, known.mark_epoch))
        self._put(doubted)
        return doubted

    def note_decisions(self, decisions: Iterable[PersonDecision]) -> None:
        self.decisions = newest((self.decisions, decisions))

    def take_dirty(self) -> list[LedgerRecord]:
        """Return the records to commit; they count as clean from now on, unless `give_back` is
        called.
        """
        taken, self.dirty = self.dirty, set()
        return [self.records[ledger_id] for ledger_id in taken]

    def give_back(self, records: Iterable[LedgerRecord]) -> None:
        """Count these records as dirty again, as their commit failed."""
        self.dirty.update(record.ledger_id for record in records)
