"""The writer's shell: futures, watermark, room, explicit LAC, close, abandon; nothing left over."""

import asyncio
import logging
from contextlib import suppress

import pytest
from bookie.client.writer import LedgerWriter
from bookie.errors import BadRequestError, LedgerClosedError, LedgerFencedError
from bookie.frames.entry import ENTRY_BYTES_MAX
from bookie.ids import EntryId
from bookie.protocol.batches import WriterLimits
from bookie.protocol.ledger import LedgerState
from bookie.wire.native import Op
from virtual_time import JumpingLoop, in_virtual_time
from writer_lab import WriterLab, adds, error_of, quick, settled


# Futures and the watermark
async def test_futures_give_the_ids_in_order() -> None:
    writer = await WriterLab().writer()
    assert await asyncio.gather(*[writer.append(b"x") for _ in range(5)]) == [0, 1, 2, 3, 4]
    assert writer.lac == 4


async def test_the_watermark_is_the_lac_reached() -> None:
    writer = await WriterLab().writer()
    last = writer.append_many([b"a", b"b", b"c"])
    assert (last, await writer.wait_acked(last), writer.lac) == (2, 2, 2)
    assert await writer.wait_acked(EntryId(0)) == 2


async def test_waiting_for_an_entry_nobody_appended_is_refused() -> None:
    writer = await WriterLab().writer()
    with pytest.raises(ValueError, match="entry 0 was not appended: -1 is last"):
        await writer.wait_acked(EntryId(0))


async def test_waiting_for_what_was_queued_when_the_writer_ended_says_what_ended_it() -> None:
    writer = await WriterLab().writer()
    last = writer.append_many([b"a", b"b"])
    writer.abandon()
    assert isinstance(await error_of(writer.wait_acked(last)), LedgerClosedError)


async def test_appends_of_one_turn_of_the_loop_leave_as_one_run() -> None:
    lab = WriterLab(settings=quick(limits=WriterLimits()))
    writer = await lab.writer()
    await asyncio.gather(*[writer.append(b"x") for _ in range(9)])
    assert [(call.first, call.last) for call in lab.fleet.calls if adds(call)] == [(0, 8)] * 3


async def test_who_waits_for_each_entry_has_the_next_one_sent_at_once() -> None:
    lab = WriterLab(settings=quick(limits=WriterLimits()))
    writer = await lab.writer()
    for _ in range(2):
        await writer.append(b"x")
    writer.append(b"y")
    assert [call.first for call in lab.fleet.calls if adds(call)][-3:] == [2, 2, 2]


async def test_what_is_appended_behind_an_entry_sent_at_once_leaves_as_one_run() -> None:
    lab = WriterLab(settings=quick(limits=WriterLimits()))
    writer = await lab.writer()
    await writer.append(b"x")
    await asyncio.gather(*[writer.append(b"y") for _ in range(9)])
    sent = [(call.first, call.last) for call in lab.fleet.calls if adds(call)]
    assert sent == [(0, 0)] * 3 + [(1, 1)] * 3 + [(2, 9)] * 3


async def test_everybody_is_told_in_the_order_of_ids() -> None:
    writer = await WriterLab().writer()
    told: list[int] = []
    futures = [writer.append(b"x") for _ in range(3)]
    for future in reversed(futures):
        future.add_done_callback(lambda done: told.append(done.result()))
    first = asyncio.ensure_future(writer.wait_acked(EntryId(0)))  # asked last, for the first id
    await asyncio.gather(*futures, first)
    assert told == [0, 1, 2] and first.result() >= 0


async def test_a_cancelled_future_stops_nobody_else() -> None:
    writer = await WriterLab().writer()
    first, second = writer.append(b"a"), writer.append(b"b")
    first.cancel()
    assert await second == 1


async def test_cancelled_waiters_leave_nothing_behind() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    for bookie_id in lab.fleet.ids:
        lab.fleet.hold(bookie_id)
    last = writer.append_many([b"x"])
    for _ in range(100):
        waiting = asyncio.ensure_future(writer.wait_acked(last))
        await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
    assert not writer._waiting
    for bookie_id in lab.fleet.ids:
        lab.fleet.release(bookie_id)
    assert await writer.wait_acked(last) == 0


@pytest.mark.parametrize("payload", ["text", bytearray(3), memoryview(b"abc"), None, 7])
async def test_a_payload_that_is_not_bytes_is_refused_and_the_writer_goes_on(
    payload: object,
) -> None:
    writer = await WriterLab().writer()
    with pytest.raises((BadRequestError, TypeError)):
        writer.append(payload)  # type: ignore[arg-type]
    assert await writer.append(b"fine") == 0


async def test_an_oversize_payload_is_refused_and_the_writer_goes_on() -> None:
    writer = await WriterLab().writer()
    with pytest.raises(BadRequestError, match="split it"):
        writer.append(bytes(ENTRY_BYTES_MAX))
    assert await writer.append(b"fine") == 0


# Room
async def blocked(writer: LedgerWriter) -> "asyncio.Task[None]":
    waiting = asyncio.ensure_future(writer.room())
    await asyncio.sleep(0)
    return waiting


