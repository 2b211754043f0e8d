"""Whether images of this tree may be released: the base by its digest, the tree as committed.

`python supply/release.py --digest sha256:... --tag 0.1.0` says what lacks, and ends with 1.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def obstacles(digest: str, tag: str, *, version: str, changes: str) -> list[str]:
    """In sentences. `changes`: what git says that is not committed."""
    found = []
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        found.append(
            f"BASE_DIGEST is {digest!r}, expected sha256: and 64 hex digits, as the registry of "
            "the base image names them (docker buildx imagetools inspect python:3.11-slim)"
        )
    if tag != version:
        found.append(f"TAG is {tag!r}, expected {version!r}, the version in pyproject.toml")
    if changes:
        found.append(f"these files are not as they were committed: {' '.join(changes.split())}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--digest", required=True)
    parser.add_argument("--tag", required=True)
    asked = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    git = ["git", "status", "--porcelain"]
    changes = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = obstacles(asked.digest, asked.tag, version=project["version"], changes=changes)
    for sentence in found:
        print(sentence, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
