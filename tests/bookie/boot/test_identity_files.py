"""Stamps, markers and the lock: the small files that say whose folders these are."""

import errno
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from bookie.boot.drain_marker import is_draining, mark_draining
from bookie.boot.inspection import inspect_disks
from bookie.boot.lock import FolderLock
from bookie.boot.marker import (
    MARKER_NAME,
    NO_MARKER,
    UNREADABLE_MARKER,
    BootMarkers,
    FoundMarker,
    Marker,
    read_marker,
)
from bookie.boot.stamps import STAMP_NAME, Stamp, read_stamp, write_stamp
from bookie.errors import BootRefusedError, CorruptError, StorageError
from bookie.storage.disk import Disk, RealDisk
from bookie.storage.index import INDEX_NAME
from bookie.storage.modes import DurabilityMode
from bookie.testing.disk import SimDisk

STAMP = Stamp("cluster-a", "bookie-0", "ledger", 1, 2, 1, "d15c", 7, ("uid-j", "uid-0", "uid-1"))
MARKER = Marker(7, DurabilityMode.MEMORY)
REAL = RealDisk()
CRASHES = range(20)


def simulated() -> tuple[SimDisk, tuple[Path, Path]]:
    disk, paths = SimDisk(), (Path("/one"), Path("/two"))
    for path in paths:
        disk.make_directory(path)
    return disk, paths


Work = Callable[[SimDisk, tuple[Path, Path]], None]


def crash_images(before: Work, work: Work, *, seed: int) -> Iterator[tuple[SimDisk, Path, Path]]:
    """What a power cut leaves when it comes before each single operation of `work`."""
    for step in itertools.count(1):
        disk, paths = simulated()
        before(disk, paths)
        left = itertools.count(1 - step)

        def cut(operation: str, path: Path, left: Iterator[int] = left) -> None:
            if next(left) == 0:
                raise OSError(f"the power is cut before {operation} of {path}")

        disk.watch(cut)
        try:
            work(disk, paths)
        except StorageError:
            yield disk.crash(seed), *paths
        else:
            yield disk.crash(seed), *paths
            return


# ---- stamps -------------------------------------------------------------------------------------


def test_a_stamp_comes_back_whole(tmp_path: Path) -> None:
    assert read_stamp(REAL, tmp_path) is None
    write_stamp(REAL, tmp_path, STAMP)
    assert read_stamp(REAL, tmp_path) == STAMP
    assert STAMP.volume_uid == "uid-1"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"{}",
        b'{"instance_id": "x"}',
        json.dumps({**dict.fromkeys(STAMP.__slots__, "x")}).encode(),
    ],
)
def test_a_stamp_that_makes_no_sense_is_an_error_not_an_absence(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / STAMP_NAME).write_bytes(content)
    with pytest.raises(CorruptError, match="restore the file, or empty the directory"):
        read_stamp(REAL, tmp_path)


def test_a_stamp_that_the_disk_cannot_give_is_an_error_not_an_absence() -> None:
    disk, (path, _) = simulated()
    write_stamp(disk, path, STAMP)
    disk.fail("read", pattern=STAMP_NAME)
    with pytest.raises(StorageError):
        read_stamp(disk, path)


@pytest.mark.parametrize("seed", CRASHES)
def test_a_crash_while_stamping_leaves_the_old_stamp_or_the_new(seed: int) -> None:
    old = replace(STAMP, boot_epoch=6)
    images = crash_images(
        lambda disk, paths: write_stamp(disk, paths[0], old),
        lambda disk, paths: write_stamp(disk, paths[0], STAMP),
        seed=seed,
    )
    found = [read_stamp(image, path) for image, path, _ in images]
    assert len(found) > 4
    assert found[0] == old and found[-1] == STAMP
    assert set(found) == {old, STAMP}


# ---- markers ------------------------------------------------------------------------------------


def markers(disk: Disk, paths: Sequence[Path]) -> BootMarkers:
    return BootMarkers(disk, paths, holders=())


