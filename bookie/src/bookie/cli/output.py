"""How every command shows its answer: a table for people by default, JSON for programs.

Answers go to stdout, progress and complaints to stderr; progress only when a person watches.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

Row = Mapping[str, Any]


def show_rows(rows: Iterable[Row], *, columns: Sequence[str], output: str) -> None:
    """Rows as a table with these columns, or as a JSON list with every key."""
    if output == "json":
        click.echo(json.dumps(list(rows), indent=2, default=str))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column.upper().replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    _console().print(table)


def show_fields(fields: Row, *, output: str) -> None:
    """One object: `name  value` lines, or JSON."""
    if output == "json":
        click.echo(json.dumps(dict(fields), indent=2, default=str))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(name.replace("_", " "), _cell(value))
    _console().print(table)


@contextmanager
def progress(text: str, *, total: int | None) -> Iterator["Meter"]:
    """A progress bar on stderr while a person watches; otherwise silent."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    with bar:
        yield Meter(bar, bar.add_task(text, total=total))


class Meter:
    """Moves one progress bar."""

    def __init__(self, bar: Progress, task: Any) -> None:
        self._bar = bar
        self._task = task

    def advance(self, steps: int = 1) -> None:
        self._bar.advance(self._task, steps)


def _console() -> Console:
    # Without a terminal a table must not be cut to 80 columns: programs and logs read it.
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value)) or "-"
    return str(value)
