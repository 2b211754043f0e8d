"""The ZooKeeper that lies in pyspark's jars, and the Java it runs on."""

import os
from pathlib import Path

import pytest
from bookie.errors import SettingsError, UnavailableError
from bookie.hosts import at_port, loopback
from bookie.metadata import java
from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper, find_jars
from bookie.metadata.java import find_java, java_version

FAST = EmbeddedSettings(fsync=False)


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("version", "main"), [("1.8.0_392", 8), ("17.0.15", 17), ("25", 25)])
def test_versions_are_read_in_both_spellings(tmp_path: Path, version: str, main: int) -> None:
    assert java_version(fake_java(tmp_path, version)) == main


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake_java(tmp_path, "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == program


def test_a_java_that_is_too_old_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "old", "11.0.2")
    new = fake_java(tmp_path / "new", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(new.parent), prepend=os.pathsep)
    assert find_java() == new


def test_without_java_the_error_says_what_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(java, "WHEEL", "no_such_wheel")
    with pytest.raises(SettingsError, match=r"is version 11.*java on PATH: none.*no_such_wheel"):
        find_java()


def test_the_jars_are_found_without_importing_pyspark() -> None:
    assert any(jar.name.startswith("zookeeper-3") for jar in find_jars())


@pytest.mark.process
def test_a_server_answers_and_stops(tmp_path: Path) -> None:
    with EmbeddedZooKeeper.start(tmp_path, settings=FAST) as server:
        assert server.is_running
        assert server.url == f"zk://{at_port(loopback(), server.port)}/ledgers"
        os.kill(server.pid, 0)
    server.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


@pytest.mark.process
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("name", ["läd 工", "a\\b", "a=b#c!,%41"])
def test_its_folder_may_have_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locale: str, name: str
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    with EmbeddedZooKeeper.start(tmp_path / name, settings=FAST):
        assert (tmp_path / name / "data").is_dir()
    assert [one.name for one in tmp_path.iterdir()] == [name]


@pytest.mark.process
def test_a_folder_and_a_port_have_one_server(tmp_path: Path) -> None:
    with EmbeddedZooKeeper.start(tmp_path / "a", settings=FAST) as server:
        with pytest.raises(UnavailableError, match="already runs"):
            EmbeddedZooKeeper.start(tmp_path / "a", settings=FAST)
        with pytest.raises(UnavailableError, match="did not start"):
            EmbeddedZooKeeper.start(tmp_path / "b", port=server.port, settings=FAST)
    with EmbeddedZooKeeper.start(tmp_path / "a", settings=FAST) as again:
        assert again.is_running
