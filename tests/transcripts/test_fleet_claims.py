"""Stories of who a bookie is: cookie, claim, instance, twins, locks, and stores that fail."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import pytest
from bookie.boot.lock import FolderInUseError
from bookie.errors import StorageError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.memory import MemoryCluster
from bookie.metadata.store import StoredBoot, Versioned
from bookie.testing.simulation.locks import NoLock
from boot_scenes import ONE, SHORT_LEASE, Scenes, cut, down, facts, written
from fleet_disks import plan_of
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

ID: Final = BookieId(ONE)
Change = Callable[[MemoryCluster], None]


def _cookie(**changes: Any) -> Change:
    def change(cluster: MemoryCluster) -> None:
        found = cluster.cookies[ID]
        cluster.cookies[ID] = replace(found, value=replace(found.value, **changes))

    return change


def _boot(**changes: Any) -> Change:
    def change(cluster: MemoryCluster) -> None:
        found = cluster.boots[ID]
        cluster.boots[ID] = replace(found, value=replace(found.value, **changes))

    return change


def _old_version(cluster: MemoryCluster) -> None:
    cluster.boots[ID] = Versioned(StoredBoot(1, is_bare=True), 7)


def _no_cookie(cluster: MemoryCluster) -> None:
    del cluster.cookies[ID]


def _no_boot(cluster: MemoryCluster) -> None:
    del cluster.boots[ID]


def _neither(cluster: MemoryCluster) -> None:
    del cluster.boots[ID], cluster.cookies[ID]


def _another_instance(cluster: MemoryCluster) -> None:
    cluster.instance_id = "another"


def _no_instance(cluster: MemoryCluster) -> None:
    cluster.instance_id = None


def _a_new_store(cluster: MemoryCluster) -> None:
    cluster.__init__()  # type: ignore[misc]


def _garbled(cluster: MemoryCluster) -> None:
    cluster.garbled.add(LedgerId(2))


CHANGES: Final[dict[str, Change]] = {
    "nothing": lambda _cluster: None,
    "no cookie": _no_cookie,
    "no claim": _no_boot,
    "neither": _neither,
    "a cookie of another instance": _cookie(instance_id="another"),
    "a cookie of another bookie": _cookie(bookie_id=BookieId("bookie-7")),
    "a cookie of three disks": _cookie(ledger_dirs=("/a", "/b", "/c")),
    "a cookie of two journals": _cookie(journal_dirs=("/a", "/b")),
    "a cookie of other places": _cookie(ledger_dirs=("/a", "/b")),
    "another instance": _another_instance,
    "no instance": _no_instance,
    "a new store": _a_new_store,
    "a claim of an older version": _old_version,
    "a higher epoch": _boot(epoch=9),
    "a higher generation": _boot(generation=9),
    "a lower generation": _boot(generation=1),
    "no generation and nothing served": _boot(generation=0, served=0),
    "a rollback that nobody has dealt with": _boot(rolled_back="it says nothing"),
    "a longer lease": _boot(lease_s=50.0),
    "a ledger that cannot be read": _garbled,
}


def _changed(change: Change, how: str) -> Scenes:
    async def scenes(fleet: Fleet) -> None:
        bookie = fleet.bookies[ONE]
        await down(fleet, how)
        change(fleet.cluster)
        await fleet.boot()
        if plan_of(bookie):
            bookie.approve()
            await fleet.until(lambda: bookie.is_serving, "it serves")
            fleet.say_boot()
        if bookie.is_serving:
            fleet.say_state()
            fleet.note("and once more")
            with fleet.quiet():
                await fleet.stop(ONE)
                await fleet.boot()
        fleet.say_boot()
        fleet.say_disk(ONE, where=lambda path: path.endswith(("DIRTY", "STAMP")))
        fleet.say_store()

    return scenes


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("change", CHANGES)
def test_the_store_says_otherwise(change: str, how: str, snapshot: SnapshotAssertion) -> None:
    found = told(_changed(CHANGES[change], how), bookies=1, settings=SHORT_LEASE)
    assert snapshot(extension_class=Words) == found


def _identity_lost(policy: str, names: Sequence[str]) -> Scenes:
    async def scenes(fleet: Fleet) -> None:
        bookie = fleet.bookies[ONE]
        await down(fleet, "killed")
        for place in (0, 1):
            bookie.wipe(place)
        for name in names:
            getattr(fleet.cluster, name).clear()
        await fleet.boot()
        if plan_of(bookie):
            bookie.approve()
            await fleet.until(lambda: bookie.is_serving, "it serves")
            fleet.say_boot()
        fleet.say_state()
        fleet.say_disk(ONE, where=facts)

    return scenes


@pytest.mark.parametrize(
    "names", [("cookies",), ("cookies", "boots"), ("cookies", "ledgers")], ids="_and_".join
)
@pytest.mark.parametrize("policy", ["Auto", "Approve"])
def test_no_cookie_and_no_disk(
    policy: str, names: Sequence[str], snapshot: SnapshotAssertion
) -> None:
    settings = {**SHORT_LEASE, "cookieFix": {"policy": policy}}
    found = told(_identity_lost(policy, names), bookies=1, settings=settings)
    assert snapshot(extension_class=Words) == found


def _fails_at_each_call(before: str, trouble: str) -> Scenes:
    """The store fails at the first question of a boot, then of the next boot at the second, ..."""

    async def scenes(fleet: Fleet) -> None:
        bookie, weather = fleet.bookies[ONE], fleet.weather
        await fleet.begin()
        for number in range(1, 14):
            await written(fleet, 1)
            with fleet.quiet():
                await (fleet.stop(ONE) if before == "stopped" else asyncio.sleep(0))
            fleet.crash(ONE)
            if before == "replaced":
                bookie.wipe(1)
            left = [number]

            def begins(what: str, left: list[int] = left) -> None:
                left[0] -= what == "asking the metadata store"
                if left[0] == 0:
                    left[0] = -1
                    setattr(weather, *TROUBLES[trouble])
                    fleet.loop.call_later(2.5, setattr, weather, TROUBLES[trouble][0], 0)

            former, bookie.on_operation = bookie.on_operation, begins
            fleet.note(f"question {number}")
            with fleet.quiet():
                await fleet.boot()
                bookie.on_operation = former
                await asyncio.sleep(8.0)
            fleet.say_boot()
            fleet.record.note(str(fleet.cluster.boots.get(ID)))
            if left[0] > 0:
                break
        fleet.say_state()

    return scenes


TROUBLES: Final[dict[str, tuple[str, float]]] = {
    "out": ("is_out", 1.0), "late": ("late_writes", 1.0), "answers lost": ("lost_replies", 1.0)
}  # fmt: skip


@pytest.mark.parametrize("before", ["stopped", "killed", "replaced"])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_the_store_fails_during_a_boot(
    trouble: str, before: str, snapshot: SnapshotAssertion
) -> None:
    found = told(_fails_at_each_call(before, trouble), bookies=1, level=100, settings=SHORT_LEASE)
    assert snapshot(extension_class=Words) == found


async def _twin(fleet: Fleet) -> None:
    await fleet.begin()
    await written(fleet, 2)
    fleet.note("a second process begins on a copy, and the first one serves")
    twin = fleet.twin(ONE)
    await fleet.boot(twin)
    fleet.say_boot(ONE)
    fleet.note("the first one is cut off from the store, and writes on")
    fleet.network.block(ONE, "metadata")
    session = fleet.bookies[ONE].store
    assert session is not None
    session.expire()
    await asyncio.sleep(6.0)
    fleet.say_boot(ONE, twin)
    fleet.note("a person lets the second one go on")
    fleet.bookies[twin].approve()
    await asyncio.sleep(20.0)
    fleet.say_boot(ONE, twin)
    fleet.note("the first one is heard again")
    fleet.network.unblock(ONE, "metadata")
    await asyncio.sleep(6.0)
    fleet.say_boot(ONE, twin)
    fleet.say_state(twin)
    fleet.say_store()


async def _twin_after_a_stop(fleet: Fleet) -> None:
    await fleet.begin()
    await written(fleet, 2)
    copy = fleet.bookies[ONE].disk.snapshot({}).kill()
    with fleet.quiet():
        await fleet.stop(ONE)
    fleet.note("a copy from before the stop")
    twin = fleet.twin(ONE, copy)
    await fleet.boot(twin)
    if plan_of(fleet.bookies[twin]):
        fleet.bookies[twin].approve()
        await fleet.until(lambda: fleet.bookies[twin].is_serving, "it serves")
        fleet.say_boot(twin)
    fleet.crash(twin)
    fleet.note("the original")
    await fleet.boot(ONE)
    fleet.say_disk(ONE, where=lambda path: path.endswith("DIRTY"))


async def _twin_at_once(fleet: Fleet) -> None:
    await fleet.begin()
    await written(fleet, 2)
    with fleet.quiet():
        await fleet.stop(ONE)
    fleet.note("two processes begin at the same time")
    twin = fleet.twin(ONE)
    await fleet.boot(ONE, twin)
    await asyncio.sleep(6.0)
    fleet.say_boot(ONE, twin)
    fleet.say_disk(ONE, twin, where=lambda path: path.endswith(("STAMP", "DIRTY")))
    fleet.say_store()


async def _twin_killed(fleet: Fleet) -> None:
    await fleet.begin()
    await written(fleet, 2)
    fleet.crash(ONE)
    fleet.note("the machine is gone; the disks are on another, and that one dies too")
    twin = fleet.twin(ONE)
    fleet.bookies[twin].arm_point("boot: one directory of several is marked", cut, restart_s=1.0)
    await fleet.boot(twin)
    await fleet.boot(twin)
    fleet.note("while it waits the bookie writes a second ledger, and the boot ends")
    await written(fleet, 1)
    fleet.say_state(twin)
    fleet.say_disk(twin, where=facts)


TWINS: Final[dict[str, Scenes]] = {
    "both live": _twin, "after a stop": _twin_after_a_stop, "at once": _twin_at_once,
    "killed": _twin_killed,
}  # fmt: skip


@pytest.mark.parametrize("twins", TWINS)
@pytest.mark.parametrize("mode", ["memory", "journal"])
def test_twins(twins: str, mode: str, snapshot: SnapshotAssertion) -> None:
    found = told(TWINS[twins], bookies=1, mode=mode, settings=SHORT_LEASE)
    assert snapshot(extension_class=Words) == found


class _Taken(NoLock):
    """Held by others, for some times; then it cannot be opened, once."""

    answers: ClassVar[list[Exception]] = []

    def acquire(self) -> None:
        if self.answers:
            raise self.answers.pop(0)


async def _locks(fleet: Fleet) -> None:
    bookie = fleet.bookies[ONE]

    _Taken.answers[:] = [FolderInUseError("in use by 12"), FolderInUseError("in use by 13")]
    bookie._lock = _Taken
    await fleet.boot()
    await fleet.until(lambda: bookie.is_serving, "the other one has ended")
    fleet.say_boot()
    with fleet.quiet():
        await fleet.stop(ONE)
    fleet.note("it is stopped while it waits")
    _Taken.answers[:] = [FolderInUseError("in use by 14")] * 9
    await fleet.boot()
    await fleet.stop(ONE)
    fleet.say_boot()
    fleet.note("the lock cannot be opened")
    _Taken.answers[:] = [StorageError("/bookie-0/journal/LOCK: cannot open the lock")]
    await fleet.boot()
    fleet.note("and then it can")
    await fleet.boot()


def test_locks(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_locks, bookies=1)


async def _drains(fleet: Fleet) -> None:
    bookie = fleet.bookies[ONE]
    await fleet.begin()
    await written(fleet, 1)
    control = fleet.handles().control
    fleet.note("the marker cannot be written in the second directory")
    bookie.disk.hiccups["ledger-0"] = "create"
    await fleet.seen("drain", control.drain(ID))
    fleet.say_disk(ONE, where=lambda path: "DRAINING" in path)
    await asyncio.sleep(1.0)
    fleet.say_boot()
    fleet.note("and now it can")
    await fleet.seen("drain", control.drain(ID))
    fleet.say_disk(ONE, where=lambda path: path.endswith("DRAINING"))
    fleet.crash(ONE)
    fleet.note("one marker is lost with its disk")
    bookie.wipe(2)
    await fleet.boot()
    fleet.say_state()
    fleet.say_disk(ONE, where=lambda path: path.endswith("DRAINING"))
    fleet.note("one file cannot be removed")
    bookie.disk.hiccups["journal"] = "unlink"
    await fleet.seen("cancelled", control.drain(ID, cancel=True))
    fleet.say_disk(ONE, where=lambda path: path.endswith("DRAINING"))
    await asyncio.sleep(1.0)
    await fleet.boot()
    await fleet.seen("cancelled", control.drain(ID, cancel=True))
    fleet.say_state()
    fleet.say_disk(ONE, where=lambda path: path.endswith("DRAINING"))


def test_a_drain_outlives_boots(snapshot: SnapshotAssertion) -> None:
    found = told(_drains, bookies=1, ledger_dirs=2, settings=SHORT_LEASE)
    assert snapshot(extension_class=Words) == found


async def _longer_lease(fleet: Fleet) -> None:
    await down(fleet, "killed")
    for place in (0, 1):
        fleet.bookies[ONE].wipe(place)
    _boot(lease_s=40.0)(fleet.cluster)
    await fleet.boot()


async def _a_new_bookie(fleet: Fleet) -> None:
    await fleet.begin("bookie-1")
    await written(fleet, 1, 1)
    fleet.cluster.garbled.add(LedgerId(1))
    await fleet.boot(ONE)
    fleet.say_state(ONE)


def test_who_was_before_had_a_longer_lease(snapshot: SnapshotAssertion) -> None:
    found = told(_longer_lease, bookies=1, settings=SHORT_LEASE)
    assert snapshot(extension_class=Words) == found


def test_a_new_bookie_where_a_ledger_cannot_be_read(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_a_new_bookie, bookies=2)
