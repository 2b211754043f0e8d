"""Adds of one entry after another: answered at once, and refused, counted and told as all others.

From a ledger's third add on a bookie in memory mode takes them by the short way
(`Operations.add_at_once`), as long as nothing that the ruling on the one before saw has changed.
"""

import asyncio
import math
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bookie.ids import EntryId, LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.protocol.admission import TAKEN, rule_add
from bookie.protocol.status import Status
from bookie.server.first_fences import FirstFences, in_store
from bookie.server.operations import Operations
from bookie.server.pacing import BusyRates, Pacing
from bookie.server.state import BookieState, Phase, ReadOnlyReason
from bookie.storage.engine import Storage
from bookie.storage.records import Boundary, LedgerRecord
from server_lab import KEY, ME, ServerLab, frame
from storage_kit import StorageKit, lone, run

ENTRIES = 5


async def appended(server: ServerLab) -> LedgerId:
    """A ledger with its first entries, the last of which were taken at once."""
    ledger = await server.ledger()
    assert {await server.add(ledger, number) for number in range(ENTRIES)} == {Status.OK}
    return ledger


def storage_of(server: ServerLab) -> Storage:
    assert server.bookie is not None
    return server.bookie.control.booted.storage


async def test_most_adds_of_one_entry_are_taken_at_once(
    server: ServerLab, taken_at_once: list[bool]
) -> None:
    ledger = await appended(server)
    assert taken_at_once == [False, False, True, True, True]
    assert await server.held(ledger, 0, 9) == [0, 1, 2, 3, 4]


async def test_they_are_counted_as_others(server: ServerLab) -> None:
    ledger, traffic = await appended(server), server.traffic
    assert (traffic.runs_added, traffic.entries_added) == (ENTRIES, ENTRIES)
    assert traffic.bytes_added == sum(len(frame(ledger, i)) for i in range(ENTRIES))


async def test_after_an_unclean_boot_is_marked_they_are_refused(server: ServerLab) -> None:
    ledger = await appended(server)
    storage_of(server).maintenance.mark(Boundary(7, ledger), [], unchecked=False)
    assert await server.add(ledger, ENTRIES) is Status.FENCED


async def test_they_wait_for_facts_of_the_ledger_that_are_on_their_way(
    idle_server: ServerLab,
) -> None:
    disk = idle_server.simulate_disk()
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
    before = storage_of(server).unflushed_bytes
    assert await server.add(ledger, ENTRIES - 1, recovery=True) is Status.OK
    assert storage_of(server).unflushed_bytes == before


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


def on(storage: Storage, state: BookieState) -> Operations:
    pacing = Pacing(BusyRates(), clock=lambda: 1.0)
    return Operations(
        storage, state, reader=ThreadPoolExecutor(1), reads_in_flight_max=1, pacing=pacing,
        first_fences=FirstFences(in_store(MemoryStore(MemoryCluster()))),
    )  # fmt: skip


def happenings(storage: Storage, state: BookieState, ledger: LedgerId) -> list[Callable[[], None]]:
    """What may come between two adds of a ledger."""

    def put(**changes: Any) -> None:
        storage.put_record(LedgerRecord(ledger, **changes), done=lambda _error: None)

    return [
        lambda: put(fenced=True),
        lambda: put(explicit_lac=EntryId(3)),
        lambda: storage.maintenance.mark(Boundary(1, ledger), [ledger], unchecked=True),
        lambda: storage.maintenance.mark(Boundary(2, ledger), [], unchecked=False),
        lambda: storage.maintenance.delete_ledgers([ledger]),
        lambda: state.switch_read_only(ReadOnlyReason.PERSON, True),
        lambda: state.switch_read_only(ReadOnlyReason.PERSON, False),
        storage.maintenance.checkpoint,
    ]


@pytest.mark.parametrize("seed", range(30))
async def test_whatever_comes_between_them_only_what_the_rule_takes_is_taken(
    tmp_path: Path, seed: int
) -> None:
    rng, kit, state = random.Random(seed), StorageKit(tmp_path / "bookie"), BookieState(ME)
    state.phase, asker, taken = (
        Phase.SERVING,
        SimpleNamespace(reads_under_way=0, resume=lambda: None),
        0,
    )
    operations = on(kit.storage, state)
    between = happenings(kit.storage, state, LedgerId(7))
    for entry_id in range(40):
        if entry_id > ENTRIES and rng.random() < 0.2:
            rng.choice(between)()
        key = rng.choice([KEY] * 9 + [b"w" * 20]) if entry_id > ENTRIES else KEY
        facts = operations.facts_of(LedgerId(7))
        rule = rule_add(facts, master_key=key, is_recovery=False, is_writable=state.is_writable)
        if operations.add_at_once(lone(7, entry_id), master_key=key):
            taken += 1
            assert rule is TAKEN
        else:
            answers = list[Status]()
            then = lambda status, *_, told=answers: told.append(status)  # noqa: E731
            operations.add(asker, run(7, entry_id), master_key=key, then=then)
            kit.pump(lambda told=answers: bool(told))  # type: ignore[misc]
    assert taken >= ENTRIES - 2
    kit.end()
