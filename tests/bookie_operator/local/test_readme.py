"""README.md's fleet to play with: its lines, pasted into a shell in one go."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

TOUR_S = 600

ACTIVATE = ". .venv/bin/activate\n"

pytestmark = [pytest.mark.process, pytest.mark.timeout(TOUR_S)]


def test_the_lines_of_the_readme_can_be_pasted_in_one_go(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(rf"^```\n{re.escape(ACTIVATE)}(.*?)^```", readme, re.M | re.S)
    (tmp_path / "README.md").write_text(readme, encoding="utf-8")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    pasted = f"trap 'bookie-operator local down --dir fleet' ERR\n{block}"  # nobody is left behind
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail"], input=pasted, cwd=tmp_path, capture_output=True,
        env=os.environ | {"PATH": path}, text=True, timeout=TOUR_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# bookie-operator\n" in done.stdout, "ledger 4 has the lines of README.md"
    assert (tmp_path / "report.html").exists() and "bookie-3 stopped" in done.stdout
