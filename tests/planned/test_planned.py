"""The operator in the simulation: it brings everything back alone, and planted bugs do not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from planned_plan import plan_of
from planned_world import run, run_seed

HERE = Path(__file__).parent


@pytest.mark.parametrize("seed", range(1, 25))
def test_the_operator_alone_brings_everything_back(seed: int) -> None:
    assert run_seed(seed).violations == ()


def test_the_history_does_not_depend_on_the_hash_seed() -> None:
    told = subprocess.run(
        [sys.executable, HERE, "--seed", "3", "--quiet"],
        env=os.environ | {"PYTHONHASHSEED": "99", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run_seed(3).digest in told.stdout


def test_bookies_are_started_repaired_and_verified_by_the_planner() -> None:
    lines = run(plan_of(33), with_lines=True).lines
    for done in ("did StartBookie", "CookieFixApproved", "LimboCleared", "all is well"):
        assert any(done in line for line in lines)
