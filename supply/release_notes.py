"""The sections of CHANGELOG.md: what is unreleased, and the notes of a release.

`python supply/release_notes.py 0.2.0` prints what that release brings; of a version that has no
section yet, what is unreleased.
"""

import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
UNRELEASED: Final = "Unreleased"
HEADING: Final = re.compile(r"^## (Unreleased|\d\S*)(?: - (\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)
"""`## Unreleased`, or `## 0.2.0 - 2026-12-01`."""


def sections(changes: str) -> dict[str, str]:
    """Text below each heading, by its version, newest first. ValueError: a heading of other shape
    or twice."""
    strange = [
        line
        for line in re.findall(r"^## .*$", changes, re.MULTILINE)
        if not HEADING.fullmatch(line)
    ]
    found = list(HEADING.finditer(changes))
    names = [heading[1] for heading in found]
    if strange or len(set(names)) < len(names):
        raise ValueError(f"headings of CHANGELOG.md: {', '.join(strange) or names}")
    ends = [heading.start() for heading in found[1:]] + [len(changes)]
    pairs = zip(found, ends, strict=True)
    return {heading[1]: changes[heading.end() : end].strip() for heading, end in pairs}


def dates(changes: str) -> dict[str, str]:
    """When each release was made, as its heading says; empty = it says nothing."""
    return {heading[1]: heading[2] or "" for heading in HEADING.finditer(changes)}


def released(changes: str, version: str, date: str) -> str:
    """The file's text once all that is unreleased is in this version. The same when it has a
    section already."""
    if version in sections(changes):
        return changes
    return changes.replace(f"## {UNRELEASED}\n", f"## {UNRELEASED}\n\n## {version} - {date}\n", 1)


def notes(changes: str, version: str) -> str:
    found = sections(changes)
    return found.get(version) or found[UNRELEASED]


if __name__ == "__main__":
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    print(notes(text, sys.argv[1]))
