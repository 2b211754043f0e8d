"""Stories of a writer: how it gathers, sends, waits and acknowledges."""

import asyncio

from bookie.client.bookkeeper_client import ClientSettings
from bookie.client.writer import LedgerWriter, WriterSettings
from bookie.errors import BookieError
from bookie.ids import EntryId
from bookie.protocol.batches import WriterLimits
from bookie.protocol.status import Status
from bookie.wire.native import Op
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words


def _with(**settings: object) -> ClientSettings:
    return ClientSettings(writer=WriterSettings(**settings))  # type: ignore[arg-type]


async def _begun(fleet: Fleet, **quorums: int) -> LedgerWriter:
    """A writer of a ledger with one entry, of which nothing is written down."""
    with fleet.quiet():
        writer = await fleet.write(1, **quorums)
        await asyncio.sleep(0.05)
    return writer


def test_ledgers_of_all_quorums(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        client = fleet.client()
        for size, write, ack in ((3, 3, 3), (3, 2, 2), (5, 3, 2), (4, 2, 1), (3, 1, 1), (1, 1, 1)):
            fleet.note(f"{size}/{write}/{ack}: two batches, the second is one entry")
            quorums = {"ensemble_size": size, "write_quorum": write, "ack_quorum": ack}
            with fleet.quiet():
                writer = await fleet.write(0, client=client, **quorums)
            writer.append_many([b"%d" % number * 3 for number in range(7)])
            await asyncio.sleep(0.1)
            fleet.note(f"lac {writer.lac}")
            writer.append(b"last")
            await fleet.seen("closed", writer.close())
            await asyncio.sleep(0.1)
        fleet.say_ledgers()

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_quorums_that_no_ledger_can_have(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        client = fleet.client()
        for size, write, ack in ((2, 3, 2), (3, 2, 3), (3, 3, 0), (0, 0, 0), (4, 3, 2)):
            await fleet.seen(
                f"{size}/{write}/{ack}",
                client.create_ledger(ensemble_size=size, write_quorum=write, ack_quorum=ack),
            )
        fleet.note("all fields of a ledger")
        writer = await client.create_ledger(
            ensemble_size=3, write_quorum=2, ack_quorum=2, custom={"team": b"blue"}
        )
        await fleet.seen("closed", writer.close())
        fleet.say_ledgers()

    assert snapshot(extension_class=Words) == told(scenes)


def test_what_goes_at_once_and_what_gathers(snapshot: SnapshotAssertion) -> None:
    limits = WriterLimits(batch_bytes=20, gather_batches=2, in_flight_batches=3)

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        writer = await _begun(fleet)
        fleet.note("alone: it goes at once; then two of one turn")
        await writer.append(b"at once")
        writer.append(b"one")
        writer.append(b"two")
        await asyncio.sleep(0.1)
        fleet.note("two batches in flight: more waits until it fills a batch")
        for number in range(4):
            writer.append(b"%d2345" % number)
            await asyncio.sleep(0)
        writer.append_many([b"a" * 8, b"b" * 8, b"c" * 8, b"d" * 8])
        await asyncio.sleep(0)
        writer.append_many([b"e" * 19, b"f" * 21, b"g", b"h"])
        await fleet.seen("acknowledged", writer.wait_acked(EntryId(15)))
        await fleet.seen("closed", writer.close())
        fleet.say_ledgers()

    assert snapshot(extension_class=Words) == told(scenes, client=_with(limits=limits))


def test_a_slow_member_holds_nothing_up_but_the_bound(snapshot: SnapshotAssertion) -> None:
    limits = WriterLimits(lag_bytes_max=200)

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        writer = await _begun(fleet)
        fleet.note("bookie-0 answers late: acks go on, then the bytes that it owes are too many")
        fleet.network.lags["bookie-0", "client"] = 2.0
        for number in range(4):
            await asyncio.sleep(0.3)
            writer.append(b"%d" % number * 50)
            await asyncio.sleep(0.05)
            fleet.note(f"lac {writer.lac}")
        await fleet.seen("acknowledged", writer.wait_acked(EntryId(4)))
        await fleet.seen("closed", writer.close())

    assert snapshot(extension_class=Words) == told(scenes, client=_with(limits=limits))


def test_acks_come_in_order_though_stripes_do_not(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        writer = await _begun(fleet, write_quorum=2, ack_quorum=2)
        fleet.network.lags["bookie-1", "client"] = 1.0
        ends = [writer.append(b"%d" % number) for number in range(6)]
        for number, end in enumerate(ends, 1):
            end.add_done_callback(lambda end, n=number: fleet.note(f"{n} is {end.result()}"))
        await asyncio.sleep(0.1)
        fleet.note(f"lac {writer.lac}")
        await fleet.seen("acknowledged", writer.wait_acked(EntryId(6)))
        fleet.note("an early id is acknowledged already, a late one was not appended")
        await fleet.seen("early", writer.wait_acked(EntryId(2)))
        try:
            await writer.wait_acked(EntryId(7))
        except ValueError as error:
            fleet.note(str(error))

    assert snapshot(extension_class=Words) == told(scenes)


def test_room(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for what, settings in (
            ("bytes", _with(unacked_bytes_max=10)),
            ("entries", _with(unacked_entries_max=2)),
        ):
            with fleet.quiet():
                writer = await fleet.write(1, client=fleet.client(settings=settings))
                for name in fleet.bookies:
                    fleet.network.lags[name, "client"] = 1.0
            for size in (5, 4, 1):
                writer.append(b"x" * size)
                asyncio.get_running_loop().create_task(_has_room(fleet, writer, what, size))
                await asyncio.sleep(0.1)
            await asyncio.sleep(2)
            given_up = asyncio.get_running_loop().create_task(_has_room(fleet, writer, what, 0))
            writer.append(b"y" * 10)
            writer.append(b"z")
            await _cancelled(_has_room(fleet, writer, what, -1))
            writer.abandon()
            await given_up
            fleet.network.lags.clear()

    assert snapshot(extension_class=Words) == told(scenes)


async def _has_room(fleet: Fleet, writer: LedgerWriter, what: str, size: int) -> None:
    await writer.room()
    fleet.note(f"room by {what} after {size}, lac {writer.lac}")


async def _cancelled(work: object) -> None:
    task = asyncio.ensure_future(work)  # type: ignore[call-overload]
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_waits_that_are_given_up(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        writer = await _begun(fleet)
        fleet.network.lags["bookie-1", "client"] = fleet.network.lags["bookie-2", "client"] = 1.0
        for number in range(3):
            writer.append(b"%d" % number)
        for entry_id in (3, 1, 2):  # a late waiter for an early id
            wait = asyncio.ensure_future(writer.wait_acked(EntryId(entry_id)))
            wait.add_done_callback(
                lambda end, n=entry_id: fleet.note(
                    f"waited for {n}: {'given up' if end.cancelled() else end.result()}"
                )
            )
            await asyncio.sleep(0.01)
            if entry_id == 1:
                wait.cancel()
        end = writer.append(b"its future is cancelled")
        end.cancel()
        await fleet.seen("acknowledged", writer.append(b"more"))

    assert snapshot(extension_class=Words) == told(scenes)


def test_what_nobody_can_append(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        writer = await _begun(fleet)
        for payloads in ([b"x" * (16 << 20)], ["text"], [b"good", bytearray(b"bad")]):
            _tried(fleet, lambda payloads=payloads: writer.append_many(payloads))
            _tried(fleet, lambda payloads=payloads: writer.append(payloads[-1]))
        await fleet.seen("good", writer.append(b"good"))
        fleet.note("nothing at all is no entry")
        fleet.note(f"last {writer.append_many([])}")
        fleet.note("empty payloads are entries")
        await fleet.seen("empty", writer.append(b""))
        await fleet.seen("closed", writer.close())
        _tried(fleet, lambda: writer.append(b"after"))
        _tried(fleet, lambda: writer.append_many([b"after"]))
        fleet.say_ledgers()

    assert snapshot(extension_class=Words) == told(scenes)


def _tried(fleet: Fleet, work: object) -> None:
    try:
        work()  # type: ignore[operator]
    except BookieError as error:
        fleet.note(f"{type(error).__name__}: {error}")


def test_the_lac_of_an_idle_writer(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        writer = await _begun(fleet)
        await asyncio.sleep(2)
        fleet.note("one takes it not: that is enough, and it is not sent again")
        fleet.answers("bookie-0", Op.WRITE_LAC, Status.IO_ERROR)
        await writer.append(b"1")
        await asyncio.sleep(7)
        fleet.note("two take it not: again after a pause")
        for name in ("bookie-0", "bookie-1"):
            fleet.answers(name, Op.WRITE_LAC, Status.OVERLOADED)
        await writer.append(b"2")
        await asyncio.sleep(7)
        fleet.note("an entry under way carries it; and what comes in the pause ends the wait")
        for name in ("bookie-0", "bookie-1"):
            fleet.answers(name, Op.WRITE_LAC, Status.IO_ERROR)
        await writer.append(b"3")
        await asyncio.sleep(0.4)
        fleet.network.lags["bookie-0", "client"] = fleet.network.lags["bookie-1", "client"] = 0.3
        await writer.append(b"4")
        await asyncio.sleep(7)
        fleet.network.lags.clear()
        fleet.note("somebody has fenced it: not again")
        for name in ("bookie-0", "bookie-1"):
            fleet.answers(name, Op.WRITE_LAC, Status.FENCED)
        await writer.append(b"5")
        await asyncio.sleep(7)
        fleet.note("closed at once: not at all")
        await writer.append(b"6")
        await fleet.seen("closed", writer.close())
        await asyncio.sleep(7)
        fleet.say_ledgers()

    assert snapshot(extension_class=Words) == told(scenes)
