"""What each durability mode promises, put to the test: SIGKILL, power cuts, crashed opens."""

import errno
import os
import random
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bookie.errors import CorruptError, StorageError
from bookie.frames.frame import RunFrame
from bookie.ids import EntryId, LedgerId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.storage.disk import RealDisk
from bookie.storage.modes import DurabilityMode
from bookie.storage.records import LedgerRecord
from bookie.storage.routing import route
from storage_kit import WAIT_S, StorageKit, ids, interrupted, run, wait_until

from bookie import points

L7 = LedgerId(7)
DURABLE = [DurabilityMode.JOURNAL, DurabilityMode.SYNC]
ENDS: list[Callable[[StorageKit], StorageKit]] = [
    StorageKit.after_kill,
    StorageKit.after_power_cut,
    *(lambda kit, seed=seed: kit.after_crash(seed) for seed in range(3)),
]


def some_runs(seed: int, *, count: int = 60) -> list[RunFrame]:
    """Runs of a few ledgers: in order, out of order and again, long enough to fill some files."""
    chance = random.Random(seed)
    return [
        run(
            chance.randrange(5),
            chance.randrange(0, 100) * 3,
            chance.randrange(1, 6),
            fill=b"z" * chance.choice([20, 3000]),
            lac=0,
        )
        for _ in range(count)
    ]


def held_by(frames: list[RunFrame]) -> dict[int, EntrySet]:
    held: dict[int, EntrySet] = {}
    for frame in frames:
        entries = EntrySet.from_runs([(frame.first_entry_id, frame.count, frame.pattern)])
        held[frame.ledger_id] = held.get(frame.ledger_id, EMPTY) | entries
    return held


def lost(kit: StorageKit, acked: list[RunFrame]) -> dict[int, EntrySet]:
    """Acknowledged entries that are not there, or there and not readable."""
    found = {}
    for ledger_id, entries in held_by(acked).items():
        read, _, through = kit.read(ledger_id, 0, 400, bytes_max=1 << 24)
        assert through == 400
        if missing := entries - (read & kit.held(ledger_id)):
            found[ledger_id] = missing
    return found


# ---- nothing that was acknowledged is lost ------------------------------------------------------


@pytest.mark.parametrize("mode", DURABLE)
@pytest.mark.parametrize("end", ENDS)
def test_nothing_acknowledged_is_lost(
    tmp_path: Path, mode: DurabilityMode, end: Callable[[StorageKit], StorageKit]
) -> None:
    kit = StorageKit(tmp_path / "bookie", mode)
    before, after = some_runs(1), some_runs(2)
    kit.add(*before)
    kit.storage.maintenance.checkpoint()
    kit.add(*after)
    kit = end(kit)
    assert lost(kit, before + after) == {}
    kit = end(kit)
    assert lost(kit, before + after) == {}
    kit.storage.close()


@pytest.mark.parametrize("mode", DURABLE)
def test_nothing_acknowledged_is_lost_on_a_real_disk_either(
    tmp_path: Path, mode: DurabilityMode
) -> None:
    kit = StorageKit(tmp_path / "bookie", mode, disk=RealDisk(), direct_io="auto")
    acked = some_runs(1)
    kit.add(*acked)
    shutil.copytree(kit.root, tmp_path / "image")
    kit.storage.close()
    kit = StorageKit(tmp_path / "image", mode, disk=RealDisk(), direct_io="auto")
    assert lost(kit, acked) == {}
    kit.storage.close()


@pytest.mark.parametrize("end", ENDS)
def test_memory_mode_loses_at_most_what_came_after_the_last_checkpoint(
    tmp_path: Path, end: Callable[[StorageKit], StorageKit]
) -> None:
    kit = StorageKit(tmp_path / "bookie")
    kit.add(*some_runs(1))
    kit.storage.maintenance.checkpoint()
    kit.add(*some_runs(2))
    kit = end(kit)
    assert lost(kit, some_runs(1)) == {}
    kit.storage.close()


def test_memory_mode_really_loses_what_was_only_in_memory(tmp_path: Path) -> None:
    kit = StorageKit(tmp_path / "bookie")
    kit.add(run(7, 0, 5))
    # The file is begun: nothing makes the flusher write by itself now.
    kit.storage.maintenance.checkpoint()
    kit.add(run(7, 5, 5, lac=4))
    kit = kit.after_kill()
    assert kit.held(7) == ids((0, 4)) and kit.storage.lac(L7) == -1
    kit.storage.close()


@pytest.mark.parametrize("mode", list(DurabilityMode))
@pytest.mark.parametrize("end", ENDS)
def test_records_that_were_answered_survive_in_every_mode(
    tmp_path: Path, mode: DurabilityMode, end: Callable[[StorageKit], StorageKit]
) -> None:
    kit = StorageKit(tmp_path / "bookie", mode)
    record = LedgerRecord(L7, master_key=b"k" * 20, explicit_lac=EntryId(3))
    kit.put(record)
    kit.put(replace(record, fenced=True))
    kit = end(kit)
    assert kit.storage.record(L7) == replace(record, fenced=True) and kit.storage.lac(L7) == 3
    kit = end(kit)
    assert kit.storage.record(L7) == replace(record, fenced=True)
    kit.storage.close()


