"""The recovery shell: carries effects out, retries what cannot be decided, names who is missing."""

import asyncio
from dataclasses import replace

import pytest
from bookie.client.recovery import (
    RecoverySettings,
    accepted_loss,
    recover,
    registered_replacements,
)
from bookie.errors import (
    NoSuchLedgerError,
    UnauthorizedError,
    UnavailableError,
    UndecidableError,
)
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import RPC_ENDPOINT, RUN_ENDPOINT, BookieInfo, Endpoint, Versioned
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.protocol.status import Status
from bookie.testing.metadata import FaultyStore
from bookie.wire.native import Op
from fleet_ledgers import FleetLedgers, no_sleep


async def lab(*entry_ids: int, bookies: int = 3) -> FleetLedgers:
    ledgers = FleetLedgers(bookies)
    await ledgers.create(3, 3, 2)
    ledgers.put(entry_ids, 0, 1, 2)
    return ledgers


async def test_an_open_ledger_is_closed_at_its_last_entry() -> None:
    ledgers = await lab(0, 1, 2)
    result = await ledgers.recover()
    assert (result.metadata.value.last_entry_id, result.adopted, result.attempts) == (2, False, 1)
    assert (await ledgers.metadata()).is_closed


async def test_recovering_twice_gives_the_same_end() -> None:
    ledgers = await lab(0, 1)
    first = await ledgers.recover()
    again = await ledgers.recover()
    assert again.adopted and again.metadata == first.metadata


async def test_the_old_writer_is_fenced_out() -> None:
    ledgers = await lab(0)
    await ledgers.recover()
    assert ledgers.put(1, 0, 1, 2) == [Status.FENCED] * 3


async def test_two_recoveries_at_once_agree() -> None:
    ledgers = await lab(0, 1)
    one, two = await asyncio.gather(ledgers.recover(), ledgers.recover())
    assert one.metadata.value == two.metadata.value


async def test_a_failed_member_is_replaced_by_a_registered_bookie() -> None:
    ledgers = await lab(0, bookies=4)
    ledgers.put(1, 0, 1, lac=-1)
    ledgers.fleet[0].refuse_adds = Status.READ_ONLY
    ledgers.fleet.hold(1, only=lambda call: call.op is Op.ADD_RUN)
    recovering = asyncio.ensure_future(ledgers.recover())
    await ledgers.fleet.settle()
    ledgers.fleet.release(1)
    closed = (await recovering).metadata.value
    assert ledgers.names(3)[0] in closed.last_fragment.ensemble


async def test_only_a_writable_bookie_of_our_wire_replaces_a_member() -> None:
    store, run = MemoryStore(), Endpoint(RUN_ENDPOINT, "host", 3182, RUN_ENDPOINT)
    b = [BookieId(f"b{number}") for number in range(7)]
    for bookie_id in b[:5]:
        await store.register(BookieInfo(bookie_id, (run,), read_only=bookie_id == b[4]))
    await store.register(BookieInfo(b[5], (Endpoint(RPC_ENDPOINT, "host", 3181, RPC_ENDPOINT),)))
    chosen = set()
    for ledger_id in map(LedgerId, range(9)):
        choose = registered_replacements(store, ledger_id)
        chosen.add(await choose(ensemble=(b[0], b[6], b[6]), exclude=frozenset({b[1]})))
        assert await choose(ensemble=(b[0], b[2], b[3]), exclude=frozenset({b[1]})) is None
    assert chosen == {b[2], b[3]}


async def test_undecided_is_retried_and_succeeds_when_the_member_is_back() -> None:
    ledgers = await lab(0)
    await ledgers.crash(0)
    ledgers.fleet[1].down = True
    pauses: list[float] = []

    async def bring_back(seconds: float) -> None:
        pauses.append(seconds)
        ledgers.fleet[1].down = False

    result = await recover(ledgers.store, ledgers.fleet, ledgers.ledger_id, sleep=bring_back)
    assert (result.attempts, len(pauses)) == (2, 1)
    assert result.metadata.value.last_entry_id == 0


async def test_undecided_for_good_names_the_members_and_closes_nothing() -> None:
    ledgers = await lab(0)
    await ledgers.crash(0)
    ledgers.fleet[1].down = True
    with pytest.raises(UndecidableError, match=r"bookie-1: UNREACHABLE.*bookie-0: UNKNOWN"):
        await ledgers.recover(settings=RecoverySettings(attempts=3))
    assert (await ledgers.metadata()).state is LedgerState.IN_RECOVERY


