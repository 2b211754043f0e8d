"""`bookie rereplicate`: new members for the ledgers of bookies that are gone for good."""

import sys
from pathlib import Path

import click

from bookie.cli.checks import engine_option, finish, result_option
from bookie.cli.common import ask, metadata_option, output_option, run, yes_option
from bookie.ids import BookieId
from bookie.repair.jobs.evacuation import EvacuationSettings
from bookie.repair.jobs.rereplication_job import RereplicateRequest
from bookie.repair.repair_options import rate_option
from bookie.repair.reports.printing import Printer
from bookie.repair.runs import rereplicate_cluster


@click.command("rereplicate")
@click.argument("bookies", nargs=-1, metavar="[BOOKIE]...")
@click.option("--force", is_flag=True, help="Also while re-replication is switched off.")
@rate_option
@engine_option
@yes_option
@result_option
@metadata_option
@output_option
def rereplicate(
    metadata: str,
    output: str,
    bookies: tuple[str, ...],
    force: bool,
    rate: int | None,
    engine: str,
    yes: bool,
    result: Path | None,
) -> None:
    """Give every ledger of bookies that are gone for good new members, copied from the others.

    And whatever is marked as under-replicated, by BookKeeper's auditor too: without BOOKIE only
    that. May be stopped and run again.
    """
    if bookies:
        gone = ", ".join(bookies)
        ask(f"{gone}: gone for good, with all that was on the disks; go on without?", yes=yes)
    request = RereplicateRequest(
        tuple(map(BookieId, bookies)),
        engine,
        force=force,
        settings=EvacuationSettings.at_rate(rate),
    )
    work = rereplicate_cluster(metadata, request, say=Printer(sys.stderr))
    finish(run(work), result=result, output=output)
