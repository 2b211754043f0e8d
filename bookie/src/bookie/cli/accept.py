"""`bookie ledger accept-loss`: a person's decision about a tail that nobody can decide (S33)."""

from typing import Final

import click

from bookie.cli.common import (
    ask,
    code_of,
    ledger_argument,
    metadata_option,
    yes_option,
)
from bookie.cli.jobs import Answer, outcome, write_answer
from bookie.cli.option_groups import grouped
from bookie.cli.output import show_fields
from bookie.cli.summary import write_summary
from bookie.errors import BadRequestError, BookieError, SettingsError, UndecidableError
from bookie.exit_codes import Exit
from bookie.ids import EntryId, LedgerId
from bookie.repair.engine.opening import open_cluster
from bookie.repair.mend.accept_loss import accept_loss
from bookie.repair.reports.result import Document
from bookie.user import user_name

KIND: Final = "accept-loss"


@click.command(KIND)
@ledger_argument
@click.option(
    "--entry",
    type=click.IntRange(0),
    help="The entry in question, to be sure of what is accepted; refused if it is another.",
)
@click.option("--reason", required=True, help="Kept in the loss record.")
@yes_option
@grouped(answer=Answer)
@metadata_option
def accept(
    metadata: str, ledger_id: int, entry: int | None, reason: str, yes: bool, answer: Answer
) -> None:
    """Close a ledger whose tail nobody can decide any more, accepting what may be lost.

    Asks every bookie again first: closes without any loss if a copy has turned up, and is refused
    while a member of the ensemble is merely away.
    """
    ask(f"Acknowledged entries of ledger {ledger_id} may be given up for good. Go on?", yes=yes)

    async def work() -> Document:
        async with open_cluster(metadata) as cluster:
            decision = await accept_loss(
                cluster,
                LedgerId(ledger_id),
                by=user_name(),
                reason=reason,
                first_entry_id=None if entry is None else EntryId(entry),
            )
        return decision.json()

    decision = outcome(KIND, work, answer, code=refusal_code)
    show_fields(decision, output=answer.output)
    if answer.summary is not None:
        write_answer(KIND, write_summary, decision, answer.summary, answer)


def refusal_code(error: BookieError) -> Exit:
    """A decision that cannot be carried out now, or never, is refused."""
    is_refusal = isinstance(error, UndecidableError | BadRequestError)
    return Exit.REFUSED if is_refusal and not isinstance(error, SettingsError) else code_of(error)
