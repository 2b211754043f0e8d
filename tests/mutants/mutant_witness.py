"""pytest plugin inside a check: refuses the wrong code, and writes down which tests failed and why.

Loaded with `-p mutant_witness`; the environment names the copy that must be the one under test.
It writes after every report: a process that hangs after a failure has said that the test failed.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

OVERLAY = "MUTANT_OVERLAY"
OUTCOME = "MUTANT_OUTCOME"
DEFECTS_OF_THE_PATCH = ("NameError", "UnboundLocalError", "SyntaxError", "ImportError")

passed: list[str] = []
failed: dict[str, str] = {}
errors: dict[str, str] = {}


def pytest_sessionstart() -> None:
    import bookie_operator

    import bookie

    overlay = os.environ[OVERLAY]
    for package in (bookie, bookie_operator):
        if not Path(str(package.__file__)).is_relative_to(overlay):
            raise pytest.UsageError(f"{package.__file__} is under test, expected that in {overlay}")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        errors[report.nodeid] = _reason(report.longrepr)
        _write()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        passed.append(report.nodeid)
    elif report.when == "teardown" and report.nodeid in failed:
        pass  # it has failed already: what it leaves behind says nothing more
    elif report.failed or report.skipped:
        reason = _reason(report.longrepr)
        is_verdict = report.when == "call" and report.failed
        is_broken = reason.startswith(DEFECTS_OF_THE_PATCH)
        (failed if is_verdict and not is_broken else errors)[report.nodeid] = reason
    _write()


def pytest_sessionfinish() -> None:
    _write()


def _write() -> None:
    outcome = {"passed": passed, "failed": failed, "errors": errors}
    path = Path(os.environ[OUTCOME])
    part = path.with_suffix(".part")
    part.write_text(json.dumps(outcome), encoding="utf-8")
    part.replace(path)  # the reader may kill this process at any moment


def _reason(longrepr: Any) -> str:
    crash = getattr(longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(longrepr)
    return str(text).strip().splitlines()[0] if str(text).strip() else "no reason given"
