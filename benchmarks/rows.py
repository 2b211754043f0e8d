"""What every benchmark gives: rows, each with what its repeats measured, in turn with its probe.

`benchmarks.__main__` asks each `bench_*` module for its rows; `benchmarks.report` makes the table
of their medians and spreads, `benchmarks.gates` compares figures of them with the committed ones.
"""

import asyncio
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

Repeat = Mapping[str, float]
"""Figure -> value; its unit is in its name (`mib_per_s`, `client_us`), a `ratio` has none."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is asked for.

    `directory`: where bookies and probes write, on the disk that is to be measured. `rounds`: how
    often each row is measured. `is_full`: the whole table, not the gated rows only. `loop`: makes
    the client's event loop.
    """

    directory: Path
    rounds: int
    is_full: bool
    loop: Callable[[], asyncio.AbstractEventLoop]


@dataclass(frozen=True, slots=True)
class Row:
    """One line: `group` is what was done, `what` under which conditions; both are stable."""

    group: str
    what: str
    repeats: tuple[Repeat, ...]

    @property
    def name(self) -> str:
        return f"{self.group}: {self.what}"

    @property
    def figures(self) -> list[str]:
        return list(self.repeats[0])

    def median(self, figure: str) -> float:
        return statistics.median(self.values(figure))

    def values(self, figure: str) -> list[float]:
        """Of all repeats; KeyError names the figures that there are."""
        if figure not in self.repeats[0]:
            raise KeyError(f"{self.name} has {', '.join(self.figures)}, not {figure}")
        return [repeat[figure] for repeat in self.repeats]

    def json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Row":
        return cls(found["group"], found["what"], tuple(found["repeats"]))


def over_probe(ours: Repeat, *, probe_mib_per_s: float) -> Repeat:
    """With the `ratio` of our rate and the probe's."""
    ratio = ours["mib_per_s"] / probe_mib_per_s
    return {**ours, "probe_mib_per_s": probe_mib_per_s, "ratio": ratio}


def size_name(size: int) -> str:
    """`1 KiB`, `100 B`."""
    return f"{size // KIB} KiB" if size >= KIB else f"{size} B"
