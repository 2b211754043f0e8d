"""Compaction: dead files go, live entries stay, whatever stops it in the middle."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie.errors import DiskFullError
from bookie.ids import LedgerId
from bookie.storage import compaction
from bookie.storage.compaction import CompactReport
from bookie.storage.index import Index
from storage_kit import ScarceDisk, StorageKit, ids, interrupted, rest, run

L1, L2 = LedgerId(1), LedgerId(2)
ENTRY = b"y" * 900


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[StorageKit]:
    opened = StorageKit(tmp_path / "bookie", disks=1)
    yield opened
    opened.end()


def fill(kit: StorageKit, *, runs: int = 40) -> None:
    """Two ledgers interleaved over several log files, most bytes in ledger 2."""
    for first in range(0, runs * 10, 10):
        kit.add(run(2, first, 10, fill=ENTRY))
        kit.add(run(1, first // 10, 1, fill=ENTRY))
    kit.storage.maintenance.checkpoint()


def log_files(kit: StorageKit) -> list[str]:
    return [n for n in kit.disk.list_directory(kit.root / "ledger-0/log") if n.endswith(".log")]


def test_files_of_deleted_ledgers_go_and_the_rest_stays_readable(kit: StorageKit) -> None:
    fill(kit)
    before = log_files(kit)
    kit.storage.maintenance.delete_ledgers([L2])
    report = kit.compact()
    assert report.files_deleted >= len(before) - 1 and report.frames_copied >= 35
    assert kit.held(1) == kit.read(1, 0, 99)[0] == ids((0, 39))
    assert not set(before[:-1]) & set(log_files(kit))
    kit = kit.after_power_cut()
    assert kit.held(1) == kit.read(1, 0, 99)[0] == ids((0, 39)) and kit.held(2) == ids()
    kit.storage.close()


def test_the_file_that_is_left_is_on_the_disk_before_all_others_go(kit: StorageKit) -> None:
    kit.add(run(1, 0))
    kit = kit.reopened()
    kit.storage.maintenance.delete_ledgers([L1])
    kit.storage.maintenance.checkpoint()
    rest(kit.storage)
    kit.add(run(2, 0))  # begins the next file, in memory
    assert kit.compact().files_deleted == 1
    kit = kit.after_power_cut()
    assert not kit.storage.report.is_suspect and kit.held(2) == ids((0, 0))
    kit.end()


def test_files_that_are_mostly_alive_stay(kit: StorageKit) -> None:
    fill(kit)
    kit.storage.maintenance.delete_ledgers([L1])
    assert kit.compact() == CompactReport()
    assert kit.held(2) == kit.read(2, 0, 399, bytes_max=1 << 20)[0] == ids((0, 399))


def test_a_compaction_that_a_full_disk_stopped_is_gone_on_with(kit: StorageKit) -> None:
    fill(kit, runs=400)
    kit.storage.maintenance.delete_ledgers([L2])
    kit.sim.capacity_bytes = 0
    rest(kit.storage)
    assert kit.compact().stopped_by_full_disk
    kit.sim.capacity_bytes = 1 << 30
    kit.storage.maintenance.checkpoint()
    assert kit.compact().files_deleted


def test_on_a_full_disk_dead_files_go_also_those_behind_one_that_is_partly_alive(
    kit: StorageKit,
) -> None:
    fill(kit, runs=400)
    mixed = log_files(kit)
    kit.add(*(run(3, first, 10, fill=ENTRY) for first in range(0, 4000, 10)))
    kit.storage.maintenance.checkpoint()
    dead = set(log_files(kit)[:-1]) - set(mixed)
    kit.storage.maintenance.delete_ledgers([L2, LedgerId(3)])
    kit.sim.capacity_bytes = 0
    rest(kit.storage)
    assert kit.compact().stopped_by_full_disk
    assert dead and not dead & set(log_files(kit))


def test_compaction_touches_nothing_behind_the_last_checkpoint(kit: StorageKit) -> None:
    kit.add(*(run(2, first, 10, fill=ENTRY) for first in range(0, 200, 10)))
    assert kit.compact() == CompactReport()
    assert kit.held(2) == ids((0, 199))


def test_garbage_that_lay_behind_the_last_checkpoint_goes_after_the_next_one(
    kit: StorageKit,
) -> None:
    fill(kit)
    kit.add(*(run(3, first, 10, fill=ENTRY) for first in range(0, 200, 10)))
    kit.storage.maintenance.delete_ledgers([LedgerId(3)])
    kit.compact()
    kit.add(*(run(1, 40 + n, 1, fill=ENTRY) for n in range(100)))
    kit.storage.maintenance.checkpoint()
    assert kit.compact().files_deleted


def test_copies_that_were_rejected_go_though_nothing_takes_their_place(kit: StorageKit) -> None:
    kit.add(*(run(1, first, 10, fill=ENTRY) for first in range(0, 100, 10)))
    kit.add(*(run(2, first, 10, fill=ENTRY) for first in range(0, 100, 10)))
    kit.storage.maintenance.checkpoint()
    kit.compact()
    kit.storage.maintenance.reject(L1, ids((0, 99)), lambda _frame: ids((0, 99)))
    assert kit.compact().files_deleted
    assert kit.read(2, 0, 99, bytes_max=1 << 20)[0] == ids((0, 99))


def test_nothing_is_looked_at_again_until_something_died(
    kit: StorageKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(kit)
    kit.compact()
    looked: list[Index] = []

    def noted(index: Index) -> dict[int, int]:
        looked.append(index)
        return {}

    monkeypatch.setattr(Index, "live_bytes", noted)
    kit.compact()
    assert not looked
    kit.storage.maintenance.delete_ledgers([L2])
    kit.compact()
    assert looked


def test_rows_that_are_parts_of_one_frame_move_together(kit: StorageKit) -> None:
    kit.add(run(1, 4, 2, fill=ENTRY), run(1, 0, 10, fill=ENTRY))
    fill(kit)
    kit.storage.maintenance.delete_ledgers([L2])
    assert kit.compact().files_deleted > 0
    assert kit.read(1, 0, 99)[0] == ids((0, 39))
    kit = kit.after_power_cut()
    assert kit.read(1, 0, 99)[0] == ids((0, 39))
    kit.storage.close()


@pytest.mark.parametrize(("limit", "most"), [("BATCH_BYTES", 2000), ("BATCH_ROWS", 3)])
def test_rows_move_whenever_a_batch_is_full(
    kit: StorageKit, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(compaction, limit, most)
    moved: list[int] = []
    move = Index.move
    monkeypatch.setattr(Index, "move", lambda *rows: (moved.append(len(rows[1])), move(*rows)))
    fill(kit)
    kit.storage.maintenance.delete_ledgers([L2])
    kit.compact()
    assert max(moved) == 3 and sum(moved) >= 35


def test_a_file_with_an_unreadable_frame_stays_until_a_repair(kit: StorageKit) -> None:
    kit.add(run(1, 100, fill=ENTRY))
    fill(kit)
    kit = kit.reopened()
    kit.sim.damage(kit.root / "ledger-0/log/0000000001.log", 4096 + 80, b"\xff\xff")
    kit.storage.maintenance.delete_ledgers([L2])
    assert kit.compact().unreadable_frames == 1
    assert log_files(kit)[0] == "0000000001.log"
    assert kit.compact() == CompactReport(), "it is tried again, though nothing has changed"
    assert kit.read(1, 0, 100) == (ids((0, 39)), ids((100, 100)), 100)
    kit.add(run(1, 100, fill=ENTRY, recovery=True))
    kit.storage.maintenance.checkpoint()
    kit.compact()
    assert "0000000001.log" not in log_files(kit)
    assert kit.read(1, 100, 100) == (ids((100, 100)), ids(), 100)
    kit.storage.close()


def test_a_reader_follows_a_frame_that_moves_under_it(kit: StorageKit) -> None:
    fill(kit)
    directory = kit.storage._directories[0]
    stale, _ = directory._lookup(L1, 0, 0)
    kit.storage.maintenance.delete_ledgers([L2])
    kit.compact()
    found = directory._fetch(L1, stale[0])
    assert found is not None and found.buffer == run(1, 0, 1, fill=ENTRY).buffer


def in_pieces(kit: StorageKit, monkeypatch: pytest.MonkeyPatch) -> list[CompactReport]:
    """A compaction that rests after each frame has begun, and done what it does before a rest."""
    monkeypatch.setattr(compaction, "SLICE_BYTES", 1)
    fill(kit)
    kit.storage.maintenance.delete_ledgers([L2])
    pieces = [kit.storage.maintenance.compact_some() for _ in range(10)]
    assert sum(piece.files_deleted for piece in pieces if piece is not None) > 0
    return [piece for piece in pieces if piece is not None]


def test_pieces_say_together_what_was_done(
    kit: StorageKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = in_pieces(kit, monkeypatch)
    while (piece := kit.storage.maintenance.compact_some()) is not None:
        pieces.append(piece)
    assert all(piece.frames_copied <= 1 for piece in pieces)
    assert sum(piece.frames_copied for piece in pieces) >= 35
    assert kit.held(1) == kit.read(1, 0, 99)[0] == ids((0, 39))


@pytest.mark.parametrize("bound", ["PAGE_ROWS", "BATCH_ROWS", "BATCH_BYTES"])
def test_however_little_is_done_at_once_all_of_it_is_done(
    kit: StorageKit, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(compaction, bound, 1)
    fill(kit)
    kit.storage.maintenance.delete_ledgers([L2])
    assert kit.compact().frames_copied >= 35
    assert kit.held(1) == kit.read(1, 0, 99)[0] == ids((0, 39))


def test_what_is_deleted_between_two_pieces_does_not_come_back(
    kit: StorageKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_pieces(kit, monkeypatch)
    kit.storage.maintenance.delete_ledgers([L1])
    kit.compact()
    assert kit.held(1) == ids()
    kit = kit.after_power_cut()
    assert kit.held(1) == ids()
    kit.storage.close()


def test_a_stop_between_two_pieces_waits_for_none_and_loses_nothing(
    kit: StorageKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_pieces(kit, monkeypatch)
    kit.storage.close()
    kit = kit.after_power_cut()
    assert kit.held(1) == kit.read(1, 0, 99)[0] == ids((0, 39))
    kit.storage.close()


def test_a_crash_between_two_pieces_loses_nothing(
    kit: StorageKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_pieces(kit, monkeypatch)
    kit.storage.maintenance.checkpoint()
    kit = kit.after_power_cut()
    kit.compact()
    assert kit.held(1) == kit.read(1, 0, 99)[0] == ids((0, 39))
    kit.storage.close()


def test_a_crash_before_any_step_of_a_compaction_loses_nothing(tmp_path: Path) -> None:
    for step in range(200):
        kit = StorageKit(tmp_path / f"bookie-{step}", disks=1)
        fill(kit, runs=16)
        kit.storage.maintenance.delete_ledgers([L2])
        ended = interrupted(kit, kit.compact, after_operations=step)
        kit = kit.after_crash(step)
        assert kit.held(1) == kit.read(1, 0, 99)[0] == ids((0, 15))
        kit.compact()
        assert kit.held(1) == kit.read(1, 0, 99)[0] == ids((0, 15))
        kit.storage.close()
        if ended:
            return
    raise AssertionError("a compaction of more than 200 operations")


def test_on_a_full_disk_dead_files_still_go(tmp_path: Path) -> None:
    disk = ScarceDisk()
    kit = StorageKit(tmp_path / "bookie", disk=disk, disks=1)
    kit.add(*(run(2, first, 10, fill=ENTRY) for first in range(0, 300, 10)))
    kit.storage.maintenance.checkpoint()
    disk.free_bytes = 0
    kit.storage.maintenance.delete_ledgers([L2])
    assert kit.compact().files_deleted > 2
    kit.storage.close()


def test_what_a_checkpoint_had_no_space_for_is_no_garbage(kit: StorageKit) -> None:
    kit.add(*(run(2, first, 10, fill=ENTRY) for first in range(0, 200, 10)))
    kit.sim.fail("commit", error=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        kit.storage.maintenance.checkpoint()
    assert kit.compact() == CompactReport()
    kit.storage.maintenance.checkpoint()
    assert kit.read(2, 0, 199)[0] == ids((0, 199))


def test_a_compaction_that_the_index_had_no_space_for_is_done_by_the_next(kit: StorageKit) -> None:
    fill(kit)
    kit.storage.maintenance.delete_ledgers([L2])
    kit.sim.fail("commit", error=errno.ENOSPC, times=2)
    with pytest.raises(DiskFullError):
        kit.compact()
    kit.storage.maintenance.checkpoint()
    assert kit.compact().files_deleted and kit.read(1, 0, 99)[0] == ids((0, 39))


def test_a_file_that_could_not_be_read_is_compacted_once_it_can(kit: StorageKit) -> None:
    fill(kit)
    kit = kit.reopened()
    kit.storage.maintenance.delete_ledgers([L2])
    kit.sim.fail("read", error=errno.EIO, times=3)
    before = kit.compact()
    assert before.unreadable_frames == 3
    first = log_files(kit)[0]
    assert kit.compact().files_deleted and first not in log_files(kit)
    assert kit.read(1, 0, 99)[:2] == (ids((0, 39)), ids())
    kit.end()


def test_files_that_could_not_be_opened_are_compacted_once_they_can(kit: StorageKit) -> None:
    fill(kit)
    kit = kit.reopened()
    kit.storage.maintenance.delete_ledgers([L2])
    first = log_files(kit)[0]
    kit.sim.fail("open", pattern="*.log", error=errno.EMFILE, times=len(log_files(kit)))
    assert kit.compact() == CompactReport()
    assert kit.compact().files_deleted and first not in log_files(kit)
    assert kit.read(1, 0, 99)[:2] == (ids((0, 39)), ids())
    kit.end()
