"""Stories of disks that are not what they were: replaced, put back, swapped, lost in part, full."""

import asyncio

import pytest
from boot_scenes import FIRST, JOURNAL, ONE, SECOND, SHORT_LEASE, Scenes, down, facts, written
from fleet_disks import approved, plan_of
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words


def _replaced(places: tuple[int, ...], how: str) -> Scenes:
    async def scenes(fleet: Fleet) -> None:
        await down(fleet, how)
        for place in places:
            fleet.bookies[ONE].wipe(place)
        await fleet.boot()
        fleet.say_state()
        fleet.say_disk(ONE, where=facts)
        fleet.note("and once more")
        with fleet.quiet():
            await fleet.stop(ONE)
            await fleet.boot()
        fleet.say_boot()

    return scenes


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("places", ["0", "1", "2", "12", "012"])
def test_replaced(places: str, how: str, snapshot: SnapshotAssertion) -> None:
    found = told(
        _replaced(tuple(map(int, places)), how), bookies=1, ledger_dirs=2, settings=SHORT_LEASE
    )
    assert snapshot(extension_class=Words) == found


async def _approve(fleet: Fleet) -> None:
    bookie = fleet.bookies[ONE]
    await down(fleet, "killed")
    first = bookie.disk.replace_volume(SECOND)
    await fleet.boot()
    plan = plan_of(bookie)
    fleet.note(f"another plan is approved: {approved(bookie, 'another', 'Ada')}")
    fleet.note("it is killed, and asks for the same")
    fleet.crash(ONE)
    await fleet.boot()
    fleet.note("another disk is replaced meanwhile: the plan is another")
    fleet.crash(ONE)
    journal = bookie.disk.replace_volume(JOURNAL)
    await fleet.boot()
    fleet.note(f"the former plan is approved: {approved(bookie, plan, 'Ada')}")
    fleet.note("both are put back")
    fleet.crash(ONE)
    bookie.disk.replace_volume(SECOND, first)
    bookie.disk.replace_volume(JOURNAL, journal)
    await fleet.boot()
    fleet.note(f"approved: {approved(bookie, plan, 'Ada')}")
    fleet.note("it is gone again, and somebody approves")
    fleet.crash(ONE)
    bookie.disk.replace_volume(SECOND)
    await fleet.boot()
    plan = plan_of(bookie)
    fleet.note(f"approved: {approved(bookie, plan, 'Ada')}")
    fleet.note(f"and once more: {approved(bookie, plan, 'Bob')}")
    await fleet.until(lambda: bookie.is_serving, "it serves")
    fleet.say_boot()
    fleet.say_state()
    fleet.say_disk(ONE, where=lambda path: path.endswith("sqlite"))


def test_a_fix_waits_for_approval(snapshot: SnapshotAssertion) -> None:
    asks = {"cookieFix": {"policy": "Approve"}}
    assert snapshot(extension_class=Words) == told(
        _approve, bookies=1, ledger_dirs=2, settings=asks
    )


async def _changes_while_it_waits(fleet: Fleet) -> None:
    bookie = fleet.bookies[ONE]
    await down(fleet, "stopped")
    former = bookie.disk.replace_volume(SECOND)
    await fleet.boot()
    fleet.note("while it waits the disk comes back")
    bookie.disk.replace_volume(SECOND, former)
    bookie.approve()
    await fleet.until(lambda: bookie.is_serving, "it serves")
    fleet.say_boot()
    with fleet.quiet():
        await fleet.stop(ONE)
    fleet.note("one is lost; and while it waits, another")
    bookie.disk.replace_volume(SECOND)
    await fleet.boot()
    bookie.disk.replace_volume(FIRST)
    bookie.approve()
    await asyncio.sleep(0.2)
    fleet.say_boot()
    fleet.note("the store is away while it is approved")
    fleet.weather.is_out = True
    bookie.approve()
    await asyncio.sleep(4.0)
    fleet.say_boot()
    fleet.weather.is_out = False
    await fleet.until(lambda: bookie.is_serving, "it serves")
    fleet.say_boot()
    fleet.say_state()


def test_what_changes_while_it_waits(snapshot: SnapshotAssertion) -> None:
    asks = {"cookieFix": {"policy": "Approve"}}
    assert snapshot(extension_class=Words) == told(
        _changes_while_it_waits, bookies=1, ledger_dirs=2, settings=asks
    )


async def _never(fleet: Fleet) -> None:
    bookie = fleet.bookies[ONE]
    await down(fleet, "stopped")
    former = bookie.disk.replace_volume(SECOND)
    await fleet.boot()
    fleet.say_disk(ONE, where=lambda path: path.endswith(("DIRTY", "STAMP")))
    fleet.crash(ONE)
    fleet.note("it is put back")
    bookie.disk.replace_volume(SECOND, former)
    await fleet.boot()


def test_a_fix_is_never_allowed(snapshot: SnapshotAssertion) -> None:
    never = {"cookieFix": {"policy": "Never"}}
    assert snapshot(extension_class=Words) == told(_never, bookies=1, ledger_dirs=2, settings=never)


def _put_back(how: str) -> Scenes:
    async def scenes(fleet: Fleet) -> None:
        bookie = fleet.bookies[ONE]
        await down(fleet, how)
        former = bookie.disk.replace_volume(SECOND)
        with fleet.quiet():
            await fleet.boot()
            await written(fleet, 1, 1)
            await fleet.stop(ONE)
        fleet.note("the old one is put back")
        bookie.disk.replace_volume(SECOND, former)
        await fleet.boot()
        fleet.note("a person lets it go on")
        bookie.approve()
        await fleet.until(lambda: bookie.is_serving, "it serves")
        fleet.say_boot()
        fleet.say_state()
        fleet.say_disk(ONE, where=facts)

    return scenes


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_put_back(how: str, snapshot: SnapshotAssertion) -> None:
    found = told(_put_back(how), bookies=1, ledger_dirs=2)
    assert snapshot(extension_class=Words) == found
