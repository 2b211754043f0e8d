"""Judges mutants: worker processes, each with a copy of the sources of its own.

A worker forks a session for each package (mutation_session); all take mutants of it from one
counter. What cannot be planted there (constants, class bodies, defaults) is judged afterwards in
fresh processes, which import the mutated copy: slower, so only those.
"""

import ctypes
import json
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Final, Protocol

import pytest
from mutant_overlay import Overlay
from mutation_hypothesis import load_profile
from mutation_map import BUILD
from mutation_operators import Mutant, package_of
from mutation_session import NOTICED, Outcome, Session, Verdict, as_line, forked, quiet, replaced

ROOT: Final = Path(__file__).parents[2]
FRESH_FILES: Final = (4, 20)
"""Test files of the first and of the second fresh process of one mutant: few are read faster."""
IMPORT_SECONDS: Final = 90.0
"""A fresh process may take this long until its first test begins."""
PRELOADED: Final = (
    "aiohttp", "click", "grpc", "hypothesis", "kazoo.client", "numpy", "prometheus_client",
    "pydantic", "pytest_asyncio", "rich.console", "rich.table", "yaml",
)  # fmt: skip
"""Imported once, before any fork: no part of the product, and most of what a start costs."""


Place = tuple[str, int]
"""A module, and the number of one of its tasks."""


@dataclass(frozen=True, slots=True)
class Task:
    mutant: Mutant
    tests: tuple[str, ...]
    """Node ids, in the order in which they are run."""
    is_at_import: bool = False
    """Its line also ran outside all tests: what a session holds was made without the mutant."""


@dataclass(frozen=True, slots=True)
class Work:
    """All there is to judge: tasks by module, and what each test took when it was recorded."""

    tasks: Mapping[str, Sequence[Task]]
    seconds: Mapping[str, float]
    is_quick: bool = False
    """What needs a fresh process is not judged: it stays ELSEWHERE."""
    known: Mapping[Place, Outcome] = field(default_factory=dict)
    """What was judged before, and still holds."""

    def packages(self) -> dict[str, list[Place]]:
        """What is to be judged, by package: collecting tests is most of a session's cost."""
        found: dict[str, list[Place]] = {}
        for module, tasks in self.tasks.items():
            places = ((module, index) for index in range(len(tasks)))
            found.setdefault(package_of(module), []).extend(
                place for place in places if place not in self.known
            )
        return {package: places for package, places in found.items() if places}


@dataclass(slots=True)
class Judged:
    """What came of it."""

    outcomes: dict[str, list[Outcome | None]]
    """By module, in the order of its tasks; None only when a worker broke."""
    dropped: dict[str, str] = field(default_factory=dict)
    """Tests that fail in a copy without any mutant, and what broke; of which module."""


Outcomes = Mapping[str, Sequence[Outcome | None]]
"""By module, in the order of its tasks; None is not judged yet."""


class Listener(Protocol):
    """Whoever asked: hears of each verdict, and of each module that is done, with all so far."""

    def judged(self, task: Task, outcome: Outcome) -> None: ...

    def done(self, module: str, outcomes: Outcomes) -> None: ...


def run(work: Work, *, workers: int, listener: Listener) -> Judged:
    """Judges every task that is not known."""
    for name in PRELOADED:
        __import__(name)
    assert "bookie" not in sys.modules, "a worker must import the copy"
    judged = Judged(
        {
            module: [work.known.get((module, index)) for index in range(len(tasks))]
            for module, tasks in work.tasks.items()
        }
    )
    counters = {package: multiprocessing.Value(ctypes.c_int, 0) for package in work.packages()}
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        reader, writer = os.pipe()
        children = []
        for number in range(workers):
            child = os.fork()
            if not child:
                os.close(reader)
                _run_worker(Path(folder) / str(number), work, counters, writer)
            children.append(child)
        os.close(writer)
        for module, outcomes in judged.outcomes.items():
            if None not in outcomes:
                listener.done(module, judged.outcomes)
        for line in _lines(reader):
            _note(judged, json.loads(line), work, listener)
        for child in children:
            os.waitpid(child, 0)
    return judged


def _lines(reader: int) -> Iterator[bytes]:
    with os.fdopen(reader, "rb") as pipe:
        yield from pipe


def _note(judged: Judged, said: dict[str, object], work: Work, listener: Listener) -> None:
    module = str(said["module"])
    if "dropped" in said:
        judged.dropped[str(said["dropped"])] = module
        return
    outcomes = judged.outcomes[module]
    outcome = Outcome(Verdict(str(said["verdict"])), str(said["by"]), float(str(said["seconds"])))
    index = int(str(said["index"]))
    outcomes[index] = outcome
    listener.judged(work.tasks[module][index], outcome)
    if None not in outcomes:
        listener.done(module, judged.outcomes)


# A worker


