"""`bookie audit`, `bookie repair`, `bookie limbo`: what bookies hold, and bringing it back."""

import sys
from pathlib import Path
from typing import Any

import click

from bookie.cli.common import fail, metadata_option, output_option, run, store_at
from bookie.cli.exit_codes import Exit
from bookie.cli.output import say, show_fields, show_rows
from bookie.cli.results import show_result
from bookie.errors import BadRequestError
from bookie.ids import BookieId, LedgerId
from bookie.protocol.status import Status
from bookie.repair.admin_client import AdminClient
from bookie.repair.audit_options import audit_arguments, audit_options
from bookie.repair.engine.choice import CHOICES
from bookie.repair.repair_options import (
    digest_settings,
    digests_options,
    repair_options,
    repair_request,
)
from bookie.repair.reports.printing import Printer
from bookie.repair.reports.result import write_page, write_result
from bookie.repair.runs import audit_cluster, repair_cluster

engine_option = click.option(
    "--engine", type=click.Choice(CHOICES), default="auto", show_default=True
)
result_option = click.option(
    "--result",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the result object here, and a page for people beside it (.html).",
)
html_option = click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the page for people here: one file, nothing loaded from elsewhere.",
)
parquet_option = click.option(
    "--parquet",
    "tables",
    type=click.Path(path_type=Path),
    metavar="DIR|FILE",
    help="Write findings and copies by bookie as Parquet: a folder, or NAME.parquet.",
)


@click.command("audit")
@click.option(
    "--ledger", "ledgers", type=click.IntRange(0), multiple=True, help="Only these ledgers."
)
@audit_options
@digests_options
@engine_option
@result_option
@html_option
@parquet_option
@metadata_option
@output_option
def audit(
    metadata: str,
    output: str,
    ledgers: tuple[int, ...],
    engine: str,
    result: Path | None,
    page: Path | None,
    tables: Path | None,
    verify_digests: bool,
    read_rate: int | None,
    **options: Any,
) -> None:
    """Compare what every bookie holds with what it must hold; changes nothing."""
    digests = digest_settings(verify_digests=verify_digests, read_rate=read_rate)

    async def work() -> dict[str, Any]:
        return await audit_cluster(
            metadata,
            ledger_ids=[LedgerId(ledger_id) for ledger_id in ledgers] or None,
            engine=engine,
            digests=digests,
            say=say,
            **audit_arguments(**options),
        )

    finish(run(work()), result=result, page=page, tables=tables, output=output)


@click.command("repair")
@repair_options
@engine_option
@result_option
@html_option
@metadata_option
@output_option
def repair(
    metadata: str, output: str, engine: str, result: Path | None, page: Path | None, **options: Any
) -> None:
    """Recover limbo ledgers, copy what is missing, and ask the bookies to clear their marks."""
    request = repair_request(engine, **options)
    document = run(repair_cluster(metadata, request, say=Printer(sys.stderr)))
    finish(document, result=result, page=page, output=output)


def finish(
    document: dict[str, Any],
    *,
    result: Path | None,
    page: Path | None = None,
    tables: Path | None = None,
    output: str,
) -> None:
    if output == "json":
        show_fields(document, output=output)
    else:
        show_result(document)
    for path, write in ((result, write_result), (page, write_page), (tables, _write_tables)):
        if path is None:
            continue
        try:
            write(document, path)
        except OSError as error:
            fail(f"cannot write the result to {path}: {error.strerror}")
    raise click.exceptions.Exit(document["exit_code"])


def _write_tables(document: dict[str, Any], path: Path) -> None:
    try:
        from bookie.repair.reports.parquet import write_parquet
    except ImportError:
        fail("--parquet needs pyarrow (the extra `repair` has it)", Exit.USAGE)
    write_parquet(document, path)


@click.command("limbo")
@click.option("--bookie", "bookies", multiple=True, metavar="ID", help="Only this bookie.")
@click.option("--unchecked", is_flag=True, help="Also ledgers that only wait for their check.")
@metadata_option
@output_option
def limbo(metadata: str, output: str, bookies: tuple[str, ...], unchecked: bool) -> None:
    """Ledgers of which a bookie may have forgotten entries.

    Exit code 4 when a bookie did not answer: what it has forgotten is not known then.
    """

    async def work() -> list[dict[str, Any]]:
        async with store_at(metadata) as store:
            known = {*await store.cookies(), *await store.bookies()}
            chosen = sorted(known) if not bookies else _chosen(bookies, known)
            control = AdminClient(store)
            try:
                return [row for bookie in chosen for row in await _marks_of(control, bookie)]
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
    return [BookieId(bookie) for bookie in bookies]


async def _marks_of(control: AdminClient, bookie: BookieId) -> list[dict[str, Any]]:
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
