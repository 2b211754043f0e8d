"""`bookie audit`: compare what bookies hold with what they must hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from bookie.cli.common import metadata_option
from bookie.cli.jobs import FILE, Digests, JobOutput, engine_option, run_job
from bookie.cli.option_groups import grouped, option
from bookie.errors import MetadataFormatError, NoSuchLedgerError
from bookie.ids import LedgerId
from bookie.protocol.placement import MIN_RACKS
from bookie.repair.engine.opening import open_cluster
from bookie.repair.jobs.audit_job import AuditRequest, Checks
from bookie.repair.judge.adherence import read_racks
from bookie.repair.look.audit import AuditSettings
from bookie.repair.reports.finding_history import METADATA
from bookie.repair.reports.progress_lines import Say
from bookie.repair.reports.result import Document
from bookie.repair.runs import audit_cluster
from bookie.seconds import Seconds


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What an audit checks, and which findings it reports."""

    ledgers: tuple[int, ...] = option(
        "--ledger",
        type=click.IntRange(0),
        multiple=True,
        help="Check only this ledger; may be given again.",
    )
    recheck_s: float = option(
        "--recheck-delay",
        type=Seconds(),
        default=AuditSettings().recheck_s,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait before bookies that did not answer are asked once more.",
    )
    grace_s: float = option(
        "--underreplicated-grace",
        type=Seconds(),
        default=0,
        show_default=True,
        metavar="SECONDS",
        help="Report a ledger that BookKeeper has marked as under-replicated only when the mark is "
        "this old.",
    )
    racks: Path | None = option(
        "--racks",
        type=FILE,
        metavar="FILE",
        help="YAML file that maps bookies to racks; it overrides the racks that bookies report.",
    )
    min_racks: int = option(
        "--min-racks",
        type=click.IntRange(1),
        default=MIN_RACKS,
        show_default=True,
        help="How many racks the copies of an entry must span (minNumRacksPerWriteQuorum).",
    )
    ack_quorum: int | None = option(
        "--ack-quorum",
        type=click.IntRange(1),
        metavar="N",
        help="Report ledgers with a lower ack quorum; use 2 where bookies acknowledge from memory.",
    )
    history: str | None = option(
        "--history",
        metavar=f"FILE|{METADATA}",
        help=f"Remember findings in this file, or in the metadata store ({METADATA}).",
    )

    def checks(self) -> Checks:
        """The checks that these options ask for; SettingsError if the file of racks cannot be
        read."""
        racks = read_racks(self.racks) if self.racks is not None else {}
        return Checks(self.grace_s, racks, self.min_racks, self.ack_quorum)


@click.command("audit")
@grouped(options=AuditOptions, digests=Digests, ending=JobOutput)
@click.option(
    "--parquet",
    "tables",
    type=click.Path(path_type=Path),
    metavar="DIR|FILE",
    help="Write findings and the copies on each bookie as Parquet, to a folder or NAME.parquet.",
)
@engine_option
@metadata_option
def audit(
    metadata: str,
    engine: str,
    options: AuditOptions,
    digests: Digests,
    ending: JobOutput,
    tables: Path | None,
) -> None:
    """Compare what every bookie holds with what it must hold; change nothing."""
    settings = digests.settings()

    async def work(say: Say) -> Document:
        ledgers = [LedgerId(ledger_id) for ledger_id in options.ledgers]
        await _check_existence(metadata, ledgers)
        request = AuditRequest(
            ledgers or None,
            engine,
            AuditSettings(recheck_s=options.recheck_s),
            settings,
            options.checks(),
        )
        return await audit_cluster(metadata, request, history=options.history, say=say)

    run_job("audit", work, ending, tables=tables)


async def _check_existence(metadata: str, ledgers: Sequence[LedgerId]) -> None:
    """Nothing is missing of a ledger that never existed: a wrong id must not look like proof."""
    if not ledgers:
        return
    async with open_cluster(metadata) as cluster:
        unreadable: dict[LedgerId, MetadataFormatError] = {}
        known = await cluster.store.read_ledgers(ledgers, unreadable=unreadable)
    for ledger_id in ledgers:
        if ledger_id not in known and ledger_id not in unreadable:
            raise NoSuchLedgerError(ledger_id)
