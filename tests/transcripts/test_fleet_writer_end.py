"""Stories of how a writer ends: closed, fenced, abandoned, ended by others."""

import asyncio

import pytest
from bookie.client.bookkeeper_client import ClientSettings
from bookie.client.pool_settings import PoolSettings
from bookie.client.writer import LedgerWriter, WriterSettings
from bookie.ids import EntryId
from bookie.protocol.status import Status
from bookie.wire.native import Op
from fleet_story import CLIENT, PASSWORD, Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

QUICK = ClientSettings(
    writer=WriterSettings(stall_s=6.0), pool=PoolSettings(request_timeout_s=2.0, last_adds_s=0.5)
)
"""Nothing is waited for long."""


async def _begun(fleet: Fleet, count: int = 2, **quorums: int) -> LedgerWriter:
    with fleet.quiet():
        await fleet.begin()
        writer = await fleet.write(count, **quorums)
        await asyncio.sleep(1)
    return writer


async def _appended(writer: LedgerWriter, payload: bytes) -> EntryId:
    return await writer.append(payload)


def test_a_close_waits_for_what_is_under_way(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        for name in fleet.bookies:
            fleet.network.lags[name, CLIENT] = 1.0
        end = writer.append(b"under way")
        first = asyncio.ensure_future(writer.close())
        await asyncio.sleep(0.1)
        await fleet.seen("append", _appended(writer, b"too late"))
        fleet.note("the one who closes gives up; another does it")
        first.cancel()
        second = asyncio.ensure_future(writer.close())
        third = asyncio.ensure_future(writer.close())
        await fleet.seen("under way", end)
        await fleet.seen("second", second)
        await fleet.seen("third", third)
        await fleet.seen("again", writer.close())
        await fleet.seen("after", _appended(writer, b"after"))
        await fleet.seen("room", writer.room())
        writer.abandon()
        await fleet.seen("still", writer.close())
        fleet.say_ledgers()

    assert snapshot(extension_class=Words) == told(scenes)


def test_a_close_is_given_up_while_it_writes(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        fleet.weather.latency_s = 2.0
        first = asyncio.ensure_future(writer.close())
        await asyncio.sleep(0.5)
        first.cancel()
        fleet.weather.latency_s = 0.0
        await fleet.seen("second", writer.close())
        fleet.note("an empty one")
        with fleet.quiet():
            writer = await fleet.write(0)
        await fleet.seen("closed", writer.close())
        fleet.say_ledgers()

    assert snapshot(extension_class=Words) == told(scenes)


@pytest.mark.parametrize(
    ("state", "end"),
    [("open", 0), ("in_recovery", 0), ("deleted", 0), *(("closed", end) for end in range(3))],
)
def test_a_close_that_conflicts(state: str, end: int, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        store = fleet.stores[CLIENT]
        with fleet.quiet():
            found = await store.read_ledger(writer.ledger_id)
            value = found.value if state in ("open", "deleted") else found.value.in_recovery()
            if state == "closed":
                value = value.closed(EntryId(end), length=14)
            await store.write_ledger(value, version=found.version)
            if state == "deleted":
                await store.delete_ledger(writer.ledger_id)
        await fleet.seen("closed", writer.close())
        await fleet.seen("again", writer.close())
        fleet.note(f"{writer.metadata.state.name} {writer.metadata.last_entry_id}")
        fleet.say_ledgers()

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)


@pytest.mark.parametrize("fault", ["lost", "late", "out", "too_long"])
def test_the_write_of_a_close(fault: str, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        weather = fleet.weather
        weather.lost_replies = float(fault == "lost")
        weather.late_writes = float(fault == "late")
        weather.is_out = fault in ("out", "too_long")
        closing = asyncio.ensure_future(writer.close())
        await asyncio.sleep(15 if fault == "too_long" else 5)
        weather.lost_replies, weather.late_writes, weather.is_out = 0.0, 0.0, False
        await fleet.seen("closed", closing)
        await asyncio.sleep(8)
        await fleet.seen("again", writer.close())
        fleet.say_ledgers()

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)


@pytest.mark.parametrize("outcome", ["written", "slow"])
def test_a_close_during_a_change(outcome: str, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        fleet.weather.latency_s = 0.5 if outcome == "written" else 4.0
        fleet.answers(writer.metadata.last_fragment.ensemble[2], Op.ADD_RUN, Status.IO_ERROR)
        await fleet.seen("entry", writer.append(b"entry"))
        if outcome == "written":
            await fleet.until_soon(lambda: writer._core._change is not None)
            await fleet.until_soon(
                lambda: getattr(writer._core._change, "proposed", None) is not None
            )
        await fleet.seen("closed", writer.close())
        await asyncio.sleep(8)
        fleet.say_ledgers()

    assert snapshot(extension_class=Words) == told(scenes, bookies=4, client=QUICK)


def test_a_member_fails_as_it_closes(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        fleet.network.lags[writer.metadata.last_fragment.ensemble[0], CLIENT] = 0.5
        fleet.answers(writer.metadata.last_fragment.ensemble[0], Op.ADD_RUN, Status.IO_ERROR)
        fleet.weather.latency_s = 1.0
        await fleet.seen("entry", writer.append(b"entry"))
        await fleet.seen("closed", writer.close())
        await asyncio.sleep(2)
        fleet.say_ledgers()

    assert snapshot(extension_class=Words) == told(scenes, bookies=4, client=QUICK)


def test_a_recovery_shuts_the_writer_out(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        with fleet.quiet():
            await fleet.spawn("other", _recovered(fleet, writer))
            await asyncio.sleep(1)
        fleet.note("it learns of it at its next append")
        first, second = writer.append(b"first"), writer.append(b"second")
        await fleet.seen("first", first)
        await fleet.seen("second", second)
        await fleet.seen("third", _appended(writer, b"third"))
        await fleet.seen("room", writer.room())
        await fleet.seen("acknowledged before", writer.wait_acked(EntryId(1)))
        await fleet.seen("not acknowledged", writer.wait_acked(EntryId(2)))
        await fleet.seen("closed", writer.close())
        fleet.say_ledgers()

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)


async def _recovered(fleet: Fleet, writer: LedgerWriter) -> None:
    await fleet.client("other").recover_ledger(writer.ledger_id, password=PASSWORD)


def test_writers_are_abandoned_with_their_client(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        with fleet.quiet():
            await fleet.begin()
            client = fleet.client()
            writers = [await fleet.write(2, client=client) for _ in range(3)]
        first, second, third = writers
        first.abandon()
        first.abandon()
        await fleet.seen("abandoned", _appended(first, b"entry"))
        await fleet.seen("closed", second.close())
        fleet.note("an add under way, whose last copy is waited for")
        slow = third.metadata.last_fragment.ensemble[2]
        fleet.network.lags[slow, CLIENT] = 0.3
        await fleet.seen("entry", third.append(b"entry"))
        await client.close()
        fleet.note("the client is closed")
        for writer in writers:
            await fleet.seen("append", _appended(writer, b"entry"))
            await fleet.seen("close", writer.close())
        fleet.say_ledgers()

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)


def test_the_last_copies_are_waited_for_a_while(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        with fleet.quiet():
            await fleet.begin()
            client = fleet.client()
            writer = await fleet.write(1, client=client)
        slow = writer.metadata.last_fragment.ensemble[2]
        fleet.network.lags[slow, CLIENT] = 30.0
        fleet.network.slowness[slow] = 10.0
        await fleet.seen("entry", writer.append(b"entry"))
        await fleet.seen("closed", writer.close())
        await client.close()
        fleet.note("the client is closed")
        await asyncio.sleep(0.1)
        fleet.say_ledgers()

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)


def test_an_error_of_ours_ends_the_writer_with_words(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        writer._broke(RuntimeError("a defect"))
        writer._broke(RuntimeError("another"))
        await fleet.seen("append", _appended(writer, b"entry"))
        await fleet.seen("close", writer.close())

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)
