"""Which tests judge a mutant, in what order, and which mutants a sample takes. Pure."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mutation_map import Reach, RecordedTest
from mutation_operators import Mutant

PROCESS_SECONDS: Final = 4.0
"""What a test that starts real processes costs more than it cost when it was recorded."""
NEIGHBOURS: Final = 0.5
"""The package's own tests come before all others for this part of a mutant's seconds: for half of
that part by turns of their files, for the other half the fastest."""


def mirror_of(source: str) -> str:
    """Where a module's own tests are, without `.py`: files of tests that begin so come first."""
    package, module = source.partition("/src/")[2].removesuffix(".py").rsplit("/", 1)
    return f"tests/{package}/test_{module}"


def cost(test: RecordedTest) -> float:
    return test.seconds + PROCESS_SECONDS * test.is_process


def chosen(mutant: Mutant, reach: Reach, *, seconds: float) -> list[str]:
    """Node ids: the module's own tests, the fastest first, then the package's for half of the
    recorded seconds, then all others that reach it, until these are spent. One is always taken.

    By turns of files, since a file stands for a view of its own: the fastest of all would be many
    tests of few views. But a line that all tests reach has its claim in the package, and one test
    of each of two hundred files are the seconds spent; and where a file has hundreds of fast tests,
    a turn of each is slow: so half of the package's come by turns, and half are the fastest."""
    own = mirror_of(mutant.file)
    folder = f"{own.rpartition('/')[0]}/"
    ids = reach.tests_of(mutant.file, mutant.lines, mutant.function)
    if not any((mutant.file, line) in reach.lines for line in mutant.lines):
        # What runs at import is reached by no test: a claim on a constant is of its module's own.
        ids = ids | {test.id for test in reach.tests.values() if test.file.startswith(own)}
    if not ids:  # a module of fields and numbers: whoever tests its neighbours uses them
        ids = {test.id for test in reach.tests.values() if _is_in(folder, test)}
    tests = [reach.tests[test_id] for test_id in ids if test_id in reach.tests]
    mine = sorted((test for test in tests if test.file.startswith(own)), key=_by_cost)
    by_turns = in_turns(tests)
    near = [test for test in by_turns if _is_in(folder, test)]
    seconds_near = seconds * NEIGHBOURS
    first = _within([*mine, *near], seconds_near / 2)
    first = _within([*mine, *first, *sorted(near, key=_by_cost)], seconds_near)
    return [test.id for test in _within([*mine, *first, *by_turns], seconds)]


def in_turns(tests: Iterable[RecordedTest]) -> list[RecordedTest]:
    """The fastest of each file, then the next of each."""
    seen: Counter[str] = Counter()
    turns: dict[str, int] = {}
    by_cost = sorted(tests, key=_by_cost)
    for test in by_cost:
        turns[test.id] = seen[test.file]
        seen[test.file] += 1
    return sorted(by_cost, key=lambda test: turns[test.id])


def _within(tests: Sequence[RecordedTest], seconds: float) -> list[RecordedTest]:
    """So many of them as fit, each once; one always."""
    taken: list[RecordedTest] = []
    spent = 0.0
    for test in dict.fromkeys(tests):
        spent += cost(test)
        if taken and spent > seconds:
            break
        taken.append(test)
    return taken


def _by_cost(test: RecordedTest) -> tuple[float, str]:
    return cost(test), test.id


def _is_in(folder: str, test: RecordedTest) -> bool:
    return test.file.startswith(folder) and "/" not in test.file.removeprefix(folder)


def sample(
    mutants: Mapping[str, Sequence[Mutant]], *, size: int, seed: int
) -> dict[str, list[Mutant]]:
    """So many of them, by seed: at least one of each module that has any, the others evenly.

    A mutant is drawn for what it is, not for its place: an edit elsewhere leaves the sample as it
    is, so that what was judged of it stays judged."""
    draws = {
        module: sorted((_draw(mutant, seed), number) for number, mutant in enumerate(found))
        for module, found in mutants.items()
    }
    picked = {module: {drawn[0][1]} for module, drawn in draws.items() if drawn}
    left = sorted((draw, module, at) for module, drawn in draws.items() for draw, at in drawn[1:])
    for _, module, number in left[: max(0, size - len(picked))]:
        picked[module].add(number)
    return {
        module: [mutants[module][number] for number in sorted(numbers)]
        for module, numbers in picked.items()
    }


def _draw(mutant: Mutant, seed: int) -> str:
    return hashlib.sha256(json.dumps([seed, *mutant.key]).encode()).hexdigest()
