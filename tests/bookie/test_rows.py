"""Rows on screens of any width: a table, its last column below, or records; no word is cut."""

import io
from collections import Counter

import pytest
from bookie.rows import Rows, record
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.text import Text

WORDS = st.text("ab-.:/9", min_size=1, max_size=30)
CELLS = st.lists(WORDS, max_size=6).map(" ".join)
ANY_WORDS = st.lists(
    st.sampled_from(
        ["ab", "日本", "👍🏽", "❤\ufe0f", "e\u0301", "\u0301", "[b]", "[/]", "\\", ":x:"]
    )
    | st.characters(categories=("L", "N", "P", "S")).filter(str.isprintable),
    min_size=1,
    max_size=20,
).map("".join)
ANY_CELLS = st.lists(ANY_WORDS | st.sampled_from(list(" \n\t\xa0\u3000")), max_size=6).map(" ".join)
ANY_ROWS = st.integers(0, 4).flatmap(
    lambda size: st.lists(st.lists(ANY_CELLS, min_size=size, max_size=size), min_size=1, max_size=3)
)


def drawn(rows: RenderableType, columns: int) -> list[str]:
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


def views(cells: list[list[str]]) -> list[tuple[RenderableType, set[str]]]:
    """The cells as a table and the first of them as fields, each with its words."""
    headings = cells[0]
    table = Rows(headings, cells, numbers=headings[:1])
    fields = record(zip(headings, headings, strict=True))
    return [(table, words_of(cells)), (fields, words_of([headings]))]


def words_of(cells: list[list[str]]) -> set[str]:
    return {word for row in cells for cell in row for word in cell.split()}


@given(ANY_ROWS, st.integers(1, 120))
def test_a_word_that_fits_the_screen_is_whole(cells: list[list[str]], columns: int) -> None:
    for view, words in views(cells):
        lines = drawn(view, columns)
        assert {word for word in words if cell_len(word) <= columns} <= words_of([lines])
        assert all(cell_len(line) <= columns for line in lines)


@given(ANY_ROWS, st.integers(2, 120))
def test_a_word_that_does_not_fit_loses_nothing(cells: list[list[str]], columns: int) -> None:
    for view, words in views(cells):
        assert Counter("".join(words)) <= Counter("".join(drawn(view, columns)))


@given(st.lists(st.text(), min_size=1, max_size=3), st.integers(1, 120))
def test_nothing_but_what_prints_reaches_the_terminal(row: list[str], columns: int) -> None:
    coloured = [Text(cell, "red") for cell in row]
    for view in (Rows(row, [row, coloured], title=row[0]), record(zip(row, coloured, strict=True))):
        assert "".join(drawn(view, columns)).isprintable()


def test_what_does_not_print_is_shown_as_its_number() -> None:
    cells = [("x\x1b[2Jy", Text("a\u200db")), ("\u202e", " a\tb\xa0c\u3000d\r\n e")]
    assert drawn(Rows(("A\x9b", "B"), cells), 40) == [
        "A\\x9b      B", "x\\x1b[2Jy  a\\u200db", "\\u202e     a b c d", "           e"
    ]  # fmt: skip


def test_a_value_without_room_beside_its_name_stands_below_it() -> None:
    fields = [("a b", "1 2"), ("name", "x" * 9), ("c", "y" * 15), ("", "z" * 18)]
    assert drawn(record(fields), 16) == [
        "a b   1 2", f"name  {'x' * 9}", "c", f" {'y' * 15}", "", "z" * 16, "zz"
    ]  # fmt: skip


def test_names_without_room_hide_no_value() -> None:
    fields = [("SINCE EPOCH", "abc"), ("FOR", "")]
    assert drawn(record(fields), 6) == ["SINCE", "EPOCH", "  abc", "FOR"]


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_path_that_fits_the_screen_is_whole_in_a_record(columns: int) -> None:
    path = "/" + "d" * (columns - 8)
    assert drawn(record([("journal directory", path)]), columns) == [
        "journal directory",
        f"  {path}",
    ]


def test_rows_without_columns_are_empty() -> None:
    assert drawn(Rows((), [()]), 80) == []


def test_a_heading_is_no_markup() -> None:
    assert drawn(Rows(("[b]X",), [("1",)]), 80) == ["[b]X", "1"]
