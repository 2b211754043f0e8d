"""How far an audit is: ledgers looked at, of how many, and the time left, said while it looks.

Whoever looks, this process or Spark tasks, says how many ledgers it has behind it; a line is said
now and then. How many there are in all is known where they were counted to choose an engine.
"""

import time
from collections.abc import Callable

from bookie.progress import AuditStep
from bookie.repair.reports.progress_lines import LIVE_EVERY_S, Clock, LinePace, ProgressLine


class AuditProgress:
    """One pass over ledgers. `total`: how many, None = not counted. `again`: the second look."""

    def __init__(
        self,
        say: Callable[[str], None],
        total: int | None = None,
        *,
        again: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self.total = total
        self._say = say
        self._again = again
        self._clock = clock
        self._began_at = clock()
        """When the work began, by `clock`; the time left is computed from it."""
        self._pace = LinePace(LIVE_EVERY_S)
        """Decides when the next line of progress is due."""

    def reached(self, ledgers: int) -> None:
        """See `Looked`."""
        now, is_last = self._clock(), self.total is not None and ledgers >= self.total
        if not ledgers:
            self._began_at = now
        if self._pace.is_due(now, is_last=is_last):
            self._say(ProgressLine(self._line(ledgers, now), is_last=is_last))

    def _line(self, ledgers: int, now: float) -> str:
        # Ledgers that were made meanwhile come on top of those that were counted.
        total = None if self.total is None else max(self.total, ledgers)
        left = None
        if total is not None and ledgers:
            left = round((total - ledgers) * (now - self._began_at) / ledgers)
        return AuditStep(ledgers, total, self._again, left).line()
