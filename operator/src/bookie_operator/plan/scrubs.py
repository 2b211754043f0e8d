"""Scrubs: every copy read and verified, on schedule or when asked; corrupt copies are replaced.

A scrub gives way to whatever is more pressing: it begins only while every bookie serves and none
has marks, and it is stopped for a repair, a drain or a re-replication. What it has replaced by then
stays replaced.
"""

from dataclasses import dataclass
from typing import Any

from bookie_operator.model.cluster import BookieCluster, RepairEngine
from bookie_operator.model.schedule import NEVER, due_after
from bookie_operator.model.status import ScrubStatus, whole_milliseconds
from bookie_operator.model.task import TaskType
from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.actions import Action, StartJob
from bookie_operator.plan.attempts import followed, stops, told
from bookie_operator.plan.passes import Pass


@dataclass(frozen=True, slots=True)
class Scrubs:
    status: ScrubStatus
    actions: list[Action]


def scrubs(pass_: Pass, *, gives_way_to: str) -> Scrubs:
    """`gives_way_to`: what needs the bookies more, as the reason of a stop; empty = nothing."""
    status = last_scrub(pass_)
    status = _with_schedule(pass_, status)
    actions = stops(pass_, JobKind.SCRUB, gives_way_to=gives_way_to)
    may_start = not (pass_.running(JobKind.SCRUB) or gives_way_to or pass_.spec.paused)
    if may_start and pass_.is_settled and _is_wanted(pass_, status):
        actions.append(_start(pass_.cluster, status.attempt + 1))
    return Scrubs(status, actions)


def last_scrub(pass_: Pass) -> ScrubStatus:
    """What is known by the scrubs that have ended by now."""
    return followed(pass_, pass_.previous.scrub, kind=JobKind.SCRUB, figures=_figures)


def _start(cluster: BookieCluster, attempt: int) -> StartJob:
    return StartJob(
        name=f"{cluster.metadata.name}-scrub-{attempt}",
        kind=JobKind.SCRUB,
        engine=RepairEngine.INLINE.value,  # it is the bookies that take the time
        attempt=attempt,
        options=(
            *("--read-rate", str(cluster.spec.scrub.read_bytes_per_second)),
            *("--checkpoint", "metadata"),
        ),
    )


def _with_schedule(pass_: Pass, status: ScrubStatus) -> ScrubStatus:
    """A new cluster is not read before its schedule says so: there is little in it yet."""
    is_scheduled = pass_.spec.scrub.schedule != NEVER
    if is_scheduled is (status.scheduled_at is not None):
        return status
    since = whole_milliseconds(pass_.now) if is_scheduled else None
    return status.model_copy(update={"scheduled_at": since})


def _is_wanted(pass_: Pass, status: ScrubStatus) -> bool:
    if pass_.waiting(TaskType.SCRUB):
        return True
    if status.failures and status.next_at is not None:
        is_time = pass_.now >= status.next_at
        return is_time and status.failures < pass_.spec.repair.max_attempts
    last = status.started_at or status.scheduled_at
    due = due_after(pass_.spec.scrub.schedule, last) if last is not None else None
    return due is not None and pass_.now >= due


def _figures(job: Job) -> dict[str, Any] | None:
    return None if job.scrub is None else told(job.scrub, ScrubStatus)
