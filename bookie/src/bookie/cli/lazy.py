"""Command groups that import a command's module only when it runs.

`bookie serve` is a long-running process: it must not load the client, repair and audit.
"""

import importlib
import os
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from bookie.extras import needs_extra
from bookie.program import Program


class LazyGroup(click.Group):
    """`lazy`: name -> ("module:attribute", one line of help)."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return None
        module, _, attribute = self._lazy[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete as click does, but without importing the commands' modules: a person waits."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self._lazy[name][1]) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._lazy[name][1]) for name in self.list_commands(ctx)])


class LazyProgram(LazyGroup, Program):
    """The outermost group."""

    def invoke(self, ctx: click.Context) -> Any:
        # Keeps grpc from writing to the terminal: we get its errors as exceptions anyway.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            sentence = needs_extra(error, "bookie")
            if not sentence:
                raise
            raise click.ClickException(sentence) from None
