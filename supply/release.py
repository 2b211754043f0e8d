"""Whether a release may be made of this tree: one version everywhere, the base by its digest, all
of it committed, and a section of the change log.

`python supply/release.py --version 0.1.0 --digest sha256:... --source URL` says what lacks, and
ends with 1. With --dry a trial is made of the tree as it is: then only the version must be right,
and what else lacks is said.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import release_notes
import release_version

ROOT: Final = Path(__file__).parents[1]


def out_of_step(version: str, found: Iterable[tuple[str, str]]) -> list[str]:
    """Sentences about places with another version. `found`: place and version."""
    others = sorted({(name, at) for name, at in found if at != version})
    return [
        f"VERSION is {version!r}, and {name} has {at}: run make version VERSION={version}"
        for name, at in others
    ]


def obstacles(digest: str, source: str, version: str, *, log: str, changes: str) -> list[str]:
    """In sentences. `log`: the change log; `changes`: what git says that is not committed."""
    found = []
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        found.append(
            f"BASE_DIGEST is {digest!r}, expected sha256: and 64 hex digits, as the registry of "
            "the base image names them (docker buildx imagetools inspect python:3.11-slim)"
        )
    if not source.startswith("https://"):
        found.append(
            f"SOURCE is {source!r}, expected the https:// URL of the repository: where the files "
            "of the release will be, as krew's manifest has to say"
        )
    if not release_notes.dates(log).get(version):
        found.append(
            f"CHANGELOG.md has no section `## {version} - DATE`: run make version VERSION={version}"
        )
    if changes:
        found.append(f"these files are not as they were committed: {' '.join(changes.split())}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--digest", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--dry", action="store_true")
    asked = parser.parse_args()
    git = ["git", "status", "--porcelain"]
    changes = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    wrong = out_of_step(asked.version, release_version.found())
    lacking = obstacles(asked.digest, asked.source, asked.version, log=log, changes=changes)
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    for sentence in lacking:
        print(f"a release would be refused: {sentence}" if asked.dry else sentence, file=sys.stderr)
    return int(bool(wrong or (lacking and not asked.dry)))


if __name__ == "__main__":
    sys.exit(main())