async def test_room_waits_for_bytes_to_be_acknowledged() -> None:
    lab = WriterLab(settings=quick(unacked_bytes_max=10))
    writer = await lab.writer()
    writer.append_many([bytes(9)])
    await writer.room()
    last = writer.append_many([b"x"])
    waiting = await blocked(writer)
    assert not waiting.done()
    await writer.wait_acked(last)
    await waiting


async def test_room_counts_entries_too_since_empty_ones_have_no_bytes() -> None:
    writer = await WriterLab(settings=quick(unacked_entries_max=3)).writer()
    last = writer.append_many([b""] * 3)
    waiting = await blocked(writer)
    assert not waiting.done()
    await writer.wait_acked(last)
    await waiting


async def test_room_is_given_at_once_after_the_end() -> None:
    lab = WriterLab(settings=quick(unacked_bytes_max=1))
    writer = await lab.writer()
    writer.append_many([b"x"])
    waiting = await blocked(writer)
    writer.abandon()
    await waiting
    await writer.room()


async def test_a_cancelled_wait_for_room_leaves_nothing_behind() -> None:
    writer = await WriterLab(settings=quick(unacked_bytes_max=1)).writer()
    writer.append_many([b"x"])
    waiting = await blocked(writer)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    assert not writer._rooms


# Explicit LAC
def told_lacs(lab: WriterLab) -> int:
    return sum(call.op is Op.WRITE_LAC for call in lab.fleet.calls)


@in_virtual_time
async def test_an_idle_writer_tells_every_member_its_lac_once() -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    await writer.append(b"x")
    await asyncio.sleep(60)
    known = [lab.fleet[b].ledgers[writer.ledger_id].explicit_lac for b in lab.fleet.ids]
    assert (known, told_lacs(lab)) == ([0, 0, 0], 3)


@in_virtual_time
async def test_a_lac_that_reached_no_member_is_told_again() -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    for bookie_id in lab.fleet.ids:
        lab.fleet.lose_requests(bookie_id, only=lambda call: call.op is Op.WRITE_LAC)
    await writer.append(b"x")
    await asyncio.sleep(5)
    for bookie_id in lab.fleet.ids:
        lab.fleet.heal(bookie_id)
    await asyncio.sleep(10)
    reader = await lab.client.open_ledger(writer.ledger_id)
    assert await reader.read_lac() == 0


@pytest.mark.parametrize("unheard", range(4))
@in_virtual_time
async def test_a_lac_is_told_until_an_ack_quorum_has_it(unheard: int) -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    for bookie_id in lab.fleet.ids[:unheard]:
        lab.fleet.lose_requests(bookie_id, only=lambda call: call.op is Op.WRITE_LAC)
    await writer.append(b"x")
    await asyncio.sleep(5)
    for bookie_id in lab.fleet.ids[:unheard]:
        lab.fleet.heal(bookie_id)
    await asyncio.sleep(60)
    known = [lab.fleet[b].ledgers[writer.ledger_id].explicit_lac for b in lab.fleet.ids]
    assert known.count(0) == (3 if unheard > 1 else 3 - unheard)


@in_virtual_time
async def test_a_writer_whose_key_is_refused_does_not_tell_its_lac_for_ever() -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    await writer.append(b"x")
    for bookie_id in lab.fleet.ids:
        lab.fleet[bookie_id].ledgers[writer.ledger_id].master_key = b"another"
    await asyncio.sleep(600)
    assert told_lacs(lab) <= 3
    writer.abandon()


@in_virtual_time
async def test_the_members_of_now_are_told_the_lac_and_no_former_one() -> None:
    lab = WriterLab(4)
    writer = await lab.writer()
    await writer.append(b"x")
    former = lab.member(writer, 0)
    lab.down(former)
    await writer.append(b"y")
    lab.up(former)
    await asyncio.sleep(60)
    _before, now = writer.metadata.fragments
    known = {b: lab.fleet[b].ledgers[writer.ledger_id].explicit_lac for b in lab.fleet.ids}
    assert known == dict.fromkeys(now.ensemble, 1) | {former: -1}


@in_virtual_time
async def test_a_lac_that_later_entries_carry_is_not_told() -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    await writer.append(b"x")
    for bookie_id in lab.fleet.ids:
        lab.fleet.hold(bookie_id, only=adds)
    pending = writer.append(b"y")
    await asyncio.sleep(5)
    assert told_lacs(lab) == 0
    for bookie_id in lab.fleet.ids:
        lab.fleet.release(bookie_id)
    await pending
    await asyncio.sleep(5)
    assert told_lacs(lab) == 3


@in_virtual_time
async def test_nothing_is_told_after_the_end() -> None:
    lab = WriterLab(3)
    for end in ("close", "abandon"):
        writer = await lab.writer()
        await writer.append(b"x")
        if end == "close":
            await writer.close()
        else:
            writer.abandon()
        await asyncio.sleep(5)
    assert told_lacs(lab) == 0


