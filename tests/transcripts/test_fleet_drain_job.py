"""Drains of a fleet: a bookie that is to leave, its ledgers, their writers, and what stays."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest
from bookie.client.bookkeeper_client import Client
from bookie.client.writer import LedgerWriter
from bookie.ids import BookieId, EntryId
from bookie.protocol.ledger import Fragment, LedgerState
from bookie.repair.jobs.evacuation import EvacuationSettings
from bookie.repair.mend import copy
from fleet_jobs import (
    at,
    back,
    delete,
    drained,
    lines_of_page,
    made,
    named,
    put,
    put_together,
    repaired,
    replaced,
    rewrite,
    say_rest,
)
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

RECOVERING = LedgerState.IN_RECOVERY


async def _cancelled(fleet: Fleet, number: int) -> None:
    fleet.spawn("person", fleet.handles("person").control.drain(*named(str(number)), cancel=True))


async def _writer_on(fleet: Fleet, client: Client, name: str) -> LedgerWriter:
    """A new ledger with two entries whose ensemble has this bookie."""
    with fleet.quiet():
        for _ in range(20):
            writer = await fleet.write(2, client=client)
            if name in writer.metadata.last_fragment.ensemble:
                return writer
    raise AssertionError(f"no ledger on {name}")


def test_a_bookie_with_every_kind_of_ledger(snapshot: SnapshotAssertion) -> None:
    """Closed, empty, of several fragments, with a busy and with an idle writer, in recovery."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=4, end=3)
        await made(fleet, end=-1)
        await made(fleet, (0, "012"), (2, "134"), (3, "120"), entries=5, end=4)
        await made(fleet, (0, "023"), entries=2, end=1)
        await made(fleet, (0, "123"), (2, "023"), entries=3)
        await made(fleet, (0, "012"), entries=2, state=RECOVERING)
        await made(fleet, (0, "023"), entries=2, state=RECOVERING)
        client = fleet.client()
        busy, idle = [await _writer_on(fleet, client, "bookie-1") for _ in range(2)]
        at(fleet, "name bookie-1, or may come to", partial(busy.append, b"more"))
        document = await drained(fleet, 1, begin=True)
        for line in lines_of_page(document):
            fleet.record.note(line)
        fleet.note("once more: nothing is left to do")
        await drained(fleet, 1)
        busy.append(b"still more")
        await fleet.seen("busy", busy.wait_acked(EntryId(3)))
        idle.append(b"too late")
        await fleet.seen("idle", idle.wait_acked(EntryId(2)))
        say_rest(fleet)
        fleet.say_state("bookie-1")

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_a_drain_that_is_not_begun(snapshot: SnapshotAssertion) -> None:
    """Nobody told the bookie; it is told and refuses; it is away; it is gone; it is cancelled."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=2, end=1)
        await drained(fleet, 1)
        fleet.note("silent, and not known to drain")
        fleet.network.isolate("bookie-1")
        await drained(fleet, 1, begin=True)
        fleet.network.rejoin("bookie-1")
        fleet.note("its disk fails")
        fleet.bookies["bookie-1"].disk.hiccups["journal"] = "create"
        await drained(fleet, 1, begin=True)
        fleet.note("it is gone, which is no reason not to empty it")
        with fleet.quiet():
            await fleet.stop("bookie-1")
        await drained(fleet, 1, begin=True)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_a_drain_that_is_cancelled(snapshot: SnapshotAssertion) -> None:
    """Between two batches, or while it waits for writers: the others keep their ledgers."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for _ in range(3):
            await made(fleet, entries=2, end=1)
        await made(fleet, entries=2)
        settings = EvacuationSettings(ledgers_per_batch=2)
        at(fleet, "write_ledger", lambda: fleet.spawn("person", _cancelled(fleet, 1)), nth=2)
        await drained(fleet, 1, begin=True, settings=settings)
        fleet.note("once more, cancelled while it waits for the writer")
        at(
            fleet,
            "write_ledger",
            lambda: fleet.loop.call_later(1.0, lambda: fleet.spawn("person", _cancelled(fleet, 1))),
        )
        await drained(fleet, 1, begin=True, settings=settings)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_limbo_and_silent_bookies(snapshot: SnapshotAssertion) -> None:
    """While anything is in limbo anywhere nothing moves; a silent one takes nothing over."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, (0, "234"), entries=2, flushed=False)
        await made(fleet, entries=2, end=1)
        await back(fleet, "bookie-4")
        await drained(fleet, 1, begin=True)
        fleet.note("repaired; and nobody who may take over answers")
        with fleet.quiet():
            await repaired(fleet)
        fleet.network.isolate("bookie-3")
        fleet.network.block("repair", "bookie-4")
        await drained(fleet, 1)
        fleet.note("one more drains, and takes nothing over")
        fleet.network.heal()
        with fleet.quiet():
            await fleet.handles().control.drain(BookieId("bookie-3"))
        await drained(fleet, 1)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_a_writer_that_moves_on_at_the_last_moment(snapshot: SnapshotAssertion) -> None:
    """It was to be cut off, and has replaced the bookie by then: its ledger stays open."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        ledger = await made(fleet, entries=2)
        fragment = Fragment(EntryId(2), named("032"))

        def moves_on() -> None:
            rewrite(
                fleet,
                ledger.ledger_id,
                lambda found: found.with_fragments([*found.fragments, fragment]),
            )

        at(fleet, "repair > metadata: read_ledgers(", moves_on, nth=2)
        await drained(fleet, 1, begin=True)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_too_few_bookies(snapshot: SnapshotAssertion) -> None:
    """Its writer is not cut off for nothing; then one more is started."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin("bookie-0", "bookie-1", "bookie-2")
        await made(fleet, entries=2, end=1)
        await made(fleet, entries=2)
        await made(fleet, entries=2, state=RECOVERING)
        await drained(fleet, 1, begin=True)
        fleet.note("one more is there")
        with fleet.quiet():
            await fleet.start("bookie-3")
        await drained(fleet, 1)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_racks_of_those_who_take_over(snapshot: SnapshotAssertion) -> None:
    """Copies stay in several racks, whichever bookie a ledger would prefer."""

    async def scenes(fleet: Fleet) -> None:
        for number, rack in enumerate("ababa"):
            fleet.set(fleet.bookies[f"bookie-{number}"], {"rack": f"/rack-{rack}"})
        await fleet.begin()
        for _ in range(3):
            await made(fleet, (0, "01"), write=2, entries=1, end=0)
        await made(fleet, (0, "0123"), write=2, entries=4, end=3)
        await drained(fleet, 1, begin=True)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_metadata_that_others_write(snapshot: SnapshotAssertion) -> None:
    """Somebody is faster once, or always; it is deleted, closed, or nobody can read it."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        once, always, gone, garbled = [await made(fleet, entries=2, end=1) for _ in range(4)]
        fleet.cluster.garbled.add(garbled.ledger_id)
        flushed = "> repair: Flush"
        at(fleet, flushed, partial(delete, fleet, gone.ledger_id))
        at(fleet, flushed, partial(rewrite, fleet, once.ledger_id, lambda found: found))
        for turn in range(1, 9):
            at(
                fleet,
                flushed,
                partial(rewrite, fleet, always.ledger_id, lambda found: found),
                nth=turn,
            )
        await drained(fleet, 1, begin=True)
        fleet.note("now nobody is faster")
        fleet.cluster.garbled.clear()
        await drained(fleet, 1)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


