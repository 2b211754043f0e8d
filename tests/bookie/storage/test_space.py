"""Full before it is too late, and room again: marks, hysteresis, and what is never lost."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie.errors import DiskFullError, SettingsError
from bookie.frames.frame import RunFrame
from bookie.ids import LedgerId
from bookie.storage.disk import DiskSpace
from bookie.storage.index import Index
from bookie.storage.modes import DurabilityMode
from bookie.storage.records import LedgerRecord
from bookie.storage.space import DirectoryUsage, SpaceMarks, SpaceWatch, shortage
from storage_kit import KIB, WAIT_S, ScarceDisk, StorageKit, ids, run

L7 = LedgerId(7)
GIB = 1024**3
MARKS = SpaceMarks(files_min=2, fraction_min=0.05)


def test_full_below_two_files_or_a_part_of_the_disk_whichever_is_more() -> None:
    assert MARKS.low_bytes(DiskSpace(0, 10 * GIB), file_bytes=GIB) == 2 * GIB
    assert MARKS.low_bytes(DiskSpace(0, 60 * GIB), file_bytes=GIB) == 3 * GIB
    assert MARKS.low_bytes(DiskSpace(0, 6000 * GIB), file_bytes=GIB) == 4 * GIB


def test_a_full_disk_takes_adds_again_only_when_clearly_more_is_free() -> None:
    disk = ScarceDisk()
    watch = SpaceWatch(Path("/d"), disk=disk, marks=MARKS, file_bytes=64 * KIB)
    seen = []
    low = MARKS.low_bytes(DiskSpace(0, 1 << 30), file_bytes=64 * KIB)
    for free in (low, low - 1, low, int(low * 1.24), int(low * 1.25) + 1, low):
        disk.free_bytes = free
        watch.measure()
        seen.append(watch.is_full)
    assert seen == [False, True, True, True, False, False]


def test_adds_are_taken_again_from_the_figure_of_the_usage_on_and_not_before() -> None:
    disk = ScarceDisk()
    watch = SpaceWatch(Path("/d"), disk=disk, marks=MARKS, file_bytes=64 * KIB)
    disk.free_bytes = 0
    enough = watch.usage(log_bytes=0).resume_bytes
    seen = []
    for disk.free_bytes in (enough - 1, enough):
        watch.measure()
        seen.append(watch.is_full)
    assert seen == [True, False]


@pytest.mark.parametrize("wrong", [{"files_min": 0}, {"fraction_min": 1.0}, {"resume_factor": 0.9}])
def test_marks_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        SpaceMarks(**wrong)  # type: ignore[arg-type]


@pytest.fixture(params=list(DurabilityMode), ids=lambda mode: mode.value)
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StorageKit]:
    opened = StorageKit(tmp_path / "bookie", request.param, disk=ScarceDisk(), disks=1)
    yield opened
    opened.end()


def free(kit: StorageKit, amount: int) -> None:
    assert isinstance(kit.disk, ScarceDisk)
    kit.disk.free_bytes = amount


def test_a_storage_is_full_from_the_low_mark_on_and_says_so_in_its_usage(kit: StorageKit) -> None:
    seen = []
    for amount in (1 << 30, 63 * KIB, 1 << 30):
        free(kit, amount)
        kit.storage.maintenance.checkpoint()
        seen.append(
            (
                kit.storage.maintenance.is_full,
                {usage.is_full for usage in kit.storage.maintenance.usage()},
            )
        )
    assert seen == [(False, {False}), (True, {True}), (False, {False})]


def test_a_disk_that_fills_up_refuses_and_keeps_all_it_acknowledged(kit: StorageKit) -> None:
    taken = 0
    free(kit, 0)
    while True:
        answers = kit.start(run(7, taken, fill=b"y" * 6000))
        kit.pump(lambda answers=answers: bool(answers))  # type: ignore[misc]
        if answers != [None]:
            break
        taken += 1
    assert isinstance(answers[0], DiskFullError) and taken > 5
    assert kit.storage.maintenance.is_full and kit.storage.maintenance.failure is None
    assert ids((0, taken - 1)) <= kit.held(7)
    free(kit, 1 << 30)
    kit.storage.maintenance.checkpoint()
    kit.compact()
    kit = kit.reopened()
    kit.add(run(7, taken))
    assert kit.read(7, 0, taken, bytes_max=1 << 20)[0] == ids((0, taken))


def test_a_full_disk_still_takes_fences_and_checkpoints(kit: StorageKit) -> None:
    kit.add(run(7, 0))
    free(kit, 0)
    kit.put(LedgerRecord(L7, fenced=True))
    kit.storage.maintenance.checkpoint()
    kit = kit.reopened()
    record = kit.storage.record(L7)
    assert record is not None and record.fenced and kit.held(7) == ids((0, 0))


def test_adds_go_on_by_themselves_once_there_is_space(tmp_path: Path) -> None:
    kit = StorageKit(tmp_path / "bookie", disk=ScarceDisk(), disks=1)
    free(kit, 0)
    kit.add(*(run(7, first, fill=b"y" * 6000) for first in range(5)))
    with pytest.raises(AssertionError):
        kit.add(*(run(7, first, fill=b"y" * 6000) for first in range(5, 50)))
    free(kit, 1 << 30)
    deadline = time.monotonic() + WAIT_S
    while not is_taken(kit, run(7, 100, fill=b"y" * 6000)):
        assert time.monotonic() < deadline
        kit.storage.maintenance.checkpoint()  # the flusher looks for space whenever it syncs
    kit.end()


def is_taken(kit: StorageKit, frame: RunFrame) -> bool:
    answers = kit.start(frame)
    kit.pump(lambda: bool(answers))
    return answers == [None]


def test_a_commit_that_met_a_full_disk_is_made_up_for_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = StorageKit(tmp_path / "bookie", disk=ScarceDisk(), disks=1)
    kit.add(run(7, 0))
    kit.put(LedgerRecord(L7, fenced=True))
    index = kit.storage._directories[0].index
    with monkeypatch.context() as patch:
        patch.setattr(Index, "commit", is_full)
        with pytest.raises(DiskFullError):
            kit.storage.maintenance.checkpoint()
    assert kit.storage.maintenance.is_full and kit.storage.maintenance.failure is None
    kit.add(run(7, 1))
    assert kit.held(7) == ids((0, 1))
    kit.storage.maintenance.checkpoint()
    assert len(index.all_rows(L7)) == 2 and index.records()[L7].fenced
    kit.end()


def is_full(*_args: object, **_kwargs: object) -> int:
    raise DiskFullError("database or disk is full")


# What people are told


def usage(name: str, free: float, *, is_full: bool) -> DirectoryUsage:
    return DirectoryUsage(Path(name), int(free * GIB), 40 * GIB, 0, is_full, 3 * GIB)


def test_full_disks_are_named_with_their_numbers() -> None:
    told = shortage([usage("/a", 9, is_full=False), usage("/b", 1.5, is_full=True)])
    assert told == "/b has 1.50 of 40.00 GiB free, adds are taken again from 3.00 GiB on"


def test_where_a_file_found_no_room_the_fullest_disk_is_named() -> None:
    told = shortage([usage("/a", 9, is_full=False), usage("/b", 8, is_full=False)])
    assert told.startswith("/b has 8.00 of 40.00 GiB free")
