"""Stories of a writer whose members fail: ensemble changes, refusals, limits of patience."""

import asyncio

import pytest
from bookie.client.bookkeeper_client import ClientSettings
from bookie.client.pool_settings import PoolSettings
from bookie.client.writer import LedgerWriter, WriterSettings
from bookie.ids import BookieId, EntryId
from bookie.protocol.ledger import Fragment
from bookie.protocol.status import Status
from bookie.wire.native import Op
from fleet_story import CLIENT, Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

QUICK = ClientSettings(
    writer=WriterSettings(stall_s=6.0), pool=PoolSettings(request_timeout_s=2.0, last_adds_s=0.5)
)
"""Nothing is waited for long."""


async def _begun(fleet: Fleet, count: int = 1, **quorums: int) -> LedgerWriter:
    """A writer of a ledger with so many entries, of which nothing is written down."""
    with fleet.quiet():
        await fleet.begin()
        writer = await fleet.write(count, **quorums)
        await asyncio.sleep(1)
    return writer


def _member(writer: LedgerWriter, position: int) -> str:
    return writer.metadata.last_fragment.ensemble[position]


async def _ended(fleet: Fleet, writer: LedgerWriter) -> None:
    await fleet.seen("closed", writer.close())
    await asyncio.sleep(0.1)
    fleet.say_ledgers()


STOPS = (Status.FENCED, Status.UNAUTHORIZED, Status.BAD_REQUEST)


def _said_once(status: Status) -> str:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        said = None if status is Status.UNREACHABLE else status
        fleet.answers(_member(writer, 0), Op.ADD_RUN, said)
        await fleet.seen("first", writer.append(b"first"))
        await asyncio.sleep(3)
        await fleet.seen("second", _more(writer))
        await _ended(fleet, writer)

    return told(scenes, bookies=4, client=QUICK)


