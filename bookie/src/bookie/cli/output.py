"""How every command shows its answer: a table for people by default, JSON for programs.

Answers go to stdout: one JSON document per call, or one object per line from `tail`, which may
never end. Progress and errors go to stderr; progress only when a person watches.
"""

import base64
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bookie.rows import Rows, printable, record

Row = Mapping[str, Any]

FORMATS: Final = click.Choice(["table", "json"])
WIDTH_UNBOUNDED: Final = 10_000
"""Columns of a line without a terminal, so that a row is one line: programs and logs read it."""
PAYLOAD_COLUMNS_MIN: Final = 20
METER_STEPS: Final = 256
"""Of a progress bar at once."""
ENTRY_COLUMNS: Final = "{:>10}  {:>9}  {}"
"""Entry id, bytes, payload: columns of fixed width, since entries are printed as they arrive."""


def show_rows(
    rows: Iterable[Row], *, columns: Sequence[str], output: str, nothing: str = ""
) -> None:
    """Print rows as a table with these columns, or as a JSON list with every key.

    `nothing`: text for a person instead of an empty table.
    """
    shown = list(rows)
    if output == "json":
        click.echo(_json(shown))
    elif shown or not nothing:
        click.echo(table_text(shown, columns=columns), nl=False)
    else:
        click.echo(nothing)


def table_text(rows: Iterable[Row], *, columns: Sequence[str]) -> str:
    """A table with a heading for each column; columns of numbers are aligned right. See `rows`."""
    shown = list(rows)
    headings = [_title(column).upper() for column in columns]
    numbers = {
        heading
        for heading, column in zip(headings, columns, strict=True)
        if any(isinstance(row.get(column), int) for row in shown)
    }
    cells = [[_cell(row.get(column)) for column in columns] for row in shown]
    return _rendered(Rows(headings, cells, numbers))


def show_fields(fields: Row, *, output: str) -> None:
    """Print one object as `name  value` lines, or as JSON."""
    if output == "json":
        click.echo(_json(fields))
        return
    click.echo(fields_text(fields), nl=False)


def show_new_ledger(fields: Row, *, output: str) -> None:
    """`show_fields` of a ledger that was made. If nothing can be printed, stderr gets its id: no
    one else knows it."""
    try:
        show_fields(fields, output=output)
    except OSError:
        click.echo(f"ledger {fields['ledger_id']} is {fields['state']}", err=True)
        raise


def fields_text(fields: Row) -> str:
    return _rendered(record((_title(name), _cell(value)) for name, value in fields.items()))


@contextmanager
def entry_rows(
    output: str, *, one_per_line: bool = False
) -> Iterator[Callable[[int, bytes], None]]:
    """Give a function that prints one entry at once. JSON: one list, or with `one_per_line`
    objects.

    After an error the list has no closing bracket, so that no program takes it for complete.
    """
    shown = 0
    is_list = output == "json" and not one_per_line
    columns = _payload_columns()
    out = sys.stdout

    def show(entry_id: int, payload: bytes) -> None:
        nonlocal shown
        # The heading is written with the first entry, so that an earlier error leaves stdout empty.
        if output != "json":
            heading = "" if shown else ENTRY_COLUMNS.format("ENTRY ID", "BYTES", "PAYLOAD\n")
            text = _visible(payload, columns=columns)
            line = f"{heading}{ENTRY_COLUMNS.format(entry_id, len(payload), text).rstrip()}\n"
        elif is_list:
            line = (",\n  " if shown else "[\n  ") + json.dumps(_entry_json(entry_id, payload))
        else:
            line = json.dumps(_entry_json(entry_id, payload)) + "\n"
        out.write(line)
        if one_per_line:
            out.flush()
        shown += 1

    try:
        yield show
        if is_list:
            out.write("\n]\n" if shown else "[]\n")
    finally:
        out.flush()


def _entry_json(entry_id: int, payload: bytes) -> dict[str, Any]:
    """An entry as JSON, with `payload` if it is UTF-8 text, otherwise `payload_base64`."""
    fields: dict[str, Any] = {"entry_id": entry_id, "bytes": len(payload)}
    try:
        return fields | {"payload": payload.decode()}
    except UnicodeDecodeError:
        return fields | {"payload_base64": base64.b64encode(payload).decode()}


def _visible(payload: bytes, *, columns: int) -> str:
    """The beginning of a payload as harmless text: no control codes reach the terminal."""
    text = payload[: 4 * columns].decode("utf-8", "backslashreplace")
    safe = printable(text[:columns])
    cut = len(safe) > columns or len(text) > columns or len(payload) > 4 * columns
    return f"{safe[: columns - 1]}…" if cut else safe


def _payload_columns() -> int:
    width = shutil.get_terminal_size().columns
    return max(width - len(ENTRY_COLUMNS.format("", "", "")), PAYLOAD_COLUMNS_MIN)


def say(line: str) -> None:
    """Print a line about what happens now, if a person watches at a terminal."""
    if sys.stderr.isatty():
        click.echo(line, err=True)


@contextmanager
def progress(text: str, *, total: int | None, unless_shown: bool = False) -> Iterator["Meter"]:
    """Show a progress bar on stderr, if a person watches at a terminal.

    `unless_shown`: no bar either while the answer itself is printed to the terminal.
    """
    watched = sys.stderr.isatty() and not (unless_shown and _watched())
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=not watched,
        transient=True,
        redirect_stdout=False,  # stdout is for the answer, whether a terminal or a file
        redirect_stderr=False,
    )
    with bar:
        yield Meter(bar, bar.add_task(text, total=total))


class Meter:
    """Moves a progress bar once in METER_STEPS steps, so that a call for each entry costs
    little."""

    def __init__(self, bar: Progress, task: Any) -> None:
        self._bar = bar
        self._task = task
        self._waiting = 0
        """Steps that the bar does not show yet; fewer than METER_STEPS."""

    def advance(self, steps: int = 1) -> None:
        self._waiting += steps
        if self._waiting >= METER_STEPS:
            self._bar.advance(self._task, self._waiting)
            self._waiting = 0


def _watched() -> bool:
    return sys.stdout.isatty()


def _rendered(view: RenderableType) -> str:
    """Render to text, so that only one place writes to stdout and handles a closed pipe."""
    console = Console(
        width=None if _watched() else WIDTH_UNBOUNDED,
        force_terminal=_watched(),
        highlight=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as captured:
        console.print(view)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _json(document: Any) -> str:
    return json.dumps(document, indent=2, default=str)


def _title(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value)) or "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_cell(item)}" for name, item in value.items()) or "-"
    return str(value)
