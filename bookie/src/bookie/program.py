"""How a program of ours ends: what hinders it from outside is a sentence and an exit code.

That is Ctrl-C, a reader of its output that has gone, output that cannot be written, and a file or
folder that cannot be used. Any other exception is a bug, and its traceback is shown.
"""

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

import click

from bookie.exit_codes import Exit

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Program(click.Group):
    """The outermost group of a program's commands."""

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if sys.stdout is None:  # closed by who started it: the answer goes nowhere
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the end
        try:
            code = super().main(args, prog_name, standalone_mode=False, **extra)
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            code = Exit.INTERRUPTED
        except OSError as error:
            code = _show(error)
        if not standalone_mode:
            return code
        sys.exit(code if isinstance(code, int) else Exit.OK)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _end_without_reader()


def _show(error: OSError) -> Exit:
    """Say what cannot be written or used; other errors of the system are raised again."""
    if error.filename is not None:
        why = (
            f"cannot use {error.filename}: {error.strerror}; expected a file or folder that this "
            "user may read and write"
        )
    elif error.errno in _NO_ROOM:
        why = f"cannot write the output: {error.strerror}; make room, or write it elsewhere"
        _drop_output()
    else:
        raise error
    click.echo(f"error: {why}", err=True)
    return Exit.ERROR


def _end_without_reader() -> NoReturn:
    _drop_output()
    raise click.exceptions.Exit(Exit.CLOSED_PIPE)


def _drop_output() -> None:
    """Send buffered output to /dev/null, so that Python prints no error about it at exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
