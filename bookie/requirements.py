"""The packages of an image, as constraints.txt locks them: versions and hashes, for pip.

`python requirements.py bookie repair` prints those of two parts. In a build stage of its own: as
long as these lines stay the same, the layer of dependencies does. Where an index has the source of
a package alone, `make wheels` checks that and builds the wheel, whose own hash is in built.txt.
"""

import re
import sys
from pathlib import Path

LOCKED = re.compile(r"^(\S+==\S+)( (?:\\\n    --hash=\S+ ?)+)\n    # (.*)\n", re.M)
BUILT = Path("/wheels/built.txt")


def wanted(text: str, parts: set[str], built: str = "") -> str:
    """`built`: lines of a package and a hash more."""
    more = dict(line.split(maxsplit=1) for line in built.splitlines())
    return "".join(
        f"{package}{hashes}" + (f" \\\n    {more[package]}" if package in more else "") + "\n"
        for package, hashes, of in LOCKED.findall(text)
        if parts & set(of.split())
    )


if __name__ == "__main__":
    known = BUILT.read_text(encoding="utf-8") if BUILT.exists() else ""
    locked = Path("constraints.txt").read_text(encoding="utf-8")
    print(wanted(locked, set(sys.argv[1:]), known), end="")