# Close
async def test_a_ledger_nothing_was_written_to_closes_empty() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    assert await writer.close() == -1
    stored = await lab.stored(writer)
    assert (stored.state, stored.last_entry_id, stored.length) == (LedgerState.CLOSED, -1, 0)


async def test_close_waits_for_what_was_appended() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    future = writer.append(b"abc")
    assert await writer.close() == 0
    assert future.result() == 0
    stored = await lab.stored(writer)
    assert (stored.last_entry_id, stored.length) == (0, 3)


async def test_closing_twice_and_at_once_is_fine() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    writer.append(b"x")
    assert await asyncio.gather(*[writer.close(), writer.close()]) == [0, 0]
    assert await writer.close() == 0
    assert lab.store.calls.count("write_ledger") == 1


async def test_no_append_is_taken_once_close_is_called() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    writer.append(b"x")
    closing = asyncio.ensure_future(writer.close())
    await asyncio.sleep(0)
    with pytest.raises(LedgerClosedError):
        writer.append(b"late")
    assert await closing == 0


async def test_a_cancelled_close_can_be_called_again() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    for bookie_id in lab.fleet.ids:
        lab.fleet.hold(bookie_id)
    writer.append(b"x")
    closing = asyncio.ensure_future(writer.close())
    await lab.fleet.settle()
    closing.cancel()
    for bookie_id in lab.fleet.ids:
        lab.fleet.release(bookie_id)
    assert await writer.close() == 0


async def test_a_close_cancelled_in_the_store_is_still_carried_out() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    gate = asyncio.Event()

    async def wait_at_the_gate(_name: str) -> None:
        await gate.wait()

    lab.store.before = wait_at_the_gate
    closing = asyncio.ensure_future(writer.close())
    await lab.fleet.settle()
    closing.cancel()
    gate.set()
    assert await writer.close() == -1


async def test_close_of_a_fenced_writer_says_so_every_time() -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    await lab.client.recover_ledger(writer.ledger_id)
    future = writer.append(b"late")
    for _ in range(2):
        assert isinstance(await error_of(writer.close()), LedgerFencedError)
    assert isinstance(await error_of(future), LedgerFencedError)
    assert isinstance(await error_of(writer.wait_acked(EntryId(0))), LedgerFencedError)


async def test_close_after_a_recovery_at_the_same_end_succeeds() -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    await writer.append(b"x")
    await lab.client.recover_ledger(writer.ledger_id)
    assert await writer.close() == 0


async def test_close_waits_for_the_ensemble_change_under_way() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    failed, spare = lab.member(writer, 0), lab.spare(writer)
    lab.down(failed)
    writer.append(b"x")
    assert await writer.close() == 0
    stored = await lab.stored(writer)
    assert stored.is_closed and spare in stored.last_fragment.ensemble
    assert len(await lab.holders(writer, 0)) >= 2


async def test_close_without_pending_adds_outlives_a_change_that_finds_nobody() -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    lab.down(lab.member(writer, 0))
    await writer.append(b"x")
    assert await writer.close() == 0
    assert (await lab.stored(writer)).is_closed


# Abandon
async def test_an_abandoned_ledger_stays_open_and_its_pending_adds_fail() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    future = writer.append(b"x")
    waiting = asyncio.ensure_future(writer.wait_acked(EntryId(0)))
    await asyncio.sleep(0)
    writer.abandon()
    writer.abandon()
    assert isinstance(await error_of(future), LedgerClosedError)
    assert isinstance(await error_of(waiting), LedgerClosedError)
    assert isinstance(await error_of(writer.close()), LedgerClosedError)
    assert (await lab.stored(writer)).state is LedgerState.OPEN


async def test_an_abandoned_close_fails_its_callers() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    gate = asyncio.Event()

    async def wait_at_the_gate(_name: str) -> None:
        await gate.wait()

    lab.store.before = wait_at_the_gate
    closing = asyncio.ensure_future(writer.close())
    await lab.fleet.settle()
    writer.abandon()
    assert isinstance(await error_of(closing), LedgerClosedError)
    gate.set()
    await lab.fleet.settle()


async def test_replies_after_the_end_do_nothing() -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    for bookie_id in lab.fleet.ids:
        lab.fleet.hold_replies(bookie_id)
    future = writer.append(b"x")
    await lab.fleet.settle()
    writer.abandon()
    for bookie_id in lab.fleet.ids:
        lab.fleet.release(bookie_id)
    assert await settled(future, lab.fleet) and writer.lac == -1


# The end of the loop
@pytest.mark.parametrize("fault", ["none", "bookies", "store"])
def test_a_loop_ends_with_a_writer_nobody_closed(
    fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        lab = WriterLab()
        writer = await lab.writer()
        lab.store.is_out = fault == "store"
        lab.down(*(lab.fleet.ids if fault == "bookies" else lab.fleet.ids[:1]))
        writer.append(b"x")
        await lab.fleet.settle()

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(main())
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_an_interrupt_ends_the_loop_without_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        lab = WriterLab()
        writer = await lab.writer()
        lab.down()
        asyncio.get_running_loop().call_later(1, interrupt)
        await writer.append(b"x")

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(main())
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