def test_an_orderly_stop_keeps_everything_in_memory_mode(tmp_path: Path) -> None:
    kit = StorageKit(tmp_path / "bookie")
    kit.add(*some_runs(1))
    kit = kit.reopened()
    assert lost(kit, some_runs(1)) == {} and kit.storage.report.rebuilt_runs == 0
    kit.storage.close()


@pytest.mark.parametrize("mode", list(DurabilityMode))
def test_a_change_of_mode_keeps_what_the_other_mode_acknowledged(
    tmp_path: Path, mode: DurabilityMode
) -> None:
    kit = StorageKit(tmp_path / "bookie", DurabilityMode.JOURNAL)
    kit.add(*some_runs(1))
    kit = kit.after_power_cut(mode=mode)
    assert lost(kit, some_runs(1)) == {}
    kit.storage.close()


def test_lac_and_last_entry_are_recovered_from_the_log(tmp_path: Path) -> None:
    kit = StorageKit(tmp_path / "bookie", DurabilityMode.SYNC)
    kit.add(run(7, 0, 5, lac=-1), run(7, 5, 5, lac=4))
    kit = kit.after_power_cut()
    assert (kit.storage.lac(L7), kit.storage.last_entry_id(L7)) == (4, 9)
    kit.storage.close()


# ---- the journal goes only when it is not needed any more ---------------------------------------


def test_a_checkpoint_trims_the_journal_and_loses_nothing(tmp_path: Path) -> None:
    kit = StorageKit(tmp_path / "bookie", DurabilityMode.JOURNAL)
    runs = [run(7, first, 10, fill=b"y" * 900) for first in range(0, 300, 10)]
    kit.add(*runs)
    files = len(kit.sim.list_directory(kit.root / "journal/journal"))
    kit.storage.maintenance.checkpoint()
    assert len(kit.sim.list_directory(kit.root / "journal/journal")) < files
    kit = kit.after_power_cut()
    assert kit.held(7) == ids((0, 299)) and lost(kit, runs) == {}
    kit.storage.close()


def test_what_is_added_during_a_checkpoint_is_left_to_the_next(tmp_path: Path) -> None:
    kit = StorageKit(tmp_path / "bookie", DurabilityMode.SYNC, disks=1)
    kit.add(run(7, 0))
    kit.storage.maintenance.checkpoint()
    with kit.sim.held_syncs() as is_syncing:
        kit.start(run(7, 1))
        checkpoint = threading.Thread(target=kit.storage.maintenance.checkpoint)
        checkpoint.start()
        assert is_syncing.wait(WAIT_S)
        wait_until(lambda: kit.storage._directories[0].pending_rows == 0)
        later = kit.start(run(7, 2))
    checkpoint.join()
    kit.pump(lambda: bool(later))
    kit = kit.after_power_cut()
    assert kit.held(7) == kit.read(7, 0, 9)[0] == ids((0, 2))
    kit.storage.close()


@pytest.mark.parametrize("mode", list(DurabilityMode))
def test_a_power_cut_before_any_step_of_a_checkpoint_loses_nothing_acknowledged(
    tmp_path: Path, mode: DurabilityMode
) -> None:
    for step in range(100):
        kit = StorageKit(tmp_path / f"bookie-{step}", mode, disks=1)
        kit.add(*(run(7, first, 10, fill=b"y" * 900) for first in range(0, 80, 10)))
        kit.storage.maintenance.checkpoint()
        kit.add(*(run(7, first, 10, fill=b"y" * 900) for first in range(80, 160, 10)))
        kit.put(LedgerRecord(L7, fenced=True))
        ended = interrupted(kit, kit.storage.maintenance.checkpoint, after_operations=step)
        kit = kit.after_power_cut()
        safe = 79 if mode is DurabilityMode.MEMORY and not ended else 159
        assert ids((0, safe)) <= kit.held(7)
        assert kit.read(7, 0, 159, bytes_max=1 << 20)[0] == kit.held(7)
        record = kit.storage.record(L7)
        assert record is not None and record.fenced
        kit.storage.close()
        if ended:
            return
    raise AssertionError("a checkpoint of more than 100 operations")


def test_an_open_that_is_cut_short_is_repeated_by_the_next(tmp_path: Path) -> None:
    first = StorageKit(tmp_path / "bookie", DurabilityMode.JOURNAL)
    first.add(*some_runs(1))
    kit = first.after_power_cut()
    for _ in range(3):
        kit = kit.after_power_cut()
    assert lost(kit, some_runs(1)) == {} and kit.storage.report.replayed_runs == 0
    kit.storage.close()


