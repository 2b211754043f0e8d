"""Collects ledgers that were deleted from the metadata store: it drops their entries and leaves
tombstones.

A pass looks at the storage and the metadata store (`CollectionLook`), lets `protocol.collection`
judge, and carries out the verdict. The order within a look makes it safe: it lists the held ledgers
first, then makes a write barrier, then lists the existing ledgers. A ledger is created in the
metadata store before its first entry reaches a bookie, so a ledger that is held before the barrier
and missing after it was deleted. The pass reads the metadata of the ledgers to drop once more
before it drops them.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from bookie.ids import NO_ENTRY, LedgerId
from bookie.metadata.pausing import read_paused
from bookie.metadata.store import MetadataStore
from bookie.points import passing
from bookie.protocol.collection import Collection, CollectionLook, CollectionRules, HeldPlan
from bookie.server.first_fences import FirstFences
from bookie.server.state import BookieState
from bookie.storage.decisions import DecisionKind, PersonDecision, now_ms
from bookie.storage.storage import Storage

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Collector:
    """The collection of one bookie."""

    store: MetadataStore
    storage: Storage
    _: KW_ONLY
    state: BookieState
    rules: CollectionRules
    clock: Callable[[], float]
    """Monotonic seconds of this process."""
    first_fences: FirstFences

    def __post_init__(self) -> None:
        self._collection = Collection(self.rules)
        """The findings so far: a ledger may be dropped when two looks, a grace apart, have missed
        it."""

    async def run_pass(self) -> int:
        """Make one look and carry out the verdict; returns how many ledgers were dropped.

        An error of the metadata store ends the pass without any conclusion.
        """
        look = await self._look()
        verdict = self._collection.judge(look)
        self._publish(look)
        if verdict.revive:
            epoch = self.state.boot_epoch
            back = await asyncio.to_thread(
                self.storage.maintenance.revive_ledgers, verdict.revive, epoch=epoch
            )
            log.error("%d collected ledgers exist again: they are in limbo now", back)
        passing("collect: judged, entries not dropped")
        going = await self._still_missing(verdict.drop)
        # The bookie may have noticed a rollback of the store meanwhile.
        if not going or self.state.metadata_rolled_back:
            return 0
        await asyncio.to_thread(self.storage.maintenance.delete_ledgers, going)
        log.info("collect %d deleted ledgers, the first is %d", len(going), going[0])
        return len(going)

    async def approve(self, plan_id: str, approved_by: str = "") -> str:
        """Approve the plan that a person has seen; returns why not when it is not the one that
        waits. The name of the approver is durable before the first ledger is dropped.
        """
        refusal = self._collection.refuse(plan_id)
        if refusal:
            return refusal
        about = f"plan {plan_id}: {self.state.collection_held}"
        decision = PersonDecision(now_ms(), DecisionKind.COLLECTION, approved_by, about)
        await asyncio.to_thread(self.storage.maintenance.note_decision, decision)
        refusal = self._collection.approve(plan_id)
        if not refusal:
            log.warning("collection %s approved by %s", plan_id, approved_by or "unknown")
            self._publish_plan(None)
        return refusal

    async def _look(self) -> CollectionLook:
        began = self.clock()
        held, tombstones = self._held()
        await self.store.barrier()
        refusal = await self._refusal()
        existing = frozenset([ledger_id async for ledger_id in self.store.ledger_ids()])
        self.first_fences.confirm()
        return CollectionLook(began, self.clock(), held, tombstones, existing, refusal)

    def _held(self) -> tuple[list[LedgerId], list[LedgerId]]:
        """The ledgers with entries or records here, and the tombstones."""
        held: list[LedgerId] = []
        tombstones: list[LedgerId] = []
        for ledger_id in self.storage.ledger_ids():
            record = self.storage.record(ledger_id)
            is_tombstone = record is not None and record.deleted
            if is_tombstone:
                tombstones.append(ledger_id)
            if not is_tombstone or self._is_half_deleted(ledger_id):
                held.append(ledger_id)
        return held, tombstones

    def _is_half_deleted(self, ledger_id: LedgerId) -> bool:
        """Whether more than a tombstone is here of a deleted ledger: its deletion found a disk
        full.
        """
        storage = self.storage
        has_losses = not storage.loss(ledger_id).is_empty
        return has_losses or storage.last_entry_id(ledger_id) != NO_ENTRY

    async def _refusal(self) -> str:
        """Why nothing may be collected now; empty when something may."""
        if self.state.metadata_rolled_back:
            return f"the metadata store was rolled back: {self.state.metadata_rolled_back}"
        return "the cluster is paused" if await read_paused(self.store) else ""

    async def _still_missing(self, ledger_ids: Sequence[LedgerId]) -> list[LedgerId]:
        found = await self.store.read_ledgers(ledger_ids) if ledger_ids else {}
        return [ledger_id for ledger_id in ledger_ids if ledger_id not in found]

    def _publish(self, look: CollectionLook) -> None:
        self.state.tombstones = len(look.tombstones)
        self.state.ledgers_missing = self._collection.missing
        self._publish_plan(self._collection.plan)

    def _publish_plan(self, plan: HeldPlan | None) -> None:
        before, held = self.state.collection_held, ""
        if plan is not None:
            held = (
                f"{len(plan.ledgers)} of {plan.held} ledgers here are gone from the metadata "
                f"store, more than {self.rules.share_max:.0%}: none of them is collected. If they "
                f"were deleted on purpose, approve plan {plan.plan_id} (`bookie collect approve "
                f"{self.state.bookie_id}`, on Kubernetes `kubectl bookie approve-collection "
                f"{self.state.bookie_id}`); if not, bring the metadata store back"
            )
        self.state.collection_held = held
        self.state.collection_plan = plan.plan_id if plan is not None else ""
        if held and held != before:
            log.error("%s", held)