def test_a_marker_comes_back_as_it_was_written(tmp_path: Path) -> None:
    assert read_marker(REAL, tmp_path) == NO_MARKER
    marker = Marker(7, DurabilityMode.SYNC, generation=12, confirmed=11, is_clean=True)
    markers(REAL, [tmp_path]).write(marker)
    assert read_marker(REAL, tmp_path) == FoundMarker(True, marker)


def test_a_marker_of_a_version_before_is_dirty_and_of_no_generation(tmp_path: Path) -> None:
    (tmp_path / MARKER_NAME).write_bytes(b'{"bootEpoch": 7, "mode": "memory"}')
    found = read_marker(REAL, tmp_path)
    assert found.is_dirty and found.marker == Marker(7, DurabilityMode.MEMORY)


def test_each_directory_names_its_own_holder(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.mkdir()
    BootMarkers(REAL, paths, holders=("one", "two")).write(MARKER)
    assert [read_marker(REAL, path).marker for path in paths] == [
        replace(MARKER, holder="one"),
        replace(MARKER, holder="two"),
    ]


def test_a_raised_generation_says_what_the_store_had(tmp_path: Path) -> None:
    ours = markers(REAL, [tmp_path])
    ours.write(replace(MARKER, generation=4))
    assert ours.raise_generation(confirmed=3) == 5
    raised = replace(MARKER, generation=5, confirmed=3)
    assert read_marker(REAL, tmp_path) == FoundMarker(True, raised)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"bootEpoch": 1, "mode": "other"}', b"\xff"]
)
def test_a_marker_that_makes_no_sense_is_dirty(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MARKER_NAME).write_bytes(content)
    assert read_marker(REAL, tmp_path) == UNREADABLE_MARKER


@pytest.mark.parametrize("operation", ["stat", "open", "read"])
def test_a_marker_that_the_disk_cannot_give_is_dirty(operation: str) -> None:
    disk, (path, _) = simulated()
    disk.fail(operation, pattern=MARKER_NAME)
    if operation != "stat":
        markers(disk, [path]).write(MARKER)
    assert read_marker(disk, path).is_dirty


@pytest.mark.parametrize("seed", CRASHES)
def test_s27_once_written_markers_survive_every_crash(seed: int) -> None:
    disk, paths = simulated()
    markers(disk, paths).write(MARKER)
    image = disk.crash(seed)
    assert [read_marker(image, path) for path in paths] == [FoundMarker(True, MARKER)] * 2


@pytest.mark.parametrize("seed", CRASHES)
def test_a_crash_while_markers_are_renewed_never_shows_a_clean_stop(seed: int) -> None:
    images = crash_images(
        lambda disk, paths: markers(disk, paths).write(Marker(6, DurabilityMode.SYNC)),
        lambda disk, paths: markers(disk, paths).write(MARKER),
        seed=seed,
    )
    for image, *paths in images:
        assert all(read_marker(image, path).marker is not None for path in paths)


def test_a_clean_end_is_there_after_a_power_cut() -> None:
    disk, paths = simulated()
    ours = markers(disk, paths)
    ours.write(MARKER)
    ours.end_cleanly()
    found = [read_marker(disk.power_cut(), path) for path in paths]
    assert not any(each.is_dirty for each in found)
    assert [each.marker for each in found] == [replace(MARKER, is_clean=True)] * 2


# ---- the lock -----------------------------------------------------------------------------------

