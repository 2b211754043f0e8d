"""Every command that a runbook gives is one that there is, with the options that it has."""

import re
import shlex
from pathlib import Path
from typing import Final

import click
import pytest
from bookie.cli.main import main as bookie
from bookie_operator.kubectl.__main__ import plugin as kubectl_bookie
from commands import parse

RUNBOOKS: Final = Path(__file__).parents[1] / "docs" / "runbooks"
PAGES: Final = sorted(RUNBOOKS.glob("Bookie*.md"))
SECTIONS: Final = ["## Look", "## Do", "## Over when"]


def commands(text: str) -> list[list[str]]:
    """Our own, in blocks and in the text, as words behind the program's name."""
    fenced = re.findall(r"^(?:kubectl )?bookie [^\n]+$", text, re.M)
    inline = re.findall(r"`((?:kubectl )?bookie [^`]+)`", text)
    return [shlex.split(command) for command in fenced + inline]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_commands_can_be_given(page: Path) -> None:
    for words in commands(page.read_text(encoding="utf-8")):
        program = kubectl_bookie if words[0] == "kubectl" else bookie
        parse(program, words[2:] if words[0] == "kubectl" else words[1:])


@pytest.mark.parametrize("words", ["status --nope", "nosuch", "replace-disk B D --clustr x"])
def test_a_command_that_there_is_not_is_found(words: str) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        parse(kubectl_bookie, words.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_it_says_what_it_means_how_to_look_what_to_do_and_when_it_is_over(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## .*$", text, re.M) == SECTIONS
    assert text.startswith(f"# {page.stem}\n")
