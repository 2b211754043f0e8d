"""S43: an answer counts for the question it was given to, however late it comes."""

import asyncio

from bookie.client.recovery import RecoverySettings
from bookie.testing.fleet import Call
from bookie.wire.native import Op
from fleet_ledgers import FleetLedgers
from fleet_writer import writer_of

ENTRY_BY_ENTRY = RecoverySettings(attempts=1, window=1)


def reads_of(entry_id: int) -> object:
    return lambda call: call.op is Op.READ and call.first == entry_id


def adds(call: Call) -> bool:
    return call.op is Op.ADD_RUN


async def create() -> FleetLedgers:
    ledgers = FleetLedgers(3)
    await ledgers.create(3, 3, 2)
    return ledgers


async def test_s43_a_slow_denial_of_e3_says_nothing_of_e4() -> None:
    ledgers = await create()
    ledgers.put(range(3), 0, 1, 2)
    ledgers.put(3, 1, 2, lac=2)
    ledgers.put(4, 0, 1, lac=2)
    ledgers.fleet.hold_replies(0, only=lambda call: call.op is Op.READ)
    ledgers.fleet.hold(1, only=lambda call: call.op is Op.READ and call.first == 4)
    task = asyncio.create_task(ledgers.recover(settings=ENTRY_BY_ENTRY))
    await ledgers.fleet.settle()
    slow = [parked for parked in ledgers.fleet.held(0) if parked.call.first == 3]
    assert len(slow) == 1
    slow[0].release()  # B0 never had e3; B2 has denied e4: together they must not end the ledger
    await ledgers.fleet.settle()
    assert not task.done()
    ledgers.fleet.release(1)
    ledgers.fleet.release(0)
    ledgers.fleet.heal(0)
    ledgers.fleet.heal(1)
    await ledgers.fleet.settle()
    ledgers.fleet.release(0)
    assert (await task).metadata.value.last_entry_id == 4
    # Catches: a denial attributed to the entry that is being read when it arrives.


async def test_s43_a_slow_ack_of_e3_counts_for_e3_only() -> None:
    ledgers = await create()
    writer = await writer_of(ledgers)
    for _ in range(3):
        await writer.append(b"e")
    ledgers.fleet.hold_replies(0, only=adds)
    await writer.append(b"e3")
    ledgers.fleet.heal(0)
    ledgers.fleet.hold(0, only=adds)
    ledgers.fleet.hold(2, only=adds)
    fourth = writer.append(b"e4")
    await ledgers.fleet.settle()
    late = [parked for parked in ledgers.fleet.held(0) if parked.is_reply]
    late[0].release()
    await ledgers.fleet.settle()
    assert not fourth.done() and writer.acked == [0, 1, 2, 3]
    ledgers.fleet.release(2)
    assert await fourth == 4
    # Catches: an OK for e3 counted for e4.


async def test_s43_a_repeated_answer_counts_once() -> None:
    ledgers = await create()
    writer = await writer_of(ledgers)
    for number in (1, 2):
        ledgers.fleet.hold(number, only=adds)
    future = writer.append(b"e0")
    await ledgers.fleet.settle()
    ledgers.put(0, 0)
    await ledgers.fleet.settle()
    assert not future.done()
    ledgers.fleet.release(1)
    assert await future == 0
