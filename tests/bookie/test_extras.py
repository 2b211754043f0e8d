"""A program whose extra is not installed names it; a missing module of our own is a defect."""

import subprocess
import sys

import pytest
from bookie.extras import needs_extra


def told(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", ["--version", "local up"])
def test_the_operators_program_names_its_extra(words: str) -> None:
    done = told(
        f"import sys; sys.modules['psutil'] = None; sys.argv[1:] = {words.split()!r}\n"
        "from bookie_operator.program import main; main()"
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "pip install 'bookie-operator[local]'" in done.stderr


def test_a_bookie_names_its_extra() -> None:
    done = told(
        "import sys; sys.modules['aiohttp'] = None; sys.argv[1:] = ['serve', '--config', 'x']\n"
        "from bookie.__main__ import main; main()"
    )
    assert done.returncode == 1 and "pip install 'bookie-operator[bookie]'" in done.stderr


@pytest.mark.parametrize("name", ["bookie.nothing", "bookie_operator.nothing", ""])
def test_a_module_of_our_own_that_is_missing_is_a_defect(name: str) -> None:
    assert needs_extra(ModuleNotFoundError(name=name), "local") == ""
