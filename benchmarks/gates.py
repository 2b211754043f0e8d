"""`make bench-gate`: does one run of the gated rows hold the ratios of `gates.toml`?

A gate looks at one figure of one row, or at how it compares with another row of the same run, and
judges the median of the repeats.
"""

import statistics
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.rows import Row

GATES: Final = Path(__file__).with_name("gates.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """See gates.toml. Exactly one of `at_least` and `at_most` is given."""

    row: str
    figure: str
    over: str = ""
    at_least: float | None = None
    at_most: float | None = None
    goal: float | None = None

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"the gate of {self.row} needs one of at_least and at_most")

    @property
    def name(self) -> str:
        return f"{self.row}: {self.figure}" + (f" over that of {self.over}" if self.over else "")

    def values(self, rows: Sequence[Row]) -> list[float]:
        """Of all repeats; KeyError when the run has no such row or figure."""
        found = row_named(rows, self.row).values(self.figure)
        if not self.over:
            return found
        others = row_named(rows, self.over).values(self.figure)
        return [mine / other for mine, other in zip(found, others, strict=True)]

    def holds(self, value: float) -> bool:
        if self.at_least is not None:
            return value >= self.at_least
        return self.at_most is not None and value <= self.at_most


@dataclass(frozen=True, slots=True)
class Judged:
    """A gate and what the run had to show for it."""

    gate: Gate
    values: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def is_held(self) -> bool:
        return self.gate.holds(self.median)

    @property
    def line(self) -> str:
        gate, low, high = self.gate, min(self.values), max(self.values)
        bound = f">= {gate.at_least}" if gate.at_least is not None else f"<= {gate.at_most}"
        word = "held  " if self.is_held else "BROKEN"
        goal = f", goal {gate.goal}" if gate.goal is not None else ""
        return f"{word} {gate.name}: {self.median:.2f} ({low:.2f}-{high:.2f}), gate {bound}{goal}"


def read_gates(path: Path = GATES) -> list[Gate]:
    """TypeError names a key that no gate has."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Gate(**gate) for gate in found["gate"]]


def gates_of(gates: Sequence[Gate], rows: Sequence[Row]) -> list[Gate]:
    """Those of the benchmarks that these rows are of."""
    run = {_benchmark(row.name) for row in rows}
    return [gate for gate in gates if _benchmark(gate.row) in run]


def _benchmark(row: str) -> str:
    return row.partition(":")[0]


def row_named(rows: Sequence[Row], name: str) -> Row:
    """KeyError says which rows there are."""
    for row in rows:
        if row.name == name:
            return row
    raise KeyError(f"no row {name!r} among {', '.join(repr(row.name) for row in rows)}")


def judge(rows: Sequence[Row], gates: Sequence[Gate]) -> list[Judged]:
    """Every gate, in order."""
    return [Judged(gate, gate.values(rows)) for gate in gates]
