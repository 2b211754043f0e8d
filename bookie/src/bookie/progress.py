"""The progress of a job: format it as a line for people, and parse it back from that line. Pure.

A job prints such lines in its log (`repair.reports.progress_lines`), and the operator, which
watches the job from outside, sees only that text. So both directions are here, and each is the
inverse of the other. The parser accepts no other line of a log.
"""

import re
from dataclasses import dataclass
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_COUNT: Final = r"(?:0|[1-9][0-9]{0,18})"
_SIZE: Final = rf"{_COUNT} B|{_COUNT}\.[0-9] [KMGT]iB"
_REACHED: Final = re.compile(
    rf"(?P<ledgers>{_COUNT}) of (?P<total>{_COUNT}) ledgers, (?P<entries>{_COUNT}) entries, "
    rf"(?P<copied>{_SIZE}) copied, (?P<rate>{_SIZE})/s, (?P<pace>{_COUNT}\.[0-9]) ledgers/s"
    rf"(?:, (?P<left>{_COUNT}) s left)?"
)
_LOOKED_AT: Final = re.compile(
    rf"(?P<ledgers>{_COUNT})(?: of (?P<total>{_COUNT}))? ledgers looked at(?P<again> again)?"
    rf"(?:, (?P<left>{_COUNT}) s left)?"
)
_STAMP: Final = re.compile(r"[0-2][0-9]:[0-5][0-9]:[0-5][0-9] ")
"""The time that a `LineWriter` may print before a line."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Progress with a known total. Sizes and rates are rounded, as printed."""

    ledgers: int
    total: int
    entries: int
    copied: str
    rate: str
    pace: str
    seconds_left: int | None = None

    def line(self) -> str:
        left = "" if self.seconds_left is None else f", {self.seconds_left} s left"
        return (
            f"{self.ledgers} of {self.total} ledgers, {self.entries} entries, "
            f"{self.copied} copied, {self.rate}/s, {self.pace} ledgers/s{left}"
        )


@dataclass(frozen=True, slots=True)
class AuditStep:
    """Progress of an audit. `total`: None when nobody has counted the ledgers. `again`: the audit
    now looks a second time at the ledgers that were in doubt.
    """

    ledgers: int
    total: int | None = None
    again: bool = False
    seconds_left: int | None = None

    def line(self) -> str:
        total = "" if self.total is None else f" of {self.total}"
        left = "" if self.seconds_left is None else f", {self.seconds_left} s left"
        return f"{self.ledgers}{total} ledgers looked at{' again' if self.again else ''}{left}"


def progress_of(line: str) -> Reached | AuditStep | None:
    """Parse one line; return None unless it matches one of the two formats exactly."""
    if found := _LOOKED_AT.fullmatch(line):
        total, left = _number(found["total"]), _number(found["left"])
        return AuditStep(int(found["ledgers"]), total, found["again"] is not None, left)
    found = _REACHED.fullmatch(line)
    if found is None:
        return None
    return Reached(
        int(found["ledgers"]),
        int(found["total"]),
        int(found["entries"]),
        copied=found["copied"],
        rate=found["rate"],
        pace=found["pace"],
        seconds_left=_number(found["left"]),
    )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def last_progress(log: str) -> str:
    """Return the last progress line in this part of a log; empty when there is none."""
    for text in reversed(log.splitlines()):
        line = _STAMP.sub("", text, count=1) if _STAMP.match(text) else text
        if progress_of(line) is not None:
            return line
    return ""


def size_text(size: float) -> str:
    """Format a number of bytes with its unit: `12.1 MiB`."""
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
