"""How far the work is: counts, rate and time left, told while it goes on and kept in its result.

Whoever does the work, this process or Spark tasks, hands each ledger that is done to a `Follower`;
it says a line now and then (`bookie.progress` has its words), and a `Teller` writes it: a live line
on a terminal, plain lines elsewhere.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

from bookie.progress import Reached, size_text
from bookie.repair.outcome import LedgerOutcome

Clock = Callable[[], float]


class Counted(Protocol):
    """What became of one ledger, as far as it counts here."""

    @property
    def entries_copied(self) -> int: ...
    @property
    def entries_recovered(self) -> int: ...
    @property
    def bytes_copied(self) -> int: ...


Done = Callable[[Sequence[LedgerOutcome]], None]
"""Told of ledgers that are done, in any order, each once; in one thread at a time."""

LIVE_EVERY_S: Final = 0.5
PLAIN_EVERY_S: Final = 5.0
"""Between two progress lines where none takes the place of the one before."""


class ProgressLine(str):
    """A line that the next one replaces, where that can be."""

    __slots__ = ("is_last",)

    def __new__(cls, text: str, *, is_last: bool = False) -> "ProgressLine":
        line = super().__new__(cls, text)
        line.is_last = is_last
        return line

    is_last: bool


@dataclass(slots=True)
class Progress:
    """What was done since `began_at`, of `total` ledgers; entries and bytes are those written."""

    total: int
    began_at: float
    ledgers: int = 0
    entries: int = 0
    bytes_copied: int = 0

    def add(self, outcomes: Sequence[Counted]) -> None:
        self.ledgers += len(outcomes)
        self.entries += sum(o.entries_copied + o.entries_recovered for o in outcomes)
        self.bytes_copied += sum(outcome.bytes_copied for outcome in outcomes)

    def seconds_left(self, now: float) -> float | None:
        """None as long as nothing is done."""
        if not self.ledgers:
            return None
        return (self.total - self.ledgers) * (now - self.began_at) / self.ledgers

    def reached(self, now: float) -> Reached:
        seconds = max(now - self.began_at, 1e-9)
        left = self.seconds_left(now)
        return Reached(
            self.ledgers,
            self.total,
            self.entries,
            copied=size_text(self.bytes_copied),
            rate=size_text(self.bytes_copied / seconds),
            pace=f"{self.ledgers / seconds:.1f}",
            seconds_left=None if left is None else round(left),
        )

    def line(self, now: float) -> str:
        return self.reached(now).line()

    def json(self, now: float) -> dict[str, Any]:
        left = self.seconds_left(now)
        return {
            "ledgers": self.ledgers,
            "of": self.total,
            "entries": self.entries,
            "bytes": self.bytes_copied,
            "seconds": round(now - self.began_at, 1),
            "seconds_left": None if left is None else round(left, 1),
        }


class Follower:
    """Counts what is done and says so, at most every LIVE_EVERY_S and when all is.

    `keep`: where outcomes go besides, such as a checkpoint.
    """

    def __init__(
        self,
        total: int,
        say: Callable[[str], None],
        *,
        keep: Done = lambda _outcomes: None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.progress = Progress(total, clock())
        self._say = say
        self._keep = keep
        self._clock = clock
        self._said_at = float("-inf")

    def done(self, outcomes: Sequence[LedgerOutcome]) -> None:
        """See `Done`."""
        self._keep(outcomes)
        self.count(outcomes)

    def expect(self, ledgers: int) -> None:
        """So many more than was known at first."""
        self.progress.total += ledgers

    def count(self, outcomes: Sequence[Counted]) -> None:
        """Of work that keeps its outcomes by itself."""
        self.progress.add(outcomes)
        now, is_last = self._clock(), self.progress.ledgers >= self.progress.total
        if is_last or now - self._said_at >= LIVE_EVERY_S:
            self._said_at = now
            self._say(ProgressLine(self.progress.line(now), is_last=is_last))

    def json(self) -> dict[str, Any]:
        return self.progress.json(self._clock())


class ProgressFile:
    """Says a line on, and keeps the last line of progress in a file, whole at any time."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path = path
        self._say = say

    def __call__(self, line: str) -> None:
        self._say(line)
        if isinstance(line, ProgressLine):
            with suppress(OSError):  # nobody learns how far it is, and the work goes on
                fresh = self._path.with_name(f".{self._path.name}.new")
                fresh.write_text(f"{line}\n", encoding="utf-8")
                fresh.replace(self._path)


class Teller:
    """Writes lines for people. Silent where nobody watches, unless `always`."""

    def __init__(
        self,
        stream: TextIO,
        *,
        always: bool = False,
        stamped: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._is_silent = not (always or self._is_terminal)
        self._stamped = stamped
        self._clock = clock
        self._is_live = False
        self._plain_at = float("-inf")

    def __call__(self, line: str) -> None:
        if self._is_silent:
            return
        is_progress = isinstance(line, ProgressLine)
        if is_progress and not self._is_terminal and not self._is_due(line):
            return
        text = f"{datetime.now():%H:%M:%S} {line}" if self._stamped else str(line)
        before = "\r\x1b[K" if self._is_live else ""
        self._is_live = self._is_terminal and isinstance(line, ProgressLine) and not line.is_last
        self._stream.write(f"{before}{text}" + ("" if self._is_live else "\n"))
        self._stream.flush()

    def _is_due(self, line: str) -> bool:
        now = self._clock()
        if now - self._plain_at < PLAIN_EVERY_S and not getattr(line, "is_last", False):
            return False
        self._plain_at = now
        return True
