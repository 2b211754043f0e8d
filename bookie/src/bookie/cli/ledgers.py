"""`bookie ledger create|info|list|recover|delete`, and where the other `ledger` commands are."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, NamedTuple

import click

from bookie.cli.common import (
    Command,
    ask,
    cluster_id,
    ledger_argument,
    metadata_option,
    output_option,
    password_option,
    run,
    store_at,
    yes_option,
)
from bookie.cli.lazy import LazyGroup
from bookie.cli.output import progress, show_fields, show_new_ledger, show_rows
from bookie.client.bookkeeper_client import Client, ClientSettings
from bookie.client.pool_settings import PoolSettings
from bookie.client.writer import LedgerWriter
from bookie.errors import MetadataFormatError, NoSuchLedgerError
from bookie.frames.entry import DigestType
from bookie.ids import LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.ledger import LedgerMetadata
from bookie.times import iso_time

COMMANDS: Final = {
    "accept-loss": (
        "bookie.cli.accept:accept",
        "Close a ledger that cannot be recovered, accepting the loss.",
    ),
    "create": ("bookie.cli.ledgers:create", "Create an empty ledger and leave it open."),
    "delete": ("bookie.cli.ledgers:delete", "Delete a ledger."),
    "info": ("bookie.cli.ledgers:info", "Show a ledger's metadata."),
    "list": ("bookie.cli.ledgers:list_ledgers", "List every ledger of the cluster."),
    "read": ("bookie.cli.entries:read", "Read entries and check their digests."),
    "recover": (
        "bookie.cli.ledgers:recover",
        "Cut a ledger's writer off, recover the ledger and close it.",
    ),
    "retract-loss": (
        "bookie.cli.retract:retract",
        "Withdraw a wrong record that entries are lost.",
    ),
    "tail": ("bookie.cli.entries:tail", "Print entries as they are written."),
    "write": ("bookie.cli.entries:write", "Write a file or standard input into a new ledger."),
}
LISTED_AT_ONCE: Final = 64
"""Ledgers whose metadata `list` reads at once."""


@click.group("ledger", cls=LazyGroup, lazy=COMMANDS)
def ledger_group() -> None:
    """Write, read, list, recover and delete ledgers."""


@dataclass(frozen=True, slots=True)
class LedgerShape:
    """The quorums and the digest type of a new ledger."""

    ensemble: int
    write_quorum: int
    ack_quorum: int
    digest: DigestType


def shape_options(command: Command) -> Callable[..., Any]:
    """The options of a new ledger; the command gets them as `shape`."""

    @wraps(command)
    def shaped(
        *, ensemble: int, write_quorum: int, ack_quorum: int, digest: str, **others: Any
    ) -> Any:
        shape = LedgerShape(ensemble, write_quorum, ack_quorum, DigestType[digest.upper()])
        return command(shape=shape, **others)

    digests = click.Choice([kind.name for kind in DigestType], case_sensitive=False)
    for option in (
        click.option("--digest", default="CRC32C", show_default=True, type=digests),
        click.option("--ack-quorum", default=2, show_default=True, type=click.IntRange(1)),
        click.option("--write-quorum", default=3, show_default=True, type=click.IntRange(1)),
        click.option("--ensemble", default=3, show_default=True, type=click.IntRange(1)),
    ):
        option(shaped)
    return shaped


class ClusterAddress(NamedTuple):
    """Where a command finds the cluster."""

    url: str
    """Of the metadata store."""
    is_advertised: bool
    """True: reach bookies at the addresses that they advertise to clients in other networks."""


def cluster_options(command: Command) -> Callable[..., Any]:
    """The options of a client of the cluster; the command gets them as `cluster`."""

    @wraps(command)
    def addressed(*, metadata: str, advertised: bool, **others: Any) -> Any:
        return command(cluster=ClusterAddress(metadata, advertised), **others)

    advertised_option = click.option(
        "--advertised",
        is_flag=True,
        help="Reach bookies at the addresses that they advertise to clients in other networks.",
    )
    return metadata_option(advertised_option(addressed))


@asynccontextmanager
async def opened(cluster: ClusterAddress) -> AsyncIterator[tuple[MetadataStore, Client]]:
    """Open the metadata store and a client; both are closed at the end of the block.
    UnavailableError if there is no cluster: that no ledger is there says nothing then."""
    settings = ClientSettings(pool=PoolSettings(is_advertised=cluster.is_advertised))
    async with store_at(cluster.url) as store, Client(store, settings=settings) as client:
        await cluster_id(store, cluster.url)
        yield store, client


async def new_ledger(client: Client, shape: LedgerShape, *, password: bytes) -> LedgerWriter:
    return await client.create_ledger(
        ensemble_size=shape.ensemble,
        write_quorum=shape.write_quorum,
        ack_quorum=shape.ack_quorum,
        digest_type=shape.digest,
        password=password,
    )


@click.command("create")
@shape_options
@password_option
@cluster_options
@output_option
def create(cluster: ClusterAddress, output: str, password: bytes, shape: LedgerShape) -> None:
    """Create an empty ledger and leave it open, as if its writer had crashed."""

    async def work() -> dict[str, Any]:
        async with opened(cluster) as (_store, client):
            writer = await new_ledger(client, shape, password=password)
            return {"ledger_id": writer.ledger_id, "state": "OPEN"}

    show_new_ledger(run(work()), output=output)


@click.command("info")
@ledger_argument
@metadata_option
@output_option
def info(metadata: str, output: str, ledger_id: int) -> None:
    """Show a ledger's metadata, as the metadata store has it."""

    async def work() -> dict[str, Any]:
        async with store_at(metadata) as store:
            await cluster_id(store, metadata)
            stored = await store.read_ledger(LedgerId(ledger_id))
            return ledger_json(stored.value) | {"version": stored.version}

    _show_ledger(run(work()), output=output)


