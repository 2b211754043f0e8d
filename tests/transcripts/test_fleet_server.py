"""What a bookie does on its native port: bounds, waits, delays, and what a disk takes from it.

Each story makes it go twice: what waits and then goes on, what is refused and then taken, and what
the second of two gets.
"""

import asyncio
import itertools
import json
import re
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from bookie.frames.frame import FLAG_RECOVERY
from bookie.ids import LedgerId
from bookie.wire.identity import Identity
from bookie.wire.native import Op
from fleet_line import KEY, Line, frame_of
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NAME = "bookie-0"
MIB = 1024 * 1024


async def all_of(fleet: Fleet, what: str, asked: Sequence[asyncio.Future[str]]) -> None:
    """Writes down the answers in the order in which they come; like ones are counted."""
    for number, one in enumerate(asked):
        one.add_done_callback(
            lambda done, number=number: fleet.record.note(f"= {what} {number}: {done.result()}")
        )
    await asyncio.gather(*asked)


async def one(fleet: Fleet, line: Line) -> LedgerId:
    """A ledger of this bookie with entries 0 and 1."""
    with fleet.quiet():
        ledger_id = await fleet.ledger(NAME, ack=1)
        await line.add(ledger_id, 0, 2)
    return ledger_id


# Messages that are none
async def _malformed(fleet: Fleet) -> None:
    await fleet.begin()
    line = await fleet.line(NAME)
    ledger_id = await one(fleet, line)
    right = frame_of(ledger_id, 2)
    bodies = {
        "an add without a key": (Op.ADD_RUN, b"short"),
        "an add without a frame": (Op.ADD_RUN, KEY),
        "an add whose frame is cut off": (Op.ADD_RUN, KEY + right[:-1]),
        "an add with a flipped bit": (Op.ADD_RUN, KEY + right[:-1] + bytes([right[-1] ^ 1])),
        "a read that is too short": (Op.READ, b"short"),
        "a read of a negative ledger": (Op.READ, KEY + b"\xff" * 28),
        "a read of nothing": (Op.READ, KEY + struct.pack(">qqqI", 7, 2, 1, 0)),
        "a lac below none": (Op.WRITE_LAC, KEY + struct.pack(">qqI", 7, -2, 0)),
        "a lac that is too short": (Op.READ_LAC, KEY),
        "a wait that is too short": (Op.WAIT_LAC, KEY),
        "a force that is too short": (Op.FORCE, KEY),
        "a second greeting": (Op.HELLO, Identity("another", "bookie-9", 1).encode()),
    }  # fmt: skip
    for what, (op, body) in bodies.items():
        await fleet.seen(what, line.ask(op, body))
    await fleet.seen("and an add after that", line.add(ledger_id, 2))
    other = await fleet.line(NAME)
    await fleet.seen("no operation", other.ask(99, b""))
    await fleet.seen("on that connection", other.add(ledger_id, 3))
    fleet.say_state()


def test_messages_that_are_none(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_malformed, bookies=1, shows_messages=False)


# Greetings
async def _greetings(fleet: Fleet) -> None:
    await fleet.begin()
    own = fleet.bookies[NAME].bookie.state.identity  # type: ignore[union-attr]
    bodies = {
        "the right one": own.encode(),
        "of no epoch": Identity(own.cluster, NAME, 0).encode(),
        "another bookie": Identity(own.cluster, "bookie-9", 1).encode(),
        "another cluster": Identity("other", NAME, 1).encode(),
        "no cluster": json.dumps({"cluster": "", "bookie": NAME, "epoch": 1}).encode(),
        "no JSON": b"{",
        "no object": b"[]",
        "an epoch below 0": json.dumps({"cluster": "c", "bookie": NAME, "epoch": -1}).encode(),
    }
    for what, body in bodies.items():
        line = await Line.to(NAME, None)
        await fleet.seen(what, line.ask(Op.HELLO, body))
        await fleet.seen("    and a force of ledger 7", line.of_lac(Op.FORCE, 7))
    line = await Line.to(NAME, None)
    await fleet.seen("a force before any greeting", line.of_lac(Op.FORCE, 7))
    await asyncio.sleep(0.1)
    fleet.note("a later epoch, twice; then a still later one")
    for epoch in (5, 5, 6):
        line = await Line.to(NAME, None)
        await fleet.seen(
            f"epoch {epoch}", line.ask(Op.HELLO, Identity(own.cluster, NAME, epoch).encode())
        )
        await asyncio.sleep(0.1)
    fleet.note("and while the metadata store is away")
    fleet.weather.is_out = True
    line = await fleet.line(NAME)
    await fleet.seen(
        "epoch 7",
        (await Line.to(NAME, None)).ask(Op.HELLO, Identity(own.cluster, NAME, 7).encode()),
    )
    await fleet.seen("an add", line.add(0, 0))
    fleet.say_state()
    fleet.weather.is_out = False
    await asyncio.sleep(5)
    await fleet.seen("an add", line.add(0, 0))
    fleet.say_state()


