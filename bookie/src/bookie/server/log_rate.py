"""A limit for log lines of one kind per stretch of time, so that no stranger can fill the log.

Every mistake of a client is worth a line, but a hostile client may make it a thousand times a
second. Lines are of one kind if they come from one logger with one text before its values are put
in.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

LINES_MAX: Final = 50
"""How many lines of one kind are logged in a stretch."""
STRETCH_S: Final = 10.0
KINDS_MAX: Final = 1000
"""How many kinds are counted apart; further ones share one count, as a text may contain a client's
words."""


class LogRate(logging.Filter):
    """A filter for a log handler. Critical lines always pass."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._since = clock()
        """When the present stretch began."""
        self._counts: dict[tuple[str, str], int] = {}
        """Counts of lines in this stretch by kind; KINDS_MAX + 1 kinds at most."""
        self.held_back = 0
        """How many lines were left out since the process began."""

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
