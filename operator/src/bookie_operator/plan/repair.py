"""Repairs: one at a time per cluster, tried again with growing waits until the bookies say limbo 0.

An episode is a bookie and a boot epoch; its attempts are jobs named after both, so that a restarted
operator finds them again. How a job ended is a hint for the wait and the message, never the proof:
only the bookie's own counts end an episode.

So the table of `attempts` is not for them: there a report ends a series, here it never does, and
every episode has a series of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from bookie.ids import BookieId
from bookie.wire.admin.health import BootRecord

from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.bookie_status import RepairState, RepairStatus
from bookie_operator.model.repair_spec import Repair
from bookie_operator.model.reports import RepairReport
from bookie_operator.model.task import TaskType
from bookie_operator.model.undecided import UndecidedStatus, for_a_person
from bookie_operator.observed import Job, JobKind, Observed
from bookie_operator.plan.actions import Action, Refusal, StartJob, StopJob
from bookie_operator.plan.deadlines import backoff, is_waited_out, overdue
from bookie_operator.plan.losses import last_decision
from bookie_operator.plan.other_store import store_refusal
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.rollback import rolled_back, rolled_back_refusal
from bookie_operator.plan.states import Judged


@dataclass(frozen=True, slots=True)
class Repairs:
    """Status per bookie, what to do now, and which bookies' repairs are stalled."""

    statuses: Mapping[BookieId, RepairStatus]
    actions: list[Action]
    refusals: list[Refusal]
    stalled: tuple[BookieId, ...]
    """Whose repairs have failed as often as the spec says."""

    @property
    def undecided(self) -> list[UndecidedStatus]:
        """What only a person can decide, by each repair that found any."""
        return for_a_person(status.undecided for status in self.statuses.values())

    @property
    def is_running(self) -> bool:
        return any(status.state == RepairState.RUNNING for status in self.statuses.values())

    @property
    def wants_to_run(self) -> bool:
        return self.is_running or any(isinstance(action, StartJob) for action in self.actions)


def repairs(pass_: Pass) -> Repairs:
    statuses: dict[BookieId, RepairStatus] = {}
    for bookie_id, one in pass_.judged.items():
        before = pass_.previous.bookie(bookie_id)
        status = _status(pass_, one, before.repair if before else None)
        if status is not None:
            statuses[bookie_id] = status
    running = [job for job in pass_.observed.jobs if job.kind is JobKind.REPAIR and job.running]
    actions: list[Action] = [stop for job in running if (stop := _stop(pass_, job))]
    refusals: list[Refusal] = []
    since = generation_since(pass_)
    due = None if running else _next_due(pass_, statuses, since)
    if due is not None:
        refusal = rolled_back_refusal("Repair", rolled_back(pass_), due)
        refusal = refusal or _refusal(pass_, due)
        if refusal is not None:
            refusals.append(refusal)
        else:
            actions += _stop_audits(pass_.observed)
            actions.append(_start(pass_, statuses[due], pass_.judged[due]))
    limit = pass_.spec.repair.max_attempts
    stalled = tuple(
        bookie_id
        for bookie_id, status in statuses.items()
        if status.state in (RepairState.FAILED, RepairState.RUNNING)
        and status.attempt - (status.state is RepairState.RUNNING) >= limit
    )
    return Repairs(statuses, actions, refusals, stalled)


def generation_since(pass_: Pass) -> datetime | None:
    """When the spec last changed: after a corrected image, a repair need not wait for its
    back-off."""
    if pass_.is_new_generation:
        return whole_milliseconds(pass_.now)
    return pass_.previous.generation_since


def episode_of(bookie_id: BookieId, boot_epoch: int) -> str:
    return f"{bookie_id}-{boot_epoch}"