def _run_worker(
    folder: Path,
    work: Work,
    counters: Mapping[str, "Synchronized[int]"],
    writer: int,
) -> None:
    try:
        worker = _Worker(Overlay(folder), work.seconds, writer, work.is_quick)
        os.environ.update(worker.overlay.environment())
        os.chdir(ROOT)
        for package, places in work.packages().items():
            worker.judge_package(package, places, work.tasks, counters[package])
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


@dataclass(slots=True)
class _Worker:
    overlay: Overlay
    seconds: Mapping[str, float]
    writer: int
    """Of the pipe to the process that reports."""
    is_quick: bool

    def judge_package(
        self,
        package: str,
        places: Sequence[Place],
        tasks: Mapping[str, Sequence[Task]],
        counter: "Synchronized[int]",
    ) -> None:
        wanted = {test for module, index in places for test in tasks[module][index].tests}
        left_path = self.overlay.folder / "left.json"
        left_path.unlink(missing_ok=True)

        def work(session: Session) -> None:
            session.index()
            left = []
            while (number := _next(counter)) < len(places):
                module, index = places[number]
                task = tasks[module][index]
                outcome = session.judge(task.mutant, task.tests) if task.tests else NO_TEST
                is_elsewhere = outcome.verdict is Verdict.ELSEWHERE
                is_open = outcome.verdict is Verdict.SURVIVED and task.is_at_import
                if (is_elsewhere or is_open) and not self.is_quick:
                    left.append((module, index))
                else:
                    self._tell(module, index, outcome)
            said = {"left": left, "right": [*session.right], "wrong": [*session.wrong]}
            left_path.write_text(json.dumps(said), encoding="utf-8")

        child = os.fork()
        if not child:
            self._pytest(sorted(wanted), work)
        os.waitpid(child, 0)
        if not left_path.exists():
            self._say(package, {"dropped": f"{package}: its session ended early"})
            return
        said = json.loads(left_path.read_text(encoding="utf-8"))
        right, wrong = set(said["right"]), set(said["wrong"])
        for module, index in said["left"]:
            self._tell(module, index, self._judge_fresh(tasks[module][index], right, wrong))
        for test in sorted(wrong):
            self._say(package, {"dropped": test})

    def _judge_fresh(self, task: Task, right: set[str], wrong: set[str]) -> Outcome:
        """In a process that imports the mutated copy. What fails without it, too, is left out."""
        mutant = task.mutant
        outcome = NO_TEST
        parts = list(_by_files([test for test in task.tests if test not in wrong]))
        while parts:
            with replaced(self.overlay.folder / mutant.file, mutant.text):
                outcome = self._forked(parts[0])
            if outcome.verdict is Verdict.TIMEOUT and outcome.by == NOT_COLLECTED:
                return Outcome(Verdict.SURVIVED)  # no test hung: the machine may be slow
            if outcome.verdict not in NOTICED:
                parts = parts[1:]
                continue
            by = outcome.by if outcome.by in parts[0] else parts[0][0]
            if by not in right:
                passes = self._forked([by]).verdict is Verdict.SURVIVED
                (right if passes else wrong).add(by)
            if by in right:
                break
            parts[0].remove(by)
        return outcome

    def _forked(self, tests: Sequence[str]) -> Outcome:
        return forked(
            lambda say: self._fresh(tests, say),
            seconds=self.seconds,
            first_seconds=IMPORT_SECONDS,
        )

    def _fresh(self, tests: Sequence[str], say: Callable[[str], None]) -> None:
        def work(session: Session) -> None:
            if session.errors:
                say(NOT_COLLECTED)
                say(Verdict.KILLED)
            else:
                session.run(tests, say)
            os._exit(0)

        say(NOT_COLLECTED)  # what fails before the first test begins
        self._pytest(tests, work)

    def _pytest(self, tests: Sequence[str], work: Callable[[Session], None]) -> None:
        """Collects these tests in this process and does the work. Never returns."""
        try:
            load_profile()
            quiet(BUILD / "log" / self.overlay.folder.name)
            session = Session(set(tests), self.seconds, self.overlay.folder, work)
            files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
            arguments = [
                "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning",
                "-o", f"pythonpath={self.overlay.pytest_path()}",
            ]  # fmt: skip
            pytest.main([*arguments, *files], plugins=[session])
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)

    def _tell(self, module: str, index: int, outcome: Outcome) -> None:
        self._say(module, json.loads(as_line(index, outcome)))

    def _say(self, module: str, content: Mapping[str, object]) -> None:
        os.write(self.writer, json.dumps({"module": module, **content}).encode() + b"\n")


NOT_COLLECTED: Final = "its import"
NO_TEST: Final = Outcome(Verdict.UNREACHED)


def _next(counter: "Synchronized[int]") -> int:
    with counter.get_lock():
        counter.value += 1
        return counter.value - 1


def _by_files(tests: Sequence[str]) -> Iterator[list[str]]:
    """Tests of the first few files, then of some more; none of all the others."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    first, second = FRESH_FILES
    for part in (files[:first], files[first:second]):
        if part:
            yield [test for test in tests if test.partition("::")[0] in part]
