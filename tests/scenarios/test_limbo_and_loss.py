"""What may be gone: nothing is cut off silently, a loss is named, and only a person accepts one."""

import pytest
from bookie.client.recovery import RecoverySettings, accepted_loss, recover
from bookie.errors import BadRequestError, DataLossError, UndecidableError
from bookie.ids import EntryId
from bookie.protocol.answers import UndecidedError
from bookie.protocol.quorum import write_set_positions
from bookie.protocol.recovery import ACCEPTED_LOSS_KEY
from bookie.protocol.recovery_effects import AcceptedLoss
from bookie.protocol.status import Status
from bookie.testing.fleet import Call
from bookie.wire.native import Op
from fleet_ledgers import FleetLedgers, payload_of
from fleet_writer import writer_of


def adds(call: Call) -> bool:
    return call.op is Op.ADD_RUN


def accept(entry_id: int) -> AcceptedLoss:
    return accepted_loss(EntryId(entry_id), by="ops", reason="power cut", at_ms=1)


async def three() -> FleetLedgers:
    ledgers = FleetLedgers(3)
    await ledgers.create(3, 3, 2)
    return ledgers


async def test_s30_an_aborted_recovery_leaves_limbo_as_it_is() -> None:
    ledgers = await three()
    ledgers.put(0, 0, 1)
    await ledgers.crash(0)
    ledgers.fleet[1].down = True
    for _ in range(2):
        with pytest.raises(UndecidableError):
            await ledgers.recover()
        assert ledgers.fleet[0].facts(ledgers.ledger_id).limbo
        await ledgers.crash(0)
    ledgers.fleet[1].down = False
    assert (await ledgers.recover()).metadata.value.last_entry_id == 0
    # Catches: limbo cleared by the attempt, or forgotten over a restart.


async def two_unclean_with_an_absent_tail() -> FleetLedgers:
    """S33: e0..e4 are safe, e5 may have been acked by B0 and B1 and is nowhere now."""
    ledgers = await three()
    ledgers.put(range(5), 0, 1, 2)
    for number in (0, 1):
        ledgers.fleet[number].flush()
    ledgers.put(5, 0, 1)
    await ledgers.crash(0, 1)
    return ledgers


async def test_s33_a_possible_loss_is_named_and_waited_for() -> None:
    ledgers = await two_unclean_with_an_absent_tail()
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    settings = RecoverySettings(attempts=4)
    with pytest.raises(UndecidedError, match="possible loss from 5 on"):
        await recover(
            ledgers.store, ledgers.fleet, ledgers.ledger_id, settings=settings, sleep=pause
        )
    assert len(pauses) == 3 and pauses == sorted(pauses)
    assert not (await ledgers.metadata()).is_closed
    # Catches: a silent close, a hot loop.


async def test_s33_a_person_may_accept_the_loss_and_it_is_recorded() -> None:
    ledgers = await two_unclean_with_an_absent_tail()
    closed = (await ledgers.recover(loss=accept(5))).metadata.value
    assert closed.last_entry_id == 4
    assert b'"by": "ops"' in closed.custom[ACCEPTED_LOSS_KEY]
    # Catches: no way out, a close without its record.


async def test_s33_the_acceptance_is_void_while_a_member_is_merely_away() -> None:
    ledgers = await two_unclean_with_an_absent_tail()
    ledgers.fleet[1].down = True
    with pytest.raises(UndecidableError, match="merely away"):
        await ledgers.recover(loss=accept(5))
    assert not (await ledgers.metadata()).is_closed


async def test_s33_the_acceptance_is_void_when_a_copy_has_appeared() -> None:
    ledgers = await two_unclean_with_an_absent_tail()
    ledgers.put(5, 2, flags=1)
    with pytest.raises(UndecidedError, match="possible loss from 6 on"):
        await ledgers.recover(loss=accept(5))
    assert (await ledgers.recover(loss=accept(6))).metadata.value.last_entry_id == 5


async def after_a_power_cut() -> FleetLedgers:
    """S34, 5/3/2: e0..e6 flushed, e8 and e9 survive on one bookie each, e7 on none."""
    ledgers = FleetLedgers(5)
    await ledgers.create(5, 3, 2)
    for entry_id in range(7):
        ledgers.put(entry_id, *members(entry_id))
    for number in range(5):
        ledgers.fleet[number].flush()
    ledgers.put(8, members(8)[0], lac=6)
    ledgers.put(9, members(9)[0], lac=8)
    for number in {members(8)[0], members(9)[0]}:
        ledgers.fleet[number].flush()
    ledgers.put(7, *members(7))
    await ledgers.crash(*range(5))
    return ledgers


