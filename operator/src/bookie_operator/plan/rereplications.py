"""Re-replications: ledgers that lost copies for good get new members.

Of a bookie that is away (of others, scaled away, or one of ours that is not registered), or of
whatever BookKeeper's marks name. One of ours that stays away is taken for lost without a task
(`lost`), when no task waits. A task is followed over its attempts: one that was stopped or cut off
is begun again, as often as a repair in a row, and goes on where it was, since only what is left is
done. It gives way to repairs and drains as a scrub does; scrubs give way to it. A refusal is an
answer, not a failure: only a person can take what it names out of the way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from bookie.ids import BookieId

from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.drain_status import RereplicationStatus
from bookie_operator.model.reports import RereplicationReport
from bookie_operator.model.task import BookieTask, TaskPhase, TaskStatus, TaskType
from bookie_operator.observed import Job, JobKind, Observed
from bookie_operator.plan.actions import Action, Event, Refusal, StartJob
from bookie_operator.plan.attempts import REREPLICATIONS, wants_to_run
from bookie_operator.plan.deadlines import is_waited_out
from bookie_operator.plan.lost import REREPLICATE, gone_since, lost, may_be_gone
from bookie_operator.plan.passes import Pass

MESSAGE_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Rereplications:
    """The last one, what to do now, and what is in the way of a bookie's that is taken for lost."""

    status: RereplicationStatus
    actions: list[Action]
    task: str = ""
    """The task whose attempt begins in this pass; empty: none does."""
    refusals: list[Refusal] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def wants_to_run(self) -> bool:
        return wants_to_run(self.status, self.actions)


def rereplications(pass_: Pass, *, gives_way_to: str, is_loss_possible: bool) -> Rereplications:
    """`gives_way_to`: what needs the bookies more, as the reason of a stop; empty = nothing."""
    status = REREPLICATIONS.followed(pass_)
    actions = REREPLICATIONS.stops(pass_, gives_way_to=gives_way_to)
    is_busy = bool(pass_.running(JobKind.REREPLICATE) or gives_way_to)
    if is_busy or pass_.spec.paused:
        return Rereplications(status, actions)
    tasks = [task for task in pass_.unfinished(TaskType.REREPLICATE) if _is_open(pass_, task)]
    if not tasks:
        return _of_lost(pass_, status, is_loss_possible=is_loss_possible)
    wish = _next(pass_, status, tasks)
    if wish is None:
        return Rereplications(status, actions)
    if wish.status.phase is TaskPhase.PENDING:  # what failed before was another wish
        status = status.model_copy(update={"failures": 0, "next_at": None})
    bookie_id = BookieId(wish.spec.bookie) if wish.spec.bookie else None
    start = REREPLICATIONS.start(pass_, status, bookie_id=bookie_id, asked_by=[wish])
    return Rereplications(status, [start], wish.metadata.name)


def _of_lost(pass_: Pass, status: RereplicationStatus, *, is_loss_possible: bool) -> Rereplications:
    """A re-replication without a task, for a bookie that has been away too long."""
    if not is_waited_out(status.next_at, pass_.spec.repair, pass_.now):
        return Rereplications(status, [])
    found = lost(pass_, is_loss_possible=is_loss_possible)
    if found.bookie is None:
        return Rereplications(status, [], refusals=found.refusals)
    start = REREPLICATIONS.start(pass_, status, bookie_id=found.bookie)
    refusals = []
    if status.failures >= pass_.spec.repair.max_attempts:  # slow attempts go on
        why = f"{status.failures} attempts in a row failed: {status.message}"
        refusals.append(Refusal(REREPLICATE, "AttemptsExhausted", why, found.bookie))
    return Rereplications(status, [start], refusals=refusals, events=found.events)


def mistake(pass_: Pass, task: BookieTask) -> str:
    """Why this can never be done in this cluster; empty = it can."""
    bookie_id = BookieId(task.spec.bookie)
    if bookie_id not in pass_.spec.bookie_ids or may_be_gone(pass_, bookie_id):
        return ""
    if task.status.phase is TaskPhase.RUNNING:
        return ""  # it is back: the job itself says so
    return (
        f"{bookie_id} is one of the bookies that the spec asks for, and not away: to be rid of it "
        "for good, add its number to spec.excludedOrdinals: it is drained and leaves"
    )


def follow_rereplication(
    task: BookieTask, observed: Observed, found: Rereplications, *, attempts_max: int
) -> TaskStatus:
    """The task's status over all of its attempts."""
    if found.task == task.metadata.name:
        [start] = [action for action in found.actions if isinstance(action, StartJob)]
        started = task.status.started_at or whole_milliseconds(observed.now)
        update = {"phase": TaskPhase.RUNNING, "started_at": started, "target": start.name}
        return task.status.model_copy(update=update)
    if not task.status.target:
        return task.status
    job = next((job for job in observed.jobs if job.name == task.status.target), None)
    if job is not None and job.running:
        return task.status.model_copy(update={"message": job.progress or task.status.message})
    report = job.reported(RereplicationReport) if job is not None else None
    if report is not None:
        return _answered(task, report, observed.now)
    why = found.status.message or f"job {task.status.target} is gone"
    is_last = task.status.target.endswith(f"-{found.status.attempt}")  # others fail for themselves
    if is_last and found.status.failures >= attempts_max:
        return task.status.ended(TaskPhase.FAILED, why, at=observed.now)
    return task.status.model_copy(update={"message": f"{why}; it is started again"[:MESSAGE_MAX]})


def last_rereplication(jobs: tuple[Job, ...]) -> datetime | None:
    """When a re-replication last moved copies: earlier findings of audits are outdated."""
    moments = [
        job.ended_at
        for job in jobs
        if job.ended_at is not None and (report := job.reported(RereplicationReport)) is not None
        if report.ledgers_moved or report.entries_copied
    ]
    return max(moments, default=None)


def _next(
    pass_: Pass, status: RereplicationStatus, unended: Sequence[BookieTask]
) -> BookieTask | None:
    """The next task: a task that was begun comes before one that waits."""
    begun = [task for task in unended if task.status.phase is TaskPhase.RUNNING]
    if not begun:
        return next(iter(unended), None)
    is_time = is_waited_out(status.next_at, pass_.spec.repair, pass_.now)
    may_go_on = is_time and status.failures < pass_.spec.repair.max_attempts
    return begun[0] if may_go_on else None


def _is_open(pass_: Pass, task: BookieTask) -> bool:
    """It asks for work that no job has answered, and that can be done now."""
    mine = (job for job in pass_.observed.jobs if job.name == task.status.target)
    is_answered = any(job.report is not None for job in mine)
    if is_answered:
        return False
    away = {str(name) for name in pass_.judged if gone_since(pass_, name) is not None}
    done_without = away if task.spec.bookie in away else {task.spec.bookie}
    return pass_.is_settled_without(done_without)


def _answered(task: BookieTask, report: RereplicationReport, now: datetime) -> TaskStatus:
    if report.refused:
        return task.status.ended(TaskPhase.FAILED, report.message or report.refused, at=now)
    word = (
        f"{report.ledgers_moved} ledgers moved, {report.ledgers_left} left, "
        f"{report.marks_cleared} of {report.marks_found} marks cleared"
    )
    why = f": {report.message}" if report.message else ""
    return task.status.ended(TaskPhase.SUCCEEDED, word + why, at=now)
