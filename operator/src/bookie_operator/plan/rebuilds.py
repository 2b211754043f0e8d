"""Indexes of entries that are rebuilt on request, while their bookie is away.

A bookie whose index is lost refuses to boot: what it holds is still in its log. The job scans that,
and the next boot counts as one after an unclean stop, so that what the index knew alone is doubted
and repaired. It takes no copy away and the bookie is out anyhow: no loss budget is asked. One job
per task, named after it; the platform stops the bookie before, and nothing starts it meanwhile.
"""

import hashlib
from dataclasses import dataclass
from datetime import timedelta

from bookie.ids import BookieId

from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.model.refused import INDEX_LOST
from bookie_operator.model.storage_spec import DiskRole
from bookie_operator.model.task import BookieTask, TaskPhase, TaskStatus, TaskType
from bookie_operator.observed import Job, JobKind, Observed
from bookie_operator.plan.actions import Action, Refusal, StartJob, StopJob
from bookie_operator.plan.deadlines import overdue
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.states import Judged, refusal_of

_ACTION = "RebuildIndex"


@dataclass(frozen=True, slots=True)
class Rebuilds:
    """What to do now, why the others wait, and the bookies that are not to be started meanwhile."""

    actions: list[Action]
    refusals: list[Refusal]
    away: set[BookieId]


def rebuilds(pass_: Pass) -> Rebuilds:
    jobs = {job.name: job for job in pass_.observed.jobs if job.kind is JobKind.INDEX_REBUILD}
    made = Rebuilds([], [], {job.bookie for job in jobs.values() if job.running and job.bookie})
    for job in jobs.values():
        reason = overdue(job, pass_.spec, pass_.now) if job.running else None
        if reason is not None:
            made.actions.append(StopJob(job.name, reason))
    for task in pass_.unfinished(TaskType.INDEX_REBUILD):
        if rebuild_job(task) in jobs or _is_given_up(pass_, task):
            continue
        one = pass_.judged[BookieId(task.spec.bookie)]
        refusal = _refusal(pass_.spec, task, one, is_busy=one.bookie.id in made.away)
        if refusal is None:
            made.actions.append(_start(pass_.spec, task, one))
            made.away.add(one.bookie.id)
        else:
            made.refusals.append(refusal)
    return made


def rebuild_job(task: BookieTask) -> str:
    """Name of the only job that this task ever gets."""
    facts = f"{task.metadata.name} {task.metadata.uid} {task.spec.as_asked()}"
    return f"{task.spec.cluster}-index-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


def mistake(spec: ClusterSpec, task: BookieTask) -> str:
    """Why it can never be carried out on this cluster; empty = it can."""
    disks = _ledger_disks(spec)
    if task.spec.disk and task.spec.disk not in disks:
        named = ", ".join(disks)
        return f"{task.spec.disk} is no disk with an index: expected one of {named}, or none"
    return ""


def _is_given_up(pass_: Pass, task: BookieTask) -> bool:
    """Begun so long ago that its bookie has stopped and its job has been there, and was stopped."""
    began = task.status.started_at
    seconds = pass_.spec.grace_period_seconds + pass_.spec.repair.start_deadline_seconds
    return began is not None and pass_.now - began > timedelta(seconds=seconds)


def follow_rebuild(pass_: Pass, task: BookieTask, one: Judged) -> TaskStatus:
    """The task's status from its job, to the job's end."""
    job = next((job for job in pass_.observed.jobs if job.name == rebuild_job(task)), None)
    if job is None:
        if one.is_booted:
            why = f"{one.bookie.id} has booted: only an index that prevents a boot is rebuilt"
            return task.status.ended(TaskPhase.FAILED, why, at=pass_.now)
        if _is_given_up(pass_, task):
            why = f"job {task.status.target} did not start in time, or took too long"
            return task.status.ended(TaskPhase.FAILED, why, at=pass_.now)
        return task.status
    status = task.status
    if not status.target:
        started = whole_milliseconds(job.started_at)
        status = TaskStatus(phase=TaskPhase.RUNNING, started_at=started, target=job.name)
    if job.running:
        return status
    if job.exit_code is None and one.state is not BookieState.REFUSED and not one.is_booted:
        return status  # nobody saw how it ended: the bookie's next boot tells
    return status.ended(*_outcome(task, job, has_booted=one.is_booted), at=pass_.now)


def begun(task: BookieTask, observed: Observed) -> TaskStatus:
    """The task as begun, from the pass that wants its job on: the bookie is then already
    stopping."""
    if task.status.phase is not TaskPhase.PENDING:
        return task.status
    started = whole_milliseconds(observed.now)
    return TaskStatus(phase=TaskPhase.RUNNING, started_at=started, target=rebuild_job(task))


def _outcome(task: BookieTask, job: Job, *, has_booted: bool) -> tuple[TaskPhase, str]:
    if job.exit_code is None and not has_booted:
        why = job.message or "how its job ended is not known"
        return TaskPhase.FAILED, f"{why}; {task.spec.bookie} refuses to boot as before"
    if job.exit_code:
        return TaskPhase.FAILED, job.message or f"exit code {job.exit_code}"
    what = f"the index of {task.spec.disk}" if task.spec.disk else "every index"
    return TaskPhase.SUCCEEDED, f"{what} is rebuilt; {task.spec.bookie} boots, a repair follows"


def _refusal(spec: ClusterSpec, task: BookieTask, one: Judged, *, is_busy: bool) -> Refusal | None:
    if spec.paused:
        return _wait(one, "Paused", "spec.paused is true")
    if one.is_booted:
        return _wait(one, "NotRefused", f"{one.bookie.id} has booted: nothing stops it for this")
    if is_busy:
        return _wait(one, "OneActionAtATime", "another job builds an index of it")
    # Once begun its bookie is away, and says nothing of itself.
    is_lost = one.state is BookieState.REFUSED and refusal_of(one) == INDEX_LOST
    if not is_lost and not task.status.target:
        state = f"{one.bookie.id} is {one.state}"
        return _wait(one, "NotRefused", f"{state}: its boot does not say that an index is lost")
    return None


def _wait(one: Judged, predicate: str, message: str) -> Refusal:
    return Refusal(_ACTION, predicate, message, bookie=one.bookie.id)


def _start(spec: ClusterSpec, task: BookieTask, one: Judged) -> StartJob:
    disks = (task.spec.disk,) if task.spec.disk else _ledger_disks(spec)
    return StartJob(
        rebuild_job(task),
        JobKind.INDEX_REBUILD,
        engine="",
        attempt=1,
        bookie_id=one.bookie.id,
        disks=disks,
    )


def _ledger_disks(spec: ClusterSpec) -> tuple[str, ...]:
    return tuple(disk.name for disk in spec.storage.disks if disk.role is DiskRole.LEDGER)
