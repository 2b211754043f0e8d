"""A queue of callbacks that wait until a sync has reached their point: one sync answers many."""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final, Generic, TypeVar

from bookie.errors import StorageError

Done = Callable[[StorageError | None], None]
"""The storage calls it once: with None when the add is as durable as promised, otherwise with the
reason why not (the outcome is then unknown)."""


class Taken(Enum):
    """The result of giving a run to the storage."""

    DONE = "done"
    """The run is as durable as the durability mode promises."""
    PENDING = "pending"
    """The storage will call the run's `Done` once: when it is durable, or when that has failed."""
    NO_ROOM = "no room"
    """The storage did not take the run."""


WAITING_MAX: Final = 65_536
"""Limit for callbacks that wait without room in the ring, about a hundred bytes each; the ring's
size bounds the others."""

Point = TypeVar("Point", int, tuple[int, int])


class AckQueue(Generic[Point]):
    """Callbacks in the order of rising points. Not thread-safe: callers hold the owner's lock.

    The ring whose sync it waits for bounds its length. A caller that adds a callback without room
    in the ring must check `is_full` before.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[Point, Done]] = deque()
        """Each callback with the point that must be on disk first; points never fall."""

    def add(self, point: Point, done: Done) -> None:
        assert not self._waiting or self._waiting[-1][0] <= point
        self._waiting.append((point, done))

    @property
    def is_full(self) -> bool:
        """True when WAITING_MAX callbacks wait: no further one may wait without room
        in the ring.
        """
        return len(self._waiting) >= WAITING_MAX

    def reached(self, point: Point) -> list[Done]:
        """Remove and return the callbacks that waited for `point` or less, in order."""
        waiting = self._waiting
        ready = []
        while waiting and waiting[0][0] <= point:
            ready.append(waiting.popleft()[1])
        return ready

    def take_all(self) -> list[Done]:
        ready = [done for _, done in self._waiting]
        self._waiting.clear()
        return ready

    def __bool__(self) -> bool:
        return bool(self._waiting)
