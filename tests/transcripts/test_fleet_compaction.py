"""Stories of a storage that compacts its logs, rejects rotten copies and rebuilds its index."""

from typing import Final

import pytest
from bookie.ids import LedgerId
from bookie.protocol.availability import EntrySet
from bookie.storage.rebuild import rebuild_index
from bookie.storage.records import Boundary
from bookie.testing.simulation.disk import MachineDisk
from fleet_disks import files, flip, gone
from storage_story import ROOT, Acts, Keeper, entries, ids, index, kept, turns
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

FIRST: Final = ROOT / "ledger-0"


async def _filled(keeper: Keeper) -> None:
    """Three files: of ledger 1 alone, of 1 and 2, of 2 and 3."""
    with keeper.quiet():
        keeper.begin()
        for ledger, first in ((1, 0), (1, 2), (1, 4), (1, 6), (2, 0), (2, 2), (2, 4), (3, 0)):
            keeper.add(ledger, first, 2, size=1800)
            await turns()
        keeper.checkpoint()
        keeper.close()
        keeper.begin()


async def _dead_and_half_dead(keeper: Keeper) -> None:
    await _filled(keeper)
    keeper.note("nothing is dead")
    keeper.compact()
    keeper.note("a ledger is deleted")
    keeper.seen("delete", lambda: keeper.open.maintenance.delete_ledgers(ids(1)))
    keeper.read(2, 0, 9)
    keeper.compact()
    keeper.say()
    keeper.read(2, 0, 9)
    keeper.note("nothing is left to do")
    keeper.compact()
    keeper.note("those that lie behind the last checkpoint's file are not compacted yet")
    keeper.seen("delete", lambda: keeper.open.maintenance.delete_ledgers(ids(2, 3)))
    keeper.compact()
    with keeper.quiet():
        for first in (0, 2, 4, 6):
            keeper.add(4, first, 2, size=1800)
            await turns()
    keeper.checkpoint()
    keeper.compact()
    keeper.note("and now, when something else became garbage")
    keeper.seen("delete", lambda: keeper.open.maintenance.delete_ledgers(ids(5)))
    keeper.compact()
    keeper.say()


async def _beside_a_recovery(keeper: Keeper) -> None:
    await _filled(keeper)
    path = files(keeper.disk, FIRST / "log", ".log")[1]
    with keeper.quiet():
        keeper.open.maintenance.delete_ledgers(ids(1))
    flip(keeper.disk, path, 8000)
    keeper.note("a frame is rotten: its file stays")
    keeper.compact()
    keeper.read(2, 0, 9)
    keeper.compact()
    keeper.note("recovered: in memory, then in the index")
    keeper.add(2, 0, 2, size=1800, recovery=True)
    keeper.compact()
    keeper.read(2, 0, 9)
    keeper.checkpoint()
    keeper.compact()
    keeper.read(2, 0, 9)
    keeper.say()


async def _a_row_changes_meanwhile(keeper: Keeper) -> None:
    await _filled(keeper)
    with keeper.quiet():
        keeper.open.maintenance.delete_ledgers(ids(1))
    keeper.seen("one piece", keeper.open.maintenance.compact_some)
    keeper.note("between two pieces somebody deletes what is copied, and adds")
    keeper.seen("delete", lambda: keeper.open.maintenance.delete_ledgers(ids(2)))
    keeper.add(3, 2, 1)
    keeper.checkpoint()
    keeper.compact()
    keeper.compact()
    keeper.say()


def _power_at(point: str) -> Acts:
    async def acts(keeper: Keeper) -> None:
        await _filled(keeper)
        with keeper.quiet():
            keeper.open.maintenance.delete_ledgers(ids(1))
        keeper.crash_at(point)
        keeper.compact()
        keeper.checkpoint()
        keeper.crash(MachineDisk.kill)
        keeper.begin()
        keeper.say()
        keeper.note("and once more")
        keeper.compact()
        keeper.read(2, 0, 9)
        keeper.say(where=index)

    return acts


