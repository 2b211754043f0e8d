"""What every index asks of SQLite."""

import contextlib
import os
import resource
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bookie.errors import DiskFullError, StorageError
from bookie.storage import sqlite
from bookie.storage.sqlite import BUSY_MS, READERS_MAX, DatabaseFile, all_or_nothing


@pytest.fixture
def database(tmp_path: Path) -> Iterator[DatabaseFile]:
    made = DatabaseFile(tmp_path / "index.sqlite")
    yield made
    with contextlib.suppress(StorageError):
        made.close()


def test_a_transaction_that_fails_changes_nothing_and_the_next_one_begins() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE t (x)")
    with pytest.raises(ZeroDivisionError), all_or_nothing(connection):
        connection.execute("INSERT INTO t VALUES (1)")
        raise ZeroDivisionError
    with all_or_nothing(connection):
        connection.execute("INSERT INTO t VALUES (2)")
    assert connection.execute("SELECT x FROM t").fetchall() == [(2,)]
    connection.close()


# ---- read connections ---------------------------------------------------------------------------


def read_at_once(database: DatabaseFile, count: int) -> list[sqlite3.Connection]:
    """The connections of so many reads at one time."""
    with contextlib.ExitStack() as reads:
        return [reads.enter_context(database.reading("look")) for _ in range(count)]


def is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return False
    return True


def test_a_read_connection_is_used_again(database: DatabaseFile) -> None:
    assert read_at_once(database, 1) == read_at_once(database, 1)


@pytest.mark.parametrize("more", [-1, 0, 1, 5])
def test_of_many_reads_at_once_so_many_connections_are_kept(
    database: DatabaseFile, more: int
) -> None:
    used = read_at_once(database, READERS_MAX + more)
    assert sum(map(is_open, used)) == min(len(used), READERS_MAX)
    assert set(filter(is_open, used)) == set(read_at_once(database, min(len(used), READERS_MAX)))


def test_every_connection_waits_for_a_tool_that_holds_the_lock(database: DatabaseFile) -> None:
    for connection in (database._writer, *read_at_once(database, 1)):
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (BUSY_MS,)


def test_a_read_connection_writes_nothing(database: DatabaseFile) -> None:
    with pytest.raises(StorageError, match="readonly"), database.reading("look") as connection:
        connection.execute("CREATE TABLE t (x)")


def test_a_close_waits_for_no_read_whose_connection_is_closed_at_its_end(
    database: DatabaseFile,
) -> None:
    (idle,) = read_at_once(database, 1)
    with database.reading("look") as taken, database.reading("look") as other:
        assert taken is idle
        database.close()
        assert is_open(taken) and is_open(other)
    assert not is_open(taken) and not is_open(other)


# ---- errors -------------------------------------------------------------------------------------


def test_a_database_without_a_write_ahead_log_is_refused() -> None:
    with pytest.raises(StorageError, match="journal mode is memory"):
        DatabaseFile(Path(":memory:"))


def refused(database: DatabaseFile, action: str) -> None:
    begin = database.transaction if action == "write rows" else database.reading
    with begin(action) as connection:
        connection.execute("SELECT * FROM absent")


def without_a_writer(work: Callable[[DatabaseFile], None]) -> Callable[[DatabaseFile], None]:
    def act(database: DatabaseFile) -> None:
        database._writer.close()
        work(database)

    return act


FAILING: dict[str, Callable[[DatabaseFile], object]] = {
    "write rows": lambda database: refused(database, "write rows"),
    "read rows": lambda database: refused(database, "read rows"),
    "open the index": lambda database: DatabaseFile(database.path.parent),
    "fold the write-ahead log": without_a_writer(DatabaseFile.settle),
}


@pytest.mark.parametrize("action", FAILING)
def test_an_error_names_the_file_and_what_was_tried(database: DatabaseFile, action: str) -> None:
    path = database.path.parent if action == "open the index" else database.path
    with pytest.raises(StorageError, match=f"^{path}: cannot {action}: "):
        FAILING[action](database)


def test_a_disk_without_space_for_the_index_of_the_log_is_full_and_not_broken(
    database: DatabaseFile,
) -> None:
    database.close()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 * 1024, hard))  # it takes 32 KiB
    try:
        with pytest.raises(DiskFullError, match=r"index.sqlite: .*; free space"):
            DatabaseFile(database.path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_closed_one_refuses_all_and_closes_again(database: DatabaseFile) -> None:
    database.close()
    database.close()
    reads = (lambda: refused(database, "read rows"), lambda: refused(database, "write rows"))
    for call in (*reads, database.settle):
        with pytest.raises(StorageError, match=f"^{database.path}: the index is closed"):
            call()


# ---- what a former process has left -------------------------------------------------------------


@pytest.mark.parametrize("written_at_once", [1, 3, 4])
def test_a_log_is_written_again_to_its_end_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written_at_once: int
) -> None:
    written: list[tuple[int, bytes]] = []

    def short_write(_file: int, piece: bytes, at: int) -> int:
        written.append((at, piece[:written_at_once]))
        return len(piece[:written_at_once])

    monkeypatch.setattr(os, "pwrite", short_write)
    monkeypatch.setattr(sqlite, "COPY_BYTES", 4)
    (tmp_path / "a-wal").write_bytes(b"0123456789")
    sqlite._write_again(tmp_path / "a-wal")
    ends = [at + len(piece) for at, piece in written]
    assert [0, *ends[:-1]] == [at for at, _ in written]
    assert b"".join(piece for _, piece in written) == b"0123456789"


def test_a_log_that_cannot_be_written_again_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=f"^{tmp_path}: cannot rewrite its content: "):
        sqlite._write_again(tmp_path)
