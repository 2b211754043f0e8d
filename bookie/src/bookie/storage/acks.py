"""Callbacks that wait until the disk has reached a point: one sync answers many of them."""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final, Generic, TypeVar

from bookie.errors import StorageError

Done = Callable[[StorageError | None], None]
"""Called once: None when durable as promised, otherwise why not (the outcome is then unknown)."""


class Taken(Enum):
    """What has become of a run that was handed to the storage."""

    DONE = "done"
    """It is as durable as the mode promises."""
    PENDING = "pending"
    """Its `Done` is called, once, when it is, or when that has failed."""
    NO_ROOM = "no room"
    """Nothing happened."""


WAITING_MAX: Final = 65_536
"""Calls for what takes no room in the ring, a hundred bytes each; the ring bounds the others."""

Point = TypeVar("Point", int, tuple[int, int])


class AckQueue(Generic[Point]):
    """In the order of rising points. Not thread-safe: the owner's lock is held.

    Bounded by what fits in the ring whose sync it waits for; who adds what takes no room there asks
    `is_full` before.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[Point, Done]] = deque()
        """Calls by the point that must be on the disk first; points never fall."""

    def add(self, point: Point, done: Done) -> None:
        assert not self._waiting or self._waiting[-1][0] <= point
        self._waiting.append((point, done))

    @property
    def is_full(self) -> bool:
        """As many wait as ever may without room in the ring."""
        return len(self._waiting) >= WAITING_MAX

    def reached(self, point: Point) -> list[Done]:
        """Takes out everything that waited for `point` or less, in order."""
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
