"""What the jobs of decisions about losses report: in words, and what it means for the fleet."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from bookie_operator.model.reports import (
    ClosedLedger,
    LossesReport,
    LossReport,
    Report,
    RetractionReport,
)
from bookie_operator.observed import Job

NAMED_MAX: Final = 10
"""Ledgers that a sentence about a decision names."""


def outcome(report: Report) -> str:
    """What a decision came to, in a sentence."""
    match report:
        case LossReport():
            return _accepted(report)
        case LossesReport():
            return _decided(report)
        case RetractionReport():
            return _retracted(report)
    return ""


def complaint(report: Report | None) -> str:
    """Why a decision was not carried out, or not everywhere; empty: it was, as far as the report
    says."""
    if isinstance(report, LossesReport):
        return _decided(report) if report.refused and not report.dry_run else ""
    if not isinstance(report, RetractionReport) or not (report.refused or report.silent):
        return ""
    refused = [f"{bookie} refuses: {why}" for bookie, why in report.refused.items()]
    if report.silent:
        names = ", ".join(report.silent)
        refused.append(f"no answer from {names}, who may have such a record: ask again")
    return "; ".join([*refused, *([_retracted(report)] if report.retracted_on else [])])


def losses_accepted(jobs: Sequence[Job]) -> list[int]:
    """Ledgers of which entries were really given up, as far as their jobs are kept and name
    them."""
    found: list[int] = []
    for job in jobs:
        if one := job.reported(LossReport):
            found += [one.ledger_id] if one.lost_from is not None else []
        elif (many := job.reported(LossesReport)) and not many.dry_run:
            found += [row.ledger_id for row in many.decisions if row.lost_from is not None]
    return sorted(found)


def last_decision(jobs: Sequence[Job]) -> datetime | None:
    """When a person's decision last closed a ledger or withdrew a record; repairs and audits must
    look again after that."""
    moments = [job.ended_at for job in jobs if job.ended_at is not None and _changed(job.report)]
    return max(moments, default=None)


def _changed(report: Report | None) -> bool:
    if isinstance(report, RetractionReport):
        return bool(report.retracted_on)
    if isinstance(report, LossesReport):
        return bool(report.closed) and not report.dry_run
    return isinstance(report, LossReport)


def _decided(report: LossesReport) -> str:
    word = "would be closed" if report.dry_run else "closed"
    total = report.closed + report.refused
    if not total:
        return "no ledger of these is in a recovery that could not end: nothing was done"
    noun = "ledger" if total == 1 else "ledgers"
    text = f"{report.closed} of {total} {noun} {word}, {report.given_up} with entries given up"
    rows = ", ".join(map(_closed_briefly, report.decisions[:NAMED_MAX]))
    more = ", ..." if len(report.decisions) > NAMED_MAX else ""
    refused = f"; refused: {report.first_refusal}" if report.first_refusal else ""
    return f"{text}{': ' if rows else ''}{rows}{more}{refused}"


def _closed_briefly(row: ClosedLedger) -> str:
    if row.away:
        return f"{row.ledger_id} waits for {', '.join(row.away)}"
    end = f"at {row.last_entry_id}" if row.last_entry_id >= 0 else "empty"
    return f"{row.ledger_id} {end}"


def _accepted(loss: LossReport) -> str:
    end = f"closed at entry {loss.last_entry_id}" if loss.last_entry_id >= 0 else "closed empty"
    if loss.lost_from is None:
        return f"ledger {loss.ledger_id} {end}; nothing had to be given up"
    where = f", recorded on {', '.join(loss.recorded_on)}" if loss.recorded_on else ""
    return f"ledger {loss.ledger_id} {end}; entries from {loss.lost_from} on are given up{where}"


def _retracted(done: RetractionReport) -> str:
    if not done.retracted_on:
        return f"no bookie has a record of a loss of ledger {done.ledger_id}"
    where = ", ".join(f"{bookie} ({count})" for bookie, count in done.retracted_on.items())
    word = f"ledger {done.ledger_id}: entries that are lost no more, by bookie: {where}"
    if not done.in_limbo_on:
        return word
    return f"{word}; in limbo on {', '.join(done.in_limbo_on)} until a repair has looked"
