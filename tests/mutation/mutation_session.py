"""One pytest session that has collected a module's tests, and a fork of it for each mutant.

The session's own process runs no test, so nothing that one mutant's tests did is seen by the next.
A child plants its mutant in the functions (mutation_code), runs the tests it was given, stops at
the first that fails, and says so through a pipe. The mutated text also lies in the overlay: what
the tests start as processes imports that.
"""

import contextlib
import gc
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import pytest
from mutation_code import changed_codes, functions_in, plant
from mutation_operators import Mutant

SECONDS_LEAST: Final = 8.0
"""Any one test may take this long before its mutant counts as one that hangs."""
SECONDS_TIMES: Final = 8.0
"""And so many times what it took when it was recorded: machines are loaded."""
PATIENCE_MAX: Final = 5.0
"""On a machine however loaded, a test may take this many times its time."""
MEMORY_MAX: Final = 6 << 30
"""Bytes of data of a mutant's process: some allocate without end."""


class Verdict(StrEnum):
    KILLED = "killed"
    TIMEOUT = "timeout"
    """A test hung: it would have been noticed."""
    SURVIVED = "survived"
    UNREACHED = "unreached"
    """No test that was recorded reaches it: it survives."""
    ELSEWHERE = "elsewhere"
    """Runs at import: needs a process that has not imported the product yet."""


NOTICED: Final = (Verdict.KILLED, Verdict.TIMEOUT)


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: Verdict
    by: str = ""
    """The test that failed, or hung."""
    seconds: float = 0.0


@dataclass(slots=True, eq=False)
class Session:
    """pytest plugin. Whoever calls pytest.main gives `work`, which runs in place of the tests."""

    wanted: set[str]
    """Node ids: all others that the files hold are dropped."""
    seconds: Mapping[str, float]
    """What each took when it was recorded."""
    overlay: Path
    work: Callable[["Session"], None]
    right: set[str] = field(default_factory=set)
    """Tests that failed beside a mutant, and pass without any."""
    wrong: set[str] = field(default_factory=set)
    """Tests that fail without any mutant, here: they judge nothing."""
    items: dict[str, pytest.Item] | None = None
    functions: Any = None
    failed: str = ""
    """The first test that failed, in a child."""
    errors: str = ""
    """Why a file could not be collected."""

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        items[:] = [item for item in items if item.nodeid in self.wanted]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.errors:
            self.errors = f"{report.nodeid}: not collected"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    # In the session's process

    def index(self) -> None:
        """Notes the functions of the product, and what is never collected again."""
        self.functions = functions_in(str(self.overlay))
        gc.collect()
        gc.freeze()

    def judge(self, mutant: Mutant, tests: Sequence[str]) -> Outcome:
        """Whether one of these tests notices; in their order. What fails alone notices nothing."""
        path = self.overlay / mutant.file
        original = path.read_text(encoding="utf-8")
        codes = changed_codes(original, mutant.text, str(path))
        if codes is None:
            return Outcome(Verdict.ELSEWHERE)
        left = [test for test in tests if test not in self.wrong]
        while True:
            with replaced(path, mutant.text):
                outcome = self._forked(left, lambda: plant(self.functions, codes))
            if outcome.verdict not in NOTICED or self._is_right(outcome.by):
                return outcome
            left.remove(outcome.by)

    def _is_right(self, test: str) -> bool:
        """Whether a test passes without any mutant; asked once for each that failed."""
        if test not in self.right | self.wrong:
            passes = self._forked([test], lambda: True).verdict is Verdict.SURVIVED
            (self.right if passes else self.wrong).add(test)
        return test in self.right

    def _forked(self, tests: Sequence[str], prepare: Callable[[], bool]) -> Outcome:
        return forked(lambda say: self._child(tests, prepare, say), seconds=self.seconds)

    # In a child

    def _child(
        self, tests: Sequence[str], prepare: Callable[[], bool], say: Callable[[str], None]
    ) -> None:
        if not prepare():
            say(Verdict.ELSEWHERE)
            return
        self.run(tests, say)

    def run(self, tests: Sequence[str], say: Callable[[str], None]) -> None:
        """Runs them one after another until one fails; says the number of each before it."""
        assert self.items is not None
        items = [self.items[test] for test in tests if test in self.items]
        for item, following in zip(items, [*items[1:], None], strict=True):
            say(item.nodeid)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                with contextlib.suppress(BaseException):
                    item.session._setupstate.teardown_exact(None)
                say(Verdict.KILLED)
                return
        say(Verdict.SURVIVED)


@contextlib.contextmanager
def replaced(path: Path, text: str) -> Iterator[None]:
    before = path.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


def forked(
    work: Callable[[Callable[[str], None]], None],
    *,
    seconds: Mapping[str, float],
    first_seconds: float = SECONDS_LEAST,
) -> Outcome:
    """Runs `work` in a child that says the test it begins, and a verdict last. A child that says
    nothing for too long, or dies, has a verdict of its own. Nothing of it stays alive."""
    began = time.monotonic()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _run_child(work, writer)
    os.close(writer)
    said: list[str] = []
    limit = first_seconds
    buffer = b""
    while select.select([reader], [], [], limit * patience())[0]:
        got = os.read(reader, 65536)
        if not got:
            break
        *lines, buffer = (buffer + got).split(b"\n")
        said += [line.decode() for line in lines]
        if said:
            limit = SECONDS_LEAST + SECONDS_TIMES * seconds.get(said[-1], 0.0)
    else:
        said.append(Verdict.TIMEOUT)
    os.close(reader)
    _end(child)
    last = said.pop() if said else Verdict.KILLED
    by = said[-1] if said else ""
    if last in NOTICED and not by:
        last = Verdict.ELSEWHERE  # not a test failed, but the planting
    if last in list(Verdict):
        return Outcome(Verdict(last), by, time.monotonic() - began)
    return Outcome(Verdict.KILLED, last, time.monotonic() - began)  # it died in this test


def _run_child(work: Callable[[Callable[[str], None]], None], writer: int) -> None:
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))
        work(lambda word: (os.write(writer, f"{word}\n".encode()), None)[1])
    except BaseException:
        os.write(writer, f"{Verdict.KILLED}\n".encode())
    finally:
        os._exit(0)


def _end(child: int) -> None:
    """The child and all that it started. What its tests end by themselves is gone already."""
    for process in [*_descendants(child), child]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    os.waitpid(child, 0)


def _descendants(process: int) -> Iterator[int]:
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, path.read_text().split()):
                yield from _descendants(child)
                yield child


def patience() -> float:
    """How much slower than alone everything is just now, at the least; to a limit, for mutants that
    hang wait for it whole."""
    return min(PATIENCE_MAX, max(1.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1)))


def as_line(index: int, outcome: Outcome) -> bytes:
    """Short enough to be written to a pipe at once."""
    by = outcome.by[:2000]
    content = {"index": index, "verdict": outcome.verdict, "by": by, "seconds": outcome.seconds}
    return json.dumps(content).encode() + b"\n"


def quiet(log: Path) -> None:
    """What tests print goes to a file: it tells why a session ended early."""
    log.parent.mkdir(parents=True, exist_ok=True)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(target, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
