"""What goes to stdout and what does not, with and without a person who watches."""

import io
import sys

import pytest
from bookie.cli.output import entry_rows, progress, say, show_fields, show_rows, table_text


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


def test_values_are_readable(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"a": None, "b": True, "c": ["x", "y"], "d": [], "e": {"k": 1}}
    show_rows([row], columns=tuple("abcde"), output="table")
    assert capsys.readouterr().out.splitlines()[1].split("  ") == ["-", "yes", "x, y", "-", "k: 1"]