async def _no_space(keeper: Keeper) -> None:
    await _filled(keeper)
    with keeper.quiet():
        keeper.open.maintenance.delete_ledgers(ids(1))
    used = sum(
        len(one.seen) for each in keeper.disk.directories.values() for one in each.seen.values()
    )
    keeper.note("no further file can be made; the dead one makes space")
    keeper.disk.capacity_bytes = used
    with keeper.quiet():
        for first in (2, 4, 6):
            keeper.add(3, first, 2, size=1800)
            await turns()
    keeper.seen("full", lambda: keeper.open.maintenance.is_full)
    keeper.compact()
    keeper.seen("full", lambda: keeper.open.maintenance.is_full)
    await turns()
    keeper.note("and with more space")
    keeper.disk.capacity_bytes = 1 << 24
    keeper.checkpoint()
    await turns()
    keeper.compact()
    keeper.say(where=lambda path: "log" in path)


async def _stops(keeper: Keeper) -> None:
    """Of each file a third lives: the copies fill the spare, and there is no other."""
    with keeper.quiet():
        keeper.begin()
        for number in range(18):
            keeper.add(2 if number % 3 == 1 else 1, number * 2, 2, size=1800)
            await turns()
        keeper.checkpoint()
        keeper.close()
        keeper.begin()
        keeper.open.maintenance.delete_ledgers(ids(1))
    keeper.disk.capacity_bytes = 1 << 15
    for _ in range(8):
        keeper.compact_one()
        await turns()
    keeper.seen("full", lambda: keeper.open.maintenance.is_full)
    keeper.read(2, 0, 40)
    keeper.note("with more space it goes on")
    keeper.disk.capacity_bytes = 1 << 24
    keeper.checkpoint()
    await turns()
    keeper.compact()  # the end of the former one
    for _ in range(4):
        keeper.compact_one()
        await turns()
    keeper.read(2, 0, 40)
    keeper.say(where=lambda path: "log" in path or index(path))


async def _fails(keeper: Keeper) -> None:
    await _filled(keeper)
    with keeper.quiet():
        keeper.open.maintenance.delete_ledgers(ids(1))
    keeper.note("the file cannot be deleted")
    keeper.disk.hiccups["log"] = "unlink"
    keeper.compact()
    keeper.compact()
    keeper.seen("failure", lambda: str(keeper.open.failure))
    keeper.crash()
    keeper.begin()
    keeper.note("a live file cannot be measured, or read, once")
    keeper.compact_one()
    with keeper.quiet():
        keeper.crash()
        keeper.begin()
    for operation in ("stat", "open", "read"):
        keeper.disk.hiccups["log"] = operation
        keeper.compact()
        keeper.disk.hiccups.clear()
    keeper.compact()
    keeper.say(where=index)


COMPACTIONS: Final[dict[str, Acts]] = {
    "dead and half dead": _dead_and_half_dead,
    "beside a recovery": _beside_a_recovery,
    "a row changes meanwhile": _a_row_changes_meanwhile,
    "power goes": _power_at("compaction: rows moved, old file not deleted"),
    "no space": _no_space,
    "no space for the copies": _stops,
    "an operation fails": _fails,
}


@pytest.mark.parametrize("compaction", COMPACTIONS)
def test_compaction(compaction: str, snapshot: SnapshotAssertion) -> None:
    found = kept(COMPACTIONS[compaction], mode="journal")
    assert snapshot(extension_class=Words) == found


