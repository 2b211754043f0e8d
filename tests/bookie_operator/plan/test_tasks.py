"""Tasks that ask for a job: bound to it, and ended as it ended."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import CookieFix, Phase
from bookie_operator.model.audit_status import AuditStatus
from bookie_operator.model.drain_status import RereplicationStatus
from bookie_operator.model.reports import AuditReport, MendReport, Report, ScrubReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask, TaskPhase, TaskStatus
from bookie_operator.observed import Bookie, Job, JobKind
from bookie_operator.plan.actions import (
    Action,
    ApproveCollection,
    ApproveCookieFix,
    DeleteTask,
    ReplaceVolume,
    StartJob,
    StopJob,
)
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.plan.rereplications import Rereplications
from bookie_operator.plan.tasks import task_statuses
from operator_scenes import at, audited, bookie, cluster, fix_request, observed, task

B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")
TARGET = "demo-job-1"
KINDS = {
    JobKind.REPAIR: task("repair", bookie=B0),
    JobKind.MEND: task("repair"),
    JobKind.AUDIT: task("audit"),
    JobKind.SCRUB: task("scrub"),
}
every = pytest.mark.parametrize("kind", KINDS)


def bound(kind: JobKind, target: str = TARGET) -> BookieTask:
    status = TaskStatus(phase=TaskPhase.RUNNING, started_at=at(1), target=target)
    return KINDS[kind].model_copy(update={"status": status})


def job(kind: JobKind, report: Report | None = None, **more: Any) -> Job:
    facts: dict[str, Any] = {"running": False, "ended_at": at(20), "bookie": B0} | more
    return Job(TARGET, kind, 1, started_at=at(10), report=report, **facts)


def start(kind: JobKind, name: str = TARGET, of: BookieId = B0) -> StartJob:
    return StartJob(name, kind, "inline", 1, of)


def after(
    one: BookieTask,
    *special: Bookie,
    jobs: tuple[Job, ...] = (),
    actions: tuple[Action, ...] = (),
    audit: AuditStatus | None = None,
) -> TaskStatus:
    """The status of this task after a pass with these jobs that does these actions."""
    pass_ = Pass.of(
        cluster(), observed(*special, jobs=jobs, tasks=[one], seconds=30), ClusterStatus()
    )
    nothing = Rereplications(RereplicationStatus(), [])
    made = task_statuses(pass_, actions=actions, replicating=nothing, audit=audit or AuditStatus())
    return made.get("task-1", one.status)


LIMBO = bookie(B0, epoch=2, reason="UncleanShutdown", limbo=3, unchecked=1)
STOP = StopJob("another", "why")


@every
def test_it_is_bound_to_the_job_of_its_kind_that_begins(kind: JobKind) -> None:
    others = tuple(start(other, "other") for other in KINDS if other is not kind)
    assert after(KINDS[kind], LIMBO, actions=(STOP, *others)).phase is TaskPhase.PENDING
    status = after(KINDS[kind], LIMBO, actions=(STOP, *others, start(kind)))
    assert (status.phase, status.target, status.started_at) == ("Running", TARGET, at(30))


def test_a_repair_is_bound_to_that_of_its_own_bookie() -> None:
    asked = KINDS[JobKind.REPAIR]
    assert after(asked, LIMBO, actions=(start(JobKind.REPAIR, of=B1),)).phase is TaskPhase.PENDING


@every
def test_a_job_that_could_not_be_made_is_waited_for_until_it_is(kind: JobKind) -> None:
    name = "demo-bookie-0-2-1" if kind is JobKind.REPAIR else f"demo-{kind.value}-1"
    one = bound(kind, target=name)
    for actions in ((), (STOP,), (start(kind, name),)):
        assert after(one, LIMBO, actions=actions) == one.status


@every
def test_a_job_that_is_not_the_next_one_has_been_there_and_is_gone(kind: JobKind) -> None:
    for actions in ((), (StopJob(TARGET, "why"),), (start(kind, "other"),)):
        status = after(bound(kind), LIMBO, actions=actions)
        assert (status.phase, status.message) == ("Failed", f"job {TARGET} is gone")
        assert status.finished_at == at(30)


@every
def test_while_its_job_runs_it_says_how_far_it_is(kind: JobKind) -> None:
    runs = job(kind, running=True, ended_at=None, progress="half")
    other = replace(runs, name="another", progress="done")
    status = after(bound(kind), jobs=(other, runs))
    assert (status.phase, status.message) == ("Running", "half")
    silent = bound(kind).model_copy(update={"status": status})
    assert after(silent, jobs=(replace(runs, progress=""),)).message == "half"


@pytest.mark.parametrize(
    ("limbo", "unchecked", "phase", "words"),
    [
        (0, 0, "Succeeded", "limbo is 0"),
        (3, 0, "Failed", "3 ledgers in limbo, 0 unchecked are left"),
        (0, 2, "Failed", "0 ledgers in limbo, 2 unchecked are left"),
    ],
)
def test_a_repair_ends_by_the_counts_of_its_own_bookie_whatever_its_job_says(
    limbo: int, unchecked: int, phase: str, words: str
) -> None:
    mine = bookie(B0, epoch=2, reason="UncleanShutdown", limbo=limbo, unchecked=unchecked)
    other = bookie(B1, epoch=2, reason="UncleanShutdown", limbo=9)
    for code in (0, 1):
        ended = (job(JobKind.REPAIR, exit_code=code),)
        status = after(bound(JobKind.REPAIR), mine, other, jobs=ended)
        assert (status.phase, status.message) == (phase, words)


@pytest.mark.parametrize(
    ("report", "phase", "words"),
    [
        (AuditReport(ok=1), "Succeeded", "nothing found"),
        (AuditReport(missing=1), "Succeeded", "see status.audit of the cluster"),
        (
            ScrubReport(corrupt_found=3, corrupt_replaced=3),
            "Succeeded",
            "3 corrupt copies found, 3 replaced",
        ),
        (
            ScrubReport(blocked=1),
            "Succeeded",
            "0 corrupt copies found, 0 replaced; not clean: see status.scrub of the cluster",
        ),
        (
            MendReport(entries_copied=6, corrupt_replaced=1),
            "Succeeded",
            "6 entries copied, 1 replaced",
        ),
        (
            MendReport(entries_copied=6, wrong=2, message="no copy"),
            "Failed",
            "6 entries copied, 0 replaced; 2 entries are not as they must be: no copy",
        ),
        (
            MendReport(wrong=1),
            "Failed",
            "0 entries copied, 0 replaced; 1 entries are not as they must be",
        ),
    ],
)
def test_others_end_by_the_report_of_their_job(report: Report, phase: str, words: str) -> None:
    kinds = {AuditReport: JobKind.AUDIT, ScrubReport: JobKind.SCRUB, MendReport: JobKind.MEND}
    kind = kinds[type(report)]
    status = after(bound(kind), jobs=(job(kind, report),))
    assert (status.phase, status.message, status.finished_at) == (phase, words, at(30))


@pytest.mark.parametrize("kind", [JobKind.MEND, JobKind.AUDIT, JobKind.SCRUB])
def test_a_job_that_left_no_report_is_a_failure(kind: JobKind) -> None:
    status = after(bound(kind), jobs=(job(kind, message="killed"),))
    assert (status.phase, status.message) == ("Failed", "killed")
    words = f"the {KINDS[kind].spec.type.value} left no result"
    assert after(bound(kind), jobs=(job(kind),)).message == words


@every
def test_a_job_that_has_ended_counts_though_its_name_is_asked_for_again(kind: JobKind) -> None:
    ended = job(kind, message="killed")
    assert after(bound(kind), jobs=(ended,), actions=(start(kind),)).phase.is_final


@pytest.mark.parametrize(
    ("one", "fewer", "phase", "words"),
    [
        (bookie(B0), 0, "Succeeded", "nothing is in limbo on bookie-0"),
        (
            bookie(B0),
            6,
            "Succeeded",
            "nothing is in limbo on bookie-0, but the last audit found 6 copies missing or wrong: "
            "`kubectl bookie repair` without a bookie makes them again",
        ),
        (bookie(B0, phase=Phase.BOOTING), 0, "Pending", ""),
        (LIMBO, 0, "Pending", ""),
    ],
)
def test_a_repair_of_a_bookie_without_limbo_has_nothing_to_do(
    one: Bookie, fewer: int, phase: str, words: str
) -> None:
    """`fewer`: entries with fewer copies than they should have."""
    status = after(KINDS[JobKind.REPAIR], one, audit=AuditStatus(below_write_quorum=fewer))
    assert (status.phase, status.message) == (phase, words)


# Approvals of cookie fixes

YES = task("approve-cookie-fix", bookie=B0, planId="plan-1", approvedBy="ann")
GIVEN = YES.model_copy(
    update={"status": TaskStatus(phase=TaskPhase.RUNNING, started_at=at(1), target="plan-1")}
)
FIXED = ApproveCookieFix(B0, "plan-1", "ann")


def asks(plan_id: str | None = "plan-1", phase: Phase = Phase.AWAITING_APPROVAL) -> Bookie:
    fix: CookieFix | None = fix_request(plan_id) if plan_id else None
    return bookie(B0, phase=phase, epoch=2, reason="DiskReplaced", fix=fix)


@pytest.mark.parametrize(
    ("actions", "phase"),
    [
        ((), "Pending"),
        ((STOP, FIXED), "Running"),
        ((ApproveCookieFix(B0, "plan-2", "ann"),), "Pending"),
        ((ApproveCollection(B0, "plan-1", "ann"),), "Pending"),
    ],
)
def test_an_approval_runs_from_the_pass_on_that_approves_its_plan(
    actions: tuple[Action, ...], phase: str
) -> None:
    status = after(YES, asks(), actions=actions)
    assert status.phase == phase
    assert (status.target, status.started_at) == (
        ("plan-1", at(30)) if phase == "Running" else ("", None)
    )
    assert after(GIVEN, asks(), actions=actions) == GIVEN.status, "it is since its first one"


@pytest.mark.parametrize(
    ("one", "waiting", "running"),
    [
        (bookie(B0), ("Failed", "no fix is pending on this bookie"), "the fix was made"),
        (asks("plan-2"), ("Failed", "another fix is pending: plan-2"), "another fix is pending"),
        (asks(), ("Pending", ""), ""),
        (asks(None), ("Pending", ""), ""),
        (asks("plan-2", Phase.MARKING), ("Pending", ""), ""),
        (bookie(B0, phase=Phase.BOOTING), ("Pending", ""), ""),
        (bookie(B0, phase=None), ("Pending", ""), ""),
    ],
)
def test_an_approval_ends_with_the_boot_that_it_was_for(
    one: Bookie, waiting: tuple[str, str], running: str
) -> None:
    status = after(YES, one)
    assert (status.phase, status.message) == waiting
    given = after(GIVEN, one)
    assert given.message.startswith(running) and given.phase.is_final is bool(running)
    assert (given.phase is TaskPhase.SUCCEEDED) is (running == "the fix was made")
    assert given.finished_at == (at(30) if running else None)


FIVE, FOUR = cluster(replicas=5), cluster(replicas=4)
PLAIN = cluster(tls={"mode": "Off"})
B4 = BookieId("bookie-4")
LEAVES = bookie(B4, phase=Phase.DRAINING, draining=True, ledgers_naming_it=7)
ASKS = bookie(B4, phase=Phase.AWAITING_APPROVAL, epoch=2, reason="DiskReplaced", fix=fix_request())
FORGOT = bookie(B4, epoch=2, reason="UncleanShutdown", limbo=3)
HOLDS = bookie(B4, collection_plan_id="p", collection_held="many")


def while_it_leaves(asked: BookieTask, seen: Bookie) -> Plan:
    """A plan for a cluster of which bookie-4 is not wanted any more."""
    settled = plan(FIVE, observed(of=FIVE, jobs=[audited()], seconds=2), ClusterStatus()).status
    look = observed(seen, of=FOUR, jobs=[audited()], tasks=[asked], seconds=5)
    return plan(FOUR, look, settled)


@pytest.mark.parametrize(
    ("asked", "seen", "done"),
    [
        (task("approve-cookie-fix", bookie=B4, planId="plan-1"), ASKS, ApproveCookieFix),
        (
            task("approve-collection", bookie=B4, planId="p", approvedBy="ann"),
            HOLDS,
            ApproveCollection,
        ),
        (task("repair", bookie=B4), FORGOT, StartJob),
    ],
)
def test_a_bookie_that_leaves_may_need_an_approval_or_a_repair(
    asked: BookieTask, seen: Bookie, done: type[Action]
) -> None:
    made = while_it_leaves(asked, seen)
    assert made.tasks["task-1"].phase is TaskPhase.RUNNING
    assert any(isinstance(one, done) for one in made.actions)


def test_no_disk_is_replaced_of_a_bookie_that_leaves() -> None:
    made = while_it_leaves(task("replace-disk", bookie=B4, disk="ledger-0"), LEAVES)
    assert made.tasks["task-1"].phase is TaskPhase.FAILED
    assert "bookie-4 leaves the cluster" in made.tasks["task-1"].message
    assert not any(isinstance(one, ReplaceVolume) for one in made.actions)


@pytest.mark.parametrize("asked", ["audit", "scrub", "accept-loss"])
def test_nothing_is_done_for_a_task_that_has_failed(asked: str) -> None:
    wish = {"ledger": 5, "reason": "power cut", "approvedBy": "ann"} if "loss" in asked else {}
    look = observed(of=PLAIN, jobs=[audited()], tasks=[task(asked, bookie="bookie-9", **wish)])
    made = plan(PLAIN, look, ClusterStatus())
    assert made.tasks["task-1"].message == "the cluster has no bookie bookie-9"
    assert not any(isinstance(one, StartJob) for one in made.actions)


def test_a_task_whose_time_is_over_is_deleted_by_its_uid() -> None:
    """Not one that somebody has made again under its name."""
    one = task("audit", ttlSecondsAfterFinished=60)
    metadata = one.metadata.model_copy(update={"uid": "u-1"})
    status = TaskStatus(phase=TaskPhase.SUCCEEDED, finished_at=at(0))
    ended = one.model_copy(update={"metadata": metadata, "status": status})
    for seconds, deleted in ((59, []), (60, [DeleteTask("task-1", "u-1")])):
        made = plan(cluster(), observed(seconds=seconds, tasks=(ended,)), ClusterStatus())
        assert [one for one in made.actions if isinstance(one, DeleteTask)] == deleted
