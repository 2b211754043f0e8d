"""What became of a repair, from its parts: the fields of the result object that a repair alone has.

docs/repair-result.md lists them. Pure: `repair_job` gathers the parts.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bookie.ids import BookieId, LedgerId
from bookie.protocol.status import Status
from bookie.repair.judge.counts import AuditCounts
from bookie.repair.look.audit import Audit
from bookie.repair.look.bookie_control import Cleared, Marks
from bookie.repair.mend.losses import Loss
from bookie.repair.mend.outcome import LedgerOutcome
from bookie.repair.reports.result import (
    FINDINGS_MAX,
    Document,
    accepted_json,
    audit_json,
    counts_json,
    exit_code,
)


def repair_result(
    outcomes: Sequence[LedgerOutcome],
    *,
    marks: Sequence[Marks],
    after: Audit,
    losses: Sequence[Loss],
    cleared: Sequence[tuple[BookieId, Cleared]],
) -> Document:
    """From `bookies` to `exit_code`."""
    refused = [(bookie_id, one) for bookie_id, one in cleared if not one.is_done]
    silent = [found for found in marks if found.status is not Status.OK]
    blocked = _blocked(outcomes, refused, silent)
    unmarked, told = _unmarked(cleared), audit_json(after)
    return {
        "bookies": [_bookie_json(found, cleared) for found in marks],
        "ledgers": {
            "considered": len(outcomes),
            "recovered": sum(outcome.recovered for outcome in outcomes),
            "cleared": len(unmarked),
            "blocked": len({row["ledger_id"] for row in blocked if "ledger_id" in row}),
            "deleted": sum(outcome.state_before == "DELETED" for outcome in outcomes),
        },
        **_sums(outcomes),
        "audit_before": counts_json(sum((outcome.before for outcome in outcomes), AuditCounts())),
        "audit_after": counts_json(after.counts),
        "blocked": blocked[:FINDINGS_MAX],
        "blocked_left_out": max(len(blocked) - FINDINGS_MAX, 0),
        "losses": [loss.json() for loss in losses[:FINDINGS_MAX]],
        "accepted_losses": accepted_json(after),
        "undecidable": [_undecidable(o) for o in outcomes if o.reason == "Undecidable"][
            :FINDINGS_MAX
        ],
        **{name: told[name] for name in ("findings", "classes", "copies", "last_copies")},
        "unreachable": sorted(after.unreachable | {found.bookie_id for found in silent}),
        "exit_code": exit_code(after.counts, blocked=len(blocked)),
    }


def _sums(outcomes: Sequence[LedgerOutcome]) -> Document:
    closed = [outcome for outcome in outcomes if outcome.state_before == "CLOSED"]
    return {
        "entries_recovered": sum(outcome.entries_recovered for outcome in outcomes),
        "entries_copied": sum(outcome.entries_copied for outcome in outcomes),
        "entries_copied_closed": sum(outcome.entries_copied for outcome in closed),
        "bytes_copied": sum(outcome.bytes_copied for outcome in outcomes),
        "corrupt_copies": sum(outcome.corrupt_copies for outcome in outcomes),
        "corrupt_found": sum(outcome.corrupt_found for outcome in outcomes),
        "corrupt_replaced": sum(outcome.corrupt_replaced for outcome in outcomes),
    }


def _blocked(
    outcomes: Iterable[LedgerOutcome],
    refused: Iterable[tuple[BookieId, Cleared]],
    silent: Iterable[Marks],
) -> list[Document]:
    """What is in the way of a clean end: ledgers, marks that stay, bookies that said nothing."""
    rows: list[Document] = [
        {"ledger_id": outcome.ledger_id, "reason": outcome.reason, "message": outcome.message}
        for outcome in outcomes
        if outcome.reason
    ]
    rows += [
        {
            "ledger_id": one.ledger_id,
            "bookie_id": bookie_id,
            "reason": one.reason,
            "message": one.message,
        }
        for bookie_id, one in refused
    ]
    rows += [
        {
            "bookie_id": found.bookie_id,
            "reason": "Unreachable",
            "message": f"its marks are unknown: {found.status.name} {found.message}".rstrip(),
        }
        for found in silent
    ]
    return rows


def _unmarked(cleared: Iterable[tuple[BookieId, Cleared]]) -> set[LedgerId]:
    """Ledgers of which no mark is left on any bookie that was asked."""
    answers: dict[LedgerId, bool] = {}
    for _bookie_id, one in cleared:
        answers[one.ledger_id] = answers.get(one.ledger_id, True) and one.is_done
    return {ledger_id for ledger_id, done in answers.items() if done}


def _bookie_json(found: Marks, cleared: Iterable[tuple[BookieId, Cleared]]) -> Document:
    limbo = sum(mark.limbo for mark in found.marks)
    done = sum(one.is_done for bookie_id, one in cleared if bookie_id == found.bookie_id)
    return {
        "bookie_id": found.bookie_id,
        "status": found.status.name,
        "limbo_ledgers": limbo,
        "unchecked_ledgers": len(found.marks) - limbo,
        "marks_cleared": done,
    }


def _undecidable(outcome: LedgerOutcome) -> Mapping[str, Any]:
    return {
        "ledger_id": outcome.ledger_id,
        "possible_loss_from": outcome.possible_loss_from,
        "waiting_for": list(outcome.waiting_for),
        "message": outcome.message,
    }
