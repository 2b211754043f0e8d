"""Every kind of job that is followed by the number of its attempts, row by row of the table."""

from dataclasses import replace
from typing import Any

import pytest
from bookie_operator.model.reports import (
    AuditReport,
    MendReport,
    Report,
    RereplicationReport,
    ScrubReport,
)
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.actions import StartJob, StopJob
from bookie_operator.plan.attempts import AUDITS, MENDS, REREPLICATIONS, SCRUBS, Lifecycle
from bookie_operator.plan.passes import Pass
from operator_scenes import at, cluster, observed

OF = cluster(
    audit={"engine": "spark-local"}, repair={"engine": "spark-kubernetes", "backoffSeconds": 10}
)
TABLE = [
    pytest.param(AUDITS, JobKind.AUDIT, "audit", "spark-local"),
    pytest.param(MENDS, JobKind.MEND, "mend", "spark-kubernetes"),
    pytest.param(SCRUBS, JobKind.SCRUB, "scrub", "inline"),
    pytest.param(REREPLICATIONS, JobKind.REREPLICATE, "rereplication", "spark-kubernetes"),
]
every = pytest.mark.parametrize(("cycle", "kind", "place", "engine"), TABLE)
REPORTS: dict[JobKind, Report] = {
    JobKind.AUDIT: AuditReport(),
    JobKind.MEND: MendReport(),
    JobKind.SCRUB: ScrubReport(),
    JobKind.REREPLICATE: RereplicationReport(),
}
JOBS = tuple(
    Job(f"demo-{kind}-{number}", kind, number, True, at(0), progress=f"{kind} is half done")
    for number, kind in enumerate(JobKind, start=3)
)
"""One of each kind runs, each with a number of its own."""


def seen(jobs: tuple[Job, ...] = JOBS, **before: Any) -> Pass:
    return Pass.of(OF, observed(of=OF, jobs=jobs, seconds=9), ClusterStatus(**before))


def of_kind(kind: JobKind) -> Job:
    return next(job for job in JOBS if job.kind is kind)


@every
def test_each_follows_jobs_of_its_own_kind_and_no_others(
    cycle: Lifecycle[Any], kind: JobKind, place: str, engine: str
) -> None:
    status, mine = cycle.followed(seen()), of_kind(kind)
    assert (status.running, status.attempt, status.progress) == (True, mine.attempt, mine.progress)
    others = tuple(job for job in JOBS if job.kind is not kind)
    assert not cycle.followed(seen(others)).running


@every
def test_each_is_remembered_in_its_own_part_of_the_status(
    cycle: Lifecycle[Any], kind: JobKind, place: str, engine: str
) -> None:
    known = {place: getattr(ClusterStatus(), place).model_copy(update={"attempt": 7})}
    assert cycle.last(ClusterStatus(**known)).attempt == 7
    assert cycle.followed(seen((), **known)) == known[place]


@every
def test_each_begins_the_attempt_after_the_last_on_its_engine(
    cycle: Lifecycle[Any], kind: JobKind, place: str, engine: str
) -> None:
    start = cycle.start(seen(), cycle.followed(seen()), options=("--x",))
    number = of_kind(kind).attempt + 1
    assert start == StartJob(f"demo-{kind}-{number}", kind, engine, number, options=("--x",))


@every
def test_each_stops_its_own_for_something_more_pressing(
    cycle: Lifecycle[Any], kind: JobKind, place: str, engine: str
) -> None:
    assert cycle.stops(seen(), gives_way_to="First") == [StopJob(of_kind(kind).name, "First")]
    assert cycle.stops(seen()) == []


@every
def test_each_says_which_attempt_failed_and_waits_longer_each_time(
    cycle: Lifecycle[Any], kind: JobKind, place: str, engine: str
) -> None:
    mine = replace(of_kind(kind), running=False, ended_at=at(5), message="no room")
    for failures, wait in ((1, 10), (2, 20)):
        before = getattr(ClusterStatus(), place).model_copy(update={"failures": failures - 1})
        status = cycle.followed(seen((mine,), **{place: before}))
        assert (status.failures, status.next_at) == (failures, at(5 + wait))
        assert status.message == f"{kind} {mine.attempt} failed: no room" and not status.running


@every
def test_each_that_failed_need_not_wait_when_the_spec_is_another(
    cycle: Lifecycle[Any], kind: JobKind, place: str, engine: str
) -> None:
    """What made it fail may be mended."""
    failed = {"attempt": 1, "failures": 3, "next_at": at(999), "message": "no image"}
    before = getattr(ClusterStatus(), place).model_copy(update=failed)
    for generation, next_at in ((0, at(999)), (1, at(999)), (7, None)):
        status = cycle.followed(seen((), **{place: before}, observed_generation=generation))
        assert (status.next_at, status.failures) == (next_at, 3)


@every
def test_each_counts_a_job_that_vanished_as_failed(
    cycle: Lifecycle[Any], kind: JobKind, place: str, engine: str
) -> None:
    running = cycle.followed(seen())
    status = cycle.followed(seen((), **{place: running}))
    assert (status.running, status.failures, status.attempt) == (False, 1, running.attempt)
    assert status.message.endswith("failed: the job is gone") and status.progress == ""


@every
def test_each_that_ended_well_leaves_nothing_of_attempts_before_it(
    cycle: Lifecycle[Any], kind: JobKind, place: str, engine: str
) -> None:
    """`message` as well: what was in the way once is no word about what was found now."""
    worst = {"running": True, "failures": 2, "next_at": at(99), "message": "no", "progress": "half"}
    before = getattr(ClusterStatus(), place).model_copy(update=worst)
    done = replace(of_kind(kind), running=False, ended_at=at(5), report=REPORTS[kind])
    status = cycle.followed(seen((done,), **{place: before}))
    assert {name: getattr(status, name) for name in worst} == {
        "running": False, "failures": 0, "next_at": None, "message": "", "progress": "",
    }  # fmt: skip
    assert (status.attempt, status.started_at, status.finished_at) == (done.attempt, at(0), at(5))
