"""Commands that people copy: those of the page and those of the hints parse."""

import re
import shlex
from pathlib import Path

import pytest
from bookie_operator.kubectl.__main__ import plugin
from bookie_operator.kubectl.hints import hints
from bookie_operator.kubectl.options import Exit
from kubectl_lab import cluster_of
from operator_scenes import at

PAGE = (Path(__file__).parents[3] / "docs/kubectl-bookie.md").read_text(encoding="utf-8")
EXAMPLES = sorted(set(re.findall(r"^(?:\$ )?\s*kubectl bookie (?!--help)(.+)$", PAGE, re.M)))
HINTED = [
    shlex.join(hint.command[1:])
    for state in ("limbo", "approval", "blocked")
    for hint in hints(cluster_of(state), now=at(0))
    if hint.command[:1] == ("bookie",)
]


@pytest.mark.parametrize("line", [*EXAMPLES, *HINTED])
def test_an_example_parses(line: str) -> None:
    name, *words = shlex.split(line)
    plugin.commands[name].make_context(name, words)


def test_every_command_is_documented() -> None:
    assert not [name for name in plugin.commands if f"kubectl bookie {name}" not in PAGE]


def test_every_exit_code_is_documented() -> None:
    assert all(f"| {code.value} |" in PAGE for code in Exit)
