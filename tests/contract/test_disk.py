"""What every module above may rely on from a disk, real or simulated."""

import mmap
from pathlib import Path

import pytest
from bookie.errors import DiskFullError, StorageError
from bookie.storage.disk import (
    BLOCK_BYTES,
    Disk,
    RealDisk,
    read_file,
    remove_file,
    write_file,
)
from bookie.testing.disk import SimDisk


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else SimDisk()


@pytest.fixture
def home(disk: Disk, tmp_path: Path) -> Path:
    disk.make_directory(tmp_path / "deep" / "home")
    return tmp_path / "deep" / "home"


def test_a_created_file_is_zeros_of_its_size(disk: Disk, home: Path) -> None:
    file = disk.create(home / "a", size=10)
    assert file.size() == 10
    assert file.pread(20, 0) == bytes(10)
    file.close()


def test_creating_a_name_twice_is_refused(disk: Disk, home: Path) -> None:
    disk.create(home / "a").close()
    with pytest.raises(StorageError, match="cannot create"):
        disk.create(home / "a")


def test_buffers_are_written_one_after_the_other(disk: Disk, home: Path) -> None:
    file = disk.create(home / "a")
    file.pwrite([b"one", bytearray(b"two"), memoryview(b"three")], 2)
    file.fdatasync()
    assert file.pread(100, 0) == b"\0\0onetwothree"
    file.close()


def test_a_read_is_short_only_at_the_end(disk: Disk, home: Path) -> None:
    file = disk.create(home / "a")
    file.pwrite([b"abcdef"], 0)
    assert file.pread(3, 1) == b"bcd"
    assert file.pread(9, 4) == b"ef"
    assert file.pread(9, 6) == b""
    file.close()


def test_writing_a_file_opened_for_reading_is_refused(disk: Disk, home: Path) -> None:
    write_file(disk, home / "a", b"x")
    file = disk.open(home / "a")
    with pytest.raises(StorageError, match="cannot write"):
        file.pwrite([b"y"], 0)
    file.close()


def test_a_rename_takes_the_place_of_the_target(disk: Disk, home: Path) -> None:
    write_file(disk, home / "a", b"new")
    write_file(disk, home / "b", b"old")
    disk.rename(home / "a", home / "b")
    assert disk.list_directory(home) == ["b"]
    assert read_file(disk, home / "b") == b"new"


def test_an_unlinked_file_is_gone_but_open_ones_stay_readable(disk: Disk, home: Path) -> None:
    write_file(disk, home / "a", b"x")
    file = disk.open(home / "a")
    disk.unlink(home / "a")
    assert not disk.exists(home / "a")
    assert file.pread(1, 0) == b"x"
    file.close()


@pytest.mark.parametrize("name", ["open", "unlink", "list_directory", "sync_directory", "space"])
def test_a_missing_name_is_a_storage_error(disk: Disk, home: Path, name: str) -> None:
    with pytest.raises(StorageError, match="absent"):
        getattr(disk, name)(home / "absent")


def test_reading_a_missing_file_gives_none(disk: Disk, home: Path) -> None:
    assert read_file(disk, home / "absent") is None


def test_write_file_replaces_and_leaves_no_trace(disk: Disk, home: Path) -> None:
    write_file(disk, home / "a", b"first")
    disk.create(home / "a.new").close()  # as a crash in between leaves it
    write_file(disk, home / "a", b"second")
    assert read_file(disk, home / "a") == b"second"
    assert disk.list_directory(home) == ["a"]


def test_remove_file_takes_a_missing_file_for_done(disk: Disk, home: Path) -> None:
    write_file(disk, home / "a", b"x")
    remove_file(disk, home / "a")
    remove_file(disk, home / "a")
    assert disk.list_directory(home) == []


def test_directories_are_made_with_their_parents_and_twice(disk: Disk, home: Path) -> None:
    disk.make_directory(home / "x" / "y")
    disk.make_directory(home / "x" / "y")
    assert disk.list_directory(home) == ["x"]
    assert disk.list_directory(home / "x") == ["y"]


def test_truncate_cuts_and_extends_with_zeros(disk: Disk, home: Path) -> None:
    file = disk.create(home / "a")
    file.pwrite([b"abcdef"], 0)
    file.truncate(2)
    file.truncate(4)
    assert file.pread(9, 0) == b"ab\0\0"
    file.close()


def test_an_allocation_beyond_the_space_is_disk_full_and_leaves_no_file(
    disk: Disk, home: Path
) -> None:
    free = disk.space(home).free_bytes
    with pytest.raises(DiskFullError, match="free space"):
        disk.create(home / "a", size=free + 2**30)
    assert disk.list_directory(home) == []


def test_direct_files_take_aligned_blocks(disk: Disk, home: Path) -> None:
    if not disk.supports_direct(home):
        pytest.skip("the file system of the temporary folder has no direct writes")
    file = disk.create(home / "a", size=2 * BLOCK_BYTES, direct=True)
    block = memoryview(mmap.mmap(-1, BLOCK_BYTES))
    block[:3] = b"abc"
    file.pwrite([block, block], 0)
    assert file.is_direct
    file.close()
    assert read_file(disk, home / "a") == bytes(block) * 2


def test_direct_files_refuse_unaligned_writes(disk: Disk, home: Path) -> None:
    if not disk.supports_direct(home):
        pytest.skip("the file system of the temporary folder has no direct writes")
    file = disk.create(home / "a", size=2 * BLOCK_BYTES, direct=True)
    with pytest.raises(StorageError, match="cannot write"):
        file.pwrite([memoryview(mmap.mmap(-1, BLOCK_BYTES))[:100]], 0)
    file.close()


def test_the_probe_for_direct_writes_leaves_no_file(disk: Disk, home: Path) -> None:
    disk.supports_direct(home)
    assert disk.list_directory(home) == []
