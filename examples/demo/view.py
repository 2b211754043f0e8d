"""What a person watches: a live picture in a terminal, plain lines elsewhere."""

import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from rich.console import Console, ConsoleDimensions, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

REFRESH_HZ = 4
EVENTS_KEPT = 40
EVENTS_MIN = 3
EVENTS_MAX = 8
RATES_KEPT = 160
RATE_SAMPLES = 8
"""The rate in figures is a mean: writers send batches, so single samples jump."""
SPARKS = " ▁▂▃▄▅▆▇█"
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
STATE_STYLE = {"Serving": "green", "Down": "bold red", "Booting": "yellow", "Refused": "bold red"}
WIDE = 100
"""From so many columns on, bars are long."""
CONDITIONS = {
    "Available": ("available", "not available", "True"),
    "LimboPresent": ("limbo present", "no limbo", "False"),
    "DurabilityVerified": ("durability verified", "durability not verified", "True"),
}
"""Name -> words when true, when false, and which of them is good."""
FLEET_LINES = 4
"""Of the fleet's panel, besides one per bookie: borders, heading, repair."""
BOOKIES_AWAITED = 4
"""Room is kept for them from the start."""
WRITER_LINES = 4
BORDERS = 2


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
    repair: str = ""
    rates: deque[float] = field(default_factory=lambda: deque([0.0] * RATES_KEPT, RATES_KEPT))
    events: deque[str] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))
    started: float = field(default_factory=time.monotonic)
    began: dict[int, float] = field(default_factory=dict)
    """When each step was first drawn."""


class View(Protocol):
    def __enter__(self) -> "View": ...
    def __exit__(self, *_: object) -> None: ...
    def say(self, text: str) -> None: ...


class PlainView:
    """One line per thing that happened."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def say(self, text: str) -> None:
        elapsed = time.monotonic() - self._picture.started
        print(f"[{elapsed:6.1f}s] {text}", flush=True)


class LiveView:
    """The story, the fleet and the writers, redrawn a few times a second by rich's own thread."""

    def __init__(self, picture: Picture, console: Console | None = None) -> None:
        self._picture = picture
        self._console = console or Console()
        self._live = Live(
            get_renderable=self._draw,
            refresh_per_second=REFRESH_HZ,
            console=self._console,
            vertical_overflow="crop",
        )

    def __enter__(self) -> "LiveView":
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def say(self, text: str) -> None:
        elapsed = time.monotonic() - self._picture.started
        self._picture.events.append(f"{elapsed:6.1f}s  {text}")

    def _draw(self) -> Group:
        return draw(self._picture, size=self._console.size, now=time.monotonic())


def draw(picture: Picture, *, size: ConsoleDimensions, now: float) -> Group:
    """The whole screen; on a low one the steps shrink to the current one, then the events."""
    picture.began.setdefault(picture.step, now)
    bookies = max(len(picture.bookies), BOOKIES_AWAITED)
    others = FLEET_LINES + bookies + WRITER_LINES + 2 * BORDERS
    is_low = size.height <= others + len(picture.steps) + EVENTS_MIN
    story = _current_step(picture, now) if is_low else _all_steps(picture, now)
    left = size.height - 1 - others - (1 if is_low else len(picture.steps))
    return Group(
        _framed(story, title=_title(picture, now), style="cyan"),
        _fleet(picture, is_wide=size.width >= WIDE),
        _framed(_writers(picture, columns=size.width - 4), title="writers", style="magenta"),
        _events(picture, lines=min(max(left, EVENTS_MIN), EVENTS_MAX)),
    )


def _framed(content: RenderableType, *, title: str, style: str) -> Panel:
    return Panel(content, title=title, border_style=style)


def _title(picture: Picture, now: float) -> str:
    minutes, seconds = divmod(int(now - picture.started), 60)
    return f"bookie-operator demo  {minutes}:{seconds:02}"


def _all_steps(picture: Picture, now: float) -> RenderableType:
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    for number, step in enumerate(picture.steps):
        if number < picture.step:
            grid.add_row(Text(f" ✔ {step}", "green"), Text(_took(picture, number, now), "dim"))
        elif number == picture.step:
            mark = SPINNER[int(now * REFRESH_HZ) % len(SPINNER)]
            grid.add_row(Text(f" {mark} {step}", "bold cyan"), _took(picture, number, now))
        else:
            grid.add_row(Text(f"   {step}", "dim"), "")
    return grid


