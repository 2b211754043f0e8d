"""What is kept of the runs on both fleets: one file, in which a run renews its own side."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from apache_results import FAILED, NEEDS, PASSED, SKIPPED, Result, outcome_of, split

OUTCOMES: Final = (PASSED, FAILED, NEEDS, SKIPPED)


@dataclass(slots=True)
class Report:
    """`runs`: by fleet, what is known of the runs that its results are of: the last of all classes,
    and those of single classes since. `tests`: by name, then by fleet, what became of it."""

    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    tests: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, file: Path) -> "Report":
        """Empty where there is none yet."""
        if not file.exists():
            return cls()
        content = json.loads(file.read_text(encoding="utf-8"))
        return cls(content["runs"], content["tests"])

    def renew(
        self, fleet: str, facts: Mapping[str, Any], results: Sequence[Result], *, is_whole: bool
    ) -> None:
        """These results in place of those before; not `is_whole`: of their classes alone."""
        classes = {split(result.test)[0] for result in results}
        for test, row in self.tests.items():
            if is_whole or split(test)[0] in classes:
                row.pop(fleet, None)
        for result in results:
            self.tests.setdefault(result.test, {})[fleet] = result.words
        self.tests = {test: row for test, row in sorted(self.tests.items()) if row}
        of = "all" if is_whole else sorted(classes)
        before = [] if is_whole else self.runs.get(fleet, [])
        self.runs[fleet] = [*before, {**facts, "classes": of}]

    def counts(self, fleet: str) -> dict[str, int]:
        """How many of each outcome."""
        told = Counter(outcome_of(row[fleet]) for row in self.tests.values() if fleet in row)
        return {outcome: told[outcome] for outcome in OUTCOMES}

    @property
    def content(self) -> dict[str, Any]:
        return {"runs": self.runs, "tests": self.tests}


def counted(results: Iterable[Result]) -> dict[str, int]:
    """How many of each outcome."""
    counts = Counter(result.outcome for result in results)
    return {outcome: counts[outcome] for outcome in OUTCOMES}
