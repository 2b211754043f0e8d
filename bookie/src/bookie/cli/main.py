"""The `bookie` command: names its commands and loads the module of the one that is asked for.

A bookie process is started by this command: it must not carry the client, repair and audit with it.
"""

import importlib
from typing import Final

import click

COMMANDS: Final = {
    "audit": ("bookie.cli.checks", "audit"),
    "cookie": ("bookie.cli.cookies", "cookie_group"),
    "index": ("bookie.cli.folders", "index_group"),
    "inspect": ("bookie.cli.folders", "inspect"),
    "ledger": ("bookie.cli.checks", "ledger_group"),
    "limbo": ("bookie.cli.checks", "limbo"),
    "repair": ("bookie.cli.checks", "repair"),
    "serve": ("bookie.cli.serve", "serve"),
}
"""Name -> module and command. `ledger` lives in `ledgers`; `checks` adds accept-loss to it."""


class LazyGroup(click.Group):
    """Imports a command's module when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bookie-operator")
def main() -> None:
    """Bookies that are safe without a journal: serve, look, audit, repair."""
