"""Actions that failed: who waits for them, when they are tried again, what is told."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest
from bookie.ids import BookieId
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import BLOCKED_MAX, ClusterStatus
from bookie_operator.model.task import TaskPhase
from bookie_operator.observed import Failure, Job, JobKind, Observed
from bookie_operator.plan.actions import (
    Action,
    CreateVolume,
    Refusal,
    ReplaceVolume,
    RestartBookie,
    StartJob,
    StopJob,
    bookie_of,
    template_of,
)
from bookie_operator.plan.failures import (
    RETRY_FIRST,
    RETRY_MAX,
    due_first,
    failed_again,
    failure_refusals,
    is_reported,
    may_start,
    resting,
    split,
    untried,
    wanted_failures,
)
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import at, bookie, cluster, observed, task

NOTHING = ClusterStatus()
REPLACE = [task("replace-disk", f"t{n}", bookie=f"bookie-{n}", disk="ledger-0") for n in (0, 1)]
WHY = "exceeded quota: disks"


def failed(action: Action, times: int = 2, *, reason: str = "ActionFailed") -> Failure:
    """It was tried so often until now."""
    known = None
    for _ in range(times):
        known = failed_again(action, WHY, known, now=at(0), reason=reason)
    assert known is not None
    return known


def after(seen: Observed, failures: Iterable[Failure]) -> Plan:
    return plan(cluster(), replace(seen, failures=tuple(failures)), NOTHING)


def told(made: Plan) -> list[str]:
    return [f"{r.action} {r.predicate} {r.bookie}: {r.message}" for r in made.refusals]


def of(made: Plan, kind: type) -> list[object]:
    return [action for action in made.actions if isinstance(action, kind)]


def test_waits_double_up_to_a_bound() -> None:
    action = StopJob("a", "b")
    waits = [(failed(action, n).next_at - at(0)) for n in (1, 2, 3, 50)]
    assert waits == [RETRY_FIRST, 2 * RETRY_FIRST, 4 * RETRY_FIRST, RETRY_MAX]


def test_d1_what_waits_is_not_done_and_is_told() -> None:
    seen = observed(tasks=REPLACE[:1])
    [action] = of(after(seen, []), ReplaceVolume)
    assert isinstance(action, ReplaceVolume)
    made = after(seen, [failed(action)])
    assert not of(made, ReplaceVolume) and made.resting == (action,)
    assert f"ReplaceVolume ActionFailed bookie-0: {WHY}" in told(made)
    assert of(after(replace(seen, now=at(30)), [failed(action)]), ReplaceVolume) == [action]


def test_d1_a_disruption_that_fails_gives_way_to_the_next() -> None:
    seen = observed(tasks=REPLACE)
    [first] = of(after(seen, []), ReplaceVolume)
    assert isinstance(first, ReplaceVolume)
    [second] = of(after(seen, [failed(first)]), ReplaceVolume)
    assert isinstance(second, ReplaceVolume) and second.bookie_id == "bookie-1"


def test_d1_a_failure_is_degraded_from_the_second_time_on() -> None:
    seen = observed(tasks=REPLACE[:1])
    [action] = of(after(seen, []), ReplaceVolume)
    assert isinstance(action, ReplaceVolume)
    states = [after(seen, [failed(action, n)]).status for n in (1, 2)]
    assert [one.is_true(ConditionType.DEGRADED) for one in states] == [False, True]
    condition = states[1].condition(ConditionType.DEGRADED)
    assert condition is not None and condition.reason == "ActionFailed"
    assert condition.message == f"bookie-0: ReplaceVolume {WHY}"


def test_d1_a_permission_that_lacks_is_degraded_at_once() -> None:
    seen = observed(tasks=REPLACE[:1])
    [action] = of(after(seen, []), ReplaceVolume)
    assert isinstance(action, ReplaceVolume)
    status = after(seen, [failed(action, 1, reason="Forbidden")]).status
    condition = status.condition(ConditionType.DEGRADED)
    assert condition is not None and (condition.reason, condition.message) == ("Forbidden", WHY)


def test_d1_what_nobody_wants_any_more_is_not_told() -> None:
    gone = failed(ReplaceVolume(BookieId("bookie-3"), "ledger-0", "uid"))
    assert not told(after(observed(), [gone]))


def test_d1_a_status_has_room_for_any_number() -> None:
    disk = template_of(cluster().spec, BookieId("bookie-0")).disks[0]
    names = [BookieId(f"bookie-{n}") for n in range(BLOCKED_MAX)]
    actions = [CreateVolume(name, disk) for name in names]
    wide = cluster(replicas=100)
    seen = replace(observed(), failures=tuple(map(failed, actions)), bookies={})
    assert len(plan(wide, seen, NOTHING).status.blocked) <= BLOCKED_MAX


def test_a_job_waits_for_those_that_must_end_and_a_repair_for_nobody() -> None:
    jobs = {kind: StartJob("a", kind, "inline", 1) for kind in (JobKind.REPAIR, JobKind.AUDIT)}
    hung = [StopJob("b", "RepairFirst")]
    assert may_start(jobs[JobKind.REPAIR], hung) and not may_start(jobs[JobKind.AUDIT], hung)
    assert may_start(jobs[JobKind.AUDIT], []) and may_start(hung[0], hung)


def test_d1_a_task_waits_for_a_job_that_cannot_be_made_yet() -> None:
    limbo = bookie("bookie-0", epoch=2, reason="UncleanShutdown", limbo=3)
    asked = task("repair", bookie="bookie-0")
    first = after(observed(limbo, tasks=[asked]), [])
    [job] = [a for a in first.actions if isinstance(a, StartJob)]
    running = asked.model_copy(update={"status": first.tasks["task-1"]})
    made = after(observed(limbo, tasks=[running]), [failed(job)])
    assert running.status.phase is TaskPhase.RUNNING and "task-1" not in made.tasks
    assert bookie_of(job) == "bookie-0"


def test_restarts_that_are_denied_hold_up_no_audit() -> None:
    new = cluster(image="new:1")
    fleet = [bookie(name, of=cluster()) for name in new.spec.bookie_ids]
    seen = observed(*fleet, of=new, seconds=100)
    denied: list[Failure] = []
    for _ in fleet:
        made = plan(new, replace(seen, failures=tuple(denied)), NOTHING)
        assert not [job for job in of(made, StartJob)]
        tried = [one for one in made.actions if isinstance(one, RestartBookie)]
        denied += [replace(failed(one), next_at=at(130)) for one in tried]
    made = plan(new, replace(seen, failures=tuple(denied)), NOTHING)
    assert [job.kind for job in made.actions if isinstance(job, StartJob)] == [JobKind.AUDIT]


def test_waits_are_bounded_however_often_it_was_tried() -> None:
    waits = [failed(StopJob("a", "b"), n).next_at - at(0) for n in (4, 5, 6, 2000)]
    assert waits == [timedelta(seconds=s) for s in (8, 16, 30, 30)]


def test_a_failure_says_what_failed_and_where() -> None:
    disk = template_of(cluster().spec, BookieId("bookie-0")).disks[0]
    volume = failed(CreateVolume(BookieId("bookie-0"), disk), 3)
    assert (volume.action, volume.bookie, volume.count) == ("CreateVolume", "bookie-0", 3)
    assert volume.message == f"journal: {WHY}" and volume.reason == "ActionFailed"
    kept = failed_again("bookie-0-cm", WHY, None, now=at(0), reason="NameTaken")
    assert (kept.action, kept.bookie, kept.count) == ("Keep", "", 1)
    assert kept.message == f"bookie-0-cm: {WHY}" and kept.next_at == at(1)


@pytest.mark.parametrize(
    ("seconds", "waits"), [(1, True), (2, False), (3, False), (-28, True), (-29, False)]
)
def test_it_waits_until_its_time_has_come(seconds: float, waits: bool) -> None:
    action, other = StopJob("a", "b"), StopJob("c", "d")
    seen = replace(observed(seconds=seconds), failures=(failed(action),))
    assert resting([action, other], seen) == ([action] if waits else [])
    assert untried([action, other], seen) == [other]
    assert due_first([action, other], seen) == ([other, action] if waits else [action, other])
    assert split([other], [action, other], seen) == ((other,), (action,) if waits else ())


def test_one_that_is_wanted_twice_waits_once() -> None:
    action = StopJob("a", "b")
    seen = replace(observed(seconds=1), failures=(failed(action),))
    assert split([action], [action], seen) == ((), (action,))


@pytest.mark.parametrize(
    ("times", "reason", "told"),
    [(1, "ActionFailed", False), (2, "ActionFailed", True), (1, "NameTaken", True)],
)
def test_one_failure_may_be_a_moments_unless_its_reason_lasts(
    times: int, reason: str, told: bool
) -> None:
    assert is_reported(failed(StopJob("a", "b"), times, reason=reason)) is told


def test_objects_that_are_kept_are_wanted_always() -> None:
    kept = failed_again("bookie-0-cm", WHY, None, now=at(0), reason="NameTaken")
    gone, asked = failed(StopJob("a", "b")), failed(StopJob("c", "d"))
    seen = replace(observed(), failures=(kept, gone, asked))
    assert wanted_failures(seen, [StopJob("c", "d")]) == [kept, asked]


def test_as_many_refusals_are_told_as_a_status_has_room_for() -> None:
    one = failed(StopJob("a", "b"), reason="Forbidden")
    found = failure_refusals([replace(one, bookie="bookie-3")] * 60)
    assert len(found) == 50
    assert found[0] == Refusal("StopJob", "Forbidden", WHY, bookie="bookie-3")


WITHOUT_POD = "FailedCreate: Error creating: pods is forbidden: " + WHY


def limbo_with(job: Job | None) -> Observed:
    limbo = bookie("bookie-0", epoch=2, reason="UncleanShutdown", limbo=3)
    return replace(observed(limbo), jobs=(job,) if job is not None else ())


def repair(waiting: str) -> Job:
    made = {"bookie": BookieId("bookie-0"), "boot_epoch": 2, "attempt": 1, "started_at": at(0)}
    return Job("demo-bookie-0-2-1", JobKind.REPAIR, running=True, waiting=waiting, **made)


def test_a_job_whose_pod_is_refused_is_blocked_and_degraded_in_the_servers_words() -> None:
    made = after(limbo_with(repair(WITHOUT_POD)), [])
    words = f"demo-bookie-0-2-1: {WITHOUT_POD}"
    assert f"StartJob ActionFailed bookie-0: {words}" in told(made)
    degraded = made.status.condition(ConditionType.DEGRADED)
    assert degraded is not None and degraded.reason == "ActionFailed"
    assert degraded.message == f"bookie-0: StartJob {words}"


def test_a_job_whose_pod_is_refused_is_an_event_once() -> None:
    seen = limbo_with(repair(WITHOUT_POD))
    first = after(seen, [])
    again = plan(cluster(), replace(seen, now=at(5)), first.status)
    for made, times in ((first, 1), (again, 0)):
        events = [one for one in made.events if WHY in one.message]
        assert [(one.reason, one.bookie) for one in events] == [
            ("ActionFailed", "bookie-0")
        ] * times


@pytest.mark.parametrize("waiting", ["", "Unschedulable: no room"])
def test_a_job_that_only_waits_is_not_refused(waiting: str) -> None:
    assert not told(after(limbo_with(repair(waiting)), []))
