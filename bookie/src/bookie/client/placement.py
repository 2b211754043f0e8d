"""Chooses the bookies of an ensemble, and replacements for members that failed.

Random among the registered writable ones that speak our wire (Apache's may be there, too), so that
load spreads; a bookie that failed a moment ago is taken only when nothing else is left.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

from bookie.metadata.store import MetadataStore
from bookie.protocol.errors import NotEnoughBookiesError
from bookie.protocol.ids import BookieId

QUARANTINE_S: Final = 30.0
COOL_S: Final = 2.0
"""A bookie that failed so recently is no replacement: asking it again at once would only spin."""


class Placement:
    """Placement for all ledgers of one client. `clock` in seconds, rising."""

    def __init__(
        self, store: MetadataStore, *, rng: random.Random, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._rng = rng
        self._clock = clock
        self._failed_at: dict[BookieId, float] = {}

    def note_failure(self, bookie_id: BookieId) -> None:
        """Prefer others for a while."""
        self._failed_at = {b: at for b, at in self._failed_at.items() if self._is_quarantined(b)}
        self._failed_at[bookie_id] = self._clock()

    async def choose(self, count: int) -> tuple[BookieId, ...]:
        """`count` different writable bookies; NotEnoughBookiesError when there are fewer."""
        candidates = await self._candidates()
        if len(candidates) < count:
            raise NotEnoughBookiesError(
                f"an ensemble of {count} is asked for, {len(candidates)} writable bookies are "
                f"registered ({', '.join(sorted(candidates)) or 'none'}): start more"
            )
        return tuple(candidates[:count])

    async def replace(
        self, ensemble: Sequence[BookieId], positions: Sequence[int]
    ) -> dict[int, BookieId]:
        """Replacements for some or all of these positions; empty when none can be had.

        None that failed within `COOL_S`. Where nothing else is left, a bookie that is still, or
        again, registered as writable gets its own position back.
        """
        usable = [b for b in await self._candidates() if not self._failed_within(b, COOL_S)]
        others = [bookie_id for bookie_id in usable if bookie_id not in ensemble]
        chosen = dict(zip(positions, others, strict=False))
        for position in positions:
            if position not in chosen and ensemble[position] in usable:
                chosen[position] = ensemble[position]
        return chosen

    async def _candidates(self) -> list[BookieId]:
        """Writable bookies in random order, those in quarantine last."""
        infos = await self._store.bookies()
        found = sorted(bookie_id for bookie_id, info in infos.items() if info.takes_runs)
        self._rng.shuffle(found)
        return sorted(found, key=self._is_quarantined)

    def _is_quarantined(self, bookie_id: BookieId) -> bool:
        return self._failed_within(bookie_id, QUARANTINE_S)

    def _failed_within(self, bookie_id: BookieId, seconds: float) -> bool:
        failed_at = self._failed_at.get(bookie_id)
        return failed_at is not None and self._clock() - failed_at < seconds
