"""`bookie drain`: tell a bookie that it is to leave, and move its ledgers away; or take it back."""

import sys
from pathlib import Path

import click

from bookie.cli.checks import engine_option, finish, result_option
from bookie.cli.common import fail, metadata_option, output_option, run
from bookie.cli.exit_codes import Exit
from bookie.cli.output import show_fields
from bookie.ids import BookieId
from bookie.repair.jobs.drain_job import DrainRequest
from bookie.repair.jobs.evacuation import EvacuationSettings
from bookie.repair.repair_options import rate_option
from bookie.repair.reports.printing import Printer
from bookie.repair.runs import cancel_drain, drain_cluster


@click.command("drain")
@click.argument("bookie", metavar="BOOKIE")
@click.option("--cancel", is_flag=True, help="Let it take new ledgers again instead.")
@rate_option
@engine_option
@result_option
@metadata_option
@output_option
def drain(
    metadata: str,
    output: str,
    bookie: str,
    cancel: bool,
    rate: int | None,
    engine: str,
    result: Path | None,
) -> None:
    """Move every ledger off a bookie, so that it may leave.

    It takes no new ledgers from now on, over restarts, and serves what it has. May be stopped and
    run again. A ledger that is written to it without a pause moves on with its writer; an idle one
    is closed, its writer is cut off.
    """
    bookie_id = BookieId(bookie)
    if not cancel:
        request = DrainRequest(
            bookie_id, engine, begin=True, settings=EvacuationSettings.at_rate(rate)
        )
        work = drain_cluster(metadata, request, say=Printer(sys.stderr))
        finish(run(work), result=result, output=output)
    answer = run(cancel_drain(metadata, bookie_id))
    if not answer.accepted:
        fail(f"{bookie} was not told: {answer.message}", Exit.UNDECIDED)
    show_fields({"bookie": bookie, "draining": False}, output=output)
