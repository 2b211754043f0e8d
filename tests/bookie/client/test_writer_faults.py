"""The writer when bookies and the metadata store fail it: bounded tries, and an answer for all."""

import asyncio
from dataclasses import replace

import pytest
from bookie.client.placement import COOL_S
from bookie.client.refusals import REFUSED_S
from bookie.client.writer import NOT_THE_BOOKIES_FAULT, LedgerWriter
from bookie.errors import (
    LedgerClosedError,
    LedgerFencedError,
    MetadataConflictError,
    MetadataFormatError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    UnavailableError,
)
from bookie.ids import BookieId, EntryId
from bookie.metadata.store import MetadataStore
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from virtual_time import clock, in_virtual_time
from writer_lab import SETTINGS, STALL_S, WriterLab, adds, error_of, quick


# Members
@in_virtual_time
async def test_a_dead_member_is_replaced_and_the_new_one_holds_what_is_acked() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    await writer.append(b"before")
    spare = lab.spare(writer)
    lab.down(lab.member(writer, 1))
    assert await writer.append(b"after") == 1
    await lab.fleet.settle()
    assert [f.first_entry_id for f in (await lab.stored(writer)).fragments] == [0, 1]
    assert spare in await lab.holders(writer, 1) and len(await lab.holders(writer, 1)) == 3


@in_virtual_time
async def test_without_a_spare_it_goes_on_with_the_ack_quorum_until_one_comes() -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    failed = lab.member(writer, 0)
    lab.down(failed)
    assert await writer.append(b"a") == 0
    lab.up(failed)
    await asyncio.sleep(2 * SETTINGS.retry_max_s)
    assert await writer.append(b"b") == 1
    await lab.fleet.settle()
    assert failed in await lab.holders(writer, 1)
    assert len((await lab.stored(writer)).fragments) == 1, "its own position, no new fragment"


@in_virtual_time
async def test_all_bookies_down_for_half_a_minute_cost_patience_only() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    await writer.append(b"a")
    lab.down()
    future = writer.append(b"b")
    await asyncio.sleep(30)
    assert not future.done()
    lab.up()
    assert await future == 1
    assert len(await lab.holders(writer, 1)) >= 2


@in_virtual_time
async def test_all_bookies_down_for_good_end_the_writer_without_a_hot_loop() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    lab.down()
    began = clock()
    error = await error_of(writer.append(b"x"))
    assert isinstance(error, NotEnoughBookiesError) and "unknown outcome" in str(error)
    assert STALL_S < clock() - began < STALL_S + 10
    tries = lab.store.calls.count("bookies")
    assert tries < 3 * STALL_S / SETTINGS.retry_s
    assert len(lab.fleet.calls) < 10 * STALL_S
    await asyncio.sleep(600)
    assert lab.store.calls.count("bookies") == tries, "an ended writer asks nobody"


@pytest.mark.parametrize(
    "status", [Status.OVERLOADED, Status.NOT_READY, Status.READ_ONLY, Status.IO_ERROR]
)
@in_virtual_time
async def test_bookies_that_refuse_at_once_are_not_asked_in_a_hot_loop(status: Status) -> None:
    lab = WriterLab()
    writer = await lab.writer()
    for bookie_id in lab.fleet.ids:
        lab.fleet[bookie_id].refuse_adds = status
    began = clock()
    assert isinstance(await error_of(writer.append(b"x")), NotEnoughBookiesError)
    assert clock() - began < STALL_S + 10
    assert len(lab.fleet.calls) < 10 * STALL_S
    assert len((await lab.stored(writer)).fragments) == 1


async def replaced(lab: WriterLab, writer: LedgerWriter) -> BookieId:
    """A member that refused the ledger once, and has nothing against it any more."""
    refusing = lab.member(writer, 0)
    lab.fleet[refusing].refuse_adds = Status.READ_ONLY
    await writer.append(b"x")
    lab.fleet[refusing].refuse_adds = None
    return refusing


