"""`bookie drain`: order a bookie to drain and move its ledgers away, or cancel the order."""

import click

from bookie.cli.common import cluster_id, fail, metadata_option, run
from bookie.cli.jobs import JobOutput, engine_option, rate_option, run_job
from bookie.cli.option_groups import grouped
from bookie.cli.output import show_fields
from bookie.errors import BadRequestError
from bookie.exit_codes import Exit
from bookie.ids import BookieId
from bookie.repair.engine.opening import open_cluster
from bookie.repair.jobs.drain_job import DrainRequest
from bookie.repair.jobs.evacuation import EvacuationSettings
from bookie.repair.reports.progress_lines import Say
from bookie.repair.reports.result import Document
from bookie.repair.runs import cancel_drain, drain_cluster


@click.command("drain")
@click.argument("bookie", metavar="BOOKIE")
@click.option(
    "--cancel", is_flag=True, help="Cancel the drain: let the bookie take new ledgers again."
)
@click.option(
    "--if-draining",
    is_flag=True,
    help="Do not order the drain: fail unless somebody else, such as the operator, has.",
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
    """Move every ledger off a bookie, so that it can be removed.

    The bookie takes no new ledgers from now on, also after a restart, and still serves what it has.
    You may stop the command and run it again. If a writer keeps writing to a ledger, the writer
    itself moves on to another bookie; an idle ledger is closed and its writer is cut off.
    """
    bookie_id = BookieId(bookie)
    if not cancel:
        request = DrainRequest(
            bookie_id, engine, begin=not if_draining, settings=EvacuationSettings.at_rate(rate)
        )

        async def work(say: Say) -> Document:
            if request.begin:
                await _check_existence(metadata, bookie_id)
            return await drain_cluster(metadata, request, say=say)

        run_job("drain", work, ending)
    answer = run(cancel_drain(metadata, bookie_id))
    if not answer.accepted:
        fail(f"{bookie} did not take the order: {answer.message}", Exit.UNDECIDED)
    show_fields({"bookie": bookie, "draining": False}, output=ending.output)


async def _check_existence(metadata: str, bookie_id: BookieId) -> None:
    """No ledger names a bookie that never existed: a wrong id must not look like a drained one."""
    async with open_cluster(metadata) as cluster:
        await cluster_id(cluster.store, metadata)
        known = await cluster.all_bookies()
    if bookie_id not in known:
        raise BadRequestError(
            f"there is no bookie {bookie_id}; known are {', '.join(known)}. For one that is gone "
            "for good: bookie rereplicate"
        )
