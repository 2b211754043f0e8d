"""The pool of open files: bounded, and never closing a file in use."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from bookie.errors import StorageError
from bookie.storage.disk import DiskFile, write_file
from bookie.storage.readers import READERS_MAX, ReaderPool
from bookie.testing.disk import SimDisk
from hypothesis import given
from hypothesis import strategies as st

HOME = Path("/home")


@pytest.fixture
def opened() -> list[int]:
    return []


def made(opened: list[int]) -> ReaderPool:
    disk = SimDisk()
    disk.make_directory(HOME)
    for file_id in range(READERS_MAX + 2):
        write_file(disk, HOME / str(file_id), b"x")

    def open_file(file_id: int) -> DiskFile:
        opened.append(file_id)
        return disk.open(HOME / str(file_id))

    return ReaderPool(open_file)


@pytest.fixture
def pool(opened: list[int]) -> ReaderPool:
    return made(opened)


def touch(pool: ReaderPool, file_id: int) -> DiskFile:
    with pool.borrow(file_id) as file:
        return file


def test_a_file_is_opened_once(pool: ReaderPool, opened: list[int]) -> None:
    assert touch(pool, 0) is touch(pool, 0)
    assert opened == [0]


def test_two_readers_at_once_get_a_file_each(pool: ReaderPool) -> None:
    with pool.borrow(0) as one, pool.borrow(0) as two:
        assert one is not two
        assert one.pread(1, 0) == two.pread(1, 0) == b"x"


def test_of_two_readers_of_one_file_only_one_is_kept(pool: ReaderPool) -> None:
    with pool.borrow(0) as one:
        kept = touch(pool, 0)
    assert touch(pool, 0) is kept
    with pytest.raises(StorageError):
        one.pread(1, 0)


def test_no_more_than_so_many_stay_open(pool: ReaderPool) -> None:
    files = [touch(pool, file_id) for file_id in range(READERS_MAX + 2)]
    for file in files[:2]:
        with pytest.raises(StorageError):
            file.pread(1, 0)
    assert {file.pread(1, 0) for file in files[2:]} == {b"x"}


def test_the_file_longest_unused_is_closed(pool: ReaderPool, opened: list[int]) -> None:
    for file_id in range(READERS_MAX):
        touch(pool, file_id)
    touch(pool, 0)
    touch(pool, READERS_MAX)
    opened.clear()
    touch(pool, 0)
    touch(pool, 1)
    assert opened == [1]


@pytest.mark.parametrize("method", ["forget", "close"])
def test_a_file_in_use_stays_open(pool: ReaderPool, method: str) -> None:
    with pool.borrow(0) as file:
        pool.close() if method == "close" else pool.forget(0)
        assert file.pread(1, 0) == b"x"


def is_open(file: DiskFile) -> bool:
    try:
        return file.pread(1, 0) == b"x"
    except StorageError:
        return False


@given(st.lists(st.sampled_from(["take", "give back", "forget"]), max_size=12))
def test_of_a_file_that_was_forgotten_nothing_stays_open(steps: list[str]) -> None:
    pool, uses, files = made([]), list[AbstractContextManager[DiskFile]](), list[DiskFile]()
    for step in (*steps, "forget"):
        if step == "take":
            uses.append(pool.borrow(0))
            files.append(uses[-1].__enter__())
        elif step == "give back" and uses:
            uses.pop().__exit__(None, None, None)
        elif step == "forget":
            pool.forget(0)
            assert sum(map(is_open, set(files))) == len(uses)
    for use in uses:
        use.__exit__(None, None, None)
    assert not any(map(is_open, files))


def test_a_file_that_cannot_be_opened_is_nobodys(pool: ReaderPool) -> None:
    for file_id in (READERS_MAX + 9,) * 2:
        with pytest.raises(StorageError):
            touch(pool, file_id)
    assert not pool._users


def test_closed_files_are_closed(pool: ReaderPool) -> None:
    file = touch(pool, 0)
    pool.close()
    with pytest.raises(StorageError):
        file.pread(1, 0)