HOLDER = """
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from bookie.boot.lock import FolderLock
with FolderLock([Path(sys.argv[1])]):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.mark.process
def test_a_second_process_is_refused_and_told_who_holds_the_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(BootRefusedError, match=f"pid {holder.pid}"):
            FolderLock([tmp_path]).acquire()
        holder.kill()
    with FolderLock([tmp_path]):
        assert int((tmp_path / "LOCK").read_text()) == os.getpid()


def test_a_lock_that_fails_halfway_holds_nothing(tmp_path: Path) -> None:
    free, taken = tmp_path / "free", tmp_path / "taken"
    free.mkdir()
    taken.mkdir()
    with FolderLock([taken]):
        with pytest.raises(BootRefusedError):
            FolderLock([free, taken]).acquire()
        with FolderLock([free]):
            pass


def test_the_same_folder_locks_again_after_a_release(tmp_path: Path) -> None:
    for _ in range(2):
        with FolderLock([tmp_path]):
            pass


def test_a_folder_without_room_for_the_pid_is_locked_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with FolderLock([tmp_path]), pytest.raises(BootRefusedError, match="pid unknown"):
        FolderLock([tmp_path]).acquire()


# ---- looking ------------------------------------------------------------------------------------


def test_what_lies_in_directories_is_told_apart(tmp_path: Path) -> None:
    journal, ours, strange = (tmp_path / name for name in ("journal", "ours", "strange"))
    for path in (journal, ours / "log", strange, journal / "lost+found"):
        path.mkdir(parents=True)
    (ours / "index.sqlite").write_bytes(b"SQLite")
    (strange / "letters.txt").touch()
    (strange / ".hidden").touch()
    found = inspect_disks(REAL, [journal, ours, strange], volume_uids=["uid-j"])
    assert [(d.role, d.index, d.holds_store, d.strange) for d in found] == [
        ("journal", 0, False, ()),
        ("ledger", 0, True, ()),
        ("ledger", 1, False, ("letters.txt",)),
    ]
    assert [d.volume_uid for d in found] == ["uid-j", "", ""]


def test_a_ledger_directory_without_its_index_holds_no_store_unless_logs_are_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "index.sqlite-wal").touch()
    paths = [tmp_path / "journal", tmp_path]
    paths[0].mkdir()
    assert not inspect_disks(REAL, paths, volume_uids=[])[1].holds_store
    (tmp_path / "log" / "0000000001.log").touch()
    assert inspect_disks(REAL, paths, volume_uids=[])[1].holds_store


@pytest.mark.parametrize("of_a_database", ["-wal", "-shm", "-journal"])
def test_what_a_database_leaves_beside_its_index_is_no_index(
    tmp_path: Path, of_a_database: str
) -> None:
    """An index that was deleted alone is missed: a person is asked, and its ledgers are marked."""
    paths = [tmp_path / "journal", tmp_path / "ledgers"]
    for path in paths:
        path.mkdir()
    (paths[1] / f"{INDEX_NAME}{of_a_database}").write_bytes(b"left over")
    assert not inspect_disks(REAL, paths, volume_uids=[])[1].holds_store
    (paths[1] / INDEX_NAME).write_bytes(b"tables")
    assert inspect_disks(REAL, paths, volume_uids=[])[1].holds_store


def test_an_unreadable_stamp_is_kept_as_a_problem_of_its_disk(tmp_path: Path) -> None:
    (tmp_path / STAMP_NAME).write_bytes(b"{")
    (found,) = inspect_disks(REAL, [tmp_path], volume_uids=[])
    assert found.stamp is None and "is no stamp" in found.problem


# ---- the drain marker ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", CRASHES)
def test_a_drain_that_any_step_refuses_has_begun_in_no_directory(seed: int) -> None:
    """Also where the marker has its name and only the sync of that name fails."""
    images = crash_images(lambda _disk, _paths: None, mark_draining, seed=seed)
    *refused, begun = [is_draining(disk, paths) for disk, *paths in images]
    assert begun and refused and not any(refused)


# ---- names in a directory -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["LOCK", "STAMP", "DIRTY", "DRAINING", "index.sqlite", "index.sqlite-wal", ".direct-probe",
     "journal/", "log/", "lost+found/"],
)  # fmt: skip
def test_a_name_of_a_bookies_own_or_the_file_systems_is_not_strange(
    tmp_path: Path, name: str
) -> None:
    made = tmp_path / name
    made.mkdir() if name.endswith("/") else made.touch()
    (tmp_path / "notes.txt").touch()
    assert inspect_disks(REAL, [tmp_path], volume_uids=[])[0].strange == ("notes.txt",)


def test_a_directory_that_only_a_drain_has_written_to_is_nobody_elses(tmp_path: Path) -> None:
    mark_draining(REAL, [tmp_path])
    assert inspect_disks(REAL, [tmp_path], volume_uids=[])[0].strange == ()
