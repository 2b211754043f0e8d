"""Reading a ledger: ranges in order, other copies, the LAC, and a tail that ends at the close."""

import asyncio

import pytest
from bookie.client import reader as reader_module
from bookie.client.reader import ENTRY_OVERHEAD_BYTES, LedgerReader, ReaderSettings
from bookie.errors import (
    DataLossError,
    NoSuchEntryError,
    UnauthorizedError,
    UndecidableError,
)
from bookie.ids import EntryId
from bookie.protocol.ledger import Fragment
from bookie.protocol.status import Status
from fleet_ledgers import FleetLedgers, payload_of

SMALL = ReaderSettings(piece_entries=3, pieces_ahead=2, poll_ms=1)


async def closed(count: int, *, bookies: int = 3) -> FleetLedgers:
    ledgers = FleetLedgers(bookies)
    await ledgers.create(3, 3, 2)
    ledgers.put(range(count), 0, 1, 2)
    await ledgers.recover()
    return ledgers


async def read(ledgers: FleetLedgers, first: int, last: int) -> list[bytes]:
    reader = await ledgers.reader(settings=SMALL)
    return [entry.payload for entry in await reader.read(EntryId(first), EntryId(last))]


async def test_a_range_over_many_pieces_comes_in_order() -> None:
    ledgers = await closed(20)
    assert await read(ledgers, 2, 19) == [payload_of(i) for i in range(2, 20)]


async def test_pieces_that_end_early_are_gone_on_with_before_later_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader_module, "ENTRY_OVERHEAD_BYTES", 1)
    ledgers = FleetLedgers(3)
    await ledgers.create(3, 3, 2)
    ledgers.put(range(20), 0, 1, 2)
    too_short = (await ledgers.metadata()).closed(EntryId(19), length=1)
    await ledgers.write(too_short)  # so pieces are thought to hold eight entries
    reader = await ledgers.reader(settings=ReaderSettings(read_bytes=1, piece_bytes=8))
    found = await reader.read(EntryId(0), EntryId(19))
    assert [entry.payload for entry in found] == [payload_of(i) for i in range(20)]


async def test_a_piece_has_as_many_entries_as_its_bytes_hold_on_average() -> None:
    ledgers = await closed(20)
    two = 2 * (len(payload_of(19)) + ENTRY_OVERHEAD_BYTES)
    reader = await ledgers.reader(settings=ReaderSettings(piece_bytes=two, pieces_ahead=1))
    ledgers.fleet.calls.clear()
    await reader.read(EntryId(0), EntryId(9))
    assert len(ledgers.fleet.calls) == 5


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
async def test_a_closed_ledger_of_however_few_entries_is_read(count: int) -> None:
    """How many fit a piece is reckoned from its length and its number of entries."""
    ledgers = await closed(count)
    assert (await ledgers.metadata()).length > 0
    assert await read(ledgers, 0, count - 1) == [payload_of(i) for i in range(count)]


async def test_a_range_over_two_fragments_comes_from_both() -> None:
    ledgers = FleetLedgers(4)
    await ledgers.create(3, 3, 2, (0, (0, 1, 2)), (2, (3, 1, 2)))
    ledgers.put((0, 1), 0)
    ledgers.put((2, 3), 3)
    ledgers.fleet[1].down = ledgers.fleet[2].down = True
    await ledgers.write((await ledgers.metadata()).closed(EntryId(3), length=1))
    assert await read(ledgers, 0, 3) == [payload_of(i) for i in range(4)]


async def test_copies_that_are_down_missing_or_corrupt_are_passed_by() -> None:
    ledgers = await closed(4)
    ledgers.fleet[0].down = True
    ledgers.fleet[1].corrupt(ledgers.ledger_id, EntryId(2))
    ledgers.fleet[2].lose(ledgers.ledger_id, [EntryId(0)])
    assert await read(ledgers, 0, 3) == [payload_of(i) for i in range(4)]


async def test_a_bookie_that_answers_again_is_asked_before_those_that_do_not() -> None:
    ledgers = await closed(3)
    reader = await ledgers.reader(settings=SMALL)
    for down in ((1, 2), (0, 1)):
        for place in range(3):
            ledgers.fleet[place].down = place in down
        await reader.read(EntryId(0), EntryId(2))
    ledgers.fleet.calls.clear()
    await reader.read(EntryId(0), EntryId(2))
    assert [call.bookie_id for call in ledgers.fleet.calls] == [ledgers.fleet.ids[2]]


