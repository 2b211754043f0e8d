"""`bookie rereplicate`: new members for the ledgers of bookies that are gone for good."""

import click

from bookie.cli.common import ask, metadata_option, yes_option
from bookie.cli.jobs import JobOutput, engine_option, rate_option, run_job
from bookie.cli.option_groups import grouped
from bookie.ids import BookieId
from bookie.repair.jobs.evacuation import EvacuationSettings
from bookie.repair.jobs.rereplication_job import RereplicateRequest
from bookie.repair.runs import rereplicate_cluster


@click.command("rereplicate")
@click.argument("bookies", nargs=-1, metavar="[BOOKIE]...")
@click.option("--force", is_flag=True, help="Also while re-replication is switched off.")
@rate_option
@engine_option
@yes_option
@grouped(ending=JobOutput)
@metadata_option
def rereplicate(
    metadata: str,
    bookies: tuple[str, ...],
    force: bool,
    rate: int | None,
    engine: str,
    yes: bool,
    ending: JobOutput,
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
    run_job("rereplication", lambda say: rereplicate_cluster(metadata, request, say=say), ending)