@in_virtual_time
async def test_the_only_spare_bookie_that_refused_the_ledger_is_asked_again_later() -> None:
    lab = WriterLab(4)
    writer = await lab.writer()
    refusing = await replaced(lab, writer)
    await asyncio.sleep(COOL_S + 1)
    lab.down(lab.member(writer, 1))
    await writer.append(b"x")
    await asyncio.sleep(1)
    assert refusing not in (await lab.stored(writer)).last_fragment.ensemble
    await asyncio.sleep(REFUSED_S)
    await writer.append(b"x")
    await asyncio.sleep(COOL_S)
    assert refusing in (await lab.stored(writer)).last_fragment.ensemble


@in_virtual_time
async def test_a_stalled_writer_takes_at_once_who_refused_it_before() -> None:
    lab = WriterLab(4)
    writer = await lab.writer()
    await replaced(lab, writer)
    await asyncio.sleep(COOL_S)
    lab.down(lab.member(writer, 1), lab.member(writer, 2))
    began = clock()
    await writer.append(b"x")
    assert clock() - began < REFUSED_S - COOL_S - 1, "before the refusal counts no more"


@in_virtual_time
async def test_a_writer_that_stalls_looks_often_however_seldom_it_did_before() -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    for bookie_id in lab.fleet.ids:
        await lab.store.unregister(bookie_id)
    lab.down(lab.member(writer, 0))
    await writer.append(b"x")
    await asyncio.sleep(10 * SETTINGS.retry_max_s)
    lab.down()
    writer.append(b"y")
    await asyncio.sleep(2 * SETTINGS.retry_max_s)
    before = lab.store.calls.count("bookies")
    await asyncio.sleep(10 * SETTINGS.retry_s)
    assert lab.store.calls.count("bookies") - before >= 5
    writer.abandon()


@in_virtual_time
async def test_a_writer_does_not_go_from_one_bookie_that_refuses_to_the_next_for_ever() -> None:
    lab = WriterLab(5)
    writer = await lab.writer()
    spares = set(lab.fleet.ids) - set(writer.metadata.last_fragment.ensemble)
    for bookie_id in (lab.member(writer, 0), *spares):
        lab.fleet[bookie_id].refuse_adds = Status.READ_ONLY
    for _ in range(1200):
        await asyncio.sleep(0.1)
        await writer.append(b"x")
    assert len((await lab.stored(writer)).fragments) <= 5 * 3 + 1, "asked after 5, 15, 35, 75 s"


@in_virtual_time
async def test_progress_resets_the_patience() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    for _ in range(4):
        lab.down()
        future = writer.append(b"x")
        await asyncio.sleep(STALL_S * 0.7)
        lab.up()
        await future
    assert writer.lac == 3


@in_virtual_time
async def test_an_idle_writer_asks_for_a_missing_member_at_a_slow_pace() -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    gone = lab.member(writer, 0)
    lab.down(gone)
    await lab.memory.unregister(gone)
    await writer.append(b"x")
    await asyncio.sleep(600)
    asked = lab.store.calls.count("bookies")
    assert 600 / SETTINGS.retry_max_s - 5 < asked < 600 / SETTINGS.retry_max_s + 10
    assert await writer.append(b"y") == 1


@in_virtual_time
async def test_members_that_fail_while_the_retry_waits_are_replaced_at_once() -> None:
    lab = WriterLab(4)
    writer = await lab.writer()
    spare, first, second = lab.spare(writer), lab.member(writer, 0), lab.member(writer, 1)
    lab.down(first, spare)
    await writer.append(b"a")  # the spare fails as well: one member is missing from here on
    lab.down(second)
    lab.up(spare)
    began = clock()
    assert await writer.append(b"b") == 1
    assert clock() - began < 2 * SETTINGS.retry_max_s


@in_virtual_time
async def test_one_fence_ends_the_writer_and_replaces_nobody() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    await lab.client.recover_ledger(writer.ledger_id)
    futures = [writer.append(b"x") for _ in range(3)]
    for future in futures:
        assert isinstance(await error_of(future), LedgerFencedError)
    await asyncio.sleep(60)
    assert lab.store.calls.count("write_ledger") == 2, "both by the recovery"
    with pytest.raises(LedgerFencedError):
        writer.append(b"y")


