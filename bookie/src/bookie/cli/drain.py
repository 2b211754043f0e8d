"""`bookie drain`: tell a bookie that it is to leave, and move its ledgers away; or take it back."""

import click

from bookie.cli.common import fail, metadata_option, run
from bookie.cli.jobs import JobOutput, engine_option, rate_option, run_job
from bookie.cli.option_groups import grouped
from bookie.cli.output import show_fields
from bookie.exit_codes import Exit
from bookie.ids import BookieId
from bookie.repair.jobs.drain_job import DrainRequest
from bookie.repair.jobs.evacuation import EvacuationSettings
from bookie.repair.runs import cancel_drain, drain_cluster


@click.command("drain")
@click.argument("bookie", metavar="BOOKIE")
@click.option("--cancel", is_flag=True, help="Let it take new ledgers again instead.")
@click.option(
    "--if-draining",
    is_flag=True,
    help="Do not tell it to drain: refused unless somebody has, such as the operator.",
)
@rate_option
@engine_option
@grouped(ending=JobOutput)
@metadata_option
def drain(
    metadata: str,
    bookie: str,
    cancel: bool,
    if_draining: bool,
    rate: int | None,
    engine: str,
    ending: JobOutput,
) -> None:
    """Move every ledger off a bookie, so that it may leave.

    It takes no new ledgers from now on, over restarts, and serves what it has. May be stopped and
    run again. A ledger that is written to it without a pause moves on with its writer; an idle one
    is closed, its writer is cut off.
    """
    bookie_id = BookieId(bookie)
    if not cancel:
        request = DrainRequest(
            bookie_id, engine, begin=not if_draining, settings=EvacuationSettings.at_rate(rate)
        )
        run_job("drain", lambda say: drain_cluster(metadata, request, say=say), ending)
    answer = run(cancel_drain(metadata, bookie_id))
    if not answer.accepted:
        fail(f"{bookie} did not take the order: {answer.message}", Exit.UNDECIDED)
    show_fields({"bookie": bookie, "draining": False}, output=ending.output)
