"""Rows on screens of any width: a table, its last column below, or records; no word is cut."""

import io

from bookie.rows import Rows
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

WORDS = st.text("ab-.:/9", min_size=1, max_size=30)
CELLS = st.lists(WORDS, max_size=6).map(" ".join)


def drawn(rows: Rows, columns: int) -> list[str]:
    screen = Console(file=io.StringIO(), width=columns, highlight=False)
    screen.print(rows)
    assert isinstance(screen.file, io.StringIO)
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=3), st.integers(60, 200))
def test_d9_no_word_is_cut_and_no_line_too_long(rows: list[tuple[str, ...]], columns: int) -> None:
    lines = drawn(Rows(("ONE", "SECOND", "THE LAST"), rows), columns)
    assert all(len(line) <= columns for line in lines)
    assert {word for row in rows for cell in row for word in cell.split()} <= {
        word for line in lines for word in line.split()
    }


def test_d9_what_fits_is_a_table_and_its_text_takes_the_rest() -> None:
    rows = Rows(("NAME", "COUNT", "WHY"), [("a b", "1", "x y z")], numbers=("COUNT",))
    assert drawn(rows, 16) == ["NAME  COUNT  WHY", "a b       1  x y", "             z"]


def test_d9_a_last_column_that_does_not_fit_goes_below() -> None:
    rows = Rows(("NAME", "WHY"), [("a", "x" * 20), ("b", "")])
    assert drawn(rows, 24) == ["NAME", "  WHY", "a", "  " + "x" * 20, "b"]


def test_d9_columns_that_do_not_fit_become_records() -> None:
    rows = Rows(("A", "B", "C"), [("x" * 15, "y" * 15, "1"), ("2", "", "[b]")], title="All")
    assert drawn(rows, 24) == [
        "All", f"A  {'x' * 15}", f"B  {'y' * 15}", "C  1", "", "A  2", "B", "C  [b]"
    ]  # fmt: skip
