"""A log of ledgers: one owner at a time, order over rolls and owners, whole ledgers truncated."""

import asyncio
from collections.abc import Sequence
from itertools import combinations

import pytest
from bookie.client.log import ReplicatedLog
from bookie.client.log_chain import CHANGES_LOST_MAX, LogSettings
from bookie.client.log_list import LedgerList, ListStore
from bookie.client.log_reading import LogPosition, read_log
from bookie.errors import (
    BadRequestError,
    LedgerClosedError,
    LedgerFencedError,
    MetadataConflictError,
    MetadataFormatError,
    NoSuchLedgerError,
    UnavailableError,
)
from bookie.frames.entry import ENTRY_BYTES_MAX
from bookie.ids import EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import Unreadable, Versioned
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.testing.fleet import FakeFleet
from fleet_writer import FleetClient

SETTINGS = LogSettings(3, 3, 2)


async def client(bookies: int = 3, store: MemoryStore | None = None) -> FleetClient:
    store, fleet = store or MemoryStore(), FakeFleet(bookies)
    await store.initialise()
    await fleet.register(store)
    return FleetClient(store, fleet)


async def opened(ledgers: FleetClient, **settings: int) -> ReplicatedLog:
    chosen = LogSettings(3, 3, 2, **settings)  # type: ignore[arg-type]
    return await ReplicatedLog.open("log", ledgers=ledgers, store=ledgers.store, settings=chosen)


async def append(log: ReplicatedLog, *payloads: bytes) -> LogPosition:
    return await log.append_many(payloads)


async def content(ledgers: FleetClient, start: LogPosition | None = None) -> list[bytes]:
    return [
        entry.payload
        async for entry in read_log("log", ledgers=ledgers, store=ledgers.store, start=start)
    ]


async def test_what_was_appended_is_read_back_in_order() -> None:
    ledgers = await client()
    log = await opened(ledgers)
    await append(log, b"a", b"b", b"c")
    await log.close()
    assert await content(ledgers) == [b"a", b"b", b"c"]


async def test_opening_takes_over_and_keeps_what_was_acknowledged() -> None:
    ledgers = await client()
    old = await opened(ledgers)
    await append(old, b"a", b"b")
    new = await opened(ledgers)
    await append(new, b"c")
    await new.close()
    assert await content(ledgers) == [b"a", b"b", b"c"]


async def test_a_bookie_that_calls_an_add_a_bad_request_ends_the_log() -> None:
    ledgers = await client()
    log = await opened(ledgers)
    for number in range(3):
        ledgers.fleet[number].refuse_adds = Status.BAD_REQUEST
    with pytest.raises(BadRequestError):
        await log.append(b"a")
    assert not log.is_owned


async def test_a_payload_that_is_too_large_is_refused_and_the_log_goes_on() -> None:
    log = await opened(await client())
    with pytest.raises(BadRequestError):
        await log.append(bytes(ENTRY_BYTES_MAX))
    assert log.is_owned and await log.append(b"a")


async def test_the_old_owner_is_fenced_and_can_reopen() -> None:
    ledgers = await client()
    old, new = await opened(ledgers), await opened(ledgers)
    with pytest.raises(LedgerFencedError):
        await old.append(b"late")
    assert not old.is_owned
    again = await old.reopen()
    await append(again, b"a")
    with pytest.raises(LedgerFencedError):
        await new.append(b"late")


async def test_a_lost_log_fails_every_later_append() -> None:
    ledgers = await client()
    old = await opened(ledgers)
    await opened(ledgers)
    for _ in range(2):
        with pytest.raises(LedgerFencedError):
            await old.append(b"late")
    await old.room()


async def test_rolling_closes_the_ledger_before_and_keeps_the_order() -> None:
    ledgers = await client()
    log = await opened(ledgers)
    await append(log, b"a")
    old_id = log.ledger_id
    assert await log.roll() == log.ledger_id != old_id
    await append(log, b"b")
    assert (await ledgers.store.read_ledger(old_id)).value.is_closed
    await log.close()
    assert await content(ledgers) == [b"a", b"b"]


LIMITS = pytest.mark.parametrize("limit", [{"roll_entries": 10}, {"roll_bytes": 20}], ids=str)
"""Ten entries of two bytes fill a ledger."""


@LIMITS
async def test_a_full_ledger_is_rolled_by_itself(limit: dict[str, int]) -> None:
    ledgers = await client()
    log = await opened(ledgers, **limit)
    for number in range(40):
        await append(log, b"%02d" % number)
        await ledgers.fleet.settle()
    assert len(log.ledger_ids) == 5
    await log.close()
    assert await content(ledgers) == [b"%02d" % number for number in range(40)]


class NoNewLedgers(MemoryStore):
    """Gives no ledger id while it `is_short` of them; counts how often it was asked then."""

    is_short, refused = False, 0

    async def new_ledger_id(self) -> LedgerId:
        if self.is_short:
            self.refused += 1
            raise UnavailableError("no id now")
        return await super().new_ledger_id()


