"""Options that commands share, and how an error becomes a sentence and an exit code."""

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn, TypeVar

import click

from bookie.cli.output import FORMATS
from bookie.errors import (
    BadRequestError,
    BookieError,
    BootRefusedError,
    UnavailableError,
    UndecidableError,
)
from bookie.exit_codes import Exit
from bookie.metadata.opening import open_store
from bookie.metadata.store import MetadataStore

Command = TypeVar("Command", bound=Callable[..., Any])

_SAID_BETTER: Final = frozenset({"bookie.boot.boot", "bookie.metadata.session"})
"""Loggers that stay silent: a command reports the same in its own words, or nobody needs it."""
LEDGER_ID_MAX: Final = 2**63 - 1

metadata_option = click.option(
    "--metadata",
    envvar="BOOKIE_METADATA",
    show_envvar=True,
    required=True,
    metavar="URL",
    help="Address of the metadata store, such as zk://127.0.0.1:2181/ledgers.",
)
output_option = click.option(
    "--output",
    type=FORMATS,
    default="table",
    show_default=True,
    help="Print a table for people or JSON for programs.",
)
bookies_option = click.option(
    "--bookie",
    "bookies",
    multiple=True,
    metavar="ID",
    help="Ask only this bookie; may be given again.",
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
ledger_argument = click.argument("ledger_id", type=click.IntRange(0, LEDGER_ID_MAX))


def password_option(command: Command) -> Command:
    """Add `--password`; the command gets it as bytes, also those that are no text."""
    return click.option(
        "--password",
        default="",
        envvar="LEDGER_PASSWORD",
        show_envvar=True,
        callback=lambda _ctx, _option, value: value.encode("utf-8", "surrogateescape"),
        help="The ledger's password.",
    )(command)


@asynccontextmanager
async def store_at(url: str) -> AsyncIterator[MetadataStore]:
    """Open the metadata store at this URL; it is closed at the end of the block."""
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()


async def cluster_id(store: MetadataStore, url: str) -> str:
    """The instance id of the cluster at this URL; UnavailableError if there is no cluster.

    Where there is none, as after a typing error in the path, lists are empty, which says nothing
    about anybody's bookies.
    """
    found = await store.instance_id()
    if found is None:
        raise UnavailableError(f"there is no cluster at {url}: correct the path in the URL")
    return found


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a command's coroutine; a known error ends the program with its sentence and code."""
    keep_libraries_quiet()
    try:
        return asyncio.run(_until_terminated(work))
    except BookieError as error:
        fail(error)


async def _until_terminated(work: Coroutine[Any, Any, Any]) -> Any:
    """A SIGTERM cancels the work, as Ctrl-C does, so that it can say what it leaves behind."""
    task, terminated = asyncio.current_task(), asyncio.Event()
    assert task is not None

    def terminate() -> None:
        terminated.set()
        task.cancel()

    if threading.current_thread() is threading.main_thread():  # no other one hears signals
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
    try:
        return await work
    except asyncio.CancelledError:
        if not terminated.is_set():
            raise
        raise click.exceptions.Exit(Exit.TERMINATED) from None


def keep_libraries_quiet() -> None:
    """Show a person our own warnings, but not those of libraries, such as about their retries."""
    handler = logging.StreamHandler()
    handler.addFilter(
        lambda record: record.name.startswith("bookie.") and record.name not in _SAID_BETTER
    )
    logging.basicConfig(level=logging.WARNING, format="warning: %(message)s", handlers=[handler])


def fail(error: BookieError | str, code: Exit | None = None) -> NoReturn:
    """Print what went wrong on stderr and exit with this code, or with that of the error's
    class."""
    click.echo(f"error: {error}", err=True)
    raise click.exceptions.Exit(code_of(error) if code is None else code)


def code_of(error: BookieError | str) -> Exit:
    """The exit code that fits an error; 1 for one that has none of its own."""
    if isinstance(error, BadRequestError):
        return Exit.USAGE
    if isinstance(error, UndecidableError | UnavailableError):
        return Exit.UNDECIDED
    return Exit.REFUSED if isinstance(error, BootRefusedError) else Exit.ERROR


def ask(question: str, *, yes: bool) -> None:
    """Ask a person to confirm, unless they passed --yes; end the program if they do not.

    It waits for the answer, so call it outside of any event loop.
    """
    if yes:
        return
    click.echo(f"{question} [y/N] ", nl=False, err=True)
    answer = _typed()
    if not answer:
        click.echo(err=True)
        fail("nobody answered: pass --yes to go on without being asked", Exit.USAGE)
    if answer.strip().lower() not in ("y", "yes"):
        click.echo("nothing was changed", err=True)
        raise click.exceptions.Exit(Exit.ERROR)


def _typed() -> str:
    """A line of standard input, whatever its bytes; empty at the end, and if it was closed."""
    if sys.stdin is None:
        return ""
    return sys.stdin.buffer.readline().decode(errors="replace")
