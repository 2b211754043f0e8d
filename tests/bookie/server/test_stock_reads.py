"""What stock clients read and learn: entries, fences, limbo, LACs, long polls, lists, disks."""

import asyncio
import random

import pytest
from bookie.frames.build import build_run
from bookie.frames.frame import CONSECUTIVE, Pattern
from bookie.ids import ENTRY_ID_MAX, NO_ENTRY, EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.protocol.status import Status
from bookie.server.disk_reads import READS_PER_CONNECTION_MAX
from bookie.server.stock_reads import (
    GAP_MAX,
    READS_TOGETHER_MAX,
    FoundEntries,
    ReadGather,
)
from bookie.wire.native import ReadReply
from bookie.wire.stock.messages import Outcome, Read
from server_lab import ME, ServerLab
from stock_client import NEVER, StockLab, V2Client, V3Client, entry, lac_body

OK, UNKNOWN = Outcome.OK, Outcome.UNKNOWN_LEDGER_STATE


async def ledger_of(stock: StockLab, count: int, *, lac: int = -1) -> int:
    ledger = await stock.server.ledger()
    assert await stock.server.add(ledger, 0, count, lac=lac) is Status.OK
    return ledger


# ---- entries ------------------------------------------------------------------------------------


async def test_entries_come_back_verbatim_and_absent_ones_are_denied(stock: StockLab) -> None:
    ledger = await ledger_of(stock, 5)
    answers = await stock.ask(*[stock.frames.read(ledger, i) for i in range(7)])
    assert {a.entry_id: a.body for a in answers if a.outcome is OK} == {
        i: entry(ledger, i) for i in range(5)
    }
    assert {a.entry_id for a in answers if a.outcome is Outcome.NO_ENTRY} == {5, 6}
    assert (await stock.ask(stock.frames.read(99, 0)))[0].outcome is Outcome.NO_LEDGER


async def test_an_id_beyond_the_largest_one_is_denied_beside_others(stock: StockLab) -> None:
    ledger = await ledger_of(stock, 1)
    wanted = [0, ENTRY_ID_MAX - 1, ENTRY_ID_MAX, ENTRY_ID_MAX + 1]
    answers = await stock.ask(*[stock.frames.read(ledger, i) for i in wanted])
    assert {a.entry_id: a.outcome for a in answers} == {
        i: Outcome.NO_ENTRY if i else OK for i in wanted
    }


async def test_reads_of_one_write_are_one_read_of_the_storage(stock: StockLab) -> None:
    ledger = await ledger_of(stock, 200)
    await stock.ask(*[stock.frames.read(ledger, i) for i in range(0, 200, 2)])
    assert stock.server.traffic.reads == 1


async def test_reads_at_random_are_all_answered(stock: StockLab) -> None:
    ledger = await ledger_of(stock, 200)
    ids = [i * 37 % 200 for i in range(8 * READS_PER_CONNECTION_MAX)]
    answers = await stock.ask(*[stock.frames.read(ledger, i) for i in ids])
    assert {a.body for a in answers} == {entry(ledger, i) for i in ids}


async def test_more_than_one_reply_holds_is_read_on(stock: StockLab) -> None:
    ledger = await stock.server.ledger()
    client, payload = await stock.client(), bytes(400_000)
    for i in range(14):
        await client.ask(stock.frames.add(ledger, i, payload=payload))
    answers = await client.ask(*[stock.frames.read(ledger, i) for i in range(14)])
    assert sorted(a.entry_id for a in answers) == list(range(14))
    assert stock.server.traffic.reads > 1


async def hold_run(
    stock: StockLab, ledger: int, first: int, count: int, pattern: Pattern, payload: bytes
) -> set[int]:
    """The ids of the run."""
    ids = [pattern.id_at(first, number) for number in range(count)]
    bodies = [entry(ledger, i, payload=payload) for i in ids]
    run = build_run(LedgerId(ledger), EntryId(first), bodies, lac=NO_ENTRY, pattern=pattern)
    assert await stock.server.send(bytes(run)) is Status.OK
    return set(ids)