@LIMITS
@pytest.mark.parametrize("together", [1, 2, 5])
async def test_a_roll_that_failed_is_tried_again_once_the_ledger_is_full_once_more(
    limit: dict[str, int], together: int
) -> None:
    """Not at each append: the store that refuses would get as many requests."""
    ledgers = await client(store=(store := NoNewLedgers()))
    log = await opened(ledgers, **limit)
    store.is_short = True
    for _ in range(0, 40, together):
        await append(log, *[b"xy"] * together)
        await ledgers.fleet.settle()
    assert store.refused == 4 and len(log.ledger_ids) == 1
    await log.close()


async def test_appends_during_a_roll_wait_their_turn() -> None:
    ledgers = await client()
    log = await opened(ledgers)
    for number in range(3):
        ledgers.fleet.hold_replies(number)
    first = log.append(b"a")
    rolling = asyncio.ensure_future(log.roll())
    await ledgers.fleet.settle()
    second = log.append(b"b")
    await ledgers.fleet.settle()
    assert not second.done() and not rolling.done()
    for number in range(3):
        ledgers.fleet.heal(number)
        ledgers.fleet.release(number)
    assert (await second) > (await first)
    assert (await second).ledger_id == await rolling


async def test_an_append_that_waits_for_a_cancelled_roll_is_stored() -> None:
    ledgers = await client()
    log = await opened(ledgers)
    for number in range(3):
        ledgers.fleet.hold_replies(number)
    log.append(b"a")
    rolling = asyncio.ensure_future(log.roll())
    await ledgers.fleet.settle()
    waiting = log.append(b"b")
    rolling.cancel()
    await asyncio.gather(rolling, return_exceptions=True)
    for number in range(3):
        ledgers.fleet.heal(number)
        ledgers.fleet.release(number)
    assert (await waiting).ledger_id == log.ledger_id


async def test_too_many_waiting_appends_are_refused() -> None:
    ledgers = await client()
    log = await opened(ledgers, waiting_max=1)
    for number in range(3):
        ledgers.fleet.hold_replies(number)
    log.append(b"a")
    rolling = asyncio.ensure_future(log.roll())
    await ledgers.fleet.settle()
    log.append(b"b")
    with pytest.raises(UnavailableError, match=r"await room"):
        await log.append(b"c")
    rolling.cancel()
    await asyncio.gather(rolling, return_exceptions=True)


async def test_a_roll_by_an_owner_that_lost_the_log_is_refused() -> None:
    ledgers = await client()
    old = await opened(ledgers)
    new = await opened(ledgers)
    with pytest.raises(LedgerFencedError):
        await old.roll()
    assert (await ledgers.store.read_ledger(new.ledger_id)).value.state.value == "OPEN"
    ids = [ledger_id async for ledger_id in ledgers.store.ledger_ids()]
    assert set(ids) == set(new.ledger_ids)


async def test_truncating_deletes_whole_ledgers_only() -> None:
    ledgers = await client()
    log = await opened(ledgers)
    first = await append(log, b"a", b"b")
    await log.roll()
    second = await append(log, b"c", b"d")
    assert await log.truncate(second) == (first.ledger_id,)
    with pytest.raises(NoSuchLedgerError):
        await ledgers.store.read_ledger(first.ledger_id)
    await log.close()
    assert await content(ledgers) == [b"c", b"d"]


async def test_truncating_at_an_unknown_ledger_is_refused() -> None:
    log = await opened(await client())
    with pytest.raises(BadRequestError, match="has no ledger 99"):
        await log.truncate(LogPosition(LedgerId(99), EntryId(0)))


async def test_a_truncation_that_was_cut_short_is_finished_by_the_next_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledgers = await client()
    log = await opened(ledgers)
    first = await append(log, b"a")
    await log.roll()
    kept = await append(log, b"b")

    async def cut_short(_ledger_id: LedgerId) -> None:
        raise UnavailableError("no ZooKeeper")

    monkeypatch.setattr(ledgers, "delete_ledger", cut_short)
    with pytest.raises(UnavailableError):
        await log.truncate(kept)
    monkeypatch.undo()
    await opened(ledgers)
    with pytest.raises(NoSuchLedgerError):
        await ledgers.store.read_ledger(first.ledger_id)


@pytest.mark.parametrize("gone", [set(c) for n in range(4) for c in combinations(range(3), n)])
@pytest.mark.parametrize("by_next_owner", [False, True])
async def test_whatever_is_gone_already_a_truncation_leaves_no_ledger_behind(
    gone: set[int], by_next_owner: bool
) -> None:
    ledgers = await client()
    log = await opened(ledgers)
    for _ in range(3):
        await append(log, b"old")
        await log.roll()
    kept = await append(log, b"kept")
    if by_next_owner:
        listed = ListStore(ledgers.store, "log")
        await listed.write((await listed.read()).truncated(kept.ledger_id))
    for at in gone:
        await ledgers.delete_ledger(log.ledger_ids[at])
    left = (await opened(ledgers)).ledger_ids if by_next_owner else log.ledger_ids[3:]
    if not by_next_owner:
        await log.truncate(kept)
    assert [i async for i in ledgers.store.ledger_ids()] == list(left)


