"""`kubectl-bookie` as one file for each platform: the plugin, and the few packages that it imports.

`python supply/single_file.py --wheel FILE --out FOLDER` writes kubectl-bookie-OS-ARCH.tar.gz, with
that file and the license, for every platform of `PLATFORMS` and every Python of `PYTHONS`. What is
in it is locked in constraints.txt (part `plugin`) and comes from the index of packages, for other
platforms than this one as well: nothing is compiled here, and nothing of another platform is run.
shiv packs it: pydantic's core is compiled, and Python loads such a module from a file alone, so a
plain zipapp would not do; shiv unpacks itself once, into ~/.shiv.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from archives import archive_of

ROOT: Final = Path(__file__).parents[1]
NAME: Final = "kubectl-bookie"
ENTRY: Final = "bookie_operator.kubectl.__main__:main"
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
"""A compiled module of each lies beside the others: its name says which it is for."""
PREAMBLE: Final = f"""\
import sys

found = "%d.%d" % sys.version_info[:2]
if found not in {PYTHONS}:
    expected = "{", ".join(PYTHONS)}"
    sys.exit("error: python3 is " + found + ", expected " + expected + ": put one first on PATH")
"""
"""What runs before the plugin is imported, in words that any Python 3 understands: with another one
it would end in a traceback about our own modules."""
PLATFORMS: Final = {
    "linux-amd64": "x86_64-manylinux_2_28",
    "linux-arm64": "aarch64-manylinux_2_28",
    "darwin-amd64": "x86_64-apple-darwin",
    "darwin-arm64": "aarch64-apple-darwin",
}
"""As krew and Go name them, and as uv does. Linux with glibc 2.28 or newer, so not Alpine."""


def put_packages(folder: Path, requirements: Path, platform: str) -> None:
    """What the plugin imports, of this platform, for every Python."""
    for python in PYTHONS:
        with tempfile.TemporaryDirectory() as found:
            command = [
                str(Path(sys.executable).with_name("uv")),
                *("pip", "install", "--quiet", "--no-deps", "--no-build"),
                *("--require-hashes", "--requirements", str(requirements), "--target", found),
                *("--python-platform", platform, "--python-version", python),
            ]
            subprocess.run(command, check=True)
            shutil.copytree(found, folder, dirs_exist_ok=True)


def put_ours(folder: Path, wheel: Path) -> None:
    """Our own packages; manual pages are no use in it."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [n for n in archive.namelist() if ".data/" not in n])


def pack(folder: Path, target: Path) -> None:
    """One file of all that is in the folder: the same bytes whenever it is made."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
        elif path.name in ("RECORD", "INSTALLER", "REQUESTED", "uv_cache.json", ".lock"):
            path.unlink()  # who installed it, and when
        else:
            path.chmod(0o644)
    shutil.rmtree(folder / "bin", ignore_errors=True)
    preamble = folder.with_name("preamble.py")
    preamble.write_text(PREAMBLE, encoding="utf-8")
    command = ["--site-packages", str(folder), "--entry-point", ENTRY, "--reproducible"]
    command += ["--compressed", "--python", "/usr/bin/env python3", "--preamble", str(preamble)]
    command += ["--output-file", str(target)]
    subprocess.run([sys.executable, "-m", "shiv", *command], check=True, capture_output=True)


def locked() -> str:
    """Lines of constraints.txt for pip and uv: what the plugin brings."""
    command = [sys.executable, str(ROOT / "bookie" / "requirements.py"), "plugin"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def build(wheel: Path, out: Path, platforms: Iterable[str], moment: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for platform in platforms:
        with tempfile.TemporaryDirectory() as work:
            folder, packed = Path(work) / "packages", Path(work) / NAME
            requirements = Path(work) / "requirements.txt"
            requirements.write_text(locked(), encoding="utf-8")
            folder.mkdir()
            put_packages(folder, requirements, PLATFORMS[platform])
            put_ours(folder, wheel)
            pack(folder, packed)
            files = {
                NAME: (packed.read_bytes(), 0o755),
                "LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644),
            }
            target = out / f"{NAME}-{platform}.tar.gz"
            target.write_bytes(archive_of(files, moment))
            print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--platform", action="append", choices=PLATFORMS)
    asked = parser.parse_args()
    moment = int(os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800"))
    build(asked.wheel, asked.out, asked.platform or PLATFORMS, moment)


if __name__ == "__main__":
    main()
