"""Figures of many simulations: of one run, and the committed total that grows over time.

The total counts different seeds, core by core: a seed that ran twice on one core is one schedule,
on another core it is another one. A seed that failed stays named with the core on which it did.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

from bookie.points import POINTS
from bookie.testing.simulation.world import Verdict

AIM: Final = 1_000_000
"""Different schedules that the total is on the way to."""


@dataclass(slots=True)
class Totals:
    """Sums over verdicts; `failed`: seed -> what was violated."""

    seeds: int = 0
    simulated_s: float = 0.0
    acked: int = 0
    read: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    points: dict[str, int] = field(default_factory=dict)
    failed: dict[int, tuple[str, ...]] = field(default_factory=dict)
    ran: list[int] = field(default_factory=list)
    """Every seed, in the order of the verdicts."""

    def add(self, verdict: Verdict) -> None:
        self.seeds += 1
        self.ran.append(verdict.plan.seed)
        self.simulated_s += verdict.simulated_s
        self.acked += verdict.acked
        self.read += verdict.read
        for kind, times in verdict.faults.items():
            self.faults[kind] = self.faults.get(kind, 0) + times
        for point, times in verdict.points.items():
            self.points[point] = self.points.get(point, 0) + times
        if not verdict.is_right:
            self.failed[verdict.plan.seed] = verdict.violations

    def json(self) -> dict[str, Any]:
        return {
            "seeds": self.seeds,
            "simulated_hours": round(self.simulated_s / 3600, 3),
            "entries_acknowledged": self.acked,
            "entries_read": self.read,
            "faults": dict(sorted(self.faults.items())),
            "crashes_at_points": {point: self.points.get(point, 0) for point in POINTS},
            "failed": {str(seed): list(found) for seed, found in sorted(self.failed.items())},
        }


class Total:
    """The file of the committed total; `source`: what `figures.source` says of the code."""

    def __init__(self, path: Path, source: dict[str, str]) -> None:
        self._path = path
        self._source = source
        self._cores: list[dict[str, Any]] = []
        if path.exists():
            self._cores = json.loads(path.read_text(encoding="utf-8"))["cores"]

    @property
    def core(self) -> str:
        """The digest of the core that seeds run on now."""
        return self._source["core"]

    def ran(self) -> set[int]:
        """Seeds that ran on this core."""
        mine = [one for one in self._cores if one["core"] == self._source["core"]]
        return seeds_of(mine[0]["seeds"]) if mine else set()

    def append(self, totals: Totals) -> None:
        """Adds one run and writes the file. A seed counts once for a core."""
        revision, core = self._source["revision"], self._source["core"]
        mine = next((one for one in self._cores if one["core"] == core), None)
        if mine is None:
            mine = {"core": core, "release": self._source["release"], "revisions": [], "seeds": [],
                    "simulated_hours": 0.0, "faults": 0, "failed": {}}  # fmt: skip
            self._cores.append(mine)
        if revision not in mine["revisions"]:
            mine["revisions"].append(revision)
        mine["seeds"] = ranges_of(seeds_of(mine["seeds"]) | set(totals.ran))
        mine["simulated_hours"] = round(mine["simulated_hours"] + totals.simulated_s / 3600, 3)
        mine["faults"] += sum(totals.faults.values())
        mine["failed"] |= {str(seed): found[0] for seed, found in sorted(totals.failed.items())}
        self._write()

    def _write(self) -> None:
        every = set().union(*(seeds_of(one["seeds"]) for one in self._cores))
        content = {
            "aim": AIM,
            "distinct_seeds": len(every),
            "schedules": sum(len(seeds_of(one["seeds"])) for one in self._cores),
            "simulated_hours": round(sum(one["simulated_hours"] for one in self._cores), 3),
            "cores": self._cores,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def seeds_of(ranges: Iterable[Iterable[int]]) -> set[int]:
    """The seeds of ranges, each given by its first and its last."""
    return {seed for first, last in ranges for seed in range(first, last + 1)}


def ranges_of(seeds: Iterable[int]) -> list[list[int]]:
    """The fewest ranges that hold these seeds and no other."""
    ranges: list[list[int]] = []
    for seed in sorted(seeds):
        if ranges and ranges[-1][1] == seed - 1:
            ranges[-1][1] = seed
        else:
            ranges.append([seed, seed])
    return ranges


def next_seeds(ran: set[int], *, firsts: Iterable[int], wanted: int) -> Iterator[int]:
    """The first `wanted` seeds that did not run yet, from each of `firsts` on in turn."""
    ways = [(seed for seed in count(first) if seed not in ran) for first in firsts]
    for turn in range(wanted):
        yield next(ways[turn % len(ways)])