def test_greetings(snapshot: SnapshotAssertion) -> None:
    settings = {"lease": {"seconds": 12, "confirmSeconds": 4}}
    assert snapshot(extension_class=Words) == told(
        _greetings, bookies=1, shows_messages=False, settings=settings
    )


# Long polls
async def _long_polls(fleet: Fleet) -> None:
    await fleet.begin()
    line, other = await fleet.line(NAME), await fleet.line(NAME)
    ledger_id, second = await one(fleet, line), await one(fleet, line)
    fleet.note("polls of two ledgers: for less, for what comes, for more; an add says lac 1")
    polls = [
        line.of_lac(Op.WAIT_LAC, i, lac, 900) for i in (ledger_id, second) for lac in (-1, 0, 1)
    ]
    gone = other.of_lac(Op.WAIT_LAC, ledger_id, 0, 900)
    work = asyncio.ensure_future(all_of(fleet, "poll", [*polls, gone]))
    await asyncio.sleep(0.1)
    fleet.say_state()
    other.transport.abort()
    await asyncio.sleep(0.1)
    fleet.say_figures()
    await fleet.seen("an add", line.add(ledger_id, 2, lac=0))
    await fleet.seen("an add", line.add(ledger_id, 3, lac=1))
    await asyncio.sleep(0.1)
    await fleet.seen("a lower explicit lac", line.of_lac(Op.WRITE_LAC, second, 0))
    await fleet.seen("an explicit lac", line.of_lac(Op.WRITE_LAC, second, 1))
    await work
    fleet.note("one waits at least a millisecond, and one at most a minute")
    polls = [line.of_lac(Op.WAIT_LAC, ledger_id, 9, timeout) for timeout in (0, 4_000_000_000)]
    await all_of(fleet, "poll", polls)
    fleet.note("a recovery add moves the lac too, and a fence ends no poll")
    polls = [line.of_lac(Op.WAIT_LAC, ledger_id, lac, 900) for lac in (1, 5)]
    work = asyncio.ensure_future(all_of(fleet, "poll", polls))
    await line.of_lac(Op.READ_LAC, ledger_id, fence=True)
    await fleet.seen("a recovery add", line.add(ledger_id, 4, lac=3, flags=FLAG_RECOVERY))
    await work
    fleet.note("one that waits when the bookie stops")
    poll = asyncio.ensure_future(
        all_of(fleet, "poll", [line.of_lac(Op.WAIT_LAC, ledger_id, 9, 60_000)])
    )
    await asyncio.sleep(0.1)
    fleet.network.lags[NAME, "metadata"] = 0.5
    stopping = asyncio.ensure_future(fleet.stop(NAME))
    await asyncio.sleep(0.1)
    await fleet.seen("an add meanwhile", line.add(ledger_id, 5))
    await fleet.seen("a read meanwhile", line.read(ledger_id, 0, 1))
    await fleet.seen("a poll meanwhile", line.of_lac(Op.WAIT_LAC, ledger_id, 9, 50))
    fleet.say_figures()
    await stopping
    await poll


def test_long_polls(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_long_polls, bookies=1, shows_messages=False)


