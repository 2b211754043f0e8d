"""Repairs of a fleet: which ledgers, what is copied, what is in the way, and what stays marked."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from bookie.client.recovery import recover
from bookie.ids import BookieId, EntryId
from bookie.protocol.ledger import Fragment, LedgerState
from bookie.repair.look.audit import AuditSettings
from bookie.repair.mend.ledger_repair import RepairSettings
from fleet_jobs import (
    at,
    back,
    delete,
    flush,
    made,
    named,
    put,
    repaired,
    replaced,
    rewrite,
    say_rest,
)
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words


def test_every_state_of_a_ledger(snapshot: SnapshotAssertion) -> None:
    """Of each the same bookie has forgotten entries; one is deleted while the repair begins."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        recovering = LedgerState.IN_RECOVERY
        closed = await made(fleet, entries=3, end=2, flushed=False)
        await made(fleet, entries=3, flushed=False)
        await made(fleet, entries=2, state=recovering, flushed=False)
        gone = await made(fleet, entries=1, flushed=False)
        await made(fleet, end=-1)
        await made(fleet)
        await back(fleet, "bookie-1")
        at(fleet, "s for writers", partial(delete, fleet, gone.ledger_id))
        await repaired(fleet, "1")
        fleet.note("once more, of all bookies and ledgers")
        await repaired(fleet)
        say_rest(fleet)
        fleet.say_state("bookie-1")
        assert fleet.cluster.ledgers[closed.ledger_id].version == 0

    assert snapshot(extension_class=Words) == told(scenes)


