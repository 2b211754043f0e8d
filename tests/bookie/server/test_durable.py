"""Facts on their way to the disk: replies wait for the write that carries what they tell (R9)."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import cast

import pytest
from bookie.errors import DiskFullError, StorageError
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.server.durable import DurableFacts
from bookie.storage.acks import Done
from bookie.storage.permits import AddPermits
from bookie.storage.records import LedgerRecord
from bookie.storage.storage import Storage
from bookie.testing.disk import SimDisk
from storage_kit import KIB, settings

L1 = LedgerId(1)
FENCED = LedgerRecord(L1, fenced=True)
Answers = list[StorageError | None]


def poster() -> Callable[[Callable[[], None]], None]:
    """Runs a function soon in this loop, from any thread."""
    loop = asyncio.get_running_loop()

    def post(call: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(call)

    return post


class Bench:
    """A storage on a simulated disk whose journal is small."""

    def __init__(self, root: Path) -> None:
        self.disk = SimDisk()
        self.root = root
        chosen = settings(root, journal_file_bytes=16 * KIB)
        for path in (chosen.journal_dir, *chosen.ledger_dirs):
            path.mkdir(parents=True)
        self.storage = Storage.open(chosen, disk=self.disk, call_soon=poster())
        self.facts = DurableFacts(self.storage)

    def ask(self, ledger_id: LedgerId = L1) -> "asyncio.Future[StorageError | None]":
        answer: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
        self.facts.when_durable(ledger_id, answer.set_result)
        return answer

    async def fill(self) -> None:
        """No space, and the journal's files full."""
        self.disk.capacity_bytes = 0
        for number in range(10_000):
            ledger_id = LedgerId(1000 + number)
            self.facts.persist(LedgerRecord(ledger_id, fenced=True))
            if await self.ask(ledger_id) is not None:
                return
        raise AssertionError("the journal takes everything")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await asyncio.to_thread(made.storage.close)


async def test_with_nothing_under_way_the_answer_comes_at_once(bench: Bench) -> None:
    answers: Answers = []
    bench.facts.when_durable(L1, answers.append)
    assert answers == [None]


async def test_an_answer_waits_for_the_write_and_not_for_other_ledgers(bench: Bench) -> None:
    with bench.disk.held_syncs() as waiting:
        bench.facts.persist(FENCED)
        answer = bench.ask()
        await asyncio.to_thread(waiting.wait)
        assert await bench.ask(LedgerId(2)) is None
        assert not answer.done()
    assert await answer is None


async def test_of_two_writes_under_way_the_later_one_is_waited_for(bench: Bench) -> None:
    with bench.disk.held_syncs() as waiting:
        bench.facts.persist(LedgerRecord(L1, master_key=b"k" * 20))
        first = bench.ask()
        await asyncio.to_thread(waiting.wait)
        bench.facts.persist(FENCED)
        second = bench.ask()
    assert await first is None and await second is None


async def test_it_is_full_of_writes_and_replies_until_some_are_durable(bench: Bench) -> None:
    room: list[bool] = []
    bench.facts = DurableFacts(bench.storage, on_room=lambda: room.append(True), waiting_max=4)
    bench.storage.permits.keys[LedgerId(2)] = b"k" * 20
    with bench.disk.held_syncs() as waiting:
        bench.facts.persist(FENCED)
        answers = [bench.ask(), bench.ask()]
        assert bench.facts.has_room and bench.storage.permits.keys
        answers.append(bench.ask())
        await asyncio.to_thread(waiting.wait)
        bench.facts._check()
        assert not (bench.facts.has_room or bench.storage.permits.keys or room)
    assert await asyncio.gather(*answers) == [None] * 3
    bench.facts._check()
    assert bench.facts.has_room and room == [True]


async def test_who_finds_it_full_again_of_what_came_with_the_answers_is_called_too(
    bench: Bench,
) -> None:
    room: list[bool] = []
    bench.facts = facts = DurableFacts(
        bench.storage, on_room=lambda: room.append(facts.has_room), waiting_max=4
    )
    others = [LedgerRecord(LedgerId(number), fenced=True) for number in range(2, 6)]
    facts.persist(FENCED)
    facts.when_durable(L1, lambda _error: [facts.persist(other) for other in others] and None)
    answers = [bench.ask(), bench.ask()]
    await asyncio.gather(*answers)
    facts._check()
    await asyncio.gather(*(bench.ask(other.ledger_id) for other in others))
    assert room == [False, True]