async def test_reading_can_start_in_the_middle() -> None:
    ledgers = await client()
    log = await opened(ledgers)
    await append(log, b"a", b"b")
    await log.roll()
    await append(log, b"c")
    await log.close()
    start = LogPosition(log.ledger_ids[0], EntryId(1))
    assert await content(ledgers, start) == [b"b", b"c"]


async def test_reading_stops_at_the_first_open_ledger() -> None:
    ledgers = await client()
    log = await opened(ledgers)
    await append(log, b"a")
    await append(log, b"b")
    assert [entry.payload async for entry in log.read_all()] == [b"a"]


async def test_a_closed_log_takes_no_more() -> None:
    log = await opened(await client())
    await log.close()
    with pytest.raises(LedgerClosedError):
        await log.append(b"late")


@pytest.mark.parametrize("bookies", [3, 4])
async def test_an_unclean_restart_of_one_bookie_costs_the_owner_nothing(bookies: int) -> None:
    ledgers = await client(bookies)
    log = await opened(ledgers)
    acked = [b"%d" % number for number in range(6)]
    await append(log, *acked[:3])
    ledgers.fleet[0].crash()
    await ledgers.fleet[0].boot(ledgers.store)
    for payload in acked[3:]:
        await append(log, payload)
    await log.close()
    assert await content(ledgers) == acked


async def test_two_openers_at_once_leave_one_owner() -> None:
    ledgers = await client()
    one, two = await asyncio.gather(opened(ledgers), opened(ledgers))
    results = await asyncio.gather(one.append(b"1"), two.append(b"2"), return_exceptions=True)
    assert sum(isinstance(result, LogPosition) for result in results) == 1


async def test_an_append_during_the_close_is_refused_and_does_not_end_the_close() -> None:
    ledgers = await client()
    log = await opened(ledgers)
    for number in range(3):
        ledgers.fleet.hold_replies(number)
    first = log.append(b"a")
    closing = asyncio.ensure_future(log.close())
    await ledgers.fleet.settle()
    late = log.append(b"late")
    for number in range(3):
        ledgers.fleet.heal(number)
        ledgers.fleet.release(number)
    await closing
    assert isinstance(late.exception(), LedgerClosedError) and first.result().entry_id == 0
    assert (await ledgers.store.read_ledger(first.result().ledger_id)).value.is_closed


class UnreadableLedger(MemoryStore):
    """A session that cannot make sense of the metadata of one ledger."""

    unreadable = LedgerId(-1)
    lags = False
    """What lists all of them has not heard of it yet."""

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        if ledger_id == self.unreadable:
            raise MetadataFormatError(f"ledger {ledger_id}: version 9")
        return await super().read_ledger(ledger_id)

    async def read_ledgers(
        self, ledger_ids: Sequence[LedgerId], *, unreadable: Unreadable | None = None
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        assert unreadable is not None
        others = [one for one in ledger_ids if one != self.unreadable]
        if len(others) < len(ledger_ids) and not self.lags:
            unreadable[self.unreadable] = MetadataFormatError("version 9")
        return await super().read_ledgers(others)


@pytest.mark.parametrize("lags", [False, True])
async def test_a_listed_ledger_that_nobody_can_read_is_there_and_stays_on_the_list(
    lags: bool,
) -> None:
    store, fleet = UnreadableLedger(), FakeFleet(3)
    await store.initialise()
    await fleet.register(store)
    ledgers = FleetClient(store, fleet)
    log = await opened(ledgers)
    for payload in (b"a", b"b", b"c"):
        await append(log, payload)
        await log.roll()
    store.unreadable, store.lags = log.ledger_ids[0], lags
    again = await opened(ledgers)
    assert again.ledger_ids[:4] == log.ledger_ids
    store.lags = False
    with pytest.raises(MetadataFormatError):
        await content(ledgers)


class Contested(MemoryStore):
    """Another one writes the list again right before each write of it, as often as is said."""

    times = 0
    tried = 0

    async def write_value(self, name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        self.tried += 1
        if self.tried <= self.times:
            found = await self.read_value(name)
            theirs = found.value if found is not None else LedgerList().encode()
            await super().write_value(name, theirs, version=version)
        return await super().write_value(name, data, version=version)


@pytest.mark.parametrize("times", [CHANGES_LOST_MAX - 1, 1000])
async def test_a_log_whose_list_others_change_all_the_time_is_given_up_with_nothing_left(
    times: int,
) -> None:
    store, fleet = Contested(), FakeFleet(3)
    await store.initialise()
    await fleet.register(store)
    store.times = times
    ledgers = FleetClient(store, fleet)
    if times < CHANGES_LOST_MAX:
        await (await opened(ledgers)).close()
    else:
        with pytest.raises(MetadataConflictError, match="others changed it 16 times"):
            await opened(ledgers)
    assert store.tried == CHANGES_LOST_MAX
    assert len(store.cluster.ledgers) == (times < CHANGES_LOST_MAX)
