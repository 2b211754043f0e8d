"""`bookie ledger …`: create, write, read, tail, info, list, recover, delete; accept-loss."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, BinaryIO

import click

from bookie.cli.common import metadata_option, output_option, run, store_at
from bookie.cli.output import progress, show_fields, show_rows
from bookie.client.ledgers import Client
from bookie.client.reader import LedgerReader
from bookie.metadata.store import MetadataStore
from bookie.protocol.entry import DigestType
from bookie.protocol.ids import NO_ENTRY, EntryId, LedgerId
from bookie.protocol.ledger import LedgerMetadata

READ_ENTRIES = 1024
"""Entries asked for at once by `read`."""
WRITE_BYTES = 64 * 1024
"""Input is cut into entries of this size unless lines are asked for."""


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[MetadataStore, Client]]:
    """A store and a client on it, both closed at the end."""
    async with store_at(url) as store, Client(store) as client:
        yield store, client


password_option = click.option(
    "--password", default="", envvar="BOOKIE_LEDGER_PASSWORD", help="The ledger's password."
)


@click.group("ledger")
def ledger_group() -> None:
    """Ledgers: write, read, look, recover, delete."""


@ledger_group.command("create")
@click.option("--ensemble", default=3, show_default=True, type=click.IntRange(1))
@click.option("--write-quorum", default=3, show_default=True, type=click.IntRange(1))
@click.option("--ack-quorum", default=2, show_default=True, type=click.IntRange(1))
@click.option(
    "--digest",
    default="CRC32C",
    show_default=True,
    type=click.Choice([kind.name for kind in DigestType], case_sensitive=False),
)
@password_option
@metadata_option
@output_option
def create(metadata: str, output: str, password: str, **options: Any) -> None:
    """Create an empty ledger and leave it open, as a writer that never came back would."""

    async def work() -> None:
        async with opened(metadata) as (_store, client):
            writer = await _create(client, password=password, **options)
            show_fields({"ledger_id": writer.ledger_id}, output=output)

    run(work())


async def _create(client: Client, *, password: str, **options: Any) -> Any:
    return await client.create_ledger(
        ensemble_size=options["ensemble"],
        write_quorum=options["write_quorum"],
        ack_quorum=options["ack_quorum"],
        digest_type=DigestType[options["digest"].upper()],
        password=password.encode(),
    )


@ledger_group.command("write")
@click.argument("source", type=click.File("rb"), default="-")
@click.option("--lines", is_flag=True, help="One entry per line instead of 64 KiB pieces.")
@click.option("--keep-open", is_flag=True, help="Leave the ledger open, as a crashed writer would.")
@click.option("--ensemble", default=3, show_default=True, type=click.IntRange(1))
@click.option("--write-quorum", default=3, show_default=True, type=click.IntRange(1))
@click.option("--ack-quorum", default=2, show_default=True, type=click.IntRange(1))
@click.option(
    "--digest",
    default="CRC32C",
    show_default=True,
    type=click.Choice([kind.name for kind in DigestType], case_sensitive=False),
)
@password_option
@metadata_option
@output_option
def write(
    metadata: str,
    output: str,
    source: BinaryIO,
    lines: bool,
    keep_open: bool,
    password: str,
    **options: Any,
) -> None:
    """Write SOURCE (default: standard input) into a new ledger; prints its id and last entry."""

    async def work() -> None:
        async with opened(metadata) as (_store, client):
            writer = await _create(client, password=password, **options)
            last = await _write_all(writer, source, lines=lines)
            if not keep_open:
                last = await writer.close()
            show_fields(
                {
                    "ledger_id": writer.ledger_id,
                    "last_entry_id": last,
                    "state": "OPEN" if keep_open else "CLOSED",
                },
                output=output,
            )

    run(work())


async def _write_all(writer: Any, source: BinaryIO, *, lines: bool) -> EntryId:
    last = NO_ENTRY
    with progress("entries written", total=None) as meter:
        while True:
            piece = await asyncio.to_thread(source.readline if lines else _read_piece(source))
            if not piece:
                break
            await writer.room()
            last = writer.append_many([piece.rstrip(b"\n") if lines else piece])
            meter.advance()
        if last != NO_ENTRY:
            await writer.wait_acked(last)
    return last


def _read_piece(source: BinaryIO) -> Any:
    return lambda: source.read(WRITE_BYTES)


@ledger_group.command("read")
@click.argument("ledger_id", type=int)
@click.option("--first", default=0, type=click.IntRange(0), show_default=True)
@click.option("--last", type=click.IntRange(0), help="Default: the last readable entry.")
@click.option("--raw", is_flag=True, help="Only the payloads, back to back, to stdout.")
@password_option
@metadata_option
@output_option
def read(
    metadata: str,
    output: str,
    ledger_id: int,
    first: int,
    last: int | None,
    raw: bool,
    password: str,
) -> None:
    """Read entries; verifies every digest."""

    async def work() -> None:
        async with opened(metadata) as (_store, client):
            reader = await client.open_ledger(LedgerId(ledger_id), password=password.encode())
            end = await _end(reader) if last is None else EntryId(last)
            with progress("entries read", total=max(end - first + 1, 0)) as meter:
                for start in range(first, end + 1, READ_ENTRIES):
                    stop = min(start + READ_ENTRIES - 1, end)
                    entries = await reader.read(EntryId(start), EntryId(stop))
                    _show_entries(entries, raw=raw, output=output)
                    meter.advance(len(entries))

    run(work())


async def _end(reader: LedgerReader) -> EntryId:
    return reader.last_entry_id if reader.is_closed else await reader.read_lac()


def _show_entries(entries: list[Any], *, raw: bool, output: str) -> None:
    if raw:
        for entry in entries:
            sys.stdout.buffer.write(entry.payload)
        sys.stdout.buffer.flush()
        return
    rows = [
        {
            "entry_id": entry.entry_id,
            "bytes": len(entry.payload),
            "payload": entry.payload[:60].decode("utf-8", "backslashreplace"),
        }
        for entry in entries
    ]
    show_rows(rows, columns=("entry_id", "bytes", "payload"), output=output)


@ledger_group.command("tail")
@click.argument("ledger_id", type=int)
@click.option("--first", default=0, type=click.IntRange(0), show_default=True)
@click.option("--raw", is_flag=True, help="Only the payloads, back to back, to stdout.")
@password_option
@metadata_option
@output_option
def tail(metadata: str, output: str, ledger_id: int, first: int, raw: bool, password: str) -> None:
    """Follow a ledger as it is written; ends when it is closed and read to its end."""

    async def work() -> None:
        async with opened(metadata) as (_store, client):
            reader = await client.open_ledger(LedgerId(ledger_id), password=password.encode())
            async for entry in reader.tail(EntryId(first)):
                _show_entries([entry], raw=raw, output=output)

    run(work())


@ledger_group.command("info")
@click.argument("ledger_id", type=int)
@metadata_option
@output_option
def info(metadata: str, output: str, ledger_id: int) -> None:
    """What the metadata store says of a ledger."""

    async def work() -> None:
        async with store_at(metadata) as store:
            stored = await store.read_ledger(LedgerId(ledger_id))
            show_fields(_info(stored.value) | {"version": stored.version}, output=output)

    run(work())


def _info(metadata: LedgerMetadata) -> dict[str, Any]:
    return {
        "ledger_id": metadata.ledger_id,
        "state": metadata.state.value,
        "last_entry_id": metadata.last_entry_id if metadata.is_closed else None,
        "length": metadata.length if metadata.is_closed else None,
        "ensemble": metadata.ensemble_size,
        "write_quorum": metadata.write_quorum,
        "ack_quorum": metadata.ack_quorum,
        "digest": metadata.digest_type.name,
        "fragments": [
            f"{fragment.first_entry_id}: {' '.join(fragment.ensemble)}"
            for fragment in metadata.fragments
        ],
    }


@ledger_group.command("list")
@metadata_option
@output_option
def list_ledgers(metadata: str, output: str) -> None:
    """Every ledger of the cluster."""

    async def work() -> None:
        async with store_at(metadata) as store:
            rows = []
            with progress("ledgers read", total=None) as meter:
                async for ledger_id in store.ledger_ids():
                    rows.append(_info((await store.read_ledger(ledger_id)).value))
                    meter.advance()
            columns = ("ledger_id", "state", "last_entry_id", "length", "fragments")
            show_rows(rows, columns=columns, output=output)

    run(work())


@ledger_group.command("recover")
@click.argument("ledger_id", type=int)
@password_option
@metadata_option
@output_option
def recover(metadata: str, output: str, ledger_id: int, password: str) -> None:
    """Fence, recover and close a ledger; its writer is cut off."""

    async def work() -> None:
        async with opened(metadata) as (store, client):
            await client.recover_ledger(LedgerId(ledger_id), password=password.encode())
            show_fields(_info((await store.read_ledger(LedgerId(ledger_id))).value), output=output)

    run(work())


@ledger_group.command("delete")
@click.argument("ledger_id", type=int)
@click.option("--yes", is_flag=True, help="Do not ask.")
@metadata_option
@output_option
def delete(metadata: str, output: str, ledger_id: int, yes: bool) -> None:
    """Delete a ledger; bookies collect its entries later."""
    if not yes:
        click.confirm(f"Delete ledger {ledger_id} and its entries for good?", abort=True)

    async def work() -> None:
        async with opened(metadata) as (_store, client):
            await client.delete_ledger(LedgerId(ledger_id))
            show_fields({"ledger_id": ledger_id, "deleted": True}, output=output)

    run(work())