async def test_a_write_that_found_no_space_is_repeated_before_anything_is_told(
    bench: Bench,
) -> None:
    await bench.fill()
    bench.facts.persist(FENCED)
    assert [type(await bench.ask()) for _ in range(3)] == [DiskFullError] * 3
    bench.disk.capacity_bytes = 1024 * KIB * KIB
    for _ in range(100):
        await asyncio.to_thread(bench.storage.maintenance.checkpoint)
        if await bench.ask() is None:
            break
    after = bench.disk.power_cut()
    reread = await reopened(bench, after)
    assert reread is not None and reread.fenced


async def reopened(bench: Bench, disk: SimDisk) -> LedgerRecord | None:
    """What is known of the ledger after a power cut."""
    with pytest.raises(StorageError):
        await asyncio.to_thread(bench.storage.close)
    bench.storage = await asyncio.to_thread(
        Storage.open,
        settings(bench.root, journal_file_bytes=16 * KIB),
        disk=disk,
        call_soon=poster(),
    )
    return bench.storage.record(L1)


async def test_after_a_failed_sync_nothing_is_told_durable_any_more(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.disk.fail("sync", pattern="*.jnl*")
    bench.facts.persist(FENCED)
    assert isinstance(await bench.ask(), StorageError)
    assert isinstance(await bench.ask(LedgerId(2)), StorageError)
    with pytest.raises(StorageError):
        await asyncio.to_thread(bench.storage.close)


class Journal:
    """What the facts ask of a storage; the test says when each write ends, and how."""

    failure = None

    def __init__(self) -> None:
        self.permits = AddPermits()
        self.known: LedgerRecord = LedgerRecord(L1)
        self.durable: EntryId = NO_ENTRY
        """The highest LAC that a write carried which came to its end."""
        self.writes: list[tuple[EntryId, Done]] = []

    def put_record(self, record: LedgerRecord, *, done: Done) -> None:
        self.known = self.known.merged(record)
        self.writes.append((self.known.explicit_lac, done))

    def record(self, _ledger_id: LedgerId) -> LedgerRecord:
        return self.known

    def end(self, at: int, error: StorageError | None = None) -> None:
        """Those that are synced are so in their order; one that finds no room ends at any time."""
        lac, done = self.writes.pop(at)
        if error is None:
            self.durable = max(self.durable, lac)
        done(error)


def test_a_ledger_whose_write_failed_once_is_written_once_more_and_then_no_more() -> None:
    journal, told = Journal(), Answers()
    facts = DurableFacts(cast(Storage, journal))
    facts.persist(FENCED)
    journal.end(0, DiskFullError("full"))
    facts.when_durable(L1, told.append)
    journal.end(0)
    facts.when_durable(L1, told.append)
    assert told == [None, None] and not journal.writes and facts.are_durable(L1)


@pytest.mark.parametrize("seed", range(300))
def test_whatever_order_writes_fail_in_nothing_is_told_before_it_is_durable(seed: int) -> None:
    rng, journal = random.Random(seed), Journal()
    facts, asked, told = DurableFacts(cast(Storage, journal)), count(), list[int]()

    def answer(owed: EntryId, number: int, error: StorageError | None) -> None:
        assert error is not None or journal.durable >= owed
        told.append(number)

    for lac in range(20):
        if rng.random() < 0.5:
            facts.persist(LedgerRecord(L1, explicit_lac=EntryId(lac)))
        facts.when_durable(L1, partial(answer, journal.known.explicit_lac, next(asked)))
        while journal.writes and rng.random() < 0.5:
            full = rng.random() < 0.5
            at = rng.randrange(len(journal.writes)) if full else 0
            journal.end(at, DiskFullError("full") if full else None)
        facts._check()
    while journal.writes:
        journal.end(0)
    assert sorted(told) == [*range(20)]
