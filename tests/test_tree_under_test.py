"""What a test starts is the tree under test, wherever it lies: not the one that is installed."""

import subprocess
import sys

import bookie_operator
import pytest

import bookie


@pytest.mark.parametrize("package", [bookie, bookie_operator])
def test_a_child_process_imports_what_the_test_imports(package: object) -> None:
    name = package.__name__  # type: ignore[attr-defined]
    command = [sys.executable, "-c", f"import {name}; print({name}.__file__)"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    assert found.stdout.strip() == package.__file__  # type: ignore[attr-defined]
