"""What became of a drain or a re-replication: the fields of its result object that both have.

docs/repair-result.md lists them.
"""

from collections.abc import Collection, Iterable, Sequence

from bookie.exit_codes import Exit
from bookie.ids import BookieId, LedgerId
from bookie.repair.jobs.evacuation import Refusal
from bookie.repair.jobs.repair_result import after_json, sums
from bookie.repair.look.audit import Audit
from bookie.repair.mend.outcome import Outcome
from bookie.repair.reports.result import Document, exit_code


def evacuation_result(
    outcomes: Sequence[Outcome],
    *,
    refusal: Refusal | None,
    after: Audit,
    left: set[LedgerId],
    silent: Collection[BookieId],
) -> Document:
    """The fields from `refused` to `exit_code`. `left`: ledgers that still name a leaving
    bookie."""
    late = left - {outcome.ledger_id for outcome in outcomes}
    blocked = blocked_rows(outcomes, refusal, late)
    code = exit_code(after, blocked=len(blocked) + len(left))
    return {
        "refused": refusal.message if refusal is not None else "",
        "ledgers_left": len(left),
        "ledgers": {
            "considered": _ledgers(outcomes),
            "moved": _ledgers(outcome for outcome in outcomes if outcome.moved),
            "recovered": _ledgers(outcome for outcome in outcomes if outcome.recovered),
            "blocked": _ledgers(outcome for outcome in outcomes if outcome.reason),
            "deleted": _ledgers(o for o in outcomes if o.state_before == "DELETED"),
        },
        **sums(outcomes),
        **after_json(after, blocked, silent),
        "exit_code": Exit.REFUSED if refusal is not None else code,
    }


def _ledgers(outcomes: Iterable[Outcome]) -> int:
    """How many they are: a ledger has an outcome for each lost bookie, and one for its mark."""
    return len({outcome.ledger_id for outcome in outcomes})


def blocked_rows(
    outcomes: Sequence[Outcome], refusal: Refusal | None, late: set[LedgerId]
) -> list[Document]:
    """What is in the way: of the whole, of a ledger, and ledgers that came `late`."""
    rows: list[Document] = []
    if refusal is not None:
        rows.append(
            {
                "bookie_id": refusal.bookie_id,
                "reason": refusal.reason,
                "message": refusal.message,
            }
        )
    rows += [
        {"ledger_id": outcome.ledger_id, "reason": outcome.reason, "message": outcome.message}
        for outcome in outcomes
        if outcome.reason
    ]
    if refusal is None:
        said = "it came to name the bookie after the last look: run this again"
        rows += [{"ledger_id": i, "reason": "CameLate", "message": said} for i in sorted(late)]
    return rows
