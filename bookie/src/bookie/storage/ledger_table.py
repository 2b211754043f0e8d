"""Records of all ledgers, boundaries and losses in memory: what admission asks on every request.

Lookups come from any thread without a lock (one read of a dict or a field each). While the storage
is open, records, losses and the fence boundary are changed with its lock held; the unchecked
boundary is one value, changed by one operation of `maintenance` at a time.
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
    """The state that the indexes, the journal and this boot's marks add up to."""

    def __init__(self) -> None:
        self.permits: Final = AddPermits()
        """Dropped by all that puts a record or the boundary: `_put` and the setter of `fence`."""
        self._records: dict[LedgerId, LedgerRecord] = {}
        """Durable facts of ledgers that have any, as on the disk."""
        self.records: Final[Mapping[LedgerId, LedgerRecord]] = MappingProxyType(self._records)
        """The current state, durable or not, tombstones included: values, replaced and never
        changed, by `_put` alone."""
        self.losses: dict[LedgerId, EntrySet] = {}
        """Entries recorded as lost, durably; none of a tombstone."""
        self.decisions: tuple[PersonDecision, ...] = ()
        """What people decided last, oldest first; durable."""
        self._fence: Boundary | None = None
        """What the last unclean boot fenced; None: it fenced nothing."""
        self.unchecked: Boundary | None = None
        """The fence boundary until everything under it is checked: then None."""
        self.dirty: set[LedgerId] = set()
        """Records that no index has in their present state."""
        self._limbo: set[LedgerId] = set()
        """Those whose record says so: asked on every probe, and few of many."""

    def _check(self) -> None:
        """With the storage's lock held. Looks at every record: for tests."""
        assert self._limbo == {i for i, record in self.records.items() if record.limbo}
        assert self.dirty <= self.records.keys()
        assert all(record.fenced for record in self.records.values() if record.deleted)
        assert self.unchecked is None or self.fence is not None

    def merge(self, record: LedgerRecord) -> LedgerRecord:
        """Merges a state into what is known; the result."""
        known = self.records.get(record.ledger_id)
        merged = record if known is None else known.merged(record)
        if merged != known:
            self._put(merged)
            self.dirty.add(record.ledger_id)
        return merged

    def mark(self, ledger_id: LedgerId, epoch: int) -> LedgerRecord:
        """In limbo since the boot `epoch`; the caller makes it durable."""
        known = self.records.get(ledger_id) or LedgerRecord(ledger_id)
        marked = known.marked(epoch)
        self._put(marked)
        return marked

    @property
    def fence(self) -> Boundary | None:
        """Union of the boundaries of all unclean boots, never lowered; None when there was none."""
        return self._fence

    @fence.setter
    def fence(self, boundary: Boundary | None) -> None:
        self._fence = boundary
        self.permits.drop_all()

    def _put(self, record: LedgerRecord) -> None:
        self._records[record.ledger_id] = record
        self.permits.drop(record.ledger_id)
        if record.limbo:
            self._limbo.add(record.ledger_id)
        else:
            self._limbo.discard(record.ledger_id)

    def is_deleted(self, ledger_id: LedgerId) -> bool:
        record = self.records.get(ledger_id)
        return record is not None and record.deleted

    def deleted(self) -> frozenset[LedgerId]:
        return frozenset(r.ledger_id for r in list(self.records.values()) if r.deleted)

    def limbo(self) -> list[LedgerId]:
        return sorted(self._limbo.copy())

    def is_unchecked(self, ledger_id: LedgerId) -> bool:
        boundary = self.unchecked
        if boundary is None or not boundary.covers(ledger_id):
            return False
        record = self.records.get(ledger_id)
        return record is None or record.checked_epoch < boundary.epoch

    def cover(self, boundary: Boundary, *, unchecked: bool) -> None:
        """All under it existed at an unclean boot; with `unchecked`, all is to be checked."""
        self.fence = union([self.fence, boundary])
        if unchecked:
            self.unchecked = union([self.unchecked, boundary])

    def finish_unchecked(self, epoch: int) -> None:
        if self.unchecked is not None and self.unchecked.epoch <= epoch:
            self.unchecked = None

    def bury(self, ledger_id: LedgerId) -> LedgerRecord:
        """Leaves a fenced tombstone; the ledger is in no limbo any more and nothing of it lost."""
        record = self.records.get(ledger_id) or LedgerRecord(ledger_id)
        self.losses.pop(ledger_id, None)
        return self.merge(replace(record, fenced=True, limbo=False, deleted=True))

    def revive(self, ledger_id: LedgerId, epoch: int) -> LedgerRecord | None:
        """The tombstone gives way to a ledger in limbo, for the caller to make durable; None when
        there is none, or when it stays."""
        known = self.records.get(ledger_id)
        if known is None or not known.deleted:
            return None
        revived = known.marked(max(epoch, known.mark_epoch))
        if revived.deleted:
            return None
        self._put(revived)
        return revived

    def note_losses(self, losses: Iterable[Loss]) -> None:
        for loss in losses:
            self.losses[loss.ledger_id] = self.losses.get(loss.ledger_id, EMPTY) | loss.entries

    def retract(self, ledger_id: LedgerId, entries: EntrySet) -> None:
        left = self.losses.get(ledger_id, EMPTY) - entries
        if left:
            self.losses[ledger_id] = left
        else:
            self.losses.pop(ledger_id, None)

    def doubt(self, ledger_id: LedgerId, epoch: int) -> LedgerRecord:
        """In limbo by a mark that outlives every judgement made before it, also one of the boot
        `epoch`; the caller makes it durable."""
        known = self.records.get(ledger_id) or LedgerRecord(ledger_id)
        doubted = known.doubted(max(epoch, known.mark_epoch))
        self._put(doubted)
        return doubted

    def note_decisions(self, decisions: Iterable[PersonDecision]) -> None:
        self.decisions = newest((self.decisions, decisions))

    def take_dirty(self) -> list[LedgerRecord]:
        """The records to commit; they are clean from now on, unless given back."""
        taken, self.dirty = self.dirty, set()
        return [self.records[ledger_id] for ledger_id in taken]

    def give_back(self, records: Iterable[LedgerRecord]) -> None:
        """Their commit failed."""
        self.dirty.update(record.ledger_id for record in records)
