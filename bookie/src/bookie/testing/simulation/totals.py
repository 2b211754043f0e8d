"""Figures of many simulations: of one run, and the committed total that grows over time."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bookie.points import POINTS
from bookie.testing.simulation.world import Verdict


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

    def add(self, verdict: Verdict) -> None:
        self.seeds += 1
        self.simulated_s += verdict.simulated_s
        self.acked += verdict.acked
        self.read += verdict.read
        for kind, count in verdict.faults.items():
            self.faults[kind] = self.faults.get(kind, 0) + count
        for point, count in verdict.points.items():
            self.points[point] = self.points.get(point, 0) + count
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


def append_total(path: Path, totals: Totals, *, first: int, revision: str) -> dict[str, Any]:
    """Adds one run to the committed total: which seeds, on which code, how many hours.

    The runs stay apart: seeds on other code are other schedules.
    """
    known: dict[str, Any] = {"runs": []}
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
    known["runs"].append(
        {
            "revision": revision,
            "first_seed": first,
            "seeds": totals.seeds,
            "simulated_hours": round(totals.simulated_s / 3600, 3),
            "faults": sum(totals.faults.values()),
            "failed": sorted(totals.failed),
        }
    )
    known["schedules"] = _sum(known["runs"], "seeds")
    known["simulated_hours"] = round(_sum(known["runs"], "simulated_hours"), 3)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    return known


def _sum(runs: Iterable[dict[str, Any]], name: str) -> Any:
    return sum(run[name] for run in runs)
