"""What Maven and javac are asked for, and when; a stock bookie's file and command."""

import subprocess
import sys
from pathlib import Path

import pytest
from bookie.testing import apache
from bookie.testing.apache import ApacheError, Build, NoToolsError, StockBookie


class Tools:
    """In place of Maven and javac: what they were asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        monkeypatch.setattr(apache.shutil, "which", lambda tool: f"/bin/{tool}")
        monkeypatch.setattr(apache, "run_command", self.run)

    def run(self, words: list[str], *, wait_s: float = 0) -> None:
        self.asked.append(words[0])


@pytest.fixture
def build(tmp_path: Path) -> Build:
    pom, program = tmp_path / "pom.xml", tmp_path / "Program.java"
    pom.write_text("<project/>")
    program.write_text("class Program {}")
    return Build(pom, (program,), tmp_path / "build")


def test_a_build_is_made_once(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = Tools(monkeypatch)
    assert build.classpath() == build.classpath()
    assert tools.asked == ["mvn", "javac"]


def test_another_program_is_compiled_with_the_same_jars(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Tools(monkeypatch)
    build.classpath()
    build.programs[0].write_text("class Program { int more; }")
    build.classpath()
    assert tools.asked == ["mvn", "javac", "javac"]


def test_another_pom_asks_for_its_jars(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = Tools(monkeypatch)
    build.classpath()
    build.pom.write_text("<project>more</project>")
    build.classpath()
    assert tools.asked == ["mvn", "javac", "mvn", "javac"]


def test_a_failed_build_is_not_taken_for_made(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Tools(monkeypatch)

    def fail(words: list[str], *, wait_s: float = 0) -> None:
        raise ApacheError("javac failed")

    monkeypatch.setattr(apache, "run_command", fail)
    with pytest.raises(ApacheError, match="javac failed"):
        build.classpath()
    monkeypatch.setattr(apache, "run_command", tools.run)
    build.classpath()
    assert tools.asked == ["mvn", "javac"]


def test_missing_tools_are_named(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apache.shutil, "which", lambda tool: None)
    with pytest.raises(NoToolsError, match="mvn and javac and java not on PATH"):
        build.classpath()


def test_a_failure_names_the_compiler_s_first_error() -> None:
    program = ["sh", "-c", "echo A.java:1: error: no semicolon; echo 1 error; exit 1"]
    with pytest.raises(ApacheError, match=r"sh failed: A\.java:1: error: no semicolon"):
        apache.run_command(program)


def test_what_takes_too_long_is_a_failure() -> None:
    with pytest.raises(ApacheError, match="sleep took longer than"):
        apache.run_command(["sleep", "5"], wait_s=0.05)


def test_a_stock_bookie_has_its_settings_over_the_common_ones(tmp_path: Path) -> None:
    bookie = StockBookie(tmp_path / "one", "127.0.0.1:2181/ledgers", 3181, "jars/*", ("-Xmx1g",))
    bookie.configure({"bookieId": "one", "allowLoopback": "false"})
    lines = (tmp_path / "one" / "bookie.properties").read_text().splitlines()
    assert "metadataServiceUri=zk+hierarchical://127.0.0.1:2181/ledgers" in lines
    assert {"bookiePort=3181", "bookieId=one", "allowLoopback=false"} <= set(lines)
    assert bookie.serving()[0] == "-Xmx1g"
    assert bookie.serving()[-2:] == ["--conf", str(tmp_path / "one" / "bookie.properties")]


def test_the_suite_is_skipped_with_a_reason_where_tools_are_missing(tmp_path: Path) -> None:
    suite = Path(__file__).parents[2] / "java"
    done = {
        option: subprocess.run(
            [sys.executable, str(suite), *option],
            env={"PATH": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
        )
        for option in ((), ("--require",))
    }
    assert {option: run.returncode for option, run in done.items()} == {(): 0, ("--require",): 1}
    assert "SKIPPED: test-java: mvn and javac and java not on PATH" in done[()].stdout
