"""A log that no stranger can fill: of lines that are alike, so many in a stretch of time, no more.

Whatever a client does wrong is worth a line, and whoever wants to may do it a thousand times a
second. Alike are lines of one logger with one text before its values are put in.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

LINES_MAX: Final = 50
"""Of those alike, in a stretch."""
STRETCH_S: Final = 10.0
KINDS_MAX: Final = 1000
"""Further ones share one count: a text may hold what a client said."""


class LogRate(logging.Filter):
    """On a handler; critical lines pass, always."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._since = clock()
        """When this stretch began."""
        self._counts: dict[tuple[str, str], int] = {}
        """Lines of this stretch by kind; KINDS_MAX + 1 kinds at most."""
        self.held_back = 0
        """Lines that were left out since the process began."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.CRITICAL:
            return True
        now = self._clock()
        if now - self._since >= STRETCH_S:
            self._since, self._counts = now, {}
        kind = (record.name, str(record.msg))
        if kind not in self._counts and len(self._counts) >= KINDS_MAX:
            kind = ("", "")
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count > LINES_MAX:
            self.held_back += 1
            return False
        if count == LINES_MAX:
            record.msg = f"{record.msg} (more like this are left out for up to {STRETCH_S:g} s)"
        return True
