"""Spark starts on a trimmed Java too: the module it does not have is not asked for."""

import subprocess
from pathlib import Path

import pytest
from bookie.repair.spark.java_home import OPTIONAL_MODULE, java_home

JAVA = """#!/bin/sh
if [ "$1" = "--list-modules" ]; then
    echo "java.base@25"; echo "{module}"
else
    printf '%s|' "$@"
fi
"""


def fake_java(folder: Path, module: str) -> Path:
    java = folder / "real" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(JAVA.format(module=module))
    java.chmod(0o755)
    return java


def test_a_whole_java_is_used_as_it_is(tmp_path: Path) -> None:
    java = fake_java(tmp_path, f"{OPTIONAL_MODULE}@25")
    assert java_home(java, tmp_path) == java.parent.parent


@pytest.mark.parametrize("words", [["-Xmx1g", "a b", "x"], []])
def test_a_trimmed_java_is_not_asked_for_what_it_lacks(tmp_path: Path, words: list[str]) -> None:
    home = java_home(fake_java(tmp_path, "java.sql@25"), tmp_path)
    command = [home / "bin" / "java", *words, f"--add-modules={OPTIONAL_MODULE}", "Main"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.split("|")[:-1] == [*words, "Main"]