def _current_step(picture: Picture, now: float) -> RenderableType:
    done, number = len(picture.steps), picture.step
    if number >= done:
        return Text(f" ✔ all {done} steps are done", "green")
    mark = SPINNER[int(now * REFRESH_HZ) % len(SPINNER)]
    text = f" {mark} {number + 1}/{done} {picture.steps[number]}"
    return Text(text, "bold cyan", no_wrap=True, overflow="ellipsis")


def _took(picture: Picture, step: int, now: float) -> str:
    """How long a step took, or takes so far; nothing for one too quick to have been drawn."""
    if step not in picture.began:
        return ""
    later = [moment for number, moment in picture.began.items() if number > step]
    return f"{min(later, default=now) - picture.began[step]:.0f} s "


def _fleet(picture: Picture, *, is_wide: bool) -> Panel:
    bar = 12 if is_wide else 5
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 1, 0, 0))
    # Of fixed width, so that nothing jumps when a bar appears.
    for name, width in (("bookie", 9), ("state", 9), ("epoch", 5), ("last boot", 15)):
        table.add_column(name, width=width, no_wrap=True, style="bold" if name == "bookie" else "")
    for name in ("limbo", "unchecked"):
        table.add_column(name, width=max(bar + 4, 9), no_wrap=True)
    table.add_column("disks at boot", ratio=1, no_wrap=True)
    most = max([max(row["limbo"], row["unchecked"]) for row in picture.bookies] + [1])
    for row in picture.bookies:
        table.add_row(
            row["id"],
            Text(row["state"], style=STATE_STYLE.get(row["state"], "yellow")),
            str(row["epoch"]),
            row["last_boot"],
            _bar(row["limbo"], most, width=bar),
            _bar(row["unchecked"], most, width=bar),
            row["disks"],
        )
    repair = Text(picture.repair or "no repair runs", "yellow" if picture.repair else "dim")
    repair.no_wrap, repair.overflow = True, "ellipsis"
    return Panel(
        Group(table, repair), title="fleet", subtitle=_conditions(picture), border_style="blue"
    )


def _conditions(picture: Picture) -> Text:
    """In words, each with a sign: a tick for what is as it should be."""
    text = Text()
    for name, (yes, no, good) in CONDITIONS.items():
        status = picture.conditions.get(name)
        if status is not None:
            sign, style = ("✔", "green") if status == good else ("●", "yellow")
            text.append("   " if text else "").append(f"{sign} ", style)
            text.append(yes if status == "True" else no if status == "False" else f"{yes}?")
    return text


def _writers(picture: Picture, *, columns: int) -> Text:
    rates = list(picture.rates)
    mean = sum(rates[-RATE_SAMPLES:]) / RATE_SAMPLES
    label = f"  {mean:6,.0f} entries/s"
    shown = rates[-max(columns - len(label), 1) :]
    peak = max(*shown, 1.0)
    spark = "".join(SPARKS[round(rate / peak * (len(SPARKS) - 1))] for rate in shown)
    text = Text(spark, style="magenta", no_wrap=True, overflow="ellipsis")
    text.append(label, "bold default")
    text.append(
        f"\n{picture.acked_entries:,} entries, {picture.acked_bytes / 1e6:,.1f} MB, "
        f"{picture.ledgers} ledgers acknowledged; {picture.reopened} reopened after a fence",
        style="default",
    )
    return text


def _events(picture: Picture, *, lines: int) -> Panel:
    shown = list(picture.events)[-lines:]
    text = Text("\n".join(shown + [""] * (lines - len(shown))), no_wrap=True, overflow="ellipsis")
    return Panel(text, title="events", border_style="white")


def _bar(value: int, most: int, *, width: int) -> RenderableType:
    if value == 0:
        return Text("  0", style="green")
    grid = Table.grid(padding=(0, 1))
    grid.add_row(Text(f"{value:3}", style="bold yellow"), ProgressBar(most, value, width=width))
    return grid


def choose_view(picture: Picture) -> View:
    """The live view for a terminal, plain lines for a pipe or a log."""
    return LiveView(picture) if sys.stdout.isatty() else PlainView(picture)
