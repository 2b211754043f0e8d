"""`bookie ledger retract-loss`: a person withdraws a wrong loss record."""

import re
from typing import Final

import click

from bookie.cli.accept import refusal_code
from bookie.cli.common import (
    ask,
    cluster_id,
    fail,
    ledger_argument,
    metadata_option,
    yes_option,
)
from bookie.cli.jobs import Answer, outcome, write_answer
from bookie.cli.option_groups import grouped
from bookie.cli.output import show_fields
from bookie.cli.summary import write_summary
from bookie.exit_codes import Exit
from bookie.ids import ENTRY_ID_MAX, NO_ENTRY, EntryId, LedgerId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.repair.engine.opening import open_cluster
from bookie.repair.mend.retract_loss import retract_loss
from bookie.repair.reports.result import Document
from bookie.user import user_name

KIND: Final = "retract-loss"
RANGE: Final = re.compile(r"([0-9]+)(?:-([0-9]+))?")


@click.command(KIND)
@ledger_argument
@click.option(
    "--entries",
    metavar="FIRST-LAST",
    help="Only these entries, such as 5-9 or 7. Default: all recorded losses of the ledger.",
)
@click.option("--reason", required=True, help="Why the record is wrong; the bookies keep it.")
@click.option("--by", default=user_name, show_default="you", help="Who decides.")
@yes_option
@grouped(answer=Answer)
@metadata_option
def retract(
    metadata: str,
    ledger_id: int,
    entries: str | None,
    reason: str,
    by: str,
    yes: bool,
    answer: Answer,
) -> None:
    """Withdraw a wrong record that entries of a ledger are lost.

    Each bookie that has such a record deletes it and keeps the name of the person who asked.
    Because of the record, the bookie may have denied that the entries exist; then the ledger goes
    into limbo there until a repair has checked it. The end of a closed ledger does not change.
    """
    chosen = _range(entries)
    ask(f"Withdraw the records that entries of ledger {ledger_id} are lost?", yes=yes)

    async def work() -> Document:
        async with open_cluster(metadata) as cluster:
            await cluster_id(cluster.store, metadata)
            done = await retract_loss(
                cluster, LedgerId(ledger_id), by=by, reason=reason, entries=chosen
            )
        return done.json()

    found = outcome(KIND, work, answer, code=refusal_code)
    if answer.summary is not None:
        write_answer(KIND, write_summary, found, answer.summary, answer)
    show_fields(found, output=answer.output)
    if found["refused"]:
        said = "; ".join(f"{bookie}: {message}" for bookie, message in found["refused"].items())
        fail(f"refused by {said}", Exit.REFUSED)
    if found["silent"]:
        names = ", ".join(found["silent"])
        fail(
            f"no answer from {names}, which may have such a record: run the command again",
            Exit.UNDECIDED,
        )


def _range(text: str | None) -> EntrySet:
    """Parse --entries; empty when it is not given."""
    if text is None:
        return EMPTY
    found = RANGE.fullmatch(text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, NO_ENTRY)
    if not first <= last <= ENTRY_ID_MAX:
        raise click.UsageError(f"--entries: found {text}, expected FIRST-LAST, such as 5-9, or 7")
    return EntrySet.from_ranges([(EntryId(first), EntryId(last))])
