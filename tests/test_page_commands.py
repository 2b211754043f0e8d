"""Every command of ours in a block of code on a page is one that there is, with its options."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest
from bookie.cli.main import main as bookie
from bookie_operator.__main__ import main as bookie_operator
from bookie_operator.kubectl.__main__ import plugin as kubectl_bookie
from commands import parse
from pages import ROOT

PAGES: Final = ("*.md", "docs/*.md", "docs/*/*.md", "e2e/**/*.md", "tests/**/*.md")
NOT_OURS: Final = {"CHANGELOG.md", "docs/decisions"}
"""They keep the words of their day."""
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL: Final = ("", "console", "sh")
"""What a block of commands says that it is."""
COMMENT: Final = re.compile(r"\s+#\s.*$", re.MULTILINE)
PROGRAMS: Final[dict[str, click.Command]] = {
    "kubectl bookie": kubectl_bookie,
    "bookie-operator": bookie_operator,
    "bookie": bookie,
}
LEAST: Final = 100
"""There are more: fewer means that they are not found any more."""


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """A program of ours, or make, and its words."""
    shell = (block for kind, block in BLOCK.findall(text) if kind in SHELL)
    blocks = "".join(shell).replace("\\\n", " ")
    for line in COMMENT.sub("", blocks).splitlines():
        for command in re.split(r"\s*(?:;|&&|\||\$\(|\)\"?)(?:\s+|$)?", line.removeprefix("$ ")):
            for program in (*PROGRAMS, "make"):
                if command.startswith(f"{program} "):
                    yield program, shlex.split(command.removeprefix(program))
                    break


def pages() -> Iterator[Path]:
    for page in sorted(found for pattern in PAGES for found in ROOT.glob(pattern)):
        name = page.relative_to(ROOT)
        if not {str(name), str(name.parent)} & NOT_OURS:
            yield page


FOUND: Final = [(page, *found) for page in pages() for found in commands(page.read_text())]


def test_commands_are_found_on_the_pages() -> None:
    assert len(FOUND) > LEAST
    lines = '$ eval "$(bookie-operator local env)"  # a\nls && bookie audit \\\n--html x | less'
    asked = list(commands(f"```\n{lines}\n```\n"))
    assert asked == [("bookie-operator", ["local", "env"]), ("bookie", ["audit", "--html", "x"])]


@pytest.mark.parametrize(
    ("page", "program", "words"), FOUND, ids=lambda of: of.stem if isinstance(of, Path) else None
)
def test_a_command_on_a_page_can_be_given(page: Path, program: str, words: list[str]) -> None:
    if program == "make":
        targets = [word for word in words if re.fullmatch(r"[a-z0-9-]+", word)]
        rules = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert [t for t in targets if not re.search(rf"^{t}:", rules, re.MULTILINE)] == []
    elif words != ["--help"]:
        parse(PROGRAMS[program], words)
