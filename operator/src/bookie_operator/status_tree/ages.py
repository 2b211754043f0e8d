"""Spans as kubectl writes them, `12s`, `3m5s`, `47m`, `5h10m`, `3d`; and counted things."""

import re
from datetime import datetime, timedelta
from typing import Final

import click

MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 86400
_SPAN: Final = re.compile(r"^([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|)$")
_UNITS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def span(length: timedelta | float) -> str:
    """Precise while it is short, coarse once seconds do not matter."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    whole = max(0, int(seconds))
    if whole < 2 * MINUTE:
        return f"{whole}s"
    if whole < 10 * MINUTE:
        return _two(whole, MINUTE, "m", 1, "s")
    if whole < 3 * HOUR:
        return f"{whole // MINUTE}m"
    if whole < 8 * HOUR:
        return _two(whole, HOUR, "h", MINUTE, "m")
    if whole < 2 * DAY:
        return f"{whole // HOUR}h"
    return f"{whole // DAY}d"


def ago(moment: datetime, now: datetime) -> str:
    return f"{span(now - moment)} ago"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _two(whole: int, large: int, name: str, small: int, small_name: str) -> str:
    rest = whole % large // small
    return f"{whole // large}{name}" + (f"{rest}{small_name}" if rest else "")


def seconds_of(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A click callback: a time limit such as `90`, `90s`, `5m` or `1h`, in seconds."""
    if value is None:
        return None
    found = _SPAN.match(value)
    if found is None:
        raise click.BadParameter(f"found {value!r}, expected a time such as 90s, 5m or 1h")
    return float(found[1]) * _UNITS[found[2]]
