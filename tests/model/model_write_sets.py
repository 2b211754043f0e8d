"""Which places of an ensemble store an entry: `protocol.quorum` for the model.

Without striping every member stores every entry, and all have the same place, so that a model of
before has the same states.
"""

from collections.abc import Collection

from model_rules import Bounds


class WriteSets:
    """The write sets of every ensemble of these bounds."""

    def __init__(self, bounds: Bounds) -> None:
        self._size = bounds.ensemble_size
        self._quorum = bounds.write_quorum
        self._entries = range(bounds.entries)
        self.are_striped = bounds.is_striped
        self.places = range(self._size) if bounds.is_striped else (0,) * self._size
        """The place of each member of the first ensemble."""

    def has(self, place: int, entry: int) -> bool:
        """Whether who is at this place stores the entry."""
        return not self.are_striped or (place - entry) % self._size < self._quorum

    def share(self, place: int) -> int:
        """All entries of this place; the tail bit says that the last fragment names it."""
        tail = 1 << len(self._entries)
        return tail | sum(1 << entry for entry in self._entries if self.has(place, entry))

    def cover(self, answered: Collection[int], needed: int) -> bool:
        """Whether so many members of every write set are among these places (R2)."""
        firsts = range(self._size) if self.are_striped else (0,)
        return all(sum(self.has(p, first) for p in answered) >= needed for first in firsts)
