"""What only the real disk can get wrong: short writes, names that cannot be asked about."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bookie.errors import StorageError
from bookie.storage.disk import RealDisk

LIMIT_BYTES = 6000


@contextmanager
def small_files() -> Iterator[None]:
    """Within it the system cuts writes off at LIMIT_BYTES of a file, of every file of this process.

    No longer than the call under test: what pytest prints may go to a file that is longer already.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_cut_short_goes_on_and_its_error_is_seen(tmp_path: Path) -> None:
    file = RealDisk().create(tmp_path / "a")
    with small_files(), pytest.raises(StorageError, match="cannot write"):
        file.pwrite([b"x" * 4000, b"y" * 4000], 0)
    assert file.pread(9000, 0) == b"x" * 4000 + b"y" * 2000
    file.close()


def test_a_write_within_the_limit_is_whole(tmp_path: Path) -> None:
    file = RealDisk().create(tmp_path / "a")
    with small_files():
        file.pwrite([b"x" * 4000, b"y" * 2000], 0)
    assert file.size() == LIMIT_BYTES
    file.close()


def test_a_name_that_cannot_be_asked_about_is_an_error_and_not_absent(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot stat"):
        RealDisk().exists(tmp_path / "file" / "below")


def test_a_file_is_made_with_all_the_space_that_it_asks_for(tmp_path: Path) -> None:
    file = RealDisk().create(tmp_path / "a", size=8192)
    assert file.size() == 8192
    file.close()


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("create", "file/below"),
        ("open", "absent"),
        ("unlink", "absent"),
        ("list_directory", "absent"),
        ("sync_directory", "absent"),
        ("exists", "file/below"),
    ],
)
def test_an_error_names_the_file_that_it_is_of(tmp_path: Path, operation: str, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=str(tmp_path / name)):
        getattr(RealDisk(), operation)(tmp_path / name)


def test_closing_gives_the_descriptor_back(tmp_path: Path) -> None:
    disk, path = RealDisk(), tmp_path / "a"
    disk.create(path).close()
    disk.open(path).close()
    held = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    assert str(path) not in held


def test_closing_twice_is_allowed(tmp_path: Path) -> None:
    file = RealDisk().create(tmp_path / "a")
    file.close()
    file.close()
