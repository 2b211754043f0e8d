"""Stories of what a storage knows beside entries: deletions, losses, decisions, marks."""

from typing import Final

import pytest
from bookie.ids import LedgerId
from bookie.protocol.availability import EntrySet
from bookie.storage.decisions import PersonDecision
from bookie.storage.records import Boundary
from bookie.testing.simulation.disk import MachineDisk
from storage_story import Acts, Keeper, entries, ids, index, kept, turns
from syrupy.assertion import SnapshotAssertion
from transcripts import Words


async def _deletes(keeper: Keeper) -> None:
    keeper.begin()
    for ledger in (1, 2, 3):
        keeper.put(ledger, master_key=b"key", fenced=ledger == 1)
        keeper.add(ledger, 0, 2)
    await turns()
    maintenance = keeper.open.maintenance
    keeper.seen(
        "loss", lambda: maintenance.record_loss(LedgerId(1), entries((0, 1)), reason="judged")
    )
    keeper.note("deleted before a checkpoint, and an add comes late")
    keeper.seen("delete", lambda: maintenance.delete_ledgers(ids(1, 2, 7)))
    keeper.add(1, 2)
    keeper.add(3, 2)
    keeper.say(where=index)
    keeper.checkpoint()
    keeper.say(where=index)
    keeper.note("and again after it")
    keeper.seen("delete", lambda: maintenance.delete_ledgers(ids(1, 3)))
    keeper.seen("delete", lambda: maintenance.delete_ledgers(ids(3)))
    keeper.note("they exist again")
    keeper.seen("revived", lambda: maintenance.revive_ledgers(ids(1, 3, 4), epoch=5))
    keeper.seen("revived", lambda: maintenance.revive_ledgers(ids(1), epoch=5))
    keeper.add(1, 5)
    keeper.crash()
    keeper.begin()
    keeper.say()


async def _deletes_that_fail(keeper: Keeper) -> None:
    keeper.begin()
    for ledger in (1, 2):
        keeper.add(ledger, 0, 2)
    keeper.checkpoint()
    keeper.note("the second directory has no space for it")
    used = sum(
        len(one.seen) for each in keeper.disk.directories.values() for one in each.seen.values()
    )
    keeper.disk.capacity_bytes = used - 512
    keeper.seen("delete", lambda: keeper.open.maintenance.delete_ledgers(ids(1, 2)))
    keeper.say(where=index)
    keeper.disk.capacity_bytes = 1 << 24
    keeper.seen("delete", lambda: keeper.open.maintenance.delete_ledgers(ids(1, 2)))
    keeper.checkpoint()
    keeper.say(where=index)
    keeper.note("the second directory fails")
    keeper.add(3, 0)
    keeper.add(4, 0)
    keeper.disk.hiccups["ledger-1"] = "commit"
    keeper.seen("delete", lambda: keeper.open.maintenance.delete_ledgers(ids(3, 4)))
    keeper.add(5, 0)
    keeper.crash()
    keeper.begin()
    keeper.say(where=index)


async def _losses(keeper: Keeper) -> None:
    keeper.begin()
    maintenance = keeper.open.maintenance
    ada = PersonDecision(1_700_000_001_000, "LossAccepted", "Ada", "they are gone")
    bob = PersonDecision(1_700_000_002_000, "LossRetracted", "Bob", "they are back")
    first, second = LedgerId(1), LedgerId(2)
    one, more = entries((0, 4)), entries((3, 8), (12, 12))
    keeper.seen("loss", lambda: maintenance.record_loss(first, one, reason="judged"))
    keeper.seen(
        "loss", lambda: maintenance.record_loss(first, more, reason="accepted", decision=ada)
    )
    keeper.seen("the same", lambda: maintenance.record_loss(first, one, reason="x", decision=ada))
    keeper.seen("loss", lambda: maintenance.record_loss(second, one, reason="judged"))
    keeper.say(where=index)
    keeper.note("a part is retracted, and what nobody named")
    retract = maintenance.retract_loss
    keeper.seen("retract", lambda: retract(first, entries((4, 6), (20, 30)), decision=bob))
    keeper.seen("retract", lambda: retract(first, entries((20, 30)), decision=bob))
    keeper.seen("retract", lambda: retract(second, one, limbo_since=3))
    keeper.say(where=index)
    keeper.seen("decision", lambda: maintenance.note_decision(ada))
    keeper.crash()
    keeper.begin()
    keeper.say()
    keeper.note("the second directory fails in the middle of a retraction")
    keeper.disk.hiccups["ledger-1"] = "commit"
    retract = keeper.open.maintenance.retract_loss
    keeper.seen("retract", lambda: retract(first, entries((0, 1)), limbo_since=4))
    keeper.say(where=index)
    keeper.crash()
    keeper.begin()
    keeper.say()
    keeper.seen("all is forgotten", lambda: keeper.open.maintenance.delete_ledgers(ids(1, 2)))
    keeper.say(where=index)


