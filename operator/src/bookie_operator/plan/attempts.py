"""Numbered attempts of one kind of job for the whole cluster, followed from pass to pass. Pure.

Audits, repairs of findings, scrubs and re-replications are such: the newest job's number names the
next one, so that a restarted operator finds it again, and a failed one is tried again with growing
waits. `AUDITS` to `REREPLICATIONS` are the table of what they differ in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from bookie.ids import BookieId

from bookie_operator.model.attempt_status import AttemptStatus
from bookie_operator.model.audit_status import AuditStatus, MendStatus, ScrubStatus
from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.model.drain_status import RereplicationStatus
from bookie_operator.model.repair_spec import RepairEngine
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask
from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.actions import Action, StartJob, StopJob
from bookie_operator.plan.deadlines import backoff, overdue
from bookie_operator.plan.passes import Pass

Status = TypeVar("Status", bound=AttemptStatus)


@dataclass(frozen=True, slots=True)
class Lifecycle(Generic[Status]):
    """How jobs of one kind begin, end and are tried again."""

    kind: JobKind
    """The kind of the jobs, which is also part of their names."""
    last: Callable[[ClusterStatus], Status]
    """Name of the section of the status about them."""
    engine: Callable[[ClusterSpec], RepairEngine]
    """What they run on."""

    def followed(self, pass_: Pass) -> Status:
        """The status after looking at the newest job of this kind."""
        status = self._looked(pass_)
        if pass_.is_new_generation:  # what made the last one fail may be mended
            status = status.model_copy(update={"next_at": None})
        return status

    def _looked(self, pass_: Pass) -> Status:
        previous = self.last(pass_.previous)
        jobs = [job for job in pass_.observed.jobs if job.kind is self.kind]
        job = max(jobs, key=lambda job: job.attempt, default=None)
        if job is None or job.attempt < previous.attempt:
            if not previous.running:
                return previous
            return self._failed(pass_, previous.attempt, pass_.now, "the job is gone")
        if job.running:
            update: dict[str, Any] = {"running": True, "attempt": job.attempt}
            update |= {"progress": job.progress, "message": job.waiting[:1024]}
            return previous.model_copy(update=update)
        if job.attempt == previous.attempt and not previous.running:
            return previous
        if job.report is None or job.ended_at is None:
            ended = job.ended_at or pass_.now
            return self._failed(pass_, job.attempt, ended, job.message or "no result")
        update = _ended(job, job.ended_at) | _figures(job, previous)
        if job.started_at > pass_.now:  # before the clock was set back: nobody knows when
            update["started_at"] = previous.started_at
        return previous.model_copy(update=update)

    def stops(self, pass_: Pass, *, gives_way_to: str = "") -> list[Action]:
        """Actions that stop jobs, for more urgent work or because of the jobs' own deadlines."""
        return [
            StopJob(job.name, reason)
            for job in pass_.running(self.kind)
            if (reason := gives_way_to or overdue(job, pass_.spec, pass_.now))
        ]

    def next_job(self, pass_: Pass, status: Status) -> str:
        """Name of the attempt after the last one that `status` knows."""
        return f"{pass_.name}-{self.kind.value}-{status.attempt + 1}"

    def start(
        self,
        pass_: Pass,
        status: Status,
        *,
        bookie_id: BookieId | None = None,
        options: tuple[str, ...] = (),
        asked_by: Sequence[BookieTask] = (),
        is_due: bool = False,
    ) -> StartJob:
        """The attempt after the last one that `status` knows. `asked_by`: tasks that wait for it;
        `is_due`: it would begin without them."""
        return StartJob(
            name=self.next_job(pass_, status),
            kind=self.kind,
            engine=self.engine(pass_.spec).value,
            attempt=status.attempt + 1,
            bookie_id=bookie_id,
            options=options,
            asked_by=() if is_due else tuple(task.metadata.name for task in asked_by),
        )

    def _failed(self, pass_: Pass, attempt: int, ended: datetime, why: str) -> Status:
        previous = self.last(pass_.previous)
        failures = previous.failures + 1
        return previous.model_copy(
            update={
                "running": False,
                "attempt": attempt,
                "failures": failures,
                "next_at": whole_milliseconds(ended + backoff(failures, pass_.spec.repair)),
                "message": f"{self.kind.value} {attempt} failed: {why}"[:1024],
                "progress": "",
            }
        )


AUDITS: Final[Lifecycle[AuditStatus]] = Lifecycle(
    JobKind.AUDIT, last=lambda status: status.audit, engine=lambda spec: spec.audit.engine
)
MENDS: Final[Lifecycle[MendStatus]] = Lifecycle(
    JobKind.MEND, last=lambda status: status.mend, engine=lambda spec: spec.repair.engine
)
SCRUBS: Final[Lifecycle[ScrubStatus]] = Lifecycle(
    JobKind.SCRUB,
    last=lambda status: status.scrub,
    engine=lambda spec: RepairEngine.INLINE,  # it is the bookies that take the time
)
REREPLICATIONS: Final[Lifecycle[RereplicationStatus]] = Lifecycle(
    JobKind.REREPLICATE,
    last=lambda status: status.rereplication,
    engine=lambda spec: spec.repair.engine,
)


def wants_to_run(status: AttemptStatus, actions: Sequence[Action]) -> bool:
    """One runs, or begins in this pass."""
    return status.running or any(isinstance(action, StartJob) for action in actions)


def _figures(job: Job, previous: AttemptStatus) -> dict[str, Any]:
    """What the status says as the report does, by the names that both have. A report whose `clean`
    is None looked at nothing: what is known stays, and of when it is."""
    names = type(previous).model_fields
    found = {name: getattr(job.report, name) for name in names if hasattr(job.report, name)}
    if found["clean"] is None and previous.clean is not None:
        times = {"started_at": previous.started_at, "finished_at": previous.finished_at}
        return {"message": found["message"], **times}
    if "bookie" in names:
        found["bookie"] = job.bookie or ""
    return found


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
