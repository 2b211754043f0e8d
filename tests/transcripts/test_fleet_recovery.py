"""Stories of recoveries: what they find, whom they ask, what they write back, and who is first."""

import asyncio
from collections.abc import Sequence

import pytest
from bookie.client.bookkeeper_client import ClientSettings
from bookie.client.pool_settings import PoolSettings
from bookie.client.recovery import RecoverySettings, accepted_loss, recover
from bookie.client.writer import LedgerWriter, WriterSettings
from bookie.errors import BookieError
from bookie.ids import BookieId, EntryId
from bookie.protocol.batches import WriterLimits
from bookie.protocol.ledger import Fragment
from bookie.protocol.status import Status
from bookie.wire.native import Op
from fleet_story import CLIENT, PASSWORD, Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

QUICK = ClientSettings(
    recovery=RecoverySettings(attempts=2),
    pool=PoolSettings(request_timeout_s=2.0, last_adds_s=0.5),
)


async def _written(fleet: Fleet, count: int = 3, **quorums: int) -> LedgerWriter:
    """An open ledger with entries of their own runs, and of a writer that is gone."""
    with fleet.quiet():
        await fleet.begin()
        writer = await fleet.write(0, **quorums)
        for number in range(count):
            await writer.append(b"entry %d" % number)
        await asyncio.sleep(0.1)
    return writer


def _members(writer: LedgerWriter) -> Sequence[BookieId]:
    return writer.metadata.last_fragment.ensemble


async def _only_on(fleet: Fleet, writer: LedgerWriter, names: Sequence[str], count: int) -> None:
    """Entries that reach these members alone; they are acknowledged if those are enough."""
    with fleet.quiet():
        others = [name for name in _members(writer) if name not in names]
        for name in others:
            fleet.network.block(name, CLIENT)
        for number in range(count):
            writer.append(b"rest %d" % number)
            await asyncio.sleep(0.05)
        writer.abandon()
        for name in others:
            fleet.network.unblock(name, CLIENT)
            fleet.network.reset(name)
        await asyncio.sleep(0.1)


async def _recover(fleet: Fleet, writer: LedgerWriter, what: str = "recovered") -> None:
    """By a client of its own; nobody else's connections are in its way."""
    await fleet.seen(what, asyncio.shield(fleet.spawn(f"by-{what}", _work(fleet, writer, what))))


async def _work(fleet: Fleet, writer: LedgerWriter, what: str) -> str:
    client = fleet.client(f"by-{what}")
    try:
        done = await recover(
            client._store, client._peers, writer.ledger_id, password=PASSWORD,
            settings=client._settings.recovery,
        )  # fmt: skip
    except BookieError as error:
        for note in getattr(error, "__notes__", ()):
            fleet.note(note)
        raise
    return (
        f"at {done.metadata.value.last_entry_id}, v{done.metadata.version}, adopted {done.adopted},"
        f" {done.recovered} written back, attempts {done.attempts}, corrupt {list(done.corrupt)},"
        f" missing {[one.entry_id for one in done.missing]}"
    )


async def _end(fleet: Fleet) -> None:
    await asyncio.sleep(0.1)
    fleet.say_ledgers()


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("rest", [0, 2])
def test_open_ledgers(count: int, rest: int, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, count)
        await _only_on(fleet, writer, _members(writer)[:1], rest)
        await _recover(fleet, writer)
        fleet.note("again: it only reads the metadata")
        await _recover(fleet, writer, "again")
        await _end(fleet)

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_a_striped_ledger(position: int, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 5, ensemble_size=4, write_quorum=2, ack_quorum=2)
        with fleet.quiet():
            for name in fleet.bookies:
                if name != _members(writer)[position]:
                    fleet.network.lags[name, CLIENT] = 5.0
            writer.append_many([b"rest %d" % number for number in range(6)])
            await asyncio.sleep(0.1)
            writer.abandon()
        fleet.note(f"one of four is away: {_members(writer)[position]}")
        fleet.network.isolate(_members(writer)[position])
        await _recover(fleet, writer)
        await _end(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4, client=QUICK)


@pytest.mark.parametrize("away", [(0, 2), (0, 1)], ids=["opposite", "beside"])
def test_too_few_for_a_fence(away: tuple[int, int], snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 3, ensemble_size=4, write_quorum=2, ack_quorum=2)
        writer.abandon()
        for at in away:
            fleet.answers(_members(writer)[at], Op.READ_LAC, Status.NOT_READY, times=2)
        await _recover(fleet, writer)
        fleet.note("again, when they are there")
        await _recover(fleet, writer, "again")
        await _end(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4, client=QUICK)


