"""`bookie ledger accept-loss`: a person closes ledgers whose end no recovery can find (S33)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import click

from bookie.cli.common import ask, cluster_id, code_of, fail, metadata_option, yes_option
from bookie.cli.jobs import Answer, outcome, write_answer
from bookie.cli.option_groups import grouped
from bookie.cli.output import show_fields, table_text
from bookie.cli.summary import write_summary
from bookie.errors import BadRequestError, BookieError, SettingsError, UndecidableError
from bookie.exit_codes import Exit
from bookie.ledger_selector import LedgerSelector, parse_selector
from bookie.repair.engine.opening import open_cluster
from bookie.repair.look.cluster import Cluster
from bookie.repair.mend.accept_loss import accept_loss
from bookie.repair.mend.loss_decisions import Approval, decide_losses, outlooks
from bookie.repair.reports.result import Document
from bookie.user import user_name

KIND: Final = "accept-loss"
OUTLOOK_COLUMNS: Final = (
    "ledger_id", "closes_at", "first_in_question", "last_add_confirmed", "forgotten_by", "away",
)  # fmt: skip
DECISION_COLUMNS: Final = ("ledger_id", "last_entry_id", "lost_from", "recorded_on")
REFUSAL_COLUMNS: Final = ("ledger_id", "message")


@click.command(KIND)
@click.argument("ledgers")
@click.option(
    "--entry",
    type=click.IntRange(0),
    help="Of one ledger, the entry that you expect to be undecided; the command is refused if it "
    "is another one. Of several: LEDGER@ENTRY.",
)
@click.option("--reason", default="", help="Why the loss is accepted; kept in the loss record.")
@click.option(
    "--dry-run", is_flag=True, help="Show where each ledger would be closed, and change nothing."
)
@yes_option
@grouped(answer=Answer)
@metadata_option
def accept(
    metadata: str,
    ledgers: str,
    entry: int | None,
    reason: str,
    dry_run: bool,
    yes: bool,
    answer: Answer,
) -> None:
    """Close ledgers that no recovery can close, and accept that entries may be lost.

    LEDGERS are ids, with commas between them: 4, or 40@7 if entry 7 is the one that you expect to
    be undecided, or 9-12 for those from 9 to 12 whose recovery was begun and could not end.

    It first asks every bookie again. If a copy has turned up, it closes the ledger without loss. A
    ledger is left as it is while one of its bookies is only temporarily away.
    """
    selector = _selector(ledgers, entry)
    if dry_run:
        seen = _asked(metadata, lambda cluster: outlooks(cluster, selector), answer)
        show_many(seen, OUTLOOK_COLUMNS, answer)
        return
    if not reason.strip():
        raise click.UsageError("--reason is needed: it is kept with the decision")
    ask(f"Acknowledged entries of {_named(selector)} may be lost permanently. Continue?", yes=yes)
    by, one = user_name(), selector.single
    if one is None:
        approval = Approval(by, reason)
        found = _asked(metadata, lambda cluster: decide_losses(cluster, selector, approval), answer)
        show_many(found, DECISION_COLUMNS, answer)
        return
    # Of one ledger the decision itself is the answer, and a refusal the command's.
    decision = _asked(
        metadata,
        lambda cluster: accept_loss(
            cluster, one.first, by=by, reason=reason, first_entry_id=one.entry
        ),
        answer,
    )
    _summarise(decision, answer)
    show_fields(decision, output=answer.output)


def refusal_code(error: BookieError) -> Exit:
    """The exit code of an error: REFUSED where the decision cannot be carried out, now or ever."""
    is_refusal = isinstance(error, UndecidableError | BadRequestError)
    return Exit.REFUSED if is_refusal and not isinstance(error, SettingsError) else code_of(error)


def _selector(text: str, entry: int | None) -> LedgerSelector:
    try:
        return parse_selector(text, entry=entry)
    except BadRequestError as error:
        raise click.UsageError(str(error)) from None


def _named(selector: LedgerSelector) -> str:
    single = selector.single
    return f"ledgers {selector}" if single is None else f"ledger {single.first}"


class _Result(Protocol):
    """What came of a decision, or of a look at one."""

    def json(self) -> Document: ...


def _asked(
    metadata: str, ask_cluster: Callable[[Cluster], Awaitable[_Result]], answer: Answer
) -> Document:
    """The answer of a cluster that is open as long as it takes."""

    async def work() -> Document:
        async with open_cluster(metadata) as cluster:
            await cluster_id(cluster.store, metadata)
            return (await ask_cluster(cluster)).json()

    return outcome(KIND, work, answer, code=refusal_code)


def show_many(found: Document, columns: tuple[str, ...], answer: Answer) -> None:
    """Tables for people; REFUSED if anything was, once all is shown and written."""
    _summarise(found, answer)
    if answer.output == "json":
        show_fields(found, output=answer.output)
    else:
        for rows, names in ((found["decisions"], columns), (found["refusals"], REFUSAL_COLUMNS)):
            if rows:
                click.echo(table_text(rows, columns=names), nl=False)
        click.echo(_totals(found))
    if found["refused"] and not found.get("dry_run"):
        fail(f"{found['refused']} of {_total(found)} ledgers could not be decided", Exit.REFUSED)


def _totals(found: Mapping[str, Any]) -> str:
    would, total = "would be closed" if found.get("dry_run") else "closed", _total(found)
    if not total:
        return "no ledger of these is in a recovery that could not end: nothing was done"
    noun = "ledger" if total == 1 else "ledgers"
    return f"{found['closed']} of {total} {noun} {would}, {found['given_up']} with entries given up"


def _total(found: Mapping[str, Any]) -> int:
    return int(found["closed"]) + int(found["refused"])


def _summarise(document: Document, answer: Answer) -> None:
    if answer.summary is not None:
        write_answer(KIND, write_summary, document, answer.summary, answer)
