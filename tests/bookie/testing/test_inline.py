"""Storage on one thread: the caller's waiting is what makes background work go on."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie.storage.modes import DurabilityMode
from bookie.storage.records import LedgerRecord
from bookie.storage.storage import Storage
from bookie.testing.inline import InlineDisk, InlineLoop
from storage_kit import ids, run, settings

ROOT = Path("/bookie")


@pytest.fixture
def loop() -> Iterator[InlineLoop]:
    made = InlineLoop()
    yield made
    made.close()


def opened(disk: InlineDisk, mode: DurabilityMode = DurabilityMode.SYNC) -> Storage:
    return Storage.open(settings(ROOT, mode), disk=disk, call_soon=lambda call: call())


def test_no_thread_is_started() -> None:
    before = threading.active_count()
    storage = opened(InlineDisk())
    assert threading.active_count() == before
    storage.close()


def test_an_add_is_answered_once_its_flusher_has_run() -> None:
    disk, answers = InlineDisk(), []
    storage = opened(disk)
    storage.add_run(run(1, 0), done=answers.append)
    assert answers == []
    assert disk.run_flushers()
    assert answers == [None]
    assert not disk.run_flushers()
    storage.close()


def test_who_waits_for_durability_gets_it() -> None:
    disk = InlineDisk()
    storage = opened(disk, DurabilityMode.MEMORY)
    storage.add_run(run(1, 0, 3), done=lambda _error: None)
    storage.maintenance.checkpoint()
    left = disk.power_cut()
    assert isinstance(left, InlineDisk)
    after = opened(left)
    assert after.held(run(1, 0).ledger_id) == ids((0, 2))
    after.close()


def test_a_close_ends_the_flushers_with_all_on_disk() -> None:
    disk = InlineDisk()
    storage = opened(disk)
    storage.put_record(LedgerRecord(run(1, 0).ledger_id, fenced=True), done=lambda _error: None)
    storage.close()
    assert not any(flusher.is_alive() for flusher in disk.flushers)
    after = opened(disk.power_cut())
    found = after.record(run(1, 0).ledger_id)
    assert found is not None and found.fenced
    after.close()


def test_work_for_threads_runs_in_the_thread_of_the_loop(loop: InlineLoop) -> None:
    where = loop.run_until_complete(asyncio.to_thread(threading.get_ident))
    assert where == threading.get_ident()


def test_an_error_of_such_work_is_its_callers(loop: InlineLoop) -> None:
    with pytest.raises(ZeroDivisionError):
        loop.run_until_complete(asyncio.to_thread(lambda: 1 // 0))