LATE = {
    "lost-reply": ("lost_replies", 1.0, "repair > metadata: barrier", None),
    "late-write": ("late_writes", 1.0, "repair > metadata: barrier", None),
    "away": ("is_out", True, "repair > metadata: read_ledger(", None),
}


@pytest.mark.parametrize("way", LATE)
def test_a_write_of_unknown_outcome(snapshot: SnapshotAssertion, way: str) -> None:
    """It is found out by reading again; what did not happen is tried again."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        one = await made(fleet, entries=2, end=1)
        name, value, _until, _ = LATE[way]

        def begins() -> None:
            fleet.record.note(f"the metadata store: {name}")
            setattr(fleet.weather, name, value)

        def ends() -> None:
            fleet.record.note("the metadata store is well")
            setattr(fleet.weather, name, type(value)())

        at(fleet, "> repair: Flush", begins)
        at(fleet, "UnavailableError", ends)
        await drained(fleet, 1, begin=True)
        await asyncio.sleep(10.0)
        fleet.note("some seconds on")
        await drained(fleet, 1)
        say_rest(fleet)
        assert fleet.cluster.ledgers[one.ledger_id].version >= 1

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


TARGETS = {
    "silent-when-asked": ("repair > bookie-3: GetAvailability", 1),
    "silent-when-it-copies": ("repair > bookie-3: GetAvailability", 2),
    "before-it-flushes": ("repair > bookie-3: Flush", 1),
    "before-it-is-looked-at": ("bookie-3 > repair: Flush", 1),
    "before-it-is-named": ("bookie-3 > repair: GetAvailability", 2),
}


@pytest.mark.parametrize("when", TARGETS)
def test_a_bookie_that_takes_over_goes_away(snapshot: SnapshotAssertion, when: str) -> None:
    """At each step; no ledger names it before it holds what it is to hold, or it is said."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=3, end=2, flushed=False)
        text, nth = TARGETS[when]
        at(fleet, text, partial(fleet.crash, "bookie-3"), nth=nth)
        await drained(fleet, 1, begin=True)
        fleet.note("it is back")
        with fleet.quiet():
            await fleet.start("bookie-3")
            await repaired(fleet)
        await drained(fleet, 1)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_one_that_goes_away_once_it_is_named(snapshot: SnapshotAssertion) -> None:
    """It is a member by then: the ledger is moved, and what the bookie has is unknown."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=3, end=2)
        at(fleet, "write_ledger", partial(fleet.crash, "bookie-3"))
        await drained(fleet, 1, begin=True)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_one_that_loses_its_copies_just_before_it_is_named(snapshot: SnapshotAssertion) -> None:
    """Its new disk had no reason to mark the ledger: the copies are made again."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=3, end=2)

        def loses() -> None:
            fleet.network.lags["repair", "metadata"] = 2.9
            fleet.spawn("person", replaced(fleet, "bookie-3"))
            fleet.loop.call_later(5.0, fleet.network.lags.clear)

        at(fleet, "bookie-3 > repair: GetAvailability", loses, nth=2)
        await drained(fleet, 1, begin=True)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_losses_that_move_with_their_ledger(snapshot: SnapshotAssertion) -> None:
    """What is on record stays on record when its keeper leaves; an entry that nobody has stays."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        lost = {n: (1,) for n in range(3)}
        await made(fleet, entries=3, end=2, lacks=lost)
        with fleet.quiet():
            await repaired(fleet)
        await made(fleet, entries=4, end=3, lacks=lost | {1: (1, 2)})
        await made(fleet, (0, "0124"), write=2, entries=6, end=5, lacks={0: (0,), 1: (0, 1)})
        await drained(fleet, 1, begin=True)
        fleet.note("a repair records what nobody has")
        with fleet.quiet():
            await repaired(fleet)
        await drained(fleet, 1)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_ledgers_that_come_meanwhile(snapshot: SnapshotAssertion) -> None:
    """Each round looks again; what comes after the last one is named, and so is what is left."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        ledgers = [await made(fleet, (0, "023"), entries=1, end=0) for _ in range(4)]
        await made(fleet, entries=2, end=1)

        def comes(number: int) -> None:
            fragments = (Fragment(EntryId(0), named("013")),)
            rewrite(
                fleet, ledgers[number].ledger_id, lambda found: replace(found, fragments=fragments)
            )

        at(fleet, "repair > metadata: write_ledger", partial(comes, 0))
        at(fleet, "repair > metadata: write_ledger", partial(comes, 1), nth=2)
        at(fleet, "repair > metadata: write_ledger", partial(comes, 2), nth=3)
        at(fleet, "ledgers name bookie-1", partial(comes, 3), nth=3)
        await drained(fleet, 1, begin=True)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_large_ledgers_at_a_rate(
    snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies in several runs, whole frames as they are, and no faster than it is told."""
    monkeypatch.setattr(copy, "WHOLE_BYTES_MIN", 2_000)

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        one = await made(fleet, end=8)
        for first in (0, 3, 6):
            await put_together(fleet, one, range(first, first + 3), on="012", size=1_000)
        two = await made(fleet, (0, "0123"), write=3, end=8)
        await put(fleet, two, range(9), size=500)
        settings = EvacuationSettings.at_rate(5_000)
        bounds = replace(
            settings.repair.copy, read_bytes=4_000, frame_bytes=1_200, in_flight_bytes=8_000
        )
        settings = replace(settings, repair=replace(settings.repair, copy=bounds))
        await drained(fleet, 1, begin=True, settings=settings)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_two_drains_at_once(snapshot: SnapshotAssertion) -> None:
    """Of one bookie, by two jobs; and a third of another one, that takes nothing over."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for _ in range(2):
            await made(fleet, entries=2, end=1)
        await asyncio.gather(
            drained(fleet, 1, begin=True),
            drained(fleet, 1, begin=True, who="again"),
            drained(fleet, 2, begin=True, who="other"),
        )
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)
