"""The racks that an entry's copies are in, and the choice of bookies that keeps them apart: pure.

BookKeeper's rack-aware rule: every write set of an ensemble spans at least
`minNumRacksPerWriteQuorum` racks, or all there are. Because of striping each write set is judged,
never the ensemble as a whole. A bookie whose rack is unknown counts as in a rack of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from bookie.ids import BookieId

DEFAULT_RACK: Final = "/default-rack"
"""The rack of a registered bookie that names none."""
MIN_RACKS: Final = 2
"""BookKeeper's default of `minNumRacksPerWriteQuorum`."""
SOFT_RACKS: Final = 2
"""The soft rule's minimum: with fewer, one rack holds all copies of an entry."""


class Adherence(IntEnum):
    """How well an ensemble keeps to the rule, in Apache's words and numbers."""

    FAIL = 1
    """Some write set lies in one rack, though there are more racks."""
    MEETS_SOFT = 3
    """No write set lies in one rack, but some write set spans fewer racks than the rule asks
    for."""
    MEETS_STRICT = 5


@dataclass(frozen=True, slots=True)
class Racks:
    """Where bookies are, and how many racks a write set has to span."""

    of: Mapping[BookieId, str] = field(default_factory=dict)
    """Network location (`/row-1/rack-2`) by bookie; a bookie that is not in it may be anywhere."""
    min_racks: int = MIN_RACKS
    """Racks that a write set has to span, >= 1; if fewer racks are known, all of them."""

    @property
    def count(self) -> int:
        """How many racks are known."""
        return len(set(self.of.values()))

    def needed(self, write_quorum: int) -> tuple[int, int]:
        """How many racks a write set has to span: by the strict rule, and by the soft one."""
        strict = min(write_quorum, self.min_racks, self.count)
        return strict, min(strict, SOFT_RACKS)

    def place(self, bookie_id: BookieId) -> str:
        """The bookie's rack; a rack of its own when the bookie's rack is unknown."""
        return self.of.get(bookie_id, f"?{bookie_id}")


NO_RACKS: Final = Racks()
"""No rack is known: no entry is misplaced, and no bookie is a better choice than another."""


def write_set_spans(
    ensemble: Sequence[BookieId], *, write_quorum: int, racks: Racks
) -> tuple[int, ...]:
    """How many racks each write set spans, by the ensemble position that it begins at."""
    places = [racks.place(bookie_id) for bookie_id in ensemble]
    size = len(places)
    return tuple(
        len({places[(start + step) % size] for step in range(write_quorum)})
        for start in range(size)
    )


def adherence(ensemble: Sequence[BookieId], *, write_quorum: int, racks: Racks) -> Adherence:
    """How well this ensemble keeps to the rule; its worst write set counts."""
    strict, soft = racks.needed(write_quorum)
    spans = min(write_set_spans(ensemble, write_quorum=write_quorum, racks=racks))
    if spans < soft:
        return Adherence.FAIL
    return Adherence.MEETS_SOFT if spans < strict else Adherence.MEETS_STRICT


def choose(
    ensemble: Sequence[BookieId],
    position: int,
    candidates: Iterable[BookieId],
    *,
    write_quorum: int,
    racks: Racks,
) -> BookieId | None:
    """Choose the bookie for this position; None when every candidate is in the ensemble already.

    The first candidate among those that keep to the rule best and then span the most racks.
    """
    strict, _soft = racks.needed(write_quorum)

    def merit(bookie_id: BookieId) -> tuple[int, int]:
        changed = [*ensemble[:position], bookie_id, *ensemble[position + 1 :]]
        spans = write_set_spans(changed, write_quorum=write_quorum, racks=racks)
        return min(min(spans), strict), sum(spans)

    outside = [bookie_id for bookie_id in candidates if bookie_id not in ensemble]
    return max(outside, key=merit, default=None)


def spread(
    candidates: Sequence[BookieId], *, size: int, write_quorum: int, racks: Racks
) -> tuple[BookieId, ...]:
    """An ensemble of the first `size` candidates, or of others where that keeps to the rule better.

    Greedy: for each position it takes the first candidate whose rack is not among those of the
    chosen bookies that share a write set with the position.
    """
    assert size <= len(candidates)
    chosen: list[BookieId] = []
    left = list(candidates)
    while len(chosen) < size:
        beside = _beside(chosen, size=size, write_quorum=write_quorum)
        places = {racks.place(bookie_id) for bookie_id in beside}
        fresh = (b for b in left if racks.place(b) not in places)
        chosen.append(taken := next(fresh, left[0]))
        left.remove(taken)
    return tuple(chosen)


def _beside(chosen: Sequence[BookieId], *, size: int, write_quorum: int) -> list[BookieId]:
    """The bookies chosen so far that share a write set with the next position."""
    reach, at = write_quorum - 1, len(chosen)
    return [b for n, b in enumerate(chosen) if at - n <= reach or n + size - at <= reach]
