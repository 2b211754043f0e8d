"""Runs that a storage takes: what it says of them on return, and what it then holds."""

import threading
from pathlib import Path

import pytest
from bookie.errors import StorageError
from bookie.ids import LedgerId
from bookie.storage.acks import Taken
from bookie.storage.modes import DurabilityMode
from bookie.storage.records import LedgerRecord
from bookie.storage.routing import route
from storage_kit import WAIT_S, StorageKit, ids, run

L7 = LedgerId(7)


def begun(root: Path, mode: DurabilityMode = DurabilityMode.MEMORY, **changes: int) -> StorageKit:
    """With the ledger's first entry."""
    kit = StorageKit(root / "bookie", mode, **changes)
    kit.add(run(7, 0))
    return kit


def taken(kit: StorageKit, ledger_id: int, entry_id: int, *, lac: int = -1) -> Taken:
    return kit.storage.add_run(run(ledger_id, entry_id, lac=lac), done=lambda _error: None)


def test_in_memory_mode_a_run_is_done_on_return_held_read_and_counted(tmp_path: Path) -> None:
    kit = begun(tmp_path)
    before = kit.storage.unflushed_bytes
    assert {taken(kit, 7, i, lac=i - 1) for i in range(1, 5)} == {Taken.DONE}
    assert kit.read(7, 0, 9)[0] == kit.held(7) == ids((0, 4))
    assert (kit.storage.last_entry_id(L7), kit.storage.lac(L7)) == (4, 3)
    assert kit.storage.unflushed_bytes - before == 4 * len(run(7, 0).buffer)
    kit.storage.close()


def test_what_no_checkpoint_holds_is_counted_from_nothing_on(tmp_path: Path) -> None:
    storage = (kit := StorageKit(tmp_path / "bookie", DurabilityMode.MEMORY)).storage
    assert storage.unflushed_bytes == 0
    for entry_id in range(2):
        kit.add(run(7, entry_id))
        assert storage.unflushed_bytes == len(run(7, entry_id).buffer)
        storage.maintenance.checkpoint()
        assert storage.unflushed_bytes == 0
    storage.close()


def test_runs_in_any_order_outlive_an_orderly_stop(tmp_path: Path) -> None:
    kit = begun(tmp_path)
    assert {taken(kit, 7, i, lac=i - 1) for i in (2, 1, 5)} == {Taken.DONE}
    kit = kit.reopened()
    assert kit.read(7, 0, 5)[0] == ids((0, 2), (5, 5))
    assert (kit.storage.last_entry_id(L7), kit.storage.lac(L7)) == (5, 4)
    kit.end()


def test_more_than_ring_and_file_hold_is_taken_in_the_end(tmp_path: Path) -> None:
    kit = begun(tmp_path)
    for entry_id in range(1, 1000):
        kit.add(run(7, entry_id, fill=b"y" * (900 + entry_id % 7)))
    for directory in kit.storage._directories:
        directory.log.stream._check()
    assert kit.held(7) == kit.read(7, 0, 999, bytes_max=1 << 22)[0] == ids((0, 999))
    kit.end()


@pytest.mark.parametrize("mode", [DurabilityMode.SYNC, DurabilityMode.JOURNAL])
def test_where_a_sync_is_promised_nothing_is_done_on_return(
    tmp_path: Path, mode: DurabilityMode
) -> None:
    kit = begun(tmp_path, mode)
    with kit.sim.held_syncs():
        answers = kit.start(run(7, 1))
        assert taken(kit, 7, 2) is Taken.PENDING
        assert answers == [] and kit.held(7) == ids((0, 2))
    kit.pump(lambda: bool(answers))
    assert answers == [None]
    kit.end()


@pytest.mark.parametrize(
    "changes", [{"checkpoint_rows": 10, "rows_max": 100}, {"checkpoint_bytes": 2000}]
)
def test_a_checkpoint_that_is_due_is_not_put_off(tmp_path: Path, changes: dict[str, int]) -> None:
    kit = begun(tmp_path, **changes)
    for entry_id in range(1, 40):
        assert taken(kit, 7, entry_id) is Taken.DONE
    assert kit.storage.maintenance._early is not None
    kit.storage.maintenance._early.join()
    assert kit.storage.unflushed_bytes < 40 * len(run(7, 0).buffer)
    kit.end()


def test_while_a_checkpoint_is_under_way_rows_stay_in_bounds(tmp_path: Path) -> None:
    kit = begun(tmp_path, checkpoint_rows=10, rows_max=15)
    assert {taken(kit, 7, i) for i in range(1, 9)} == {Taken.DONE}
    with kit.sim.held_syncs() as is_syncing:
        checkpoint = threading.Thread(target=kit.storage.maintenance.checkpoint)
        checkpoint.start()
        assert is_syncing.wait(WAIT_S)
        found = [taken(kit, 7, i) for i in range(9, 20)]
    checkpoint.join()
    assert found == [Taken.DONE] * 6 + [Taken.NO_ROOM] * 5
    assert kit.held(7) == ids((0, 14))
    kit.end()


def test_a_failed_journal_is_known_before_its_callbacks_have_run(tmp_path: Path) -> None:
    # The callback of an earlier notification stands for later ones too: waiting for another one,
    # where the failure had come in between, is what made this test hang now and then.
    kit = begun(tmp_path)
    kit.drain()
    kit.sim.fail("sync", pattern="*.jnl*")
    kit.storage.put_record(LedgerRecord(L7, fenced=True), done=lambda _error: None)
    kit.pump(lambda: kit.storage.failure is not None)
    assert kit.storage.failure is kit.storage._journal.stream.failure


def test_after_a_log_failed_its_runs_fail_and_the_failure_is_everybodys(tmp_path: Path) -> None:
    kit = begun(tmp_path)
    kit.add(run(8, 0))
    assert route(LedgerId(8), 2) != route(L7, 2)
    kit.sim.fail("sync", pattern="*.log*")
    with pytest.raises(StorageError):
        kit.storage.maintenance.checkpoint()
    assert kit.storage.failure is not None
    assert {taken(kit, 7, 1), taken(kit, 8, 1)} == {Taken.PENDING}
    assert isinstance(kit.refused(run(7, 2)), StorageError)


@pytest.mark.parametrize("mode", [DurabilityMode.SYNC, DurabilityMode.JOURNAL])
def test_adds_that_take_no_room_wait_in_bounded_number_and_all_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: DurabilityMode
) -> None:
    monkeypatch.setattr("bookie.storage.acks.WAITING_MAX", 5)
    kit, copy, room, answers = begun(tmp_path, mode), run(7, 9, recovery=True), list[bool](), []
    with kit.sim.held_syncs():
        told = [kit.storage.add_run(copy, done=answers.append) for _ in range(8)]
        assert told == [Taken.PENDING] * 5 + [Taken.NO_ROOM] * 3
        kit.storage.on_room = lambda: room.append(True)
    kit.pump(lambda: answers == [None] * 5 and bool(room))
    assert kit.storage.add_run(copy, done=answers.append) is Taken.PENDING
    kit.pump(lambda: answers == [None] * 6)
    kit.end()
