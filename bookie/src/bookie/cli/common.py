"""Options that commands share, and how an error becomes a sentence and an exit code."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import click

from bookie.cli.exit_codes import Exit
from bookie.metadata.opening import open_store
from bookie.metadata.store import MetadataStore
from bookie.protocol.errors import (
    BadRequestError,
    BookieError,
    BootRefusedError,
    UnavailableError,
    UndecidableError,
)

metadata_option = click.option(
    "--metadata",
    envvar="BOOKIE_METADATA",
    required=True,
    metavar="URL",
    help="Metadata store, such as zk://127.0.0.1:2181/ledgers (or BOOKIE_METADATA).",
)
output_option = click.option(
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="A table for people or JSON for programs.",
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@asynccontextmanager
async def store_at(url: str) -> AsyncIterator[MetadataStore]:
    """The metadata store of this URL, closed at the end."""
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a command's coroutine; a known error ends the program with its sentence and code."""
    try:
        return asyncio.run(work)
    except BookieError as error:
        fail(error)


def fail(error: BookieError) -> NoReturn:
    """Say what went wrong on stderr and exit with the code that fits."""
    click.echo(f"error: {error}", err=True)
    raise click.exceptions.Exit(_code(error))


def _code(error: BookieError) -> Exit:
    if isinstance(error, BadRequestError):
        return Exit.USAGE
    if isinstance(error, UndecidableError | UnavailableError):
        return Exit.UNDECIDED
    return Exit.REFUSED if isinstance(error, BootRefusedError) else Exit.ERROR
