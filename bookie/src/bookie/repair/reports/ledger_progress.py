"""How far the work is: counts, rate and time left, said while it goes on and kept in its result.

An engine hands each ledger that is done to a `LedgerProgress`, which says a line now and then
(`bookie.progress` has its words).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bookie.progress import Reached, size_text
from bookie.repair.reports.progress_lines import LIVE_EVERY_S, Clock, LinePace, ProgressLine


class Counted(Protocol):
    """What became of one ledger, as far as it counts here."""

    @property
    def entries_copied(self) -> int: ...
    @property
    def entries_recovered(self) -> int: ...
    @property
    def bytes_copied(self) -> int: ...


@dataclass(slots=True)
class Progress:
    """What was done since `began_at`, of `total` ledgers; entries and bytes are those written."""

    total: int
    began_at: float
    ledgers: int = 0
    """Ledgers that are done."""
    entries: int = 0
    """Entries written back or copied so far."""
    bytes_copied: int = 0
    """Bytes of these entries."""

    def add(self, outcomes: Sequence[Counted]) -> None:
        self.ledgers += len(outcomes)
        self.entries += sum(o.entries_copied + o.entries_recovered for o in outcomes)
        self.bytes_copied += sum(outcome.bytes_copied for outcome in outcomes)

    def seconds_left(self, now: float) -> float | None:
        """Estimate of the seconds left; None as long as no ledger is done."""
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


class LedgerProgress:
    """Counts what is done and says so, at most every LIVE_EVERY_S and when all is."""

    def __init__(
        self,
        total: int,
        say: Callable[[str], None],
        *,
        clock: Clock = time.monotonic,
    ) -> None:
        self.progress = Progress(total, clock())
        self._say = say
        self._clock = clock
        self._pace = LinePace(LIVE_EVERY_S)
        """Decides when the next line of progress is due."""

    @property
    def left(self) -> int:
        """Ledgers that are not done."""
        return self.progress.total - self.progress.ledgers

    def expect(self, ledgers: int) -> None:
        """Add ledgers to the total that were not known at first; fewer than 0 are not done after
        all."""
        self.progress.total += ledgers

    def count(self, outcomes: Sequence[Counted]) -> None:
        """Add ledgers that are done, each once, in any order; in one thread at a time."""
        self.progress.add(outcomes)
        now, is_last = self._clock(), self.progress.ledgers >= self.progress.total
        if self._pace.is_due(now, is_last=is_last):
            self._say(ProgressLine(self.progress.line(now), is_last=is_last))

    def json(self) -> dict[str, Any]:
        return self.progress.json(self._clock())