async def test_beyond_the_end_is_no_such_entry_whatever_bookies_hold() -> None:
    ledgers = await closed(2)
    ledgers.put(2, 0, 1, 2, flags=1)
    with pytest.raises(NoSuchEntryError):
        await read(ledgers, 0, 2)


async def test_denied_by_all_within_the_end_is_a_data_loss() -> None:
    ledgers = await closed(3)
    for number in range(3):
        ledgers.fleet[number].lose(ledgers.ledger_id, [EntryId(1)])
    with pytest.raises(DataLossError, match="entry 1 is lost"):
        await read(ledgers, 0, 2)


async def test_a_holder_that_is_away_leaves_it_undecided() -> None:
    ledgers = await closed(3)
    ledgers.fleet[2].down = True
    for number in (0, 1):
        ledgers.fleet[number].lose(ledgers.ledger_id, [EntryId(1)])
    with pytest.raises(UndecidableError, match="bookie-2: UNREACHABLE"):
        await read(ledgers, 0, 2)


async def test_trouble_is_believed_of_the_newest_fragments_only() -> None:
    ledgers = await closed(2, bookies=4)
    reader = await ledgers.reader()
    for number in range(3):
        ledgers.fleet[number].lose(ledgers.ledger_id, [EntryId(0), EntryId(1)])
    ledgers.put((0, 1), 3, flags=1)
    moved = (Fragment(EntryId(0), ledgers.names(3, 1, 2)),)
    await ledgers.write((await ledgers.metadata()).with_fragments(moved))
    assert len(await reader.read(EntryId(0), EntryId(1))) == 2


async def test_silence_is_believed_of_the_newest_fragments_only() -> None:
    ledgers = await closed(2, bookies=6)
    reader = await ledgers.reader()
    ledgers.put((0, 1), 3, flags=1)
    moved = (Fragment(EntryId(0), ledgers.names(3, 4, 5)),)
    await ledgers.write((await ledgers.metadata()).with_fragments(moved))
    for number in range(3):
        ledgers.fleet[number].down = True
    assert len(await reader.read(EntryId(0), EntryId(1))) == 2


async def test_a_bookie_that_failed_is_asked_last_until_it_answers() -> None:
    ledgers = await closed(9)
    reader = await ledgers.reader(settings=ReaderSettings(piece_entries=1, pieces_ahead=1))
    ledgers.fleet[1].down = True
    ledgers.fleet.calls.clear()
    await reader.read(EntryId(0), EntryId(8))
    assert sum(call.bookie_id == "bookie-1" for call in ledgers.fleet.calls) == 1


async def test_an_open_ledger_is_read_up_to_its_lac_only() -> None:
    ledgers = FleetLedgers(3)
    await ledgers.create(3, 3, 2)
    ledgers.put(range(4), 0, 1, 2)
    assert await read(ledgers, 0, 2) == [payload_of(i) for i in range(3)]
    with pytest.raises(NoSuchEntryError, match="last entry is 2"):
        await read(ledgers, 0, 3)


async def test_the_lac_of_a_closed_ledger_is_its_end() -> None:
    reader = await (await closed(4)).reader()
    assert await reader.read_lac() == 3 and reader.is_closed


async def test_the_lac_needs_no_member_that_hangs() -> None:
    ledgers = FleetLedgers(3)
    await ledgers.create(3, 3, 2)
    ledgers.put(range(4), 0, 1, 2)
    ledgers.fleet.hold(2)
    assert await (await ledgers.reader()).read_lac() == 2


async def test_a_wrong_password_is_refused_at_once() -> None:
    ledgers = await closed(1)
    versioned = await ledgers.store.read_ledger(ledgers.ledger_id)
    with pytest.raises(UnauthorizedError):
        LedgerReader(ledgers.store, ledgers.fleet, versioned, password=b"other")


# Tail
class Tailing:
    """A tail running beside the test, and what it has got."""

    def __init__(self, ledgers: FleetLedgers, reader: LedgerReader) -> None:
        self.ledgers = ledgers
        self.got: list[int] = []
        self.task = asyncio.ensure_future(self._run(reader))

    async def _run(self, reader: LedgerReader) -> None:
        async for entry in reader.tail():
            assert entry.payload == payload_of(entry.entry_id)
            self.got.append(entry.entry_id)

    async def turn(self) -> list[int]:
        """Let it get what is there, then let its polls time out."""
        await self.ledgers.fleet.settle()
        self.ledgers.fleet.expire_waits()
        await self.ledgers.fleet.settle()
        return self.got


