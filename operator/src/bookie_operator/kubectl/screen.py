"""Where the plugin writes: answers to stdout, progress and questions to stderr.

At a terminal a watched tree is redrawn in place, its ages once a second.
"""

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Final

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from bookie_operator.status_tree.answers import console, show

RULE_COLUMNS: Final = 72


def now() -> datetime:
    return datetime.now(UTC)


def tell(text: str) -> None:
    """Progress; stdout stays free for the answer."""
    click.echo(text, err=True)


def confirmed(question: str, *, yes: bool) -> bool:
    """Whether a person at the terminal agrees; `yes`: they said so beforehand."""
    if yes:
        return True
    click.echo(f"{question} [y/N] ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer:
        raise click.UsageError("nobody answered: pass --yes to go on without being asked")
    if answer.strip().lower() in ("y", "yes"):
        return True
    tell("nothing was changed")
    return False


class Watched:
    """A view that follows what it shows: redrawn at a terminal, else printed when it changes."""

    def __init__(self) -> None:
        self._console = console()
        self._draw: Callable[[], tuple[RenderableType, Sequence[Text]]] | None = None
        """What is shown now; None before the first `show`."""
        self._live: Live | None = None
        """None while nothing is drawn."""
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, get_renderable=self._rendered, refresh_per_second=1
            )

    def show(self, draw: Callable[[], tuple[RenderableType, Sequence[Text]]]) -> None:
        """`draw` renders the present state as of the moment of the call."""
        is_first, self._draw = self._draw is None, draw
        if self._live is not None:
            self._live.refresh()
            return
        if not is_first:
            # A line of the console is as long as a pipe lets it be: thousands of columns.
            click.echo(f"{now():%H:%M:%S}Z ".ljust(RULE_COLUMNS, "-"))
        show(*draw())

    def _rendered(self) -> RenderableType:
        if self._draw is None:
            return Text("")
        view, lines = self._draw()
        return Group(view, *lines)

    def __enter__(self) -> "Watched":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