@in_virtual_time
async def test_a_wrong_key_is_no_fault_of_the_bookie() -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    await lab.client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
    for bookie_id in lab.fleet.ids:
        lab.fleet[bookie_id].mark(writer.ledger_id)
        lab.fleet[bookie_id].ledgers[writer.ledger_id].master_key = b"another"
    assert "password" in str(await error_of(writer.append(b"x")))
    other = await lab.client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
    lab.down(lab.member(other, 0))
    assert await other.append(b"y") == 0


@pytest.mark.parametrize("status", NOT_THE_BOOKIES_FAULT)
@in_virtual_time
async def test_what_is_the_writers_own_fault_is_held_against_no_bookie(status: Status) -> None:
    lab = WriterLab(4)
    refused = await lab.writer()
    for bookie_id in lab.fleet.ids:
        lab.fleet[bookie_id].refuse_adds = status
    await error_of(refused.append(b"x"))
    for bookie_id in lab.fleet.ids:
        lab.fleet[bookie_id].refuse_adds = None
    writer = await lab.client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
    spare = lab.spare(writer)
    lab.down(lab.member(writer, 0))
    await writer.append(b"y")
    assert spare in (await lab.stored(writer)).last_fragment.ensemble


# The metadata store (S17)
@in_virtual_time
async def test_s17_a_store_away_for_35_s_does_not_hold_up_adds() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    lab.store.is_out = True
    for number in range(35):
        assert await writer.append(b"x") == number
        await asyncio.sleep(1)
    lab.store.is_out = False
    assert await writer.close() == 34


@in_virtual_time
async def test_s17_members_fail_one_by_one_while_the_store_is_away() -> None:
    lab = WriterLab(6)
    writer = await lab.writer()
    await writer.append(b"0")
    old = writer.metadata.last_fragment.ensemble
    lab.store.is_out = True
    futures = []
    for bookie_id in old:
        lab.down(bookie_id)
        futures.append(writer.append(b"x"))
        await asyncio.sleep(12)
    acked = [future.result() for future in futures if future.done()]
    assert acked == [1], "on the two members that metadata names; the rest has no quorum there"
    lab.store.is_out = False
    await asyncio.gather(*futures)
    for entry_id in range(4):
        assert len(await lab.holders(writer, entry_id)) >= 2, entry_id
    lab.up()
    reader = await lab.client.recover_ledger(writer.ledger_id)
    assert reader.last_entry_id == 3


@in_virtual_time
async def test_s17_a_store_that_hangs_holds_up_adds_for_a_moment_only() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    lab.hang_calls("bookies", seconds=15)
    failed = lab.member(writer, 0)
    lab.down(failed)
    for number in range(60):
        began = clock()
        assert await writer.append(b"x") == number
        assert clock() - began <= (SETTINGS.search_s if number == 0 else 0)
        await asyncio.sleep(0.5)
    assert failed not in (await lab.stored(writer)).last_fragment.ensemble, "found late, used"
    assert lab.store.calls.count("bookies") == 1


@in_virtual_time
async def test_s17_members_that_fail_during_a_slow_search_are_replaced_after_it() -> None:
    lab = WriterLab(6)
    writer = await lab.writer()
    await writer.append(b"x")
    lab.hang_calls("bookies", seconds=15)
    failed = writer.metadata.last_fragment.ensemble[:2]
    futures = []
    for bookie_id in failed:
        lab.down(bookie_id)
        await lab.memory.unregister(bookie_id)
        futures.append(writer.append(b"x"))
        await asyncio.sleep(3)
    assert [future.done() for future in futures] == [True, False], "one member is no quorum"
    await asyncio.gather(*futures)
    await asyncio.sleep(60)
    assert not set(failed) & set((await lab.stored(writer)).last_fragment.ensemble)
    for entry_id in range(3):
        assert len(await lab.holders(writer, entry_id)) >= 2


