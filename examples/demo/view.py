"""What a person watches: a live picture in a terminal, plain lines elsewhere."""

import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

EVENTS_SHOWN = 8
RATES_SHOWN = 48
SPARKS = " ▁▂▃▄▅▆▇█"
STATE_STYLE = {"Serving": "green", "Down": "bold red", "Booting": "yellow", "Refused": "bold red"}


@dataclass(slots=True)
class Picture:
    """Everything on screen; the story changes it, the view draws it."""

    steps: list[str]
    step: int = 0
    acked_entries: int = 0
    acked_bytes: int = 0
    ledgers: int = 0
    reopened: int = 0
    bookies: list[dict[str, Any]] = field(default_factory=list)
    conditions: dict[str, str] = field(default_factory=dict)
    rates: deque[float] = field(default_factory=lambda: deque([0.0] * RATES_SHOWN, RATES_SHOWN))
    events: deque[str] = field(default_factory=lambda: deque(maxlen=EVENTS_SHOWN))
    started: float = field(default_factory=time.monotonic)


class View(Protocol):
    def __enter__(self) -> "View": ...
    def __exit__(self, *_: object) -> None: ...
    def refresh(self) -> None: ...
    def say(self, text: str) -> None: ...


class PlainView:
    """One line per thing that happened."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def refresh(self) -> None:
        return None

    def say(self, text: str) -> None:
        elapsed = time.monotonic() - self._picture.started
        print(f"[{elapsed:6.1f}s] {text}", flush=True)


class LiveView:
    """The fleet, the writer and the story, redrawn a few times a second."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._live = Live(self._draw(), refresh_per_second=4, console=Console())

    def __enter__(self) -> "LiveView":
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.update(self._draw(), refresh=True)
        self._live.__exit__(None, None, None)

    def refresh(self) -> None:
        self._live.update(self._draw())

    def say(self, text: str) -> None:
        elapsed = time.monotonic() - self._picture.started
        self._picture.events.append(f"{elapsed:6.1f}s  {text}")
        self.refresh()

    def _draw(self) -> Group:
        return Group(self._story(), self._fleet(), self._writer(), self._events())

    def _story(self) -> Panel:
        picture = self._picture
        lines = Text()
        for number, step in enumerate(picture.steps):
            if number < picture.step:
                lines.append(f" ✔ {step}\n", style="green")
            elif number == picture.step:
                lines.append(f" ▶ {step}\n", style="bold cyan")
            else:
                lines.append(f"   {step}\n", style="dim")
        lines.right_crop(1)
        return Panel(lines, title="bookie-operator demo", border_style="cyan")

    def _fleet(self) -> Panel:
        table = Table(box=None, expand=True, pad_edge=False)
        for name in ("bookie", "state", "epoch", "last stop", "limbo", "unchecked", "disks"):
            table.add_column(name, style="bold" if name == "bookie" else "")
        most = max([row["marks"] for row in self._picture.bookies] + [1])
        for row in self._picture.bookies:
            style = STATE_STYLE.get(row["state"], "yellow")
            table.add_row(
                row["id"],
                Text(row["state"], style=style),
                str(row["epoch"]),
                row["last_stop"],
                _bar(row["limbo"], most),
                _bar(row["unchecked"], most),
                row["disks"],
            )
        conditions = "  ".join(f"{key}={value}" for key, value in self._picture.conditions.items())
        return Panel(table, title="fleet", subtitle=conditions, border_style="blue")

    def _writer(self) -> Panel:
        picture = self._picture
        peak = max(*picture.rates, 1.0)
        spark = "".join(SPARKS[round(rate / peak * (len(SPARKS) - 1))] for rate in picture.rates)
        text = Text(f"{spark}  ", style="magenta")
        text.append(
            f"{picture.acked_entries:,} entries, {picture.acked_bytes / 1e6:,.1f} MB acknowledged, "
            f"{picture.ledgers} ledgers, {picture.reopened} reopened after a fence",
            style="default",
        )
        return Panel(text, title="writers", border_style="magenta")

    def _events(self) -> Panel:
        return Panel("\n".join(self._picture.events) or " ", title="events", border_style="white")


def _bar(value: int, most: int) -> Any:
    if value == 0:
        return Text("0", style="green")
    grid = Table.grid(padding=(0, 1))
    grid.add_row(Text(str(value), style="bold yellow"), ProgressBar(most, value, width=10))
    return grid


def choose_view(picture: Picture) -> View:
    """The live view for a terminal, plain lines for a pipe or a log."""
    return LiveView(picture) if sys.stdout.isatty() else PlainView(picture)
