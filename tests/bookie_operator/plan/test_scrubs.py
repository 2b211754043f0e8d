"""When a scrub begins, what it gives way to, and what is said of its end."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie_operator.model.audit_status import ScrubStatus
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.reports import ScrubReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask, TaskPhase
from bookie_operator.observed import Job, JobKind, MetadataView, Observed
from bookie_operator.plan.actions import StartJob, StopJob
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import HEALTHY, at, audited, bookie, cluster, observed, task

DAILY = {"schedule": "@daily", "readBytesPerSecond": 1 << 20}
DAY = 86400.0
GOOD = ScrubReport(ledgers=2, entries=30)


def scrub_job(*, attempt: int = 1, running: bool = False, **more: Any) -> Job:
    ended = None if running else at(20)
    name = f"demo-scrub-{attempt}"
    job = Job(name, JobKind.SCRUB, attempt, running, started_at=at(10), ended_at=ended)
    return replace(job, **more)


def look(
    *jobs: Job,
    of: BookieCluster | None = None,
    status: ScrubStatus | None = None,
    seen: Observed | None = None,
    seconds: float = 30,
    tasks: tuple[BookieTask, ...] = (),
) -> Plan:
    of = of or cluster(scrub=DAILY)
    seen = seen or observed(of=of, seconds=seconds, tasks=tasks)
    before = ClusterStatus(scrub=status or ScrubStatus(scheduled_at=at(0)))
    return plan(of, replace(seen, jobs=tuple(jobs)), before)


def started(made: Plan) -> list[StartJob]:
    return [one for one in made.actions if isinstance(one, StartJob) and one.kind is JobKind.SCRUB]


def test_nothing_is_read_without_schedule_and_task() -> None:
    never = cluster(scrub={"schedule": "@never"})
    assert not started(look(of=never, status=ScrubStatus(), seconds=1000 * DAY))


def test_a_cluster_whose_spec_says_nothing_is_read_every_week() -> None:
    since = ScrubStatus(scheduled_at=at(0))
    assert not started(look(of=cluster(), status=since, seconds=7 * DAY - 1))
    assert started(look(of=cluster(), status=since, seconds=7 * DAY))


def test_a_line_of_cron_is_due_at_its_minute() -> None:
    of, since = cluster(scrub={"schedule": "0 3 * * *"}), ScrubStatus(scheduled_at=at(0))
    assert not started(look(of=of, status=since, seconds=3 * 3600 - 1))
    assert started(look(of=of, status=since, seconds=3 * 3600))


def test_the_first_scrub_is_an_interval_after_the_schedule_began() -> None:
    fresh = look(status=ScrubStatus(), seconds=5)
    assert fresh.status.scrub.scheduled_at == at(5) and not started(fresh)
    assert not started(look(status=fresh.status.scrub, seconds=DAY))
    [job] = started(look(status=fresh.status.scrub, seconds=DAY + 5))
    assert (job.name, job.engine) == ("demo-scrub-1", "inline")
    assert job.options == ("--read-rate", "1048576", "--checkpoint", "metadata")


def test_a_schedule_that_is_taken_back_and_given_again_begins_then() -> None:
    never = look(of=cluster(scrub={"schedule": "@never"}), status=ScrubStatus(scheduled_at=at(0)))
    assert never.status.scrub.scheduled_at is None
    assert look(status=never.status.scrub, seconds=3 * DAY).status.scrub.scheduled_at == at(3 * DAY)


def test_a_scrub_that_is_due_is_not_held_for_the_task_that_asks_for_it_too() -> None:
    asked = (task("scrub"),)
    [due] = started(look(status=ScrubStatus(scheduled_at=at(0)), seconds=DAY, tasks=asked))
    [early] = started(look(status=ScrubStatus(scheduled_at=at(0)), seconds=30, tasks=asked))
    assert (due.asked_by, early.asked_by) == ((), ("task-1",))


def test_the_next_one_is_an_interval_after_the_last_began() -> None:
    done = look(scrub_job(report=GOOD)).status.scrub
    assert done.clean and done.started_at == at(10)
    assert not started(look(scrub_job(report=GOOD), status=done, seconds=DAY))
    [job] = started(look(scrub_job(report=GOOD), status=done, seconds=DAY + 10))
    assert job.attempt == 2


def test_a_task_needs_no_schedule() -> None:
    made = look(of=cluster(), tasks=(task("scrub"),))
    assert started(made) and made.tasks["task-1"].target == "demo-scrub-1"


@pytest.mark.parametrize(
    "reason", ["limbo", "a bookie is down", "no metadata store", "paused", "one runs"]
)
def test_none_begins_beside(reason: str) -> None:
    of = cluster(scrub=DAILY, paused=reason == "paused")
    special = {
        "limbo": [bookie("bookie-0", limbo=1, reason="UncleanShutdown")],
        "a bookie is down": [bookie("bookie-0", running=False)],
    }
    seen = observed(*special.get(reason, ()), of=of, seconds=2 * DAY)
    if reason == "no metadata store":
        seen = replace(seen, metadata=MetadataView(url="zk://here"))
    running = [scrub_job(running=True, started_at=at(2 * DAY - 9))] if reason == "one runs" else []
    assert not started(look(*running, of=of, seen=seen))


def test_it_gives_way_to_a_repair() -> None:
    marked = bookie("bookie-0", limbo=3, reason="UncleanShutdown", epoch=2)
    made = look(scrub_job(running=True), seen=observed(marked, seconds=30))
    assert StopJob("demo-scrub-1", "RepairFirst") in made.actions
    assert any(isinstance(one, StartJob) and one.kind is JobKind.REPAIR for one in made.actions)


def test_it_may_run_for_longer_than_a_repair() -> None:
    long = cluster().spec.repair.deadline_seconds + 60
    assert not [one for one in look(scrub_job(running=True), seconds=long).actions if _stops(one)]
    [late] = [
        one for one in look(scrub_job(running=True), seconds=7 * DAY + 60).actions if _stops(one)
    ]
    assert late == StopJob("demo-scrub-1", "DeadlineExceeded")


def _stops(action: object) -> bool:
    return isinstance(action, StopJob) and action.name == "demo-scrub-1"


def test_how_far_it_is_stands_in_the_status_and_the_task_while_it_runs() -> None:
    asked = task("scrub")
    asked = asked.model_copy(update={"status": look(tasks=(asked,)).tasks["task-1"]})
    made = look(scrub_job(running=True, progress="7 ledgers looked at"), tasks=(asked,))
    assert made.status.scrub.progress == made.tasks["task-1"].message == "7 ledgers looked at"
    assert look(scrub_job(report=GOOD), status=made.status.scrub).status.scrub.progress == ""
    assert look(scrub_job(), status=made.status.scrub).status.scrub.progress == ""


def test_one_that_failed_is_tried_again_with_growing_waits_and_an_end() -> None:
    failed = look(scrub_job(message="killed")).status.scrub
    assert failed.failures == 1 and failed.message == "scrub 1 failed: killed"
    assert not started(look(scrub_job(), status=failed, seconds=29))
    assert started(look(scrub_job(), status=failed, seconds=31))
    given_up = failed.model_copy(update={"failures": 5})
    assert not started(look(scrub_job(), status=given_up, seconds=DAY))


def test_one_that_was_given_up_begins_again_when_the_schedule_says_so() -> None:
    given_up = ScrubStatus(scheduled_at=at(0), attempt=5, failures=5, next_at=at(DAY))
    never = cluster(scrub={"schedule": "@never"})
    assert not started(look(status=given_up, seconds=2 * DAY - 1))
    assert not started(look(of=never, status=given_up, seconds=100 * DAY))
    assert started(look(status=given_up, seconds=2 * DAY))


def test_what_it_could_not_mend_degrades_the_cluster_and_ends_the_task() -> None:
    asked = task("scrub")
    asked = asked.model_copy(update={"status": look(tasks=(asked,)).tasks["task-1"]})
    bad = ScrubReport(ledgers=2, entries=30, corrupt_found=3, corrupt_replaced=2, blocked=1)
    made = look(scrub_job(report=bad), tasks=(asked,))
    assert made.tasks["task-1"].phase is TaskPhase.SUCCEEDED
    words = "3 corrupt copies found, 2 replaced; not clean: see status.scrub of the cluster"
    assert made.tasks["task-1"].message == words
    degraded = made.status.condition(ConditionType.DEGRADED)
    assert degraded is not None and degraded.reason == "ScrubFindings"
    assert "1 of them are left" in degraded.message


@pytest.mark.parametrize("kind", [JobKind.SCRUB, JobKind.REREPLICATE])
def test_over_a_store_that_was_put_back_none_goes_on(kind: JobKind) -> None:
    at_work = scrub_job(running=True, kind=kind, name="at-work", bookie=BookieId("bookie-9"))
    rolled_back = {BookieId("bookie-1"): "an older store"}
    for noted, stops in (({}, []), (rolled_back, [StopJob("at-work", "MetadataRolledBack")])):
        seen = observed(seconds=30, metadata=replace(HEALTHY, rolled_back=noted))
        made = look(at_work, audited(), seen=seen)
        assert [one for one in made.actions if isinstance(one, StopJob)] == stops


def test_one_gives_way_to_a_repair_of_every_ledger_and_waits_for_its_end() -> None:
    asked = (task("repair"),)
    made = look(scrub_job(running=True), audited(), tasks=asked)
    jobs = [one for one in made.actions if isinstance(one, StopJob | StartJob)]
    assert StopJob("demo-scrub-1", "MendFirst") in jobs
    assert [one.kind for one in jobs if isinstance(one, StartJob)] == [JobKind.MEND]
    of = cluster(scrub=DAILY, audit={"schedule": "@never"})
    for tasks in ((), asked):
        assert bool(started(look(audited(), of=of, seconds=DAY, tasks=tasks))) is not bool(tasks)
