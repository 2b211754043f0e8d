"""Result objects as tables: every finding, with its times, and the copies of every bookie."""

import resource
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from bookie.repair.reports.parquet import COPIES_SCHEMA, FINDINGS_SCHEMA, write_parquet
from page_cases import AT_MS, NASTY, damaged, healthy

DOCS = Path(__file__).parents[4] / "docs/repair-result.md"


def test_findings_become_rows_by_class_and_by_bookie(tmp_path: Path) -> None:
    write_parquet(damaged(), tmp_path)
    rows = pq.read_table(tmp_path / "findings.parquet").to_pylist()
    of_seven = [(r["class"], r["bookie_id"], r["entries"]) for r in rows if r["ledger_id"] == 7]
    assert of_seven == [("missing", None, 4), ("no_copy", None, 2), ("missing", NASTY, 4)]
    assert rows[0]["ranges"] == [{"first": 3, "last": 5}, {"first": 9, "last": 9}]
    assert rows[0]["first_seen"].timestamp() * 1000 == AT_MS - 86_400_000
    (silent,) = [row for row in rows if row["class"] == "silent_bookie"]
    assert (silent["bookie_id"], silent["ledger_id"]) == ("bookie-2", None)


def test_a_file_has_the_copies_beside_it(tmp_path: Path) -> None:
    write_parquet(damaged(), tmp_path / "day" / "audit.parquet")
    assert pq.read_schema(tmp_path / "day/audit.parquet").equals(FINDINGS_SCHEMA)
    copies = pq.read_table(tmp_path / "day/audit.copies.parquet")
    assert copies.schema.equals(COPIES_SCHEMA)
    assert copies["missing"].to_pylist() == [0, 12, 0, 3]


def test_tables_that_find_no_room_leave_those_that_are_there(tmp_path: Path) -> None:
    write_parquet(damaged(), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    room, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, most))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_parquet(healthy(), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_no_findings_are_a_table_without_rows(tmp_path: Path) -> None:
    write_parquet(healthy(), tmp_path)
    table = pq.read_table(tmp_path / "findings.parquet")
    assert table.num_rows == 0 and table.schema.equals(FINDINGS_SCHEMA)


def test_every_column_is_documented() -> None:
    told = DOCS.read_text(encoding="utf-8")
    names = {*FINDINGS_SCHEMA.names, *COPIES_SCHEMA.names}
    assert [name for name in names if f"`{name}`" not in told] == []
