"""Apache's rows: what is made of what the stock client says, and what happens without Maven."""

import asyncio
import shutil
from pathlib import Path

import pytest

from benchmarks.__main__ import line_of, names_of
from benchmarks.apache_fleet import ApacheError, FailedTurnError, Turn, classpath
from benchmarks.bench_apache import JOURNAL, NO_JOURNAL, compared, rows, what
from benchmarks.report import BEGIN, END, rendered
from benchmarks.rows import Options, Row

STOCK = {"entries_per_s": 40_000.0, "client_us": 14.0}


def test_the_stock_client_answers_with_one_line() -> None:
    assert Turn.from_line('{"entries": 9, "seconds": 0.25, "p50_us": 210}\n') == Turn(9, 0.25, 210)


@pytest.mark.parametrize("line", ["", "ready", "{}", "[1]", '{"entries": null, "seconds": 1}'])
def test_anything_else_that_it_says_is_a_failure(line: str) -> None:
    with pytest.raises(ApacheError, match="instead of its figures"):
        Turn.from_line(line)


def test_a_turn_that_failed_may_be_repeated() -> None:
    with pytest.raises(FailedTurnError, match="Not enough"):
        Turn.from_line('{"error": "Not enough non-faulty bookies available"}')


def test_ours_is_compared_with_theirs_in_the_mode_that_is_its_equal() -> None:
    found = compared(STOCK, {"sync": 200_000.0, "memory": 320_000.0})
    assert found["ours_entries_per_s"] == 200_000.0
    assert (found["ours_over_apache"], found["memory_over_apache"]) == (5.0, 8.0)
    assert found["client_us"] == 14.0, "theirs stay as they are"


def test_a_mode_that_is_not_measured_has_no_figure() -> None:
    assert list(compared(STOCK, {"memory": 80_000.0})) == [
        *STOCK, "ours_entries_per_s", "ours_over_apache"
    ]  # fmt: skip


def test_an_acknowledgement_by_the_journal_is_compared_with_one_from_the_disk() -> None:
    assert (JOURNAL.modes, NO_JOURNAL.modes) == (("sync", "memory"), ("memory",))


def test_the_table_begins_with_the_ratios_and_leaves_out_what_a_row_has_not() -> None:
    both = compared(STOCK, {"sync": 200_000.0, "memory": 320_000.0})
    found = [
        Row("apache", what(JOURNAL, "v3"), (both,)),
        Row("apache", what(NO_JOURNAL, "v3"), (compared(STOCK, {"memory": 80_000.0}),)),
    ]
    page = rendered(f"{BEGIN}{END}", found, machine={})
    assert "| what | ours over Apache | our memory mode over Apache | entries/s |" in page
    assert "default storage, v3 | **5.00** (5.00-5.00) | **8.00** (8.00-8.00) | 40,000 |" in page
    assert "DbLedgerStorage, v3 | **2.00** (2.00-2.00) |  | 40,000 |" in page
    assert "ours_over_apache 5 (5.00-5.00)" in line_of(found[0])


@pytest.mark.parametrize("absent", ["mvn", "javac", "java"])
def test_a_machine_without_maven_or_a_jdk_has_no_rows_and_a_line_says_so(
    absent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == absent else f"/bin/{tool}")
    options = Options(tmp_path, rounds=1, is_full=False, loop=asyncio.new_event_loop)
    assert list(rows(options)) == []
    assert capsys.readouterr().out == f"apache: left out, {absent} not on PATH\n"
    with pytest.raises(ApacheError, match=absent):
        classpath(tmp_path)
    assert not list(tmp_path.iterdir())


def test_apache_is_measured_when_all_is_or_when_it_is_named() -> None:
    assert "apache" not in names_of("", is_full=False)
    assert names_of("", is_full=True)[-1] == "apache"
    assert names_of("apache", is_full=False) == ["apache"]
    assert names_of("ap", is_full=False) == ["append"]
    assert names_of("append", is_full=False) == ["append"]
