"""Adds of one entry after another: answered at once, and refused, counted and told as all others.

The first one teaches the key, the second is ruled on and gives the permit (`storage.permits`); from
then on none is ruled on, until anything has changed that the ruling looked at.
"""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from bookie.errors import StorageError
from bookie.ids import EntryId, LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.protocol.admission import rule_add
from bookie.protocol.status import Status
from bookie.server.first_fences import FirstFences, in_store
from bookie.server.operations import Operations, Then
from bookie.server.pacing import BusyRates, Pacing
from bookie.server.state import BookieState, Phase, ReadOnlyReason
from bookie.storage import acks
from bookie.storage.acks import Taken
from bookie.storage.modes import DurabilityMode
from bookie.storage.records import Boundary, LedgerRecord
from bookie.storage.storage import Storage
from bookie.wire.native import LacRequest
from server_lab import KEY, ME, ServerLab, frame
from storage_kit import StorageKit, run, take_back_notes

ENTRIES = 5


async def appended(server: ServerLab) -> LedgerId:
    """A ledger with its first entries, the last of which were not ruled on."""
    ledger = await server.ledger()
    assert {await server.add(ledger, number) for number in range(ENTRIES)} == {Status.OK}
    return ledger


def storage_of(server: ServerLab) -> Storage:
    assert server.bookie is not None
    return server.bookie.control.booted.storage


async def test_most_adds_of_a_ledger_are_not_ruled_on(
    server: ServerLab, ruled: list[Status]
) -> None:
    ledger = await appended(server)
    assert ruled == [Status.OK] * 2
    assert await server.held(ledger, 0, 9) == [0, 1, 2, 3, 4]


async def test_they_are_counted_as_others(server: ServerLab) -> None:
    ledger, traffic = await appended(server), server.traffic
    assert (traffic.runs_added, traffic.entries_added) == (ENTRIES, ENTRIES)
    assert traffic.bytes_added == sum(len(frame(ledger, i)) for i in range(ENTRIES))


async def test_after_an_unclean_boot_is_marked_they_are_refused(server: ServerLab) -> None:
    ledger = await appended(server)
    storage_of(server).maintenance.mark(Boundary(7, ledger), [], fences_lost=True)
    assert await server.add(ledger, ENTRIES) is Status.READ_ONLY


async def test_they_wait_for_facts_of_the_ledger_that_are_on_their_way(
    idle_server: ServerLab,
) -> None:
    disk = idle_server.disk
    await idle_server.start()
    ledger, storage = await idle_server.ledger(), storage_of(idle_server)
    with disk.held_syncs() as waiting:
        adds = []
        for number in range(ENTRIES):  # each a message of its own
            adds.append(asyncio.create_task(idle_server.add(ledger, number)))
            await idle_server.until(lambda n=number: storage.last_entry_id(ledger) == n)  # type: ignore[misc]
        await asyncio.to_thread(waiting.wait)
        await idle_server.held(ledger, 0, 9)  # answered behind them
        assert not any(add.done() for add in adds)
    assert set(await asyncio.gather(*adds)) == {Status.OK}


async def go_idle(storage: Storage) -> None:
    """So many flushes that every note is taken back."""
    for _ in range(3):
        await asyncio.to_thread(storage.maintenance.checkpoint)
        take_back_notes(storage)
    assert not storage.noted_ledgers()


@pytest.mark.parametrize("recovery", [False, True])
async def test_the_first_add_after_idle_waits_for_the_note_of_its_ledger(
    idle_server: ServerLab, recovery: bool
) -> None:
    disk = idle_server.disk
    await idle_server.start()
    ledger, storage = await appended(idle_server), storage_of(idle_server)
    await go_idle(storage)
    with disk.held_syncs() as waiting:
        add = asyncio.create_task(idle_server.add(ledger, ENTRIES, recovery=recovery))
        await idle_server.until(lambda: storage.last_entry_id(ledger) == ENTRIES)
        await asyncio.to_thread(waiting.wait)
        await idle_server.held(ledger, 0, 9)  # answered behind it
        assert not add.done() and storage.noted_ledgers() == [ledger]
    assert await add is Status.OK
    assert await idle_server.add(ledger, ENTRIES + 1) is Status.OK


async def test_they_answer_a_long_poll(server: ServerLab) -> None:
    ledger = await appended(server)
    request = server.lac_request(ledger, lac=-1, timeout_ms=60_000)
    poll = asyncio.create_task(server.pool.wait_lac(ME, request))
    await server.until(lambda: server.traffic.long_polls == 1)
    await server.add(ledger, ENTRIES, lac=ENTRIES - 1)
    _status, reply = await asyncio.wait_for(poll, 30)
    assert reply is not None and reply.lac == ENTRIES - 1


async def test_what_recovery_adds_again_is_not_stored_again(server: ServerLab) -> None:
    ledger = await appended(server)
    stored = []
    for _ in range(2):  # over a writer's copy, then over its own
        assert await server.add(ledger, ENTRIES - 1, recovery=True) is Status.OK
        stored.append(storage_of(server).unflushed_bytes)
    assert stored == [(ENTRIES + 1) * len(frame(ledger, 0)), stored[0]]


