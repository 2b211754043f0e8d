"""`bookie rereplicate`: give the ledgers of permanently lost bookies new bookies."""

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
@click.option(
    "--force", is_flag=True, help="Work even while BookKeeper's re-replication is switched off."
)
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
    """Replace permanently lost bookies in all their ledgers, copying entries from other bookies.

    It also restores ledgers that are marked as under-replicated in the metadata store, for example
    by BookKeeper's auditor; without BOOKIE it does only that. You may stop the command and run it
    again.
    """
    if bookies:
        gone = ", ".join(bookies)
        ask(f"Are {gone} permanently lost, with everything on their disks?", yes=yes)
    request = RereplicateRequest(
        tuple(map(BookieId, bookies)),
        engine,
        force=force,
        settings=EvacuationSettings.at_rate(rate),
    )
    run_job("rereplication", lambda say: rereplicate_cluster(metadata, request, say=say), ending)
