"""What a bookie answers while its disks are full, fail or are slow, and what it does afterwards."""

import asyncio
from collections.abc import Sequence

import pytest
from bookie.frames.frame import FLAG_RECOVERY
from bookie.ids import LedgerId
from bookie.wire.native import Op
from fleet_line import Line
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NAME = "bookie-0"
KIB = 1024


async def all_of(fleet: Fleet, what: str, asked: Sequence[asyncio.Future[str]]) -> None:
    """Writes down the answers in the order in which they come."""
    for number, one in enumerate(asked):
        one.add_done_callback(
            lambda done, number=number: fleet.record.note(f"= {what} {number}: {done.result()}")
        )
    await asyncio.gather(*asked)


def leave(fleet: Fleet, free_bytes: int) -> None:
    """So much space is left on the disks of the bookie."""
    disk = fleet.bookies[NAME].disk
    folder = fleet.bookies[NAME].directories[0]
    disk.capacity_bytes -= disk.space(folder).free_bytes - free_bytes


# Full disks
async def _full(fleet: Fleet) -> None:
    await fleet.begin()
    line = await fleet.line(NAME)
    with fleet.quiet():
        ids = [await fleet.ledger(NAME, ack=1) for _ in range(4)]
        await line.add(ids[0], 0, 2)
        await line.add(ids[1], 0, 2)
    fleet.note("just enough, too little, and a little more than that")
    for free in (33 * KIB, 31 * KIB, 39 * KIB, 41 * KIB):
        leave(fleet, free)
        await fleet.seen("a flush", fleet.at(NAME, fleet.services(NAME).marks.flush()))
        await asyncio.sleep(1.1)
        asked = {
            "an add": line.add(ids[0], free),
            "a recovery add": line.add(ids[0], 9, flags=FLAG_RECOVERY),
            "an explicit lac": line.of_lac(Op.WRITE_LAC, ids[1], free),
            "a read": line.read(ids[0], 0, 1),
        }
        for what, answer in asked.items():
            await fleet.seen(f"{what} with {free // KIB} KiB", answer)
    fleet.say_state()


def test_little_space(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_full, bookies=1, shows_messages=False)


async def fill_journal(fleet: Fleet, line: Line, ledger_id: LedgerId) -> None:
    """Explicit LACs of a ledger, one after the other, until there is no space for another."""
    for lac in range(1000):
        words = await line.of_lac(Op.WRITE_LAC, ledger_id, lac)
        if words != "OK":
            fleet.record.note(f"= lac {lac}: {words}")
            return


async def _no_space_for_facts(fleet: Fleet) -> None:
    await fleet.begin()
    line, other = await fleet.line(NAME), await fleet.line(NAME)
    with fleet.quiet():
        ids = [await fleet.ledger(NAME, ack=1) for _ in range(5)]
        for ledger_id in ids:
            await line.add(ledger_id, 0)
    leave(fleet, 0)
    await fill_journal(fleet, line, ids[0])
    fleet.note("of that ledger: what waits for the same write, and what needs none")
    asked = [line.read(ids[0], 0, 0, fence=True), other.of_lac(Op.READ_LAC, ids[0], fence=True)]
    asked += [
        line.add(ids[0], 1),
        line.add(ids[0], 1, flags=FLAG_RECOVERY),
        line.read(ids[0], 0, 0),
    ]
    await all_of(fleet, "answer", asked)
    fleet.note("of others")
    asked = [line.of_lac(Op.READ_LAC, ids[1], fence=True), line.add(ids[2], 1)]
    asked += [line.of_lac(Op.WRITE_LAC, ids[3], 7), line.of_lac(Op.FORCE, ids[2])]
    await all_of(fleet, "answer", asked)
    await fleet.seen("a flush", fleet.at(NAME, fleet.services(NAME).marks.flush()))
    fleet.note("with space")
    leave(fleet, 16 * KIB * KIB)
    await asyncio.sleep(1.1)
    await fleet.seen("a recovery add before a flush", line.add(ids[4], 1, flags=FLAG_RECOVERY))
    await fleet.seen("the fence", line.of_lac(Op.READ_LAC, ids[0], fence=True))
    await fleet.seen("a flush", fleet.at(NAME, fleet.services(NAME).marks.flush()))
    await asyncio.sleep(1.1)
    asked = [
        line.add(ids[0], 1, flags=FLAG_RECOVERY),
        line.read(ids[0], 0, 0),
        other.add(ids[0], 2),
    ]
    asked += [other.of_lac(Op.READ_LAC, ids[0], fence=True)]
    await all_of(fleet, "answer", asked)
    asked = [line.read(ids[1], 0, 0, fence=True), line.add(ids[1], 1), line.add(ids[3], 1)]
    await all_of(fleet, "answer", [*asked, line.of_lac(Op.READ_LAC, ids[3])])
    fleet.say_state()


