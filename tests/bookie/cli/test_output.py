"""What goes to stdout and what does not, with and without a person who watches."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from bookie.cli.output import (
    METER_STEPS,
    Meter,
    entry_rows,
    progress,
    say,
    show_fields,
    show_rows,
    table_text,
)
from rich.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error is a terminal from now on."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_an_answer_beside_a_progress_bar_goes_to_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = watched(monkeypatch)
    with progress("entries read", total=1) as meter, entry_rows("json") as show:
        show(0, b"a")
        meter.advance()
    assert capsys.readouterr().out == '[\n  {"entry_id": 0, "bytes": 1, "payload": "a"}\n]\n'
    assert "entries read" in terminal.getvalue()


def test_nobody_watching_sees_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("entries read", total=1) as meter:
        meter.advance()
    say("a step")
    assert capsys.readouterr() == ("", "")


def test_who_watches_is_told_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    say("a step")
    assert terminal.getvalue() == "a step\n"


def test_a_list_of_entries_that_broke_off_has_no_end(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError), entry_rows("json") as show:
        show(0, b"a")
        raise RuntimeError
    assert not capsys.readouterr().out.rstrip().endswith("]")


def test_an_error_before_the_first_entry_leaves_stdout_empty(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(RuntimeError), entry_rows("table"):
        raise RuntimeError
    assert capsys.readouterr().out == ""


def test_without_a_terminal_a_row_is_one_line() -> None:
    text = table_text([{"name": "x" * 500, "count": 1}], columns=("name", "count"))
    assert text.splitlines() == [f"NAME{' ' * 498}COUNT", f"{'x' * 500}      1"]


def test_what_looks_like_markup_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    show_fields({"reason": "[bold]x[/bold] :smile:"}, output="table")
    assert capsys.readouterr().out == "reason  [bold]x[/bold] :smile:\n"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        *((nothing, "-") for nothing in (None, [], (), {})),
        *((True, "yes"), (False, "no"), (0, "0"), ("", ""), (Path("/a"), "/a")),
        *((["x", "y"], "x, y"), (("x",), "x"), ([None, True], "-, yes")),
        *(({"k": 1, "l": None}, "k: 1, l: -"), ({"k": {"l": False}}, "k: l: no")),
    ],
)
def test_a_value_is_readable(capsys: pytest.CaptureFixture[str], value: object, told: str) -> None:
    show_fields({"a_name": value}, output="table")
    assert capsys.readouterr().out == f"a name  {told}".rstrip() + "\n"
    show_rows([{"a_name": value, "end": "."}], columns=("a_name", "end"), output="table")
    heading, line = capsys.readouterr().out.splitlines()
    assert (heading.split(), line.split()[:-1]) == (["A", "NAME", "END"], told.split())


ROW: dict[str, Any] = {"name": "a", "count": 1, "more": Path("/a")}


@pytest.mark.parametrize(
    ("rows", "nothing", "table"),
    [
        ([], "", "NAME  COUNT\n"),
        ([], "none", "none\n"),
        ([ROW], "none", "NAME  COUNT\na         1\n"),
        ([ROW, {"name": "b"}], "", "NAME  COUNT\na         1\nb         -\n"),
        ([ROW | {"count": None}], "", "NAME  COUNT\na     -\n"),
    ],
)
def test_rows_are_a_table_of_some_columns_or_a_list_of_all_there_is(
    capsys: pytest.CaptureFixture[str], rows: list[dict[str, Any]], nothing: str, table: str
) -> None:
    columns = ("name", "count")
    show_rows(rows, columns=columns, output="table", nothing=nothing)
    assert capsys.readouterr().out == table
    show_rows(rows, columns=columns, output="json", nothing=nothing)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(rows, default=str))


ENTRIES = {0: b"text", 11: b"\xff"}
HEADING = "  ENTRY ID      BYTES  PAYLOAD\n"
TEXT = '{"entry_id": 0, "bytes": 4, "payload": "text"}'
BINARY = '{"entry_id": 11, "bytes": 1, "payload_base64": "/w=="}'


@pytest.mark.parametrize(
    ("output", "one_per_line", "told"),
    [
        ("table", True, HEADING + "         0          4  text\n        11          1  \\xff\n"),
        ("json", False, f"[\n  {TEXT},\n  {BINARY}\n]\n"),
        ("json", True, f"{TEXT}\n{BINARY}\n"),
    ],
)
def test_an_entry_is_shown_as_it_comes(
    capsys: pytest.CaptureFixture[str], output: str, one_per_line: bool, told: str
) -> None:
    with entry_rows(output, one_per_line=one_per_line) as show:
        for entry_id, payload in ENTRIES.items():
            show(entry_id, payload)
    assert capsys.readouterr().out == told


@pytest.mark.parametrize(
    ("output", "one_per_line", "told"),
    [("table", False, ""), ("json", True, ""), ("json", False, "[]\n")],
)
def test_no_entries_are_an_empty_list(
    capsys: pytest.CaptureFixture[str], output: str, one_per_line: bool, told: str
) -> None:
    with entry_rows(output, one_per_line=one_per_line):
        pass
    assert capsys.readouterr().out == told


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize("one_per_line", [True, False])
def test_who_follows_sees_each_entry_at_once(
    monkeypatch: pytest.MonkeyPatch, output: str, one_per_line: bool
) -> None:
    arrived = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(arrived, encoding="utf-8"))
    with entry_rows(output, one_per_line=one_per_line) as show:
        show(0, b"text")
        assert (b"text" in arrived.getvalue()) is one_per_line
    assert b"text" in arrived.getvalue()


@pytest.mark.parametrize(
    ("payload", "columns", "told"),
    [
        (b"x" * 20, 43, "x" * 20),
        (b"x" * 21, 43, "x" * 19 + "…"),
        (b"x" * 21, 44, "x" * 21),
        (b"x" * 21, 1, "x" * 19 + "…"),
        ("\U0001f600" * 20, 43, "\U0001f600" * 20),
        ("\U0001f600" * 21, 43, "\U0001f600" * 19 + "…"),
        (b"\n" * 10, 43, r"\n" * 10),
        (b"\n" * 11, 43, (r"\n" * 11)[:19] + "…"),
        (b"\xff" * 5, 43, r"\xff" * 5),
        (b"\xff" * 6, 43, (r"\xff" * 6)[:19] + "…"),
    ],
)
def test_a_payload_has_the_columns_that_are_left(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    payload: bytes | str,
    columns: int,
    told: str,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    with entry_rows("table") as show:
        show(0, payload.encode() if isinstance(payload, str) else payload)
    assert capsys.readouterr().out.splitlines()[1].split(maxsplit=2)[2] == told


def test_a_bar_moves_by_all_steps_but_seldom() -> None:
    bar = Progress()
    meter = Meter(bar, bar.add_task("read", total=None))
    seen = []
    for steps in (METER_STEPS - 1, 1, METER_STEPS - 1, 3, 1):
        meter.advance(steps)
        seen.append(bar.tasks[0].completed)
    assert seen == [0, METER_STEPS, METER_STEPS, 2 * METER_STEPS + 2, 2 * METER_STEPS + 2]


@pytest.mark.parametrize(("unless_shown", "is_drawn"), [(False, True), (True, False)])
def test_no_bar_is_drawn_across_an_answer_on_the_same_terminal(
    monkeypatch: pytest.MonkeyPatch, unless_shown: bool, is_drawn: bool
) -> None:
    terminal = watched(monkeypatch)
    monkeypatch.setattr(sys, "stdout", Terminal())
    with progress("entries read", total=1, unless_shown=unless_shown):
        pass
    assert ("entries read" in terminal.getvalue()) is is_drawn
