"""The index of one ledger directory: where its entries lie, and what is known about its ledgers.

memtable -> `commit` (checkpoint, one transaction) -> SQLite -> `rows` (reads), `all_rows` (which
entries are held). It has one row per run, or per part of a run. The rows of one ledger never share
an id: the first copy of an entry stays, and the row of a later frame is cut to the missing entries.
Rows of striped runs may interleave, so the index keeps the largest span of a row per ledger, to
find every row that may hold an id.
"""

import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bookie.errors import CorruptError, FrameError
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.storage.decisions import CREATE as CREATE_DECISIONS
from bookie.storage.decisions import TABLE as DECISIONS
from bookie.storage.decisions import PersonDecision, read_decisions, write_decisions
from bookie.storage.disk import Disk
from bookie.storage.index_rows import RunRow, rows_of, rows_to_read
from bookie.storage.memtable import LedgerRows
from bookie.storage.records import LedgerRecord
from bookie.storage.sqlite import Database

INDEX_NAME: Final = "index.sqlite"
SCHEMA_VERSION: Final = 1

_SCHEMA: Final = f"""
CREATE TABLE runs (
    ledger INTEGER, first INTEGER, last INTEGER, count INTEGER, size INTEGER, period INTEGER,
    file INTEGER, offset INTEGER, length INTEGER, flags INTEGER, PRIMARY KEY (ledger, first)
) WITHOUT ROWID;
CREATE TABLE tails (ledger INTEGER PRIMARY KEY, last INTEGER, lac INTEGER, span INTEGER);
CREATE TABLE records (
    ledger INTEGER PRIMARY KEY, master_key BLOB, fenced INTEGER, limbo INTEGER, mark_epoch INTEGER,
    checked_epoch INTEGER, explicit_lac INTEGER, deleted INTEGER
);
CREATE TABLE losses (ledger INTEGER, reason TEXT, entries BLOB);
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
PRAGMA user_version = {SCHEMA_VERSION};
"""
_LAC_BODIES: Final = "CREATE TABLE IF NOT EXISTS lac_bodies (ledger INTEGER PRIMARY KEY, body BLOB)"
"""A table beside `records`; it is created where it is missing, and older versions of this program
ignore it."""
_NOTES: Final = "CREATE TABLE IF NOT EXISTS notes (ledger INTEGER PRIMARY KEY)"
"""The ledgers whose record is noted; a table beside `records`, like `lac_bodies`."""
_ROW: Final = "first, last, count, size, period, file, offset, length, flags"
_INSERT_RUN: Final = f"INSERT INTO runs (ledger, {_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT_RUNS: Final = f"""
SELECT {_ROW} FROM runs WHERE ledger = :ledger AND last >= :first AND first <= :last
AND first >= :first - coalesce((SELECT span FROM tails WHERE ledger = :ledger), 0)
ORDER BY first
"""
_SELECT_FILE: Final = f"""
SELECT ledger, {_ROW} FROM runs WHERE file = ? AND (ledger, first) > (?, ?)
ORDER BY ledger, first LIMIT ?
"""
_UPSERT_TAIL: Final = """
INSERT INTO tails (ledger, last, lac, span) VALUES (?, ?, ?, ?) ON CONFLICT (ledger) DO UPDATE
SET last = max(last, excluded.last), lac = max(lac, excluded.lac), span = max(span, excluded.span)
"""
_REPLACE_RECORD: Final = "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_REPLACE_LAC_BODY: Final = "INSERT OR REPLACE INTO lac_bodies VALUES (?, ?)"
_REPLACE_FACT: Final = "INSERT OR REPLACE INTO facts VALUES (?, ?)"
_LEDGERS_TOGETHER: Final = 500
_ROWS_PER_INSERT: Final = 1000

IsReadable = Callable[[LedgerId, RunRow], bool]
"""Reads the row's frame from the log and returns whether it is good."""


