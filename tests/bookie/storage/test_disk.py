"""What only the real disk can get wrong: short writes, names that cannot be asked about."""

import contextlib
import errno
import os
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from bookie.errors import DiskFullError, StorageError
from bookie.storage.disk import (
    WRITE_PARTS_MAX,
    RealDisk,
    RealFile,
    read_file,
    storage_error,
    write_file,
)
from storage_kit import TrackedDisk

LIMIT_BYTES = 6000
NO_DESCRIPTOR = 1 << 30
"""No process has so many open files."""


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


def test_a_write_of_as_many_parts_as_may_be_is_whole(tmp_path: Path) -> None:
    file = RealDisk().create(tmp_path / "a")
    file.pwrite([bytes([number % 251]) for number in range(WRITE_PARTS_MAX)], 0)
    assert file.pread(9000, 0) == bytes(number % 251 for number in range(WRITE_PARTS_MAX))
    file.close()


def test_a_read_cut_short_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, file = os.pread, RealDisk().create(tmp_path / "a")
    file.pwrite([bytes(range(100))], 0)
    monkeypatch.setattr(os, "pread", lambda fd, size, at: whole(fd, min(size, 7), at))
    assert file.pread(50, 3) == bytes(range(3, 53)) and file.pread(50, 90) == bytes(range(90, 100))
    file.close()


