"""What CI says at its end: `.ci/summary.py` reads what a run printed."""

import subprocess
import sys
from pathlib import Path

import pytest

SUMMARY = Path(__file__).parents[1] / ".ci" / "summary.py"


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with one tool on it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "helm").write_text("#!/bin/sh\n")
    (folder / "helm").chmod(0o755)
    return folder


def summary(tools: Path, output: str, times: str = "61 make test\n") -> tuple[int, str]:
    said, took = tools / "said", tools / "took"
    said.write_text(output)
    took.write_text(times)
    command = [sys.executable, str(SUMMARY), str(said), str(took)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PATH": str(tools)}
    )
    return done.returncode, done.stdout


def test_each_part_has_its_time_and_all_of_them_together(tools: Path) -> None:
    code, said = summary(tools, "9,000 passed\n", "61 make test\n3600 make proof\n")
    assert code == 0 and said.split("\n\n")[0].strip().splitlines() == [
        "1 min 01 s  make test",
        "  60 min 00 s  make proof",
        "  61 min 01 s  in all",
    ]
    assert "Nothing was skipped." in said


def test_what_was_skipped_is_named_once(tools: Path) -> None:
    line = "SKIPPED: test-java: mvn and javac and java not on PATH"
    code, said = summary(tools, f"{line}\nok\n{line}\n")
    assert code == 0 and said.count(line) == 1


@pytest.mark.parametrize(
    "line",
    [
        "SKIPPED [3] tests/support/helm_charts.py:21: helm is not on PATH",
        "SKIPPED: charts: no helm on PATH",
        "SKIPPED: charts: helm and helm not on PATH",
    ],
)
def test_work_skipped_for_want_of_a_tool_that_is_here_fails_the_run(tools: Path, line: str) -> None:
    code, said = summary(tools, line)
    assert code == 1 and said.endswith(f"is on PATH:\n{line}\n")


@pytest.mark.parametrize(
    "line",
    [
        "SKIPPED [1] tests/bookie/repair/reports/test_page.py:15: no chromium on PATH",
        "SKIPPED: judge: helm and mvn not on PATH",
        "SKIPPED [1] tests/contract/test_disk.py:137: the file system has no direct writes",
    ],
)
def test_a_tool_that_is_missing_is_no_failure(tools: Path, line: str) -> None:
    assert summary(tools, line)[0] == 0
