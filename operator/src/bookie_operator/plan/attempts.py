"""Numbered attempts of one kind of job for the whole cluster, followed from pass to pass. Pure.

Audits, repairs of findings, scrubs and re-replications are such: the newest job's number names the
next one, so that a restarted operator finds it again, and a failed one is tried again with growing
waits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, TypeVar

from bookie_operator.model.status import AttemptStatus, whole_milliseconds
from bookie_operator.observed import (
    AuditReport,
    Job,
    JobKind,
    MendReport,
    RereplicationReport,
    ScrubReport,
)
from bookie_operator.plan.actions import Action, StartJob, StopJob
from bookie_operator.plan.deadlines import backoff, overdue
from bookie_operator.plan.passes import Pass

Status = TypeVar("Status", bound=AttemptStatus)
Figures = Callable[[Job], Mapping[str, Any] | None]
"""What the status says of a job that came to its end; None when it left no result."""


def followed(pass_: Pass, previous: Status, *, kind: JobKind, figures: Figures) -> Status:
    """The status after looking at the newest job of this kind."""
    jobs = [job for job in pass_.observed.jobs if job.kind is kind]
    job = max(jobs, key=lambda job: job.attempt, default=None)
    if job is None or job.attempt < previous.attempt:
        if not previous.running:
            return previous
        return _failed(pass_, previous, kind, previous.attempt, pass_.now, "the job is gone")
    if job.running:
        told: dict[str, Any] = {"running": True, "attempt": job.attempt, "progress": job.progress}
        return previous.model_copy(update=told | {"message": job.waiting[:1024]})
    if job.attempt == previous.attempt and not previous.running:
        return previous
    found = figures(job)
    if found is None or job.ended_at is None:
        ended = job.ended_at or pass_.now
        return _failed(pass_, previous, kind, job.attempt, ended, job.message or "no result")
    return previous.model_copy(update=_ended(job, job.ended_at) | dict(found))


def stops(pass_: Pass, kind: JobKind, *, gives_way_to: str = "") -> list[Action]:
    """Those of this kind that must end: for something more pressing, or by their own bounds."""
    return [
        StopJob(job.name, reason)
        for job in pass_.running(kind)
        if (reason := gives_way_to or overdue(job, pass_.spec, pass_.now))
    ]


def wants_to_run(status: AttemptStatus, actions: Sequence[Action]) -> bool:
    """One runs, or begins in this pass."""
    return status.running or any(isinstance(action, StartJob) for action in actions)


def told(
    report: AuditReport | MendReport | ScrubReport | RereplicationReport,
    status: type[AttemptStatus],
) -> dict[str, Any]:
    """What the status says as the report does, by the names that both have."""
    names = [field.name for field in fields(report) if field.name in status.model_fields]
    return {"clean": report.is_clean, **{name: getattr(report, name) for name in names}}


def _ended(job: Job, ended: datetime) -> dict[str, Any]:
    return {
        "running": False,
        "attempt": job.attempt,
        "failures": 0,
        "next_at": None,
        "started_at": whole_milliseconds(job.started_at),
        "finished_at": whole_milliseconds(ended),
        "message": "",
        "progress": "",
    }


def _failed(
    pass_: Pass,
    previous: Status,
    kind: JobKind,
    attempt: int,
    ended: datetime,
    why: str,
) -> Status:
    failures = previous.failures + 1
    return previous.model_copy(
        update={
            "running": False,
            "attempt": attempt,
            "failures": failures,
            "next_at": whole_milliseconds(ended + backoff(failures, pass_.spec.repair)),
            "message": f"{kind.value} {attempt} failed: {why}"[:1024],
            "progress": "",
        }
    )