class Gate:
    """Pauses that last until the test ends them."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self._over = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self._over.wait()
        self._over.clear()

    def open(self) -> None:
        self._over.set()


async def tailing(*entry_ids: int, bookies: int = 3) -> tuple[FleetLedgers, Tailing]:
    ledgers = FleetLedgers(bookies)
    await ledgers.create(3, 3, 2)
    ledgers.put(entry_ids, 0, 1, 2)
    return ledgers, Tailing(ledgers, await ledgers.reader())


async def test_a_tail_gets_entries_as_they_are_acknowledged() -> None:
    ledgers, tail = await tailing(0, 1)
    assert await tail.turn() == [0]
    ledgers.put(2, 0, 1, 2)
    ledgers.fleet.expire_waits()
    assert await tail.turn() == [0, 1]
    tail.task.cancel()


async def test_a_tail_ends_with_the_close() -> None:
    ledgers, tail = await tailing(0, 1)
    await tail.turn()
    await ledgers.recover()
    await tail.turn()
    await tail.task
    assert tail.got == [0, 1]


async def test_a_tail_follows_an_ensemble_change() -> None:
    ledgers, tail = await tailing(0, 1, bookies=6)
    await tail.turn()
    metadata = await ledgers.metadata()
    change = (*metadata.fragments, Fragment(EntryId(2), ledgers.names(3, 4, 5)))
    ledgers.put((2, 3), 3, 4, 5)
    await ledgers.write(metadata.with_fragments(change))
    await tail.turn()
    assert await tail.turn() == [0, 1, 2]
    tail.task.cancel()


async def test_a_tail_outlives_a_time_when_nobody_answers() -> None:
    ledgers, tail = await tailing(0, 1)
    await tail.turn()
    for number in range(3):
        ledgers.fleet[number].ready = False
    ledgers.fleet.expire_waits()
    await ledgers.fleet.settle()
    assert not tail.task.done()
    tail.task.cancel()


@pytest.mark.parametrize("trouble", ["down", "not ready", "nothing new"])
async def test_a_tail_without_news_pauses_before_it_asks_again(trouble: str) -> None:
    ledgers = FleetLedgers(3)
    await ledgers.create(3, 3, 2)
    for bookie_id in ledgers.fleet.ids:
        ledgers.fleet[bookie_id].down = trouble == "down"
        ledgers.fleet[bookie_id].ready = trouble != "not ready"
    gate = Gate()
    found = await ledgers.store.read_ledger(ledgers.ledger_id)
    reader = LedgerReader(ledgers.store, ledgers.fleet, found, sleep=gate.sleep)
    tail = Tailing(ledgers, reader)
    for rounds in range(1, 4):
        await tail.turn()
        assert gate.pauses == [ReaderSettings().retry_s] * rounds
        gate.open()
    tail.task.cancel()


@pytest.mark.parametrize("end", range(-1, 4))
async def test_a_closed_ledger_below_what_was_acknowledged_is_a_loss(end: int) -> None:
    ledgers = FleetLedgers(3)
    await ledgers.create(3, 3, 2)
    ledgers.put(range(4), 0, 1, 2)
    reader = await ledgers.reader()
    acknowledged = await reader.read_lac()
    await ledgers.write((await ledgers.metadata()).closed(EntryId(end), length=end + 1))
    if end >= acknowledged:
        assert (await reader.refresh()).last_entry_id == end
    else:
        with pytest.raises(DataLossError):
            await reader.refresh()


async def test_what_was_known_to_be_acknowledged_stays_so_whatever_is_said_later() -> None:
    ledgers = FleetLedgers(3)
    await ledgers.create(3, 3, 2)
    ledgers.put(range(4), 0, 1, 2)
    reader = await ledgers.reader()
    acknowledged = await reader.read_lac()
    await ledgers.crash(0, 1, 2, wipe=True, marks=False)
    assert acknowledged > 0 and await reader.read_lac() == acknowledged


async def test_an_ok_without_a_lac_says_nothing() -> None:
    """Of the pool none comes; whoever else stands for the bookies must not end the search by it."""
    ledgers = FleetLedgers(3)
    await ledgers.create(3, 3, 2)
    reader = await ledgers.reader()

    async def read_lac(*_asked: object) -> tuple[Status, None]:
        return Status.OK, None

    ledgers.fleet.read_lac = read_lac  # type: ignore[method-assign,assignment]
    with pytest.raises(UndecidableError):
        await reader.read_lac()
