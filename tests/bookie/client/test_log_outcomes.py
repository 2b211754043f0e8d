"""Writes of a log's list whose outcome is not told: looked up before anything is concluded.

`lose_reply`: the next write of the list happens and its writer hears nothing. `delay`: it happens
when the test lets it land. `behind`: somebody else goes on before the writer looks again.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from bookie.client.log import ReplicatedLog
from bookie.client.log_chain import LogSettings
from bookie.client.log_reading import read_log
from bookie.errors import (
    BookieError,
    LedgerFencedError,
    MetadataConflictError,
    UnavailableError,
)
from bookie.ids import LedgerId
from bookie.metadata.opening import open_store
from bookie.metadata.store import MetadataStore
from bookie.testing.fleet import FakeFleet
from bookie.testing.metadata import FaultyStore
from fleet_writer import FleetClient


class Lab:
    """A log with two owners: `one` has a store that loses and delays, `two` has a good one."""

    def __init__(self, one: MetadataStore, two: MetadataStore, fleet: FakeFleet) -> None:
        self.store = FaultyStore(one)
        self.one = FleetClient(self.store, fleet)
        self.two = FleetClient(two, fleet)

    async def open(self, ledgers: FleetClient) -> ReplicatedLog:
        return await ReplicatedLog.open(
            "log", ledgers=ledgers, store=ledgers.store, settings=LogSettings(2, 2, 2)
        )

    async def content(self) -> list[bytes]:
        entries = read_log("log", ledgers=self.two, store=self.two.store)
        return [entry.payload async for entry in entries]

    async def ledgers(self) -> list[LedgerId]:
        return [ledger_id async for ledger_id in self.two.store.ledger_ids()]

    def at_list_write(self, act: Callable[[], Awaitable[object]]) -> None:
        """Just before the next write of the list."""

        async def before(name: str) -> None:
            if name == "write_value":
                self.store.before = None
                await act()

        self.store.before = before

    def lose_reply(self, behind: Callable[[], Awaitable[object]] | None = None) -> None:
        async def lose() -> None:
            self.store.lost_replies = 1
            if behind is not None:
                self.at_next_look(behind)

        self.at_list_write(lose)

    def delay(self, writes: int = 99) -> None:
        """The next writes of the list come late, the look between them goes through."""
        left = writes

        async def before(name: str) -> None:
            nonlocal left
            if name == "write_value" and left:
                left -= 1
                self.store.late_writes = 1

        self.store.before = before

    def heal(self) -> None:
        self.store.before = None

    def at_next_look(self, act: Callable[[], Awaitable[object]]) -> None:
        async def before(name: str) -> None:
            if name in ("read_value", "barrier"):
                self.store.before = None
                await act()

        self.store.before = before


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.process)])
async def lab(request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    url = f"memory://{request.node.nodeid}"
    if request.param == "zookeeper":
        url = request.getfixturevalue("zookeeper_url")
    one, two, fleet = await open_store(url), await open_store(url), FakeFleet(2)
    await one.initialise()
    await fleet.register(one)
    yield Lab(one, two, fleet)
    await one.close()
    await two.close()


async def test_a3_an_open_that_won_unheard_leaves_its_ledger_to_who_came_behind(lab: Lab) -> None:
    behind: list[ReplicatedLog] = []

    async def two_opens() -> None:
        behind.append(await lab.open(lab.two))

    lab.lose_reply(two_opens)
    one = await lab.open(lab.one)
    assert list(one.ledger_ids) == await lab.ledgers()
    assert one.ledger_ids[:2] == behind[0].ledger_ids
    with pytest.raises(LedgerFencedError):
        await behind[0].append(b"late")


async def test_a3_a_roll_that_was_told_nothing_deletes_no_listed_ledger(lab: Lab) -> None:
    one = await lab.open(lab.one)
    await one.append(b"a")
    behind: list[ReplicatedLog] = []

    async def two_opens() -> None:
        behind.append(await lab.open(lab.two))
        await behind[0].append(b"b")

    lab.lose_reply(two_opens)
    with pytest.raises(LedgerFencedError):
        await one.roll()
    await behind[0].close()
    assert await lab.content() == [b"a", b"b"]
    assert list(behind[0].ledger_ids) == await lab.ledgers()


async def test_an_open_whose_reply_was_lost_owns_the_log(lab: Lab) -> None:
    lab.lose_reply()
    one = await lab.open(lab.one)
    await one.append(b"a")
    await one.close()
    assert await lab.content() == [b"a"]
    assert len(await lab.ledgers()) == 1


async def test_a_ledger_that_lost_for_good_is_given_up(lab: Lab) -> None:
    async def two_opens() -> None:
        await lab.open(lab.two)

    lab.at_list_write(two_opens)
    one = await lab.open(lab.one)
    assert list(one.ledger_ids) == await lab.ledgers()


async def test_an_open_that_cannot_tell_leaves_its_ledger_over_and_names_it(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    lab.delay()
    with pytest.raises(UnavailableError):
        await lab.open(lab.one)
    (left,) = await lab.ledgers()
    assert f"ledger {left} is left over" in caplog.text
    lab.heal()
    await lab.store.land()
    one = await lab.open(lab.one)
    assert one.ledger_ids[0] == left and list(one.ledger_ids) == await lab.ledgers()


async def test_a_write_that_is_late_once_is_written_again_and_counts_once(lab: Lab) -> None:
    lab.delay(1)
    one = await lab.open(lab.one)
    await lab.store.land()
    await one.append(b"a")
    await one.close()
    assert await lab.content() == [b"a"]


async def cut_off_roll(lab: Lab) -> ReplicatedLog:
    """An owner whose list may come to name one ledger more, and who knows nothing of it."""
    one = await lab.open(lab.one)
    await one.append(b"a")
    lab.delay()
    with pytest.raises(UnavailableError):
        await one.roll()
    lab.heal()
    return one


async def test_b6_a_roll_that_lands_later_is_gone_on_with(lab: Lab) -> None:
    one = await cut_off_roll(lab)
    await lab.store.land()
    assert await one.roll() == one.ledger_ids[-1]
    assert list(one.ledger_ids) == await lab.ledgers()
    assert len(one.ledger_ids) == 2
    await one.append(b"b")
    await one.close()
    assert await lab.content() == [b"a", b"b"]


async def test_b6_a_roll_that_never_lands_is_made_good_with_the_same_ledger(lab: Lab) -> None:
    one = await cut_off_roll(lab)
    await one.roll()
    await lab.store.land()
    assert list(one.ledger_ids) == await lab.ledgers()
    await one.append(b"b")
    await one.close()
    assert await lab.content() == [b"a", b"b"]


async def test_b6_a_truncation_meets_a_roll_that_landed_and_keeps_the_log(lab: Lab) -> None:
    one = await lab.open(lab.one)
    await one.append(b"old")
    await one.roll()
    kept = await one.append(b"a")
    lab.delay()
    with pytest.raises(UnavailableError):
        await one.roll()
    lab.heal()
    await lab.store.land()
    assert len(await one.truncate(kept)) == 1
    await one.append(b"b")
    assert one.is_owned
    await one.roll()
    await one.append(b"c")
    await one.close()
    assert await lab.content() == [b"a", b"b", b"c"]


async def test_b6_appends_go_on_while_the_outcome_of_a_roll_is_unknown(lab: Lab) -> None:
    one = await cut_off_roll(lab)
    await one.append(b"b")
    await lab.store.land()
    await one.append(b"c")
    two = await lab.open(lab.two)
    with pytest.raises(LedgerFencedError):
        await one.append(b"late")
    await two.append(b"d")
    await two.close()
    assert await lab.content() == [b"a", b"b", b"c", b"d"]


async def test_b6_a_close_finishes_the_roll_so_that_no_listed_ledger_stays_open(lab: Lab) -> None:
    one = await cut_off_roll(lab)
    await lab.store.land()
    await one.close()
    for ledger_id in await lab.ledgers():
        assert (await lab.two.store.read_ledger(ledger_id)).value.is_closed
    assert await lab.content() == [b"a"]


async def test_an_owner_that_loses_the_log_names_what_it_leaves_over(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    one = await cut_off_roll(lab)
    left = (await lab.ledgers())[-1]
    two = await lab.open(lab.two)
    with pytest.raises(LedgerFencedError):
        await one.append(b"late")
    assert f"ledger {left} is left over" in caplog.text
    assert left not in two.ledger_ids


async def test_a_truncation_that_lands_later_is_no_hole_for_an_earlier_one(lab: Lab) -> None:
    one = await lab.open(lab.one)
    first = await one.append(b"a")
    await one.roll()
    second = await one.append(b"b")
    await one.roll()
    third = await one.append(b"c")
    lab.delay()
    with pytest.raises(UnavailableError):
        await one.truncate(third)
    lab.heal()
    await lab.store.land()
    assert await one.truncate(second) == (first.ledger_id, second.ledger_id)
    await one.close()
    assert await lab.content() == [b"c"]


async def test_a_truncation_whose_outcome_is_unknown_deletes_nothing(lab: Lab) -> None:
    one = await lab.open(lab.one)
    await one.append(b"a")
    await one.roll()
    kept = await one.append(b"b")
    lab.delay()
    with pytest.raises(UnavailableError):
        await one.truncate(kept)
    two = await lab.open(lab.two)
    await two.close()
    assert await lab.content() == [b"a", b"b"]


async def test_a_cancelled_roll_is_finished_by_the_next_one(lab: Lab) -> None:
    one = await lab.open(lab.one)

    reached = asyncio.Event()

    async def forever() -> None:
        reached.set()
        await asyncio.get_running_loop().create_future()

    lab.at_list_write(forever)
    rolling = asyncio.ensure_future(one.roll())
    await reached.wait()
    rolling.cancel()
    await asyncio.gather(rolling, return_exceptions=True)
    await one.roll()
    assert list(one.ledger_ids) == await lab.ledgers()


# Listed ledgers that do not exist
async def with_a_missing_ledger(lab: Lab, *, place: int) -> ReplicatedLog:
    """Three ledgers with one entry each, closed; one of them was deleted by whoever."""
    one = await lab.open(lab.one)
    for payload in (b"a", b"b", b"c"):
        await one.append(payload)
        if payload != b"c":
            await one.roll()
    await one.close()
    await lab.two.delete_ledger(one.ledger_ids[place])
    return one


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a3_reading_skips_a_listed_ledger_that_does_not_exist_and_says_so(
    lab: Lab, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    one = await with_a_missing_ledger(lab, place=place)
    expected = [b"a", b"b", b"c"]
    del expected[place]
    assert await lab.content() == expected
    assert f"ledger {one.ledger_ids[place]} is on its list and does not exist" in caplog.text


async def test_a_reader_that_cannot_do_with_a_hole_stops_there(lab: Lab) -> None:
    one = await with_a_missing_ledger(lab, place=1)
    found: list[bytes] = []

    def stop(ledger_id: LedgerId) -> None:
        raise LookupError(ledger_id)

    with pytest.raises(LookupError, match=str(one.ledger_ids[1])):
        async for entry in read_log("log", ledgers=lab.two, store=lab.two.store, on_missing=stop):
            found.append(entry.payload)
    assert found == [b"a"]


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a3_opening_takes_missing_ledgers_off_the_list(
    lab: Lab, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    one = await with_a_missing_ledger(lab, place=place)
    two = await lab.open(lab.two)
    assert f"ledger {one.ledger_ids[place]} was on its list and does not exist" in caplog.text
    assert list(two.ledger_ids) == await lab.ledgers()
    await two.append(b"d")
    await two.close()
    caplog.clear()
    assert len(await lab.content()) == 3 and not caplog.records


async def test_an_owner_whose_ledger_was_deleted_opens_again_and_goes_on(lab: Lab) -> None:
    one = await lab.open(lab.one)
    await one.append(b"a")
    await one.roll()
    await lab.two.delete_ledger(one.ledger_id)
    with pytest.raises(BookieError):
        await one.roll()
    again = await one.reopen()
    await again.append(b"b")
    await again.close()
    assert await lab.content() == [b"a", b"b"]


async def test_a_store_that_does_not_answer_has_no_missing_ledgers(lab: Lab) -> None:
    await with_a_missing_ledger(lab, place=1)
    before = await lab.two.store.read_value("logs/log")
    lab.store.is_out = True
    with pytest.raises(UnavailableError):
        await lab.open(lab.one)
    with pytest.raises(UnavailableError):
        [entry async for entry in read_log("log", ledgers=lab.one, store=lab.store)]
    assert await lab.two.store.read_value("logs/log") == before


async def test_a_ledger_that_a_stale_read_does_not_show_stays_on_the_list(lab: Lab) -> None:
    """A session that lags behind: what it read before the barrier is no proof of absence."""
    await lab.store.freeze_ledgers()
    one = await lab.open(lab.two)
    await one.append(b"a")
    await one.close()
    assert [e.payload async for e in read_log("log", ledgers=lab.one, store=lab.store)] == [b"a"]
    await lab.store.freeze_ledgers()
    two = await lab.open(lab.two)
    await two.append(b"b")
    await two.close()
    three = await lab.open(lab.one)
    assert list(three.ledger_ids) == await lab.ledgers()


async def test_a_reader_under_whom_the_log_was_truncated_is_told(lab: Lab) -> None:
    one = await lab.open(lab.one)
    await one.append(b"a")
    await one.roll()
    await one.append(b"b")
    await one.roll()
    kept = await one.append(b"c")
    await one.close()
    again = await lab.open(lab.two)
    reading = read_log("log", ledgers=lab.one, store=lab.store)
    assert (await anext(reading)).payload == b"a"
    await again.truncate(kept)
    with pytest.raises(MetadataConflictError, match="truncated"):
        await anext(reading)
    assert await lab.content() == [b"c"]


async def test_a_reader_that_has_read_nothing_yet_begins_where_the_log_begins_now(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    one = await lab.open(lab.two)
    await one.append(b"a")
    await one.roll()
    kept = await one.append(b"b")
    await one.roll()

    async def truncate(name: str) -> None:
        if name == "read_ledger":
            lab.store.before = None
            await one.truncate(kept)

    lab.store.before = truncate
    found = [e.payload async for e in read_log("log", ledgers=lab.one, store=lab.store)]
    assert found == [b"b"]
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
