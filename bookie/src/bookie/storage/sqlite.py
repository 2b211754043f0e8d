"""One SQLite file: a connection to write, some to read, and the mapping of its errors.

An unreadable index must never pass for an empty one, so every error of SQLite becomes a
StorageError here. The message about damage says what to do: rebuild the index from the logs.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol

from bookie.errors import CorruptError, DiskFullError, StorageError

READERS_MAX: Final = 16
"""How many idle read connections are kept; if more threads read at once, more are opened for a
moment."""

BUSY_MS: Final = 10_000
"""The longest wait, in milliseconds, for another process (an inspecting tool) that locks the
file."""

LOG_SUFFIX: Final = "-wal"
SIDE_SUFFIXES: Final = (LOG_SUFFIX, "-shm")
"""Suffixes of the files that SQLite keeps beside a database."""
COPY_BYTES: Final = 1024 * 1024

_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})

_FULL: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})
"""The second one: no space for the file that indexes the write-ahead log (`-shm`). SQLite calls
that an I/O error."""


def sqlite_error(action: str, path: Path, error: sqlite3.Error) -> StorageError:
    """The error of our tree for an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary in _DAMAGE:
        return CorruptError(
            f"{path}: cannot {action}: {error}; stop the bookie and run "
            f"`bookie index rebuild` for {path.parent}"
        )
    if code in _FULL:
        return DiskFullError(f"{path}: cannot {action}: {error}; free space or add a disk")
    return StorageError(f"{path}: cannot {action}: {error}; check the disk and its permissions")


@contextlib.contextmanager
def mapped(action: str, path: Path) -> Iterator[None]:
    """Turn errors of SQLite into StorageErrors that name the action and the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise sqlite_error(action, path, error) from error


class Database(Protocol):
    """A SQLite database. One transaction writes at a time; any thread may read."""

    @property
    def path(self) -> Path: ...

    def transaction(self, action: str) -> AbstractContextManager[sqlite3.Connection]:
        """All or nothing, durable when the block has ended without an error."""

    def reading(self, action: str) -> AbstractContextManager[sqlite3.Connection]:
        """A connection for queries of this thread; sees the last commit."""

    def settle(self) -> None:
        """Make the commits of a former process durable. The only writer calls it before its first
        write.
        """

    def close(self) -> None:
        """Wait for a running transaction, then close."""


class DatabaseFile:
    """Connections to one file of a real disk; see Database."""

    def __init__(self, path: Path) -> None:
        """Open the file, or create it; the caller checks its content."""
        self.path = path
        self._writing = threading.Lock()
        self._readers: list[sqlite3.Connection] = []
        """Idle connections for reads; each read takes one and gives it back."""
        self._lock = threading.Lock()
        self._closed = False
        """True once closed: no read or write may begin."""
        self._writer = self._connect()
        try:
            with mapped("open the index", path):
                mode = self._writer.execute("PRAGMA journal_mode=WAL").fetchone()[0]
                if mode != "wal":
                    raise StorageError(f"{path}: write-ahead log refused, journal mode is {mode}")
                # With FULL a commit is durable when it returns; with WAL's default only the next
                # checkpoint makes it so.
                self._writer.execute("PRAGMA synchronous=FULL")
        except StorageError:
            self._writer.close()
            raise

    def settle(self) -> None:
        """See Database.

        A failed sync of the write-ahead log may have left commits in the page cache: they can be
        read, but the kernel counts them as written, so no later sync writes them. A crash of the
        machine loses them, and with them all commits behind them. SQLite cannot notice this and
        appends.

        The order: write the log's bytes again and sync them, so that the disk has what reads
        return; fold them into the file and sync that (SQLite's checkpoint does both); empty the
        log. After a power cut between any two steps the log is complete and is folded once more. A
        checkpoint alone would overwrite pages of the file from a log that the disk may not have.
        """
        with self._writing:
            self._refuse_closed()
            _write_again(self.path.with_name(self.path.name + LOG_SUFFIX))
            with mapped("fold the write-ahead log", self.path):
                # If a tool reads at this moment, the log is folded but not emptied.
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _connect(self) -> sqlite3.Connection:
        with mapped("open the index", self.path):
            return sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000
            )

    @contextlib.contextmanager
    def transaction(self, action: str) -> Iterator[sqlite3.Connection]:
        """All or nothing, durable when the block has ended without an error."""
        with self._writing, mapped(action, self.path):
            self._refuse_closed()
            with all_or_nothing(self._writer):
                yield self._writer

    @contextlib.contextmanager
    def reading(self, action: str) -> Iterator[sqlite3.Connection]:
        """A connection for queries of this thread; sees the last commit."""
        with self._lock:
            self._refuse_closed()
            connection = self._readers.pop() if self._readers else None
        connection = connection or self._reader()
        try:
            with mapped(action, self.path):
                yield connection
        finally:
            self._give_back(connection)

    def _reader(self) -> sqlite3.Connection:
        connection = self._connect()
        with mapped("open the index", self.path):
            connection.execute("PRAGMA query_only=ON")
        return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed and len(self._readers) < READERS_MAX:
                self._readers.append(connection)
                return
        connection.close()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StorageError(f"{self.path}: the index is closed")

    def close(self) -> None:
        """Wait for a running transaction, fold the write-ahead log into the file, and close."""
        with self._writing:
            with self._lock:
                readers, self._readers = self._readers, []
                was_closed, self._closed = self._closed, True
            for connection in readers:
                connection.close()
            if not was_closed:
                with mapped("close the index", self.path):
                    self._writer.close()


def _write_again(path: Path) -> None:
    """Write the bytes of a file again in place, and sync; does nothing when there is no file."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _not_written(path, error) from error
    try:
        at = 0
        while piece := os.pread(file, COPY_BYTES, at):
            at += os.pwrite(file, piece, at)
        os.fdatasync(file)
    except OSError as error:
        raise _not_written(path, error) from error
    finally:
        os.close(file)


def _not_written(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path}: cannot rewrite its content: {error.strerror}; check the disk and its permissions"
    )


@contextlib.contextmanager
def all_or_nothing(connection: sqlite3.Connection) -> Iterator[None]:
    """Run one transaction: commit at the end of the block, roll back on an error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some errors SQLite has rolled back by itself already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
