"""docs/cli.md names every command with an example that parses, and every exit code."""

import re
import shlex
from pathlib import Path

import click
import pytest
from bookie.cli.main import main as bookie
from bookie.exit_codes import Exit
from bookie_operator.__main__ import main as bookie_operator
from cli_lab import command_paths

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
EXAMPLES = [
    line
    for block in re.findall(r"^```\n(.*?)^```$", PAGE, flags=re.M | re.S)
    for line in block.splitlines()
]
PROGRAMS: dict[str, click.Group] = {"bookie": bookie, "bookie-operator": bookie_operator}


def leaf(program: click.Group, words: list[str]) -> tuple[click.Command, list[str]]:
    """The command these words name, and the words that are left for it."""
    command: click.Command = program
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, words
        command, words = found, words[1:]
    return command, words


def documented(program: str, paths: list[tuple[str, ...]]) -> None:
    for path in paths:
        words = " ".join(path)
        assert f"\n### {words}\n" in PAGE, words
        assert any(line.startswith(f"{program} {words} ") for line in EXAMPLES) or (
            f"{program} {words}" in EXAMPLES
        ), words


def test_every_command_of_bookie_has_an_example() -> None:
    documented("bookie", [path for path, command in command_paths(bookie) if is_leaf(command)])


def test_every_command_of_the_local_platform_has_an_example() -> None:
    paths = command_paths(bookie_operator)
    documented("bookie-operator", [p for p, c in paths if is_leaf(c) and p[0] == "local"])


def is_leaf(command: click.Command) -> bool:
    return not isinstance(command, click.Group)


def test_no_command_is_documented_that_is_not_there() -> None:
    known = {" ".join(p) for group in PROGRAMS.values() for p, _command in command_paths(group)}
    headings = set(re.findall(r"^### (.*)$", PAGE, flags=re.M))
    assert headings <= known


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_parses(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, *words = shlex.split(line)
    monkeypatch.setenv("BOOKIE_METADATA", "memory://x")
    monkeypatch.chdir(ROOT)
    command, rest = leaf(PROGRAMS[program], words)
    with command.make_context(command.name, rest):
        pass


def test_every_exit_code_is_documented() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, flags=re.M)}
    assert codes == {int(code) for code in Exit}
