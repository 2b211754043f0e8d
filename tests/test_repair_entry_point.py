"""The repair image's entry point: what it starts, in whose place, and an executor's own words."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

ENTRY_POINT: Final = Path(__file__).parents[1] / "bookie" / "repair-entrypoint.sh"
VECTOR: Final = "--add-modules=jdk.incubator.vector"
EXECUTOR: Final = {
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_DRIVER_URL": "spark://driver:7078",
    "SPARK_EXECUTOR_ID": "7",
    "SPARK_EXECUTOR_CORES": "1",
    "SPARK_APPLICATION_ID": "app",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "demo-exec-7",
}


def program(path: Path, *lines: str) -> None:
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """All programs that there are; its Java says what it was called with."""
    for name in ("sh", "grep"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    java = tmp_path / "java"
    modules = 'case "$1" in --list-modules) echo "$MODULES"; exit ;; esac'
    program(java, modules, "printf '%s\\n' \"$@\"")
    program(tmp_path / "python", f'case "$2" in *pyspark*) echo /spark ;; *) echo {java} ;; esac')
    return tmp_path


def started(tools: Path, *words: str, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [tools / "sh", ENTRY_POINT, *words],
        env={"PATH": str(tools)} | environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(tools: Path, *words: str, **environment: str) -> list[str]:
    with started(tools, *words, **environment) as child:
        try:
            return child.communicate(timeout=60)[0].splitlines()
        finally:
            child.kill()


def test_a_command_takes_the_place_of_the_entry_point(tools: Path) -> None:
    """So it gets the signals, and its end is the container's."""
    with started(tools, "sh", "-c", "echo $$; exit 7") as child:
        assert child.communicate(timeout=60)[0].split() == [str(child.pid)]
    assert child.returncode == 7


def test_where_there_is_a_first_process_that_reaps_it_starts_the_command(tools: Path) -> None:
    program(tools / "tini", 'echo $$ "$@"')
    with started(tools, "bookie", "a b") as child:
        assert child.communicate(timeout=60)[0] == f"{child.pid} -s -- bookie a b\n"


@pytest.mark.parametrize(
    ("options", "modules", "kept"),
    [
        ([], "", []),
        (["-Da=b c", VECTOR, "-Dz"], "jdk.incubator.vector@17", ["-Da=b c", VECTOR, "-Dz"]),
        (["-Da=b c", VECTOR, "-Dz"], "java.base@17", ["-Da=b c", "-Dz"]),
        ([VECTOR], "java.base@17", []),
        ([f"-D{n}" for n in range(12)], "", [f"-D{n}" for n in range(12)]),
    ],
)
def test_an_executor_has_the_options_that_its_java_takes_in_their_order(
    tools: Path, options: list[str], modules: str, kept: list[str]
) -> None:
    asked = {f"SPARK_JAVA_OPT_{n}": option for n, option in enumerate(options)}
    words = said(tools, "executor", MODULES=modules, **EXECUTOR, **asked)
    place = words.index("-Xmx512m")
    assert words[:place] == kept
    assert words[place + 1 : place + 3] == ["-cp", "/opt/spark/conf:/spark/jars/*"]
    backend = dict(zip(words[place + 4 :: 2], words[place + 5 :: 2], strict=True))
    assert backend["--executor-id"] == "7" and backend["--podName"] == "demo-exec-7"
