"""`bookie ledger write|read|tail`: write entries to a ledger and read them."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

import click

from bookie.cli.common import (
    ledger_argument,
    output_option,
    password_option,
    run,
)
from bookie.cli.ledgers import (
    ClusterAddress,
    LedgerShape,
    cluster_options,
    new_ledger,
    opened,
    shape_options,
)
from bookie.cli.output import entry_rows, progress, show_new_ledger
from bookie.client.reader import LedgerReader
from bookie.client.writer import LedgerWriter
from bookie.errors import BookieError, NoSuchEntryError
from bookie.frames.frame import FRAME_BYTES_MAX
from bookie.ids import NO_ENTRY, EntryId, LedgerId

PIECE_BYTES: Final = 64 * 1024
"""Size of the entries that `write` makes without --lines, and of one read of its input."""

first_option = click.option(
    "--first", default=0, type=click.IntRange(0), show_default=True, help="First entry to read."
)
raw_option = click.option(
    "--raw", is_flag=True, help="Print only the payloads, one directly after the other."
)

Show = Callable[[int, bytes], None]


class Source(click.File):
    """A file to read bytes from; `-` is standard input."""

    def __init__(self) -> None:
        super().__init__("rb")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-" and sys.stdin is None:
            self.fail("standard input is closed: name a file", param, ctx)
        return super().convert(value, param, ctx)


@click.command("write")
@click.argument("source", type=Source(), default="-")
@click.option(
    "--lines", is_flag=True, help="Make one entry of each line, instead of pieces of 64 KiB."
)
@click.option(
    "--keep-open", is_flag=True, help="Do not close the ledger, as if its writer had crashed."
)
@shape_options
@password_option
@cluster_options
@output_option
def write(
    cluster: ClusterAddress,
    output: str,
    source: BinaryIO,
    lines: bool,
    keep_open: bool,
    password: bytes,
    shape: LedgerShape,
) -> None:
    """Write SOURCE (default: standard input) into a new ledger; print its id and last entry."""

    async def work() -> dict[str, Any]:
        async with opened(cluster) as (_store, client):
            writer = await new_ledger(client, shape, password=password)
            with _end_reported(writer):
                sizes = await _write_all(writer, source, lines=lines)
                last = writer.lac if keep_open else await writer.close()
            return {
                "ledger_id": writer.ledger_id,
                "last_entry_id": last,
                **sizes,
                "state": "OPEN" if keep_open else "CLOSED",
            }

    show_new_ledger(run(work()), output=output)


@contextmanager
def _end_reported(writer: LedgerWriter) -> Iterator[None]:
    """On an error, Ctrl-C or SIGTERM, name the ledger that stays open, so that it can be found."""
    try:
        yield
    except (BookieError, OSError, asyncio.CancelledError):
        click.echo(
            f"ledger {writer.ledger_id} is left open; acknowledged up to entry {writer.lac}",
            err=True,
        )
        raise


async def _write_all(writer: LedgerWriter, source: BinaryIO, *, lines: bool) -> dict[str, int]:
    entries = size = 0
    last = NO_ENTRY
    with progress("entries written", total=None) as meter:
        async for payloads in batches(source, lines=lines):
            await writer.room()
            last = writer.append_many(payloads)
            entries += len(payloads)
            size += sum(map(len, payloads))
            meter.advance(len(payloads))
        if last != NO_ENTRY:
            await writer.wait_acked(last)
    return {"entries": entries, "bytes": size}


async def batches(source: BinaryIO, *, lines: bool) -> AsyncIterator[list[bytes]]:
    """Yield payloads as input arrives: lines without their newline, or pieces of PIECE_BYTES."""
    rest = b""
    async for chunk in _chunks(source):
        rest += chunk
        if lines:
            *batch, rest = rest.split(b"\n")
            if len(rest) > FRAME_BYTES_MAX:
                batch, rest = [*batch, rest], b""  # too long for an entry: the writer says so
        else:
            whole = len(rest) // PIECE_BYTES * PIECE_BYTES
            batch = [rest[at : at + PIECE_BYTES] for at in range(0, whole, PIECE_BYTES)]
            rest = rest[whole:]
        if batch:
            yield batch
    if rest:
        yield [rest]


async def _chunks(source: BinaryIO) -> AsyncIterator[bytes]:
    """Yield bytes as they arrive, until the end of the input.

    Ctrl-C can interrupt this wait for input. It could not interrupt a read in a thread, which would
    then delay the end of the program.
    """
    descriptor: int | None
    try:
        descriptor = source.fileno()
    except OSError:
        descriptor = None  # in memory
    while True:
        if descriptor is not None:
            await _readable(descriptor)
            chunk = _read(descriptor, source.name)
        else:
            chunk = source.read(PIECE_BYTES)
        if not chunk:
            return
        yield chunk


def _read(descriptor: int, name: str) -> bytes:
    try:
        return os.read(descriptor, PIECE_BYTES)
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return  # a regular file is always readable, and cannot be waited for
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


@click.command("read")
@ledger_argument
@first_option
@click.option(
    "--last", type=click.IntRange(0), help="Last entry to read. Default: the last readable one."
)
@raw_option
@password_option
@cluster_options
@output_option
def read(
    cluster: ClusterAddress,
    output: str,
    ledger_id: int,
    first: int,
    last: int | None,
    raw: bool,
    password: bytes,
) -> None:
    """Read entries FIRST to LAST and check the digest of each.

    A ledger that is not closed is read up to the last entry that is known to be acknowledged.
    """
    _check_format(raw, output)
    if last is not None and last < first:
        raise click.UsageError(f"--last is {last}, expected {first} (--first) or more")

    async def work() -> None:
        async with opened(cluster) as (_store, client):
            reader = await client.open_ledger(LedgerId(ledger_id), password=password)
            end = await _end(reader, first=first) if last is None else EntryId(last)
            with (
                progress("entries read", total=end - first + 1, unless_shown=True) as meter,
                _shown(raw, output) as show,
            ):
                async for entry in reader.stream(EntryId(first), end):
                    show(entry.entry_id, entry.payload)
                    meter.advance()

    run(work())


async def _end(reader: LedgerReader, *, first: int) -> EntryId:
    end = await reader.read_lac()
    # Entry 0 is the default, and the first entry that a writer may yet add to an empty ledger.
    if first > max(end, 0):
        raise NoSuchEntryError(reader.ledger_id, EntryId(first), last=end)
    return end


def _check_format(raw: bool, output: str) -> None:
    if raw and output == "json":
        raise click.UsageError("found --raw and --output json, expected one of them")


@contextmanager
def _shown(raw: bool, output: str, *, following: bool = False) -> Iterator[Show]:
    """Give the function that prints an entry. `following`: each entry appears at once."""
    if not raw:
        with entry_rows(output, one_per_line=following) as show:
            yield show
        return
    out = sys.stdout.buffer

    def write_raw(_entry_id: int, payload: bytes) -> None:
        out.write(payload)
        if following:
            out.flush()

    yield write_raw
    out.flush()


@click.command("tail")
@ledger_argument
@first_option
@raw_option
@password_option
@cluster_options
@output_option
def tail(
    cluster: ClusterAddress, output: str, ledger_id: int, first: int, raw: bool, password: bytes
) -> None:
    """Print entries as they are written, until the ledger is closed and all of it was read.

    With --output json, each entry is one JSON object on one line.
    """
    _check_format(raw, output)

    async def work() -> None:
        async with opened(cluster) as (_store, client):
            reader = await client.open_ledger(LedgerId(ledger_id), password=password)
            with _shown(raw, output, following=True) as show:
                async for entry in reader.tail(EntryId(first)):
                    show(entry.entry_id, entry.payload)

    run(work())
