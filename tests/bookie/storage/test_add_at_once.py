"""Adds that a storage takes at once: the same entries as by `add_run`, or nothing at all."""

import threading
from pathlib import Path

import pytest
from bookie.errors import StorageError
from bookie.ids import LedgerId
from bookie.storage.modes import DurabilityMode
from bookie.storage.records import LedgerRecord
from bookie.storage.routing import route
from storage_kit import WAIT_S, StorageKit, ids, lone, run

L7 = LedgerId(7)


def begun(root: Path, mode: DurabilityMode = DurabilityMode.MEMORY, **changes: int) -> StorageKit:
    """With the ledger's first entry, which is never taken at once."""
    kit = StorageKit(root / "bookie", mode, **changes)
    assert not kit.storage.add_at_once(lone(7, 0))
    kit.add(run(7, 0))
    return kit


def test_what_was_taken_at_once_is_held_read_and_counted(tmp_path: Path) -> None:
    kit = begun(tmp_path)
    before = kit.storage.unflushed_bytes
    assert all(kit.storage.add_at_once(lone(7, i, lac=i - 1)) for i in range(1, 5))
    assert kit.read(7, 0, 9)[0] == kit.held(7) == ids((0, 4))
    assert (kit.storage.last_entry_id(L7), kit.storage.lac(L7)) == (4, 3)
    assert kit.storage.unflushed_bytes - before == 4 * len(lone(7, 0).frame)
    kit.storage.close()


def test_what_was_taken_at_once_outlives_an_orderly_stop(tmp_path: Path) -> None:
    kit = begun(tmp_path)
    assert all(kit.storage.add_at_once(lone(7, i, lac=i - 1)) for i in (2, 1, 5))
    kit = kit.reopened()
    assert kit.read(7, 0, 5)[0] == ids((0, 2), (5, 5))
    assert (kit.storage.last_entry_id(L7), kit.storage.lac(L7)) == (5, 4)
    kit.end()


def test_more_than_ring_and_file_hold_goes_through_at_once_or_by_the_other_way(
    tmp_path: Path,
) -> None:
    kit, at_once = begun(tmp_path), 0
    for entry_id in range(1, 1000):
        size = 900 + entry_id % 7
        if kit.storage.add_at_once(lone(7, entry_id, fill=b"y" * size)):
            at_once += 1
        else:
            kit.add(run(7, entry_id, fill=b"y" * size))
    assert kit.held(7) == kit.read(7, 0, 999, bytes_max=1 << 22)[0] == ids((0, 999))
    assert 900 < at_once < 999
    kit.end()


@pytest.mark.parametrize("mode", [DurabilityMode.SYNC, DurabilityMode.JOURNAL])
def test_where_a_sync_is_promised_nothing_is_done_at_once(
    tmp_path: Path, mode: DurabilityMode
) -> None:
    kit = begun(tmp_path, mode)
    assert not kit.storage.add_at_once(lone(7, 1))
    assert kit.held(7) == ids((0, 0))
    kit.end()


def test_a_checkpoint_that_is_due_is_not_put_off(tmp_path: Path) -> None:
    kit = begun(tmp_path, checkpoint_rows=10, rows_max=20)
    taken = [kit.storage.add_at_once(lone(7, i)) for i in range(1, 20)]
    assert taken == [True] * 8 + [False] * 11
    assert kit.held(7) == ids((0, 8))
    kit.end()


def test_many_bytes_bring_a_checkpoint_forward_too(tmp_path: Path) -> None:
    kit = begun(tmp_path, checkpoint_bytes=10 * len(lone(7, 0).frame))
    assert sum(kit.storage.add_at_once(lone(7, i)) for i in range(1, 20)) == 8
    kit.end()


def test_after_the_journal_failed_nothing_is_taken_at_once(tmp_path: Path) -> None:
    kit = begun(tmp_path)
    kit.drain()
    kit.sim.fail("sync", pattern="*.jnl*")
    kit.storage.put_record(LedgerRecord(L7, fenced=True), done=lambda _error: None)
    call = kit.next_call()
    while kit.storage.maintenance.failure is None:
        call()  # of what came before: without it nothing goes on
        call = kit.next_call()  # not run: the failure counts from when it is there
    assert not kit.storage.add_at_once(lone(7, 1))


def test_after_a_log_failed_nothing_is_taken_at_once_on_any_disk(tmp_path: Path) -> None:
    kit = begun(tmp_path)
    kit.add(run(8, 0))
    assert route(LedgerId(8), 2) != route(L7, 2)
    kit.sim.fail("sync", pattern="*.log*")
    with pytest.raises(StorageError):
        kit.storage.maintenance.checkpoint()
    assert not kit.storage.add_at_once(lone(7, 1))
    assert not kit.storage.add_at_once(lone(8, 1))


def test_the_first_entry_after_a_checkpoint_goes_the_other_way(tmp_path: Path) -> None:
    kit = begun(tmp_path)
    kit.storage.maintenance.checkpoint()
    assert not kit.storage.add_at_once(lone(7, 1))
    kit.add(run(7, 1))
    assert kit.storage.add_at_once(lone(7, 2))
    kit.end()


def test_while_a_checkpoint_is_under_way_rows_stay_in_bounds(tmp_path: Path) -> None:
    kit = begun(tmp_path, checkpoint_rows=10, rows_max=15)
    assert all(kit.storage.add_at_once(lone(7, i)) for i in range(1, 9))
    with kit.sim.held_syncs() as is_syncing:
        checkpoint = threading.Thread(target=kit.storage.maintenance.checkpoint)
        checkpoint.start()
        assert is_syncing.wait(WAIT_S)
        assert kit.start(run(7, 9)) == [None]
        taken = [kit.storage.add_at_once(lone(7, i)) for i in range(10, 20)]
    checkpoint.join()
    assert taken == [True] * 5 + [False] * 5
    assert kit.held(7) == ids((0, 14))
    kit.end()
