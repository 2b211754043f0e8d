"""Two recoverers at once, and one that dies: the compare-and-set decides, readers see one end."""

import asyncio

import pytest
from bookie.client.reader import LedgerReader
from bookie.client.recovery import RecoveryResult, RecoverySettings
from bookie.errors import NoSuchEntryError
from bookie.ids import NO_ENTRY, EntryId
from bookie.protocol.status import Status
from bookie.testing.fleet import Call
from bookie.wire.native import Op
from fleet_ledgers import FleetLedgers
from gated_store import GatedStore

Rival = tuple[GatedStore, asyncio.Task[RecoveryResult]]


def reads(call: Call) -> bool:
    return call.op is Op.READ


async def rivals(*unacked: int) -> tuple[FleetLedgers, Rival, Rival]:
    """R heard B0 and B1 deny, R2 heard B2's copies and wrote them back; neither has closed yet."""
    ledgers = FleetLedgers(3)
    await ledgers.create(3, 3, 2)
    ledgers.put(unacked, 2, lac=-1)
    one = GatedStore(ledgers.store.cluster)
    ledgers.fleet.hold(2, only=reads)
    first = asyncio.create_task(ledgers.recover(store=one))
    await one.reached.wait()
    ledgers.fleet.heal(2)
    two = GatedStore(ledgers.store.cluster)
    for number in (0, 1):
        ledgers.fleet.hold(number, only=reads)
    second = asyncio.create_task(ledgers.recover(store=two))
    await ledgers.fleet.settle()
    for number in (0, 1):
        ledgers.fleet.heal(number)
        ledgers.fleet.release(number)
    await two.reached.wait()
    assert ledgers.held(0) == list(unacked)
    return ledgers, (one, first), (two, second)


async def test_s11_the_loser_adopts_the_winners_end() -> None:
    ledgers, (one, first), (two, second) = await rivals(0)
    one.opened.set()
    assert (await first).metadata.value.last_entry_id == NO_ENTRY
    two.opened.set()
    loser = await second
    assert loser.adopted and loser.metadata.value.last_entry_id == NO_ENTRY
    with pytest.raises(NoSuchEntryError):
        await (await ledgers.reader()).read(EntryId(0), EntryId(0))
    # Catches: closing without comparing the state, readers that ignore the end.


async def test_s11_the_other_order_agrees_as_well() -> None:
    ledgers, (one, first), (two, second) = await rivals(0)
    two.opened.set()
    assert (await second).metadata.value.last_entry_id == 0
    one.opened.set()
    assert (await first).metadata.value.last_entry_id == 0
    assert len(await (await ledgers.reader()).read(EntryId(0), EntryId(0))) == 1


async def test_s12_a_tail_is_never_shown_what_a_rival_wrote_back() -> None:
    ledgers, (one, first), (two, second) = await rivals(0, 1)
    shown: list[EntryId] = []
    tail = asyncio.create_task(follow(await ledgers.reader(), shown))
    for _ in range(3):
        await ledgers.fleet.settle()
        ledgers.fleet.expire_waits()
    one.opened.set()
    two.opened.set()
    await asyncio.gather(first, second)
    for _ in range(3):
        ledgers.fleet.expire_waits()
        await ledgers.fleet.settle()
    await asyncio.wait_for(tail, timeout=5)
    assert (await ledgers.metadata()).last_entry_id == NO_ENTRY and shown == []
    # Catches: a LAC that advances in recovery adds.


async def follow(reader: LedgerReader, shown: list[EntryId]) -> None:
    async for entry in reader.tail():
        shown.append(entry.entry_id)


async def test_s13_the_next_recoverer_reads_from_the_ensemble_that_was_written_to() -> None:
    ledgers = FleetLedgers(4)
    before = await ledgers.create(3, 3, 2)
    ledgers.put(0, 0, 1)
    ledgers.fleet[2].refuse_adds = Status.READ_ONLY
    ledgers.fleet.hold_replies(1, only=lambda call: call.op is Op.ADD_RUN)
    dying = GatedStore(ledgers.store.cluster)
    task = asyncio.create_task(ledgers.recover(store=dying))
    await dying.reached.wait()
    assert ledgers.held(3) == [0]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await ledgers.metadata()).fragments == before.fragments
    ledgers.fleet.heal(1)
    ledgers.fleet[3].crash(wipe=True)
    assert (await ledgers.recover()).metadata.value.last_entry_id == 0
    # Catches: an ensemble change committed during recovery, whose bookies had nothing.


async def test_s13_reads_stay_with_the_ensemble_seen_at_the_start() -> None:
    ledgers = FleetLedgers(4)
    await ledgers.create(3, 3, 2)
    ledgers.put(range(10), 0, 1, 2, lac=-1)
    ledgers.put(10, 1, 2, lac=-1)
    ledgers.fleet[2].refuse_adds = Status.READ_ONLY
    ledgers.fleet.hold(1, only=lambda call: reads(call) and call.first >= 10)
    entry_by_entry = RecoverySettings(attempts=1, window=1)
    task = asyncio.create_task(ledgers.recover(settings=entry_by_entry))
    await ledgers.fleet.settle()
    ledgers.fleet.heal(1)
    ledgers.fleet.release(1)
    closed = (await task).metadata.value
    assert (closed.last_entry_id, closed.last_fragment.ensemble) == (10, ledgers.names(0, 1, 3))
    # Catches: reading from the local ensemble, whose new member rightly denies what B2 holds.


async def test_a_recoverer_that_lost_may_be_repeated() -> None:
    ledgers, (one, first), (two, second) = await rivals(0)
    one.opened.set()
    two.opened.set()
    await asyncio.gather(first, second)
    assert (await ledgers.recover()).adopted
