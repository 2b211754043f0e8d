"""Which commit each release is made of, and the programs and sources of a release, made of it.

A tree is tried as an upgrade from the release before it (`make test-upgrade`, story u of e2e). Code
of that release comes from the history of this clone: nothing is downloaded, and what runs is what
that commit says. Packages of others are those of this tree's environment.

`python supply/releases.py` prints the version of that release, `... source` the folder of a clone
of its commit, and `... python` the Python that runs its programs.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
RECORD: Final = ROOT / "supply" / "releases.toml"
FOLDER: Final = ROOT / "build" / "releases"


class NoHistoryError(Exception):
    """This clone lacks the release's commit, as one made with --depth does."""


def releases() -> dict[str, str]:
    """Commits by version, oldest first."""
    found: dict[str, str] = tomllib.loads(RECORD.read_text(encoding="utf-8"))
    return found


def newest() -> str:
    """The version that this tree follows."""
    return list(releases())[-1]


def added(record: str, version: str, revision: str) -> str:
    """The record's text with one more release. ValueError: it is there, or is no commit."""
    if version in tomllib.loads(record):
        raise ValueError(f"{version} is in {RECORD.name}, expected a release that is not")
    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        raise ValueError(f"the commit of {version} is {revision!r}, expected 40 hex digits")
    return f'{record}"{version}" = "{revision}"\n'


def source(version: str) -> Path:
    """A clone of this repository at the release's commit, made once."""
    revision, folder = releases()[version], FOLDER / version / "source"
    has_it = subprocess.run(
        ("git", "cat-file", "-e", f"{revision}^{{commit}}"), cwd=ROOT, capture_output=True,
        check=False,
    )  # fmt: skip
    if has_it.returncode:
        raise NoHistoryError(
            f"the commit of {version}, {revision[:12]}, is not in this clone: git fetch --unshallow"
        )
    if _head(folder) != revision:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        clone = ("git", "clone", "--quiet", "--shared", "--no-checkout")
        subprocess.run([*clone, str(ROOT), str(folder)], check=True)
        checkout = ("git", "-C", str(folder), "checkout", "--quiet", "--detach", revision)
        subprocess.run(checkout, check=True)
    return folder


def python(version: str) -> Path:
    """An environment with the release's wheel, made once: its programs lie beside this Python."""
    home = FOLDER / version / "environment"
    found = home / "bin" / "python"
    made = home / releases()[version]
    if made.exists():
        return found
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home)
    # This tree is installed there by a .pth file, which only the environment's own Python obeys:
    # on the path of another Python the folder holds packages of others, and none of ours.
    _packages(found).joinpath("others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    wheel = _wheel(source(version), home)
    pip = (sys.executable, "-m", "pip", "--python", str(found), "install", "--quiet", "--no-deps")
    subprocess.run([*pip, str(wheel)], check=True)
    for package in ("bookie", "bookie_operator"):
        runs = _says(found, f"import {package}; print({package}.__file__)")
        if not Path(runs).is_relative_to(home):
            raise RuntimeError(f"{found} runs the {package} of {runs}, expected one below {home}")
    made.touch()
    return found


def _wheel(tree: Path, folder: Path) -> Path:
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    subprocess.run(build, cwd=tree, check=True, capture_output=True, env=environment())
    [wheel] = folder.glob("*.whl")
    return wheel


def _packages(interpreter: Path) -> Path:
    return Path(_says(interpreter, "import sysconfig; print(sysconfig.get_path('purelib'))"))


def _says(interpreter: Path, words: str) -> str:
    command = [str(interpreter), "-c", words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment())
    return done.stdout.strip()


def environment() -> dict[str, str]:
    """Of a release's programs: a path to modules of this tree would put these before its own."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _head(folder: Path) -> str:
    """The commit that is checked out there; empty: none is."""
    if not (folder / ".git").exists():
        return ""
    asked = ("git", "-C", str(folder), "rev-parse", "HEAD")
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    asked = sys.argv[1:] or ["version"]
    try:
        [answer] = ({"version": str, "source": source, "python": python}[one] for one in asked)
        print(answer(newest()))
    except NoHistoryError as error:
        sys.exit(str(error))
