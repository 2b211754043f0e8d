"""How fast bulk work may go while clients append: rules, with neither timers nor I/O.

Only a bookie sees both its clients and what a repair, a recovery or its own compaction brings. As
long as normal adds come, each kind of bulk work is held to its rate: whoever does it asks after
each piece how long to wait, and waits. Without normal adds it goes as fast as it can.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

BUSY_S: Final = 1.0
"""So long after a normal add more of them are expected."""
BURST_S: Final = 0.05
"""Bulk work that rested may be ahead of its rate by what this time allows: the short recovery of
one ledger, which an application waits for, is not held up."""
ANSWER_DELAY_S_MAX: Final = 2.0
"""No answer waits longer for its turn, whatever the rate: clients count silence as an error."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class BusyRates:
    """Bytes per second of bulk work while clients append; `inf` = not held back."""

    recovery: float = inf
    compaction: float = inf


class Pace:
    """One kind of bulk work, held to its rate. Time is what the caller says it is."""

    def __init__(self, bytes_per_second: float, *, delay_s_max: float = inf) -> None:
        assert bytes_per_second > 0
        self._bytes_per_second = bytes_per_second
        self._delay_s_max = delay_s_max
        self._paid_at = -inf
        """When all bytes so far have had their time; may lie ahead."""

    def delay_s(self, size: int, *, now: float, is_busy: bool) -> float:
        """How long to wait after these bytes were dealt with."""
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
        """By the clock: when a client's add was taken last. Busy for BUSY_S after it."""
        self._recovery = Pace(rates.recovery, delay_s_max=ANSWER_DELAY_S_MAX)
        self._compaction = Pace(rates.compaction)

    def normal_add(self) -> None:
        """A client's add was taken."""
        self._added_at = self._clock()

    def recovery_delay_s(self, size: int) -> float:
        """How much later to answer a recovery add of so many bytes."""
        return self._delay_s(self._recovery, size)

    def compaction_delay_s(self, size: int) -> float:
        """How long compaction rests after it copied so many bytes."""
        return self._delay_s(self._compaction, size)

    def _delay_s(self, pace: Pace, size: int) -> float:
        now = self._clock()
        return pace.delay_s(size, now=now, is_busy=now - self._added_at < BUSY_S)
