"""Which bookies take no adds of one ledger now, by their own word: they replace nobody in it.

A bookie that answers READ_ONLY for one ledger may take others; most such answers are of a bookie
that stopped uncleanly and whose check of this ledger has not ended. Asked again at once it would
only refuse again, at the price of an ensemble change. Never asked again, it could not replace the
next bookie that crashes, although it may be the only spare one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bookie.ids import BookieId

REFUSED_S: Final = 5.0
"""How long the first refusal counts. The marks of a crash stand for three to five seconds where a
repair begins at once, and a bookie refuses only after a part of them."""
REFUSED_MAX_S: Final = 60.0
"""How long the later ones count at most: each counts twice as long as the one before."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The last refusal of one bookie. `until`: by the clock; `counts_s`: how long it counts."""

    until: float
    counts_s: float


class Refusals:
    """The refusals of one ledger."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[BookieId, Refusal] = {}
        """The last refusal of each bookie that ever refused."""

    def note(self, bookie_id: BookieId) -> None:
        """The bookie refused an add. One that refused others with it says nothing new."""
        now, last = self._clock(), self._last.get(bookie_id)
        if last is not None and now < last.until:
            return
        is_known = last is not None and now < last.until + REFUSED_MAX_S
        counts_s = min(2 * last.counts_s, REFUSED_MAX_S) if last and is_known else REFUSED_S
        self._last[bookie_id] = Refusal(now + counts_s, counts_s)

    def now(self) -> frozenset[BookieId]:
        """The bookies whose last refusal still counts."""
        now = self._clock()
        return frozenset(b for b, last in self._last.items() if now < last.until)
