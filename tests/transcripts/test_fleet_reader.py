"""Stories of readers: where they read, whom they ask, what they make of the answers."""

import asyncio
from dataclasses import replace

import pytest
from bookie.client.bookkeeper_client import ClientSettings
from bookie.client.pool_settings import PoolSettings
from bookie.client.reader import LedgerReader, ReaderSettings
from bookie.client.writer import LedgerWriter
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec
from bookie.frames.frame import FLAG_RECOVERY
from bookie.ids import NO_ENTRY, BookieId, EntryId
from bookie.protocol.ledger import Fragment
from bookie.protocol.status import Status
from bookie.wire.native import Op
from fleet_story import CLIENT, PASSWORD, Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

QUICK = ClientSettings(pool=PoolSettings(request_timeout_s=2.0, last_adds_s=0.5))


async def _written(fleet: Fleet, count: int = 6, **quorums: int) -> LedgerWriter:
    """A ledger with entries of their own runs, of which nothing is written down."""
    with fleet.quiet():
        await fleet.begin()
        writer = await fleet.write(0, **quorums)
        for number in range(count):
            await writer.append(b"entry %d" % number)
        await asyncio.sleep(1)
    return writer


async def _opened(fleet: Fleet, writer: LedgerWriter, **settings: int) -> LedgerReader:
    """A reader, and a connection to each member."""
    client = fleet.client(
        settings=ClientSettings(pool=QUICK.pool, reader=ReaderSettings(**settings))
    )
    with fleet.quiet():
        reader = await client.open_ledger(writer.ledger_id, password=PASSWORD)
        await reader.read_lac()
        await asyncio.sleep(0.1)
    return reader


async def _ids(reader: LedgerReader, first: int, last: int) -> list[str]:
    entries = await reader.read(EntryId(first), EntryId(last))
    return [f"{one.entry_id} {one.payload!r}" for one in entries]


def _said(fleet: Fleet, reader: LedgerReader) -> None:
    suspects = sorted(reader._suspects)
    fleet.note(f"suspects {suspects}, corrupt {list(reader.corrupt)}, last {reader.last_entry_id}")


def test_ranges_of_a_closed_ledger(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet)
        with fleet.quiet():
            await writer.close()
        reader = await _opened(fleet, writer)
        for first, last in ((0, 5), (0, 0), (5, 5), (2, 4), (3, 2), (0, 6), (5, 9), (6, 6), (9, 9)):
            await fleet.seen(f"{first}..{last}", _ids(reader, first, last))
        await fleet.seen("lac", reader.read_lac())

    assert snapshot(extension_class=Words) == told(scenes)


def test_ranges_of_an_open_ledger(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, count=3)
        client = fleet.client()
        reader = await client.open_ledger(writer.ledger_id, password=PASSWORD)
        await fleet.seen("0..2", _ids(reader, 0, 2))
        with fleet.quiet():
            await writer.append(b"the LAC of this one is not known yet")
        for first, last in ((0, 3), (3, 3), (1, 1)):
            await fleet.seen(f"{first}..{last}", _ids(reader, first, last))
        fleet.note("the idle writer has said it; a range within what is known asks for no LAC")
        with fleet.quiet():
            await asyncio.sleep(1)
        for first, last in ((3, 3), (0, 3), (4, 4)):
            await fleet.seen(f"{first}..{last}", _ids(reader, first, last))
        with fleet.quiet():
            await writer.append(b"another")
            await writer.close()
        await fleet.seen("closed meanwhile", _ids(reader, 0, 4))
        await fleet.seen("beyond", _ids(reader, 4, 5))

    assert snapshot(extension_class=Words) == told(scenes)


