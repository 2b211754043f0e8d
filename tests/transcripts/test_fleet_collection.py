"""What a bookie does with ledgers that the metadata store has no more: looks, brake, tombstones.

Dropping entries cannot be undone. So each story lets the metadata store be wrong, away or changed
once more between two looks, between judgement and deletion, or after it.
"""

import asyncio
import errno
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from bookie.ids import LedgerId
from bookie.metadata.pausing import write_paused
from bookie.protocol.availability import EntrySet
from bookie.server.marks import LossRequest
from bookie.wire.native import Op
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NAME: Final = "bookie-0"
RULES: Final = {"collectGraceSeconds": 2, "collectBrakeFrom": 3, "collectShareMax": 0.5}


def collected(scenes: Any, **storage: Any) -> str:
    settings = {"storage": RULES | storage}
    return told(scenes, bookies=1, shows_messages=False, settings=settings)


async def ledgers(fleet: Fleet, count: int) -> list[LedgerId]:
    """Ledgers of two entries each, all durable."""
    with fleet.quiet():
        line = await fleet.line(NAME)
        ids = [await fleet.ledger(NAME, ack=1) for _ in range(count)]
        for ledger_id in ids:
            await line.add(ledger_id, 0, 2)
        await fleet.at(NAME, fleet.services(NAME).marks.flush())
        line.transport.close()
    return ids


async def deleted(fleet: Fleet, ids: Sequence[LedgerId]) -> list[Any]:
    """They are deleted from the metadata store; what it held."""
    fleet.note(f"deleted: {', '.join(map(str, ids))}")
    with fleet.quiet():
        store = fleet.stores["client"]
        former = [(await store.read_ledger(ledger_id)).value for ledger_id in ids]
        for ledger_id in ids:
            await store.delete_ledger(ledger_id)
    return former


async def restored(fleet: Fleet, former: Sequence[Any]) -> None:
    fleet.note(f"there again: {', '.join(str(one.ledger_id) for one in former)}")
    with fleet.quiet():
        for one in former:
            await fleet.stores["client"].create_ledger(replace(one, creation_token=None))


async def look(fleet: Fleet, *, after_s: float = 0.0) -> None:
    await asyncio.sleep(after_s)
    work = fleet.at(NAME, fleet.services(NAME).collector.run_pass())
    state = fleet.bookies[NAME].bookie.state  # type: ignore[union-attr]
    await fleet.seen("a look drops", work)
    parts = f"missing {state.ledgers_missing}, tombstones {state.tombstones}"
    fleet.record.note(f"    {parts}, plan {state.collection_plan!r}")


async def look_twice(fleet: Fleet) -> None:
    """The second one beyond the grace."""
    await look(fleet)
    await look(fleet, after_s=2.1)


async def _two_looks(fleet: Fleet) -> None:
    await fleet.begin()
    ids = await ledgers(fleet, 4)
    await look(fleet)
    former = await deleted(fleet, ids[:1])
    await look(fleet)
    await look(fleet, after_s=1.9)
    await restored(fleet, former)
    await look(fleet)
    await deleted(fleet, ids[:2])
    for after_s in (0, 1.9, 0.2, 0):
        await look(fleet, after_s=after_s)
    fleet.say_state()
    fleet.note("what is collected exists again, and is deleted again; another is deleted meanwhile")
    await restored(fleet, former)
    await look(fleet)
    fleet.say_state()
    line = await fleet.line(NAME)
    await fleet.seen("a read", line.read(ids[0], 0, 1))
    await fleet.seen("an entry is put back", line.add(ids[0], 0, flags=1))
    await deleted(fleet, [ids[0], ids[2]])
    await look_twice(fleet)
    await look(fleet)
    fleet.say_state()


