"""How fast bulk work may go while clients append. Only rules: no timers, no I/O.

Only the bookie sees both its clients and the work of repairs, recoveries and its own compaction.
While normal adds arrive, each kind of bulk work has its rate: the code that does it asks after each
piece how long to wait, and waits. Without normal adds it goes as fast as it can.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

BUSY_S: Final = 1.0
"""The bookie counts as busy for so many seconds after a normal add."""
BURST_S: Final = 0.05
"""Bulk work that was idle may be ahead of its rate by so many seconds: so the short recovery of one
ledger, which an application waits for, is not delayed."""
ANSWER_DELAY_S_MAX: Final = 2.0
"""The longest delay of an answer, whatever the rate: clients treat silence as an error."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class BusyRates:
    """Bytes per second of bulk work while clients append; `inf` = no limit."""

    recovery: float = inf
    compaction: float = inf


class Pace:
    """The rate limit for one kind of bulk work. The caller passes in the time."""

    def __init__(self, bytes_per_second: float, *, delay_s_max: float = inf) -> None:
        assert bytes_per_second > 0
        self._bytes_per_second = bytes_per_second
        self._delay_s_max = delay_s_max
        self._paid_at = -inf
        """When all bytes so far will have had their time at this rate; may be in the future."""

    def delay_s(self, size: int, *, now: float, is_busy: bool) -> float:
        """How many seconds to wait after these bytes."""
        if not is_busy:
            self._paid_at = now
            return 0.0
        paid_at = max(self._paid_at, now - BURST_S) + size / self._bytes_per_second
        self._paid_at = min(paid_at, now + self._delay_s_max)
        return max(self._paid_at - now, 0.0)


class Pacing:
    """Slows a bookie's compaction and recovery adds while clients add entries."""

    def __init__(self, rates: BusyRates, *, clock: Clock) -> None:
        self._clock = clock
        self._added_at = -inf
        """When a normal add was last taken, by the clock."""
        self._recovery = Pace(rates.recovery, delay_s_max=ANSWER_DELAY_S_MAX)
        self._compaction = Pace(rates.compaction)

    def normal_add(self) -> None:
        """Note that a normal add was taken."""
        self._added_at = self._clock()

    def recovery_delay_s(self, size: int) -> float:
        """By how many seconds to delay the answer to a recovery add of so many bytes."""
        return self._delay_s(self._recovery, size)

    def compaction_delay_s(self, size: int) -> float:
        """How many seconds compaction pauses after it has copied so many bytes."""
        return self._delay_s(self._compaction, size)

    def _delay_s(self, pace: Pace, size: int) -> float:
        now = self._clock()
        return pace.delay_s(size, now=now, is_busy=now - self._added_at < BUSY_S)
