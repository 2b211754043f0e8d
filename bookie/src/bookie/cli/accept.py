"""`bookie ledger accept-loss`: a person's decision about a tail that nobody can decide (S33)."""

from typing import Any

import click

from bookie.cli.common import (
    ask,
    fail,
    ledger_argument,
    metadata_option,
    output_option,
    person,
    run,
    yes_option,
)
from bookie.cli.exit_codes import Exit
from bookie.cli.output import show_fields
from bookie.errors import BadRequestError, UndecidableError
from bookie.ids import EntryId, LedgerId
from bookie.repair.engine.opening import open_cluster
from bookie.repair.mend.accept_loss import accept_loss


@click.command("accept-loss")
@ledger_argument
@click.option(
    "--entry",
    type=click.IntRange(0),
    help="The entry in question, to be sure of what is accepted; refused if it is another.",
)
@click.option("--reason", required=True, help="Kept in the loss record.")
@yes_option
@metadata_option
@output_option
def accept(
    metadata: str, output: str, ledger_id: int, entry: int | None, reason: str, yes: bool
) -> None:
    """Close a ledger whose tail nobody can decide any more, accepting what may be lost.

    Asks every bookie again first: closes without any loss if a copy has turned up, and is refused
    while a member of the ensemble is merely away.
    """
    ask(f"Acknowledged entries of ledger {ledger_id} may be given up for good. Go on?", yes=yes)

    async def work() -> dict[str, Any]:
        async with open_cluster(metadata) as cluster:
            try:
                decision = await accept_loss(
                    cluster,
                    LedgerId(ledger_id),
                    by=person(),
                    reason=reason,
                    first_entry_id=None if entry is None else EntryId(entry),
                )
            except (UndecidableError, BadRequestError) as error:
                fail(error, Exit.REFUSED)
        return decision.json()

    show_fields(run(work()), output=output)