def test_long_ranges_in_parts(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, count=0, write_quorum=2)
        with fleet.quiet():
            for first in range(0, 20, 4):
                writer.append_many([b"entry %d" % n for n in range(first, first + 4)])
                await writer.wait_acked(EntryId(first + 3))
            writer.append_many([b"x" * 700, b"y" * 30, b"z" * 700, b"a", b"b" * 900, b"c", b"d"])
            await writer.close()
        fleet.note("by entries")
        reader = await _opened(fleet, writer, piece_entries=6, pieces_ahead=2)
        await fleet.seen("all", _ids(reader, 0, 19))
        fleet.note("by bytes of a request")
        reader = await _opened(fleet, writer, read_bytes=150)
        await fleet.seen("all", _ids(reader, 0, 9))
        fleet.note("by bytes of a piece: it ends early at twice as many")
        reader = await _opened(fleet, writer, piece_bytes=400, pieces_ahead=3)
        found = await reader.read(EntryId(14), EntryId(26))
        fleet.note(" ".join(f"{one.entry_id}:{len(one.payload)}" for one in found))
        fleet.note("given up in the middle: no piece is asked for any more")
        reader = await _opened(fleet, writer, piece_entries=3, pieces_ahead=1)
        async for entry in reader.stream(EntryId(0), EntryId(19)):
            if entry.entry_id == 4:
                break
        await asyncio.sleep(0.1)
        fleet.note("nor is one that is under way")
        reader = await _opened(fleet, writer, piece_entries=3, pieces_ahead=3)
        fleet.network.lags[writer.metadata.last_fragment.ensemble[0], CLIENT] = 0.3
        async for entry in reader.stream(EntryId(0), EntryId(19)):
            fleet.note(f"entry {entry.entry_id}")
            break
        await asyncio.sleep(2)

    assert snapshot(extension_class=Words) == told(scenes)


def test_a_lac_does_not_wait_for_the_slow(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, count=2)
        reader = await _opened(fleet, writer)
        for slow in range(1, 4):
            fleet.network.lags[writer.metadata.last_fragment.ensemble[slow - 1], CLIENT] = 0.3
            await fleet.seen(f"{slow} slow", reader.read_lac())
            await asyncio.sleep(1)

    assert snapshot(extension_class=Words) == told(scenes)


def test_the_size_of_pieces_of_an_open_ledger(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, count=12)
        fleet.note("guessed: an entry at a time; then by what was read")
        reader = await _opened(fleet, writer, piece_bytes=16 * 1024 + 64)
        for last in (1, 5):
            await fleet.seen(f"0..{last}", _ids(reader, 0, last))
        reader = await _opened(fleet, writer, piece_bytes=200)
        await fleet.seen("0..3", _ids(reader, 0, 3))
        await fleet.seen("4..10", _ids(reader, 4, 10))

    assert snapshot(extension_class=Words) == told(scenes)


TOLD = [
    Status.NO_SUCH_LEDGER, Status.NO_SUCH_ENTRY, Status.UNAUTHORIZED, Status.UNKNOWN,
    Status.UNREACHABLE,
]  # fmt: skip


def _members_say(status: Status) -> str:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, count=2)
        reader = await _opened(fleet, writer)
        members = writer.metadata.last_fragment.ensemble
        said = None if status is Status.UNREACHABLE else status
        for count in (1, 2, 3):
            for name in (members[1], members[2], members[0])[:count]:
                fleet.answers(name, Op.READ, said)
            await fleet.seen(f"{count} say it", _ids(reader, 0, 1))
            _said(fleet, reader)
        await fleet.seen("none says it", _ids(reader, 0, 1))
        _said(fleet, reader)
        fleet.note("of the LAC, one, two, all")
        for count in (1, 2, 3):
            for name in members[:count]:
                fleet.answers(name, Op.READ_LAC, said)
            await fleet.seen(f"{count} say it", reader.read_lac())

    return told(scenes, client=QUICK)


@pytest.mark.parametrize("status", TOLD, ids=lambda one: one.name.lower())
def test_a_member_says_it(status: Status, snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == _members_say(status)


def test_all_other_answers_leave_it_open() -> None:
    others = set(Status) - {Status.OK, *TOLD}
    texts = {_members_say(one).replace(one.name, Status.UNKNOWN.name) for one in others}
    assert texts == {_members_say(Status.UNKNOWN)} and len(others) == 6


@pytest.mark.parametrize("ack", [1, 2])
def test_a_lac_of_a_striped_ledger(ack: int, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, ensemble_size=4, write_quorum=2, ack_quorum=ack)
        reader = await _opened(fleet, writer)
        members = writer.metadata.last_fragment.ensemble
        for silent in ((0,), (0, 1), (0, 2), (0, 1, 2), (0, 1, 2, 3)):
            for at in silent:
                fleet.answers(members[at], Op.READ_LAC, Status.UNKNOWN)
            await fleet.seen(f"without {silent}", reader.read_lac())

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


@pytest.mark.parametrize("forged", [(1,), (1, 2), (0, 1, 2)], ids=["one", "two", "all"])
def test_copies_whose_digest_is_wrong(forged: tuple[int, ...], snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, count=2)
        members = writer.metadata.last_fragment.ensemble
        with fleet.quiet():
            for at in forged:
                fleet.network.forging[members[at]] = 1.0
            await writer.append(b"forged")
            fleet.network.forging.clear()
            await writer.append(b"not forged")
            await asyncio.sleep(1)
        reader = await _opened(fleet, writer)
        await fleet.seen("all", _ids(reader, 0, 3))
        _said(fleet, reader)
        await fleet.seen("forged", _ids(reader, 2, 2))
        await fleet.seen("behind", _ids(reader, 3, 3))
        _said(fleet, reader)
        fleet.note("and the others have not answered")
        for at in set(range(3)) - set(forged):
            fleet.answers(members[at], Op.READ, None)
        await fleet.seen("forged", _ids(reader, 2, 2))

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)