def members(entry_id: int) -> tuple[int, ...]:
    return write_set_positions(EntryId(entry_id), ensemble_size=5, write_quorum=3)


async def test_s34_a_loss_that_is_certain_is_told_apart_from_one_that_is_possible() -> None:
    ledgers = await after_a_power_cut()
    with pytest.raises(UndecidedError, match="possible loss from 10 on") as caught:
        await ledgers.recover()
    assert caught.value.__notes__ == ["1 acknowledged entries were found nowhere: 7"]


async def test_s34_survivors_are_recovered_and_the_loss_is_reported() -> None:
    ledgers = await after_a_power_cut()
    result = await ledgers.recover(loss=accept(10))
    assert result.metadata.value.last_entry_id == 9
    assert [missing.entry_id for missing in result.missing] == [7]
    reader = await ledgers.reader()
    for entry_id in (0, 6, 8, 9):
        [entry] = await reader.read(EntryId(entry_id), EntryId(entry_id))
        assert entry.payload == payload_of(entry_id)
    for entry_id in (8, 9):
        assert sum(entry_id in ledgers.held(number) for number in range(5)) >= 2
    # Catches: cutting the survivors off at the first hole, a loss nobody hears of.


async def test_s34_the_lost_entry_reads_as_unknown_then_as_lost() -> None:
    ledgers = await after_a_power_cut()
    await ledgers.recover(loss=accept(10))
    reader = await ledgers.reader()
    with pytest.raises(UndecidableError):
        await reader.read(EntryId(7), EntryId(7))
    for number in range(5):
        ledgers.fleet[number].clear(ledgers.ledger_id)
    with pytest.raises(DataLossError, match="entry 7 is lost"):
        await reader.read(EntryId(7), EntryId(7))


async def closed_and_then_lost() -> FleetLedgers:
    """S35: W closes at 20; B0 and B1 crash before their flush; B2 never had e20."""
    ledgers = await three()
    writer = await writer_of(ledgers)
    for entry_id in range(20):
        await writer.append(payload_of(entry_id))
    for number in range(3):
        ledgers.fleet[number].flush()
    ledgers.fleet.hold(2, only=adds)
    await writer.append(payload_of(20))
    assert await writer.close() == 20
    await ledgers.crash(0, 1)
    return ledgers


async def test_s35_an_entry_within_the_closed_end_is_never_reported_as_not_there() -> None:
    ledgers = await closed_and_then_lost()
    reader = await ledgers.reader()
    assert len(await reader.read(EntryId(0), EntryId(19))) == 20
    with pytest.raises(UndecidableError):
        await reader.read(EntryId(20), EntryId(20))
    for number in (0, 1):
        ledgers.fleet[number].clear(ledgers.ledger_id)
    with pytest.raises(DataLossError, match="entry 20 is lost"):
        await reader.read(EntryId(20), EntryId(20))
    # Catches: a denial shown to the reader as the end of the ledger.


async def test_s36_a_closed_ledger_keeps_its_end() -> None:
    ledgers = await three()
    ledgers.put(0, 0, 1)
    closed = (await ledgers.recover()).metadata
    await ledgers.crash(0, wipe=True)
    ledgers.fleet[1].down = True
    again = await ledgers.recover()
    assert again.adopted and again.metadata == closed
    assert not [call for call in ledgers.fleet.calls if adds(call) and call.ledger_id < 0]
    # Catches: re-opening a closed ledger, which would end it at -1.


async def test_s36_no_acceptance_lowers_a_closed_end() -> None:
    ledgers = await three()
    ledgers.put(0, 0, 1)
    await ledgers.recover()
    with pytest.raises(BadRequestError, match="is closed at 0"):
        await ledgers.recover(loss=accept(0))
    assert (await ledgers.metadata()).last_entry_id == 0


async def test_a_fenced_writer_hears_unknown_not_lost() -> None:
    ledgers = await three()
    writer = await writer_of(ledgers)
    await writer.append(b"e0")
    await ledgers.recover()
    assert ledgers.put(1, 0) == [Status.FENCED] and writer.acked == [0]