@in_virtual_time
async def test_a_search_that_outlives_its_writer_changes_nothing() -> None:
    for end in ("close", "abandon"):
        lab = WriterLab()
        writer = await lab.writer()
        lab.hang_calls("bookies", seconds=15)
        lab.down(lab.member(writer, 0))
        await writer.append(b"x")
        await writer.close() if end == "close" else writer.abandon()
        await asyncio.sleep(60)
        assert len((await lab.stored(writer)).fragments) == 1
        assert lab.store.calls.count("write_ledger") == (end == "close")


@in_virtual_time
async def test_s17_nothing_is_acked_while_a_change_of_unknown_outcome_hangs() -> None:
    lab = WriterLab(5)
    writer = await lab.writer()
    await writer.append(b"0")
    lab.fail_calls(UnavailableError("away"), "write_ledger", "read_ledger")
    lab.down(lab.member(writer, 0))
    futures = [writer.append(b"x") for _ in range(3)]
    await asyncio.sleep(35)
    assert writer.lac == 0 and not any(future.done() for future in futures)
    lab.store.before = None
    assert await asyncio.gather(*futures) == [1, 2, 3]
    for entry_id in range(4):
        assert len(await lab.holders(writer, entry_id)) >= 2


@in_virtual_time
async def test_a_change_whose_reply_was_lost_is_recognised() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    await writer.append(b"0")
    lab.store.lost_replies = 1
    lab.down(lab.member(writer, 0))
    assert await writer.append(b"1") == 1
    assert lab.store.calls.count("write_ledger") == 1
    assert [f.first_entry_id for f in (await lab.stored(writer)).fragments] == [0, 1]


@in_virtual_time
async def test_a_close_whose_reply_was_lost_succeeds() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    await writer.append(b"x")
    lab.store.lost_replies = 1
    assert await writer.close() == 0


@in_virtual_time
async def test_close_waits_for_the_store_but_not_for_ever() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    await writer.append(b"x")
    lab.store.is_out = True
    closing = asyncio.ensure_future(writer.close())
    await asyncio.sleep(STALL_S / 2)
    assert not closing.done()
    assert isinstance(await error_of(closing), UnavailableError)
    assert isinstance(await error_of(writer.close()), UnavailableError)
    assert not (await lab.stored(writer)).is_closed


@pytest.mark.parametrize("calls", [("write_ledger",), ("write_ledger", "read_ledger")])
@in_virtual_time
async def test_a_store_that_takes_no_write_ends_the_writer_in_time(calls: tuple[str, ...]) -> None:
    lab = WriterLab()
    writer = await lab.writer()
    lab.fail_calls(UnavailableError("no quorum"), *calls)
    lab.down(lab.member(writer, 0))
    began = clock()
    assert isinstance(await error_of(writer.append(b"x")), UnavailableError)
    assert clock() - began < STALL_S + 10
    assert len(lab.store.calls) < 10 * STALL_S


@in_virtual_time
async def test_a_store_that_took_a_write_gets_all_the_patience_once_more() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    for _outage in range(2):
        lab.fail_calls(UnavailableError("an election"), "write_ledger")
        lab.down(lab.member(writer, 0))
        future = writer.append(b"x")
        await asyncio.sleep(STALL_S * 0.7)
        lab.store.before = None
        await future
        lab.up()
    assert writer.lac == 1


@in_virtual_time
async def test_a_store_that_shows_old_states_is_not_asked_in_a_hot_loop() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    await lab.store.freeze_ledgers()
    await lab.change(writer.ledger_id, lambda value: replace(value, custom={"touched": b"1"}))
    lab.down(lab.member(writer, 0))
    assert isinstance(await error_of(writer.append(b"x")), UnavailableError)
    assert len(lab.store.calls) < 10 * STALL_S


@in_virtual_time
async def test_a_change_by_somebody_else_is_adopted() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    await lab.change(writer.ledger_id, lambda value: replace(value, custom={"touched": b"1"}))
    lab.down(lab.member(writer, 0))
    assert await writer.append(b"x") == 0
    assert await writer.close() == 0
    assert (await lab.stored(writer)).custom == {"touched": b"1"}


@in_virtual_time
async def test_a_recovery_under_way_stops_the_change_and_every_pending_add() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    await lab.change(writer.ledger_id, LedgerMetadata.in_recovery)
    lab.down(lab.member(writer, 0))
    assert isinstance(await error_of(writer.append(b"x")), LedgerFencedError)


