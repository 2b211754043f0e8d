"""What became of tests: from the lines of the Java side, over a second run, to one word each."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

PACKAGE: Final = "org.apache.bookkeeper."
PASSED, FAILED, NEEDS, SKIPPED = "passed", "failed", "needs", "skipped"
UNFINISHED: Final = ("planned", "started")
NO_END: Final = "did not end: its JVM was stopped"


@dataclass(frozen=True, slots=True)
class Result:
    """Of one test on one fleet.

    `why`: of a failure the first line, of `needs` what it asks of Apache's process. `unique_id`: by
    which JUnit finds it again. `again`: it was run a second time, alone.
    """

    test: str
    outcome: str
    why: str
    ms: int
    unique_id: str
    again: bool = False

    @property
    def words(self) -> str:
        """For the report."""
        told = f"{self.outcome}: {self.why}" if self.why else self.outcome
        return f"{told} (second run)" if self.again and self.outcome == PASSED else told


def named(of_class: str) -> str:
    """`client.TestFencing` for the full name."""
    return of_class.removeprefix(PACKAGE)


def split(test: str) -> tuple[str, str]:
    """`client.api.SomeTest.testThat[0]` as class and test: a class begins with a capital."""
    words = test.split(".")
    end = next(place for place, word in enumerate(words) if word[:1].isupper()) + 1
    return ".".join(words[:end]), ".".join(words[end:])


def outcome_of(words: str) -> str:
    """Of what a report says."""
    return words.partition(":")[0].partition(" ")[0]


def read(lines: Iterable[str], of_class: str) -> list[Result]:
    """The last word on each test counts; one without an outcome has failed."""
    found: dict[str, Result] = {}
    for line in lines:
        outcome, test, why, ms, unique_id = line.rstrip("\n").split("\t")
        if outcome in UNFINISHED:
            outcome, why = FAILED, NO_END
        name = f"{named(of_class)}.{test}"
        found[unique_id] = Result(name, outcome, why, int(ms or 0), unique_id)
    return list(found.values())


def settled(first: Iterable[Result], second: Iterable[Result]) -> list[Result]:
    """With what a second run says of those that failed."""
    again = {result.unique_id: replace(result, again=True) for result in second}
    return [again.get(result.unique_id, result) for result in first]
