"""Fencing: after a ledger's end is decided nothing more is acknowledged, whatever crashes.

Each test ends with what its mutation would break; a few show the danger itself with both barriers
taken away, so that we know the claim is not empty.
"""

import asyncio

import pytest
from bookie.errors import LedgerFencedError, UndecidableError
from bookie.ids import NO_ENTRY
from bookie.protocol.admission import LedgerFacts, rule_read, rule_read_lac
from bookie.protocol.status import Status
from bookie.testing.fleet import Call
from bookie.wire.native import LacRequest, Op
from fleet_ledgers import KEY, FleetLedgers
from fleet_writer import FleetWriter, writer_of
from gated_store import GatedStore


def adds(call: Call) -> bool:
    return call.op is Op.ADD_RUN


def reads(call: Call) -> bool:
    return call.op is Op.READ


def lac_reads(call: Call) -> bool:
    return call.op is Op.READ_LAC


async def three(bookies: int = 3) -> tuple[FleetLedgers, FleetWriter]:
    ledgers = FleetLedgers(bookies)
    await ledgers.create(3, 3, 2)
    return ledgers, await writer_of(ledgers)


async def closed_behind_the_writer() -> tuple[FleetLedgers, FleetWriter]:
    """S1 up to the close: e0 everywhere, R fences B0 and B1 only, B2's requests are lost."""
    ledgers, writer = await three()
    await writer.append(b"e0")
    ledgers.fleet.lose_requests(2)
    assert (await ledgers.recover()).metadata.value.last_entry_id == 0
    ledgers.fleet.heal(2)
    return ledgers, writer


async def late_add(ledgers: FleetLedgers, writer: FleetWriter) -> list[int]:
    """W adds e1 while B0's refusal is slow, so that only B1 and B2 speak; what is acked."""
    ledgers.fleet.hold_replies(0)
    future = writer.append(b"e1")
    await ledgers.fleet.settle()
    ledgers.fleet.release(0)
    await asyncio.gather(future, return_exceptions=True)
    return list(writer.acked)


@pytest.mark.parametrize("wipe", [False, True])
async def test_s01_an_add_after_the_close_is_never_acked(wipe: bool) -> None:
    ledgers, writer = await closed_behind_the_writer()
    await ledgers.crash(1, wipe=wipe)
    assert await late_add(ledgers, writer) == [0]
    assert isinstance(writer.core.error, LedgerFencedError)
    # Catches: a fence kept in memory only (wipe False), no boundary at boot (wipe True).


async def test_s01_without_either_barrier_the_add_would_be_acked() -> None:
    ledgers, writer = await closed_behind_the_writer()
    await ledgers.crash(1, wipe=True, marks=False)
    assert await late_add(ledgers, writer) == [0, 1]


async def test_s04_a_recovery_read_fences_the_bookie_that_missed_the_first_fence() -> None:
    ledgers, writer = await three()
    for number in (0, 2):
        ledgers.fleet.hold(number, only=adds)
    writer.append(b"e0")
    await ledgers.fleet.settle()
    ledgers.fleet.lose_requests(2, only=lac_reads)
    ledgers.fleet.hold(1, only=reads)
    assert (await ledgers.recover()).metadata.value.last_entry_id == NO_ENTRY
    ledgers.fleet.release(2, only=adds)
    await ledgers.fleet.settle()
    assert ledgers.held(2) == [] and writer.acked == []
    # Catches: recovery reads that do not fence: B2 would store e0 and complete its ack quorum.


async def striped(*unheard: int) -> tuple[FleetLedgers, "asyncio.Future[object]"]:
    """S6: E4/Qw2/Qa2, the fencing LAC reads of these bookies get no answer."""
    ledgers = FleetLedgers(4)
    await ledgers.create(4, 2, 2)
    for number in unheard:
        ledgers.fleet.hold(number, only=lac_reads)
    recovering: asyncio.Future[object] = asyncio.ensure_future(ledgers.recover())
    await ledgers.fleet.settle()
    return ledgers, recovering


async def test_s06_two_fences_that_leave_a_write_set_free_are_not_enough() -> None:
    ledgers, recovering = await striped(2, 3)
    assert not any(reads(call) for call in ledgers.fleet.calls) and not recovering.done()
    ledgers.fleet.release(2)
    await recovering
    # Catches: counting QC answers over the whole ensemble; {B2, B3} could still acknowledge.


async def test_s06_two_fences_that_touch_every_write_set_are_enough() -> None:
    ledgers, recovering = await striped(1, 3)
    await recovering
    assert (await ledgers.metadata()).is_closed


async def test_s23_a_fenced_answer_stops_the_writer_and_replaces_nobody() -> None:
    ledgers, writer = await three(bookies=4)
    ledgers.fleet[2].read_lac(LacRequest(ledgers.ledger_id, KEY), fence=True)
    ledgers.fleet.hold_replies(2)
    await writer.append(b"e0")
    for number in (0, 1):
        ledgers.fleet.hold(number, only=adds)
    pending = writer.append(b"e1")
    await ledgers.fleet.settle()
    ledgers.fleet.release(2)
    with pytest.raises(LedgerFencedError):
        await pending
    assert writer.acked == [0] and (await ledgers.metadata()).fragments[-1].first_entry_id == 0
    assert not any(call.bookie_id == "bookie-3" for call in ledgers.fleet.calls)
    # Catches: EFENCED handled as a failed bookie (an ensemble change past the fence).


async def test_s24_a_ledger_closed_before_the_boot_refuses_adds_too() -> None:
    ledgers, writer = await closed_behind_the_writer()
    ledgers.fleet[1].crash(wipe=True)
    assert (await ledgers.metadata()).is_closed
    await ledgers.fleet[1].boot(ledgers.store)
    assert ledgers.put(1, 1) == [Status.READ_ONLY]
    assert await late_add(ledgers, writer) == [0]
    # Catches: a boot that fences non-closed ledgers only.


async def test_s25_while_the_boot_still_lists_ledgers_nothing_is_denied_or_stored() -> None:
    ledgers, writer = await three()
    ledgers.fleet.hold(2, only=adds)
    await writer.append(b"e0")
    ledgers.fleet[1].crash()
    slow = GatedStore(ledgers.store.cluster, gate_listing=True)
    booting = asyncio.ensure_future(ledgers.fleet[1].boot(slow))
    await slow.reached.wait()
    ledgers.fleet[0].down = True
    with pytest.raises(UndecidableError, match="NOT_READY"):
        await ledgers.recover()
    assert ledgers.put(1, 1) == [Status.NOT_READY]
    slow.opened.set()
    await booting
    with pytest.raises(UndecidableError):
        await ledgers.recover()
    ledgers.fleet[0].down = False
    assert (await ledgers.recover()).metadata.value.last_entry_id == 0
    # Catches: serving before the marks are durable (B1 and B2 would deny e0).


async def test_s44_a_fence_that_is_not_durable_does_not_count() -> None:
    ledgers, _writer = await three()
    for number in (0, 1):
        ledgers.fleet[number].fence_fails = True
    with pytest.raises(UndecidableError, match="cannot be fenced now"):
        await ledgers.recover()
    assert not (await ledgers.metadata()).is_closed


@pytest.mark.parametrize("fenced", [False, True])
def test_s44_every_fencing_request_waits_for_the_fence(fenced: bool) -> None:
    facts = LedgerFacts(is_known=True, fenced=fenced)
    assert rule_read(facts, master_key=b"", fence=True).fence
    assert rule_read_lac(facts, master_key=b"", fence=True).fence
    # Catches: an early reply, also by a second fence that comes while the first is being synced.
