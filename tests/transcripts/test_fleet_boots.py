"""Stories of boots: first, clean, killed, cut; in each mode, and when the mode has changed."""

from typing import Final

import pytest
from bookie.points import POINTS
from boot_scenes import ONE, Scenes, cut, facts, written
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

MODES: Final = ("memory", "journal", "sync")


async def _lives(fleet: Fleet) -> None:
    fleet.note("the first boot")
    await fleet.boot()
    await written(fleet, 2, 1)
    fleet.note("a clean stop")
    await fleet.stop(ONE)
    fleet.say_disk(ONE)
    await fleet.boot()
    await written(fleet, 2, 1)
    fleet.note("killed")
    fleet.crash(ONE)
    fleet.say_disk(ONE)
    await fleet.boot()
    await written(fleet, 2, 1)
    fleet.note("power goes")
    fleet.crash(ONE, image=cut)
    fleet.say_disk(ONE)
    await fleet.boot()
    fleet.say_state()
    fleet.say_disk(ONE)
    fleet.say_store()


@pytest.mark.parametrize("dirs", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_lives(mode: str, dirs: int, snapshot: SnapshotAssertion) -> None:
    found = told(_lives, bookies=1, mode=mode, ledger_dirs=dirs)
    assert snapshot(extension_class=Words) == found


async def _modes(fleet: Fleet) -> None:
    await fleet.begin()
    for mode in ("journal", "sync", "memory", "memory", "sync", "journal", "memory"):
        await written(fleet, 2, 1)
        fleet.crash(ONE, image=cut)
        fleet.note(f"from now on {mode}")
        journals, acks = mode == "journal", "sync" if mode == "sync" else "memory"
        changed = {"durability": {"journalWriteData": journals, "ack": acks}}
        fleet.set(fleet.bookies[ONE], changed)
        with fleet.quiet():
            await fleet.boot()
        fleet.say_boot()
    fleet.say_state()
    fleet.say_disk(ONE)


def test_the_mode_changes(snapshot: SnapshotAssertion) -> None:
    found = told(_modes, bookies=1, mode="memory", ledger_dirs=2)
    assert snapshot(extension_class=Words) == found


def _at(point: str, before: str) -> Scenes:
    async def scenes(fleet: Fleet) -> None:
        bookie = fleet.bookies[ONE]
        if before != "the first boot":
            await fleet.begin()
            await written(fleet, 2, 1)
        if before == "a clean stop":
            with fleet.quiet():
                await fleet.stop(ONE)
        elif before != "the first boot":
            fleet.crash(ONE)
        if before == "a replaced disk":
            bookie.wipe(1)
        for often in ("once", "twice"):
            fleet.note(f"power goes {often}")
            bookie.arm_point(point, cut, restart_s=1.0)
            with fleet.quiet():
                await fleet.boot()
            fleet.say_boot()
            if bookie.is_up:
                break
            fleet.say_disk(ONE, where=facts)
        bookie.disarm()
        with fleet.quiet():
            fleet.crash(ONE)
        await fleet.boot()
        fleet.say_state()

    return scenes


@pytest.mark.parametrize("before", ["the first boot", "a clean stop", "a kill", "a replaced disk"])
@pytest.mark.parametrize("point", [one[6:] for one in POINTS if one.startswith("boot:")])
def test_power_goes_at_a_point(point: str, before: str, snapshot: SnapshotAssertion) -> None:
    found = told(_at(f"boot: {point}", before), bookies=1, ledger_dirs=2)
    assert snapshot(extension_class=Words) == found
