"""`kubectl_complete-bookie`: kubectl runs it on Tab behind `kubectl bookie`, and shows what it
prints: a line for each completion, its help behind a tab, and a last line with a directive.

https://kubernetes.io/docs/reference/kubectl/generated/kubectl_plugin/
"""

import sys
from typing import Final

import click
from click.shell_completion import ShellComplete

from bookie_operator.kubectl.__main__ import plugin

NO_FILES: Final = ":4"
"""Cobra's ShellCompDirectiveNoFileComp: no names of files beside them."""


def completions(words: list[str]) -> list[str]:
    """What may stand in the place of the last word, the one under the cursor, with its help."""
    *before, incomplete = words or [""]
    complete = ShellComplete(plugin, {}, "kubectl bookie", "")
    found = complete.get_completions(before, incomplete)
    return [f"{one.value}\t{one.help}" if one.help else one.value for one in found]


def main() -> None:
    for line in completions(sys.argv[1:]):
        click.echo(line)
    click.echo(NO_FILES)