# Bounds of reads
async def _many_reads(fleet: Fleet) -> None:
    await fleet.begin()
    line, other = await fleet.line(NAME), await fleet.line(NAME)
    with fleet.quiet():
        ledger_id = await fleet.ledger(NAME, ack=1)
        for number in range(4):
            await line.add(ledger_id, number, size=20_000)
    fleet.note("three reads at a time: of two connections, with a force and a read lac between")
    work = [line.read(ledger_id, number % 4, number % 4) for number in range(5)]
    work += [
        other.read(ledger_id, 3, 3),
        line.of_lac(Op.FORCE, ledger_id),
        other.of_lac(Op.READ_LAC, ledger_id),
    ]
    await all_of(fleet, "answer", work)
    fleet.note("of all, as many bytes as asked for: the first run always")
    for size in (0, 1, 40_000, 50_000, 1 << 20, (1 << 32) - 1):
        await fleet.seen(f"{size} bytes", line.read(ledger_id, 0, 9, size=size))
    fleet.note("forces alone, and a read that waits for one of them")
    work = [line.of_lac(Op.FORCE, ledger_id) for _ in range(3)]
    await all_of(fleet, "answer", [*work, other.read(ledger_id, 0, 0)])
    fleet.note("more than the longest reply")
    with fleet.quiet():
        large = await fleet.ledger(NAME, ack=1)
        for number in range(200):
            await line.add(large, number, size=25_000)
    words = await line.read(large, 0, 299, size=1 << 31)
    fleet.record.note(f"= {words.count('25088 B')} runs, {words.partition(' absent')[0]}")
    fleet.note("and a fencing read that waits for its turn, and a connection lost that waits")
    work = [line.read(ledger_id, 0, 3) for _ in range(4)]
    work += [other.read(ledger_id, 0, 0, fence=True)]
    lost = await fleet.line(NAME)
    waits = [lost.read(ledger_id, 0, 3) for _ in range(2)]
    answers = asyncio.ensure_future(all_of(fleet, "answer", [*work, *waits]))
    await asyncio.sleep(0.0015)
    lost.transport.abort()
    await answers
    fleet.say_state()


def test_bounds_of_reads(snapshot: SnapshotAssertion) -> None:
    settings = {"limits": {"readsInFlight": 3}}
    assert snapshot(extension_class=Words) == told(
        _many_reads, bookies=1, shows_messages=False, settings=settings
    )


# Fences of ledgers of which nothing is here
async def _first_fences(fleet: Fleet) -> None:
    await fleet.begin()
    line, other = await fleet.line(NAME), await fleet.line(NAME)
    ids = [await fleet.ledger(NAME, ack=1) for _ in range(10)]
    fleet.cluster.garbled.add(ids[0])
    for what, i in {"of metadata that cannot be read": ids[0], "of none": 77}.items():
        await fleet.seen(what, line.of_lac(Op.READ_LAC, i, fence=True))
        await fleet.seen(f"{what}, by a read", line.read(i, 0, 1, fence=True))
    fleet.note("twice at once, by two clients; and a third time")
    await all_of(
        fleet, "fence", [one.of_lac(Op.READ_LAC, ids[1], fence=True) for one in (line, other)]
    )
    await all_of(fleet, "fence", [line.read(ids[1], 0, 1, fence=True)])
    fleet.note("an add of it comes while it is looked up: it is no first fence any more")
    asked = [
        line.of_lac(Op.READ_LAC, ids[2], fence=True),
        other.add(ids[2], 0),
        other.add(ids[2], 1),
    ]
    await all_of(fleet, "answer", asked)
    fleet.note("the metadata store is away: they are fenced unconfirmed, then looked at")
    fleet.weather.is_out = True
    asked = [line.of_lac(Op.READ_LAC, ids[3], fence=True), other.read(ids[4], 0, 1, fence=True)]
    asked += [line.of_lac(Op.READ_LAC, 78, fence=True)]
    await all_of(fleet, "fence", asked)
    fleet.weather.is_out = False
    fleet.note("it answers late, and just in time")
    for ledger_id, late_s in ((79, 1.05), (80, 0.95)):
        fleet.network.lags[NAME, "metadata"] = late_s
        await fleet.seen(f"{late_s} s", line.of_lac(Op.READ_LAC, ledger_id, fence=True))
    fleet.network.lags.clear()
    fleet.note("the lease is over when it has been looked up; then it is confirmed again")
    own = fleet.bookies[NAME].bookie.state.identity  # type: ignore[union-attr]
    fleet.weather.is_out = True
    await (await Line.to(NAME, None)).ask(Op.HELLO, replace(own, epoch=5).encode())
    await fleet.seen("a fence", line.of_lac(Op.READ_LAC, 90, fence=True))
    fleet.weather.is_out = False
    await fleet.until(lambda: fleet.bookies[NAME].bookie.state.is_leased, "a lease")  # type: ignore[union-attr]
    await fleet.seen("the same fence", line.of_lac(Op.READ_LAC, 90, fence=True))
    fleet.note("one that is looked up when its client goes, and one when the bookie stops")
    fleet.weather.is_out = True
    gone = other.of_lac(Op.READ_LAC, ids[5], fence=True)
    last = line.of_lac(Op.READ_LAC, ids[6], fence=True)
    await asyncio.sleep(1)
    other.transport.abort()
    await asyncio.sleep(2)
    await all_of(fleet, "fence", [gone, last])
    last = line.of_lac(Op.READ_LAC, ids[7], fence=True)
    await asyncio.sleep(0.5)
    fleet.say_state()
    fleet.weather.is_out = False
    await fleet.stop(NAME)
    await all_of(fleet, "fence", [last])