async def _rejects(keeper: Keeper) -> None:
    keeper.begin()
    keeper.add(1, 0, 6)
    keeper.add(1, 6, 2)
    keeper.checkpoint()
    first = LedgerId(1)

    def wrong(*bad: int) -> EntrySet | None:
        of = EntrySet.from_ranges([(one, one) for one in bad])
        return keeper.seen(
            f"reject {bad}",
            lambda: keeper.open.maintenance.reject(first, entries((0, 9)), lambda _frame: of),
        )

    wrong()
    wrong(2, 3, 8)
    keeper.say(where=index)
    keeper.read(1, 0, 9)
    keeper.note("the same again, and another one; a writer's copy does not count")
    wrong(2, 3, 6)
    keeper.add(1, 2)
    keeper.read(1, 2, 2)
    keeper.checkpoint()
    keeper.read(1, 2, 2)
    keeper.say(where=index)
    keeper.note("a recovery's does")
    keeper.add(1, 1, 3, recovery=True)
    keeper.say(where=index)
    keeper.checkpoint()
    keeper.say(where=index)
    keeper.read(1, 0, 9)
    keeper.note("and it is rejected as well; nothing comes back from the journal")
    wrong(2)
    keeper.crash()
    keeper.begin()
    keeper.read(1, 0, 9)
    keeper.say()


@pytest.mark.parametrize("mode", ["memory", "journal"])
def test_rejected_copies(mode: str, snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == kept(_rejects, mode=mode, shows_disk=False)


async def _rot(keeper: Keeper) -> None:
    await _filled(keeper)
    path = files(keeper.disk, FIRST / "log", ".log")[0]
    flip(keeper.disk, path, 5000)
    keeper.read(1, 0, 7)
    keeper.read(1, 0, 0)
    keeper.note("a recovery replaces it, and the frame's other entry stays bad")
    keeper.add(1, 0, recovery=True)
    keeper.read(1, 0, 1)
    keeper.checkpoint()
    keeper.read(1, 0, 1)
    keeper.say(where=index)
    keeper.note("of a good one it changes nothing")
    keeper.add(1, 2, recovery=True)
    keeper.checkpoint()
    keeper.say(where=index)
    keeper.note("the last one is cut off")
    last = files(keeper.disk, FIRST / "log", ".log")[2]
    gone(keeper.disk, last)
    keeper.read(2, 4, 5)
    keeper.read(3, 0, 1)


def test_rot(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == kept(_rot, mode="sync", shows_disk=False)


def _rebuilds(damage: str) -> Acts:
    async def acts(keeper: Keeper) -> None:
        await _filled(keeper)
        lost = keeper.open.maintenance.record_loss
        with keeper.quiet():
            keeper.put(3, fenced=True, master_key=b"key")
            keeper.open.maintenance.delete_ledgers(ids(1))
            lost(LedgerId(9), entries((0, 4)), reason="judged")
            boundary = Boundary(2, LedgerId(5))
            keeper.open.maintenance.mark(boundary, ids(2), fences_lost=True)
            keeper.close()
        if "frame" in damage:
            flip(keeper.disk, files(keeper.disk, FIRST / "log", ".log")[1], 5000)
        if "header" in damage:
            flip(keeper.disk, files(keeper.disk, FIRST / "log", ".log")[-1], 40)
        if "index" in damage:
            keeper.disk.damage(FIRST / "index.sqlite", 0, b"no database at all")
        if "interrupted" in damage:
            keeper.disk.hiccups["index.sqlite"] = "rename"
            keeper.disk.hiccups["index.sqlite.new"] = "sync"
        for _ in range(2):
            keeper.seen("rebuild", lambda: rebuild_index(FIRST, disk=keeper.disk))
            keeper.say(where=lambda path: "sqlite" in path)
        keeper.begin()
        if keeper.storage is not None:
            keeper.read(2, 0, 9)
            keeper.say(where=index)

    return acts


@pytest.mark.parametrize(
    "damage", ["none", "index", "index and frame", "header", "interrupted", "index, interrupted"]
)
def test_rebuilds(damage: str, snapshot: SnapshotAssertion) -> None:
    found = kept(_rebuilds(damage), mode="journal", ledger_dirs=1, shows_disk=True)
    assert snapshot(extension_class=Words) == found