def test_two_looks_a_grace_apart(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == collected(_two_looks)


async def _brake(fleet: Fleet) -> None:
    await fleet.begin()
    ids = await ledgers(fleet, 7)
    fleet.note("three of seven are not too many; four of the next are")
    await deleted(fleet, ids[:3])
    await look_twice(fleet)
    former = await deleted(fleet, ids[3:6])
    await look_twice(fleet)
    await look(fleet)
    health = await fleet.ask(NAME, "GetHealth")
    for plan in ("", "another", health.collection_plan_id):
        await fleet.ask(NAME, "ApproveCollection", plan_id=plan, approved_by="ann")
    await fleet.ask(NAME, "ApproveCollection", plan_id=health.collection_plan_id)
    fleet.note("one of them exists again before it is dropped")
    await restored(fleet, former[:1])
    await look(fleet)
    await fleet.ask(NAME, "GetHealth")
    fleet.say_state()


def test_the_brake_and_its_approval(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == collected(_brake)


async def _plans(fleet: Fleet) -> None:
    await fleet.begin()
    ids = await ledgers(fleet, 6)
    former = await deleted(fleet, ids[:4])
    await look_twice(fleet)
    plan = (await fleet.ask(NAME, "GetHealth")).collection_plan_id
    fleet.note("one more is missing: the plan stays as people see it")
    await deleted(fleet, ids[4:5])
    await look_twice(fleet)
    fleet.note("one of the plan exists again: another plan")
    await restored(fleet, former[:1])
    await look(fleet)
    await fleet.ask(NAME, "ApproveCollection", plan_id=plan, approved_by="ann")
    fleet.note("its approval finds the disk full, and then space")
    disk = fleet.bookies[NAME].disk
    disk.fail("commit", pattern="index.sqlite", error=errno.ENOSPC)
    plan = (await fleet.ask(NAME, "GetHealth")).collection_plan_id
    await fleet.ask(NAME, "ApproveCollection", plan_id=plan, approved_by="ann")
    await fleet.ask(NAME, "ApproveCollection", plan_id=plan, approved_by="bob")
    fleet.note("it restarts before it goes on: nothing is approved any more")
    await fleet.stop(NAME)
    with fleet.quiet():
        await fleet.start()
    await look_twice(fleet)
    await fleet.ask(NAME, "GetHealth")
    fleet.say_state()


def test_plans_that_change(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == collected(_plans)


async def _store_away(fleet: Fleet) -> None:
    await fleet.begin()
    ids = await ledgers(fleet, 4)
    former = await deleted(fleet, ids[:2])
    await look(fleet)
    fleet.note("the store is away for a look: the grace runs on")
    fleet.weather.is_out = True
    await look(fleet, after_s=1)
    fleet.weather.is_out = False
    fleet.note(
        "it goes away in the middle of the next, and one ledger comes back in the middle of another"
    )
    fleet.network.lags[NAME, "metadata"] = 0.25
    work = asyncio.ensure_future(look(fleet))
    await asyncio.sleep(1.6)
    fleet.weather.is_out = True
    await work
    fleet.weather.is_out = False
    work = asyncio.ensure_future(look(fleet))
    await asyncio.sleep(1.6)
    await restored(fleet, former[:1])
    await work
    fleet.network.lags.clear()
    fleet.say_state()
    fleet.note("by a server that lags behind")
    await deleted(fleet, ids[:1])
    await asyncio.sleep(0.1)
    fleet.weather.deposed[NAME] = fleet.loop.time() - 1
    await look(fleet)
    fleet.weather.deposed.clear()
    await look(fleet)


def test_a_store_that_goes_away(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == collected(_store_away)


async def _slow(fleet: Fleet) -> None:
    await fleet.begin()
    ids = await ledgers(fleet, 4)
    await deleted(fleet, ids[:1])
    fleet.note("a look takes two seconds: the grace is from the end of one to the begin of another")
    fleet.network.lags[NAME, "metadata"] = 0.3
    for after_s in (0, 0, 0.1, 2.1):
        await look(fleet, after_s=after_s)


def test_looks_that_take_long(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == collected(_slow, collectGraceSeconds=2.5)


async def _believed(fleet: Fleet) -> None:
    await fleet.begin()
    ids = await ledgers(fleet, 4)
    state = fleet.bookies[NAME].bookie.state  # type: ignore[union-attr]
    await deleted(fleet, ids[:1])
    await look(fleet)
    fleet.note("the cluster is paused: what was noted is forgotten")
    await write_paused(fleet.stores["client"], True)
    await look(fleet, after_s=2.1)
    await write_paused(fleet.stores["client"], False)
    await look(fleet)
    fleet.note("the metadata store was put back, which is found out in the middle of a look")
    await asyncio.sleep(2.1)
    fleet.network.lags[NAME, "metadata"] = 0.25
    work = asyncio.ensure_future(look(fleet))
    await asyncio.sleep(1.6)
    state.metadata_rolled_back = "its epoch is lower"
    await work
    fleet.network.lags.clear()
    await look(fleet)
    await fleet.ask(NAME, "GetHealth")
    state.metadata_rolled_back = ""
    await look_twice(fleet)
    fleet.say_state(NAME)


def test_when_the_store_is_not_believed(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == collected(_believed)


async def _half(fleet: Fleet) -> None:
    await fleet.begin()
    ids = await ledgers(fleet, 8)
    with fleet.quiet():
        line = await fleet.line(NAME)
        lossy = [await fleet.ledger(NAME, ack=1, closed_at=1) for _ in range(2)]
        await line.of_lac(Op.READ_LAC, lossy[0], fence=True)
        for ledger_id in lossy:
            entries, answered = EntrySet.from_ranges([(0, 1)]), frozenset((NAME,))
            wish = LossRequest(ledger_id, entries, False, "gone", answered)
            await fleet.at(NAME, fleet.services(NAME).marks.record_loss(wish))
    former = await deleted(fleet, [*ids[:3], *lossy])
    await look(fleet)
    fleet.note("the index finds no space for the deletion")
    fleet.bookies[NAME].disk.fail("commit", pattern="index.sqlite", error=errno.ENOSPC)
    await look(fleet, after_s=2.1)
    line = await fleet.line(NAME)
    await fleet.seen("a read", line.read(ids[0], 0, 1))
    await fleet.seen("availability", fleet.ask(NAME, "GetAvailability", ledger_ids=ids[:2]))
    fleet.say_state()
    fleet.note("one of them exists again; it restarts; and the rest goes")
    await restored(fleet, former[:1])
    await look(fleet)
    fleet.say_state()
    await fleet.stop(NAME)
    with fleet.quiet():
        await fleet.start()
    await look_twice(fleet)
    await fleet.ask(NAME, "GetHealth")
    fleet.say_state()


def test_a_deletion_that_finds_the_disk_full(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == collected(_half, collectBrakeFrom=20)


async def _by_itself(fleet: Fleet) -> None:
    await fleet.begin()
    ids = await ledgers(fleet, 4)
    line = await fleet.line(NAME)
    await fleet.seen("a fence", line.of_lac(Op.READ_LAC, ids[3], fence=True))
    await deleted(fleet, ids[:1])
    await asyncio.sleep(2.5)
    fleet.weather.is_out = True
    await asyncio.sleep(3.5)
    fleet.weather.is_out = False
    await asyncio.sleep(4)
    fleet.say_state()


def test_collection_by_itself(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == collected(_by_itself, collectIntervalSeconds=1)
