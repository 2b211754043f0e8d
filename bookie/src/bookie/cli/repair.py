"""`bookie repair`: recovers limbo ledgers, copies what is missing, has marks cleared."""

from dataclasses import dataclass

import click

from bookie.cli.common import metadata_option
from bookie.cli.jobs import Digests, Ending, engine_option, rate_option, run_job
from bookie.cli.option_groups import grouped, option
from bookie.ids import BookieId
from bookie.repair.copy import CopySettings
from bookie.repair.ledgers import RepairSettings
from bookie.repair.runs import repair_cluster
from bookie.repair.steps import RepairRequest


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
        type=click.Path(file_okay=False),
        metavar="DIR",
        help="Remember here what was done, or in the metadata store (metadata): a repair that was "
        "cut off goes on from there.",
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
            checkpoint=self.checkpoint,
        )


@click.command("repair")
@grouped(options=RepairOptions, digests=Digests, ending=Ending)
@rate_option
@engine_option
@metadata_option
def repair(
    metadata: str,
    engine: str,
    rate: int | None,
    options: RepairOptions,
    digests: Digests,
    ending: Ending,
) -> None:
    """Recover limbo ledgers, copy what is missing, and ask the bookies to clear their marks."""
    request = options.request(engine, digests, rate=rate)
    run_job("repair", lambda say: repair_cluster(metadata, request, say=say), ending)