@pytest.mark.parametrize("mode", ["memory", "journal", "sync"])
def test_no_space_for_facts(mode: str, snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(
        _no_space_for_facts, bookies=1, mode=mode, shows_messages=False
    )


# A slow disk
async def _slow(fleet: Fleet, *, fails: bool) -> None:
    await fleet.begin()
    line = await fleet.line(NAME)
    with fleet.quiet():
        ids = [await fleet.ledger(NAME, ack=1) for _ in range(3)]
        for ledger_id in ids[:2]:
            await line.add(ledger_id, 0)
    fleet.bookies[NAME].is_wanted = False
    disk, begun = fleet.bookies[NAME].disk, fleet.loop.time()
    disk.slowness = 100.0
    asked: list[asyncio.Future[str]] = []

    def ask(what: str, answer: asyncio.Future[str]) -> None:
        asked.append(answer)
        sent_s = fleet.loop.time() - begun
        answer.add_done_callback(
            lambda done: fleet.record.note(
                f"= {what}, asked after {sent_s:.2f} s, answered after"
                f" {fleet.loop.time() - begun:.2f} s: {done.result()}"
            )
        )

    for number, ledger_id in enumerate((*ids, ids[0])):
        ask(f"{ledger_id}: an explicit lac", line.of_lac(Op.WRITE_LAC, ledger_id, number))
        ask(f"{ledger_id}: an add", line.add(ledger_id, 1 + number))
        await asyncio.sleep(0.03)
        ask(f"{ledger_id}: a fence", line.of_lac(Op.READ_LAC, ledger_id, fence=True))
        ask(f"{ledger_id}: an add", line.add(ledger_id, 9))
        await asyncio.sleep(0.03)
        ask(f"{ledger_id}: a recovery add", line.add(ledger_id, 5, flags=FLAG_RECOVERY))
        ask(f"{ledger_id}: a fencing read", line.read(ledger_id, 0, 0, fence=True))
        ask(f"{ledger_id}: a read", line.read(ledger_id, 0, 0))
        if fails and number == 1:
            disk.broken["journal"] = "sync"
    await asyncio.gather(*asked)
    await asyncio.sleep(1)
    fleet.say_state()


@pytest.mark.parametrize("end", ["slow", "fails"])
@pytest.mark.parametrize("mode", ["memory", "sync"])
def test_facts_on_a_slow_disk(mode: str, end: str, snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(
        lambda fleet: _slow(fleet, fails=end == "fails"), bookies=1, mode=mode, shows_messages=False
    )


# Failing disks
FAILURES = {
    "journal": ("journal", "sync"),
    "log": ("log", "write"),
    "index": ("ledger-0", "commit"),
    "reads": ("log", "read"),
    "one read": ("log", "read"),
}


async def _failing(fleet: Fleet, where: str, operation: str, *, is_one: bool) -> None:
    await fleet.begin()
    line = await fleet.line(NAME)
    with fleet.quiet():
        ids = [await fleet.ledger(NAME, ack=1) for _ in range(2)]
        for ledger_id in ids:
            await line.add(ledger_id, 0, 2)
        await fleet.stop(NAME)
        await fleet.start()
        line = await fleet.line(NAME)
        await line.add(ids[1], 2)
    disk = fleet.bookies[NAME].disk
    (disk.hiccups if is_one else disk.broken)[where] = operation
    fleet.bookies[NAME].is_wanted = False
    for what, begin in {
        "a read": lambda: line.read(ids[0], 0, 2),
        "a read of what is in memory": lambda: line.read(ids[1], 2, 2),
        "an add": lambda: line.add(ids[0], 2),
        "a fence": lambda: line.of_lac(Op.READ_LAC, ids[0], fence=True),
        "a recovery add": lambda: line.add(ids[0], 3, flags=FLAG_RECOVERY),
        "a force": lambda: line.of_lac(Op.FORCE, ids[0]),
        "a read again": lambda: line.read(ids[0], 0, 2),
        "an add again": lambda: line.add(ids[1], 3),
    }.items():
        await fleet.seen(what, begin())
        await asyncio.sleep(0.05)
    await asyncio.sleep(3)
    fleet.say_state()


@pytest.mark.parametrize("what", FAILURES)
@pytest.mark.parametrize("mode", ["memory", "journal", "sync"])
def test_failing_disks(mode: str, what: str, snapshot: SnapshotAssertion) -> None:
    where, operation = FAILURES[what]
    assert snapshot(extension_class=Words) == told(
        lambda fleet: _failing(fleet, where, operation, is_one=what == "one read"),
        bookies=1, mode=mode, shows_messages=False,
    )  # fmt: skip
