"""Prints answers: folded at a terminal; in a pipe a line is one line, unless COLUMNS is set."""

import os
import sys
from collections.abc import Sequence
from typing import Final

import click
from rich.console import Console, RenderableType
from rich.text import Text

UNFOLDED: Final = 10_000


def console() -> Console:
    is_bounded = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if is_bounded else UNFOLDED, highlight=False, emoji=False)


def show(view: RenderableType, lines: Sequence[Text] = ()) -> None:
    """`view`, then `lines` without folding them: commands are there to be copied."""
    screen = console()
    with screen.capture() as drawn:
        screen.print(view)
    for text in drawn.get().splitlines():  # tables fill their last column with spaces
        click.echo(text.rstrip())
    for line in lines:
        screen.print(line, soft_wrap=True)
