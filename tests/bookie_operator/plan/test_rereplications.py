"""When a re-replication begins, for whom, what it gives way to, and what its task is told."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie_operator.model.audit_status import ScrubStatus
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.drain_status import RereplicationStatus
from bookie_operator.model.reports import AuditReport, RereplicationReport, ScrubReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask, TaskPhase
from bookie_operator.observed import Job, JobKind, Observed
from bookie_operator.plan.actions import StartJob, StopJob
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.plan.rereplications import last_rereplication
from operator_scenes import at, bookie, cluster, observed, task

OTHER = "10.0.0.7:3181"
DONE = RereplicationReport(ledgers_moved=7, marks_found=2, marks_cleared=2, entries_copied=40)
REFUSED = RereplicationReport(refused="it is registered", message="1 blocked; x StillRegistered: y")


def wish(name: str = "task-1", bookie_id: str = OTHER, **status: Any) -> BookieTask:
    asked = task("rereplicate", name, bookie=bookie_id)
    return asked.model_copy(update={"status": asked.status.model_copy(update=status)})


def job(*, attempt: int = 1, running: bool = False, **more: Any) -> Job:
    ended = None if running else at(20)
    name, kind = f"demo-rereplicate-{attempt}", JobKind.REREPLICATE
    made = Job(name, kind, attempt, running, at(10), bookie=BookieId(OTHER), ended_at=ended)
    return replace(made, **more)


def look(
    *jobs: Job,
    tasks: tuple[BookieTask, ...] = (),
    status: ClusterStatus | None = None,
    of: BookieCluster | None = None,
    seen: Observed | None = None,
    seconds: float = 30,
) -> Plan:
    of = of or cluster()
    seen = replace(seen or observed(of=of, seconds=seconds), jobs=tuple(jobs), tasks=tasks)
    return plan(of, seen, status or ClusterStatus())


def after(tasks: tuple[BookieTask, ...], made: Plan) -> tuple[BookieTask, ...]:
    """The tasks as that pass left them."""
    told = ((one, made.tasks.get(one.metadata.name, one.status)) for one in tasks)
    return tuple(one.model_copy(update={"status": status}) for one, status in told)


def started(made: Plan) -> list[StartJob]:
    jobs = (action for action in made.actions if isinstance(action, StartJob))
    return [one for one in jobs if one.kind is JobKind.REREPLICATE]


def stopped(made: Plan) -> list[StopJob]:
    stops = (action for action in made.actions if isinstance(action, StopJob))
    return [one for one in stops if one.name.startswith("demo-rereplicate")]


@pytest.mark.parametrize("bookie_id", ["", OTHER, "bookie-9"])
def test_a_task_begins_one_for_marks_or_for_a_bookie_of_others(bookie_id: str) -> None:
    made = look(tasks=(wish(bookie_id=bookie_id),))
    [begun] = started(made)
    assert (begun.name, begun.bookie_id or "") == ("demo-rereplicate-1", bookie_id)
    assert made.tasks["task-1"].phase is TaskPhase.RUNNING
    assert made.tasks["task-1"].target == "demo-rereplicate-1"


def test_nobody_asks_nothing_begins() -> None:
    assert not started(look())


def test_a_bookie_that_the_operator_runs_is_refused_with_what_to_do() -> None:
    made = look(tasks=(wish(bookie_id="bookie-1"),))
    told = made.tasks["task-1"]
    assert told.phase is TaskPhase.FAILED and not started(made)
    assert "and not away" in told.message and "spec.excludedOrdinals" in told.message


@pytest.mark.parametrize("reason", ["limbo", "a bookie is down", "paused", "one runs"])
def test_none_begins_beside(reason: str) -> None:
    of = cluster(paused=reason == "paused")
    special = {
        "limbo": [bookie("bookie-0", limbo=1, reason="UncleanShutdown")],
        "a bookie is down": [bookie("bookie-0", running=False)],
    }
    seen = observed(*special.get(reason, ()), of=of, seconds=30)
    running = [job(running=True)] if reason == "one runs" else []
    assert not started(look(*running, tasks=(wish(),), of=of, seen=seen))


def test_it_gives_way_to_a_repair_and_goes_on_after_it() -> None:
    begun = look(tasks=(wish(),))
    tasks = after((wish(),), begun)
    marked = bookie("bookie-0", limbo=3, reason="UncleanShutdown", epoch=2)
    made = look(job(running=True), tasks=tasks, seen=observed(marked, seconds=30))
    assert stopped(made) == [StopJob("demo-rereplicate-1", "RepairFirst")]
    gone = look(tasks=after(tasks, made), status=made.status, seconds=40)
    assert gone.tasks["task-1"].phase is TaskPhase.RUNNING
    assert "it is started again" in gone.tasks["task-1"].message
    [again] = started(look(tasks=after(tasks, gone), status=gone.status, seconds=60))
    assert again.name == "demo-rereplicate-2"


def test_a_scrub_gives_way_to_it() -> None:
    scrubbing = Job("demo-scrub-1", JobKind.SCRUB, 1, running=True, started_at=at(10))
    made = look(scrubbing, tasks=(wish(),))
    assert started(made) and StopJob("demo-scrub-1", "RereplicationFirst") in made.actions
    done = replace(scrubbing, running=False, ended_at=at(11), report=ScrubReport())
    daily = cluster(scrub={"schedule": "@daily"})
    status = ClusterStatus(scrub=ScrubStatus(scheduled_at=at(-90000)))
    beside = look(done, job(running=True), of=daily, status=status, seconds=2000)
    kinds = [one.kind for one in beside.actions if isinstance(one, StartJob)]
    assert JobKind.SCRUB not in kinds


def test_one_that_runs_for_too_long_is_stopped() -> None:
    [stop] = stopped(look(job(running=True), seconds=cluster().spec.repair.deadline_seconds + 60))
    assert stop.reason == "DeadlineExceeded"


def test_what_it_did_is_in_the_status_and_ends_the_task() -> None:
    tasks = after((wish(),), look(tasks=(wish(),)))
    made = look(job(report=DONE), tasks=tasks)
    assert made.tasks["task-1"].phase is TaskPhase.SUCCEEDED
    assert made.tasks["task-1"].message == "7 ledgers moved, 0 left, 2 of 2 marks cleared"
    status = made.status.rereplication
    assert (status.bookie, status.ledgers_moved, status.clean) == (OTHER, 7, True)
    assert not started(look(job(report=DONE), tasks=after(tasks, made), status=made.status))


def test_a_refusal_is_the_tasks_answer_and_no_finding() -> None:
    tasks = after((wish(),), look(tasks=(wish(),)))
    made = look(job(report=REFUSED, exit_code=5), tasks=tasks)
    assert made.tasks["task-1"].phase is TaskPhase.FAILED
    assert "StillRegistered" in made.tasks["task-1"].message
    assert not started(made) and made.status.rereplication.clean is None


def test_what_is_left_degrades_the_cluster_until_one_leaves_nothing() -> None:
    left = DONE.model_copy(
        update={"ledgers_left": 1, "blocked": 1, "message": "1 blocked; 5 CopyIncomplete: gone"}
    )
    made = look(job(report=left))
    degraded = made.status.condition(ConditionType.DEGRADED)
    assert degraded is not None and degraded.reason == "RereplicationFindings"
    assert "left 1 ledgers" in degraded.message and "CopyIncomplete" in degraded.message
    refused = look(job(attempt=2, report=REFUSED), status=made.status)
    assert refused.status.is_true(ConditionType.DEGRADED), "nothing was looked at"
    was, known = made.status.rereplication, refused.status.rereplication
    assert (known.clean, known.ledgers_left, known.blocked) == (False, 1, 1)
    assert (known.attempt, known.finished_at) == (2, was.finished_at)
    assert "StillRegistered" in known.message
    clean = look(job(attempt=3, report=DONE), status=refused.status)
    assert not clean.status.is_true(ConditionType.DEGRADED)


def test_one_that_fails_is_begun_again_with_waits_and_an_end() -> None:
    tasks = after((wish(),), look(tasks=(wish(),)))
    failed = look(job(message="no route"), tasks=tasks)
    assert not started(look(job(), tasks=tasks, status=failed.status, seconds=29))
    assert started(look(job(), tasks=tasks, status=failed.status, seconds=31))
    tasks = (wish(phase=TaskPhase.RUNNING, target="demo-rereplicate-2"),)
    last = failed.status.rereplication.model_copy(update={"failures": 4})
    status = ClusterStatus(rereplication=last)
    given_up = look(job(attempt=2, message="no route"), tasks=tasks, status=status, seconds=999)
    assert given_up.tasks["task-1"].phase is TaskPhase.FAILED and not started(given_up)
    assert given_up.tasks["task-1"].message == "rereplicate 2 failed: no route"
    tasks = (*after(tasks, given_up), wish("task-2", ""))
    fresh = look(job(attempt=2), tasks=tasks, status=given_up.status, seconds=30)
    assert [one.attempt for one in started(fresh)] == [3], "another wish, another count"
    assert fresh.status.rereplication.failures == 0


def test_of_two_tasks_the_one_that_was_begun_goes_first() -> None:
    begun = look(tasks=(wish("b"),))
    tasks = (wish("a", ""), *after((wish("b"),), begun))
    [again] = started(look(tasks=tasks, status=begun.status))
    assert again.bookie_id == OTHER


def test_an_audit_looks_after_copies_that_were_moved() -> None:
    done = Job("demo-audit-1", JobKind.AUDIT, 1, running=False, started_at=at(0), ended_at=at(1))
    audited = replace(done, report=AuditReport(ok=1))
    settled = look(audited).status
    quiet = look(audited, job(report=REFUSED), status=settled)
    moved = look(audited, job(report=DONE), status=settled)
    kinds = [[a.kind for a in one.actions if isinstance(a, StartJob)] for one in (quiet, moved)]
    assert kinds == [[], [JobKind.AUDIT]]


BEGUN = wish(phase=TaskPhase.RUNNING, target="demo-rereplicate-1", started_at=at(3))


def test_a_task_counts_from_its_first_attempt_on() -> None:
    known = ClusterStatus(rereplication=RereplicationStatus(attempt=1))
    status = look(tasks=(BEGUN,), status=known).tasks["task-1"]
    assert (status.target, status.started_at) == ("demo-rereplicate-2", at(3))
    assert look(tasks=(wish(),)).tasks["task-1"].started_at == at(30)


def test_a_task_is_ended_by_its_own_job_whatever_others_do() -> None:
    other = Job("demo-audit-1", JobKind.AUDIT, 1, True, at(10), progress="7 ledgers looked at")
    done = look(other, job(report=DONE), tasks=(BEGUN,)).tasks["task-1"]
    assert done.phase is TaskPhase.SUCCEEDED
    runs = look(other, job(running=True, progress="half"), tasks=(BEGUN,)).tasks["task-1"]
    assert (runs.phase, runs.message) == (TaskPhase.RUNNING, "half")


@pytest.mark.parametrize("moved", [0, 1])
@pytest.mark.parametrize("copied", [0, 1])
def test_an_audit_is_old_once_one_has_moved_or_copied_something(moved: int, copied: int) -> None:
    ended = job(report=RereplicationReport(ledgers_moved=moved, entries_copied=copied))
    assert last_rereplication((ended,)) == (at(20) if moved or copied else None)
    assert last_rereplication((replace(ended, ended_at=None),)) is None, "it runs yet"
    earlier = replace(ended, ended_at=at(15), report=DONE)
    assert last_rereplication((ended, earlier)) == at(20 if moved or copied else 15)
