"""Runs directed tests against one overlay, in a process of their own, within a time."""

import ast
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from mutant_overlay import ROOT, Overlay
from mutant_witness import OUTCOME, OVERLAY

TEST_SECONDS_MAX: Final = 30
"""A test that hangs fails by pytest-timeout, with its stack: that counts as noticed."""
START_SECONDS_MAX: Final = 60
"""What a process may take beyond its tests; one that hangs outside of them has said nothing."""
EXIT_PASSED: Final = 0
EXIT_FAILED: Final = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """Test ids that passed; those that failed, and those that could say nothing, with reasons."""

    passed: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def failures_of(self, test_id: str) -> dict[str, str]:
        """Failures of a named test: its own, or of any of its parameters."""
        return {i: why for i, why in self.failed.items() if is_of(i, test_id)}


def is_of(node_id: str, test_id: str) -> bool:
    """True when pytest's id is the named test or one of its parameters."""
    return node_id == test_id or node_id.startswith(f"{test_id}[")


def run_tests(overlay: Overlay, test_ids: Iterable[str]) -> Outcome:
    """The outcome of these tests on the overlay as it is now."""
    ids = list(dict.fromkeys(test_ids))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outcome.json"
        environment = {OVERLAY: str(overlay.folder), OUTCOME: str(path), **overlay.environment()}
        try:
            done = subprocess.run(
                [*_pytest(overlay, ids), *ids],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=START_SECONDS_MAX + TEST_SECONDS_MAX * len(ids),
            )
        except subprocess.TimeoutExpired as error:
            return when_hung(_witnessed(path), ids, seconds=error.timeout)
        said = _witnessed(path)
    if said == Outcome() or done.returncode not in (EXIT_PASSED, EXIT_FAILED):
        end = " / ".join(done.stdout.strip().splitlines()[-5:])
        return Outcome(errors=said.errors | {"pytest": f"exit {done.returncode}: {end}"})
    return said


def when_hung(said: Outcome, ids: Sequence[str], *, seconds: float) -> Outcome:
    """What the tests said, when each of them failed before the process hung; else no verdict."""
    if all(said.failures_of(test_id) for test_id in ids):
        return said
    return Outcome(errors=said.errors | {"process": f"hung for {seconds:.0f} s outside its tests"})


def _witnessed(path: Path) -> Outcome:
    """What the process wrote down so far: mutant_witness.py writes after every report."""
    if not path.exists():
        return Outcome()
    said = json.loads(path.read_text(encoding="utf-8"))
    return Outcome(tuple(said["passed"]), said["failed"], said["errors"])


def _pytest(overlay: Overlay, test_ids: Iterable[str]) -> list[str]:
    # What a check does not need takes longer to import than all the rest.
    spared = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio"]
    files = {test_id.split("::")[0] for test_id in test_ids}
    if not any(shared_fixtures() & argument_names(ROOT / file) for file in files):
        spared.append("--noconftest")
    return [
        sys.executable, "-m", "pytest", "-q", *spared, "-p", "mutant_witness",
        "-o", f"pythonpath={overlay.pytest_path()}", f"--timeout={TEST_SECONDS_MAX}",
    ]  # fmt: skip


@cache
def shared_fixtures() -> frozenset[str]:
    """Names of the fixtures that tests/conftest.py brings, and all that they import."""
    return frozenset(
        function.name
        for path in (ROOT / "tests/support").glob("*.py")
        for function in _functions(path)
        if any("fixture" in ast.dump(decorator) for decorator in function.decorator_list)
    )


@cache
def argument_names(path: Path) -> frozenset[str]:
    """Of every function in a file of tests: what its tests and its own fixtures ask for."""
    return frozenset(one.arg for function in _functions(path) for one in function.args.args)


def _functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]
