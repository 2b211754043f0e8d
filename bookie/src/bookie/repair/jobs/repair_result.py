"""What became of a repair, from its parts: its fields of the result object.

docs/repair-result.md lists them. Pure: `repair_job` gathers the parts. What all jobs that change a
cluster have in common is here as well.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bookie.ids import BookieId, LedgerId
from bookie.protocol.status import Status
from bookie.repair.judge.counts import AuditCounts
from bookie.repair.look.audit import Audit
from bookie.repair.look.bookie_control import Marks
from bookie.repair.mend.losses import Loss
from bookie.repair.mend.outcome import Outcome
from bookie.repair.reports.result import (
    FINDINGS_MAX,
    Document,
    accepted_json,
    audit_json,
    counts_json,
    exit_code,
    left_out,
)
from bookie.wire.admin.limbo_marks import Cleared

UNDECIDED_MAX: Final = 20
"""Ledgers that a person has to decide about, as far as they are named to the operator."""


def repair_result(
    outcomes: Sequence[Outcome],
    *,
    marks: Sequence[Marks],
    after: Audit,
    losses: Sequence[Loss],
    cleared: Sequence[tuple[BookieId, Cleared]],
    unflushed: Mapping[BookieId, Status],
) -> Document:
    """The fields of the result object from `bookies` to `exit_code`. `unflushed`: bookies that did
    not make durable what they accepted.
    """
    refused = [(bookie_id, one) for bookie_id, one in cleared if not one.is_done]
    silent = [found for found in marks if found.status is not Status.OK]
    blocked = _blocked(outcomes, refused, silent, unflushed)
    undecidable = [outcome for outcome in outcomes if outcome.reason == "Undecidable"]
    unmarked, audited = _unmarked(cleared), audit_json(after)
    return {
        "bookies": [_bookie_json(found, cleared) for found in marks],
        "ledgers": {
            "considered": len(outcomes),
            "recovered": sum(outcome.recovered for outcome in outcomes),
            "cleared": len(unmarked),
            "blocked": len({row["ledger_id"] for row in blocked if "ledger_id" in row}),
            "deleted": sum(outcome.state_before == "DELETED" for outcome in outcomes),
        },
        **sums(outcomes),
        "entries_copied_closed": sum(
            outcome.entries_copied for outcome in outcomes if outcome.state_before == "CLOSED"
        ),
        "corrupt_found": sum(outcome.corrupt_found for outcome in outcomes),
        "corrupt_replaced": sum(outcome.corrupt_replaced for outcome in outcomes),
        "audit_before": counts_json(sum((outcome.before for outcome in outcomes), AuditCounts())),
        **after_json(after, blocked, [found.bookie_id for found in silent]),
        "losses": [loss.json() for loss in losses[:FINDINGS_MAX]],
        "losses_left_out": left_out(losses),
        "undecidable": [_undecidable(outcome) for outcome in undecidable[:FINDINGS_MAX]],
        "undecidable_left_out": left_out(undecidable),
        "undecided": undecided_json(outcomes),
        **{name: audited[name] for name in ("classes", "copies", "last_copies")},
        "exit_code": exit_code(after, blocked=len(blocked)),
    }


def sums(outcomes: Sequence[Outcome]) -> Document:
    """What was done to how many entries."""
    names = ("entries_recovered", "entries_copied", "bytes_copied", "corrupt_copies")
    return {name: sum(getattr(outcome, name) for outcome in outcomes) for name in names}


_FOUND: Final = ("findings", "findings_left_out", "open_ended", "open_ended_left_out")


def after_json(after: Audit, blocked: Sequence[Document], silent: Iterable[BookieId]) -> Document:
    """What an audit of the ledgers found in the end, and what is in the way of a clean one."""
    audited = audit_json(after)
    return {
        "audit_after": counts_json(after.counts),
        "blocked": list(blocked[:FINDINGS_MAX]),
        "blocked_left_out": left_out(blocked),
        **{name: audited[name] for name in _FOUND},
        **accepted_json(after),
        "unreachable": sorted(after.unreachable | set(silent)),
    }


def _blocked(
    outcomes: Iterable[Outcome],
    refused: Iterable[tuple[BookieId, Cleared]],
    silent: Iterable[Marks],
    unflushed: Mapping[BookieId, Status],
) -> list[Document]:
    """What is in the way of a clean end: ledgers, marks that stay, bookies without an answer, or
    with copies that no disk has yet.
    """
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
    rows += [
        {
            "bookie_id": bookie_id,
            "reason": "NotFlushed",
            "message": f"it did not make durable what it accepted: {status.name}",
        }
        for bookie_id, status in sorted(unflushed.items())
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


def undecided_json(outcomes: Iterable[Outcome]) -> Document:
    """What only a person can decide, and what waits for bookies that are away: in few bytes, since
    the operator gets no more."""
    undecided = sorted(
        (outcome for outcome in outcomes if outcome.possible_loss_from >= 0),
        key=lambda outcome: outcome.ledger_id,
    )
    ready = [outcome for outcome in undecided if not outcome.away]
    waiting = [outcome for outcome in undecided if outcome.away]
    return {
        "ledgers": len(ready),
        "through": ready[-1].ledger_id if ready else None,
        "first": [_decidable(outcome) for outcome in ready[:UNDECIDED_MAX]],
        "waiting": len(waiting),
        "away": sorted({bookie for outcome in waiting for bookie in outcome.away}),
    }


def _decidable(outcome: Outcome) -> Document:
    return {
        "ledger": outcome.ledger_id,
        "entry": outcome.possible_loss_from,
        "last_confirmed": outcome.last_add_confirmed,
        "forgotten_by": list(outcome.forgotten_by),
    }


def _undecidable(outcome: Outcome) -> Mapping[str, Any]:
    return {
        "ledger_id": outcome.ledger_id,
        "possible_loss_from": outcome.possible_loss_from,
        "last_add_confirmed": outcome.last_add_confirmed,
        "forgotten_by": list(outcome.forgotten_by),
        "away": list(outcome.away),
        "waiting_for": sorted({*outcome.forgotten_by, *outcome.away}),
        "message": outcome.message,
    }
