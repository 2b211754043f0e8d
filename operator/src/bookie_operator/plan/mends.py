"""Repairs of what audits find where nothing is in limbo: missing and corrupt copies.

An entry may also lack a copy after a planned restart, a network partition or an ensemble change,
and no boot reports that. A repair of every ledger makes the copies again, once all bookies serve;
then an audit of its own looks, and the next round follows with a growing wait until one is clean.
"""

from dataclasses import dataclass
from typing import Final

from bookie_operator.model.audit_spec import OnFindings
from bookie_operator.model.audit_status import AuditStatus, MendStatus
from bookie_operator.model.task import BookieTask, TaskType
from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import Action, Refusal
from bookie_operator.plan.attempts import MENDS, wants_to_run
from bookie_operator.plan.audits import Audits
from bookie_operator.plan.deadlines import backoff, is_waited_out
from bookie_operator.plan.passes import Pass

CORRUPT: Final = "corrupt"
"""The audit's class of copies that do not verify."""
_GIVES_WAY: Final = (JobKind.SCRUB,)
"""Runs for hours, may be stopped at any time, and stops for this one."""


@dataclass(frozen=True, slots=True)
class Mends:
    status: MendStatus
    actions: list[Action]
    refusals: list[Refusal]

    @property
    def wants_to_run(self) -> bool:
        return wants_to_run(self.status, self.actions)


def mends(pass_: Pass, auditing: Audits, *, gives_way_to: str) -> Mends:
    """`gives_way_to`: what needs the bookies more, as the reason of a stop; empty = nothing. An
    audit that is due goes first: what the last one found may be no longer so."""
    audit = auditing.status
    status = _counted(MENDS.followed(pass_), pass_.previous.mend, audit)
    actions = MENDS.stops(pass_, gives_way_to=gives_way_to)
    asking = pass_.waiting(TaskType.REPAIR, MENDS.next_job(pass_, status))
    asked_by = [task for task in asking if is_for_all(task)]
    is_due = _is_due(pass_, status, audit)
    if pass_.running(JobKind.MEND) or not (is_due or asked_by):
        return Mends(status, actions, [])
    if pass_.spec.paused:
        return Mends(status, actions, [Refusal("Repair", "Paused", "spec.paused is true")])
    busy = any(job.running and job.kind not in _GIVES_WAY for job in pass_.observed.jobs)
    is_free = not (busy or auditing.wants_to_run)
    if is_free and not gives_way_to and pass_.is_settled:
        actions.append(MENDS.start(pass_, status, asked_by=asked_by, is_due=is_due))
    return Mends(status, actions, [])


def is_for_all(task: BookieTask) -> bool:
    """A repair that names no bookie is one of every ledger."""
    return task.spec.type is TaskType.REPAIR and not task.spec.bookie


def can_be_mended(audit: AuditStatus) -> int:
    """Entries of which a copy is missing or wrong, and may be made again from the others."""
    corrupt = audit.classes.get(CORRUPT)
    missing = max(audit.missing, audit.below_write_quorum, audit.below_ack_quorum)
    return missing + (corrupt.entries if corrupt is not None else 0)


def _counted(status: MendStatus, previous: MendStatus, audit: AuditStatus) -> MendStatus:
    """Rounds since an audit was clean."""
    if audit.clean and status.rounds:
        return status.model_copy(update={"rounds": 0})
    if status.finished_at != previous.finished_at:
        return status.model_copy(update={"rounds": previous.rounds + 1})
    return status


def _is_due(pass_: Pass, status: MendStatus, audit: AuditStatus) -> bool:
    """An audit younger than the last round found something, and the wait is over."""
    if pass_.spec.audit.on_findings is OnFindings.REPORT or not can_be_mended(audit):
        return False
    if not is_waited_out(status.next_at, pass_.spec.repair, pass_.now):
        return False
    if status.finished_at is None:
        return True
    looked = audit.started_at is not None and audit.started_at > status.finished_at
    waited = pass_.now - status.finished_at
    return looked and (not status.rounds or waited >= backoff(status.rounds, pass_.spec.repair))
