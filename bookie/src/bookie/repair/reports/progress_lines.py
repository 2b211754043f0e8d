"""Lines for people about work that goes on: a `Say` is called with each of them.

`LineWriter` writes them to a terminal or a log, `ProgressFile` keeps the last one about progress.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, TextIO

Clock = Callable[[], float]


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


class LinePace:
    """Decides which lines of progress are due: one every `every_s` seconds, and always the last."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._said_at = float("-inf")
        """When the last line was due, by the caller's clock; -inf: none was."""

    def is_due(self, now: float, *, is_last: bool) -> bool:
        """Whether a line is due now; a line that is due counts as printed."""
        is_due = is_last or now - self._said_at >= self._every_s
        if is_due:
            self._said_at = now
        return is_due


class ProgressFile:
    """Says a line on, and keeps the last line of progress in a file, whole at any time."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path = path
        self._say = say

    def __call__(self, line: str) -> None:
        self._say(line)
        if isinstance(line, ProgressLine):
            with suppress(OSError):  # the file grows old, and the work goes on
                fresh = self._path.with_name(f".{self._path.name}.new")
                fresh.write_text(f"{line}\n", encoding="utf-8")
                fresh.replace(self._path)


class LineWriter:
    """Writes lines for people. Silent unless the stream is a terminal, or `always`."""

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
        """True if nothing is printed: the stream is no terminal and lines were not asked for."""
        self._stamped = stamped
        self._clock = clock
        self._is_live = False
        """True if the last line has no newline yet, and the next line overwrites it."""
        self._pace = LinePace(0.0 if self._is_terminal else PLAIN_EVERY_S)
        """Decides when the next line of progress is due."""

    def __call__(self, line: str) -> None:
        if self._is_silent:
            return
        is_progress = isinstance(line, ProgressLine)
        is_last = isinstance(line, ProgressLine) and line.is_last
        if is_progress and not self._pace.is_due(self._clock(), is_last=is_last):
            return
        text = f"{datetime.now():%H:%M:%S} {line}" if self._stamped else str(line)
        before = "\r\x1b[K" if self._is_live else ""
        self._is_live = self._is_terminal and is_progress and not is_last
        self._stream.write(f"{before}{text}" + ("" if self._is_live else "\n"))
        self._stream.flush()


Say = Callable[[str], None]
"""Called with one line for each step; for people, on stderr."""


def say_nothing(_line: str) -> None:
    """Print nothing."""
