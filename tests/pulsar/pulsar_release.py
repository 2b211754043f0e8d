"""A release of Apache Pulsar and its Python client, kept in build/test-pulsar.

Maven gives the release, pip the client into an environment of its own: neither belongs to what
`make install` makes. Each is had once, until the pom or the version changes.
"""

import hashlib
import shutil
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bookie.testing.apache import BUILD_WAIT_S, ApacheError, NoToolsError, run_command

HERE: Final = Path(__file__).parent
FOLDER: Final = HERE.parents[1] / "build" / "test-pulsar"
CLIENT: Final = "pulsar-client==3.13.0"
TOOLS: Final = ("mvn", "javac", "java")
PROGRAMS: Final = tuple(sorted((HERE / "src").rglob("*.java")))


@dataclass(frozen=True, slots=True)
class Release:
    """What runs: a broker's class path, and the Python that has Pulsar's client."""

    home: Path
    classes: Path
    python: Path

    @property
    def classpath(self) -> str:
        return f"{self.classes}:{self.home}/lib/*:{self.home}/conf"

    @property
    def version(self) -> str:
        return self.home.name.removeprefix("apache-pulsar-")


def release() -> Release:
    """Had where needed; NoToolsError where it cannot be had, ApacheError where javac fails."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise NoToolsError(f"{' and '.join(missing)} not on PATH")
    home = _unpacked()
    return Release(home, _compiled(home), _environment())


def _unpacked() -> Path:
    folder, pom = FOLDER / "release", HERE / "pom.xml"
    if _is_stale(folder, pom.read_bytes()):
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        _have(["mvn", "-B", "-q", "-f", str(pom), *goal])
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as files:  # Maven's own unpacking cuts long names off
            files.extractall(folder, filter="data")
        archive.unlink()
        _mark(folder, pom.read_bytes())
    (home,) = folder.glob("apache-pulsar-*")
    return home


def _compiled(home: Path) -> Path:
    folder = FOLDER / "classes"
    sources = b"".join(program.read_bytes() for program in PROGRAMS) + home.name.encode()
    if _is_stale(folder, sources):
        words = ["--release", "17", "-cp", f"{home}/lib/*", "-d", str(folder)]
        run_command(["javac", *words, *map(str, PROGRAMS)], wait_s=BUILD_WAIT_S)
        _mark(folder, sources)
    return folder


def _environment() -> Path:
    folder = FOLDER / "client"
    python = folder / "bin" / "python"
    if _is_stale(folder, CLIENT.encode()):
        _have([sys.executable, "-m", "venv", str(folder)])
        _have([str(python), "-m", "pip", "install", "--quiet", CLIENT])
        _mark(folder, CLIENT.encode())
    return python


def _have(words: Sequence[str]) -> None:
    try:
        run_command(list(words), wait_s=BUILD_WAIT_S)
    except ApacheError as error:
        raise NoToolsError(f"Pulsar cannot be had: {error}") from error


def _is_stale(folder: Path, made_of: bytes) -> bool:
    """True where it is to be made; then the folder is not there."""
    mark = folder / "made-of"
    if mark.exists() and mark.read_text(encoding="ascii") == hashlib.sha256(made_of).hexdigest():
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def _mark(folder: Path, made_of: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "made-of").write_text(hashlib.sha256(made_of).hexdigest(), encoding="ascii")
