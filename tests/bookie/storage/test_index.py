"""The index against a dict: overlaps, patterns, duplicates, healing; and its own damage."""

import contextlib
import itertools
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from bookie.errors import CorruptError, DiskFullError, StorageError
from bookie.frames.frame import CONSECUTIVE, Pattern, RunFrame
from bookie.ids import EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.storage.disk import RealDisk
from bookie.storage.index import Batch, Index, LedgerEnd, Loss
from bookie.storage.index_rows import RunRow, row_of, rows_to_read
from bookie.storage.log_scan import Position
from bookie.storage.memtable import Memtable
from bookie.storage.records import LedgerRecord
from bookie.storage.sqlite import DatabaseFile, sqlite_error
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_kit import ids, run

L7 = LedgerId(7)
PATTERNS = (CONSECUTIVE, Pattern(1, 2), Pattern(2, 3), Pattern(1, 4), Pattern(3, 5))


def everything_is_readable(_ledger_id: LedgerId, _row: RunRow) -> bool:
    return True


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    opened = Index.open(tmp_path / "index.sqlite", disk=RealDisk())
    yield opened
    opened.close()


@dataclass(frozen=True)
class Add:
    """One run as an index sees it; `spoils` makes all frames before it unreadable."""

    first: int
    count: int
    pattern: Pattern
    recovery: bool
    spoils: bool

    def frame(self) -> RunFrame:
        return run(
            7, self.first, self.count, pattern=self.pattern, recovery=self.recovery, lac=self.first
        )


adds = st.builds(
    Add,
    first=st.integers(0, 40),
    count=st.integers(1, 9),
    pattern=st.sampled_from(PATTERNS),
    recovery=st.booleans(),
    spoils=st.integers(0, 5).map(lambda found: found == 0),
)


class Oracle:
    """Which frame (by its number) holds an id: the first good copy, or a healing one."""

    def __init__(self) -> None:
        self.frame_of: dict[int, int] = {}
        self.spoiled = -1

    def add(self, number: int, frame: RunFrame) -> None:
        for entry_id in frame.entry_ids():
            held = self.frame_of.get(entry_id)
            if held is None or (frame.is_recovery and held <= self.spoiled):
                self.frame_of[entry_id] = number


def commit(index: Index, frames: dict[int, RunFrame], *, spoiled: int = -1) -> None:
    """Commits frames by number; the number is the place in log file 1."""
    rows = Memtable()
    for number, frame in frames.items():
        rows.add(frame, Position(1, number, 100))
    index.commit(Batch(rows=rows.ledgers), is_readable=lambda _ledger, row: row.offset > spoiled)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(adds, max_size=5), max_size=4), st.integers(0, 60), st.integers(0, 12))
def test_the_index_agrees_with_a_dict(batches: list[list[Add]], first: int, more: int) -> None:
    oracle, number = Oracle(), 0
    with tempfile.TemporaryDirectory() as folder:
        index = Index.open(Path(folder) / "index.sqlite", disk=RealDisk())
        for batch in batches:
            if any(add.spoils for add in batch):
                oracle.spoiled = number - 1
            frames = {}
            for add in batch:
                frames[number] = add.frame()
                oracle.add(number, frames[number])
                number += 1
            commit(index, frames, spoiled=oracle.spoiled)
        rows = index.all_rows(L7)
        found = [(i, row.offset) for row in rows for a, b in row.entries().ranges()
                 for i in range(a, b + 1)]  # fmt: skip
        wanted = {i for i in oracle.frame_of if first <= i <= first + more}
        near = index.rows(L7, first=first, last=first + more)
        index.close()
    assert sorted(found) == sorted(oracle.frame_of.items())
    assert all(row.last in row.entries() and row.first in row.entries() for row in rows)
    assert wanted <= {i for row in near for i in range(80) if i in row.entries()}


@settings(deadline=None, max_examples=60)
@given(st.lists(adds, max_size=12), st.integers(0, 60), st.integers(0, 12))
def test_the_memtable_finds_every_row_that_touches_a_range(
    found: list[Add], first: int, more: int
) -> None:
    table = Memtable()
    for number, add in enumerate(found):
        table.add(add.frame(), Position(1, number, 100))
    near = table.overlapping(L7, first=first, last=first + more)
    expected = [r for r in table.rows(L7) if r.first <= first + more and r.last >= first]
    assert near == expected and table.count == len(found)


