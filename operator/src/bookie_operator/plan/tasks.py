"""BookieTasks: what people ask once. A task is bound to what it started, and followed to its end.

Each is carried out by the concern that it belongs to; this file follows every task and takes those
away whose time is over.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from bookie.ids import BookieId
from bookie.wire.admin.health import Phase

from bookie_operator.model.audit_status import AuditStatus
from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.reports import AuditReport, MendReport, Report, ScrubReport
from bookie_operator.model.task import DECISION_JOBS, BookieTask, TaskPhase, TaskStatus, TaskType
from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.actions import (
    Action,
    ApproveCookieFix,
    DeleteTask,
    StartJob,
)
from bookie_operator.plan.attempts import AUDITS, MENDS, SCRUBS, Lifecycle
from bookie_operator.plan.collection_approvals import follow_collection
from bookie_operator.plan.decisions import follow_decision
from bookie_operator.plan.mends import can_be_mended, is_for_all
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.rebuilds import begun, follow_rebuild, rebuild_job
from bookie_operator.plan.rebuilds import mistake as mistaken_rebuild
from bookie_operator.plan.repair import next_repair_job
from bookie_operator.plan.replacements import follow_bookie, follow_disk
from bookie_operator.plan.replacements import mistake as mistaken_replacement
from bookie_operator.plan.rereplications import Rereplications, follow_rereplication
from bookie_operator.plan.rereplications import mistake as mistaken_rereplication
from bookie_operator.plan.restarts import follow_restart
from bookie_operator.plan.states import Judged

_JOBS: Final = {
    TaskType.REPAIR: JobKind.REPAIR,
    TaskType.AUDIT: JobKind.AUDIT,
    TaskType.SCRUB: JobKind.SCRUB,
}
_SERIES: Final[Mapping[JobKind, Lifecycle[Any]]] = {
    series.kind: series for series in (AUDITS, MENDS, SCRUBS)
}
_OF_LEAVING: Final = (
    TaskType.REPAIR,
    TaskType.APPROVE_COOKIE_FIX,
    TaskType.APPROVE_COLLECTION,
)
"""What a bookie may need that the spec does not want any more, until it is empty."""


def expired(pass_: Pass) -> list[DeleteTask]:
    """Finished tasks whose time is over, and of more than the history holds those that ended
    first; one of which nobody knows when it ended stays."""
    if pass_.spec.paused:
        return []
    ended = [
        (task.status.finished_at, task)
        for task in pass_.observed.tasks
        if task.status.phase.is_final and task.status.finished_at is not None
    ]
    ended.sort(key=lambda pair: pair[0], reverse=True)
    return [
        DeleteTask(task.metadata.name, task.metadata.uid)
        for place, (at, task) in enumerate(ended)
        if place >= pass_.spec.task_history_limit
        or pass_.now - at >= timedelta(seconds=task.spec.ttl_seconds_after_finished)
    ]


def without_mistakes(pass_: Pass) -> tuple[Pass, dict[str, TaskStatus]]:
    """The pass without tasks that can never be carried out on this cluster, and how each of them
    fails. No concern hears of them, so that nothing is done for a task that has failed."""
    failed = {
        task.metadata.name: _ended(task, pass_.now, TaskPhase.FAILED, why_not)
        for task in pass_.observed.tasks
        if not task.status.phase.is_final and (why_not := _mistake(pass_, task))
    }
    return pass_.without_tasks(failed), failed


def _mistake(pass_: Pass, task: BookieTask) -> str:
    """Why a task can never be carried out on this cluster; empty = it can."""
    if task.spec.type is TaskType.REREPLICATE:
        return mistaken_rereplication(pass_, task)
    if why_not := _wrong_bookie(pass_, task):
        return why_not
    if task.spec.type is TaskType.INDEX_REBUILD:
        return mistaken_rebuild(pass_.spec, task)
    return mistaken_replacement(pass_, task)


def _wrong_bookie(pass_: Pass, task: BookieTask) -> str:
    bookie = task.spec.bookie
    if not bookie or bookie in pass_.spec.bookie_ids:
        return ""
    if bookie not in pass_.judged:
        return f"the cluster has no bookie {bookie}"
    if task.spec.type in _OF_LEAVING:
        return ""
    named = ", ".join(_OF_LEAVING)
    return (
        f"{bookie} leaves the cluster: found {task.spec.type}, expected one of {named} until then"
    )


def task_statuses(
    pass_: Pass, *, actions: Sequence[Action], replicating: Rereplications, audit: AuditStatus
) -> dict[str, TaskStatus]:
    """Task name -> its status after this pass, for those whose status changes."""
    changed = {}
    for task in pass_.observed.tasks:
        after = _follow(pass_, task=task, actions=actions, replicating=replicating, audit=audit)
        if after != task.status:
            changed[task.metadata.name] = after
    return changed


def _follow(
    pass_: Pass,
    *,
    task: BookieTask,
    actions: Sequence[Action],
    replicating: Rereplications,
    audit: AuditStatus,
) -> TaskStatus:
    if task.status.phase.is_final:
        return task.status
    if task.spec.type is TaskType.APPROVE_COOKIE_FIX:
        return _follow_approval(pass_, task, actions)
    if task.spec.type is TaskType.APPROVE_COLLECTION:
        return follow_collection(pass_, task, actions)
    if task.spec.type is TaskType.RESTART:
        return follow_restart(pass_, task, actions)
    if task.spec.type is TaskType.REPLACE_DISK:
        return follow_disk(pass_, task, actions)
    if task.spec.type is TaskType.REPLACE_BOOKIE:
        return follow_bookie(pass_, task, actions)
    if task.spec.type in DECISION_JOBS:
        return follow_decision(task, pass_.observed)
    if task.spec.type is TaskType.INDEX_REBUILD:
        if any(isinstance(one, StartJob) and one.name == rebuild_job(task) for one in actions):
            return begun(task, pass_.observed)
        return follow_rebuild(pass_, task, pass_.judged[BookieId(task.spec.bookie)])
    if task.spec.type is TaskType.REREPLICATE:
        limit = pass_.spec.repair.max_attempts
        return follow_rereplication(task, pass_.observed, replicating, attempts_max=limit)
    return _follow_job(pass_, task, actions, audit)


def _follow_approval(pass_: Pass, task: BookieTask, actions: Sequence[Action]) -> TaskStatus:
    approved = any(
        isinstance(action, ApproveCookieFix) and action.plan_id == task.spec.plan_id
        for action in actions
    )
    if approved:
        return _started(task, pass_.now, task.spec.plan_id)
    health = pass_.judged[BookieId(task.spec.bookie)].bookie.health
    if health is None:
        return task.status
    pending = health.cookie_fix.plan_id if health.cookie_fix else ""
    if health.phase.is_booted and task.status.phase is TaskPhase.RUNNING:
        return _ended(task, pass_.now, TaskPhase.SUCCEEDED, "the fix was made")
    if health.phase.is_booted:
        return _ended(task, pass_.now, TaskPhase.FAILED, "no fix is pending on this bookie")
    if health.phase is Phase.AWAITING_APPROVAL and pending and pending != task.spec.plan_id:
        why = f"another fix is pending: {pending}"
        return _ended(task, pass_.now, TaskPhase.FAILED, why)
    return task.status


def _follow_job(
    pass_: Pass, task: BookieTask, actions: Sequence[Action], audit: AuditStatus
) -> TaskStatus:
    kind = JobKind.MEND if is_for_all(task) else _JOBS[task.spec.type]
    if not task.status.target:
        for action in actions:
            if isinstance(action, StartJob) and action.kind is kind and _is_for(action, task):
                return _started(task, pass_.now, action.name)
        if kind is JobKind.REPAIR:
            one = pass_.judged[BookieId(task.spec.bookie)]
            if one.is_booted and not one.has_marks:
                return _ended(task, pass_.now, TaskPhase.SUCCEEDED, _no_limbo(one, audit))
        return task.status
    job = next((job for job in pass_.observed.jobs if job.name == task.status.target), None)
    if job is None and task.status.target == _next_job(pass_, task, kind):
        return task.status  # it could not be made yet, and is tried again
    if job is None:
        return _ended(task, pass_.now, TaskPhase.FAILED, f"job {task.status.target} is gone")
    if job.running:  # how far it is
        return task.status.model_copy(update={"message": job.progress or task.status.message})
    return _judged_job(pass_, task, job)


def _next_job(pass_: Pass, task: BookieTask, kind: JobKind) -> str:
    """The job that this task gets if it has had none."""
    if kind is JobKind.REPAIR:
        return next_repair_job(pass_, pass_.judged[BookieId(task.spec.bookie)])
    series = _SERIES[kind]
    return series.next_job(pass_, series.followed(pass_))


def _no_limbo(one: Judged, audit: AuditStatus) -> str:
    """The message of a repair that cleared limbo: copies may still be missing outside of limbo."""
    word = f"nothing is in limbo on {one.bookie.id}"
    if not (found := can_be_mended(audit)):
        return word
    return (
        f"{word}, but the last audit found {found} copies missing or wrong: `kubectl bookie "
        "repair` without a bookie makes them again"
    )


def _judged_job(pass_: Pass, task: BookieTask, job: Job) -> TaskStatus:
    if job.kind is not JobKind.REPAIR:
        if job.report is None:
            why = job.message or f"the {task.spec.type.value} left no result"
            return _ended(task, pass_.now, TaskPhase.FAILED, why)
        return _ended(task, pass_.now, *_outcome(job.report))
    one = pass_.judged[BookieId(task.spec.bookie)]
    if one.has_marks:
        left = f"{one.limbo} ledgers in limbo, {one.unchecked} unchecked are left"
        return _ended(task, pass_.now, TaskPhase.FAILED, left)
    return _ended(task, pass_.now, TaskPhase.SUCCEEDED, "limbo is 0")


def _outcome(report: Report) -> tuple[TaskPhase, str]:
    """How the task of a job with this report ends, and a sentence why."""
    match report:
        case AuditReport():
            word = "nothing found" if report.clean else "see status.audit of the cluster"
            return TaskPhase.SUCCEEDED, word
        case ScrubReport():
            found = f"{report.corrupt_found} corrupt copies found"
            left = "" if report.clean else "; not clean: see status.scrub of the cluster"
            return TaskPhase.SUCCEEDED, f"{found}, {report.corrupt_replaced} replaced{left}"
        case MendReport():
            word = f"{report.entries_copied} entries copied, {report.corrupt_replaced} replaced"
            if report.clean:
                return TaskPhase.SUCCEEDED, word
            left = f"{report.wrong} entries are not as they must be"
            why = f": {report.message}" if report.message else ""
            return TaskPhase.FAILED, f"{word}; {left}{why}"
    return TaskPhase.SUCCEEDED, ""


def _is_for(action: StartJob, task: BookieTask) -> bool:
    return action.kind is not JobKind.REPAIR or action.bookie_id == task.spec.bookie


def _started(task: BookieTask, now: datetime, target: str) -> TaskStatus:
    if task.status.phase is TaskPhase.RUNNING:
        return task.status
    return TaskStatus(phase=TaskPhase.RUNNING, started_at=whole_milliseconds(now), target=target)


def _ended(task: BookieTask, now: datetime, phase: TaskPhase, message: str) -> TaskStatus:
    return task.status.ended(phase, message, at=now)
