"""expected.toml: which tests do not pass on which bookies, and why; held against what was seen."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apache_results import FAILED, PASSED, Result, outcome_of

OURS, APACHE = "ours", "apache"
BOTH, UNSTEADY = "both", "unsteady"
SECTIONS: Final = (OURS, APACHE, BOTH, UNSTEADY)
FILE: Final = Path(__file__).with_name("expected.toml")


@dataclass(frozen=True, slots=True)
class Reason:
    """Tests that do not pass for one cause. `section`: on whose bookies, or `unsteady`: on either
    they pass at times."""

    section: str
    tests: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Expected:
    """See the module."""

    reasons: tuple[Reason, ...]

    @classmethod
    def of(cls, text: str) -> "Expected":
        """ValueError names what is wrong with it."""
        content = tomllib.loads(text)
        if unknown := sorted(content.keys() - set(SECTIONS)):
            raise ValueError(f"section {unknown[0]}, expected one of {', '.join(SECTIONS)}")
        reasons = [
            Reason(section, tuple(entry["tests"]), " ".join(entry["why"].split()))
            for section in SECTIONS
            for entry in content.get(section, ())
        ]
        every = [test for reason in reasons for test in reason.tests]
        if twice := sorted({test for test in every if every.count(test) > 1}):
            raise ValueError(f"{twice[0]} is listed twice")
        return cls(tuple(reasons))

    def reason(self, test: str, fleet: str) -> Reason | None:
        """Why this test may not pass there. A name without `[...]` stands for all of its runs."""
        for reason in self.reasons:
            is_of_it = reason.section in (fleet, BOTH, UNSTEADY)
            if is_of_it and {test, unnumbered(test)} & set(reason.tests):
                return reason
        return None

    def surprises(self, results: Iterable[Result], fleet: str, *, is_whole: bool) -> list[str]:
        """Sentences. `is_whole`: every class was run, so that whatever is listed was seen."""
        said, seen = [], set()
        for result in results:
            seen |= {result.test, unnumbered(result.test)}
            reason = self.reason(result.test, fleet)
            if result.outcome == FAILED and reason is None:
                said.append(f"{result.test} failed, and {FILE.name} has no reason: {result.why}")
            if result.outcome == PASSED and reason is not None and reason.section != UNSTEADY:
                said.append(f"{result.test} passed, and {FILE.name} lists it: take it out there")
        if is_whole:
            listed = [test for reason in self.reasons for test in reason.tests]
            said += [
                f"{test} is in {FILE.name} and is no test" for test in listed if test not in seen
            ]
        return said


def unnumbered(test: str) -> str:
    """Without which of its runs."""
    return test.partition("[")[0].strip()


def differs(row: Mapping[str, str]) -> bool:
    """Our bookies fail where Apache's pass."""
    return outcome_of(row.get(OURS, "")) == FAILED and outcome_of(row.get(APACHE, "")) == PASSED