async def _losses_without_space(keeper: Keeper) -> None:
    keeper.begin()
    keeper.seen(
        "loss",
        lambda: keeper.open.maintenance.record_loss(LedgerId(1), entries((0, 4)), reason="judged"),
    )
    capacity, keeper.disk.capacity_bytes = keeper.disk.capacity_bytes, 0
    lost = EntrySet.from_ranges([(n * n, n * n) for n in range(10, 400)])
    for _ in range(2):
        keeper.seen(
            "loss",
            lambda: keeper.open.maintenance.record_loss(LedgerId(1), lost, reason="judged"),
        )
        keeper.seen(
            "retract",
            lambda: keeper.open.maintenance.retract_loss(
                LedgerId(1), entries((2, 2)), limbo_since=2
            ),
        )
        keeper.seen("lost", lambda: len(keeper.open.loss(LedgerId(1))))
        keeper.seen("full", lambda: keeper.open.maintenance.is_full)
        keeper.disk.capacity_bytes = capacity
    keeper.checkpoint()
    keeper.seen("lost", lambda: len(keeper.open.loss(LedgerId(1))))


async def _marks(keeper: Keeper) -> None:
    keeper.begin()
    for ledger in (1, 2, 3, 4):
        keeper.put(ledger, master_key=b"key", noted=True)
        keeper.add(ledger, 0)
    keeper.checkpoint()
    maintenance = keeper.open.maintenance
    old = Boundary(2, LedgerId(2), frozenset(ids(9)), frozenset(ids(2)))
    keeper.seen("mark", lambda: maintenance.mark(old, ids(1, 9), fences_lost=True))
    keeper.say(where=index)
    keeper.note("checked, and one is cleared")
    keeper.put(2, checked_epoch=2)
    keeper.put(1, mark_epoch=2, checked_epoch=2)
    await turns()
    keeper.say(where=index)
    keeper.note("a later boot marks others")
    new = Boundary(5, LedgerId(-1), frozenset(ids(3, 4)), frozenset(ids(4)))
    keeper.seen("mark", lambda: maintenance.mark(new, ids(3), fences_lost=False))
    keeper.say(where=index)
    keeper.seen("lift an older one", lambda: maintenance.finish_unchecked(4))
    keeper.seen("boundary", keeper.open.unchecked_boundary)
    keeper.seen("lift", lambda: maintenance.finish_unchecked(5))
    keeper.seen("boundary", keeper.open.unchecked_boundary)
    keeper.crash()
    keeper.begin()
    keeper.say()


async def _marks_that_fail(keeper: Keeper) -> None:
    keeper.begin()
    for ledger in (1, 2):
        keeper.put(ledger, noted=True)
        keeper.add(ledger, 0)
    keeper.checkpoint()
    both = Boundary(2, LedgerId(5))
    keeper.note("power goes when the first directory is marked")
    keeper.crash_at("boot: one directory of several is marked")
    keeper.seen("mark", lambda: keeper.open.maintenance.mark(both, ids(1, 2), fences_lost=True))
    keeper.crash(MachineDisk.kill)
    keeper.begin()
    keeper.say()
    keeper.note("and again, by the next boot; then the second directory fails to lift")
    later = Boundary(3, LedgerId(6))
    keeper.seen("mark", lambda: keeper.open.maintenance.mark(later, ids(1, 2), fences_lost=True))
    keeper.disk.hiccups["ledger-1"] = "commit"
    keeper.seen("lift", lambda: keeper.open.maintenance.finish_unchecked(3))
    keeper.crash()
    keeper.begin()
    keeper.say()


FACTS: Final[dict[str, Acts]] = {
    "deletes": _deletes, "deletes that fail": _deletes_that_fail, "losses": _losses,
    "losses without space": _losses_without_space, "marks": _marks,
    "marks that fail": _marks_that_fail,
}  # fmt: skip


@pytest.mark.parametrize("facts", FACTS)
def test_facts(facts: str, snapshot: SnapshotAssertion) -> None:
    found = kept(FACTS[facts], ledger_dirs=2, shows_disk=False)
    assert snapshot(extension_class=Words) == found
