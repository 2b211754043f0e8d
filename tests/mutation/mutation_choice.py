"""Which tests judge a mutant, in what order, and which mutants a sample takes. Pure."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from mutation_map import Reach, RecordedTest
from mutation_operators import Mutant

PROCESS_SECONDS: Final = 4.0
"""What a test that starts real processes costs more than it cost when it was recorded."""
NEIGHBOURS: Final = 8
"""Tests taken of a file of the package's own tests for each one of another file."""


def mirror_of(source: str) -> str:
    """Where a module's own tests are, without `.py`: files of tests that begin so come first."""
    package, module = source.partition("/src/")[2].removesuffix(".py").rsplit("/", 1)
    return f"tests/{package}/test_{module}"


def cost(test: RecordedTest) -> float:
    return test.seconds + PROCESS_SECONDS * test.is_process


def chosen(mutant: Mutant, reach: Reach, *, seconds: float) -> list[str]:
    """Node ids: the module's own tests, the fastest first, then all others that reach it, one of
    each file, then the next of each, until their recorded seconds are spent. One is always taken.

    A file stands for a view of its own: the fastest of all would be many tests of few views. Of the
    package's own tests it is eight of each file at a time: a line that all tests reach has its
    claim there, and one test of each of two hundred files are the seconds spent."""
    own = mirror_of(mutant.file)
    folder = f"{own.rpartition('/')[0]}/"
    ids = reach.tests_of(mutant.file, mutant.lines, mutant.function)
    if not any((mutant.file, line) in reach.lines for line in mutant.lines):
        # What runs at import is reached by no test: a claim on a constant is of its module's own.
        ids = ids | {test.id for test in reach.tests.values() if test.file.startswith(own)}
    if not ids:  # a module of fields and numbers: whoever tests its neighbours uses them
        ids = {test.id for test in reach.tests.values() if _is_in(folder, test)}
    tests = [reach.tests[test_id] for test_id in ids if test_id in reach.tests]
    tests.sort(key=lambda test: (cost(test), test.id))
    seen: Counter[str] = Counter()
    rounds: dict[str, int] = {}
    for test in tests:
        at_once = NEIGHBOURS if _is_in(folder, test) else 1
        rounds[test.id] = 0 if test.file.startswith(own) else seen[test.file] // at_once + 1
        seen[test.file] += 1
    tests.sort(key=lambda test: rounds[test.id])
    taken: list[str] = []
    spent = 0.0
    for test in tests:
        spent += cost(test)
        if taken and spent > seconds:
            break
        taken.append(test.id)
    return taken


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