def test_a_limbo_bookie_does_not_know(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet)
        members = writer.metadata.last_fragment.ensemble
        for count, name in enumerate((members[1], members[2], members[0]), 1):
            with fleet.quiet():
                fleet.crash(name)
                await fleet.start(name)
                await asyncio.sleep(3)
            fleet.note(f"{count} have forgotten")
            if count < 3:
                reader = await _opened(fleet, writer)
            await fleet.seen("read", _ids(reader, 0, 5))
            _said(fleet, reader)
            await fleet.seen("lac", reader.read_lac())

    assert snapshot(extension_class=Words) == told(scenes)


def test_several_fragments(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, count=2)
        reader = await _opened(fleet, writer)
        with fleet.quiet():
            for number in range(3):
                fleet.answers(
                    writer.metadata.last_fragment.ensemble[number], Op.ADD_RUN, Status.IO_ERROR
                )
                await writer.append(b"changes %d" % number)
                await asyncio.sleep(40)
                await writer.append(b"stays %d" % number)
        fleet.note(str([one.first_entry_id for one in writer.metadata.fragments]))
        await fleet.seen("all", _ids(reader, 0, 6))
        await fleet.seen("a part", _ids(reader, 1, 3))

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


async def _moved(fleet: Fleet, reader: LedgerReader, new: tuple[BookieId, ...]) -> None:
    """Somebody copies the ledger to other bookies, and says so in its metadata."""
    entries = await reader.read(EntryId(0), reader.last_entry_id)
    payloads = [one.payload for one in entries]
    codec = EntryCodec(reader.ledger_id, DigestType.CRC32C, PASSWORD)
    heads = codec.heads(EntryId(0), payloads, lac=NO_ENTRY, length_before=0)
    frame = build_run(
        reader.ledger_id, EntryId(0), payloads, heads=heads, lac=NO_ENTRY, flags=FLAG_RECOVERY
    )
    for name in new:
        done: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        reader._peers.add_run(name, master_key=reader._key, frame=frame, on_reply=done.set_result)
        assert await done is Status.OK
    held = fleet.cluster.ledgers[reader.ledger_id]
    moved = held.value.with_fragments((Fragment(EntryId(0), new),))
    await fleet.stores[CLIENT].write_ledger(moved, version=held.version)


def test_fragments_that_change_while_it_reads(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, count=3)
        reader = await _opened(fleet, writer)
        old = writer.metadata.last_fragment.ensemble
        new = tuple(BookieId(name) for name in fleet.bookies if name not in old)
        with fleet.quiet():
            await writer.close()
            await reader.refresh()
            await _moved(fleet, reader, new)
        fleet.note("all is moved; the old members deny it")
        for name in old:
            fleet.answers(name, Op.READ, Status.NO_SUCH_LEDGER)
        await fleet.seen("all", _ids(reader, 0, 2))
        fleet.note("moved and lost: the error counts with the newest fragments")
        for name in new:
            fleet.answers(name, Op.READ, Status.NO_SUCH_ENTRY)
        await fleet.seen("all", _ids(reader, 0, 2))

    assert snapshot(extension_class=Words) == told(scenes, bookies=6)


def test_a_close_that_lost_something(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet)
        reader = await _opened(fleet, writer)
        held = fleet.cluster.ledgers[writer.ledger_id]
        value = held.value.in_recovery().closed(EntryId(2), length=21)
        await fleet.stores[CLIENT].write_ledger(value, version=held.version)
        await fleet.seen("lac", reader.read_lac())
        await fleet.seen("0..2", _ids(reader, 0, 2))
        await fleet.seen("0..3", _ids(reader, 0, 3))

    assert snapshot(extension_class=Words) == told(scenes)


