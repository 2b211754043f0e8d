"""Decisions about losses that a job carries out: a person accepts one (S33), or takes one back.

One job per task, named after the task, so that it runs at most once however often the operator
starts again; the task is bound to the job when the job is seen. No loss budget is asked: it is a
person's decision, and voluntary work is blocked anyway while a loss is possible. The job itself
refuses what must not be: a loss while a member is merely away, or below a copy that turned up; to
take back the end of a closed ledger.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from bookie.tls.principals import Principal

from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.task import BookieTask, TaskPhase, TaskStatus, TaskType
from bookie_operator.model.tls import DecisionStatus
from bookie_operator.observed import JobKind, Observed
from bookie_operator.plan.actions import Action, LossDecision, Refusal, StartJob, StopJob
from bookie_operator.plan.certificates import PENDING, Certificates
from bookie_operator.plan.deadlines import overdue
from bookie_operator.plan.decision_certificates import (
    DecisionCertificate,
    certificate_for,
    left_behind,
)
from bookie_operator.plan.losses import complaint, outcome
from bookie_operator.plan.other_store import store_refusal
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.rollback import rolled_back_refusal


class _DecisionType(NamedTuple):
    """How a type of decision is carried out."""

    kind: JobKind
    action: str
    """Name of the action in `status.blocked`."""
    stem: str
    """Part of its jobs' names, after the cluster's name."""


_TYPES: Final[Mapping[TaskType, _DecisionType]] = {
    TaskType.ACCEPT_LOSS: _DecisionType(JobKind.ACCEPT_LOSS, "AcceptLoss", "loss"),
    TaskType.RETRACT_LOSS: _DecisionType(JobKind.RETRACT_LOSS, "RetractLoss", "retract"),
}
_KINDS: Final = frozenset(how.kind for how in _TYPES.values())


@dataclass(slots=True)
class Decisions:
    """What a pass makes of the decisions."""

    actions: list[Action]
    """What is done now for them."""
    refusals: list[Refusal]
    """Why the others wait."""
    certificate: DecisionStatus | None = None
    """The certificate of the decision that is carried out, until it is deleted; None: there is
    none."""

    def add(self, made: DecisionCertificate) -> None:
        self.actions += made.actions
        self.certificate = made.status or self.certificate


def decisions(pass_: Pass, certified: Certificates, *, rolled_back: str = "") -> Decisions:
    """Decisions to carry out now, one at a time, and why the others wait."""
    mine = [job for job in pass_.observed.jobs if job.kind in _KINDS]
    running = [job for job in mine if job.running]
    late = {job.name: overdue(job, pass_.spec, pass_.now) for job in running}
    found = Decisions(
        [StopJob(name, reason) for name, reason in late.items() if reason is not None], []
    )
    known = {job.name for job in mine}
    tasks = {
        name: task
        for task in pass_.observed.tasks
        if _is_waiting(task) and (name := decision_job(task)) not in known
    }
    left = left_behind(pass_, certified, tasks)
    found.add(left)
    is_busy = bool(running or left.lacks)
    begun = found.certificate.job if found.certificate is not None else ""
    for name, task in sorted(tasks.items(), key=lambda item: item[0] != begun):
        action = _TYPES[task.spec.type].action
        refusal = rolled_back_refusal(action, rolled_back) or _refusal(pass_, task, is_busy=is_busy)
        if refusal is not None:
            found.refusals.append(refusal)
            continue
        is_busy = True
        shown = certificate_for(pass_, certified, name, task.spec.approved_by)
        found.add(shown)
        if shown.lacks:
            found.refusals.append(Refusal(action, PENDING, f"{_whose(task)}: {shown.lacks}"))
        else:
            found.actions.append(_start(task, shown.holder))
    return found


def decision_job(task: BookieTask) -> str:
    """Name of the only job that this task ever gets."""
    # How long the task is kept is no part of it: a job of an earlier build is found again.
    decided = task.spec.as_asked(without={"ttl_seconds_after_finished"})
    facts = f"{task.metadata.name} {task.metadata.uid} {decided}"
    stem = _TYPES[task.spec.type].stem
    return f"{task.spec.cluster}-{stem}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


def follow_decision(task: BookieTask, observed: Observed) -> TaskStatus:
    """The task's status from its job, to the job's end."""
    job = next((job for job in observed.jobs if job.name == decision_job(task)), None)
    if job is None:
        if not task.status.target:
            return task.status
        message = f"job {task.status.target} is gone; see the ledger's metadata for what it did"
        return task.status.ended(TaskPhase.FAILED, message, at=observed.now)
    status = task.status
    if not status.target:
        started = whole_milliseconds(job.started_at)
        status = TaskStatus(phase=TaskPhase.RUNNING, started_at=started, target=job.name)
    if job.running:
        return status
    why_not = complaint(job.report)
    if job.report is None or why_not or job.exit_code not in (0, None):
        message = why_not or job.message or "the job left no result"
        return status.ended(TaskPhase.FAILED, message, at=observed.now)
    return status.ended(TaskPhase.SUCCEEDED, outcome(job.report), at=observed.now)


def _is_waiting(task: BookieTask) -> bool:
    return task.spec.type in _TYPES and task.status.phase is TaskPhase.PENDING


def _refusal(pass_: Pass, task: BookieTask, *, is_busy: bool) -> Refusal | None:
    action, whose = _TYPES[task.spec.type].action, _whose(task)
    if pass_.spec.paused:
        return Refusal(action, "Paused", f"{whose}: spec.paused is true")
    no_store = store_refusal(pass_, action)
    if no_store is not None:
        return replace(no_store, message=f"{whose}: {no_store.message}")
    if is_busy:
        return Refusal(action, "OneActionAtATime", f"{whose}: waits for another decision's end")
    return None


def _whose(task: BookieTask) -> str:
    return f"task {task.metadata.name}, {_decision(task).named}"


def _decision(task: BookieTask) -> LossDecision:
    wish = task.spec
    ledgers = wish.ledgers if wish.ledger is None else str(wish.ledger)
    assert ledgers, "the model asks for them"
    return LossDecision(ledgers, wish.entry, wish.reason, wish.approved_by, wish.dry_run)


def _start(task: BookieTask, shows: Principal | None) -> StartJob:
    return StartJob(
        decision_job(task),
        _TYPES[task.spec.type].kind,
        engine="",
        attempt=1,
        decision=_decision(task),
        shows=shows,
    )