def test_a_bookie_that_only_an_older_fragment_names(snapshot: SnapshotAssertion) -> None:
    """Its writer has replaced it: the ledger stays open. Of another ledger it is a member still."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, (0, "012"), (4, "023"), entries=6, flushed=False)
        await made(fleet, (0, "023"), (4, "123"), entries=6, flushed=False)
        await made(fleet, (0, "012"), (2, "013"), (4, "023"), entries=6, end=5, flushed=False)
        await back(fleet, "bookie-1")
        await repaired(fleet, "1")
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_stripes(snapshot: SnapshotAssertion) -> None:
    """Each member owes a part of the entries; two neighbours lack some of theirs."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        lacks = {1: (0, 5), 2: (5, 6, 9)}
        await made(fleet, (0, "0123"), write=2, ack=2, entries=12, end=11, lacks=lacks)
        await made(fleet, (0, "0123"), (6, "1234"), write=3, ack=1, entries=12, flushed=False)
        await back(fleet, "bookie-3")
        await repaired(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_entries_that_some_or_all_members_lack(snapshot: SnapshotAssertion) -> None:
    """What one has is copied; what nobody has is lost, once, and is no news the next time."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        lacks = {0: (1, 2, 3, 4), 1: (2, 3), 2: (3, 5)}
        await made(fleet, entries=7, end=6, lacks=lacks)
        await made(fleet, entries=3, ack=1, end=3)
        await repaired(fleet)
        fleet.note("the second finds it on record")
        await repaired(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_a_loss_that_is_none(snapshot: SnapshotAssertion) -> None:
    """A copy turns up between two looks, or lies with a member of before: nothing is recorded."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        lacks = {n: (1,) for n in range(3)}
        ledger = await made(fleet, entries=3, end=2, lacks=lacks)
        at(
            fleet,
            "audit: 3 entries",
            lambda: fleet.spawn("late", put(fleet, ledger, [1], on="2", is_told=True)),
        )
        await repaired(fleet)
        fleet.note("it is copied by the next one")
        await repaired(fleet)
        fleet.note("another lies with a bookie that owes it to no fragment")
        other = await made(fleet, (0, "012"), (3, "123"), entries=5, end=4)
        await put(fleet, other, [5], on="0")
        rewrite(fleet, other.ledger_id, lambda found: replace(found, last_entry_id=EntryId(5)))
        await repaired(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_a_loss_of_which_a_part_turns_up(snapshot: SnapshotAssertion) -> None:
    """Between two looks: only what is gone by both is recorded."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        ledger = await made(fleet, entries=4, end=3, lacks=dict.fromkeys(range(3), (1, 2)))

        def turns_up() -> None:
            fleet.network.lags["repair", "metadata"] = 1.0
            fleet.spawn("late", put(fleet, ledger, [2], on="2", is_told=True))
            fleet.loop.call_later(2.0, fleet.network.lags.clear)

        at(fleet, "bookie-2 > repair: GetAvailability", turns_up, nth=4)
        await repaired(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_losses_on_a_bookie_that_came_back_with_another_disk(snapshot: SnapshotAssertion) -> None:
    """Its record went with its disk: it is written again, and its mark goes."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        lacks = {n: (1,) for n in range(3)}
        await made(fleet, entries=3, end=2, lacks=lacks)
        with fleet.quiet():
            await repaired(fleet)
        await replaced(fleet, "bookie-0")
        await repaired(fleet, "0")
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


WAYS: dict[str, Callable[[Fleet], object]] = {
    "isolated": lambda fleet: fleet.network.isolate("bookie-1"),
    "no-way-there": lambda fleet: fleet.network.block("repair", "bookie-1"),
    "not-registered": lambda fleet: fleet.cluster.registered.pop(BookieId("bookie-1")),
    "crashed": lambda fleet: fleet.crash("bookie-1"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_bookie_that_does_not_answer(snapshot: SnapshotAssertion, way: str) -> None:
    """It is a member that lacks nothing; another one lacks entries, and a third has forgotten."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=3, end=2, lacks={0: (1,)})
        await made(fleet, entries=3, flushed=False)
        await back(fleet, "bookie-2")
        WAYS[way](fleet)
        await repaired(fleet, "12" if way == "isolated" else "")
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_two_bookies_that_do_not_answer(snapshot: SnapshotAssertion) -> None:
    """What they would say decides: nothing is closed, nothing is lost, marks stay."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=3, flushed=False)
        await made(fleet, entries=3, end=2, lacks={1: (1,)})
        await back(fleet, "bookie-1")
        await fleet.stop("bookie-0")
        fleet.network.isolate("bookie-2")
        await repaired(fleet)
        fleet.note("they are back")
        with fleet.quiet():
            await fleet.start("bookie-0")
        fleet.network.rejoin("bookie-2")
        await repaired(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_a_cookie_that_is_left_of_a_bookie(snapshot: SnapshotAssertion) -> None:
    """No ledger names it; once one does, or one is in recovery, it is a bookie that is down."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=1, end=0)
        with fleet.quiet():
            await fleet.stop("bookie-3", "bookie-4")
        await repaired(fleet)
        fleet.note("who names it wants to know")
        await repaired(fleet, "3")
        fleet.note("a ledger names one")
        await made(fleet, (0, "123"), end=-1)
        await repaired(fleet)
        fleet.note("metadata that nobody can read")
        fleet.cluster.garbled.add((await made(fleet)).ledger_id)
        await repaired(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_a_cookie_while_a_ledger_is_in_recovery(snapshot: SnapshotAssertion) -> None:
    """Its recoverer may be about to name any bookie: none counts as gone."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        tail = dict.fromkeys(range(3), (1,))
        await made(fleet, entries=2, lacks=tail, state=LedgerState.IN_RECOVERY, flushed=False)
        await back(fleet, "bookie-0", "bookie-1")
        with fleet.quiet():
            await fleet.stop("bookie-3")
        await repaired(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_a_mark_that_one_of_two_bookies_clears(snapshot: SnapshotAssertion) -> None:
    """The first is away by then: the ledger has a mark left, whatever the second says."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=2, end=1, flushed=False)
        await back(fleet, "bookie-0", "bookie-1")
        at(fleet, "repair > bookie-0: ClearLimbo", partial(fleet.crash, "bookie-0"))
        await repaired(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_a_writer_that_moves_on(snapshot: SnapshotAssertion) -> None:
    """One ledger has a live writer, which replaces the bookie in time; the other one's is idle."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        with fleet.quiet():
            live, idle = await fleet.write(3), await fleet.write(2)
        names = live.metadata.last_fragment.ensemble[0]
        await back(fleet, names)
        at(fleet, "s for writers", partial(live.append, b"more"))
        await repaired(fleet, names[-1])
        fleet.note("the one goes on, the other is fenced")
        live.append(b"still more")
        await fleet.seen("live", live.wait_acked(EntryId(4)))
        idle.append(b"too late")
        await fleet.seen("idle", idle.wait_acked(EntryId(2)))
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_somebody_else_closes_it_first(snapshot: SnapshotAssertion) -> None:
    """Another recoverer is faster; of another ledger the closing write is of unknown outcome."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        first = await made(fleet, entries=3, flushed=False)
        await made(fleet, entries=3, flushed=False)
        await back(fleet, "bookie-1")
        other = fleet.handles("other")

        def close() -> None:
            fleet.spawn(
                "other", recover(other.store, other.peers, first.ledger_id, password=b"secret")
            )

        at(fleet, "2 ledgers to look after", close)
        at(fleet, "state=IN_RECOVERY", lambda: setattr(fleet.weather, "lost_replies", 1.0), nth=2)
        at(fleet, "state=CLOSED", lambda: setattr(fleet.weather, "lost_replies", 0.0))
        await repaired(fleet, "1")
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_metadata_that_changes_while_it_is_looked_at(snapshot: SnapshotAssertion) -> None:
    """Once, then it is looked at again; at each look, then nothing definite is said of it."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        one = await made(fleet, entries=3, end=2, lacks={1: (1,)})
        change = partial(rewrite, fleet, one.ledger_id, lambda found: found)
        at(fleet, "bookie-2 > repair: GetAvailability", change)
        await repaired(fleet)
        fleet.note("at each look")
        two = await made(fleet, entries=3, end=2, lacks={1: (1,)})
        change = partial(rewrite, fleet, two.ledger_id, lambda found: found)
        for look in range(1, 9):
            at(fleet, "bookie-2 > repair: GetAvailability", change, nth=look)
        await repaired(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


STEPS = {
    "when-it-begins": "repair > metadata: instance_id",
    "after-the-marks": "> repair: ListLimbo",
    "when-it-recovers": "repair > metadata: read_ledger(",
    "when-it-closes": "ADD_RUN",
    "before-its-audit": "repair: Flush",
    "before-it-clears": "audit: ",
}


@pytest.mark.parametrize("step", STEPS)
def test_the_metadata_store_is_away(snapshot: SnapshotAssertion, step: str) -> None:
    """For some seconds; what was done stays done, and the next repair does the rest."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=3, flushed=False)
        await made(fleet, entries=3, end=2, lacks={0: (2,)})
        await back(fleet, "bookie-1")

        def away() -> None:
            fleet.weather.is_out = True
            fleet.record.note("the metadata store is away")
            fleet.loop.call_later(20.0, setattr, fleet.weather, "is_out", False)

        at(fleet, STEPS[step], away)
        await repaired(fleet)
        await asyncio.sleep(20.0)
        fleet.note("it is back")
        await repaired(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_ledgers_that_nobody_can_decide(snapshot: SnapshotAssertion) -> None:
    """Two members have forgotten: a person decides. If one is away as well, it is waited for."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        tail = {0: (2, 3), 1: (2, 3), 2: (2, 3), 3: (2, 3)}
        await made(fleet, entries=4, lacks=tail, flushed=False)
        await made(fleet, (0, "123"), entries=4, lacks=tail, flushed=False)
        await made(fleet, entries=4, flushed=False)
        await back(fleet, "bookie-0", "bookie-1")
        fleet.network.isolate("bookie-3")
        await repaired(fleet, "01")
        fleet.note("it is back")
        fleet.network.rejoin("bookie-3")
        await repaired(fleet, "01")
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_one_that_forgot_and_goes_away(snapshot: SnapshotAssertion) -> None:
    """It is asked once more, and silent by then: it is waited for, and nobody decides."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        tail = dict.fromkeys(range(3), (2,))
        await made(fleet, entries=3, lacks=tail, flushed=False)
        await back(fleet, "bookie-0", "bookie-1")
        at(
            fleet,
            "repair > bookie-1: GetAvailability",
            partial(fleet.network.block, "repair", "bookie-1"),
        )
        await repaired(fleet, "01")

    assert snapshot(extension_class=Words) == told(scenes)


def test_two_repairs_at_once(snapshot: SnapshotAssertion) -> None:
    """Both do all of it, and come to the same end."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=3, flushed=False)
        await made(fleet, entries=3, end=2, lacks={0: (2,)})
        await back(fleet, "bookie-1")
        await asyncio.gather(repaired(fleet), repaired(fleet, "1", who="another"))
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_many_ledgers_in_small_batches(snapshot: SnapshotAssertion) -> None:
    """Two to a batch, and one read of metadata at a time; the last batch is a short one."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for number in range(5):
            await made(fleet, entries=2, end=1, lacks={number % 3: (1,)})
        looks = AuditSettings(ledgers_per_batch=3, metadata_in_flight=2, grace_s=1.0, recheck_s=2.0)
        await repaired(fleet, settings=RepairSettings(ledgers_per_batch=2, audit=looks))
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_an_open_ledger_that_lacks_entries_of_an_older_fragment(
    snapshot: SnapshotAssertion,
) -> None:
    """Nobody has them: with a mark on one that owes them it is closed, so that they can be lost.
    Without it stays open."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        lacks = {n: (1,) for n in range(3)}
        await made(fleet, (0, "012"), (3, "034"), entries=5, lacks=lacks, flushed=False)
        await repaired(fleet)
        fleet.note("marked")
        await back(fleet, "bookie-1")
        await repaired(fleet, "1")
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_a_bookie_of_another_cluster(snapshot: SnapshotAssertion) -> None:
    """By its cookie; then another cluster behind the address, before and during a job."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        cookies, known = fleet.cluster.cookies, fleet.cluster.instance_id
        good = cookies[BookieId("bookie-1")]
        cookies[BookieId("bookie-1")] = replace(
            good, value=replace(good.value, instance_id="alien")
        )
        await repaired(fleet)
        fleet.note("one without an id, as of old, is no other")
        cookies[BookieId("bookie-1")] = replace(good, value=replace(good.value, instance_id=""))
        with fleet.quiet():
            assert await repaired(fleet)
        for found in (None, "another"):
            fleet.cluster.instance_id = found
            await repaired(fleet)
        fleet.cluster.instance_id = known

    assert snapshot(extension_class=Words) == told(scenes)


def test_a_mark_on_a_ledger_that_is_left_to_its_writer(snapshot: SnapshotAssertion) -> None:
    """Its bookie waits for the close all the same: then the repair ends it."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        ledger = await made(fleet, entries=2, flushed=False)
        await back(fleet, "bookie-1")

        def moves_on(*names: str) -> None:
            fragment = Fragment(EntryId(2), named("".join(names)))
            rewrite(
                fleet,
                ledger.ledger_id,
                lambda found: found.with_fragments([*found.fragments[:1], fragment]),
            )

        at(fleet, "s for writers", partial(moves_on, "0", "3", "2"))
        at(fleet, "audit: ", partial(moves_on, "0", "1", "2"))
        at(fleet, "> repair: ClearLimbo", partial(moves_on, "0", "3", "2"))
        await repaired(fleet, "1")
        fleet.note("the next one clears it")
        await repaired(fleet, "1")
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_a_mark_on_a_ledger_whose_writer_takes_the_bookie_again(
    snapshot: SnapshotAssertion,
) -> None:
    """It is left alone: the next repair ends it, after another grace."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        ledger = await made(fleet, entries=2, flushed=False)
        await back(fleet, "bookie-1")

        def moves_on(numbers: str) -> None:
            fragment = Fragment(EntryId(2), named(numbers))
            rewrite(
                fleet,
                ledger.ledger_id,
                lambda found: found.with_fragments([*found.fragments[:1], fragment]),
            )

        at(fleet, "s for writers", partial(moves_on, "032"))
        at(fleet, "audit: ", partial(moves_on, "012"))
        await repaired(fleet, "1")
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_a_bookie_that_goes_away_before_it_flushes_or_clears(snapshot: SnapshotAssertion) -> None:
    """What it got is not known to be durable, and its mark stays until the next repair."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=3, end=2, flushed=False)
        for step in ("repair > bookie-1: Flush", "repair > bookie-1: ClearLimbo"):
            await back(fleet, "bookie-1")
            at(fleet, step, partial(fleet.crash, "bookie-1"))
            await repaired(fleet, "1")
            with fleet.quiet():
                await fleet.start("bookie-1")
        await flush(fleet)
        await repaired(fleet, "1")
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)