def test_a_copy_that_recovery_wrote_does_not_replace_a_good_one(index: Index) -> None:
    commit(index, {1: run(7, 0, 10)})
    commit(index, {2: run(7, 5, 10, recovery=True)})
    assert [(row.first, row.last, row.offset) for row in index.all_rows(L7)] == [
        (0, 9, 1),
        (10, 14, 2),
    ]


def test_a_writers_copy_does_not_replace_an_unreadable_one(index: Index) -> None:
    commit(index, {1: run(7, 0, 10)})
    commit(index, {2: run(7, 0, 10)}, spoiled=1)
    assert [row.offset for row in index.all_rows(L7)] == [1]


def test_a_healing_copy_takes_over_only_the_ids_it_holds(index: Index) -> None:
    commit(index, {1: run(7, 0, 10)})
    commit(index, {2: run(7, 4, 2, recovery=True)}, spoiled=1)
    held = {row.offset: row.entries() for row in index.all_rows(L7) if row.offset == 2}
    left = [row.entries() for row in index.all_rows(L7) if row.offset == 1]
    assert held == {2: ids((4, 5))}
    assert left == [ids((0, 3)), ids((6, 9))] or left == [ids((0, 3), (6, 9))]


def test_ledgers_that_share_a_commit_keep_first_copies_of_their_own(index: Index) -> None:
    ledgers = range(1, 1301)  # more than one statement takes
    commit(index, {n: run(n, 0, n % 7 + 1) for n in ledgers})
    commit(index, {2000 + n: run(n, 3, 9) for n in ledgers})
    for n in ledgers:
        first, *later = index.all_rows(LedgerId(n))
        assert (first.first, first.last, first.offset) == (0, n % 7, n)
        assert [(row.first, row.last, row.offset) for row in later] == [
            (max(3, n % 7 + 1), 11, 2000 + n)
        ]


def test_a_late_row_is_cut_against_earlier_ones_of_its_own_commit(index: Index) -> None:
    commit(index, {1: run(7, 10, 5), 2: run(8, 0, 5), 3: run(7, 8, 4), 4: run(9, 0, 5)})
    assert [(row.first, row.last, row.offset) for row in index.all_rows(L7)] == [
        (8, 9, 3),
        (10, 14, 1),
    ]


def test_interleaved_stripes_are_all_found_though_their_rows_begin_far_before(index: Index) -> None:
    stripes = {n: run(7, n, 300, pattern=Pattern(1, 3)) for n in range(3)}
    commit(index, stripes)
    assert {row.offset for row in index.rows(L7, first=600, last=602)} == {0, 1, 2}


def test_ends_of_ledgers_only_grow(index: Index) -> None:
    commit(index, {1: run(7, 10, 5, lac=9)})
    commit(index, {2: run(7, 0, 2, lac=3)})
    assert index.ledger_ends() == {L7: LedgerEnd(EntryId(14), EntryId(9))}


def test_every_field_of_a_record_is_read_back_as_it_was_committed(index: Index) -> None:
    flags = itertools.product((None, b"k" * 20), *[(False, True)] * 3, (0, 2), (0, 3), range(4))
    committed = [
        LedgerRecord(LedgerId(n), key, fenced, limbo, mark, checked, EntryId(n - 1), gone, returns)
        for n, (key, fenced, limbo, gone, mark, checked, returns) in enumerate(flags)
    ]
    index.commit(Batch(records=committed), is_readable=everything_is_readable)
    assert list(index.records().values()) == committed


def test_a_forgotten_ledger_keeps_its_record_and_nothing_else(index: Index) -> None:
    commit(index, {1: run(7, 0, 5), 2: run(8, 0, 5)})
    told = LedgerRecord(L7, explicit_lac=EntryId(3), lac_body=b"signed", limbo=True, noted=True)
    lost = Loss(L7, "all answered", ids((9, 9)))
    index.commit(Batch(records=[told], losses=[lost]), is_readable=everything_is_readable)
    assert index.records() == {L7: told} and index.losses() == [lost]
    tombstone = LedgerRecord(L7, fenced=True, deleted=True)
    index.commit(Batch(records=[tombstone], forget=[L7]), is_readable=everything_is_readable)
    assert index.all_rows(L7) == [] and list(index.ledger_ends()) == [8]
    assert index.records() == {L7: tombstone} and index.losses() == []


