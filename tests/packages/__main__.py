"""`make test-packages`: the wheel, installed where there is no repository, and what runs from it.

`python tests/packages FOLDER` takes the wheel that lies there. One environment gets it bare: the
plugin and the commands of a client must run in it. Another one gets it with the extra `local`, and
the README's fleet is brought up, written to, read and taken down in it. Exit code 1: one of these
failed; its words are shown. The packages come from the index that pip has been set to.
"""

import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LIMIT_S: Final = 600.0
"""For one command: pip builds pyspark's wheel once."""
LINES: Final = "one\ntwo\n"
BARE: Final = (
    ("kubectl-bookie", "--version"),
    ("kubectl-bookie", "status", "--help"),
    ("kubectl_complete-bookie", "sta"),
    ("bookie", "audit", "--help"),
    ("bookie", "ledger", "read", "--help"),
)
"""What runs without any extra."""


class Environment:
    """A Python of its own outside of the repository, with the wheel in it."""

    def __init__(self, folder: Path, wanted: str) -> None:
        """`wanted`: what pip is asked for."""
        self.folder = folder
        venv.create(folder, with_pip=True)
        self.run("pip", "install", "--quiet", wanted)

    def run(self, program: str, *words: str) -> str:
        """What the program printed. CalledProcessError: it failed."""
        command = [str(self.folder / "bin" / program), *words]
        settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            command, cwd=self.folder, env=settings, check=True, timeout=LIMIT_S,
            capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout


def bare(folder: Path, wheel: Path) -> None:
    environment = Environment(folder, str(wheel))
    for program, *words in BARE:
        environment.run(program, *words)


def local_fleet(folder: Path, wheel: Path) -> None:
    """The README's fleet: up, written to, read, looked at, down."""
    environment = Environment(folder, f"{wheel}[local]")
    environment.run("bookie-operator", "local", "up", "--help")
    try:
        environment.run("bookie-operator", "local", "up", "--dir", "fleet", "--detach")
        with settings_of(environment):
            (folder / "lines").write_text(LINES)
            written = environment.run("bookie", "ledger", "write", "lines", "--lines")
            ledger = written.split("ledger id")[1].split()[0]
            read = environment.run("bookie", "ledger", "read", ledger)
        assert all(line in read for line in LINES.splitlines()), read
        status = environment.run("bookie-operator", "local", "status", "--dir", "fleet")
        assert "4/4 ready" in status, status
    finally:
        environment.run("bookie-operator", "local", "down", "--dir", "fleet")


@contextmanager
def settings_of(environment: Environment) -> Iterator[None]:
    """What `local env` prints for a shell to take, taken."""
    before = dict(os.environ)
    exports = environment.run("bookie-operator", "local", "env", "--dir", "fleet")
    said = subprocess.run(
        ["sh", "-c", f"{exports}\nenv -0"], check=True, capture_output=True, text=True
    ).stdout
    os.environ.update(pair.split("=", 1) for pair in said.split("\0") if "=" in pair)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def main(dist: Path) -> int:
    [wheel] = dist.resolve().glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        for claim in (bare, local_fleet):
            began = time.monotonic()
            try:
                claim(Path(folder) / claim.__name__, wheel)
            except subprocess.CalledProcessError as error:
                print(f"FAILED: {claim.__name__}: {error}\n{error.stdout}{error.stderr}")
                return 1
            print(f"{claim.__name__}: ok in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
