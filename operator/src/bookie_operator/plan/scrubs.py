"""Scrubs: every copy read and verified, on schedule or when asked; corrupt copies are replaced.

A scrub gives way to whatever is more pressing: it begins only while every bookie serves and none
has marks, and it is stopped for a repair, a drain or a re-replication. What it has replaced by then
stays replaced.
"""

from dataclasses import dataclass

from bookie_operator.model.audit_status import ScrubStatus
from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.model.schedule import NEVER, due_after
from bookie_operator.model.task import TaskType
from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import Action
from bookie_operator.plan.attempts import SCRUBS
from bookie_operator.plan.deadlines import is_waited_out
from bookie_operator.plan.passes import Pass


@dataclass(frozen=True, slots=True)
class Scrubs:
    status: ScrubStatus
    actions: list[Action]


def scrubs(pass_: Pass, *, gives_way_to: str) -> Scrubs:
    """`gives_way_to`: what needs the bookies more, as the reason of a stop; empty = nothing."""
    status = SCRUBS.followed(pass_)
    status = _with_schedule(pass_, status)
    actions = SCRUBS.stops(pass_, gives_way_to=gives_way_to)
    may_start = not (pass_.running(JobKind.SCRUB) or gives_way_to or pass_.spec.paused)
    is_due = _is_due(pass_, status)
    asked_by = pass_.waiting(TaskType.SCRUB, SCRUBS.next_job(pass_, status))
    if may_start and pass_.is_settled and (is_due or asked_by):
        options = _options(pass_.spec)
        actions.append(
            SCRUBS.start(pass_, status, options=options, asked_by=asked_by, is_due=is_due)
        )
    return Scrubs(status, actions)


def _options(spec: ClusterSpec) -> tuple[str, ...]:
    rate = str(spec.scrub.read_bytes_per_second)
    return ("--read-rate", rate, "--checkpoint", "metadata")


def _with_schedule(pass_: Pass, status: ScrubStatus) -> ScrubStatus:
    """A new cluster is not read before its schedule says so: there is little in it yet."""
    is_scheduled = pass_.spec.scrub.schedule != NEVER
    if is_scheduled is (status.scheduled_at is not None):
        return status
    since = whole_milliseconds(pass_.now) if is_scheduled else None
    return status.model_copy(update={"scheduled_at": since})


def _is_due(pass_: Pass, status: ScrubStatus) -> bool:
    last = status.started_at or status.scheduled_at
    if status.failures and status.next_at is not None:
        if status.failures < pass_.spec.repair.max_attempts:
            return is_waited_out(status.next_at, pass_.spec.repair, pass_.now)
        last = status.next_at  # given up: what comes next is the schedule's next time
    due = due_after(pass_.spec.scrub.schedule, last) if last is not None else None
    return due is not None and pass_.now >= due
