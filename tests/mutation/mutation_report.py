"""What a run says: a line for each module, each survivor as a small diff, figures as JSON. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mutation_operators import Mutant, package_of
from mutation_session import NOTICED, Outcome, Verdict


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one module, or of several together."""

    name: str
    mutants: int = 0
    killed: int = 0
    timeout: int = 0
    equivalent: int = 0
    survived: int = 0
    """Those that no test reaches among them."""
    seconds: float = 0.0
    """Of all processes together."""

    @property
    def share(self) -> float:
        """Of those that could be noticed."""
        possible = self.mutants - self.equivalent
        return (self.killed + self.timeout) / possible if possible else 1.0

    def __str__(self) -> str:
        return (
            f"{self.name:42} {self.mutants:5} mutants, {self.killed:5} killed, "
            f"{self.timeout:3} timeout, {self.equivalent:3} equivalent, "
            f"{self.survived:4} survived  {self.share:6.1%}  {self.seconds:5.0f} s"
        )


def row(module: str, outcomes: Sequence[Outcome | None], *, equivalent: int) -> Row:
    """None is what was not judged: it counts as a survivor. A quick run leaves out the rest."""
    outcomes = [one for one in outcomes if one is None or one.verdict is not Verdict.ELSEWHERE]
    counts = Counter(outcome.verdict if outcome else Verdict.SURVIVED for outcome in outcomes)
    noticed = sum(counts[verdict] for verdict in NOTICED)
    return Row(
        module,
        len(outcomes) + equivalent,
        counts[Verdict.KILLED],
        counts[Verdict.TIMEOUT],
        equivalent,
        len(outcomes) - noticed,
        sum(outcome.seconds for outcome in outcomes if outcome),
    )


def so_far(outcomes: Sequence[Outcome | None]) -> list[Outcome | None]:
    """What was not judged yet is left out, as a quick run leaves out the rest."""
    return [outcome or Outcome(Verdict.ELSEWHERE) for outcome in outcomes]


def added(name: str, rows: Sequence[Row]) -> Row:
    return Row(
        name,
        sum(row.mutants for row in rows),
        sum(row.killed for row in rows),
        sum(row.timeout for row in rows),
        sum(row.equivalent for row in rows),
        sum(row.survived for row in rows),
        sum(row.seconds for row in rows),
    )


def by_package(rows: Sequence[Row]) -> list[Row]:
    names = sorted({package_of(row.name) for row in rows})
    return [added(name, [row for row in rows if package_of(row.name) == name]) for name in names]


def survivors(
    mutants: Sequence[Mutant], outcomes: Sequence[Outcome | None]
) -> list[tuple[Mutant, str]]:
    """Each with its verdict."""
    return [
        (mutant, outcome.verdict.value if outcome else "not judged")
        for mutant, outcome in zip(mutants, outcomes, strict=True)
        if outcome is None or outcome.verdict not in (*NOTICED, Verdict.ELSEWHERE)
    ]


def told(mutant: Mutant, verdict: str) -> str:
    diff = mutant.diff.replace("\n", "\n    ")
    return f"{mutant.where} {mutant.function} ({mutant.operator}, {verdict})\n    {diff}"


def figures(
    rows: Sequence[Row], survived: Sequence[tuple[Mutant, str]], more: Mapping[str, Any]
) -> dict[str, Any]:
    """For `bookie.testing.figures.tell`."""
    return {
        **more,
        "total": _of(added("total", rows)),
        "packages": [_of(row) for row in by_package(rows)],
        "modules": [_of(row) for row in rows],
        "survivors": [
            {
                "where": mutant.where,
                "function": mutant.function,
                "operator": mutant.operator,
                "diff": mutant.diff,
                "verdict": verdict,
            }
            for mutant, verdict in survived
        ],
    }


def _of(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "mutants": row.mutants,
        "killed": row.killed,
        "timeout": row.timeout,
        "equivalent": row.equivalent,
        "survived": row.survived,
        "share": round(row.share, 4),
        "seconds": round(row.seconds, 1),
    }
