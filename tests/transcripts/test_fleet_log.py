"""Stories of replicated logs: owners, lists of ledgers, rolls, truncations, readers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from bookie.client.bookkeeper_client import Client, ClientSettings
from bookie.client.log import ReplicatedLog
from bookie.client.log_chain import LogSettings
from bookie.client.log_reading import LogPosition, read_log
from bookie.client.pool_settings import PoolSettings
from bookie.client.recovery import RecoverySettings
from bookie.client.writer import WriterSettings
from bookie.errors import BookieError
from bookie.ids import EntryId, LedgerId
from bookie.protocol.status import Status
from bookie.wire.native import Op
from fleet_story import CLIENT, Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

QUICK = ClientSettings(
    writer=WriterSettings(stall_s=6.0),
    recovery=RecoverySettings(attempts=2),
    pool=PoolSettings(request_timeout_s=2.0, last_adds_s=0.5),
)
SETTINGS = LogSettings(password=b"secret")


async def _opened(fleet: Fleet, name: str = CLIENT, **settings: Any) -> ReplicatedLog:
    """Its owner is a process of that name; only changes of metadata are written down."""
    return await _by(fleet, name, _open(fleet, name, **settings))


async def _open(fleet: Fleet, name: str, **settings: Any) -> ReplicatedLog:
    client = fleet.client(name)
    return await ReplicatedLog.open(
        "it", ledgers=client, store=client._store, settings=replace(SETTINGS, **settings)
    )


async def _by(fleet: Fleet, name: str, work: Any) -> Any:
    """Done by a process of that name."""
    return await (work if name == CLIENT else asyncio.shield(fleet.spawn(name, work)))


def _mute(fleet: Fleet) -> None:
    """Messages and what bookies do are shown by other stories: only the store, logs, results."""
    record = fleet.record
    record.heard = record.said = lambda *_: None  # type: ignore[method-assign]


def _about(fleet: Fleet, log: ReplicatedLog) -> None:
    fleet.note(f"ledgers {list(log.ledger_ids)}, at {log.ledger_id}, owned {log.is_owned}")


async def _append(log: ReplicatedLog, payload: bytes) -> LogPosition:
    return await log.append(payload)


async def _all(fleet: Fleet, *, start: LogPosition | None = None, **more: Any) -> list[str]:
    client = fleet.client()
    found = read_log(
        "it", ledgers=client, store=client._store, password=b"secret", start=start, **more
    )
    return [
        f"{one.position.ledger_id}.{one.position.entry_id} {one.payload!r}" async for one in found
    ]


def _story(scenes: Callable[[Fleet], Awaitable[None]], **means: Any) -> str:
    async def muted(fleet: Fleet) -> None:
        with fleet.quiet():
            await fleet.begin()
        _mute(fleet)
        await scenes(fleet)
        fleet.note("the end")
        for line in _stored(fleet):
            fleet.record.note(line)

    return told(muted, client=means.pop("client", QUICK), **means)


def _stored(fleet: Fleet) -> list[str]:
    values = [f"{name}: v{one.version} {one.value!r}" for name, one in fleet.cluster.values.items()]
    ledgers = [
        f"ledger {number}: v{one.version} {one.value.state.name} {one.value.last_entry_id}"
        for number, one in sorted(fleet.cluster.ledgers.items())
    ]
    return values + ledgers


def test_a_log_from_its_beginning_to_its_close(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.seen("of none", _all(fleet))
        log = await _opened(fleet)
        _about(fleet, log)
        await fleet.seen("empty", _all(fleet))
        await fleet.seen("one", log.append(b"one"))
        await fleet.seen("two, three", log.append_many([b"two", b"three"]))
        await fleet.seen("none", log.append_many([]))
        await fleet.seen("room", log.room())
        await fleet.seen("rolled", log.roll())
        await fleet.seen("four", log.append(b"four"))
        await fleet.seen("truncated", log.truncate(LogPosition(LedgerId(99), EntryId(0))))
        _about(fleet, log)
        await fleet.seen("closed", log.close())
        await fleet.seen("again", log.close())
        await fleet.seen("after", _append(log, b"after"))
        await fleet.seen("many after", log.append_many([b"after"]))
        await fleet.seen("roll after", log.roll())
        await fleet.seen("all", _all(fleet))
        await fleet.seen("all, by itself", _read_all(log))
        _about(fleet, log)

    assert snapshot(extension_class=Words) == _story(scenes)


async def _read_all(log: ReplicatedLog, start: LogPosition | None = None) -> list[str]:
    return [
        f"{one.position.ledger_id}.{one.position.entry_id}" async for one in log.read_all(start)
    ]


@pytest.mark.parametrize("by", ["entries", "bytes"])
def test_it_rolls_by_itself(by: str, snapshot: SnapshotAssertion) -> None:
    limits = {"roll_entries": 3} if by == "entries" else {"roll_bytes": 12}

    async def scenes(fleet: Fleet) -> None:
        log = await _opened(fleet, **limits)
        for number in range(8):
            await fleet.seen(f"{number}", log.append(b"%04d" % number))
            await asyncio.sleep(0.05)
        await fleet.seen("many", log.append_many([b"%04d" % number for number in range(7)]))
        await asyncio.sleep(0.1)
        await fleet.seen("closed", log.close())
        await fleet.seen("all", _all(fleet))

    assert snapshot(extension_class=Words) == _story(scenes)


def test_appends_wait_for_a_switch(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        log = await _opened(fleet, waiting_max=2)
        await log.append(b"before")
        fleet.weather.latency_s = 0.4
        rolling = asyncio.ensure_future(log.roll())
        await fleet.until_soon(lambda: log._switching)
        ends = [log.append(b"waits %d" % number) for number in range(3)]
        room = asyncio.ensure_future(fleet.seen("room", log.room()))
        many = asyncio.ensure_future(fleet.seen("many", log.append_many([b"a", b"b"])))
        ends[1].cancel()
        await asyncio.sleep(0.1)
        fleet.note("the one who rolls gives up: it goes on")
        rolling.cancel()
        await fleet.seen("first", ends[0])
        await fleet.seen("third", ends[2])
        await asyncio.gather(room, many)
        fleet.note("the next switch: room waits for it, too")
        rolling = asyncio.ensure_future(fleet.seen("next roll", log.roll()))
        await fleet.until_soon(lambda: log._switching)
        await fleet.seen("room", log.room())
        _about(fleet, log)
        await rolling
        fleet.weather.latency_s = 0.0
        await fleet.seen("closed", log.close())
        await fleet.seen("all", _all(fleet))

    assert snapshot(extension_class=Words) == _story(scenes)


@pytest.mark.parametrize("then", ["roll", "close", "append", "other"])
@pytest.mark.parametrize("fault", ["lost", "late", "out"])
def test_a_roll_whose_outcome_is_unknown(
    fault: str, then: str, snapshot: SnapshotAssertion
) -> None:
    async def scenes(fleet: Fleet) -> None:
        log = await _opened(fleet)
        await log.append(b"before")
        with fleet.quiet():
            fleet.network.reset("bookie-0")
        name = log._chain._listed
        write = name.write

        async def failing(changed: Any) -> None:
            fleet.weather.lost_values = float(fault == "lost")
            fleet.weather.late_writes = float(fault == "late")
            fleet.weather.is_out = fault == "out"
            await write(changed)

        name.write = failing  # type: ignore[method-assign]
        await fleet.seen("roll", log.roll())
        name.write = write  # type: ignore[method-assign]
        fleet.weather.lost_values = fleet.weather.late_writes = 0.0
        fleet.weather.is_out = False
        _about(fleet, log)
        await fleet.seen("between", _append(log, b"between"))
        if then == "roll":
            await fleet.seen("again", log.roll())
        if then == "other":
            other = await _opened(fleet, "other")
            _about(fleet, other)
            await fleet.seen("fenced", _append(log, b"fenced"))
        elif then != "append":
            await fleet.seen("closed", log.close())
        _about(fleet, log)
        await asyncio.sleep(8)
        await fleet.seen("all", _all(fleet))

    assert snapshot(extension_class=Words) == _story(scenes)


@pytest.mark.parametrize("then", ["roll", "truncate", "close"])
def test_a_change_behind_a_roll_that_was_given_up(then: str, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        log = await _opened(fleet)
        await log.append(b"before")
        fleet.weather.latency_s = 0.2
        rolling = asyncio.ensure_future(log.roll())
        await fleet.until_soon(lambda: log._switching)
        waits = log.append(b"waits")
        rolling.cancel()
        await asyncio.sleep(0)
        if then == "truncate":
            await fleet.seen(then, log.truncate(LogPosition(log.ledger_ids[-1], EntryId(0))))
        else:
            await fleet.seen(then, log.roll() if then == "roll" else log.close())
        await fleet.seen("waits", waits)
        _about(fleet, log)
        await fleet.seen("all", _all(fleet))

    assert snapshot(extension_class=Words) == _story(scenes)


def test_a_roll_that_cannot_close_the_ledger_before(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        log = await _opened(fleet)
        await log.append_many([b"one", b"two"])
        held = fleet.cluster.ledgers[log.ledger_id]
        value = held.value.in_recovery().closed(EntryId(0), length=3)
        await fleet.stores[CLIENT].write_ledger(value, version=held.version)
        await fleet.seen("rolled", log.roll())
        _about(fleet, log)
        await fleet.seen("append", _append(log, b"three"))
        await fleet.seen("closed", log.close())

    assert snapshot(extension_class=Words) == _story(scenes)


def test_a_close_waits_for_the_roll_of_a_full_ledger(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        log = await _opened(fleet, roll_entries=1)
        fleet.weather.latency_s = 0.2
        await fleet.seen("one", log.append(b"one"))
        await fleet.seen("closed", log.close())
        _about(fleet, log)
        await asyncio.sleep(2)

    assert snapshot(extension_class=Words) == _story(scenes)


def test_room_of_a_log(snapshot: SnapshotAssertion) -> None:
    small = replace(QUICK, writer=WriterSettings(unacked_entries_max=2))

    async def scenes(fleet: Fleet) -> None:
        log = await _opened(fleet)
        await fleet.seen("there is", log.room())
        for name in fleet.bookies:
            fleet.network.lags[name, CLIENT] = 0.5
        ends = [log.append(b"%d" % number) for number in range(2)]
        waiting = asyncio.ensure_future(fleet.seen("there is again", log.room()))
        await asyncio.sleep(0.2)
        fleet.note("its ledger changes while it waits")
        await fleet.seen("rolled", log.roll())
        await waiting
        await asyncio.gather(*ends)

    assert snapshot(extension_class=Words) == _story(scenes, client=small)


def test_an_append_during_the_close(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        log = await _opened(fleet)
        fleet.weather.latency_s = 0.2
        await fleet.seen("one", log.append(b"one"))
        closing = asyncio.ensure_future(fleet.seen("closed", log.close()))
        await asyncio.sleep(0.1)
        await fleet.seen("during it", _append(log, b"two"))
        _about(fleet, log)
        await closing
        await fleet.seen("after it", _append(log, b"three"))
        await fleet.seen("all", _all(fleet))

    assert snapshot(extension_class=Words) == _story(scenes)


def test_a_roll_that_finds_no_bookies(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        log = await _opened(fleet, roll_entries=2)
        with fleet.quiet():
            await fleet.stop("bookie-0")
        for number in range(5):
            await fleet.seen(f"{number}", log.append(b"%d" % number))
            await asyncio.sleep(0.1)
        with fleet.quiet():
            await fleet.start("bookie-0")
        for number in range(5, 9):
            await fleet.seen(f"{number}", log.append(b"%d" % number))
            await asyncio.sleep(0.1)
        await fleet.seen("all", _all(fleet))

    assert snapshot(extension_class=Words) == _story(scenes, mode="sync")


# Two owners
def test_another_owner(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        first = await _opened(fleet)
        await fleet.seen("first", first.append(b"first"))
        fleet.note("another takes it over")
        second = await _opened(fleet, "other")
        await fleet.seen("second", _by(fleet, "other", _append(second, b"second")))
        fleet.note("the first learns of it at its next append")
        _about(fleet, first)
        ends = [first.append(b"lost %d" % number) for number in range(2)]
        for end in ends:
            await fleet.seen("lost", end)
        _about(fleet, first)
        for what, work in (
            ("append", _append(first, b"lost")), ("many", first.append_many([b"lost"])),
            ("roll", first.roll()), ("room", first.room()), ("close", first.close()),
            ("truncate", first.truncate(LogPosition(LedgerId(3), EntryId(0)))),
        ):  # fmt: skip
            await fleet.seen(what, work)
        fleet.note("it opens it again, and the other is the one who is out")
        again = await first.reopen()
        await fleet.seen("again", again.append(b"again"))
        await fleet.seen("second", _by(fleet, "other", _append(second, b"lost")))
        await fleet.seen("closed", again.close())
        await fleet.seen("all", _all(fleet))

    assert snapshot(extension_class=Words) == _story(scenes)


@pytest.mark.parametrize("work", ["roll", "truncate", "close"])
def test_the_first_owner_does_something_else(work: str, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        first = await _opened(fleet)
        await fleet.seen("first", first.append(b"first"))
        await fleet.seen("rolled", first.roll())
        await fleet.seen("second", first.append(b"second"))
        second = await _opened(fleet, "other")
        await fleet.seen("third", _by(fleet, "other", _append(second, b"third")))
        fleet.note(work)
        if work == "truncate":
            before = LogPosition(first.ledger_id, EntryId(0))
            await fleet.seen("truncated", first.truncate(before))
        else:
            await fleet.seen(work, first.roll() if work == "roll" else first.close())
        _about(fleet, first)
        await fleet.seen("goes on", _by(fleet, "other", _append(second, b"goes on")))
        await fleet.seen("all", _all(fleet))

    assert snapshot(extension_class=Words) == _story(scenes)


@pytest.mark.parametrize("late_s", [0.0, 0.0015, 0.0045, 0.02, 0.05])
def test_two_open_it_at_once(late_s: float, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        with fleet.quiet():
            old = await _opened(fleet, "old")
            await _by(fleet, "old", _append(old, b"old"))
        one = fleet.spawn("one", _open(fleet, "one"))
        await asyncio.sleep(late_s)
        two = fleet.spawn("two", _open(fleet, "two"))
        first, second = await asyncio.gather(one, two)
        await fleet.seen("one", _by(fleet, "one", _append(first, b"one")))
        await fleet.seen("two", _by(fleet, "two", _append(second, b"two")))
        for log in (first, second):
            _about(fleet, log)
        await fleet.seen("all", _all(fleet))

    assert snapshot(extension_class=Words) == _story(scenes)


def test_an_owner_dies_during_its_roll(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        log = await _opened(fleet)
        await fleet.seen("first", log.append(b"first"))
        fleet.weather.latency_s = 0.2
        rolling = asyncio.ensure_future(log.roll())
        await fleet.until_soon(lambda: log._switching)
        waits = log.append(b"waits")
        log._switch.cancel()  # type: ignore[union-attr]
        await fleet.seen("waits", waits)
        await fleet.seen("rolled", asyncio.wait({rolling}))
        fleet.weather.latency_s = 0.0
        _about(fleet, log)
        fleet.note("the two last ledgers are open; another takes over")
        second = await _opened(fleet, "other")
        await fleet.seen("second", _by(fleet, "other", _append(second, b"second")))
        await fleet.seen("all", _all(fleet))

    assert snapshot(extension_class=Words) == _story(scenes)


@pytest.mark.parametrize("fault", ["lost", "late", "out"])
def test_an_opening_whose_outcome_is_unknown(fault: str, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        with fleet.quiet():
            log = await _opened(fleet)
            await log.append(b"first")
        fleet.weather.lost_values = float(fault == "lost")
        work = asyncio.ensure_future(fleet.seen("opened", _kept(fleet)))
        if fault != "lost":
            await fleet.until_soon(lambda: len(fleet.cluster.ledgers) > 1)
            fleet.weather.late_writes = float(fault == "late")
            fleet.weather.is_out = fault == "out"
        await asyncio.sleep(14)
        fleet.weather.lost_values = fleet.weather.late_writes = 0.0
        fleet.weather.is_out = False
        await work
        await asyncio.sleep(8)
        second = await _opened(fleet, "other")
        _about(fleet, second)
        await fleet.seen("all", _all(fleet))

    assert snapshot(extension_class=Words) == _story(scenes)


async def _kept(fleet: Fleet) -> str:
    log = await _opened(fleet, "first")
    return f"owner of {log.ledger_id}"


# Truncation and reading
async def _four(fleet: Fleet) -> ReplicatedLog:
    """Four ledgers with two entries each, of which nothing is written down."""
    with fleet.quiet():
        log = await _opened(fleet)
        for number in range(4):
            if number:
                await log.roll()
            await log.append_many([b"%d.0" % number, b"%d.1" % number])
        await asyncio.sleep(1)
    _about(fleet, log)
    return log


def test_positions(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        log = await _four(fleet)
        ids = [int(one) for one in log.ledger_ids]
        for ledger, entry in ((ids[0], 0), (ids[1], 1), (ids[1], 2), (ids[3], 1), (ids[3], 2)):
            start = LogPosition(LedgerId(ledger), EntryId(entry))
            await fleet.seen(f"from {ledger}.{entry}", _all(fleet, start=start))
        for ledger in (0, ids[-1] + 1):
            start = LogPosition(LedgerId(ledger), EntryId(0))
            await fleet.seen(f"from {ledger}", _all(fleet, start=start))

    assert snapshot(extension_class=Words) == _story(scenes)


def test_truncations(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        log = await _four(fleet)
        first, second, third, fourth = log.ledger_ids
        for ledger, entry in ((first, 9), (second, 1), (second, 0), (first, 0), (fourth, 0)):
            position = LogPosition(ledger, EntryId(entry))
            await fleet.seen(f"before {ledger}.{entry}", log.truncate(position))
            _about(fleet, log)
        assert third not in log.ledger_ids
        await fleet.seen("all", _all(fleet))
        await fleet.seen("from what is gone", _all(fleet, start=LogPosition(first, EntryId(1))))

    assert snapshot(extension_class=Words) == _story(scenes)


def test_a_truncation_that_is_cut_off(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        log = await _four(fleet)
        first, second, third, _fourth = log.ledger_ids
        work = asyncio.ensure_future(log.truncate(LogPosition(third, EntryId(0))))
        await fleet.until_soon(lambda: first not in fleet.cluster.ledgers)
        work.cancel()
        _about(fleet, log)
        fleet.note(f"one of {first}, {second} is deleted; the next owner deletes the other")
        second_owner = await _opened(fleet, "other")
        _about(fleet, second_owner)
        work = _by(fleet, "other", second_owner.truncate(LogPosition(third, EntryId(0))))
        await fleet.seen("truncated", work)
        await fleet.seen("all", _all(fleet))

    assert snapshot(extension_class=Words) == _story(scenes)


@pytest.mark.parametrize("read", [0, 1, 3])
def test_a_truncation_while_it_is_read(read: int, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        log = await _four(fleet)
        fleet.process("reader")
        fleet.network.lags["reader", "metadata"] = 0.05
        gate = asyncio.Event()
        work = fleet.spawn("reader", _read_slowly(fleet, read, gate))
        await asyncio.sleep(0.11 if not read else 2)
        await log.truncate(LogPosition(log.ledger_ids[2], EntryId(0)))
        fleet.note("truncated")
        gate.set()
        await work

    assert snapshot(extension_class=Words) == _story(scenes)


async def _read_slowly(fleet: Fleet, read: int, gate: asyncio.Event) -> None:
    """Reads so many entries, then waits at the gate."""
    client = fleet.client("reader")
    found: list[bytes] = []
    try:
        async for one in read_log("it", ledgers=client, store=client._store, password=b"secret"):
            found.append(one.payload)
            if len(found) == read:
                await gate.wait()
    except BookieError as error:
        fleet.note(f"{type(error).__name__}: {error}")
    fleet.note(f"read: {found}")


@pytest.mark.parametrize("gone", [0, 1, 3])
def test_a_ledger_of_the_list_is_gone(gone: int, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        log = await _four(fleet)
        missing: list[int] = []
        with fleet.quiet():
            await fleet.stores[CLIENT].delete_ledger(log.ledger_ids[gone])
        await fleet.seen("read", _all(fleet, on_missing=missing.append))
        fleet.note(f"missing {missing}")
        other = await _opened(fleet, "other")
        _about(fleet, other)
        await fleet.seen("read", _all(fleet))

    assert snapshot(extension_class=Words) == _story(scenes)


def test_lists_that_are_none(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        store = fleet.stores[fleet.process(CLIENT).name]
        version = None
        for stored in (
            b"[]", b"not json", b'{"deleting": [], "ledgers": [-1], "version": 1}',
            b'{"deleting": [], "ledgers": [true], "version": 1}',
            b'{"deleting": [], "ledgers": [], "version": 2}', b'{"ledgers": [], "version": 1}',
        ):  # fmt: skip
            with fleet.quiet():
                version = (await store.write_value("logs/it", stored, version=version)).version
            await fleet.seen("opened", _opened(fleet))
            await fleet.seen("read", _all(fleet))
        for name in ("", "-a", "a/b", "a" * 129):
            await fleet.seen(f"{name[:9]}", _named(fleet.client(), name))

    assert snapshot(extension_class=Words) == _story(scenes)


async def _named(client: Client, name: str) -> None:
    await ReplicatedLog.open(name, ledgers=client, store=client._store)


def test_a_log_whose_writer_fails(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        log = await _opened(fleet, roll_entries=100)
        await fleet.seen("first", log.append(b"first"))
        await fleet.seen("too large", _append(log, b"x" * (6 << 20)))
        await fleet.seen("it goes on", log.append(b"second"))
        for name in fleet.bookies:
            fleet.answers(name, Op.ADD_RUN, Status.BAD_REQUEST)
        await fleet.seen("third", log.append(b"third"))
        _about(fleet, log)
        await fleet.seen("fourth", log.append(b"fourth"))
        log = await log.reopen()
        await fleet.seen("fifth", log.append(b"fifth"))
        await fleet.seen("all", _all(fleet))

    assert snapshot(extension_class=Words) == _story(scenes)