@dataclass(slots=True)
class LedgerEnd:
    """The highest id that a directory holds of a ledger, and the highest LAC it has seen.

    It is in memory for all ledgers, so it has only these two.
    """

    last: EntryId = NO_ENTRY
    """The highest id held; only rises, like `lac`; -1 = none."""
    lac: EntryId = NO_ENTRY
    """The highest LAC in a run; an explicit LAC is in the ledger's record."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Entries that are definitely lost; `reason`: who found or accepted that."""

    ledger_id: LedgerId
    reason: str
    entries: EntrySet


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that one transaction commits."""

    rows: Mapping[LedgerId, LedgerRows] = field(default_factory=dict)
    records: Sequence[LedgerRecord] = ()
    losses: Sequence[Loss] = ()
    facts: Mapping[str, bytes | None] = field(default_factory=dict)
    """By name; None removes the fact."""
    forget: Sequence[LedgerId] = ()
    """Deleted ledgers, whose rows, tails and losses are deleted; their records stay."""
    retracted: Mapping[LedgerId, EntrySet] = field(default_factory=dict)
    """By ledger: entries to remove from its loss records."""
    decisions: Sequence[PersonDecision] = ()
    """Decisions of people that this commit carries out."""


class Index:
    """The index of one directory. Any thread may read; callers make one write at a time."""

    def __init__(self, database: Database) -> None:
        """Use `open`."""
        self._database = database

    @classmethod
    def open(
        cls, path: Path, *, disk: Disk, is_owner: bool = False, may_create: bool = True
    ) -> "Index":
        """Open the index in `path`; create it when there is no such file and `may_create`.

        `is_owner`: the caller holds the folder lock, so it alone may write. CorruptError when the
        file is damaged or of another version: then its content is unknown, never empty. That goes
        for a file without tables, too, unless the caller says that nothing was stored yet.
        """
        database = disk.open_database(path)
        try:
            if is_owner:
                database.settle()
            with database.reading("check the index") as connection:
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
                found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise _damaged(path, str(found))
            if version == 0 and tables == 0:
                if not may_create:
                    raise _damaged(path, "it has no tables")
                _create(database)
            elif version != SCHEMA_VERSION:
                raise _damaged(path, f"schema version is {version}, expected {SCHEMA_VERSION}")
            _add_tables(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    @property
    def path(self) -> Path:
        return self._database.path

    # ---- reading --------------------------------------------------------------------------------

    def rows(self, ledger_id: LedgerId, *, first: int, last: int) -> list[RunRow]:
        """Rows whose span touches `first`..`last`, by first id."""
        with self._database.reading("read rows of the index") as connection:
            return list(_select_rows(connection, ledger_id, first=first, last=last))

    def rows_to_read(
        self, ledger_id: LedgerId, *, first: int, last: int, bytes_max: float
    ) -> tuple[list[RunRow], int]:
        """Like `rows`, but no more rows than one read needs; see `index_rows.rows_to_read`."""
        with (
            self._database.reading("read rows of the index") as connection,
            closing(_select_rows(connection, ledger_id, first=first, last=last)) as rows,
        ):
            return rows_to_read(rows, first=first, last=last, bytes_max=bytes_max)

    def all_rows(self, ledger_id: LedgerId) -> list[RunRow]:
        """Every row of the ledger, by first id."""
        with self._database.reading("read rows of the index") as connection:
            found = connection.execute(
                f"SELECT {_ROW} FROM runs WHERE ledger = ? ORDER BY first", (ledger_id,)
            )
            return [RunRow(*row) for row in found]

    def ledger_ends(self) -> dict[LedgerId, LedgerEnd]:
        with self._database.reading("read the ends of ledgers") as connection:
            found = connection.execute("SELECT ledger, last, lac FROM tails")
            return {LedgerId(row[0]): LedgerEnd(EntryId(row[1]), EntryId(row[2])) for row in found}

    def end_of(self, ledger_id: LedgerId) -> LedgerEnd | None:
        """None when the ledger has no row."""
        with self._database.reading("read the end of a ledger") as connection:
            select = "SELECT last, lac FROM tails WHERE ledger = ?"
            row = connection.execute(select, (ledger_id,)).fetchone()
            return LedgerEnd(EntryId(row[0]), EntryId(row[1])) if row else None

    def records(self) -> dict[LedgerId, LedgerRecord]:
        with self._database.reading("read ledger records") as connection:
            found = connection.execute(
                "SELECT records.ledger, master_key, fenced, limbo, mark_epoch, checked_epoch, "
                "explicit_lac, deleted, body, notes.ledger IS NOT NULL FROM records "
                "LEFT JOIN lac_bodies ON lac_bodies.ledger = records.ledger "
                "LEFT JOIN notes ON notes.ledger = records.ledger"
            )
            return {LedgerId(row[0]): _record(row) for row in found}

    def losses(self) -> list[Loss]:
        with self._database.reading("read loss records") as connection:
            found = connection.execute("SELECT ledger, reason, entries FROM losses").fetchall()
        try:
            return [Loss(LedgerId(row[0]), row[1], EntrySet.decode(row[2])) for row in found]
        except FrameError as error:
            raise _damaged(self.path, f"a loss record is unreadable: {error}") from error

    def decisions(self) -> list[PersonDecision]:
        """The stored decisions, oldest first."""
        with self._database.reading("read decisions") as connection:
            return read_decisions(connection)

    def facts(self) -> dict[str, bytes]:
        with self._database.reading("read facts") as connection:
            return dict(connection.execute("SELECT name, value FROM facts").fetchall())

    def live_bytes(self) -> dict[int, int]:
        """By log file: bytes of the frames that a row points to. It reads the whole table."""
        with self._database.reading("count live bytes") as connection:
            return dict(
                connection.execute(
                    "SELECT file, sum(length) FROM (SELECT DISTINCT file, offset, length FROM runs)"
                    " GROUP BY file"
                ).fetchall()
            )

    def rows_in_file(
        self, file_id: int, *, behind: tuple[int, int] = (-1, -1), limit: int
    ) -> list[tuple[LedgerId, RunRow]]:
        """Rows that point into a log file, by ledger and first id; only those after the pair
        `behind`.

        It reads the table from there until it has `limit` rows, so that a caller holds no snapshot
        between two pages.
        """
        with self._database.reading("find the rows of a log file") as connection:
            found = connection.execute(_SELECT_FILE, (file_id, *behind, limit)).fetchall()
        return [(LedgerId(row[0]), RunRow(*row[1:])) for row in found]

    # ---- writing --------------------------------------------------------------------------------

    def commit(self, batch: Batch, *, is_readable: IsReadable) -> int:
        """Commit a batch, durably. Returns how often a frame lost live ids, so that there is
        garbage.

        It takes rows in the order of the log: the first copy of an id stays, unless recovery wrote
        the later copy and the stored one is not `is_readable` any more.
        """
        with self._database.transaction("commit to the index") as connection:
            _forget(connection, batch.forget)
            dead = _Insertion(connection, is_readable).insert(batch.rows)
            connection.executemany(_REPLACE_RECORD, map(_record_values, batch.records))
            bodies = [(each.ledger_id, each.lac_body) for each in batch.records if each.lac_body]
            connection.executemany(_REPLACE_LAC_BODY, bodies)
            _write_notes(connection, batch.records)
            connection.executemany(
                "INSERT INTO losses VALUES (?, ?, ?)",
                [(loss.ledger_id, loss.reason, loss.entries.encode()) for loss in batch.losses],
            )
            _retract(connection, batch.retracted)
            write_decisions(connection, batch.decisions)
            _write_facts(connection, batch.facts)
        return dead

    def move(self, moves: Iterable[tuple[LedgerId, RunRow, RunRow]]) -> None:
        """Point rows at copies of their frames, durably; rows that changed meanwhile stay as they
        are.

        Each move has the ledger, the row as it was read, and the row at its new place.
        """
        values = [
            (new.file_id, new.offset, ledger_id, old.first, old.file_id, old.offset)
            for ledger_id, old, new in moves
        ]
        with self._database.transaction("move rows of the index") as connection:
            connection.executemany(
                "UPDATE runs SET file = ?, offset = ? "
                "WHERE ledger = ? AND first = ? AND file = ? AND offset = ?",
                values,
            )

    def reject(self, ledger_id: LedgerId, entries: EntrySet) -> None:
        """Reject the copies of these entries, durably: their stored bytes are bad.

        Their ids stay in the index, so that the bookie does not deny the entries.
        """
        with self._database.transaction("reject copies in the index") as connection:
            rows = list(_select_rows(connection, ledger_id, first=entries.first, last=entries.last))
            for row in rows:
                bad = row.entries() & entries
                if not bad or row.is_rejected:
                    continue
                connection.execute(
                    "DELETE FROM runs WHERE ledger = ? AND first = ?", (ledger_id, row.first)
                )
                good = rows_of(row.entries() - bad, row)
                parts = good + rows_of(bad, row.rejected())
                connection.executemany(_INSERT_RUN, [(ledger_id, *part) for part in parts])

    def close(self) -> None:
        self._database.close()


class _Insertion:
    """Inserts rows into the table, cut to the ids that the table lacks of their ledger.

    Nearly every row lies beyond the ledger's last id in the table and needs no comparison. In a
    commit of many ledgers each has few rows, so statements cover many ledgers at once.
    """

    def __init__(self, connection: sqlite3.Connection, is_readable: IsReadable) -> None:
        self._connection = connection
        self._is_readable = is_readable
        self._plain: list[tuple[int, ...]] = []
        """Values of rows to insert that overlap no other row."""
        self._dead = 0
        """How often a frame, old or new, lost ids to another: such bytes in the log are garbage."""

    def insert(self, tables: Mapping[LedgerId, LedgerRows]) -> int:
        ledger_ids = sorted(tables)  # the order of the table: each of its pages is visited once
        for start in range(0, len(ledger_ids), _LEDGERS_TOGETHER):
            self._insert_together(ledger_ids[start : start + _LEDGERS_TOGETHER], tables)
        return self._dead

    def _insert_together(
        self, ledger_ids: Sequence[LedgerId], tables: Mapping[LedgerId, LedgerRows]
    ) -> None:
        marks = ", ".join("?" * len(ledger_ids))
        query = f"SELECT ledger, last FROM tails WHERE ledger IN ({marks})"
        reaches: dict[LedgerId, int] = dict(self._connection.execute(query, ledger_ids))
        # Before the rows, since lookups of this commit rely on the spans.
        tails = ((i, tables[i].last, tables[i].lac, tables[i].span) for i in ledger_ids)
        self._connection.executemany(_UPSERT_TAIL, tails)
        for ledger_id in ledger_ids:
            self._insert_ledger(ledger_id, tables[ledger_id], reaches.get(ledger_id, NO_ENTRY))
        self._flush()

    def _insert_ledger(self, ledger_id: LedgerId, rows: LedgerRows, reach: int) -> None:
        for row in sorted(rows.rows, key=_place):
            if row.first > reach:
                self._plain.append((ledger_id, *row))
            else:
                self._flush()
                self._insert_among(ledger_id, row)
            reach = max(reach, row.last)
            if len(self._plain) >= _ROWS_PER_INSERT:
                self._flush()

    def _flush(self) -> None:
        self._connection.executemany(_INSERT_RUN, self._plain)
        self._plain.clear()

    def _insert_among(self, ledger_id: LedgerId, row: RunRow) -> None:
        others = list(_select_rows(self._connection, ledger_id, first=row.first, last=row.last))
        missing = row.entries()
        for other in others:
            shared = other.entries() & missing
            if not shared:
                continue
            if row.is_recovery and not self._is_readable(ledger_id, other):
                self._shrink(ledger_id, other, without=shared)
            else:
                missing -= shared
                self._dead += 1
        self._plain.extend((ledger_id, *part) for part in rows_of(missing, row))
        self._flush()

    def _shrink(self, ledger_id: LedgerId, row: RunRow, *, without: EntrySet) -> None:
        """Take these ids away from a bad row, for the good copy; its other ids stay unreadable."""
        self._connection.execute(
            "DELETE FROM runs WHERE ledger = ? AND first = ?", (ledger_id, row.first)
        )
        left = rows_of(row.entries() - without, row)
        self._plain.extend((ledger_id, *part) for part in left)
        self._dead += 1


def _place(row: RunRow) -> tuple[int, int]:
    return row.file_id, row.offset


def _select_rows(
    connection: sqlite3.Connection, ledger_id: LedgerId, *, first: int, last: int
) -> Generator[RunRow, None, None]:
    """Rows whose span touches the range, by first id, read lazily."""
    asked = {"ledger": ledger_id, "first": first, "last": last}
    with closing(connection.execute(_SELECT_RUNS, asked)) as found:
        yield from map(RunRow._make, found)


def _create(database: Database) -> None:
    with database.transaction("create the index") as connection:
        for statement in (*_SCHEMA.split(";"), _LAC_BODIES, CREATE_DECISIONS):
            connection.execute(statement)


def _add_tables(database: Database) -> None:
    """Create the tables that an older version of this program did not make."""
    with database.reading("look for tables of later versions") as connection:
        found = connection.execute("SELECT name FROM sqlite_master").fetchall()
    missing = {"lac_bodies": _LAC_BODIES, "notes": _NOTES, DECISIONS: CREATE_DECISIONS}
    for (name,) in found:
        missing.pop(name, None)
    if missing:
        with database.transaction(
            "make room for what an older version does not keep"
        ) as connection:
            for statement in missing.values():
                connection.execute(statement)


def _forget(connection: sqlite3.Connection, ledger_ids: Sequence[LedgerId]) -> None:
    for table in ("runs", "tails", "losses", "lac_bodies"):
        connection.executemany(
            f"DELETE FROM {table} WHERE ledger = ?", [(ledger_id,) for ledger_id in ledger_ids]
        )


def _retract(connection: sqlite3.Connection, retracted: Mapping[LedgerId, EntrySet]) -> None:
    """Remove these entries from the loss records; delete a record that becomes empty."""
    for ledger_id, entries in retracted.items():
        rows = connection.execute(
            "SELECT rowid, entries FROM losses WHERE ledger = ?", (ledger_id,)
        ).fetchall()
        for row_id, before in rows:
            left = EntrySet.decode(before) - entries
            if left:
                values = (left.encode(), row_id)
                connection.execute("UPDATE losses SET entries = ? WHERE rowid = ?", values)
            else:
                connection.execute("DELETE FROM losses WHERE rowid = ?", (row_id,))


def _write_notes(connection: sqlite3.Connection, records: Sequence[LedgerRecord]) -> None:
    noted = [(record.ledger_id,) for record in records if record.noted]
    others = [(record.ledger_id,) for record in records if not record.noted]
    connection.executemany("INSERT OR IGNORE INTO notes VALUES (?)", noted)
    connection.executemany("DELETE FROM notes WHERE ledger = ?", others)


def _write_facts(connection: sqlite3.Connection, facts: Mapping[str, bytes | None]) -> None:
    for name, value in facts.items():
        if value is None:
            connection.execute("DELETE FROM facts WHERE name = ?", (name,))
        else:
            connection.execute(_REPLACE_FACT, (name, value))


# The column `deleted` counts the changes: 1 = collected, 2 = the store names it again, and so on.
# An older version takes every number but 0 for a tombstone, so it refuses more, never less.
def _record_values(record: LedgerRecord) -> tuple[int, bytes | None, int, int, int, int, int, int]:
    return (
        record.ledger_id,
        record.master_key,
        record.fenced,
        record.limbo,
        record.mark_epoch,
        record.checked_epoch,
        record.explicit_lac,
        record.returns * 2 + record.deleted,
    )


def _record(row: Sequence[object]) -> LedgerRecord:
    ledger, key, fenced, limbo, mark, checked, lac, deleted, lac_body, noted = row
    return LedgerRecord(
        LedgerId(ledger),  # type: ignore[arg-type]  # the column is an integer
        master_key=key,  # type: ignore[arg-type]
        fenced=bool(fenced),
        limbo=bool(limbo),
        mark_epoch=mark,  # type: ignore[arg-type]
        checked_epoch=checked,  # type: ignore[arg-type]
        explicit_lac=EntryId(lac),  # type: ignore[arg-type]
        deleted=bool(deleted & 1),  # type: ignore[operator]
        returns=deleted >> 1,  # type: ignore[operator]
        lac_body=lac_body or b"",  # type: ignore[arg-type]
        noted=bool(noted),
    )


def _damaged(path: Path, what: str) -> CorruptError:
    return CorruptError(
        f"{path}: the index is damaged: {what}; stop the bookie and run "
        f"`bookie index rebuild` for {path.parent}"
    )
