"""`bookie repair`: recover limbo ledgers, copy what is missing, ask bookies to clear marks."""

from dataclasses import dataclass

import click

from bookie.cli.common import metadata_option
from bookie.cli.jobs import Digests, JobOutput, engine_option, rate_option, run_job
from bookie.cli.option_groups import grouped, option
from bookie.ids import BookieId
from bookie.repair.jobs.repair_job import RepairRequest
from bookie.repair.mend.copy import CopySettings
from bookie.repair.mend.ledger_repair import WRITER_GRACE_S, RepairSettings
from bookie.repair.runs import repair_cluster
from bookie.seconds import Seconds


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """Which ledgers a repair checks, and whether it remembers those that are done."""

    bookies: tuple[str, ...] = option(
        "--bookie",
        multiple=True,
        metavar="ID",
        help="Repair only ledgers that this bookie has marked; may be given again. "
        "Default: all bookies and all ledgers.",
    )
    every_ledger: bool = option(
        "--every-ledger", is_flag=True, help="Repair ledgers without marks as well."
    )
    writer_grace: float = option(
        "--writer-grace",
        type=Seconds(at_most=86400),
        default=WRITER_GRACE_S,
        show_default=True,
        metavar="SECONDS",
        help="How long the writer of a ledger in limbo may take to replace the bookie. After that "
        "the ledger is recovered and closed.",
    )
    checkpoint: str | None = option(
        "--checkpoint",
        metavar="metadata",
        help="Remember in the metadata store which ledgers are done, so that an interrupted repair "
        "continues there. The name of a folder does the same, but nothing is kept in the folder.",
    )

    def request(self, engine: str, digests: Digests, *, rate: int | None) -> RepairRequest:
        """The request that these options make."""
        return RepairRequest(
            tuple(map(BookieId, self.bookies)),
            engine,
            every_ledger=self.every_ledger,
            settings=RepairSettings(
                copy=CopySettings(bytes_per_second=rate),
                digests=digests.settings(),
                writer_grace_s=self.writer_grace,
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
    """Recover ledgers in limbo, copy missing entries, and ask the bookies to clear their marks."""
    request = options.request(engine, digests, rate=rate)
    run_job("repair", lambda say: repair_cluster(metadata, request, say=say), ending)
