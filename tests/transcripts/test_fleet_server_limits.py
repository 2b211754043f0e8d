"""What a bookie does when clients ask for more than it grants or are slow, and when it sleeps."""

import asyncio
import re
from collections.abc import Sequence

from bookie.frames.frame import FLAG_RECOVERY
from bookie.ids import LedgerId
from bookie.wire.native import Op
from fleet_line import Line
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NAME = "bookie-0"
MIB = 1024 * 1024


async def all_of(fleet: Fleet, what: str, asked: Sequence[asyncio.Future[str]]) -> None:
    """Writes down the answers in the order in which they come, each with its time."""
    begun = fleet.loop.time()

    def note(number: int, done: "asyncio.Future[str]") -> None:
        words = re.sub(r"runs \[.*#", "runs [... #", done.result())
        fleet.record.note(f"= {what} {number} after {fleet.loop.time() - begun:.2f} s: {words}")

    for number, one in enumerate(asked):
        one.add_done_callback(lambda done, number=number: note(number, done))
    await asyncio.gather(*asked)


# Paced recoveries
async def _paced(fleet: Fleet) -> None:
    await fleet.begin()
    line, other = await fleet.line(NAME), await fleet.line(NAME)
    with fleet.quiet():
        mine, others = await fleet.ledger(NAME, ack=1), await fleet.ledger(NAME, ack=1)
        await asyncio.sleep(2)

    def recovery(first: int, size: int = 10_000) -> "asyncio.Future[str]":
        return line.add(mine, first, size=size, flags=FLAG_RECOVERY)

    fleet.note("nobody else adds: as fast as it can")
    await all_of(fleet, "recovery add", [recovery(number) for number in range(3)])
    fleet.note("just after a normal add; then as many that two seconds are too short")
    await other.add(others, 0)
    await all_of(fleet, "recovery add", [recovery(number) for number in range(10, 13)])
    await other.add(others, 1)
    await all_of(fleet, "recovery add", [recovery(number, 12_000) for number in range(20, 25)])
    fleet.note("a normal add was long ago, and a refused one counts for nothing")
    await asyncio.sleep(2)
    await fleet.seen("a refused add", other.add(others, 2, key=b"?" * 20))
    await all_of(fleet, "recovery add", [recovery(30)])
    fleet.note("the bookie stops while answers are late, and while the client is gone")
    await other.add(others, 3)
    late = [recovery(number) for number in range(40, 43)]
    gone = await fleet.line(NAME)
    gone.add(mine, 50, size=10_000, flags=FLAG_RECOVERY)
    work = asyncio.ensure_future(all_of(fleet, "recovery add", late))
    await asyncio.sleep(0.2)
    gone.transport.abort()
    fleet.say_state()
    await fleet.stop(NAME)
    await work


def test_paced_recoveries(snapshot: SnapshotAssertion) -> None:
    settings = {"limits": {"recoveryBytesPerSecondBusy": 20_000}}
    assert snapshot(extension_class=Words) == told(
        _paced, bookies=1, shows_messages=False, settings=settings
    )


# Connections
async def _connections(fleet: Fleet) -> None:
    await fleet.begin()
    own = fleet.bookies[NAME].bookie.state.identity  # type: ignore[union-attr]
    fleet.note("two silent ones, a third; then all have asked, and a fourth")
    silent = [await Line.to(NAME, None) for _ in range(2)]
    third = await Line.to(NAME, own)
    fleet.record.note(f"= silent: {[one.ended for one in silent]}")
    await fleet.seen("the other greets", silent[1].ask(Op.HELLO, own.encode()))
    fourth = await Line.to(NAME, None)
    await fleet.seen("the fourth greets", fourth.ask(Op.HELLO, own.encode()))
    fleet.note("one of them leaves: there is room for one, and a burst of three")
    third.transport.close()
    await asyncio.sleep(0.01)
    fifth = await fleet.line(NAME)
    burst = await asyncio.gather(*(Line.to(NAME, None) for _ in range(3)))
    await asyncio.sleep(0.01)
    fleet.record.note(f"= burst: {[one.ended for one in burst]}, fifth: {fifth.ended!r}")
    fifth.transport.close()
    await asyncio.sleep(0.01)
    burst = await asyncio.gather(*(Line.to(NAME, None) for _ in range(3)))
    await asyncio.sleep(0.01)
    fleet.record.note(f"= burst: {[one.ended for one in burst]}")
    fleet.say_state()


def test_connections_at_once(snapshot: SnapshotAssertion) -> None:
    settings = {"limits": {"connections": 2}}
    assert snapshot(extension_class=Words) == told(
        _connections, bookies=1, shows_messages=False, settings=settings
    )


# Replies that take room
async def _large(fleet: Fleet, line: Line) -> LedgerId:
    with fleet.quiet():
        ledger_id = await fleet.ledger(NAME, ack=1)
        for number in range(40):
            await line.add(ledger_id, number, size=25_000)
    return ledger_id


