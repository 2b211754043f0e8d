"""The report: tables and plot of what was measured."""

import pytest

from benchmarks.plot import Bar, bars
from benchmarks.report import BEGIN, END, PAGE, rendered
from benchmarks.rows import Row, size_name

ROWS = [
    Row(
        "append", "1 KiB", ({"mib_per_s": 149.6, "ratio": 0.5}, {"mib_per_s": 151.0, "ratio": 0.7})
    ),
    Row("boot", "100,000 ledgers", ({"seconds": 8.25},)),
]


def test_a_table_has_the_ratio_first_and_with_its_spread() -> None:
    page = rendered(f"before{BEGIN}old{END}after", ROWS, machine={"cpus": 2})
    assert "| what | ratio | MiB/s |\n|---|---|---|\n| 1 KiB | **0.60** (0.50-0.70) | 150 |" in page
    assert "| 100,000 ledgers | 8.25 |" in page
    assert page.startswith("before") and page.endswith("after") and "old" not in page


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="has no place for its figures"):
        rendered("a page", ROWS, machine={})


def test_the_page_has_a_place() -> None:
    assert BEGIN in PAGE.read_text(encoding="utf-8")


def test_a_row_survives_its_json() -> None:
    assert [Row.from_json(row.json()) for row in ROWS] == ROWS


def test_bars_are_as_long_as_what_they_stand_for() -> None:
    drawn = bars("A & B", [Bar("half", 0.5, 0.4, 0.6), Bar("whole", 1.0, 1.0, 1.0)])
    assert "A &amp; B" in drawn and 'width="240.0"' in drawn and 'width="480.0"' in drawn


@pytest.mark.parametrize("size, name", [(100, "100 B"), (1024, "1 KiB"), (65536, "64 KiB")])
def test_sizes_have_short_names(size: int, name: str) -> None:
    assert size_name(size) == name