TOLD = [
    Status.NO_SUCH_LEDGER, Status.NO_SUCH_ENTRY, Status.UNKNOWN, Status.UNAUTHORIZED,
    Status.UNREACHABLE, Status.IO_ERROR,
]  # fmt: skip


def _fencing_read_says(status: Status) -> str:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 1)
        writer.abandon()
        said = None if status is Status.UNREACHABLE else status
        for count in (2, 3):
            for name in _members(writer)[:count]:
                fleet.answers(name, Op.READ_LAC, said, times=1)
            await _recover(fleet, writer, f"{count}")
            if count == 2:
                held = fleet.cluster.ledgers[writer.ledger_id].value
                fleet.note(f"{held.state.name} {held.last_entry_id}")
                with fleet.quiet():
                    writer = await fleet.write(1)
                writer.abandon()
        held = fleet.cluster.ledgers[writer.ledger_id].value
        fleet.note(f"{held.state.name} {held.last_entry_id}")

    once = ClientSettings(recovery=RecoverySettings(attempts=1), pool=QUICK.pool)
    return told(scenes, client=once)


@pytest.mark.parametrize("status", TOLD, ids=lambda one: one.name.lower())
def test_a_fencing_read_says_it(status: Status, snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == _fencing_read_says(status)


def test_all_other_answers_to_a_fence_do_not_count() -> None:
    others = set(Status) - {Status.OK, *TOLD}
    texts = {_fencing_read_says(one).replace(one.name, Status.IO_ERROR.name) for one in others}
    assert texts == {_fencing_read_says(Status.IO_ERROR)} and len(others) == 5


HOLDERS = {"none": (), "one": (0,), "two": (0, 1)}


def _recovery_read_says(status: Status, held_by: str) -> str:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 1)
        await _only_on(fleet, writer, [_members(writer)[at] for at in HOLDERS[held_by]], 1)
        said = None if status is Status.UNREACHABLE else status
        fleet.answers(_members(writer)[0], Op.READ, said)
        fleet.answers(_members(writer)[2], Op.READ, said)
        await _recover(fleet, writer)
        await _end(fleet)

    return told(scenes, client=QUICK)


