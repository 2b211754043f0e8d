"""Named points between two steps of the code, at which the simulation can crash a process.

At each point one step is durable or decided, and the step that follows from it has not happened
yet. In production `passing` does nothing. `bookie.testing.simulation` observes the points and cuts
the power there (FoundationDB calls such places buggify points).
"""

from collections.abc import Callable

_observers: list[Callable[[str], None]] = []
"""Functions that `passing` calls; empty except in a simulation."""

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
"""All the points; `passing` accepts no other name."""


def passing(point: str) -> None:
    """Report to the simulation that the code passes this point; the simulation may crash here."""
    if _observers:
        assert point in POINTS, point
        for observer in _observers:
            observer(point)