@pytest.mark.parametrize("shares", [2, 3, 4])
async def test_of_shares_between_each_other_nothing_is_denied_that_one_reply_has_no_room_for(
    stock: StockLab, shares: int
) -> None:
    ledger, ids, payload = await stock.server.ledger(), range(4 * shares), bytes(400_000)
    for first in range(shares):
        await hold_run(stock, ledger, first, 4, Pattern(1, shares), payload)
    answers = await stock.ask(*[stock.frames.read(ledger, i) for i in ids])
    assert {a.outcome for a in answers} == {OK}
    assert sorted(a.entry_id for a in answers) == [*ids]


@pytest.mark.parametrize("seed", range(15))
async def test_however_runs_lie_across_each_other_each_read_is_answered_as_if_it_were_alone(
    stock: StockLab, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    for module in ("disk_reads", "stock_reading"):
        monkeypatch.setattr(f"bookie.server.{module}.READ_BYTES_MAX", 1500)
    rng, ledger, held = random.Random(seed), await stock.server.ledger(), set[int]()
    for _ in range(8):
        pattern = rng.choice((CONSECUTIVE, Pattern(1, 3), Pattern(2, 3), Pattern(2, 5)))
        run = rng.randrange(40), rng.randrange(1, 8), pattern
        held |= await hold_run(stock, ledger, *run, bytes(100))
    for _ in range(3):
        ids = sorted(rng.choices(range(60), k=rng.randrange(1, 60)))
        answers = await stock.ask(*[stock.frames.read(ledger, i) for i in ids])
        assert sorted(a.entry_id for a in answers) == ids
        assert {a.entry_id for a in answers if a.outcome is OK} == held.intersection(ids)
        assert {a.outcome for a in answers} <= {OK, Outcome.NO_ENTRY}


async def test_the_last_entry_is_asked_for_as_minus_one(stock: StockLab) -> None:
    ledger = await ledger_of(stock, 5)
    [found] = await stock.ask(stock.frames.read(ledger, -1))
    assert (found.entry_id, found.body) == (-1, entry(ledger, 4))


async def test_a_batch_is_consecutive_entries_that_fit(server: ServerLab) -> None:
    stock = StockLab(server, V2Client)
    ledger = await ledger_of(stock, 5)
    make = stock.frames.batch
    small = 36 + 2 * (4 + len(entry(ledger, 0)))
    asked = [make(ledger, 1), make(ledger, 1, count=2), make(ledger, 1, size=small)]
    answers = await stock.ask(*asked, make(ledger, 1, size=0), make(ledger, 9))
    assert sorted(len(answer.entries) for answer in answers) == [0, 1, 2, 2, 4]
    whole = max((answer.entries for answer in answers), key=len)
    assert whole == tuple(entry(ledger, i) for i in range(1, 5))
    assert {a.outcome for a in answers if not a.entries} == {Outcome.NO_ENTRY}
    await stock.close()


async def test_a_batch_of_small_entries_is_as_long_as_its_answer_has_room(
    server: ServerLab,
) -> None:
    stock = StockLab(server, V2Client)
    ledger = await stock.server.ledger()
    client = await stock.client()
    for i in range(10):  # each is a run of its own, whose header is longer than the entry
        await client.ask(stock.frames.add(ledger, i, payload=b"small"))
    size = 36 + 5 * (4 + len(entry(ledger, 0, payload=b"small")))
    [answer] = await stock.ask(stock.frames.batch(ledger, 0, size=size))
    assert len(answer.entries) == 5
    await stock.close()


# ---- fences -------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry_id", [-1, 0, 9])
async def test_any_fencing_read_fences_also_what_was_never_here(
    stock: StockLab, entry_id: int
) -> None:
    for ledger in (await ledger_of(stock, 2), await stock.server.ledger()):
        await stock.ask(stock.frames.read(ledger, entry_id, fence=True))
        assert await stock.server.add(ledger, 2) is Status.FENCED


async def test_a_fence_with_a_wrong_key_fences_nothing(stock: StockLab) -> None:
    ledger = await ledger_of(stock, 1)
    for entry_id in (-1, 0):
        [refused] = await stock.ask(stock.frames.read(ledger, entry_id, fence=True, key=NEVER))
        assert refused.outcome is Outcome.UNAUTHORIZED
    assert await stock.server.add(ledger, 1) is Status.OK


@pytest.mark.parametrize("kind", [V2Client, V3Client])
async def test_s44_entries_and_denials_of_a_fencing_read_wait_for_the_disk(
    idle_server: ServerLab, kind: type
) -> None:
    disk = idle_server.disk
    await idle_server.start()
    stock = StockLab(idle_server, kind)
    held, empty = await ledger_of(stock, 1), await idle_server.ledger()
    frames = [stock.frames.read(*ids, fence=True) for ids in ((held, 0), (held, 5), (empty, -1))]
    with disk.held_syncs() as waiting:
        asked = [asyncio.create_task(stock.ask(frame)) for frame in frames]
        await asyncio.to_thread(waiting.wait)
        assert (await stock.ask(stock.frames.add(held, 1)))[0].outcome is Outcome.FENCED
        assert not any(task.done() for task in asked)
    [[first], [second], [third]] = await asyncio.gather(*asked)
    assert (first.outcome, second.outcome) == (OK, Outcome.NO_ENTRY)
    assert third.outcome in (Outcome.NO_LEDGER, Outcome.NO_ENTRY)
    await stock.close()


# ---- limbo --------------------------------------------------------------------------------------


async def test_s42_in_limbo_what_is_there_is_served_and_the_rest_unknown(stock: StockLab) -> None:
    ledger = await ledger_of(stock, 2)
    await stock.server.flush()
    await stock.server.restart()
    make = stock.frames.read
    found = await stock.ask(make(ledger, 0), make(ledger, 1))
    assert {a.body for a in found} == {entry(ledger, 0), entry(ledger, 1)}
    assert all(a.max_lac is None for a in found)
    for asked in (make(ledger, 2), make(ledger, -1), make(ledger, 2, fence=True)):
        assert (await stock.ask(asked))[0].outcome is UNKNOWN
    assert (await stock.ask(make(ledger, -1, fence=True)))[0].outcome is UNKNOWN
    assert (await stock.ask(make(ledger, 0, fence=True)))[0].body == entry(ledger, 0)


async def test_s42_in_limbo_no_fact_is_told(stock3: StockLab) -> None:
    ledger = await ledger_of(stock3, 2, lac=0)
    await stock3.server.flush()
    await stock3.server.restart()
    make = stock3.frames
    polls = [make.poll(ledger, previous=-1, timeout_ms=ms) for ms in (None, 60_000)]
    for asked in (make.read_lac(ledger), make.list_entries(ledger), make.force(ledger), *polls):
        assert (await stock3.ask(asked))[0].outcome is UNKNOWN


async def test_s42_in_limbo_recovery_adds_alone_are_taken(stock: StockLab) -> None:
    ledger = await stock.server.ledger()
    await stock.server.restart()
    make = stock.frames.add
    assert (await stock.ask(make(ledger, 0)))[0].outcome is Outcome.READ_ONLY
    assert (await stock.ask(make(ledger, 0, recovery=True)))[0].outcome is OK


async def test_s42_in_limbo_a_batch_ends_where_nothing_is_known(server: ServerLab) -> None:
    stock = StockLab(server, V2Client)
    ledger = await ledger_of(stock, 2)
    await server.flush()
    await server.restart()
    served, unknown = [await stock.ask(stock.frames.batch(ledger, first)) for first in (0, 2)]
    assert len(served[0].entries) == 2 and unknown[0].outcome is UNKNOWN
    await stock.close()


# ---- LAC ----------------------------------------------------------------------------------------


async def test_a_plain_read_of_version_3_tells_the_lac(stock3: StockLab) -> None:
    ledger = await ledger_of(stock3, 5, lac=2)
    assert (await stock3.ask(stock3.frames.read(ledger, 0)))[0].max_lac == 2


async def test_a_lac_is_handed_out_as_it_was_signed_also_after_a_kill(stock3: StockLab) -> None:
    server, make = stock3.server, stock3.frames
    ledger = await server.ledger(closed_at=4)
    await server.add(ledger, 0, 5)
    for lac in (4, 2):
        assert (await stock3.ask(make.write_lac(ledger, lac)))[0].outcome is OK
    await server.flush()
    for _ in range(2):
        [found] = await stock3.ask(make.read_lac(ledger))
        assert found.message.readLacResponse.lacBody == lac_body(ledger, 4)
        assert found.message.readLacResponse.lastEntryBody == entry(ledger, 4)
        await server.stop()
        await server.start()


@pytest.mark.parametrize("field", [1, 3])
async def test_what_the_writer_signed_is_the_lac_whatever_the_field_beside_it_says(
    stock3: StockLab, field: int
) -> None:
    """An add that is acknowledged between both is in the body and not in the field."""
    ledger = await stock3.server.ledger()
    written = stock3.frames.write_lac(ledger, field, signed=(ledger, 2))
    assert (await stock3.ask(written))[0].outcome is OK
    bookie = stock3.server.bookie
    assert bookie is not None and bookie.control.booted is not None
    assert bookie.control.booted.storage.lac(ledger) == 2


async def test_a_lac_that_was_signed_for_another_ledger_is_refused(stock3: StockLab) -> None:
    written = stock3.frames.write_lac(7, 2, signed=(8, 2))
    assert (await stock3.ask(written))[0].outcome is Outcome.BAD_REQUEST


async def test_a_signed_lac_outlives_a_kill(stock3: StockLab) -> None:
    server, make = stock3.server, stock3.frames
    ledger = await server.ledger(ensemble=(ME, ME, ME))
    await stock3.ask(make.write_lac(ledger, 7))
    await server.kill()
    await server.start()
    assert server.bookie is not None and server.bookie.control.booted is not None
    record = server.bookie.control.booted.storage.record(ledger)
    assert record is not None and record.lac_body == lac_body(ledger, 7)


async def test_without_a_lac_and_entries_there_is_nothing_to_tell(stock3: StockLab) -> None:
    [found] = await stock3.ask(stock3.frames.read_lac(99))
    assert found.outcome in (Outcome.NO_LEDGER, Outcome.NO_ENTRY)


async def test_a_lac_with_a_wrong_key_is_refused(stock3: StockLab) -> None:
    ledger = await ledger_of(stock3, 1)
    refused = stock3.frames.write_lac(ledger, 0, key=NEVER)
    assert (await stock3.ask(refused))[0].outcome is Outcome.UNAUTHORIZED


# ---- long polls ---------------------------------------------------------------------------------


async def test_a_long_poll_is_answered_by_the_advance_with_the_entry(stock3: StockLab) -> None:
    ledger = await ledger_of(stock3, 1)
    asked = asyncio.create_task(stock3.ask(stock3.frames.poll(ledger, previous=-1)))
    await stock3.server.until(lambda: stock3.server.traffic.long_polls == 1)
    await stock3.server.add(ledger, 1, lac=0)
    [found] = await asked
    assert (found.max_lac, found.entry_id, found.body) == (0, 0, entry(ledger, 0))


async def test_a_long_poll_ends_with_its_time_and_the_lac_alone(stock3: StockLab) -> None:
    ledger = await ledger_of(stock3, 3, lac=1)
    [found] = await stock3.ask(stock3.frames.poll(ledger, previous=1, timeout_ms=1))
    assert (found.outcome, found.max_lac, found.body) == (OK, 1, b"")


async def test_an_entry_of_another_stripe_is_left_out_and_not_denied(stock3: StockLab) -> None:
    ledger = await stock3.server.ledger()
    await stock3.server.add(ledger, 4, lac=3)
    [found] = await stock3.ask(stock3.frames.poll(ledger, previous=0))
    assert (found.outcome, found.max_lac, found.body) == (OK, 3, b"")


async def test_without_a_piggyback_the_entry_asked_for_is_answered(stock3: StockLab) -> None:
    ledger = await ledger_of(stock3, 3, lac=1)
    make = stock3.frames.poll
    for timeout_ms in (None, 60_000):
        asked = make(ledger, previous=0, timeout_ms=timeout_ms, piggyback=False, entry_id=2)
        assert (await stock3.ask(asked))[0].body == entry(ledger, 2, lac=1)


async def test_a_long_poll_of_nothing_is_denied_at_once(stock3: StockLab) -> None:
    [found] = await stock3.ask(stock3.frames.poll(99, previous=-1))
    assert found.outcome is Outcome.NO_LEDGER


# ---- force, lists, disks ------------------------------------------------------------------------


async def test_what_was_forced_outlives_a_kill(stock3: StockLab) -> None:
    ledger = await ledger_of(stock3, 3)
    assert (await stock3.ask(stock3.frames.force(ledger)))[0].outcome is OK
    await stock3.server.restart()
    assert await stock3.server.held(ledger, 0, 9) == [0, 1, 2]


async def test_who_has_none_of_a_ledger_has_forced_all_of_it(stock3: StockLab) -> None:
    assert (await stock3.ask(stock3.frames.force(99)))[0].outcome is OK


async def test_who_may_have_forgotten_a_ledger_has_forced_nothing(stock3: StockLab) -> None:
    ledger = await stock3.server.ledger(closed_at=5)
    await stock3.server.restart()
    assert (await stock3.ask(stock3.frames.force(ledger)))[0].outcome is UNKNOWN


async def test_the_entries_held_are_listed(stock3: StockLab) -> None:
    ledger = await ledger_of(stock3, 3)
    await stock3.server.add(ledger, 7, 2)
    found, denied = await stock3.ask(*map(stock3.frames.list_entries, (ledger, 99)))
    if found.outcome is not OK:
        found, denied = denied, found
    blob = found.message.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger
    assert EntrySet.decode(blob) == EntrySet.from_ranges([(0, 2), (7, 8)])
    assert denied.outcome is Outcome.NO_LEDGER


async def test_the_space_of_the_ledger_disks_is_told(stock3: StockLab) -> None:
    [found] = await stock3.ask(stock3.frames.info())
    told = found.message.getBookieInfoResponse
    _journal, *ledgers = map(stock3.server.disk.space, stock3.server.directories)
    assert told.totalDiskCapacity == sum(space.total_bytes for space in ledgers)
    assert told.freeDiskSpace == sum(space.free_bytes for space in ledgers)
    assert 0 < told.freeDiskSpace < told.totalDiskCapacity


# ---- what an answer says of each entry ----------------------------------------------------------


@pytest.mark.parametrize("absent", [Status.NO_SUCH_ENTRY, Status.NO_SUCH_LEDGER, Status.UNKNOWN])
def test_what_cannot_be_read_is_never_said_to_be_absent(absent: Status) -> None:
    unknown = ((2, 2), (5, 7))
    reply = ReadReply(EntryId(-1), EntryId(9), EntryId(9), absent, unknown, ())
    found = FoundEntries(reply, range(10))
    for entry_id in map(EntryId, range(10)):
        is_unread = any(first <= entry_id <= last for first, last in unknown)
        assert found.status(entry_id) is (Status.IO_ERROR if is_unread else absent)


@pytest.mark.parametrize(
    ("ids", "groups"),
    [
        ([1, 2, 2, 1 + GAP_MAX], [[1, 2, 2, 1 + GAP_MAX]]),
        ([5, 4, 9], [[5], [4, 9]]),
        ([0, GAP_MAX, 2 * GAP_MAX + 1], [[0, GAP_MAX], [2 * GAP_MAX + 1]]),
        ([7] * (READS_TOGETHER_MAX + 1), [[7] * READS_TOGETHER_MAX, [7]]),
    ],
)
def test_reads_are_gathered_while_their_ids_rise_near_to_each_other(
    ids: list[int], groups: list[list[int]]
) -> None:
    gather = ReadGather()
    for entry_id in ids:
        for ledger_id in (3, 4):  # one ledger never ends another one's group
            gather.add(
                Read(LedgerId(ledger_id), EntryId(entry_id), None, False, None, None, False, 0)
            )
    found = [[read.entry_id for read in group] for group in gather.groups()]
    assert found == [group for group in groups for _ledger in (3, 4)]