@pytest.mark.parametrize("held_by", HOLDERS)
@pytest.mark.parametrize(
    "status",
    [Status.NO_SUCH_ENTRY, Status.UNKNOWN, Status.UNREACHABLE],
    ids=lambda one: one.name.lower(),
)
def test_a_recovery_read_says_it(status: Status, held_by: str, snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == _recovery_read_says(status, held_by)


def test_all_other_answers_to_a_recovery_read_leave_it_open() -> None:
    none = {Status.OK, Status.UNKNOWN, Status.UNREACHABLE, Status.NO_SUCH_ENTRY}
    others = set(Status) - {*none, Status.NO_SUCH_LEDGER}
    for held_by in HOLDERS:
        texts = {
            _recovery_read_says(one, held_by).replace(one.name, Status.UNKNOWN.name)
            for one in others
        }
        assert texts == {_recovery_read_says(Status.UNKNOWN, held_by)} and len(others) == 7
        ledger = _recovery_read_says(Status.NO_SUCH_LEDGER, held_by)
        entry = _recovery_read_says(Status.NO_SUCH_ENTRY, held_by)
        assert ledger.replace("NO_SUCH_LEDGER", "NO_SUCH_ENTRY") == entry


def test_members_in_limbo(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        for count in (1, 2, 3):
            fleet.note(f"{count} have forgotten")
            writer = await _written(fleet, 2)
            await _only_on(fleet, writer, _members(writer)[2:], 1)
            with fleet.quiet():
                for name in _members(writer)[:count]:
                    fleet.crash(name)
                    await fleet.start(name)
            await _recover(fleet, writer, f"after {count}")
        await _end(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=3, client=QUICK)


WRITES = [Status.FENCED, Status.READ_ONLY, Status.UNREACHABLE]


@pytest.mark.parametrize("free", [0, 1])
@pytest.mark.parametrize("status", WRITES, ids=lambda one: one.name.lower())
def test_a_write_back_is_refused(status: Status, free: int, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 1)
        await _only_on(fleet, writer, _members(writer)[:1], 2)
        said = None if status is Status.UNREACHABLE else status
        for name in _members(writer)[:2]:
            fleet.answers(name, Op.ADD_RUN, said)
        await _recover(fleet, writer)
        await _end(fleet)

    text = told(scenes, bookies=3 + free, client=QUICK)
    assert snapshot(extension_class=Words) == text


def test_two_members_are_replaced_one_after_the_other(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 2, write_quorum=2, ack_quorum=2)
        with fleet.quiet():
            for name in _members(writer):
                fleet.network.lags[name, CLIENT] = 5.0
            writer.append_many([b"rest %d" % number for number in range(5)])
            await asyncio.sleep(0.1)
            writer.abandon()
        fleet.answers(_members(writer)[0], Op.ADD_RUN, Status.READ_ONLY, times=2)
        fleet.answers(_members(writer)[1], Op.ADD_RUN, Status.READ_ONLY, times=2)
        await _recover(fleet, writer)
        await _end(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5, client=QUICK)


@pytest.mark.parametrize("forged", [(0,), (0, 1), (0, 1, 2)], ids=["one", "two", "all"])
def test_copies_whose_digest_is_wrong(forged: tuple[int, ...], snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 1)
        with fleet.quiet():
            for at in forged:
                fleet.network.forging[_members(writer)[at]] = 1.0
            await writer.wait_acked(writer.append_many([b"before", b"forged", b"behind"]))
            fleet.network.forging.clear()
            await asyncio.sleep(0.1)
        writer.abandon()
        await _recover(fleet, writer)
        await _end(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4, client=QUICK)


def test_a_long_rest_in_windows(snapshot: SnapshotAssertion) -> None:
    small = ClientSettings(
        writer=WriterSettings(limits=WriterLimits(gather_batches=50, in_flight_batches=50)),
        recovery=RecoverySettings(window=4, read_bytes=200),
        pool=QUICK.pool,
    )

    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 1)
        await _only_on(fleet, writer, _members(writer)[1:2], 10)
        await _recover(fleet, writer)
        fleet.note("two hold it all")
        with fleet.quiet():
            writer = await fleet.write(1)
        await _only_on(fleet, writer, _members(writer)[1:], 10)
        await _recover(fleet, writer, "held by two")
        await _end(fleet)

    assert snapshot(extension_class=Words) == told(scenes, client=small)


def test_a_loss_that_the_last_to_answer_proves(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 6, ensemble_size=4, write_quorum=2, ack_quorum=2)
        first, second, slow, _fourth = _members(writer)
        with fleet.quiet():
            writer.abandon()
            for name in (first, second):
                fleet.crash(name)
                await fleet.start(name)
        fleet.note("entry 4 is forgotten by both; the slow one has entry 5, which proves it")
        fleet.network.lags[slow, "by-recovered"] = 0.5
        await _recover(fleet, writer)
        await _end(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4, client=QUICK)


def test_several_fragments(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 2)
        with fleet.quiet():
            fleet.answers(_members(writer)[0], Op.ADD_RUN, Status.IO_ERROR)
            await writer.append(b"changes")
            await asyncio.sleep(0.1)
        await _only_on(fleet, writer, _members(writer)[:1], 1)
        fleet.note("the last fragment alone is asked")
        await _recover(fleet, writer)
        with fleet.quiet():
            writer = await fleet.write(2)
            fleet.answers(_members(writer)[2], Op.ADD_RUN, Status.IO_ERROR)
            await writer.append(b"changes behind it")
            await asyncio.sleep(0.1)
            writer.abandon()
        fleet.note("the last fragment is empty: the length is of the one before")
        fleet.note(str([one.first_entry_id for one in writer.metadata.fragments]))
        await _recover(fleet, writer, "empty")
        await _end(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4, client=QUICK)


# Others
def test_two_recoverers_at_once(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 1)
        await _only_on(fleet, writer, _members(writer)[:1], 1)
        await asyncio.gather(*(_recover(fleet, writer, name) for name in ("one", "two")))
        await _end(fleet)

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)


def _put(fleet: Fleet, writer: LedgerWriter, how: str) -> None:
    """Somebody else writes the metadata."""
    held = fleet.cluster.ledgers[writer.ledger_id]
    value = held.value
    if how == "closed_too":
        value = value.closed(EntryId(1), length=13)
    if how == "closed_before":
        value = value.closed(EntryId(0), length=7)
    if how == "other_fragments":
        ensemble = (*_members(writer)[:2], BookieId("bookie-9"))
        value = value.with_fragments((Fragment(EntryId(0), ensemble),))
    store = fleet.stores[CLIENT]
    if how == "deleted":
        fleet.spawn(CLIENT, store.delete_ledger(writer.ledger_id))
    else:
        fleet.spawn(CLIENT, store.write_ledger(value, version=held.version))