@in_virtual_time
async def test_a_deleted_ledger_ends_its_writer() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    await lab.client.delete_ledger(writer.ledger_id)
    assert isinstance(await error_of(writer.close()), NoSuchLedgerError)


@in_virtual_time
async def test_an_abandoned_writer_leaves_the_store_alone() -> None:
    lab = WriterLab()
    writer = await lab.writer()
    lab.store.is_out = True
    closing = asyncio.ensure_future(writer.close())
    await asyncio.sleep(5)
    writer.abandon()
    assert isinstance(await error_of(closing), LedgerClosedError)
    calls = len(lab.store.calls)
    lab.store.is_out = False
    await asyncio.sleep(60)
    assert len(lab.store.calls) == calls
    assert not (await lab.stored(writer)).is_closed


@in_virtual_time
async def test_an_abandoned_writer_looks_for_no_bookies() -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    lab.down(lab.member(writer, 0))
    await writer.append(b"x")
    writer.abandon()
    calls = len(lab.store.calls)
    await asyncio.sleep(60)
    assert len(lab.store.calls) == calls


# What nobody expects
@pytest.mark.parametrize("call", ["bookies", "write_ledger", "read_ledger"])
@in_virtual_time
async def test_an_error_of_no_known_kind_reaches_everybody_who_waits(call: str) -> None:
    lab = WriterLab()
    writer = await lab.writer()
    if call == "read_ledger":
        await lab.change(writer.ledger_id, lambda value: value)
    lab.fail_calls(MetadataFormatError("nobody can read this"), call)
    lab.down(lab.member(writer, 0))
    future, waiting = writer.append(b"x"), asyncio.ensure_future(writer.wait_acked(EntryId(0)))
    assert isinstance(await error_of(future), MetadataFormatError)
    assert isinstance(await error_of(waiting), MetadataFormatError)
    assert isinstance(await error_of(writer.close()), MetadataFormatError)


@pytest.mark.parametrize("call", ["bookies", "write_ledger"])
@in_virtual_time
async def test_a_defect_ends_the_writer_and_is_told(call: str) -> None:
    lab = WriterLab()
    writer = await lab.writer()
    lab.fail_calls(ZeroDivisionError("a defect"), call)
    lab.down(lab.member(writer, 0))
    error = await error_of(writer.append(b"x"))
    assert "a defect" in str(error) and "unknown outcome" in str(error)


@in_virtual_time
async def test_peers_that_raise_end_the_writer() -> None:
    lab = WriterLab()
    writer = await lab.writer()

    def broken(*_args: object, **_named: object) -> None:
        raise RuntimeError("a defect in sending")

    lab.fleet.add_run = broken  # type: ignore[method-assign]
    assert "a defect in sending" in str(await error_of(writer.append(b"x")))


@in_virtual_time
async def test_someone_who_keeps_changing_the_ledger_stops_the_writer() -> None:
    lab = WriterLab(3)
    writer = await lab.writer()
    await writer.append(b"x")
    store: MetadataStore = lab.memory

    async def meddle(name: str) -> None:
        if name == "write_ledger":
            found = await store.read_ledger(writer.ledger_id)
            await store.write_ledger(found.value, version=found.version)

    lab.store.before = meddle
    assert isinstance(await error_of(writer.close()), MetadataConflictError)


@in_virtual_time
async def test_the_slowest_member_holds_up_only_what_it_may() -> None:
    lab = WriterLab(3, settings=quick(limits=replace(SETTINGS.limits, lag_bytes_max=1000)))
    writer = await lab.writer()
    lab.fleet.hold(lab.member(writer, 2), only=adds)
    futures = [writer.append(bytes(100)) for _ in range(50)]
    await lab.fleet.settle()
    done = sum(future.done() for future in futures)
    assert 0 < done < 50
    lab.fleet.heal(lab.member(writer, 2))
    lab.fleet.release(lab.member(writer, 2))
    assert await asyncio.gather(*futures) == list(range(50))