def test_losses_and_facts_survive_reopening(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "index.sqlite", disk=RealDisk())
    loss = Loss(L7, "all answered", EntrySet.from_ranges([(3, 4)]))
    index.commit(
        Batch(losses=[loss], facts={"a": b"1", "b": b"2"}), is_readable=everything_is_readable
    )
    index.commit(Batch(facts={"a": None}), is_readable=everything_is_readable)
    index.close()
    index = Index.open(tmp_path / "index.sqlite", disk=RealDisk())
    assert (index.losses(), index.facts()) == ([loss], {"b": b"2"})
    index.close()


def test_signed_lacs_find_room_in_an_index_made_before_there_were_any(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    Index.open(path, disk=RealDisk()).close()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE lac_bodies")
    record = LedgerRecord(LedgerId(7), lac_body=b"ledger, LAC, digest")
    opened = Index.open(path, disk=RealDisk())
    opened.commit(Batch(records=[record]), is_readable=everything_is_readable)
    assert opened.records() == {7: record}
    opened.close()


def test_a_row_changed_meanwhile_is_not_moved(index: Index) -> None:
    commit(index, {1: run(7, 0, 5)})
    row = index.all_rows(L7)[0]
    stale = row._replace(offset=99)
    index.move([(L7, stale, row.at(Position(5, 0, 100)))])
    assert index.all_rows(L7) == [row]


def test_rows_of_a_file_come_page_by_page(index: Index) -> None:
    rows = Memtable()
    for number in range(10):
        rows.add(run(7 + number % 2, 10 * number, 1), Position(number // 9, number, 100))
    index.commit(Batch(rows=rows.ledgers), is_readable=everything_is_readable)
    found = page = index.rows_in_file(0, limit=4)
    while page:
        page = index.rows_in_file(0, behind=(page[-1][0], page[-1][1].first), limit=4)
        found = found + page
    keys = [(ledger_id, row.first) for ledger_id, row in found]
    assert keys == sorted(keys) and len(set(keys)) == len(keys) == 9


def test_an_error_within_a_commit_leaves_everything_as_it_was(index: Index) -> None:
    commit(index, {1: run(7, 0, 5)})

    def explode(_ledger_id: LedgerId, _row: RunRow) -> bool:
        raise StorageError("the log is gone")

    rows = Memtable()
    rows.add(run(8, 0, 5), Position(1, 5, 100))
    rows.add(run(7, 2, 9, recovery=True), Position(1, 6, 100))
    with pytest.raises(StorageError, match="the log is gone"):
        index.commit(Batch(rows=rows.ledgers), is_readable=explode)
    assert list(index.ledger_ends()) == [7] and len(index.all_rows(L7)) == 1


@pytest.mark.parametrize(
    "junk", [b"not a database at all" * 300, b"SQLite format 3\0" + b"\xff" * 9000]
)
def test_a_damaged_index_is_an_error_that_names_the_way_out(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "index.sqlite"
    path.write_bytes(junk)
    with pytest.raises(CorruptError, match=r"index\.sqlite.*bookie index rebuild"):
        Index.open(path, disk=RealDisk())


def test_a_damaged_page_is_found_at_open(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    index = Index.open(path, disk=RealDisk())
    commit(index, {n: run(7, n * 10, 5) for n in range(2000)})
    index.close()
    content = bytearray(path.read_bytes())
    middle = len(content) // 8192 * 4096
    content[middle : middle + 4096] = b"\xa5" * 4096
    path.write_bytes(content)
    with pytest.raises(CorruptError, match="bookie index rebuild"):
        Index.open(path, disk=RealDisk())


def test_an_index_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    Index.open(path, disk=RealDisk()).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(CorruptError, match="schema version is 99, expected 1"):
        Index.open(path, disk=RealDisk())


def test_a_commit_is_durable_without_a_close(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "index.sqlite", disk=RealDisk())
    commit(index, {1: run(7, 0, 5)})
    image = tmp_path / "image"
    image.mkdir()
    for file in tmp_path.glob("index.sqlite*"):
        shutil.copy(file, image)
    index.close()
    copy = Index.open(image / "index.sqlite", disk=RealDisk())
    assert len(copy.all_rows(L7)) == 1
    copy.close()


def test_every_commit_is_synced(tmp_path: Path) -> None:
    database = DatabaseFile(tmp_path / "index.sqlite")
    with database.transaction("look") as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()


def image_of_a_killed_one(tmp_path: Path) -> Path:
    """The files of an index whose process was killed after a commit: what the page cache shows."""
    index = Index.open(tmp_path / "index.sqlite", disk=RealDisk())
    commit(index, {1: run(7, 0, 5)})
    image = tmp_path / "image"
    image.mkdir()
    for file in tmp_path.glob("index.sqlite*"):
        shutil.copy(file, image)
    index.close()
    return image / "index.sqlite"


def test_b4_what_a_killed_process_left_in_the_log_is_in_the_file_once_it_is_opened(
    tmp_path: Path,
) -> None:
    # Its last sync may have failed: on the disk the log may have a hole, wherever it was written.
    path = image_of_a_killed_one(tmp_path)
    log = path.with_name("index.sqlite-wal")
    assert log.stat().st_size > 0
    index = Index.open(path, disk=RealDisk(), is_owner=True)
    assert log.stat().st_size == 0
    after_a_power_cut = tmp_path / "cut" / "index.sqlite"
    after_a_power_cut.parent.mkdir()
    shutil.copy(path, after_a_power_cut)
    index.close()
    copy = Index.open(after_a_power_cut, disk=RealDisk())
    assert len(copy.all_rows(L7)) == 1
    copy.close()


def test_b4_the_log_is_on_the_disk_before_it_is_folded_into_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = image_of_a_killed_one(tmp_path)
    whole = path.with_name("index.sqlite-wal").read_bytes()
    events: list[object] = []
    pwrite, sync = os.pwrite, os.fdatasync

    def noted_write(file: int, piece: bytes, at: int) -> int:
        events.append((at, piece))
        return pwrite(file, piece, at)

    def noted_sync(file: int) -> None:
        events.append("synced")
        sync(file)

    database = DatabaseFile(path)
    database._writer.set_trace_callback(events.append)
    monkeypatch.setattr(os, "pwrite", noted_write)
    monkeypatch.setattr(os, "fdatasync", noted_sync)
    database.settle()
    assert events == [(0, whole), "synced", "PRAGMA wal_checkpoint(TRUNCATE)"]
    database.close()


def test_b4_a_new_index_has_no_log_to_write_again(tmp_path: Path) -> None:
    database = DatabaseFile(tmp_path / "index.sqlite")
    database.settle()
    database.close()


def test_b4_a_look_from_outside_changes_nothing(tmp_path: Path) -> None:
    path = image_of_a_killed_one(tmp_path)
    before = path.read_bytes()
    index = Index.open(path, disk=RealDisk())
    assert path.read_bytes() == before
    index.close()


def test_a_closed_index_says_so(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "index.sqlite", disk=RealDisk())
    index.close()
    with pytest.raises(StorageError, match="closed"):
        index.ledger_ends()


def test_a_full_disk_is_told_apart_from_a_failed_one() -> None:
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    assert isinstance(sqlite_error("commit", Path("/d/index.sqlite"), full), DiskFullError)
    other = sqlite3.OperationalError("disk I/O error")
    other.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
    found = sqlite_error("commit", Path("/d/index.sqlite"), other)
    assert type(found) is StorageError


def test_a_read_is_given_as_many_rows_as_fill_it(index: Index) -> None:
    commit(index, {n: run(7, 10 * n, 10) for n in range(9)})
    length = index.all_rows(L7)[0].length
    found = index.rows_to_read(L7, first=15, last=80, bytes_max=2 * length)
    assert ([row.first for row in found[0]], found[1]) == ([10, 20], 29)


def test_a_read_is_given_all_rows_that_begin_before_it(index: Index) -> None:
    striped = {n: run(7, n, 10, pattern=Pattern(1, 9)) for n in range(9)}
    commit(index, striped)
    found = index.rows_to_read(L7, first=30, last=80, bytes_max=1)
    assert (len(found[0]), found[1]) == (9, 80)


@given(st.lists(adds, max_size=12), st.integers(0, 60), st.integers(0, 30), st.integers(0, 9))
def test_no_row_that_a_part_of_a_read_needs_is_left_out(
    found: list[Add], first: int, more: int, frames: int
) -> None:
    rows = sorted(row_of(add.frame(), Position(1, n, 100)) for n, add in enumerate(found))
    rows = [row for row in rows if row.last >= first and row.first <= first + more]
    taken, through = rows_to_read(rows, first=first, last=first + more, bytes_max=100 * frames)
    assert first <= through <= first + more
    assert {row for row in rows if row.first <= through} <= set(taken)