def test_fences_of_ledgers_of_which_nothing_is_here(snapshot: SnapshotAssertion) -> None:
    settings = {"lease": {"seconds": 60, "confirmSeconds": 7}}
    assert snapshot(extension_class=Words) == told(
        _first_fences, bookies=1, shows_messages=False, settings=settings
    )


async def _many_first_fences(fleet: Fleet) -> None:
    await fleet.begin()
    lines = [await fleet.line(NAME) for _ in range(2)]
    fleet.weather.is_out = True
    fleet.record.is_quiet = True
    ids = itertools.count(1000)
    for count in (257, 256, 256, 256, 2, 1):
        asked = [lines[n % 2].of_lac(Op.READ_LAC, next(ids), fence=True) for n in range(count)]
        found = Counter(
            re.sub(r"ledger \d+", "ledger N", one) for one in await asyncio.gather(*asked)
        )
        fleet.record.is_quiet = False
        fleet.record.note(f"= {count} fences: {dict(sorted(found.items()))}")
        fleet.record.is_quiet = True
    fleet.weather.is_out = False
    await fleet.at(NAME, fleet.services(NAME).collector.run_pass())
    fleet.weather.is_out = True
    fleet.record.is_quiet = False
    fleet.note("the store was there for one look")
    await fleet.seen("a fence", lines[0].of_lac(Op.READ_LAC, 7, fence=True))


def test_bounds_of_fences_without_the_metadata_store(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(
        _many_first_fences, bookies=1, shows_messages=False
    )


# Modes
async def _mode(fleet: Fleet) -> None:
    await fleet.begin()
    line = await fleet.line(NAME)
    with fleet.quiet():
        ids = [await fleet.ledger(NAME, ack=1) for _ in range(3)]
    fleet.note("a first add and its second, of one key and then another; a recovery add")
    await all_of(fleet, "add", [line.add(ids[0], number, 2) for number in (0, 2)])
    await all_of(
        fleet, "add", [line.add(ids[0], 4), line.add(ids[0], 4, key=b"?" * 20), line.add(ids[0], 5)]
    )
    await all_of(fleet, "add", [line.add(ids[0], 9, flags=FLAG_RECOVERY), line.add(ids[0], 6)])
    fleet.note("an add, a fence, an add, an explicit lac and a force at once")
    asked = [line.add(ids[1], 0), line.of_lac(Op.READ_LAC, ids[1], fence=True), line.add(ids[1], 1)]
    asked += [line.of_lac(Op.WRITE_LAC, ids[1], 0), line.of_lac(Op.FORCE, ids[1])]
    await all_of(fleet, "answer", asked)
    fleet.note("an explicit lac of a new ledger, an add, and another lac")
    asked = [
        line.of_lac(Op.WRITE_LAC, ids[2], 3),
        line.add(ids[2], 0),
        line.of_lac(Op.WRITE_LAC, ids[2], 2),
    ]
    await all_of(fleet, "answer", asked)
    fleet.note("a fence by a read, and a read behind it")
    await all_of(fleet, "answer", [line.read(ids[2], 0, 0, fence=True), line.read(ids[2], 0, 0)])
    await fleet.seen("a force", line.of_lac(Op.FORCE, ids[0]))
    fleet.say_state()
    fleet.note("it stops cleanly, and serves again")
    await fleet.stop(NAME)
    with fleet.quiet():
        await fleet.start()
    fleet.say_state()


@pytest.mark.parametrize("mode", ["memory", "journal", "sync"])
def test_requests_in_each_mode(mode: str, snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(
        _mode, bookies=1, mode=mode, shows_messages=False, shows_disk=True
    )