def test_an_open_that_is_cut_short_anywhere_is_repeated_by_the_next(tmp_path: Path) -> None:
    acked = some_runs(1, count=15)
    for step in range(0, 400, 3):
        kit = StorageKit(tmp_path / f"bookie-{step}", DurabilityMode.JOURNAL, disks=1)
        kit.add(*acked)
        left = kit.sim.power_cut()
        with pytest.raises(StorageError):
            kit.storage.close()
        countdown = [step]

        def observe(_operation: str, _path: Path, countdown: list[int] = countdown) -> None:
            countdown[0] -= 1
            if countdown[0] < 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        left.watch(observe)
        try:
            StorageKit(kit.root, kit.mode, disk=left, disks=1).storage.close()
            ended = True
        except StorageError:
            ended = False
        left.watch(None)
        again = StorageKit(kit.root, kit.mode, disk=left.power_cut(), disks=1)
        assert lost(again, acked) == {} and not again.storage.report.journal_lost
        again.storage.close()
        if ended:
            return
    raise AssertionError("an open of more than 400 operations")


# ---- what is found wrong ------------------------------------------------------------------------


def torn(kit: StorageKit) -> StorageKit:
    """Half a frame behind the last good one, as a power cut in a write leaves it."""
    directory = kit.root / f"ledger-{route(L7, 2)}" / "log"
    frame = run(7, 0, 5)
    kit.add(frame)
    kit.storage.close()
    kit.sim.open(directory / "0000000001.log", writable=True)
    kit.sim.damage(
        directory / "0000000001.log", 4096 + len(frame.buffer), bytes(frame.buffer)[:100]
    )
    return StorageKit(kit.root, kit.mode, disk=kit.disk, **kit.changes)


def test_a_torn_log_is_reported_until_the_boot_has_dealt_with_it(tmp_path: Path) -> None:
    kit = torn(StorageKit(tmp_path / "bookie", DurabilityMode.SYNC))
    assert kit.storage.report.torn and kit.held(7) == ids((0, 4))
    kit = kit.after_power_cut()
    assert kit.storage.report.torn
    kit = kit.reopened()
    assert kit.storage.report.torn
    kit.storage.maintenance.settle()
    kit = kit.after_power_cut()
    assert not kit.storage.report.is_suspect
    kit.storage.close()


def test_a_lost_journal_is_reported_until_the_boot_has_dealt_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kit = StorageKit(tmp_path / "bookie")
    for number in range(3):
        kit.put(LedgerRecord(LedgerId(number), fenced=True))
    left = kit.sim.kill()
    with pytest.raises(StorageError):
        kit.storage.close()
    left.damage(kit.root / "journal/journal/0000000001.jnl", 4096 + 10, b"\xff" * 8)
    kit = StorageKit(kit.root, disk=left)
    assert kit.storage.report.journal_lost
    assert "the journal has lost durable records" in caplog.text and "is gone" in caplog.text
    kit = kit.reopened()
    assert kit.storage.report.journal_lost
    kit.storage.close()


def test_a_log_that_lost_synced_frames_refuses_to_open(tmp_path: Path) -> None:
    kit = StorageKit(tmp_path / "bookie", disks=1)
    kit.add(run(7, 0, 5))
    kit.storage.maintenance.checkpoint()
    kit.add(run(7, 5, 5))
    kit.storage.close()
    kit.sim.unlink(kit.root / "ledger-0/log/0000000001.log")
    with pytest.raises(CorruptError, match="treat the directory as lost"):
        StorageKit(kit.root, disk=kit.disk, disks=1)


def test_what_a_failed_sync_left_readable_is_durable_once_it_is_opened_again(
    tmp_path: Path,
) -> None:
    """The page cache shows it and calls it written; the machine's end would take it along."""
    kit = StorageKit(tmp_path, DurabilityMode.JOURNAL)
    frames = [run(7, 0), run(7, 1)]
    kit.add(frames[0])
    kit.storage.maintenance.checkpoint()
    kit.sim.fail("sync", pattern="*.log*", times=9)
    kit.add(frames[1])
    with pytest.raises(StorageError, match="cannot sync"):
        kit.storage.maintenance.checkpoint()
    opened = kit.after_kill()
    assert lost(opened, frames) == {}
    cut = opened.after_power_cut()
    assert lost(cut, frames) == {}
    cut.end()


@pytest.mark.parametrize("end", ENDS[1:], ids=range(len(ENDS) - 1))
@pytest.mark.parametrize("point", ["log synced, index not committed", "journal not trimmed"])
@pytest.mark.parametrize("mode", DurabilityMode, ids=lambda mode: mode.value)
def test_what_is_answered_while_a_checkpoint_goes_on_outlives_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: DurabilityMode,
    point: str,
    end: Callable[[StorageKit], StorageKit],
) -> None:
    """It is none of the checkpoint's, also where the journal goes on in another file meanwhile."""
    kit = StorageKit(tmp_path / "bookie", mode)
    kit.add(run(7, 0))

    def answered(passed: str) -> None:
        if point in passed:
            monkeypatch.setattr(points, "_observers", [])
            kit.put(LedgerRecord(L7, master_key=b"k" * 20, fenced=True))
            kit.add(run(7, 1))
            kit.storage._journal.begin_file()

    monkeypatch.setattr(points, "_observers", [answered])
    kit.storage.maintenance.checkpoint()
    again = end(kit)
    record = again.storage.record(L7)
    assert record is not None and record.fenced
    assert again.held(7) == ids((0, 1) if mode in DURABLE else (0, 0))
    again.end()