async def test_answers_that_were_delayed_are_given_before_a_stop(
    idle_server: ServerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bookie.server.pacing.BUSY_S", math.inf)
    monkeypatch.setattr("bookie.server.pacing.ANSWER_DELAY_S_MAX", 1000.0)
    idle_server.tree["limits"] = {"recoveryBytesPerSecondBusy": 1}
    await idle_server.start()
    ledger = await appended(idle_server)
    more = range(ENTRIES, ENTRIES + 3)
    adds = [asyncio.create_task(idle_server.add(ledger, n, recovery=True)) for n in more]
    await idle_server.until(lambda: idle_server.traffic.entries_added == more.stop)
    assert not any(add.done() for add in adds)
    await idle_server.stop()
    assert await asyncio.gather(*adds) == [Status.OK] * len(adds)


async def test_they_hold_bulk_work_back(
    idle_server: ServerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, init = list[Pacing](), Pacing.__init__

    def noted(pacing: Pacing, *args: Any, **more: Any) -> None:
        init(pacing, *args, **more)
        made.append(pacing)

    monkeypatch.setattr(Pacing, "__init__", noted)
    await idle_server.start()
    ledger = await appended(idle_server)
    made[0]._added_at = -math.inf
    await idle_server.add(ledger, ENTRIES)
    assert made[0]._added_at > 0


class OneAsker:
    """As much of a connection as adds and facts need."""

    reads_under_way = 0
    resume: Callable[[], None] = staticmethod(lambda: None)


class Lab:
    """Operations on a storage, without connections."""

    def __init__(self, root: Path, mode: DurabilityMode = DurabilityMode.MEMORY) -> None:
        self.kit = StorageKit(root / "bookie", mode)
        self.storage = self.kit.storage
        self.clock = 0.0
        self.state = BookieState(ME, clock=lambda: self.clock)
        self.state.phase = Phase.SERVING
        self.operations = Operations(
            self.storage, self.state, reader=ThreadPoolExecutor(1), reads_in_flight_max=1,
            pacing=Pacing(BusyRates(), clock=lambda: 1.0),
            first_fences=FirstFences(in_store(MemoryStore(MemoryCluster()))),
        )  # fmt: skip
        self.asker: Any = OneAsker()
        self.entries = 0

    def start(self, key: bytes = KEY, *, ledger: int = 7) -> list[Status]:
        """Adds the next entry; the list has its answer once there is one."""
        answers = list[Status]()
        frame = run(ledger, self.entries)
        self.entries += 1
        then: Then = lambda status, _found, _why: answers.append(status)  # noqa: E731
        assert self.operations.add(self.asker, frame, master_key=key, then=then)
        return answers

    def add(self, key: bytes = KEY) -> Status:
        answers = self.start(key)
        self.kit.pump(lambda: bool(answers))
        return answers[0]

    def write_lac(self, lac: int) -> bool:
        """False: no room."""
        request = LacRequest(LedgerId(7), KEY, EntryId(lac))
        return self.operations.write_lac(self.asker, request, then=lambda *_answer: None)

    def fence(self, *, ledger: int = 7) -> bool:
        """False: no room."""
        request = LacRequest(LedgerId(ledger), KEY, EntryId(-1))
        return self.operations.read_lac(self.asker, request, fence=True, then=lambda *_answer: None)

    def put(self, **changes: Any) -> None:
        record = LedgerRecord(LedgerId(7), **changes)
        self.storage.put_record(record, done=lambda _error: None)


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    lab = Lab(tmp_path)
    assert {lab.add() for _ in range(ENTRIES)} == {Status.OK}
    assert lab.start() == [Status.OK], "in memory the answer does not wait"
    yield lab
    for part in (lab.operations._facts, lab.operations._waits, lab.operations._reads):
        part._check()
    if lab.storage.failure is None:
        lab.kit.end()


CHANGES: dict[str, tuple[Callable[[Lab], object], Status]] = {
    "fence": (lambda lab: lab.put(fenced=True), Status.FENCED),
    "boundary": (
        lambda lab: setattr(lab.storage._ledgers, "fence", Boundary(2, LedgerId(7))),
        Status.FENCED,
    ),
    "unchecked": (
        lambda lab: lab.storage.maintenance.mark(Boundary(2, LedgerId(7)), [], fences_lost=False),
        Status.READ_ONLY,
    ),
    "limbo": (
        lambda lab: lab.storage.maintenance.mark(
            Boundary(1, LedgerId(7)), [LedgerId(7)], fences_lost=False
        ),
        Status.READ_ONLY,
    ),
    "deletion": (lambda lab: lab.storage.maintenance.delete_ledgers([LedgerId(7)]), Status.FENCED),
    "read-only": (
        lambda lab: lab.state.switch_read_only(ReadOnlyReason.PERSON, True),
        Status.READ_ONLY,
    ),
    "drain": (lambda lab: lab.state.switch_read_only(ReadOnlyReason.DRAIN, True), Status.READ_ONLY),
    "phase": (lambda lab: setattr(lab.state, "phase", Phase.STOPPING), Status.READ_ONLY),
    "lease": (
        lambda lab: (setattr(lab.state, "lease_until", -1.0), lab.state.look_at_lease()),
        Status.NOT_READY,
    ),
}
"""What may come between two adds of a ledger, and what the second is then told."""


@pytest.mark.parametrize("name", CHANGES)
async def test_after_a_change_the_next_add_is_ruled_on(lab: Lab, name: str) -> None:
    change, expected = CHANGES[name]
    assert lab.operations._permits == {LedgerId(7): KEY}
    change(lab)
    assert lab.add() is expected
    assert not lab.operations._permits


async def test_another_key_is_ruled_on(lab: Lab) -> None:
    assert lab.add(b"w" * 20) is Status.UNAUTHORIZED
    assert lab.add() is Status.OK


async def test_an_add_waits_for_a_fact_on_its_way_to_the_disk(lab: Lab) -> None:
    with lab.kit.sim.held_syncs():
        assert lab.write_lac(3)
        waiting = [lab.start(), lab.start()]
        assert waiting == [[], []]
    lab.kit.pump(lambda: all(waiting))
    assert waiting == [[Status.OK], [Status.OK]]


async def test_while_the_journal_stalls_facts_find_no_room_and_their_askers_are_resumed(
    lab: Lab,
) -> None:
    resumed = list[bool]()
    lab.asker.resume = lambda: resumed.append(True)
    lab.operations._facts._waiting_max = 3
    with lab.kit.sim.held_syncs():
        assert [lab.write_lac(lac) for lac in range(3, 8)] == [True, True, False, False, False]
        assert not lab.fence()
        frame_of_next = run(7, lab.entries)
        assert not lab.operations.add(lab.asker, frame_of_next, master_key=KEY, then=print)
    lab.kit.pump(lambda: lab.operations._facts.has_room)
    await asyncio.sleep(0)
    assert resumed == [True] and lab.write_lac(9) and lab.add() is Status.OK


async def test_entries_that_recovery_adds_again_find_no_room_while_too_many_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, DurabilityMode.SYNC)
    assert lab.add() is Status.OK
    again = run(7, 0, recovery=True)
    monkeypatch.setattr(acks, "WAITING_MAX", 2)
    with lab.kit.sim.held_syncs():
        taken = [lab.storage.add_run(again, done=lambda _error: None) for _ in range(3)]
    assert taken == [Taken.PENDING, Taken.PENDING, Taken.NO_ROOM]
    room = list[bool]()
    lab.storage.on_room = lambda: room.append(True)
    lab.kit.pump(lambda: bool(room))
    lab.kit.end()


@pytest.mark.parametrize("pattern", ["*.jnl*", "*.log*"])
async def test_after_a_disk_failed_no_add_is_answered_ok(lab: Lab, pattern: str) -> None:
    lab.kit.sim.fail("sync", pattern=pattern)
    if pattern == "*.log*":
        with pytest.raises(StorageError):
            lab.storage.maintenance.checkpoint()
    else:
        lab.put(explicit_lac=EntryId(1))
        lab.kit.pump(lambda: lab.storage.failure is not None)
    assert lab.add() is Status.IO_ERROR


async def test_a_bookie_that_waits_for_its_disk_answers_no_add_at_once(tmp_path: Path) -> None:
    lab = Lab(tmp_path, DurabilityMode.SYNC)
    assert {lab.add() for _ in range(ENTRIES)} == {Status.OK}
    with lab.kit.sim.held_syncs():
        answers = lab.start()
        assert answers == []
    lab.kit.pump(lambda: bool(answers))
    lab.kit.end()


@pytest.mark.parametrize("seed", range(30))
async def test_whatever_comes_between_them_only_what_the_rule_takes_is_taken(
    tmp_path: Path, seed: int
) -> None:
    rng, lab, unruled = random.Random(seed), Lab(tmp_path), 0
    harmless: list[Callable[[Lab], object]] = [
        lambda lab: lab.put(explicit_lac=EntryId(3)),
        lambda lab: lab.state.switch_read_only(ReadOnlyReason.PERSON, False),
        lambda lab: lab.storage.maintenance.checkpoint(),
    ]
    between = [change for change, _status in CHANGES.values()] + harmless
    for number in range(40):
        if number > ENTRIES and rng.random() < 0.2:
            rng.choice(between)(lab)
        key = rng.choice([KEY] * 9 + [b"w" * 20]) if number > ENTRIES else KEY
        facts = lab.operations.facts_of(LedgerId(7))
        rule = rule_add(facts, master_key=key, is_recovery=False, is_writable=lab.state.is_writable)
        unruled += lab.operations._permits.get(LedgerId(7)) == key
        assert lab.add(key) is rule.status
    assert unruled >= ENTRIES - 2
    lab.kit.end()
