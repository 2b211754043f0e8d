"""`bookie repair`: recovers limbo ledgers, copies what is missing, has marks cleared."""

from dataclasses import dataclass

import click

from bookie.cli.common import metadata_option
from bookie.cli.jobs import Digests, JobOutput, engine_option, rate_option, run_job
from bookie.cli.option_groups import grouped, option
from bookie.ids import BookieId
from bookie.repair.jobs.repair_job import RepairRequest
from bookie.repair.mend.copy import CopySettings
from bookie.repair.mend.ledger_repair import RepairSettings
from bookie.repair.runs import repair_cluster


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """Which ledgers a repair looks after, and where it remembers those that are done."""

    bookies: tuple[str, ...] = option(
        "--bookie",
        multiple=True,
        metavar="ID",
        help="Only the marks of this bookie; may be given again. "
        "Without it: all bookies and ledgers.",
    )
    every_ledger: bool = option(
        "--every-ledger", is_flag=True, help="Look after ledgers without marks as well."
    )
    checkpoint: str | None = option(
        "--checkpoint",
        metavar="metadata",
        help="Remember in the metadata store what was done: a repair that was cut off goes on from "
        "there. The name of a folder does the same; nothing is kept in it any more.",
    )

    def request(self, engine: str, digests: Digests, *, rate: int | None) -> RepairRequest:
        """What these options ask for."""
        return RepairRequest(
            tuple(map(BookieId, self.bookies)),
            engine,
            every_ledger=self.every_ledger,
            settings=RepairSettings(
                copy=CopySettings(bytes_per_second=rate), digests=digests.settings()
            ),
            checkpoint=self.checkpoint is not None,
        )


@click.command("repair")
@grouped(options=RepairOptions, digests=Digests, ending=JobOutput)
@rate_option
@engine_option
@metadata_option
def repair(
    metadata: str,
    engine: str,
    rate: int | None,
    options: RepairOptions,
    digests: Digests,
    ending: JobOutput,
) -> None:
    """Recover limbo ledgers, copy what is missing, and ask the bookies to clear their marks."""
    request = options.request(engine, digests, rate=rate)
    run_job("repair", lambda say: repair_cluster(metadata, request, say=say), ending)
