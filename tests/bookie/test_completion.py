"""Completion on Tab: as a shell asks for it, and without loading what nobody runs."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from bookie.cli.main import COMMANDS
from bookie.cli.main import main as bookie
from bookie.completion import SHELLS
from bookie_operator.__main__ import main as bookie_operator
from click.testing import CliRunner

PROGRAMS: dict[str, click.Group] = {"bookie": bookie, "bookie-operator": bookie_operator}
TAB = """
eval "$({program} completion bash)"
COMP_WORDS=({program} {words} "{last}") COMP_CWORD={place}
_{function}_completion {program}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def on_tab(program: str, *words: str) -> list[str]:
    """What bash would offer for the last word."""
    *before, last = words
    script = TAB.format(
        program=program,
        words=" ".join(before),
        last=last,
        place=len(words),
        function=program.replace("-", "_"),
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    answer = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("bookie", "led"), ["ledger"]),
        (("bookie", "ledger", "re"), ["read", "recover", "retract-loss"]),
        (("bookie", "audit", "--ht"), ["--html"]),
        (("bookie-operator", "local", "s"), ["status", "swap-disks"]),
    ],
)
def test_bash_offers_what_fits(words: tuple[str, ...], offered: list[str]) -> None:
    assert on_tab(*words) == offered


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_shell_gets_a_script_that_calls_the_program(program: str, shell: str) -> None:
    made = CliRunner().invoke(PROGRAMS[program], ["completion", shell], prog_name=program)
    assert made.exit_code == 0
    assert f"_{program.replace('-', '_').upper()}_COMPLETE={shell}_complete" in made.output


def test_another_shell_is_refused_with_those_that_there_are() -> None:
    made = CliRunner().invoke(bookie, ["completion", "tcsh"])
    assert (made.exit_code, all(shell in made.output for shell in SHELLS)) == (2, True)


def test_names_of_commands_are_offered_without_their_modules() -> None:
    look = "import sys; from bookie.cli.main import main; import click\n"
    look += "found = main.shell_complete(click.Context(main), '')\n"
    look += "print(*[one.value for one in found])\n"
    look += "assert not {'bookie.cli.audit', 'bookie.cli.serve', 'grpc'} & set(sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.split() == sorted(COMMANDS)