HOWS = ["the_same", "closed_too", "closed_before", "other_fragments", "deleted"]


@pytest.mark.parametrize("how", HOWS)
def test_the_close_loses(how: str, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 1)
        await _only_on(fleet, writer, _members(writer)[:1], 1)
        work = asyncio.ensure_future(_recover(fleet, writer))
        ledgers = fleet.cluster.ledgers
        await fleet.until_soon(lambda: ledgers[writer.ledger_id].version == 1)
        _put(fleet, writer, how)
        await work
        await _end(fleet)

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)


@pytest.mark.parametrize("how", ["the_same", "other_fragments", "deleted"])
def test_the_mark_loses(how: str, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 1)
        writer.abandon()
        fleet.process("by-recovered")
        store = fleet.stores["by-recovered"]
        asked: list[str] = []
        store.before_call = asked.append
        work = asyncio.ensure_future(_recover(fleet, writer))
        await fleet.until_soon(lambda: len(asked) > 2)
        _put(fleet, writer, how)
        await work
        await _end(fleet)

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)


@pytest.mark.parametrize("fault", ["lost", "late", "out"])
@pytest.mark.parametrize("write", ["mark", "close"])
def test_a_write_whose_outcome_is_unknown(
    write: str, fault: str, snapshot: SnapshotAssertion
) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 1)
        writer.abandon()
        work = asyncio.ensure_future(_recover(fleet, writer))
        ledgers = fleet.cluster.ledgers
        await fleet.until_soon(lambda: write == "mark" or ledgers[writer.ledger_id].version == 1)
        fleet.weather.lost_replies = float(fault == "lost")
        fleet.weather.late_writes = float(fault == "late")
        await asyncio.sleep(0.0035 if write == "mark" else 0.006)
        fleet.weather.is_out = fault == "out"
        await asyncio.sleep(4)
        fleet.weather.lost_replies = fleet.weather.late_writes = 0.0
        fleet.weather.is_out = False
        await work
        await asyncio.sleep(6)
        await _end(fleet)

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("is_away", [False, True], ids=["there", "away"])
def test_a_loss_is_accepted(at: int, is_away: bool, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 1)
        await _only_on(fleet, writer, (), 0)
        with fleet.quiet():
            for name in _members(writer)[:2]:
                fleet.crash(name)
                await fleet.start(name)
            if is_away:
                fleet.network.isolate(_members(writer)[1])
        await fleet.seen("accepted", asyncio.shield(fleet.spawn("it", _accept(fleet, writer, at))))
        await fleet.seen("again", asyncio.shield(fleet.spawn("it", _accept(fleet, writer, at))))
        await _end(fleet)

    assert snapshot(extension_class=Words) == told(scenes, client=QUICK)


async def _accept(fleet: Fleet, writer: LedgerWriter, at: int) -> str:
    client = fleet.client("it")
    loss = accepted_loss(EntryId(at), by="somebody", reason="it is old", at_ms=1)
    done = await recover(
        client._store, client._peers, writer.ledger_id, password=PASSWORD, accepted_loss=loss,
        settings=client._settings.recovery,
    )  # fmt: skip
    return f"{done.metadata.value.last_entry_id} {dict(done.metadata.value.custom)}"


def test_attempts_and_the_pauses_between(snapshot: SnapshotAssertion) -> None:
    many = ClientSettings(
        recovery=RecoverySettings(attempts=8, backoff_s=0.3, backoff_max_s=1.0), pool=QUICK.pool
    )

    async def scenes(fleet: Fleet) -> None:
        writer = await _written(fleet, 1)
        writer.abandon()
        for name in _members(writer)[:2]:
            fleet.answers(name, Op.READ_LAC, Status.NOT_READY, times=5)
        await _recover(fleet, writer)
        fleet.note("none is there")
        with fleet.quiet():
            writer = await fleet.write(1)
        writer.abandon()
        for name in _members(writer):
            fleet.answers(name, Op.READ_LAC, Status.NOT_READY, times=20)
        await _recover(fleet, writer, "not at all")

    assert snapshot(extension_class=Words) == told(scenes, client=many)