@pytest.mark.parametrize(
    "status", [*STOPS, Status.IO_ERROR, Status.UNREACHABLE], ids=lambda one: one.name.lower()
)
def test_a_member_that_says_it_once(status: Status, snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == _said_once(status)


def test_all_other_answers_are_the_members_own_failure() -> None:
    others = set(Status) - {*STOPS, Status.OK, Status.IO_ERROR, Status.UNREACHABLE}
    texts = {_said_once(one).replace(one.name, Status.IO_ERROR.name) for one in others}
    assert texts == {_said_once(Status.IO_ERROR)} and len(others) == 6


@pytest.mark.parametrize(
    "status", [Status.READ_ONLY, Status.IO_ERROR], ids=lambda one: one.name.lower()
)
def test_nobody_is_free(status: Status, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        fleet.answers("bookie-1", Op.ADD_RUN, status)
        await fleet.seen("first", writer.append(b"first"))
        await asyncio.sleep(8)
        fleet.note("two refuse, one of them again: the writer is stalled, and asks them at once")
        fleet.answers("bookie-0", Op.ADD_RUN, status)
        fleet.answers("bookie-1", Op.ADD_RUN, status, times=2)
        await fleet.seen("second", writer.append(b"second"))
        await asyncio.sleep(8)
        await _ended(fleet, writer)

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)


def test_refusals_count_longer_each_time(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        fleet.answers("bookie-1", Op.ADD_RUN, Status.READ_ONLY, times=3)
        for number in range(13):
            await fleet.seen("entry", writer.append(b"%d" % number))
            await asyncio.sleep(3)
        await _ended(fleet, writer)

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)


def test_one_dies_then_the_next_then_all(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        first, second, _third = writer.metadata.last_fragment.ensemble
        fleet.crash(first)
        await asyncio.sleep(5)
        fleet.note("one free, and it gets what is not acknowledged")
        await fleet.seen("one", writer.append(b"one"))
        fleet.note("another crashes with entries under way, and nobody is free")
        last = writer.append_many([b"two", b"three"])
        fleet.crash(second)
        await fleet.seen("two", writer.wait_acked(last))
        await asyncio.sleep(6)
        await fleet.seen("four", writer.append(b"four"))
        with fleet.quiet():
            await fleet.start(first)
        fleet.note("the first is back, and takes the place of the second")
        await asyncio.sleep(5)
        await fleet.seen("five", writer.append(b"five"))
        fleet.crash(*writer.metadata.last_fragment.ensemble)
        await fleet.seen("six", writer.append(b"six"))
        await _ended(fleet, writer)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4, client=QUICK)


@pytest.mark.parametrize("free", [0, 1, 2])
def test_two_at_once(free: int, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        fleet.crash(_member(writer, 0), second := _member(writer, 1))
        end = writer.append(b"entry")
        await asyncio.sleep(3)
        fleet.note(f"acknowledged: {end.done()}")
        if not end.done():
            with fleet.quiet():
                await fleet.start(second)
        await fleet.seen("entry", end)
        await _ended(fleet, writer)

    assert snapshot(extension_class=Words) == told(scenes, bookies=3 + free, mode="sync")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_others_come_while_two_are_missing(count: int, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        for name, rack in zip(fleet.bookies, "ABBACC", strict=True):
            fleet.set(fleet.bookies[name], {"rack": f"/{rack}"})
        with fleet.quiet():
            await fleet.begin("bookie-0", "bookie-1", "bookie-2")
            writer = await fleet.write(1)
            await asyncio.sleep(1)
            fleet.crash("bookie-1", "bookie-2")
            end = writer.append(b"entry")
            await asyncio.sleep(5)
            await fleet.start(*(f"bookie-{number}" for number in range(3, 3 + count)))
        await fleet.seen("entry", end)
        await asyncio.sleep(5)
        await _ended(fleet, writer)

    assert snapshot(extension_class=Words) == told(scenes, bookies=6)


def test_a_refusal_of_long_ago_is_forgotten(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        for seconds in (20, 80, 20):
            fleet.answers("bookie-1", Op.ADD_RUN, Status.READ_ONLY)
            await fleet.seen("entry", writer.append(b"refused"))
            await asyncio.sleep(seconds)

    assert snapshot(extension_class=Words) == told(scenes)


def test_striped_and_changed(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet, count=3, write_quorum=2, ack_quorum=2)
        fleet.network.lags[_member(writer, 0), CLIENT] = 0.6
        last = writer.append_many([b"%d" % number for number in range(6)])
        await asyncio.sleep(0.1)
        fleet.note("one is slow, one crashes: what the slow one lacks waits")
        fleet.crash(_member(writer, 2))
        await fleet.seen("acknowledged", writer.wait_acked(last))
        fleet.note("the new fragment")
        last = writer.append_many([b"%d" % number for number in range(4)])
        await fleet.seen("acknowledged", writer.wait_acked(last))
        await _ended(fleet, writer)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4, client=QUICK)


def test_a_member_fails_during_the_change(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        fleet.note("the store is slow: acks wait a second for the search, then go on")
        fleet.weather.latency_s = 4.0
        fleet.answers(_member(writer, 0), Op.ADD_RUN, Status.IO_ERROR)
        await fleet.seen("one", writer.append(b"one"))
        fleet.answers(_member(writer, 1), Op.ADD_RUN, Status.IO_ERROR)
        two = writer.append(b"two")
        await asyncio.sleep(0.5)
        fleet.note(f"missing while it looks: {writer._core.missing}")
        await fleet.seen("two", two)
        fleet.weather.latency_s = 0.0
        await asyncio.sleep(8)
        await fleet.seen("three", writer.append(b"three"))
        await _ended(fleet, writer)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_replacements_are_in_other_racks(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        for name, rack in zip(fleet.bookies, "AABBCA", strict=True):
            fleet.set(fleet.bookies[name], {"rack": f"/{rack}"})
        writer = await _begun(fleet)
        fleet.note(" ".join(writer.metadata.last_fragment.ensemble))
        for step in range(3):
            victim = writer.metadata.last_fragment.ensemble[step % 3]
            fleet.answers(victim, Op.ADD_RUN, Status.IO_ERROR)
            await fleet.seen("entry", writer.append(b"entry"))
            await asyncio.sleep(3 if step else 20)
        await _ended(fleet, writer)

    assert snapshot(extension_class=Words) == told(scenes, bookies=6)


def test_ensembles_of_new_ledgers(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        for name, rack in zip(fleet.bookies, "AAABBC", strict=True):
            fleet.set(fleet.bookies[name], {"rack": f"/{rack}"})
        await fleet.begin()
        with fleet.quiet():
            client = fleet.client()
            writer = await fleet.write(1, client=client, ensemble_size=6)
            fleet.answers("bookie-5", Op.ADD_RUN, Status.IO_ERROR)
            fleet.answers("bookie-0", Op.ADD_RUN, Status.READ_ONLY)
            await writer.append(b"fails on two")
        for seconds in (1, 26.6, 2):
            await asyncio.sleep(seconds)
            for size, quorum in ((2, 2), (4, 2), (4, 3), (5, 3), (6, 2), (7, 2)):
                with fleet.quiet():
                    made = (
                        await client.create_ledger(
                            ensemble_size=size, write_quorum=quorum, ack_quorum=1
                        )
                        if size < 7
                        else None
                    )
                if made is not None:
                    fleet.note(f"{size}/{quorum}: {' '.join(made.metadata.last_fragment.ensemble)}")
            asked = client.create_ledger(ensemble_size=7, write_quorum=2, ack_quorum=1)
            await fleet.seen("7", asked)

    assert snapshot(extension_class=Words) == told(scenes, bookies=6)


def test_no_write_set_in_one_rack(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        racks = dict(zip(fleet.bookies, "AABBCC", strict=True))
        for name, rack in racks.items():
            fleet.set(fleet.bookies[name], {"rack": f"/{rack}"})
        with fleet.quiet():
            await fleet.begin()
            client = fleet.client()
        for size in (3, 4, 5, 6) * 6:
            with fleet.quiet():
                made = await client.create_ledger(ensemble_size=size, write_quorum=2, ack_quorum=1)
            ensemble = made.metadata.last_fragment.ensemble
            fleet.note(f"{size}: {' '.join(ensemble)}: {' '.join(racks[one] for one in ensemble)}")

    assert snapshot(extension_class=Words) == told(scenes, bookies=6)


# The metadata store
@pytest.mark.parametrize("fault", ["lost", "late", "search", "write", "too_long"])
def test_the_write_of_a_change(fault: str, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        weather = fleet.weather
        weather.lost_replies = float(fault == "lost")
        weather.late_writes = float(fault == "late")
        weather.is_out = fault == "search"
        fleet.answers(_member(writer, 0), Op.ADD_RUN, Status.IO_ERROR)
        end = writer.append(b"entry")
        if fault in ("write", "too_long"):
            await fleet.until_soon(lambda: writer._core._change is not None)
            await fleet.until_soon(lambda: getattr(writer._core._change, "proposed", 1) is not None)
            weather.is_out = True
        await asyncio.sleep(15 if fault == "too_long" else 5)
        fleet.note(f"the fault ends; acknowledged: {end.done()}")
        weather.lost_replies, weather.late_writes, weather.is_out = 0.0, 0.0, False
        await fleet.seen("entry", end)
        await fleet.seen("more", _more(writer))
        await asyncio.sleep(6)
        await _ended(fleet, writer)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4, client=QUICK)


async def _more(writer: LedgerWriter) -> EntryId:
    return await writer.append(b"more")


async def _change(fleet: Fleet, writer: LedgerWriter, *, first: int, position: int) -> None:
    """Somebody else changes the fragments: the bookie that is free gets that position."""
    store = fleet.stores[CLIENT]
    found = await store.read_ledger(writer.ledger_id)
    ensemble = list(writer.metadata.last_fragment.ensemble)
    ensemble[position] = BookieId(next(name for name in fleet.bookies if name not in ensemble))
    fragment = Fragment(EntryId(first), tuple(ensemble))
    kept = tuple(one for one in found.value.fragments if one.first_entry_id < first)
    await store.write_ledger(found.value.with_fragments((*kept, fragment)), version=found.version)


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("first", [0, 1, 7], ids=["replaced", "at_our_start", "far_ahead"])
def test_somebody_else_has_changed_it(
    first: int, position: int, snapshot: SnapshotAssertion
) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        with fleet.quiet():
            await _change(fleet, writer, first=first, position=position)
        fleet.answers(_member(writer, 0), Op.ADD_RUN, Status.IO_ERROR)
        await fleet.seen("first", writer.append(b"first"))
        await fleet.seen("second", _more(writer))
        await asyncio.sleep(3)
        await _ended(fleet, writer)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4, client=QUICK)


@pytest.mark.parametrize("state", ["in_recovery", "closed", "deleted"])
def test_the_ledger_is_not_open_any_more(state: str, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        store = fleet.stores[CLIENT]
        with fleet.quiet():
            found = await store.read_ledger(writer.ledger_id)
            value = found.value.in_recovery()
            if state == "closed":
                value = value.closed(EntryId(0), length=7)
            if state == "deleted":
                await store.delete_ledger(writer.ledger_id)
            else:
                await store.write_ledger(value, version=found.version)
        fleet.answers(_member(writer, 0), Op.ADD_RUN, Status.IO_ERROR)
        await fleet.seen("first", writer.append(b"first"))
        await fleet.seen("second", _more(writer))
        await _ended(fleet, writer)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4, client=QUICK)


def test_a_recovery_comes_between(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet)
        fleet.crash(_member(writer, 0))
        ends = [writer.append(b"first"), writer.append(b"second")]
        work = fleet.spawn("other", _recovered(fleet, writer))
        for end in ends:
            await fleet.seen("entry", end)
        await fleet.seen("recovered", asyncio.shield(work))
        await _ended(fleet, writer)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4, client=QUICK)


async def _recovered(fleet: Fleet, writer: LedgerWriter) -> EntryId:
    reader = await fleet.client("other").recover_ledger(writer.ledger_id, password=b"secret")
    return reader.last_entry_id


def test_a_stall_ends_the_writer(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _begun(fleet, ack_quorum=3)
        fleet.note("one refuses again and again, the others take everything")
        fleet.answers("bookie-0", Op.ADD_RUN, Status.READ_ONLY, times=100)
        await fleet.seen("entry", writer.append(b"entry"))
        await fleet.seen("more", _more(writer))
        fleet.note("not when it got on in between")
        fleet.network.instead.clear()
        with fleet.quiet():
            writer = await fleet.write(1, ack_quorum=3)
        fleet.answers("bookie-0", Op.ADD_RUN, Status.READ_ONLY)
        await fleet.seen("entry", writer.append(b"entry"))
        fleet.answers("bookie-0", Op.ADD_RUN, Status.READ_ONLY)
        await fleet.seen("entry", writer.append(b"entry"))
        await _ended(fleet, writer)

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)
