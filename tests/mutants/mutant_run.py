"""One run: the named tests without any mutant, then every mutant against its checks."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from mutant import Mutant
from mutant_checks import Outcome, is_of, run_tests
from mutant_overlay import Overlay

Item = TypeVar("Item")
Result = TypeVar("Result")


class Verdict(Enum):
    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN"
    """No verdict: the patched code cannot be imported, or a check ended without one."""


@dataclass(frozen=True, slots=True)
class Judged:
    """`by`: what noticed the mutant; `why`: how, or why it counts as it does."""

    mutant: Mutant
    verdict: Verdict
    seconds: float
    by: tuple[str, ...] = ()
    why: str = ""


class Bench:
    """Overlays, one for each worker; each is lent to one piece of work at a time."""

    def __init__(self, folder: Path, *, workers: int) -> None:
        self._workers = workers
        self._free: SimpleQueue[Overlay] = SimpleQueue()
        for number in range(workers):
            self._free.put(Overlay(folder / str(number)))

    def each(
        self, work: Callable[[Overlay, Item], Result], items: Sequence[Item]
    ) -> Iterator[Result]:
        """Results in the order of the items."""

        def lend(item: Item) -> Result:
            overlay = self._free.get()
            try:
                return work(overlay, item)
            finally:
                self._free.put(overlay)

        with ThreadPoolExecutor(self._workers) as pool:
            yield from pool.map(lend, items)

    def unpatched(self, test_ids: Sequence[str]) -> dict[str, str]:
        """Named tests that do not pass on the code as it is, with the reason."""
        ids = sorted(set(test_ids))
        size = max(1, -(-len(ids) // self._workers))
        parts = [ids[start : start + size] for start in range(0, len(ids), size)]
        wrong: dict[str, str] = {}
        for part, outcome in zip(parts, self.each(run_tests, parts), strict=True):
            wrong |= outcome.failed | outcome.errors
            wrong |= {
                test_id: "no such test ran"
                for test_id in part
                if not any(is_of(passed, test_id) for passed in outcome.passed)
            }
        return wrong


def judge(overlay: Overlay, mutant: Mutant) -> Judged:
    """Plants the bug, runs its directed tests, takes it out again."""
    began = time.monotonic()
    with overlay.mutated(mutant):
        outcome = run_tests(overlay, mutant.test_ids)
    verdict, by, why = verdict_of(mutant, outcome)
    return Judged(mutant, verdict, time.monotonic() - began, by, why)


def verdict_of(mutant: Mutant, outcome: Outcome) -> tuple[Verdict, tuple[str, ...], str]:
    if outcome.errors:
        where, why = next(iter(outcome.errors.items()))
        return Verdict.BROKEN, (), f"{where}: {why}"
    by = tuple(i for i in mutant.test_ids if outcome.failures_of(i))
    blind = [i for i in mutant.test_ids if i not in by]
    if blind:
        return Verdict.SURVIVED, by, f"passes all the same: {', '.join(blind)}"
    return Verdict.CAUGHT, by, next(iter(outcome.failed.values()))
