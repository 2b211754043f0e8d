"""What is written down of a job where it runs, so that the next operator knows what was started."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bookie.ids import BookieId

from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.actions import StartJob


def started_job(wanted: StartJob, *, at: datetime) -> Job:
    return Job(
        name=wanted.name,
        kind=wanted.kind,
        attempt=wanted.attempt,
        running=True,
        started_at=at,
        bookie=wanted.bookie_id,
        boot_epoch=wanted.boot_epoch,
    )


def facts_of(job: Job) -> dict[str, Any]:
    """All that is known when it starts, but its name."""
    return {
        "kind": job.kind.value,
        "attempt": job.attempt,
        "bookie": job.bookie,
        "bootEpoch": job.boot_epoch,
        "startedAt": job.started_at.isoformat(),
    }


def job_of_facts(name: str, facts: Mapping[str, Any]) -> Job:
    """The job as it was started; KeyError, TypeError or ValueError when these are no such facts."""
    return Job(
        name=name,
        kind=JobKind(facts["kind"]),
        attempt=int(facts["attempt"]),
        running=True,
        started_at=datetime.fromisoformat(facts["startedAt"]),
        bookie=BookieId(facts["bookie"]) if facts["bookie"] else None,
        boot_epoch=int(facts["bootEpoch"]),
    )
