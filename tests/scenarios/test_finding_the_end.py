"""Where a recovered ledger ends: one copy is enough, unknown is no denial, holes end it."""

import asyncio

import pytest
from bookie.client.recovery import RecoveryResult
from bookie.errors import NoSuchEntryError, UndecidableError
from bookie.ids import EntryId
from bookie.protocol.status import Status
from bookie.testing.fleet import Call
from bookie.wire.native import Op
from fleet_ledgers import FleetLedgers, payload_of
from fleet_writer import writer_of


def adds(call: Call) -> bool:
    return call.op is Op.ADD_RUN


def reads(call: Call) -> bool:
    return call.op is Op.READ


async def create(
    ensemble: int, write: int, ack: int, *, bookies: int | None = None
) -> FleetLedgers:
    ledgers = FleetLedgers(bookies or ensemble)
    await ledgers.create(ensemble, write, ack)
    return ledgers


async def end_of(ledgers: FleetLedgers) -> int:
    return (await ledgers.recover()).metadata.value.last_entry_id


async def recovering(ledgers: FleetLedgers) -> "asyncio.Task[RecoveryResult]":
    """A recovery that has come as far as the held answers let it."""
    task = asyncio.create_task(ledgers.recover())
    await ledgers.fleet.settle()
    return task


async def limbo_bookie_and_a_slow_holder() -> FleetLedgers:
    """S2: e0 acked by B0 and B2; B0 lost it and is in limbo; B1 never had it."""
    ledgers = await create(3, 3, 2)
    ledgers.fleet.hold(1, only=adds)
    await (await writer_of(ledgers)).append(b"e0")
    for parked in ledgers.fleet.held(1):
        parked.drop()
    ledgers.fleet.heal(1)
    await ledgers.crash(0)
    return ledgers


async def test_s02_limbo_bookie_does_not_deny_the_only_acked_entry() -> None:
    ledgers = await limbo_bookie_and_a_slow_holder()
    ledgers.fleet.hold(2, only=reads)
    task = await recovering(ledgers)
    assert not task.done()
    ledgers.fleet.release(2)
    assert (await task).metadata.value.last_entry_id == 0
    # Catches: no limbo, UNKNOWN counted as a denial, deciding before B2 has answered.


async def test_s02_with_the_last_holder_down_nothing_is_closed() -> None:
    ledgers = await limbo_bookie_and_a_slow_holder()
    ledgers.fleet[2].down = True
    with pytest.raises(UndecidableError):
        await ledgers.recover()
    assert not (await ledgers.metadata()).is_closed


async def test_s02_without_limbo_the_entry_would_be_cut_off() -> None:
    ledgers = await limbo_bookie_and_a_slow_holder()
    ledgers.fleet[0].clear(ledgers.ledger_id)
    ledgers.fleet.hold(2, only=reads)
    assert (await (await recovering(ledgers))).metadata.value.last_entry_id == -1


async def test_s03_a_false_denial_in_the_middle_cuts_nothing_off() -> None:
    ledgers = FleetLedgers(4)
    await ledgers.create(3, 3, 2, (0, (1, 2, 3)))
    ledgers.put(range(10), 1, 2, 3)
    ledgers.put(10, 1, 3)
    ledgers.put(range(11, 101), 1, 2, 3, lac=9)
    ledgers.fleet[1].flush()
    ledgers.fleet[1].lose(ledgers.ledger_id, [EntryId(10)])
    await ledgers.crash(1)
    ledgers.fleet.hold(3, only=reads)
    task = await recovering(ledgers)
    assert not task.done()
    ledgers.fleet.heal(3)
    ledgers.fleet.release(3)
    assert (await task).metadata.value.last_entry_id == 100
    # Catches: a false NO_SUCH_ENTRY from B1, which with B2's would cut off 91 entries.


async def test_s05_recovery_never_goes_below_the_last_fragment() -> None:
    ledgers = FleetLedgers(6)
    await ledgers.create(2, 2, 2, (0, (1, 2)), (1000, (2, 3)), (2000, (4, 5)))
    ledgers.put(1999, 2, 3)
    ledgers.fleet[5].refuse_adds = Status.READ_ONLY
    result = await ledgers.recover()
    closed = result.metadata.value
    assert (closed.last_entry_id, result.recovered) == (1999, 0)
    assert [f.first_entry_id for f in closed.fragments] == [0, 1000, 2000]
    assert all(call.first >= 1999 for call in ledgers.fleet.calls if reads(call))
    # Catches: starting at the LAC of an empty last ensemble (-1).


