"""`bookie audit`, `bookie repair`, `bookie limbo`, `bookie ledger accept-loss`."""

import getpass
from pathlib import Path
from typing import Any

import click

from bookie.cli.common import metadata_option, output_option, run, store_at
from bookie.cli.exit_codes import Exit
from bookie.cli.ledgers import ledger_group
from bookie.cli.output import show_fields, show_rows
from bookie.protocol.ids import BookieId, EntryId, LedgerId
from bookie.protocol.status import Status
from bookie.repair.accept_loss import accept_loss
from bookie.repair.admin_client import AdminClient
from bookie.repair.cluster import open_cluster
from bookie.repair.engines import CHOICES
from bookie.repair.report import write_result
from bookie.repair.spark_engine import spark_repair_for
from bookie.repair.steps import RepairRequest
from bookie.repair.steps import audit as run_audit
from bookie.repair.steps import repair as run_repair

result_option = click.option(
    "--result",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the result object here, and a page for people beside it.",
)


def _say(line: str) -> None:
    click.echo(line, err=True)


@click.command("audit")
@click.option("--ledger", "ledgers", type=int, multiple=True, help="Only these ledgers.")
@result_option
@metadata_option
@output_option
def audit(metadata: str, output: str, ledgers: tuple[int, ...], result: Path | None) -> None:
    """Compare what every bookie holds with what it must hold; changes nothing."""

    async def work() -> dict[str, Any]:
        async with open_cluster(metadata) as cluster:
            chosen = [LedgerId(ledger_id) for ledger_id in ledgers] or None
            return dict(await run_audit(cluster, ledger_ids=chosen, say=_say))

    _finish(run(work()), result=result, output=output)


@click.command("repair")
@click.option("--bookie", "bookies", multiple=True, help="Only the marks of these bookies.")
@click.option("--engine", type=click.Choice(CHOICES), default="auto", show_default=True)
@result_option
@metadata_option
@output_option
def repair(
    metadata: str, output: str, bookies: tuple[str, ...], engine: str, result: Path | None
) -> None:
    """Recover limbo ledgers, copy what is missing, and ask the bookies to clear their marks."""

    async def work() -> dict[str, Any]:
        request = RepairRequest(tuple(map(BookieId, bookies)), engine)
        async with open_cluster(metadata) as cluster:
            spark = spark_repair_for(metadata)
            return dict(await run_repair(cluster, request, spark=spark, say=_say))

    _finish(run(work()), result=result, output=output)


def _finish(document: dict[str, Any], *, result: Path | None, output: str) -> None:
    if result is not None:
        write_result(document, result)
    shown = document if output == "json" else _summary(document)
    show_fields(shown, output=output)
    raise click.exceptions.Exit(document["exit_code"])


def _summary(document: dict[str, Any]) -> dict[str, Any]:
    """The scalars and counts of a result; the lists are in its file or in JSON."""
    flat: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, dict):
            flat |= {f"{name} {key}": item for key, item in value.items() if _is_plain(item)}
        elif _is_plain(value):
            flat[name] = value
        elif isinstance(value, list):
            flat[name] = f"{len(value)} (see --output json)" if value else "none"
    return flat


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


@click.command("limbo")
@click.option("--bookie", "bookies", multiple=True, help="Only these bookies.")
@click.option("--unchecked", is_flag=True, help="Also ledgers that only wait for their check.")
@metadata_option
@output_option
def limbo(metadata: str, output: str, bookies: tuple[str, ...], unchecked: bool) -> None:
    """Ledgers of which a bookie may have forgotten entries."""

    async def work() -> list[dict[str, Any]]:
        async with store_at(metadata) as store:
            control = AdminClient(store)
            try:
                known = sorted(set(await store.cookies()) | set(await store.bookies()))
                chosen = [BookieId(bookie) for bookie in bookies] or known
                return [row for bookie in chosen for row in await _marks_of(control, bookie)]
            finally:
                await control.close()

    rows = run(work())
    shown = [row for row in rows if unchecked or row["mark"] != "unchecked"]
    show_rows(shown, columns=("bookie", "ledger_id", "mark", "boot_epoch"), output=output)
    if any(row["mark"] == "no answer" for row in rows):
        raise click.exceptions.Exit(Exit.UNDECIDED)


async def _marks_of(control: AdminClient, bookie: BookieId) -> list[dict[str, Any]]:
    found = await control.list_marks(bookie)
    if found.status is not Status.OK:
        return [{"bookie": bookie, "ledger_id": None, "mark": "no answer", "boot_epoch": None}]
    return [
        {
            "bookie": bookie,
            "ledger_id": mark.ledger_id,
            "mark": "limbo" if mark.limbo else "unchecked",
            "boot_epoch": mark.boot_epoch,
        }
        for mark in found.marks
    ]


@ledger_group.command("accept-loss")
@click.argument("ledger_id", type=int)
@click.option("--entry", type=int, help="The entry in question, to be sure of what is accepted.")
@click.option("--reason", required=True, help="Kept in the loss record.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@metadata_option
@output_option
def accept(
    metadata: str, output: str, ledger_id: int, entry: int | None, reason: str, yes: bool
) -> None:
    """Close a ledger whose tail nobody can decide any more, accepting what may be lost.

    Refused while a member of its ensemble is merely away, and never below a copy that turns up.
    """
    if not yes:
        click.confirm(
            f"Acknowledged entries of ledger {ledger_id} may be given up for good. Go on?",
            abort=True,
        )

    async def work() -> dict[str, Any]:
        async with open_cluster(metadata) as cluster:
            decision = await accept_loss(
                cluster,
                LedgerId(ledger_id),
                by=getpass.getuser(),
                reason=reason,
                first_entry_id=None if entry is None else EntryId(entry),
            )
            return decision.json()

    show_fields(run(work()), output=output)
