"""Counts durations by length, as a Prometheus histogram needs them."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

BOUNDS_S: Final = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
)  # fmt: skip
"""Upper bounds of the buckets, in seconds: a fast SSD syncs within the first, a failing disk within
the last."""


class Durations:
    """Counts durations. One thread counts, any thread may read, and may miss the newest one."""

    __slots__ = ("_counts", "sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        """How many durations are in each bucket: above the previous bound, at most this one. The
        last bucket has those above all bounds."""
        self.sum_s = 0.0
        """The sum of all durations, in seconds."""

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def buckets(self) -> Iterator[tuple[str, float]]:
        """Each bound with the count of durations up to it; `+Inf` has the count of all."""
        total = 0
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), self._counts, strict=True):
            total += count
            yield bound, float(total)