def _status(pass_: Pass, one: Judged, before: RepairStatus | None) -> RepairStatus | None:
    """The state of a bookie's repair; None if it never needed one."""
    boot = one.bookie.health.boot if one.bookie.health else None
    if boot is None or not one.is_booted:
        return _while_away(pass_, one.bookie.id, before)
    episode = episode_of(one.bookie.id, boot.epoch)
    known = before if before is not None and before.episode == episode else None
    known = _followed(pass_, one.bookie.id, episode, known)
    known = _with_progress(known, one, boot)
    if known is not None and _is_freed(known, last_decision(pass_.observed.jobs)):
        known = known.model_copy(update={"undecided": None})  # until the next attempt has looked
    if not one.has_marks:
        if known is None and before is not None:  # a later boot: of the earlier ones nothing is due
            known = _while_away(pass_, one.bookie.id, before)
        if known is None or known.state is RepairState.RUNNING:
            return known
        finished = {"state": RepairState.FINISHED, "next_attempt_at": None, "undecided": None}
        return known.model_copy(update=finished)
    waiting = RepairStatus(episode=episode, state=RepairState.WAITING)
    return known or _with_progress(waiting, one, boot)


def _while_away(
    pass_: Pass, bookie_id: BookieId, before: RepairStatus | None
) -> RepairStatus | None:
    """What was known of a boot that does not serve now. Its repair runs only as long as its job;
    one that has ended stays as it ended."""
    known = before
    if before is not None and before.state is RepairState.RUNNING:
        known = _followed(pass_, bookie_id, before.episode, before)
    # While it is away, nobody can decide anything about what it may hold.
    return known and known.model_copy(update={"undecided": None})


def _followed(
    pass_: Pass, bookie_id: BookieId, episode: str, known: RepairStatus | None
) -> RepairStatus | None:
    """`known`, and what the jobs of that episode say by now."""
    jobs = [job for job in pass_.observed.jobs if _is_attempt(job, bookie_id, episode)]
    latest = max(jobs, key=lambda job: job.attempt, default=None)
    if latest is not None and (known is None or latest.attempt >= known.attempt):
        return _from_job(episode, latest, pass_.spec.repair, known)
    if known is not None and known.state is RepairState.RUNNING:
        return _vanished(known, pass_.spec.repair, now=pass_.now)
    return known


def _with_progress(
    known: RepairStatus | None, one: Judged, boot: BootRecord
) -> RepairStatus | None:
    """Marks that went since the boot, by the bookie's own counters."""
    if known is None:
        return None
    marks = one.limbo + one.unchecked
    total = max(known.ledgers_total, boot.ledgers_in_limbo + boot.ledgers_unchecked, marks)
    cleared = total - marks
    if not total:
        return known
    percent = 100 * cleared // total
    return known.model_copy(
        update={
            "ledgers_total": total,
            "ledgers_cleared": cleared,
            "progress": f"{cleared}/{total} ledgers ({percent} %)",
        }
    )


def _is_attempt(job: Job, bookie_id: BookieId, episode: str) -> bool:
    is_of = job.kind is JobKind.REPAIR and job.bookie == bookie_id
    return is_of and episode_of(bookie_id, job.boot_epoch) == episode


def _from_job(episode: str, job: Job, repair: Repair, known: RepairStatus | None) -> RepairStatus:
    ended, report = job.ended_at, job.reported(RepairReport) or RepairReport()
    return RepairStatus(
        episode=episode,
        ledgers_total=known.ledgers_total if known else 0,
        state=RepairState.RUNNING if job.running else RepairState.FAILED,
        attempt=job.attempt,
        started_at=whole_milliseconds(job.started_at),
        ended_at=whole_milliseconds(ended) if ended else None,
        next_attempt_at=whole_milliseconds(ended + backoff(job.attempt, repair)) if ended else None,
        engine=report.engine,
        engine_reason=report.engine_reason,
        spark_app_id=report.spark_app_id,
        executors=report.executors,
        undecided=_undecided(report.undecided, known),
        message=(job.waiting or job.progress or job.message)[:1024],
    )


def _undecided(
    reported: UndecidedStatus | None, known: RepairStatus | None
) -> UndecidedStatus | None:
    """What an attempt could not close. One that runs, or ended without a word of it, has not made
    it better than the one before found it."""
    if reported is None:
        return known.undecided if known is not None else None
    return reported if reported.ledgers or reported.waiting else None