def test_a_name_that_cannot_be_asked_about_is_an_error_and_not_absent(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot stat"):
        RealDisk().exists(tmp_path / "file" / "below")


def test_a_file_is_made_with_all_the_space_that_it_asks_for(tmp_path: Path) -> None:
    file = RealDisk().create(tmp_path / "a", size=8192)
    assert file.size() == 8192
    file.close()


def of_absent(operation: str) -> Callable[[RealDisk, Path], object]:
    return lambda disk, path: getattr(disk, operation)(path / "absent")


def of_below_a_file(operation: str) -> Callable[[RealDisk, Path], object]:
    return lambda disk, path: getattr(disk, operation)(path / "file" / "below")


OF_NAMES: dict[str, tuple[Callable[[RealDisk, Path], object], str]] = {
    "create": (of_below_a_file("create"), "file/below: cannot create:"),
    "open": (of_absent("open"), "absent: cannot open:"),
    "rename": (lambda disk, path: disk.rename(path / "absent", path / "b"),
               "absent: cannot rename to b:"),
    "unlink": (of_absent("unlink"), "absent: cannot unlink:"),
    "exists": (of_below_a_file("exists"), "file/below: cannot stat:"),
    "list_directory": (of_absent("list_directory"), "absent: cannot list:"),
    "make_directory": (lambda disk, path: disk.make_directory(path / "link"),
                       "link: cannot create directory:"),
    "sync_directory": (of_absent("sync_directory"), "absent: cannot sync directory:"),
    "space": (of_absent("space"), "absent: cannot measure:"),
}  # fmt: skip
"""What each operation on names says when the system refuses it, behind the folder's path."""
OF_FILES: dict[str, tuple[Callable[[RealFile], object], str]] = {
    "size": (lambda file: file.size(), "stat"),
    "pwrite": (lambda file: file.pwrite([b"x"], 0), "write"),
    "pread": (lambda file: file.pread(1, 0), "read"),
    "fdatasync": (lambda file: file.fdatasync(), "sync"),
    "truncate": (lambda file: file.truncate(7), "truncate to 7 bytes"),
    "close": (lambda file: file.close(), "close"),
}
"""What each operation on an open file says that it cannot do."""
OTHERS = {
    "supports_direct": "answers no", "open_database": "see test_sqlite",
    "flusher": "no file", "start_background": "no file",
    "path": "asks", "is_direct": "asks",
}  # fmt: skip


@pytest.mark.parametrize(("act", "says"), OF_NAMES.values(), ids=OF_NAMES.keys())
def test_an_error_names_the_file_that_it_is_of_and_what_was_tried(
    tmp_path: Path, act: Callable[[RealDisk, Path], object], says: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(StorageError, match=re.escape(f"{tmp_path}/{says}")):
        act(RealDisk(), tmp_path)


@pytest.mark.parametrize(("act", "tries"), OF_FILES.values(), ids=OF_FILES.keys())
def test_an_error_of_an_open_file_names_it_and_what_was_tried(
    act: Callable[[RealFile], object], tries: str
) -> None:
    file = RealFile(Path("/d/a.log"), NO_DESCRIPTOR, is_direct=False)
    with pytest.raises(StorageError, match=f"^/d/a.log: cannot {tries}: Bad file descriptor; "):
        act(file)


@pytest.mark.parametrize("kind", [RealDisk, RealFile])
def test_each_operation_of_a_disk_is_in_one_of_these_tables(kind: type) -> None:
    known = {*OF_NAMES, *OF_FILES, *OTHERS}
    assert {name for name in dir(kind) if not name.startswith("_")} <= known


def test_a_full_disk_has_an_error_of_its_own() -> None:
    for number in (errno.ENOSPC, errno.EDQUOT):
        found = storage_error("write", Path("/d/a.log"), OSError(number, os.strerror(number)))
        assert isinstance(found, DiskFullError) and "/d/a.log: cannot write: " in str(found)
    assert not isinstance(
        storage_error("write", Path("/d"), OSError(errno.EIO, "?")), DiskFullError
    )


# ---- descriptors --------------------------------------------------------------------------------


def descriptors_of(path: Path) -> list[str]:
    """Open files of this process that have, or had, a name there."""
    held = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    return [name for name in held if name.startswith(str(path))]


def test_closing_gives_the_descriptor_back(tmp_path: Path) -> None:
    disk, path = RealDisk(), tmp_path / "a"
    disk.create(path).close()
    disk.open(path).close()
    assert descriptors_of(tmp_path) == []


def test_a_file_that_cannot_have_its_space_is_not_there_and_not_open(tmp_path: Path) -> None:
    with small_files(), pytest.raises(StorageError, match="/a: cannot allocate 8192"):
        RealDisk().create(tmp_path / "a", size=8192)
    assert descriptors_of(tmp_path) == [] and not list(tmp_path.iterdir())


def test_looking_for_direct_writes_leaves_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        RealDisk().supports_direct(tmp_path)
        assert descriptors_of(tmp_path) == [] and not list(tmp_path.iterdir())


def test_syncing_a_directory_leaves_nothing_open(tmp_path: Path) -> None:
    RealDisk().sync_directory(tmp_path)
    assert descriptors_of(tmp_path) == []


@pytest.mark.parametrize("fails", ["", "create", "open", "write", "sync", "stat", "read", "rename"])
def test_a_file_written_or_read_as_a_whole_is_closed_whatever_fails(fails: str) -> None:
    disk, path = TrackedDisk(), Path("/home/a")
    disk.make_directory(path.parent)
    write_file(disk, path, b"before")
    disk.fail(fails, times=2)
    for call in (lambda: write_file(disk, path, b"x"), lambda: read_file(disk, path)):
        with contextlib.suppress(StorageError):
            call()
    assert disk.open_names == []


def test_closing_twice_is_allowed(tmp_path: Path) -> None:
    file = RealDisk().create(tmp_path / "a")
    file.close()
    file.close()


# ---- what is durable ----------------------------------------------------------------------------


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path]]:
    """What the system is asked to sync and to rename, in order."""
    asked: list[tuple[str, Path]] = []
    calls = {name: getattr(os, name) for name in ("fsync", "fdatasync", "rename")}

    def noted(name: str, what: int | Path, *more: Path) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{what}")) if isinstance(what, int) else what
        asked.append((name, path))
        calls[name](what, *more)

    for name in calls:
        monkeypatch.setattr(os, name, partial(noted, name))
    return asked


@pytest.mark.parametrize("there", range(4))
def test_the_name_of_a_directory_is_synced_whoever_has_made_it(
    tmp_path: Path, steps: list[tuple[str, Path]], there: int
) -> None:
    """Who made the last one that is there may have been killed before it synced the name."""
    tmp_path.joinpath(*"abc"[:there]).mkdir(parents=True, exist_ok=True)
    RealDisk().make_directory(tmp_path / "a" / "b" / "c")
    parents = [tmp_path.parent, tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    assert steps == [("fsync", parent) for parent in parents[there:]]


def test_a_file_is_synced_before_it_gets_its_name_and_the_name_after(
    tmp_path: Path, steps: list[tuple[str, Path]]
) -> None:
    fresh = tmp_path / "a.new"
    write_file(RealDisk(), tmp_path / "a", b"x")
    assert steps == [("fdatasync", fresh), ("rename", fresh), ("fsync", tmp_path)]
