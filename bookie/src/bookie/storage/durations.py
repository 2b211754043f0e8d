"""How long something took, in counts by length: what a histogram of Prometheus is made of."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

BOUNDS_S: Final = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
)  # fmt: skip
"""A quick SSD syncs in the first of them, a disk that fails in the last."""


class Durations:
    """Counts durations; one thread does so, any may read: a figure may then be one behind."""

    __slots__ = ("_counts", "sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        """How many took as long as each bound at most, and longer than the one before it; behind
        them those that took longer than all."""
        self.sum_s = 0.0
        """Of all."""

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def buckets(self) -> Iterator[tuple[str, float]]:
        """Each bound, and how many took no longer; `+Inf` is how many there were."""
        total = 0
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), self._counts, strict=True):
            total += count
            yield bound, float(total)
