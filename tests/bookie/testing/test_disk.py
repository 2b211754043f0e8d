"""The simulated disk forgets exactly what a real one may forget."""

from pathlib import Path

import pytest
from bookie.errors import DiskFullError, StorageError
from bookie.storage.disk import read_file, write_file
from bookie.testing.disk import SimDisk
from bookie.testing.volatile import SECTOR_BYTES

HOME = Path("/home")
A = HOME / "a"


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(HOME)
    write_file(disk, A, b"old")
    return disk


def overwrite(disk: SimDisk, content: bytes, *, sync: bool = False) -> None:
    file = disk.open(A, writable=True)
    file.pwrite([content], 0)
    if sync:
        file.fdatasync()
    file.close()


def test_synced_bytes_survive_every_crash(disk: SimDisk) -> None:
    overwrite(disk, b"new", sync=True)
    assert read_file(disk.power_cut(), A) == b"new"


def test_unsynced_bytes_are_lost_in_a_power_cut_and_kept_by_a_kill(disk: SimDisk) -> None:
    overwrite(disk, b"new")
    assert read_file(disk, A) == b"new"
    assert read_file(disk.kill(), A) == b"new"
    assert read_file(disk.power_cut(), A) == b"old"


def images_of(content: bytes, seeds: int) -> set[bytes | None]:
    found = set()
    for seed in range(seeds):
        disk = SimDisk()
        disk.make_directory(HOME)
        write_file(disk, A, bytes(len(content)))
        overwrite(disk, content)
        found.add(read_file(disk.crash(seed), A))
    return found


def test_a_crash_tears_writes_at_sector_boundaries() -> None:
    one, two = b"1" * SECTOR_BYTES, b"2" * SECTOR_BYTES
    zero = bytes(SECTOR_BYTES)
    assert images_of(one + two, seeds=60) == {one + two, one + zero, zero + two, zero + zero}


def test_the_same_seed_gives_the_same_image() -> None:
    content = bytes(range(256)) * 40
    assert len({frozenset(images_of(content, seeds=7)) for _ in range(2)}) == 1


@pytest.mark.parametrize("synced", [False, True])
def test_a_new_name_is_durable_only_after_the_directory_sync(disk: SimDisk, synced: bool) -> None:
    disk.create(HOME / "b").close()
    if synced:
        disk.sync_directory(HOME)
    assert disk.power_cut().exists(HOME / "b") is synced


def test_an_unlink_and_a_rename_are_volatile_until_the_directory_sync(disk: SimDisk) -> None:
    write_file(disk, HOME / "b", b"b")
    disk.unlink(A)
    disk.rename(HOME / "b", HOME / "c")
    assert disk.list_directory(HOME) == ["c"]
    assert disk.power_cut().list_directory(HOME) == ["a", "b"]


def test_write_file_is_atomic_at_every_crash() -> None:
    found = set()
    for step in range(1, 12):
        for seed in range(20):
            found.add(write_file_stopped_at(step, seed))
    assert found == {b"old", b"new"}


def write_file_stopped_at(step: int, seed: int) -> bytes | None:
    disk = SimDisk()
    disk.make_directory(HOME)
    write_file(disk, A, b"old")
    left = step

    def stop(operation: str, path: Path) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(5, "stopped here")

    disk.watch(stop)
    try:
        write_file(disk, A, b"new")
    except StorageError:
        assert left < 0
    disk.watch(None)
    return read_file(disk.crash(seed), A)


def test_after_a_failed_sync_a_second_one_lies(disk: SimDisk) -> None:
    file = disk.open(A, writable=True)
    file.pwrite([b"new"], 0)
    disk.fail("sync", pattern="a")
    with pytest.raises(StorageError, match="cannot sync"):
        file.fdatasync()
    file.fdatasync()
    assert read_file(disk, A) == b"new"
    assert read_file(disk.power_cut(), A) == b"old"


def test_the_capacity_is_the_sum_of_the_files(disk: SimDisk) -> None:
    disk.capacity_bytes = 100
    with pytest.raises(DiskFullError):
        disk.create(HOME / "b", size=98)
    disk.create(HOME / "b", size=97).close()
    assert disk.space(HOME).free_bytes == 0


def test_a_crashed_disk_refuses_everything(disk: SimDisk) -> None:
    disk.power_cut()
    with pytest.raises(StorageError, match="crashed"):
        disk.exists(A)


def test_damage_is_durable(disk: SimDisk) -> None:
    disk.damage(A, 1, b"X")
    assert read_file(disk.power_cut(), A) == b"oXd"
