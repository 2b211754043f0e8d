"""`python tests/model` as a user runs it: the figures, and an exit code that can be 1."""

import json
import subprocess
import sys
from pathlib import Path

MODEL = Path(__file__).parent


def run(*options: str, figures: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(MODEL), *options, "--json", str(figures)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_one_model_ends_with_a_line_of_figures_and_their_file(tmp_path: Path) -> None:
    figures = tmp_path / "model.json"
    done = run("--write-quorum", "2", "--crashes", "0", figures=figures)
    (row,) = json.loads(figures.read_text(encoding="utf-8"))["models"]
    assert done.returncode == 0 and row["complete"] and row["bounds"]["write_quorum"] == 2
    assert f"{row['states']:,} states" in done.stdout.splitlines()[-1]


def test_what_was_not_explored_to_the_end_is_a_failure(tmp_path: Path) -> None:
    done = run("--states-max", "10", "--crashes", "1", figures=tmp_path / "model.json")
    assert done.returncode == 1 and "not explored to the end" in done.stdout


def test_a_mutant_is_shown_with_its_story(tmp_path: Path) -> None:
    done = run("--mutant", "no-write-back", figures=tmp_path / "model.json")
    assert done.returncode == 0 and "  1. W adds e0 to B0, B1, B2" in done.stdout