def test_wrong_passwords(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet)
        client = fleet.client()
        await fleet.seen("none", client.open_ledger(writer.ledger_id))
        await fleet.seen("wrong", client.open_ledger(writer.ledger_id, password=b"other"))
        await fleet.seen("recovery", client.recover_ledger(writer.ledger_id, password=b"other"))
        fleet.note("the metadata does not say it: bookies do")
        held = fleet.cluster.ledgers[writer.ledger_id]
        held = replace(held, value=replace(held.value, password=b"", password_is_stored=False))
        fleet.cluster.ledgers[writer.ledger_id] = held
        reader = await client.open_ledger(writer.ledger_id, password=b"other")
        await fleet.seen("lac", reader.read_lac())
        await fleet.seen("recovery", client.recover_ledger(writer.ledger_id, password=b"other"))
        await fleet.seen("deleted", client.delete_ledger(writer.ledger_id))
        await fleet.seen("again", client.delete_ledger(writer.ledger_id))
        await fleet.seen("opened", client.open_ledger(writer.ledger_id, password=PASSWORD))

    assert snapshot(extension_class=Words) == told(scenes)


def test_a_tail(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, count=2)
        client = fleet.client(settings=replace(QUICK, reader=ReaderSettings(poll_ms=800)))
        with fleet.quiet():
            reader = await client.open_ledger(writer.ledger_id, password=PASSWORD)
        work = asyncio.ensure_future(_followed(fleet, reader, 1))
        await asyncio.sleep(2)
        fleet.note("an entry, of which only the explicit LAC tells")
        with fleet.quiet():
            await writer.append(b"two")
        await asyncio.sleep(1)
        fleet.note("two more, the first is told of by the second")
        for payload in (b"three", b"four"):
            with fleet.quiet():
                await writer.append(payload)
        await asyncio.sleep(1)
        fleet.note("the ensemble changes")
        with fleet.quiet():
            fleet.answers(writer.metadata.last_fragment.ensemble[0], Op.ADD_RUN, Status.IO_ERROR)
            await writer.append(b"five")
        await asyncio.sleep(1.5)
        fleet.note("closed with an entry that nobody has told of")
        with fleet.quiet():
            await writer.append(b"six")
            await writer.close()
        await fleet.seen("the tail", work)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


async def _followed(fleet: Fleet, reader: LedgerReader, first: int) -> EntryId:
    async for entry in reader.tail(EntryId(first)):
        fleet.note(f"entry {entry.entry_id} {entry.payload!r}")
    return reader.last_entry_id


def test_a_tail_of_what_is_recovered(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, count=1)
        client = fleet.client(settings=QUICK)
        reader = await client.open_ledger(writer.ledger_id, password=PASSWORD)
        work = asyncio.ensure_future(_followed(fleet, reader, 0))
        with fleet.quiet():
            await asyncio.sleep(1)
            writer.abandon()
            held = fleet.cluster.ledgers[writer.ledger_id]
            value = held.value.in_recovery()
            await fleet.stores[CLIENT].write_ledger(value, version=held.version)
        fleet.note("in recovery, then all members do not know, then it is closed")
        for name in fleet.bookies:
            fleet.answers(name, Op.WAIT_LAC, Status.UNKNOWN, times=2)
        await asyncio.sleep(1.5)
        await fleet.spawn("other", _recovered(fleet, writer))
        await fleet.seen("the tail", work)

    assert snapshot(extension_class=Words) == told(scenes)


async def _recovered(fleet: Fleet, writer: LedgerWriter) -> EntryId:
    reader = await fleet.client("other").recover_ledger(writer.ledger_id, password=PASSWORD)
    return reader.last_entry_id


def test_a_tail_that_cannot_go_on(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, count=2)
        client = fleet.client(settings=QUICK)
        reader = await client.open_ledger(writer.ledger_id, password=PASSWORD)
        with fleet.quiet():
            await reader.read_lac()
        fleet.note("the bookies are away: it cannot be decided")
        for name in fleet.bookies:
            fleet.network.block(name, CLIENT)
        await fleet.seen("the tail", _followed(fleet, reader, 0))
        fleet.note("they are back; deleted under it")
        for name in fleet.bookies:
            fleet.network.unblock(name, CLIENT)
        work = asyncio.ensure_future(_followed(fleet, reader, 0))
        await asyncio.sleep(3)
        with fleet.quiet():
            await client.delete_ledger(writer.ledger_id)
        await fleet.seen("the tail", work)

    assert snapshot(extension_class=Words) == told(scenes)