async def _replies(fleet: Fleet) -> None:
    await fleet.begin()
    line, other = await fleet.line(NAME), await fleet.line(NAME)
    ledger_id = await _large(fleet, line)
    fleet.note("twenty reads of one connection at once, and one of another")
    asked = [line.read(ledger_id, 0, 39, size=4 * MIB) for _ in range(20)]
    await all_of(fleet, "read", [*asked, other.read(ledger_id, 0, 0)])
    fleet.note("one that does not take its replies, and another client that reads meanwhile")
    slow = await fleet.line(NAME)
    fleet.network.lags[NAME, "client"] = 40.0
    asked = [slow.read(ledger_id, 0, 39, size=4 * MIB) for _ in range(20)]
    await asyncio.sleep(0.5)
    fleet.say_figures()
    fleet.network.lags.clear()
    work = asyncio.ensure_future(all_of(fleet, "slow read", asked))
    await all_of(fleet, "read", [other.read(ledger_id, 0, 0)])
    await work
    await asyncio.sleep(2)
    fleet.say_figures()


def test_replies_that_nobody_takes(snapshot: SnapshotAssertion) -> None:
    settings = {"limits": {"replyBytes": 16 * MIB, "replyBytesPerConnection": 8 * MIB}}
    assert snapshot(extension_class=Words) == told(
        _replies, bookies=1, shows_messages=False, settings=settings
    )


async def _no_room(fleet: Fleet) -> None:
    await fleet.begin()
    ledger_id = await _large(fleet, await fleet.line(NAME))
    fleet.note("two clients take nothing, and hold nearly all room; three others read")
    slow = [await fleet.line(NAME) for _ in range(2)]
    others = [await fleet.spawn("other", fleet.line(NAME)) for _ in range(3)]
    fleet.network.lags[NAME, "client"] = 40.0
    untaken = [one.read(ledger_id, 0, 39) for one in slow for _ in range(9)]
    await asyncio.sleep(0.1)
    fleet.say_figures()
    asked = [one.read(ledger_id, 0, 0, size=1) for one in others for _ in range(18)]
    asked += [one.of_lac(Op.FORCE, ledger_id) for one in others]
    work = asyncio.ensure_future(all_of(fleet, "read", asked))
    await asyncio.sleep(0.005)
    fleet.say_figures()
    others[1].transport.abort()
    await asyncio.sleep(1)
    fleet.say_figures()
    fleet.note("a long read waits for them: they are cut off sooner than else")
    await work
    await all_of(fleet, "long read", [others[0].read(ledger_id, 0, 39)])
    await asyncio.gather(*untaken)
    await asyncio.sleep(2)
    await all_of(fleet, "read", [others[0].read(ledger_id, 0, 39) for _ in range(9)])
    await asyncio.sleep(2)
    fleet.say_figures()


def test_room_that_others_hold(snapshot: SnapshotAssertion) -> None:
    settings = {"limits": {"replyBytes": 16 * MIB, "replyBytesPerConnection": 8 * MIB}}
    assert snapshot(extension_class=Words) == told(
        _no_room, bookies=1, shows_messages=False, settings=settings
    )


# Sleep
async def _sleeps(fleet: Fleet) -> None:
    await fleet.begin()
    line = await fleet.line(NAME)
    with fleet.quiet():
        ids = [await fleet.ledger(NAME, ack=1) for _ in range(6)]
        for ledger_id in (*ids[:2], *ids[3:]):
            await line.add(ledger_id, 0, 2)
    for seconds in (2, 7):
        fleet.note(f"it sleeps for {seconds} s, and requests come meanwhile")
        fleet.bookies[NAME].sleep()
        asked = [line.add(ids[0], 2), line.read(ids[0], 0, 5), line.of_lac(Op.READ_LAC, ids[0])]
        asked += [line.of_lac(Op.READ_LAC, ids[1], fence=True), line.read(ids[2], 0, 1, fence=True)]
        asked += [line.of_lac(Op.WRITE_LAC, ids[0], 0), line.of_lac(Op.FORCE, ids[0])]
        work = asyncio.ensure_future(all_of(fleet, "answer", asked))
        await asyncio.sleep(seconds)
        fleet.bookies[NAME].wake()
        await work
        await asyncio.sleep(2)
        await fleet.seen("an add", line.add(ids[0], 3))
    fleet.note("it sleeps in the middle of reads, an add, fences and a long poll")
    asked = [
        line.read(ids[0], 0, 5), line.add(ids[2], 0), line.of_lac(Op.READ_LAC, ids[0], fence=True),
        line.of_lac(Op.WAIT_LAC, ids[0], 7, 3000), line.of_lac(Op.READ_LAC, ids[3], fence=True),
        line.read(ids[4], 0, 5, fence=True), line.of_lac(Op.WRITE_LAC, ids[5], 0),
        line.of_lac(Op.FORCE, ids[0]), line.add(ids[5], 2),
    ]  # fmt: skip
    work = asyncio.ensure_future(all_of(fleet, "answer", asked))
    await asyncio.sleep(0.0015)
    fleet.bookies[NAME].sleep()
    await asyncio.sleep(7)
    fleet.bookies[NAME].wake()
    await work
    await asyncio.sleep(2)
    await all_of(fleet, "read", [line.read(ids[n], 0, 5) for n in range(4)])
    fleet.say_state()


def test_a_bookie_that_sleeps(snapshot: SnapshotAssertion) -> None:
    settings = {"lease": {"seconds": 6, "confirmSeconds": 1.5}, "limits": {"readsInFlight": 4}}
    assert snapshot(extension_class=Words) == told(
        _sleeps, bookies=1, shows_messages=False, settings=settings
    )
