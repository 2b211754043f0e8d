"""`bookie ledger retract-loss`: a person takes a wrong loss record back."""

import re
from typing import Final

import click

from bookie.cli.accept import refusal_code
from bookie.cli.common import ask, fail, ledger_argument, metadata_option, yes_option
from bookie.cli.jobs import Answer, outcome, write_answer
from bookie.cli.option_groups import grouped
from bookie.cli.output import show_fields
from bookie.cli.summary import write_summary
from bookie.exit_codes import Exit
from bookie.ids import LEDGER_ID_MAX, NO_ENTRY, EntryId, LedgerId
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
    help="Only these, such as 5-9 or 7; without it all that is recorded as lost of the ledger.",
)
@click.option("--reason", required=True, help="Why the record is wrong; kept by the bookies.")
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
    """Take back that entries of a ledger are lost: the record was wrong.

    Each bookie with such a record forgets it and keeps who asked for that. Where an entry may have
    been denied on the word of the record its ledger goes into limbo, until a repair has looked. The
    end of a closed ledger stays.
    """
    chosen = _range(entries)
    ask(f"Call what is recorded as lost of ledger {ledger_id} lost no more?", yes=yes)

    async def work() -> Document:
        async with open_cluster(metadata) as cluster:
            done = await retract_loss(
                cluster, LedgerId(ledger_id), by=by, reason=reason, entries=chosen
            )
        return done.json()

    found = outcome(KIND, work, answer, code=refusal_code)
    show_fields(found, output=answer.output)
    if answer.summary is not None:
        write_answer(KIND, write_summary, found, answer.summary, answer)
    if found["refused"]:
        said = "; ".join(f"{bookie}: {message}" for bookie, message in found["refused"].items())
        fail(f"refused by {said}", Exit.REFUSED)
    if found["silent"]:
        names = ", ".join(found["silent"])
        fail(f"no answer from {names}, who may have such a record: ask again", Exit.UNDECIDED)


def _range(text: str | None) -> EntrySet:
    """None of the entries when nothing is named."""
    if text is None:
        return EMPTY
    found = RANGE.fullmatch(text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, NO_ENTRY)
    if not first <= last <= LEDGER_ID_MAX:
        raise click.UsageError(f"--entries: found {text}, expected FIRST-LAST, such as 5-9, or 7")
    return EntrySet.from_ranges([(EntryId(first), EntryId(last))])