def ledger_json(metadata: LedgerMetadata) -> dict[str, Any]:
    """A ledger's metadata; last entry and length are None unless the ledger is closed."""
    closed = metadata.is_closed
    return {
        "ledger_id": metadata.ledger_id,
        "state": metadata.state.value,
        "last_entry_id": metadata.last_entry_id if closed else None,
        "length": metadata.length if closed else None,
        "ensemble": metadata.ensemble_size,
        "write_quorum": metadata.write_quorum,
        "ack_quorum": metadata.ack_quorum,
        "digest": metadata.digest_type.name,
        "has_password": bool(metadata.password),
        "created": iso_time(metadata.ctime_ms) if metadata.ctime_ms else None,
        "fragments": [
            {"first_entry_id": fragment.first_entry_id, "ensemble": list(fragment.ensemble)}
            for fragment in metadata.fragments
        ],
        "custom": {
            name: value.decode("utf-8", "backslashreplace")
            for name, value in metadata.custom.items()
        },
    }


def _show_ledger(row: dict[str, Any], *, output: str) -> None:
    show_fields(row if output == "json" else row | _fragments_text(row), output=output)


def _fragments_text(row: dict[str, Any]) -> dict[str, Any]:
    """Fragments as `first entry: bookies`, for people."""
    fragments = row.get("fragments", ())
    return {"fragments": [f"{f['first_entry_id']}: {' '.join(f['ensemble'])}" for f in fragments]}


@click.command("list")
@metadata_option
@output_option
def list_ledgers(metadata: str, output: str) -> None:
    """List every ledger of the cluster, except those that are deleted during the listing."""

    async def work() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        async with store_at(metadata) as store:
            await cluster_id(store, metadata)
            with progress("ledgers read", total=None) as meter:
                waiting: list[LedgerId] = []
                async for ledger_id in store.ledger_ids():
                    waiting.append(ledger_id)
                    if len(waiting) == LISTED_AT_ONCE:
                        rows += await _rows_of(store, waiting)
                        meter.advance(len(waiting))
                        waiting.clear()
                rows += await _rows_of(store, waiting)
        return rows

    rows = run(work())
    shown = rows if output == "json" else [row | _fragments_text(row) for row in rows]
    columns = ("ledger_id", "state", "last_entry_id", "length", "fragments")
    show_rows(shown, columns=columns, output=output, nothing="no ledgers")


async def _rows_of(store: MetadataStore, ledger_ids: Sequence[LedgerId]) -> list[dict[str, Any]]:
    rows = await asyncio.gather(*(_row_of(store, ledger_id) for ledger_id in ledger_ids))
    return [row for row in rows if row is not None]


async def _row_of(store: MetadataStore, ledger_id: LedgerId) -> dict[str, Any] | None:
    try:
        return ledger_json((await store.read_ledger(ledger_id)).value)
    except NoSuchLedgerError:
        return None
    except MetadataFormatError as error:
        # One unreadable ledger must not hide the others.
        return {"ledger_id": ledger_id, "state": "unreadable", "problem": str(error)}


@click.command("recover")
@ledger_argument
@password_option
@cluster_options
@output_option
def recover(cluster: ClusterAddress, output: str, ledger_id: int, password: bytes) -> None:
    """Cut the ledger's writer off (fence), find the last entry (recover) and close the ledger."""

    async def work() -> dict[str, Any]:
        async with opened(cluster) as (store, client):
            await client.recover_ledger(LedgerId(ledger_id), password=password)
            return ledger_json((await store.read_ledger(LedgerId(ledger_id))).value)

    _show_ledger(run(work()), output=output)


@click.command("delete")
@ledger_argument
@yes_option
@cluster_options
@output_option
def delete(cluster: ClusterAddress, output: str, ledger_id: int, yes: bool) -> None:
    """Delete a ledger; the bookies remove its entries from their disks later."""
    ask(f"Delete ledger {ledger_id} and its entries permanently?", yes=yes)

    async def work() -> None:
        async with opened(cluster) as (_store, client):
            await client.delete_ledger(LedgerId(ledger_id))

    run(work())
    show_fields({"ledger_id": ledger_id, "deleted": True}, output=output)
