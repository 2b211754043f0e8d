"""Named places between two steps that a crash can come between, for the simulation to use.

At each of them something is durable, or was decided, and what follows from it has not happened yet.
In production `passing` does nothing. `bookie.testing.simulation` observes it and lets the power go
there (FoundationDB calls such places buggify points).
"""

from collections.abc import Callable

_observers: list[Callable[[str], None]] = []
"""None but in a simulation."""

POINTS = (
    "boot: one directory of several is marked",
    "boot: marked, cookie and stamps not written",
    "boot: cookie written, not stamped",
    "boot: stamped, epoch not in the store",
    "boot: epoch in the store, no marker yet",
    "boot: markers written, the store does not know that it serves",
    "boot: the store knows that it serves, its markers may say clean",
    "stop: flushed, markers still dirty",
    "lease: generation raised, store not written",
    "checkpoint: log synced, index not committed",
    "checkpoint: indexes committed, journal not trimmed",
    "compaction: rows moved, old file not deleted",
    "collect: judged, entries not dropped",
    "add: stored, not answered",
    "fence: durable, not answered",
    "clear: copies synced, mark not cleared",
    "clear: boundary not lifted yet",
    "writer: metadata not written yet",
    "recovery: metadata not written yet",
    "recovery: metadata written, result not known",
    "repair: copied, not flushed",
    "repair: audited, marks not cleared",
)
"""All there are; `passing` takes no other."""


def passing(point: str) -> None:
    """This place is being passed; the process may end here."""
    if _observers:
        assert point in POINTS, point
        for observer in _observers:
            observer(point)
