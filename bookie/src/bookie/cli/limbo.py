"""`bookie limbo`: list ledgers of which a bookie may have forgotten entries."""

from typing import Any, Protocol

import click

from bookie.cli.common import (
    bookies_option,
    cluster_id,
    fail,
    metadata_option,
    output_option,
    run,
    store_at,
)
from bookie.cli.output import show_rows
from bookie.errors import BadRequestError
from bookie.exit_codes import Exit
from bookie.ids import BookieId
from bookie.protocol.status import Status
from bookie.repair.look.bookie_control import Marks
from bookie.repair.look.grpc_control import GrpcControl


@click.command("limbo")
@bookies_option
@click.option(
    "--unchecked",
    is_flag=True,
    help="List unchecked ledgers too: they need no recovery, only a check of their copies.",
)
@metadata_option
@output_option
def limbo(metadata: str, output: str, bookies: tuple[str, ...], unchecked: bool) -> None:
    """List ledgers of which a bookie may have forgotten entries.

    Exit code 4: a bookie did not answer, so nobody knows what it has forgotten.
    """

    async def work() -> list[dict[str, Any]]:
        async with store_at(metadata) as store:
            await cluster_id(store, metadata)
            known = {*await store.cookies(), *await store.bookies()}
            chosen = sorted(known) if not bookies else _chosen(bookies, known)
            control = GrpcControl(store)
            try:
                return [row for bookie in chosen for row in await marks_of(control, bookie)]
            finally:
                await control.close()

    rows = run(work())
    shown = [row for row in rows if unchecked or row["mark"] != "unchecked"]
    waiting = len({row["ledger_id"] for row in rows if row["mark"] == "unchecked"})
    nothing = "no ledger is in limbo"
    if waiting:
        nothing += f"; {waiting} wait for their check (--unchecked)"
    columns = ("bookie", "ledger_id", "mark", "boot_epoch")
    show_rows(shown, columns=columns, output=output, nothing=nothing)
    silent = [row for row in rows if row["mark"] == "no answer"]
    if silent:
        said = "; ".join(f"{row['bookie']}: {row['message']}" for row in silent)
        fail(f"no answer, so not everything is known ({said})", Exit.UNDECIDED)


def _chosen(bookies: tuple[str, ...], known: set[BookieId]) -> list[BookieId]:
    unknown = [bookie for bookie in bookies if bookie not in known]
    if unknown:
        raise BadRequestError(
            f"there is no bookie {', '.join(unknown)}; known are {', '.join(sorted(known))}"
        )
    return [BookieId(bookie) for bookie in dict.fromkeys(bookies)]


class _MarkControl(Protocol):
    """What knows the marks of a bookie."""

    async def list_marks(self, bookie_id: BookieId) -> Marks: ...


async def marks_of(control: _MarkControl, bookie: BookieId) -> list[dict[str, Any]]:
    """A row for each mark, and one more where not all are known."""
    found = await control.list_marks(bookie)
    rows: list[dict[str, Any]] = [
        {
            "bookie": bookie,
            "ledger_id": mark.ledger_id,
            "mark": "limbo" if mark.limbo else "unchecked",
            "boot_epoch": mark.boot_epoch,
        }
        for mark in found.marks
    ]
    if found.status is not Status.OK:
        message = f"{found.status.name} {found.message}".rstrip()
        silent = {"ledger_id": None, "mark": "no answer", "boot_epoch": None, "message": message}
        rows.append({"bookie": bookie} | silent)
    return rows