def _vanished(known: RepairStatus, repair: Repair, *, now: datetime) -> RepairStatus:
    """The job is gone without a trace: a failed attempt, so that its number is not used again."""
    ended = whole_milliseconds(now)
    return known.model_copy(
        update={
            "state": RepairState.FAILED,
            "ended_at": ended,
            "next_attempt_at": ended + backoff(max(1, known.attempt), repair),
            "message": f"{known.message}; the job is gone and left no result"[:1024].lstrip("; "),
        }
    )


def _stop(pass_: Pass, job: Job) -> StopJob | None:
    """A repair of an older boot works on marks that a newer one replaced; a hung one blocks all."""
    late = overdue(job, pass_.spec, pass_.now)
    if late is not None:
        return StopJob(job.name, late)
    one = pass_.judged.get(job.bookie) if job.bookie is not None else None
    boot = one.bookie.health.boot if one is not None and one.bookie.health else None
    if boot is not None and boot.epoch > job.boot_epoch:
        return StopJob(job.name, "BookieRestarted")
    return None


def _next_due(
    pass_: Pass, statuses: Mapping[BookieId, RepairStatus], since: datetime | None
) -> BookieId | None:
    """Fewest attempts first, so that one that cannot be repaired does not starve the others."""
    decided_at = last_decision(pass_.observed.jobs)
    due = []
    for bookie_id, status in statuses.items():
        one = pass_.judged[bookie_id]
        if not one.is_booted or not one.has_marks or status.state is RepairState.RUNNING:
            continue
        is_time = is_waited_out(status.next_attempt_at, pass_.spec.repair, pass_.now)
        is_freed = _is_freed(status, decided_at) or _is_freed(status, since)
        if is_time or is_freed or _is_asked(pass_, status, one):
            due.append((status.attempt, bookie_id))
    return min(due)[1] if due else None


def _is_asked(pass_: Pass, status: RepairStatus, one: Judged) -> bool:
    waiting = pass_.waiting(TaskType.REPAIR, _next_job(pass_, status, one))
    return any(task.spec.bookie == one.bookie.id for task in waiting)


def next_repair_job(pass_: Pass, one: Judged) -> str:
    """Name of the next attempt to repair this bookie; empty = it needs none now."""
    before = pass_.previous.bookie(one.bookie.id)
    status = _status(pass_, one, before.repair if before else None)
    return _next_job(pass_, status, one) if status is not None and one.has_marks else ""


def _next_job(pass_: Pass, status: RepairStatus, one: Judged) -> str:
    boot = one.bookie.health.boot if one.bookie.health else None
    assert boot is not None
    return f"{pass_.name}-{episode_of(one.bookie.id, boot.epoch)}-{status.attempt + 1}"


def _is_freed(status: RepairStatus, moment: datetime | None) -> bool:
    """What was in the way of the last attempt may be gone: a person's word closed a ledger since,
    or the spec is another one."""
    if moment is None or status.ended_at is None:
        return False
    return moment > status.ended_at


def _refusal(pass_: Pass, bookie_id: BookieId) -> Refusal | None:
    if pass_.spec.paused:
        return Refusal("Repair", "Paused", "spec.paused is true", bookie=bookie_id)
    return store_refusal(pass_, "Repair", bookie_id)


def _stop_audits(observed: Observed) -> list[Action]:
    """What an audit would find while there is limbo is moot, and the repair needs its place."""
    return [
        StopJob(job.name, "RepairFirst")
        for job in observed.jobs
        if job.kind is JobKind.AUDIT and job.running
    ]


def _start(pass_: Pass, status: RepairStatus, one: Judged) -> StartJob:
    boot = one.bookie.health.boot if one.bookie.health else None
    assert boot is not None
    return StartJob(
        name=_next_job(pass_, status, one),
        kind=JobKind.REPAIR,
        engine=pass_.spec.repair.engine.value,
        attempt=status.attempt + 1,
        bookie_id=one.bookie.id,
        boot_epoch=boot.epoch,
    )
