"""`python tests/house/prose.py`: what proselint has against the prose of our pages.

Only sentences are looked at: code, tables, headings, quotations and targets of links are hidden,
line by line, so that a finding names the line of the page.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

from proselint.checks import __register__ as every_check
from proselint.config import DEFAULT, Config
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

ROOT: Final = Path(__file__).parents[2]
OFF: Final = {
    "typography": "pages are typed: straight quotes, three dots",
    "needless_variants": "words of the field: an applier, an adaptor",
    "dates_times.dates.dash_and_from": "it takes every number for a year, and commas for dashes",
    "misc.phrasal_adjectives.ly": "family is no adverb",
}
"""Kinds of checks that are left out, and why."""
FENCE: Final = "```"
CODE: Final = re.compile(r"`[^`]*`")
NAME: Final = re.compile(r'"[^"]*"')
"""Somebody's words, or the name of a planted bug."""
TARGET: Final = re.compile(r"\]\([^)]*\)")
"""Of a link; its words are read."""
CONFIG: Final = Config(
    max_errors=DEFAULT["max_errors"],
    checks=dict.fromkeys(OFF, False) | {k: v for k, v in DEFAULT["checks"].items() if k not in OFF},
)
"""The first that fits a check decides."""

CheckRegistry().register_many(every_check)


def prose_of(text: str) -> str:
    """As many lines as the page has."""
    is_code, kept = False, []
    for line in text.splitlines():
        is_fence = line.lstrip().startswith(FENCE)
        is_code = is_code is not is_fence
        is_sentence = not (is_code or is_fence or line.lstrip().startswith(("|", "#")))
        kept.append(line if is_sentence else "")
    whole, number = "\n".join(kept), count()
    for hidden in (CODE, NAME, TARGET):  # each by a word of its own: none is said twice
        whole = hidden.sub(lambda found: f"v{next(number)}w" + "\n" * found[0].count("\n"), whole)
    return whole


def findings(page: Path) -> Iterator[str]:
    """`line: check: message` of each."""
    found = LintFile(page.name, prose_of(page.read_text(encoding="utf-8"))).lint(CONFIG)
    for one in found:
        yield f"{one.pos[0]}: {one.check_result.check_path}: {one.check_result.message}"


def main() -> int:
    """1 when there is anything."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    pages = listed.stdout.split("\0")[:-1]
    found = [f"{page}:{one}" for page in pages for one in findings(ROOT / page)]
    print("\n".join(found) or "prose: nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