async def test_s07_with_ack_quorum_1_two_denials_decide_nothing() -> None:
    ledgers = await create(3, 3, 1)
    ledgers.put(0, 2)
    ledgers.fleet.lose_requests(2, only=reads)
    with pytest.raises(UndecidableError, match="bookie-2: UNREACHABLE"):
        await ledgers.recover()
    assert not (await ledgers.metadata()).is_closed
    ledgers.fleet.heal(2)
    assert await end_of(ledgers) == 0
    # Catches: a majority of denials taken for the end.


async def test_s08_a_late_copy_counts_after_a_denial_and_a_timeout() -> None:
    ledgers = await create(3, 3, 2)
    ledgers.put(0, 2)
    for number in (1, 2):
        ledgers.fleet.hold(number, only=reads)
    task = await recovering(ledgers)
    ledgers.fleet.held(1)[0].drop()
    await ledgers.fleet.settle()
    assert not task.done()
    ledgers.fleet.heal(2)
    ledgers.fleet.release(2)
    await ledgers.fleet.settle()
    ledgers.fleet.heal(1)
    ledgers.fleet.release(1)
    assert (await task).metadata.value.last_entry_id == 0
    # Catches: deciding before all who may have it are in.


async def test_s09_an_unreadable_copy_is_no_denial() -> None:
    ledgers = await create(3, 3, 2)
    ledgers.put(0, 0, 1)
    ledgers.fleet[0].fail_reads(ledgers.ledger_id, [EntryId(0)])
    ledgers.fleet[1].down = True
    with pytest.raises(UndecidableError, match="bookie-0: UNKNOWN"):
        await ledgers.recover()
    ledgers.fleet[1].down = False
    assert await end_of(ledgers) == 0
    # Catches: EIO answered or counted as NO_SUCH_ENTRY.


async def test_s10_a_corrupt_copy_is_reported_and_never_copied() -> None:
    ledgers = await create(3, 3, 2)
    ledgers.put(0, 0, 1)
    ledgers.fleet[0].corrupt(ledgers.ledger_id, EntryId(0))
    ledgers.fleet.hold(1, only=reads)
    task = await recovering(ledgers)
    ledgers.fleet.heal(1)
    ledgers.fleet.release(1)
    result = await task
    assert result.corrupt == ((ledgers.names(0)[0], 0),)
    good = ledgers.fleet[1].ledgers[ledgers.ledger_id].entries[EntryId(0)]
    assert ledgers.fleet[2].ledgers[ledgers.ledger_id].entries[EntryId(0)] == good
    reader = await ledgers.reader()
    assert (await reader.read(EntryId(0), EntryId(0)))[0].payload == payload_of(0)
    # Catches: digests unchecked before a copy counts or is written back.


async def test_s10_the_holder_of_a_corrupt_copy_does_not_count_toward_the_acks() -> None:
    ledgers = await create(3, 3, 2, bookies=4)
    ledgers.put(0, 0, 1)
    ledgers.fleet[0].corrupt(ledgers.ledger_id, EntryId(0))
    ledgers.fleet[2].refuse_adds = Status.READ_ONLY
    ledgers.fleet.hold(1, only=reads)
    task = await recovering(ledgers)
    ledgers.fleet.heal(1)
    ledgers.fleet.release(1)
    await task
    holders = [n for n in range(4) if ledgers.held(n) == [0] and n != 0]
    assert len(holders) >= 2
    # Catches: an ack quorum of one good copy and one corrupt one that was kept.


async def test_s14_a_hole_ends_the_ledger_after_the_write_backs() -> None:
    ledgers = await create(4, 3, 2)
    ledgers.put(range(3), 0, 1, 2, 3)
    ledgers.put(3, 3, 0, lac=2)
    ledgers.put(5, 1, 2, lac=2)
    for number in range(4):
        ledgers.fleet.hold_replies(number, only=adds)
    task = await recovering(ledgers)
    assert not task.done() and not (await ledgers.metadata()).is_closed
    for number in range(4):
        ledgers.fleet.release(number)
    assert (await task).metadata.value.last_entry_id == 3
    with pytest.raises(NoSuchEntryError):
        await (await ledgers.reader()).read(EntryId(5), EntryId(5))
    # Catches: going on past a hole, closing before the write-backs are acked.


async def test_s32_an_entry_is_recovered_from_its_one_copy() -> None:
    ledgers = await create(3, 3, 2)
    ledgers.put(0, 0, 1)
    await ledgers.crash(1, wipe=True)
    assert await end_of(ledgers) == 0
    assert sum(ledgers.held(number) == [0] for number in range(3)) >= 2
    # Catches: asking for an ack quorum of copies, which blocks for ever.
