"""Chooses the bookies of an ensemble, and replacements for failed members.

It chooses at random among the registered writable bookies that have the native wire (there may be
Apache's, too), so that load spreads, and in several racks if bookies name them. It takes a bookie
that failed a moment ago only if there is no other.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from bookie.errors import NotEnoughBookiesError
from bookie.ids import BookieId
from bookie.metadata.store import MetadataStore
from bookie.protocol.placement import Racks, choose, spread

QUARANTINE_S: Final = 30.0
COOL_S: Final = 2.0
"""A bookie that failed less than so many seconds ago is no replacement: asking it again at once
would only fail again."""


class Placement:
    """The placement for all ledgers of one client. `clock`: monotonic seconds."""

    def __init__(
        self, store: MetadataStore, *, rng: random.Random, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._rng = rng
        self._clock = clock
        self._failed_at: dict[BookieId, float] = {}
        """When each bookie last failed, by `clock`; for a while after that it is chosen last."""

    def note_failure(self, bookie_id: BookieId) -> None:
        """Note that a bookie has failed: others are preferred for a while."""
        self._failed_at = {b: at for b, at in self._failed_at.items() if self._is_quarantined(b)}
        self._failed_at[bookie_id] = self._clock()

    async def choose(self, count: int, *, write_quorum: int | None = None) -> tuple[BookieId, ...]:
        """Choose `count` different writable bookies, so that each write set spans racks;
        `write_quorum` None = `count`.

        NotEnoughBookiesError when there are fewer bookies.
        """
        candidates, racks = await self._candidates()
        if len(candidates) < count:
            raise NotEnoughBookiesError(
                f"an ensemble of {count} is asked for, {len(candidates)} writable bookies are "
                f"registered ({', '.join(sorted(candidates)) or 'none'}): start more"
            )
        calm = [bookie_id for bookie_id in candidates if not self._is_quarantined(bookie_id)]
        usable = calm if len(calm) >= count else candidates[:count]
        return spread(usable, size=count, write_quorum=write_quorum or count, racks=racks)

    async def replace(
        self,
        ensemble: Sequence[BookieId],
        positions: Sequence[int],
        *,
        write_quorum: int | None = None,
        refusing: AbstractSet[BookieId] = frozenset(),
    ) -> dict[int, BookieId]:
        """Choose replacements for some or all of these positions; empty when there are none.

        It takes no bookie that failed within `COOL_S`, and none of those that are `refusing` this
        ledger. If there is no other, a failed member that is registered as writable gets its own
        position back.
        """
        candidates, racks = await self._candidates()
        usable = [b for b in candidates if b not in refusing and not self._failed_within(b, COOL_S)]
        quorum = write_quorum or len(ensemble)
        chosen: dict[int, BookieId] = {}
        for position in positions:
            taken = self._choose(ensemble, position, usable, chosen, quorum=quorum, racks=racks)
            if taken is not None:
                chosen[position] = taken
            elif ensemble[position] in usable:
                chosen[position] = ensemble[position]
        return chosen

    def _choose(
        self,
        ensemble: Sequence[BookieId],
        position: int,
        usable: Sequence[BookieId],
        chosen: Mapping[int, BookieId],
        *,
        quorum: int,
        racks: Racks,
    ) -> BookieId | None:
        """Choose the bookie for one position: one outside of quarantine is preferred to one in a
        better rack.
        """
        members = [chosen.get(n, bookie_id) for n, bookie_id in enumerate(ensemble)]
        free = [b for b in usable if b not in ensemble and b not in chosen.values()]
        calm = [bookie_id for bookie_id in free if not self._is_quarantined(bookie_id)]
        return choose(members, position, calm or free, write_quorum=quorum, racks=racks)

    async def _candidates(self) -> tuple[list[BookieId], Racks]:
        """The writable bookies in random order, those in quarantine last; and the racks of all
        bookies.
        """
        infos = await self._store.bookies()
        racks = Racks({bookie_id: info.rack for bookie_id, info in infos.items()})
        found = sorted(bookie_id for bookie_id, info in infos.items() if info.takes_runs)
        self._rng.shuffle(found)
        return sorted(found, key=self._is_quarantined), racks

    def _is_quarantined(self, bookie_id: BookieId) -> bool:
        return self._failed_within(bookie_id, QUARANTINE_S)

    def _failed_within(self, bookie_id: BookieId, seconds: float) -> bool:
        failed_at = self._failed_at.get(bookie_id)
        return failed_at is not None and self._clock() - failed_at < seconds
