"""`completion SHELL`: prints the script with which a shell completes a program's words on Tab."""

from typing import Final

import click
from click.shell_completion import get_completion_class

SHELLS: Final = ("bash", "fish", "zsh")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes commands and options on Tab.

    \b
    bash, in ~/.bashrc:  eval "$(PROGRAM completion bash)"
    zsh, in ~/.zshrc:    eval "$(PROGRAM completion zsh)"
    fish:                PROGRAM completion fish > ~/.config/fish/completions/PROGRAM.fish
    """
    root = context.find_root()
    program = root.info_name or ""
    made = get_completion_class(shell)
    assert made is not None, f"click knows {shell}"
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"  # the one that click reads
    click.echo(made(root.command, {}, program, variable).source())
