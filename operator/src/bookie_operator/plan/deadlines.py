"""Bounds of jobs: how long one may take to start and to run, and how long the next one waits."""

from datetime import datetime, timedelta
from typing import Final

from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.model.repair_spec import Repair
from bookie_operator.observed import Job, JobKind

CLOCKS_APART: Final = timedelta(minutes=15)
"""Clocks of operator and platform differ: a wait may look longer than the longest by so much."""
DOUBLINGS_MAX: Final = 20
"""Keeps the exponent in range; the wait itself is bounded by the spec."""


def backoff(attempt: int, repair: Repair) -> timedelta:
    """How long to wait after failed attempt number `attempt` (1, 2, ...): 1, 2, 4 ... units."""
    assert attempt >= 1
    factor = 2 ** min(attempt - 1, DOUBLINGS_MAX)
    return min(timedelta(seconds=repair.backoff_seconds * factor), _longest(repair))


def is_waited_out(at: datetime | None, repair: Repair, now: datetime) -> bool:
    """Whether the next attempt may begin, which may not before `at`; None = nothing failed.

    A wait that is much longer than any comes from a clock that has been put right since.
    """
    return at is None or not still_waits(at, now, longest=_longest(repair) + CLOCKS_APART)


def still_waits(until: datetime, now: datetime, *, longest: timedelta) -> bool:
    """Whether a wait is not over. One that is longer than any began before the clock went back."""
    return timedelta() < until - now <= longest


def _longest(repair: Repair) -> timedelta:
    return timedelta(seconds=max(repair.backoff_seconds, repair.backoff_max_seconds))


def deadline_s(spec: ClusterSpec, kind: JobKind) -> float:
    """How long a job of this kind may run, in seconds."""
    is_whole_disk = kind in (JobKind.SCRUB, JobKind.INDEX_REBUILD)  # reads all there is
    return spec.scrub.deadline_seconds if is_whole_disk else spec.repair.deadline_seconds


def overdue(job: Job, spec: ClusterSpec, now: datetime) -> str | None:
    """Why a running job is to be stopped: it never started, or runs for too long."""
    age = now - job.started_at
    if job.waiting and age > timedelta(seconds=spec.repair.start_deadline_seconds):
        return f"NotStarted, {job.waiting}"
    is_late = age > timedelta(seconds=deadline_s(spec, job.kind))
    return "DeadlineExceeded" if is_late else None