async def test_pauses_between_attempts_grow_to_their_bound() -> None:
    ledgers = await lab(0)
    for number in range(3):
        ledgers.fleet[number].down = True
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    settings = RecoverySettings(attempts=5, backoff_s=0.1, backoff_max_s=0.3)
    with pytest.raises(UndecidableError):
        await recover(
            ledgers.store, ledgers.fleet, ledgers.ledger_id, settings=settings, sleep=note
        )
    assert pauses == [0.1, 0.2, 0.3, 0.3]


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("calls", [1, 2, 5])
async def test_a_metadata_store_that_is_away_for_a_moment_costs_attempts_only(
    at: int, calls: int
) -> None:
    ledgers = await lab(0)
    store = FaultyStore(ledgers.store)

    async def fail(_name: str) -> None:
        if at < len(store.calls) <= at + calls:
            raise UnavailableError("away")

    store.before = fail
    settings = RecoverySettings(attempts=calls + 1)
    result = await recover(
        store, ledgers.fleet, ledgers.ledger_id, settings=settings, sleep=no_sleep
    )
    assert result.metadata.value.last_entry_id == 0 and result.metadata.value.is_closed


async def test_a_wrong_password_reaches_no_bookie() -> None:
    ledgers = await lab(0)
    with pytest.raises(UnauthorizedError):
        await recover(ledgers.store, ledgers.fleet, ledgers.ledger_id, password=b"other")
    assert not ledgers.fleet.calls


async def test_where_no_password_is_stored_the_bookies_judge_it() -> None:
    ledgers = await lab(0)
    await ledgers.write(replace(await ledgers.metadata(), password_is_stored=False))
    with pytest.raises(UnauthorizedError):
        await recover(ledgers.store, ledgers.fleet, ledgers.ledger_id, password=b"other")
    assert ledgers.fleet.calls
    assert (await ledgers.recover()).metadata.value.last_entry_id == 0


async def test_a_ledger_that_does_not_exist_is_an_error() -> None:
    ledgers = await lab()
    with pytest.raises(NoSuchLedgerError):
        await recover(ledgers.store, ledgers.fleet, LedgerId(999), sleep=no_sleep)


async def test_a_write_of_unknown_outcome_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ledgers = await lab(0)
    write = ledgers.store.write_ledger

    async def cut_off(metadata: LedgerMetadata, *, version: int) -> Versioned[LedgerMetadata]:
        await write(metadata, version=version)
        raise UnavailableError("the session was lost after the request was sent")

    monkeypatch.setattr(ledgers.store, "write_ledger", cut_off)
    result = await ledgers.recover()
    assert result.metadata.value.last_entry_id == 0 and result.metadata.value.is_closed


async def test_an_unreachable_store_is_retried_then_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledgers = await lab(0)

    async def gone(_ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        raise UnavailableError("no ZooKeeper")

    monkeypatch.setattr(ledgers.store, "read_ledger", gone)
    with pytest.raises(UnavailableError):
        await ledgers.recover(settings=RecoverySettings(attempts=2))


async def test_an_accepted_loss_is_recorded_as_json() -> None:
    ledgers = await lab(0)
    await ledgers.crash(1)
    ledgers.put(0, 1, flags=1)
    await ledgers.crash(0)
    loss = accepted_loss(EntryId(1), by="ops", reason="disks gone", at_ms=5)
    result = await ledgers.recover(loss=loss)
    assert result.metadata.value.last_entry_id == 0
    assert b'"by": "ops"' in next(iter(result.metadata.value.custom.values()))


async def test_b2_an_ok_without_a_reply_is_no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    ledgers = await lab(0)

    async def empty(*_args: object, **_kwargs: object) -> tuple[Status, None]:
        return Status.OK, None

    monkeypatch.setattr(ledgers.fleet, "read_lac", empty)
    with pytest.raises(UndecidableError, match="bookie-0: UNREACHABLE"):
        await ledgers.recover()
    assert ledgers.put(1, 0, 1, 2) == [Status.OK] * 3


async def test_no_task_is_left_behind() -> None:
    ledgers = await lab(0)
    ledgers.fleet.hold(2)
    await ledgers.recover()
    await ledgers.fleet.settle()
    assert len(asyncio.all_tasks()) == 1


async def test_a_corrupt_copy_that_is_seen_during_a_write_back_does_not_stop_the_recovery() -> None:
    ledgers = FleetLedgers(3)
    await ledgers.create(2, 2, 2)
    ledgers.put((0, 1), 0, 1, lac=-1)
    ledgers.put(2, 1, lac=-1)
    ledgers.fleet[1].corrupt(ledgers.ledger_id, EntryId(2))
    ledgers.fleet.hold(0, only=lambda call: call.op is Op.READ and call.first == 1)
    ledgers.fleet.hold_replies(1, only=lambda call: call.op is Op.ADD_RUN)
    settings = RecoverySettings(attempts=1, read_bytes=1)
    running = asyncio.create_task(
        recover(ledgers.store, ledgers.fleet, ledgers.ledger_id, settings=settings, sleep=no_sleep)
    )
    await ledgers.fleet.settle()  # bookie-1 has shown its corrupt copy; its ack is on its way
    for member in (0, 1):
        ledgers.fleet.heal(member)
        ledgers.fleet.release(member)
    await ledgers.fleet.settle()
    assert running.done() and running.exception() is None
