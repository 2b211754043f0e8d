"""`bookie ledger accept-loss`: a person closes a ledger whose end no recovery can find (S33)."""

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
    help="The entry that you expect to be undecided; the command is refused if it is another one.",
)
@click.option("--reason", required=True, help="Why the loss is accepted; kept in the loss record.")
@yes_option
@grouped(answer=Answer)
@metadata_option
def accept(
    metadata: str, ledger_id: int, entry: int | None, reason: str, yes: bool, answer: Answer
) -> None:
    """Close a ledger that no recovery can close, and accept that entries may be lost.

    It first asks every bookie again. If a copy has turned up, it closes the ledger without loss. It
    is refused while a bookie of the ledger is only temporarily away.
    """
    ask(f"Acknowledged entries of ledger {ledger_id} may be lost permanently. Continue?", yes=yes)

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
    """The exit code of an error: REFUSED where the decision cannot be carried out, now or ever."""
    is_refusal = isinstance(error, UndecidableError | BadRequestError)
    return Exit.REFUSED if is_refusal and not isinstance(error, SettingsError) else code_of(error)
