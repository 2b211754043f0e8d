"""Repairs of limbo: how far one is, and which is due next; `test_plan` follows one to its end."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import BookieState, BookieStatus, RepairState, RepairStatus
from bookie_operator.model.reports import LossReport, RepairReport
from bookie_operator.model.status import ClusterStatus, MetadataStatus
from bookie_operator.model.task import BookieTask
from bookie_operator.model.undecided import UndecidedLedger, UndecidedStatus
from bookie_operator.observed import Bookie, Job, JobKind, MetadataView
from bookie_operator.plan.actions import Action, Refusal, StartJob, StopJob
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.planner import plan
from bookie_operator.plan.repair import repairs
from operator_scenes import HEALTHY, at, bookie, cluster, observed, task

B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")


def marked(
    limbo: int = 3, unchecked: int = 0, name: str = B0, *, boot: tuple[int, int] | None = None
) -> Bookie:
    """`boot`: in limbo and unchecked when it booted; by default as many as now."""
    one = bookie(name, epoch=2, reason="UncleanShutdown", limbo=limbo, unchecked=unchecked)
    assert one.health is not None and one.health.boot is not None
    at_first = boot or (limbo, unchecked)
    facts = {"ledgers_in_limbo": at_first[0], "ledgers_unchecked": at_first[1]}
    record = replace(one.health.boot, **facts)  # type: ignore[arg-type]
    return replace(one, health=replace(one.health, boot=record))


def attempt(number: int = 1, *, of: str = B0, running: bool = False) -> Job:
    """It began at 10 and, if it has ended, failed at 20."""
    return Job(
        f"demo-{of}-2-{number}", JobKind.REPAIR, number, running, at(10), BookieId(of), 2,
        ended_at=None if running else at(20), exit_code=None if running else 1,
    )  # fmt: skip


def before(**repair: Any) -> ClusterStatus:
    known = RepairStatus.model_validate({"episode": "bookie-0-2", "state": "Running"} | repair)
    one = BookieStatus(id=B0, state=BookieState.LIMBO, boot_epoch=2, repair=known)
    return ClusterStatus(bookies=(one,))


def started(
    *special: Bookie, jobs: tuple[Job, ...], seconds: float, tasks: tuple[BookieTask, ...] = ()
) -> list[tuple[str, int]]:
    """Bookie and attempt of what begins."""
    seen = observed(*special, jobs=jobs, tasks=tasks, seconds=seconds)
    made = repairs(Pass.of(cluster(), seen, ClusterStatus()))
    return [(one.bookie_id or "", one.attempt) for one in made.actions if isinstance(one, StartJob)]


@pytest.mark.parametrize(("changed", "begins"), [(5, False), (20.5, True), (3600, True)])
def test_a_change_of_the_spec_frees_one_attempt_of_its_wait(changed: float, begins: bool) -> None:
    """A change that lies ahead was before the clock was set back: it frees one as well, and not all
    until the clock is there."""
    known = ClusterStatus(observed_generation=1, generation_since=at(changed))
    of = cluster()
    of = of.model_copy(update={"metadata": of.metadata.model_copy(update={"generation": 1})})
    first = plan(of, observed(marked(), jobs=[attempt()], seconds=21), known)
    failed = replace(attempt(2), started_at=at(22), ended_at=at(30))
    second = plan(of, observed(marked(), jobs=[failed], seconds=31), first.status)
    assert any(isinstance(one, StartJob) for one in first.actions) is begins
    assert not any(isinstance(one, StartJob) for one in second.actions)


@pytest.mark.parametrize(
    ("limbo", "unchecked", "boot", "total", "progress"),
    [
        (3, 2, None, 10, "5/10 ledgers (50 %)"),
        (0, 4, None, 12, "8/12 ledgers (66 %)"),
        (1, 2, None, 0, "0/3 ledgers (0 %)"),
        (1, 1, (8, 2), 0, "8/10 ledgers (80 %)"),
        (9, 9, (3, 0), 10, "0/18 ledgers (0 %)"),
        (0, 0, None, 7, "7/7 ledgers (100 %)"),
        (0, 0, None, 0, ""),
    ],
)
def test_its_progress_is_what_has_gone_of_limbo_and_unchecked_together(
    limbo: int, unchecked: int, boot: tuple[int, int] | None, total: int, progress: str
) -> None:
    seen = observed(marked(limbo, unchecked, boot=boot), jobs=[attempt(running=True)], seconds=15)
    pass_ = Pass.of(cluster(), seen, before(attempt=1, ledgers_total=total))
    status = repairs(pass_).statuses[B0]
    assert status.progress == progress
    assert (status.ledgers_total - status.ledgers_cleared) == limbo + unchecked


@pytest.mark.parametrize("number", [2, 3, 4])
@pytest.mark.parametrize("running", [True, False])
def test_one_is_stalled_once_as_many_attempts_have_failed_as_may(
    number: int, running: bool
) -> None:
    """The one that runs has not failed; after 3 it is tried further, and slowly."""
    of = cluster(repair={"maxAttempts": 3, "backoffSeconds": 10})
    seen = observed(marked(), of=of, jobs=[attempt(number, running=running)], seconds=21)
    made = repairs(Pass.of(of, seen, ClusterStatus()))
    failed = number - 1 if running else number
    assert made.stalled == ((B0,) if failed >= 3 else ())
    healed = observed(marked(0), of=of, jobs=[attempt(number)], seconds=21)
    assert repairs(Pass.of(of, healed, ClusterStatus())).stalled == ()


@pytest.mark.parametrize(
    ("asked", "seconds", "begins"),
    [
        (None, 29, []),
        (None, 30, [(B0, 2)]),
        (B0, 25, [(B0, 2)]),
        (B1, 25, []),
        (None, -3600, [(B0, 2)]),  # the clock that has measured the wait was put right since
    ],
)
def test_one_that_failed_waits_out_its_back_off_unless_somebody_asks_for_it(
    asked: str | None, seconds: float, begins: list[tuple[str, int]]
) -> None:
    tasks = () if asked is None else (task("repair", bookie=asked),)
    assert started(marked(), jobs=(attempt(),), seconds=seconds, tasks=tasks) == begins


@pytest.mark.parametrize(("decided", "begins"), [(19, []), (20, []), (21, [(B0, 2)])])
def test_one_that_failed_is_tried_again_after_a_decision_of_since(
    decided: float, begins: list[tuple[str, int]]
) -> None:
    closed = Job(
        "demo-loss-x", JobKind.ACCEPT_LOSS, 1, False, at(5), ended_at=at(decided), exit_code=0,
        report=LossReport(ledger_id=7, last_entry_id=4, lost_from=5, recorded_on=(B0,)),
    )  # fmt: skip
    assert started(marked(), jobs=(attempt(), closed), seconds=25) == begins


def test_the_one_with_the_fewest_attempts_is_next_and_one_runs_at_a_time() -> None:
    both = (marked(), marked(name=B1))
    assert started(*both, jobs=(), seconds=25) == [(B0, 1)]
    assert started(*both, jobs=(attempt(),), seconds=99) == [(B1, 1)]
    assert started(*both, jobs=(attempt(running=True),), seconds=99) == []
    assert started(bookie(B0, epoch=2), jobs=(attempt(),), seconds=99) == [], "nothing is left"


UNDECIDED = UndecidedStatus(ledgers=1, through=4, first=(UndecidedLedger(ledger=4, entry=2),))


def test_what_the_last_attempt_could_not_decide_stays_while_the_next_one_runs() -> None:
    failed = replace(attempt(), report=RepairReport(undecided=UNDECIDED))
    ended = repairs(Pass.of(cluster(), observed(marked(), jobs=[failed], seconds=21), before()))
    known = before(**dict(ended.statuses[B0]))
    again = [failed, attempt(2, running=True)]
    now = repairs(Pass.of(cluster(), observed(marked(), jobs=again, seconds=40), known))
    assert ended.undecided == now.undecided == [UNDECIDED]


def test_an_attempt_that_ended_without_a_word_has_decided_nothing() -> None:
    known = before(state=RepairState.FAILED, attempt=1, undecided=UNDECIDED)
    for report in (None, RepairReport()):
        lost = [replace(attempt(2), report=report, exit_code=137)]
        made = repairs(Pass.of(cluster(), observed(marked(), jobs=lost, seconds=40), known))
        assert made.undecided == [UNDECIDED]


def test_an_attempt_that_found_nothing_undecided_ends_it() -> None:
    known = before(state=RepairState.FAILED, attempt=1, undecided=UNDECIDED)
    better = [replace(attempt(2), report=RepairReport(undecided=UndecidedStatus()))]
    made = repairs(Pass.of(cluster(), observed(marked(), jobs=better, seconds=40), known))
    assert made.undecided == []


def test_after_a_decision_nothing_is_called_undecided_before_the_next_attempt_has_looked() -> None:
    failed = replace(attempt(), report=RepairReport(undecided=UNDECIDED))
    closed = Job(
        "demo-loss-x", JobKind.ACCEPT_LOSS, 1, False, at(5), ended_at=at(21), exit_code=0,
        report=LossReport(ledger_id=7, last_entry_id=4, lost_from=5, recorded_on=(B0,)),
    )  # fmt: skip
    seen = observed(marked(), jobs=[failed, closed], seconds=25)
    assert repairs(Pass.of(cluster(), seen, before())).undecided == []


def test_of_a_bookie_that_is_away_nobody_is_asked_to_decide() -> None:
    known = before(state=RepairState.FAILED, attempt=1, undecided=UNDECIDED)
    down = observed(bookie(B0, phase=None, running=False), jobs=[], seconds=40)
    assert repairs(Pass.of(cluster(), down, known)).undecided == []


def test_nothing_is_undecided_once_the_bookie_has_no_mark() -> None:
    known = before(state=RepairState.FAILED, attempt=1, undecided=UNDECIDED)
    healed = observed(bookie(B0, epoch=2), jobs=[], seconds=40)
    assert repairs(Pass.of(cluster(), healed, known)).undecided == []


def status_of(
    one: Bookie, *jobs: Job, known: ClusterStatus | None = None, seconds: float = 15
) -> RepairStatus:
    pass_ = Pass.of(cluster(), observed(one, jobs=jobs, seconds=seconds), known or ClusterStatus())
    return repairs(pass_).statuses[B0]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"message": "no room"}, "no room"),
        ({"message": "no room", "progress": "half"}, "half"),
        ({"message": "no room", "progress": "half", "waiting": "NoImage: x"}, "NoImage: x"),
        ({"message": "x" * 3000}, "x" * 1024),
        ({}, ""),
    ],
)
def test_its_status_has_what_its_job_says(facts: dict[str, str], words: str) -> None:
    report = RepairReport(engine="e", engine_reason="why", spark_app_id="a-1", executors=2)
    one = status_of(marked(), replace(attempt(), report=report, **facts))
    assert (one.state, one.attempt, one.message) == (RepairState.FAILED, 1, words)
    assert (one.started_at, one.ended_at, one.next_attempt_at) == (at(10), at(20), at(30))
    assert (one.engine, one.engine_reason, one.spark_app_id) == ("e", "why", "a-1")
    assert one.executors == 2


def test_a_job_of_which_nothing_was_known_before_counts_nothing() -> None:
    assert status_of(bookie(B0, epoch=2), attempt(running=True)).progress == ""


@pytest.mark.parametrize(("number", "again"), [(0, 40), (1, 40), (2, 50), (3, 70)])
def test_one_whose_job_vanished_waits_as_after_a_failure(number: int, again: float) -> None:
    one = status_of(marked(), known=before(attempt=number, message="half"), seconds=30)
    assert (one.state, one.attempt) == (RepairState.FAILED, number)
    assert (one.ended_at, one.next_attempt_at) == (at(30), at(again))
    assert one.message == "half; the job is gone and left no result"
    silent = status_of(marked(), known=before(attempt=number))
    assert silent.message == "the job is gone and left no result"


@pytest.mark.parametrize(
    ("one", "over"),
    [
        (bookie(B0, epoch=3), RepairState.FINISHED),
        (bookie(B0, epoch=2, running=False), RepairState.FAILED),
        (bookie(B0, phase=Phase.BOOTING), RepairState.FAILED),
    ],
    ids=["a later boot without marks", "is down", "boots"],
)
def test_of_an_earlier_boot_it_is_known_how_its_job_ends(one: Bookie, over: RepairState) -> None:
    runs = status_of(one, attempt(running=True), known=before(attempt=1))
    assert (runs.episode, runs.state) == ("bookie-0-2", RepairState.RUNNING)
    for jobs, ended in (((attempt(),), at(20)), ((), at(15))):
        found = status_of(one, *jobs, known=before(attempt=1))
        assert (found.episode, found.state, found.ended_at) == ("bookie-0-2", over, ended)


def test_what_has_no_marks_left_is_finished() -> None:
    one = status_of(bookie(B0, epoch=2), attempt(), known=before(attempt=1))
    assert (one.state, one.next_attempt_at) == (RepairState.FINISHED, None)


@pytest.mark.parametrize(
    ("spec", "seen", "predicate"),
    [
        ({"paused": True}, {}, "Paused"),
        ({}, {"metadata": MetadataView(message="no route")}, "MetadataUnreachable"),
        ({}, {"special": bookie(B1, metadata_rolled_back="older")}, "MetadataRolledBack"),
        ({}, {"metadata": replace(HEALTHY, instance_id="of others")}, "LineageMismatch"),
        ({}, {"metadata": replace(HEALTHY, instance_id=None)}, "LineageMismatch"),
    ],
)
def test_one_that_is_due_and_must_wait_says_why_by_its_bookie(
    spec: dict[str, Any], seen: dict[str, Any], predicate: str
) -> None:
    others = [seen.pop("special")] if "special" in seen else []
    look = observed(marked(), *others, seconds=5, **seen)
    known = ClusterStatus(metadata=MetadataStatus(instance_id="instance-1"))
    made = repairs(Pass.of(cluster(**spec), look, known))
    assert [(one.action, one.predicate, one.bookie) for one in made.refusals] == [
        ("Repair", predicate, B0)
    ]
    assert all(isinstance(one, Refusal) and one.message for one in made.refusals)
    assert not made.actions


def test_an_audit_gives_its_place_to_a_repair() -> None:
    audit = Job("demo-audit-1", JobKind.AUDIT, 1, running=True, started_at=at(1))
    scrub = Job("demo-scrub-1", JobKind.SCRUB, 1, running=True, started_at=at(1))
    seen = observed(marked(), jobs=[audit, scrub], seconds=5)
    stop, start = repairs(Pass.of(cluster(), seen, ClusterStatus())).actions
    assert stop == StopJob("demo-audit-1", "RepairFirst") and isinstance(start, StartJob)


RUNNING = attempt(running=True)


@pytest.mark.parametrize(
    ("one", "job", "stops"),
    [
        (marked(), RUNNING, []),
        (bookie(B0, epoch=1), RUNNING, []),
        (bookie(B0, epoch=3), RUNNING, [StopJob(RUNNING.name, "BookieRestarted")]),
        (bookie(B0, epoch=3, running=False), RUNNING, []),
        (replace(bookie(B0), health=replace(marked().health, boot=None)), RUNNING, []),  # type: ignore[type-var]
        (bookie(B0, epoch=3), replace(RUNNING, bookie=None), []),
        (bookie(B0, epoch=3), replace(RUNNING, bookie=BookieId("bookie-99")), []),
        (marked(), replace(RUNNING, started_at=at(-9999)),
         [StopJob(RUNNING.name, "DeadlineExceeded")]),
    ],
)  # fmt: skip
def test_one_of_an_older_boot_or_that_hangs_is_stopped(
    one: Bookie, job: Job, stops: list[Action]
) -> None:
    seen = observed(one, jobs=[job], seconds=15)
    assert repairs(Pass.of(cluster(), seen, ClusterStatus())).actions == stops
