"""Fewer replicas: one bookie is emptied and goes, or the reason why not is told."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import BookieState, BookieStatus
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.drain_status import DrainPhase, DrainStatus
from bookie_operator.model.reports import DrainReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, Job, JobKind, MetadataView, Observed
from bookie_operator.plan.actions import (
    Destructive,
    DrainBookie,
    RemoveBookie,
    StartBookie,
    StartJob,
    StopJob,
)
from bookie_operator.plan.drains import drain_text, kept_up, leaving_next
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import at, audited, bookie, cluster, observed

FIVE, FOUR = cluster(replicas=5), cluster(replicas=4)
B4 = BookieId("bookie-4")


def drain_job(*, attempt: int = 1, running: bool = False, **more: object) -> Job:
    facts: dict[str, object] = {
        "name": f"demo-drain-bookie-4-{attempt}",
        "kind": JobKind.DRAIN,
        "attempt": attempt,
        "running": running,
        "started_at": at(10),
        "ended_at": None if running else at(20),
        "bookie": B4,
        "boot_epoch": 1,
    }
    return Job(**(facts | more))  # type: ignore[arg-type]


def draining(left: int | None = 7, **more: object) -> Bookie:
    return bookie(
        B4,
        phase=Phase.DRAINING,
        draining=True,
        ledgers_naming_it=left,
        **more,  # type: ignore[arg-type]
    )


def seen(*special: Bookie, jobs: tuple[Job, ...] = (), seconds: float = 5) -> Observed:
    fleet = {B4: bookie(B4)} | {one.id: one for one in special}
    return observed(*fleet.values(), of=FOUR, jobs=(audited(), *jobs), seconds=seconds)


SETTLED = plan(FIVE, observed(of=FIVE, jobs=[audited()], seconds=2), ClusterStatus()).status


def after(*looks: Observed) -> Plan:
    """The last pass over these looks, four replicas wanted of five."""
    status = SETTLED
    for look in looks:
        made = plan(FOUR, look, status)
        status = made.status
    return made


def moves(made: Plan) -> list[object]:
    """What a pass does about who leaves."""
    kinds = (DrainBookie, RemoveBookie, StartJob, StopJob)
    return [action for action in made.actions if isinstance(action, kinds)]


def why_not(made: Plan) -> str:
    blocked = made.status.condition(ConditionType.SCALE_DOWN_BLOCKED)
    assert blocked is not None
    return blocked.reason if blocked.status == "True" else ""


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "its ledgers are being counted"),
        ({"ledgers_left": 3, "message": "it waits"}, "3 ledgers name it; it waits"),
        ({"ledgers_left": 0, "racks": "one rack"}, "0 ledgers name it; one rack"),
        (
            {"ledgers_left": 3, "message": "it waits", "is_running": True, "attempt": 2},
            "3 ledgers name it; attempt 2 moves them",
        ),
        (
            {"is_running": True, "progress": "half", "phase": DrainPhase.EMPTIED},
            "no ledger names it",
        ),
    ],
)
def test_a_line_says_where_a_drain_stands(facts: dict[str, Any], words: str) -> None:
    drain = DrainStatus(
        **({"bookie": B4, "phase": DrainPhase.DRAINING, "started_at": at(1)} | facts)
    )
    assert drain_text(drain) == f"bookie-4: {words}"


class TestTheWayOut:
    def test_the_highest_number_is_told_to_take_no_entries(self) -> None:
        made = after(seen())
        assert moves(made) == [DrainBookie(B4)]
        assert made.status.drain is not None and made.status.drain.bookie == B4

    def test_ten_comes_after_nine(self) -> None:
        eleven = cluster(replicas=11)
        status = plan(eleven, observed(of=eleven), ClusterStatus()).status
        made = plan(cluster(replicas=9), observed(of=eleven), status)
        assert DrainBookie(BookieId("bookie-10")) in made.actions

    def test_a_job_moves_what_names_it(self) -> None:
        [job] = moves(after(seen(), seen(draining())))
        assert isinstance(job, StartJob)
        assert (job.name, job.kind) == ("demo-drain-bookie-4-1", JobKind.DRAIN)

    def test_nothing_is_done_before_it_has_counted(self) -> None:
        assert not moves(after(seen(), seen(draining(left=None))))

    def test_it_is_asked_twice_whether_it_is_empty(self) -> None:
        once = after(seen(), seen(draining(left=0)))
        assert not moves(once) and [event.reason for event in once.events] == ["BookieDrained"]
        twice = after(seen(), seen(draining(left=0)), seen(draining(left=0)))
        assert moves(twice) == [RemoveBookie(B4, "bookie-4-1", delete_volumes=False)]

    def test_how_far_its_job_is_shows_while_it_runs(self) -> None:
        at_work = drain_job(running=True, progress="7 ledgers looked at")
        made = after(seen(), seen(draining()), seen(draining(), jobs=(at_work,)))
        assert made.status.drain is not None and made.status.drain.progress == at_work.progress
        progressing = made.status.condition(ConditionType.PROGRESSING)
        assert progressing is not None and "moves them: 7 ledgers" in progressing.message
        ended = after(seen(), seen(draining()), seen(draining(), jobs=(drain_job(),)))
        assert ended.status.drain is not None and ended.status.drain.progress == ""

    def test_a_ledger_that_came_back_keeps_it(self) -> None:
        made = after(seen(), seen(draining(left=0)), seen(draining(left=1)))
        assert made.status.drain is not None
        assert made.status.drain.phase is DrainPhase.DRAINING

    def test_an_old_answer_removes_nothing(self) -> None:
        stale = draining(left=0)
        assert stale.health is not None
        stale = replace(stale, health=replace(stale.health, is_fresh=False))
        made = after(seen(), seen(draining(left=0)), seen(stale))
        assert not moves(made) and why_not(made) == "LossBudgetExceeded"

    def test_its_volumes_go_only_when_a_person_says_so(self) -> None:
        careless = cluster(replicas=4, retention={"whenScaled": "Delete"})
        status = after(seen(), seen(draining(left=0))).status
        made = plan(careless, seen(draining(left=0)), status)
        assert moves(made) == [RemoveBookie(B4, "bookie-4-1", delete_volumes=True)]

    def test_removing_goes_on_until_it_is_gone(self) -> None:
        stopped = bookie(B4, running=False)
        made = after(seen(), seen(draining(left=0)), seen(draining(left=0)), seen(stopped))
        assert moves(made) == [RemoveBookie(B4, "bookie-4-1", delete_volumes=False)]
        assert made.status.bookies[4].state is BookieState.LEAVING
        assert made.status.disruptions_allowed == 1, "nothing is on it"
        assert not made.status.is_true(ConditionType.DEGRADED)

    def test_one_that_says_nothing_while_it_stops_is_leaving(self) -> None:
        """Its last answer is remembered for a while: that is no new word of it."""
        looks = [seen(), seen(draining(left=0)), seen(draining(left=0))]
        made = after(*looks, seen(draining(left=0, is_fresh=False)))
        assert made.status.bookies[4].state is BookieState.LEAVING

    def test_one_that_still_answers_while_its_pod_ends_is_leaving(self) -> None:
        """A pod's hook flushes before the bookie is told to stop."""
        looks = [seen(), seen(draining(left=0)), seen(draining(left=0))]
        ending = {"is_ready": False}
        made = after(*looks, seen(draining(left=0, process_facts=ending)))
        assert made.status.bookies[4].state is BookieState.LEAVING
        made = after(*looks, seen(draining(left=1, process_facts=ending)))
        assert made.status.bookies[4].state is not BookieState.LEAVING, "it says it is needed"

    def test_one_whose_pod_is_gone_keeps_what_is_known_of_it(self) -> None:
        looks = [seen(), seen(draining(left=0)), seen(draining(left=0))]
        one = after(*looks, seen(replace(bookie(B4), process=None, health=None))).status.bookies[4]
        assert (one.state, one.tls, one.boot_epoch) == (BookieState.LEAVING, "Required", 1)

    def test_then_it_is_forgotten(self) -> None:
        looks = [seen(), seen(draining(left=0)), seen(draining(left=0))]
        made = after(*looks, observed(of=FOUR, jobs=[audited()], seconds=9))
        assert [one.id for one in made.status.bookies] == [f"bookie-{n}" for n in range(4)]
        assert made.status.drain is None and not made.actions
        assert [event.reason for event in made.events] == ["BookieRemoved"]

    def test_one_that_never_ran_just_goes(self) -> None:
        waiting = bookie(B4, running=False, has_cookie=False)
        others = tuple(one for one in SETTLED.bookies if one.id != B4)
        made = plan(FOUR, seen(waiting), SETTLED.model_copy(update={"bookies": others}))
        assert moves(made) == [RemoveBookie(B4, "bookie-4-1", delete_volumes=False)]

    @pytest.mark.parametrize("has_cookie", [True, False, None])
    @pytest.mark.parametrize("has_process", [True, False])
    def test_one_that_ran_does_not_just_go_though_its_cookie_is_gone(
        self, has_process: bool, has_cookie: bool | None
    ) -> None:
        away = bookie(B4, running=False, has_cookie=has_cookie)
        made = after(seen(away if has_process else replace(away, process=None)))
        assert not moves(made) and why_not(made)


class TestHolding:
    @pytest.mark.parametrize(
        ("special", "predicate"),
        [
            (bookie("bookie-0", epoch=2, reason="UncleanShutdown", limbo=2), "LimboPresent"),
            (bookie("bookie-0", running=False), "LossBudgetExceeded"),
            (bookie(B4, running=False), "LossBudgetExceeded"),
            (bookie("bookie-0", losses_recorded=1), "PossibleDataLoss"),
            (bookie("bookie-0", process_facts={"is_ready": False}), "LossBudgetExceeded"),
        ],
    )
    def test_nobody_leaves_while(self, special: Bookie, predicate: str) -> None:
        made = after(seen(special))
        assert why_not(made) == predicate
        assert not [a for a in moves(made) if isinstance(a, DrainBookie | RemoveBookie)]

    def test_nobody_leaves_while_paused(self) -> None:
        made = plan(cluster(replicas=4, paused=True), seen(), SETTLED)
        assert why_not(made) == "Paused" and not made.actions

    def test_nobody_leaves_without_metadata(self) -> None:
        made = plan(FOUR, replace(seen(), metadata=MetadataView(message="no route")), SETTLED)
        assert why_not(made) == "MetadataUnreachable" and not made.actions

    def test_an_ensemble_must_be_left(self) -> None:
        wide = {"ensemble": 4, "write": 3, "ack": 2}
        full = replace(bookie("bookie-0", phase=Phase.READ_ONLY), is_writable=False)
        made = plan(cluster(replicas=4, quorum=wide), seen(full), SETTLED)
        assert why_not(made) == "WouldBreakEnsemble"
        assert [one.name for one in moves(made) if isinstance(one, StartJob)] == ["demo-audit-2"]

    def test_one_that_others_need_for_writing_is_given_back(self) -> None:
        wide = cluster(replicas=4, quorum={"ensemble": 4, "write": 3, "ack": 2})
        full = replace(bookie("bookie-0", phase=Phase.READ_ONLY), is_writable=False)
        look = seen(full, draining(), jobs=(drain_job(running=True),))
        made = plan(wide, look, after(seen()).status)
        assert moves(made) == [
            StopJob("demo-drain-bookie-4-1", "WouldBreakEnsemble"),
            DrainBookie(B4, cancel=True),
        ]

    def test_limbo_ends_a_running_drain(self) -> None:
        unclean = bookie("bookie-0", epoch=2, reason="UncleanShutdown", limbo=2)
        look = seen(unclean, draining(), jobs=(drain_job(running=True),), seconds=11)
        made = after(seen(), look)
        assert StopJob("demo-drain-bookie-4-1", "LimboPresent") in made.actions

    def test_a_job_that_was_stopped_for_others_is_no_failure(self) -> None:
        unclean = bookie("bookie-0", epoch=2, reason="UncleanShutdown", limbo=2)
        runs = (drain_job(running=True),)
        looks = [seen(), seen(draining()), seen(draining(), jobs=runs)]
        looks += [seen(draining(), unclean, jobs=runs), seen(draining(), unclean)]
        drain = after(*looks).status.drain
        assert drain is not None and (drain.failures, drain.is_running) == (0, False)
        assert "left no result" not in drain.message and drain.attempt == 1
        [again] = moves(after(*looks, seen(draining(), seconds=60)))
        assert isinstance(again, StartJob) and again.attempt == 2

    def test_a_possible_loss_ends_a_running_drain(self) -> None:
        lost = bookie("bookie-0", losses_recorded=1)
        look = seen(lost, draining(), jobs=(drain_job(running=True),), seconds=11)
        made = after(seen(), look)
        assert moves(made) == [StopJob("demo-drain-bookie-4-1", "PossibleDataLoss")]

    def test_a_job_that_runs_goes_on_to_its_end_while_paused(self) -> None:
        look = seen(draining(), jobs=(drain_job(running=True),))
        made = plan(cluster(replicas=4, paused=True), look, after(seen()).status)
        assert moves(made) == [] and why_not(made) == "Paused"

    def test_a_possible_loss_ends_a_running_drain_while_paused_too(self) -> None:
        lost = bookie("bookie-0", losses_recorded=1)
        look = seen(lost, draining(), jobs=(drain_job(running=True),), seconds=11)
        made = plan(cluster(replicas=4, paused=True), look, after(seen()).status)
        assert moves(made) == [StopJob("demo-drain-bookie-4-1", "PossibleDataLoss")]
        assert why_not(made) == "Paused"

    def test_a_restart_that_is_due_comes_first(self) -> None:
        made = plan(cluster(replicas=4, journalWriteData=True), seen(), SETTLED)
        assert why_not(made) == "OneActionAtATime"
        assert len([action for action in made.actions if isinstance(action, Destructive)]) == 1

    @pytest.mark.parametrize("phase", DrainPhase)
    def test_one_that_waits_for_a_restart_stays_where_it_is(self, phase: DrainPhase) -> None:
        begun = DrainStatus(bookie=B4, phase=phase, started_at=at(1), ledgers_left=0)
        before = SETTLED.model_copy(update={"drain": begun})
        made = plan(cluster(replicas=4, journalWriteData=True), seen(draining(0)), before)
        assert why_not(made) == "OneActionAtATime"
        assert made.status.drain is not None and made.status.drain.phase is phase


class TestJobs:
    def test_a_job_that_left_some_is_followed_by_another(self) -> None:
        failed = drain_job(exit_code=1, message="ledger 7 is open")
        soon = after(seen(), seen(draining(), jobs=(failed,), seconds=21))
        assert not moves(soon) and why_not(soon) == "LedgersRemain"
        late = after(seen(), seen(draining(), jobs=(failed,), seconds=31))
        assert [a.name for a in moves(late) if isinstance(a, StartJob)] == ["demo-drain-bookie-4-2"]

    @pytest.mark.parametrize("running", [True, False])
    def test_none_begins_while_an_audit_looks_at_what_it_would_move(self, running: bool) -> None:
        ended_at = None if running else at(9)
        other = replace(audited(attempt=2, began=8), running=running, ended_at=ended_at)
        made = after(seen(), seen(draining(), jobs=(other,), seconds=10))
        begun = [one.kind for one in made.actions if isinstance(one, StartJob)]
        assert begun == ([] if running else [JobKind.DRAIN])

    @pytest.mark.parametrize(("generation", "begins"), [(0, False), (1, False), (7, True)])
    def test_with_another_spec_the_next_one_waits_no_longer(
        self, generation: int, begins: bool
    ) -> None:
        failed = drain_job(exit_code=1, message="no such image")
        before = after(seen(), seen(draining(), jobs=(failed,), seconds=21)).status
        before = before.model_copy(update={"observed_generation": generation})
        made = plan(FOUR, seen(draining(), jobs=(failed,), seconds=22), before)
        assert bool(moves(made)) is begins

    def test_jobs_that_move_nothing_are_told(self) -> None:
        jobs: tuple[Job, ...] = ()
        looks = [seen()]
        for attempt in range(1, 6):
            jobs = (*jobs, drain_job(attempt=attempt, exit_code=1, message="no room"))
            looks.append(seen(draining(), jobs=jobs, seconds=20 + attempt))
        made = after(*looks)
        assert why_not(made) == "DrainFailing"
        assert "no room" in made.status.blocked[-1].message

    def test_a_job_that_got_on_is_no_failure(self) -> None:
        some = drain_job(exit_code=1, report=DrainReport(ledgers_moved=3, engine="inline"))
        made = after(seen(), seen(draining(left=2), jobs=(some,), seconds=21))
        assert why_not(made) == ""
        assert made.status.drain is not None and made.status.drain.ledgers_moved == 3

    @pytest.mark.parametrize("moved", [None, 0, 3])
    @pytest.mark.parametrize("code", [None, 0, 1])
    def test_a_job_has_failed_unless_it_moved_some_or_ended_well(
        self, moved: int | None, code: int | None
    ) -> None:
        """`moved`: None = it left no result."""
        report = DrainReport(ledgers_moved=moved) if moved is not None else None
        ended = drain_job(exit_code=code, report=report)
        drain = after(seen(), seen(draining(), jobs=(ended,), seconds=21)).status.drain
        assert drain is not None and drain.failures == (0 if moved or code == 0 else 1)
        assert drain.next_attempt_at == at(30)

    @pytest.mark.parametrize(("failures", "wait"), [(0, 10), (1, 20), (3, 80)])
    def test_a_job_that_vanished_has_failed_like_any_other(self, failures: int, wait: int) -> None:
        known = DrainStatus(
            bookie=B4, phase=DrainPhase.DRAINING, started_at=at(1), attempt=7,
            is_running=True, failures=failures, progress="half",
        )  # fmt: skip
        before = SETTLED.model_copy(update={"drain": known})
        drain = plan(FOUR, seen(draining(), seconds=30), before).status.drain
        assert drain is not None and (drain.is_running, drain.progress) == (False, "")
        assert (drain.attempt, drain.failures) == (7, failures + 1)
        assert drain.next_attempt_at == at(30 + wait) and "left no result" in drain.message

    def test_names_of_an_earlier_drain_are_not_used_again(self) -> None:
        old = drain_job(attempt=3, exit_code=1)
        made = after(seen(jobs=(old,), seconds=22), seen(draining(), jobs=(old,), seconds=23))
        [job] = moves(made)
        assert isinstance(job, StartJob) and job.attempt == 4
        assert why_not(made) == "", "its failures are not this one's"

    def test_a_job_whose_image_cannot_be_had_is_stopped(self) -> None:
        stuck = drain_job(running=True, waiting="ImagePullBackOff: no such image")
        made = after(seen(), seen(draining(), jobs=(stuck,), seconds=200))
        [stop] = moves(made)
        assert isinstance(stop, StopJob) and "ImagePullBackOff" in stop.reason


class TestTurningBack:
    def test_a_paused_cluster_takes_nothing_back(self) -> None:
        look = seen(draining(), jobs=(drain_job(running=True),), seconds=11)
        assert moves(plan(cluster(replicas=5, paused=True), look, after(seen()).status)) == []

    def test_raised_again_it_takes_entries_again(self) -> None:
        look = seen(draining(), jobs=(drain_job(running=True),), seconds=11)
        made = plan(FIVE, look, after(seen()).status)
        assert moves(made) == [
            StopJob("demo-drain-bookie-4-1", "NotLeaving"),
            DrainBookie(B4, cancel=True),
        ]
        assert made.status.drain is None

    def test_raised_again_one_that_was_stopped_is_started(self) -> None:
        empty = after(seen(), seen(draining(left=0)), seen(draining(left=0)))
        look = seen(replace(bookie(B4), process=None, health=None), seconds=9)
        made = plan(FIVE, look, empty.status)
        assert [a.template.bookie_id for a in made.actions if isinstance(a, StartBookie)] == [B4]

    def test_another_process_than_the_emptied_one_is_asked_anew(self) -> None:
        looks = [seen(), seen(draining(left=0)), seen(draining(left=0))]
        made = after(*looks, seen(draining(left=None, epoch=2)))
        assert not moves(made)
        assert made.status.drain is not None and not made.status.drain.is_removing

    def test_another_process_is_asked_anew_even_while_it_says_nothing(self) -> None:
        looks = [seen(), seen(draining(left=0)), seen(draining(left=0))]
        made = after(*looks, seen(bookie(B4, phase=None, epoch=2)))
        assert made.status.bookies[4].state is BookieState.STARTING and not moves(made)

    def test_one_that_must_still_be_asked_is_kept_up(self) -> None:
        made = after(seen(), seen(replace(bookie(B4), process=None, health=None)))
        assert [a.template.bookie_id for a in made.actions if isinstance(a, StartBookie)] == [B4]

    def test_the_last_to_come_is_the_first_to_go(self) -> None:
        made = plan(cluster(replicas=3), seen(), SETTLED)
        assert made.status.drain is not None and made.status.drain.bookie == B4


def test_an_incident_of_one_that_left_is_closed() -> None:
    open_still = plan(
        FIVE, observed(bookie(B4, epoch=2, reason="UncleanShutdown", limbo=1), of=FIVE), SETTLED
    ).status
    looks = [seen(draining(left=0, epoch=2)), seen(draining(left=0, epoch=2))]
    status = open_still
    for look in (*looks, seen(draining(left=0, epoch=2)), observed(of=FOUR, seconds=9)):
        status = plan(FOUR, look, status).status
    assert [incident.outcome.value for incident in status.incidents] == ["Cleared"]
    assert len(status.bookies) == 4


def told(*looks: Observed) -> list[tuple[str, str, str]]:
    """Reason, bookie and type of every event of a drain over these looks."""
    status, events = SETTLED, []
    for look in looks:
        made = plan(FOUR, look, status)
        status, events = made.status, [*events, *made.events]
    mine = ("RacksLost", "BookieDrained", "BookieRemoved")
    return [(one.reason, one.bookie, one.type) for one in events if one.reason in mine]


def test_every_event_of_a_drain_names_who_leaves_and_comes_once() -> None:
    here, there = {"process_facts": {"rack": "/a"}}, {"process_facts": {"rack": "/b"}}
    stay = [bookie(name, **here) for name in FOUR.spec.bookie_ids]  # type: ignore[arg-type]
    last = [draining(left, **there) for left in (3, 3, 0, 0)]
    looks = [seen(*stay, one, seconds=5 + n) for n, one in enumerate(last)]
    gone = observed(*stay, of=FOUR, jobs=[audited()], seconds=12)
    assert told(*looks, gone, gone) == [
        ("RacksLost", B4, "Warning"),
        ("BookieDrained", B4, "Normal"),
        ("BookieRemoved", B4, "Normal"),
    ]


# Who

B5 = BookieId("bookie-5")
NEW = bookie(B4, running=False, has_cookie=False)
"""Nobody ever saw it boot."""
AWAY = bookie(B4, running=False)
STOPPING = DrainStatus(
    bookie=B4, phase=DrainPhase.REMOVING, started_at=at(1), instance="bookie-4-1"
)


def pass_over(*special: Bookie, **before: Any) -> Pass:
    return Pass.of(FOUR, observed(*special, of=FOUR, seconds=9), ClusterStatus(**before))


def made_good(rereplicated: float | None = 5) -> tuple[BookieStatus, ...]:
    """bookie-4 is away, and others have made its copies."""
    made_at = None if rereplicated is None else at(rereplicated)
    facts: dict[str, Any] = {"boot_epoch": 1, "gone_since": at(1), "rereplicated_at": made_at}
    return (BookieStatus(id=B4, state=BookieState.DOWN, **facts),)


@pytest.mark.parametrize(
    ("one", "before", "leaves"),
    [
        (bookie(B4), {}, B5),
        (NEW, {}, B4),
        (AWAY, {"bookies": made_good()}, B4),
        (AWAY, {"bookies": made_good(None)}, B5),
        (bookie(B4, phase=Phase.STOPPING), {"drain": STOPPING}, B4),
        (bookie(B4), {"drain": STOPPING.model_copy(update={"phase": DrainPhase.DRAINING})}, B4),
    ],
    ids=["both serve", "never ran", "made good", "not made good", "stops", "begun with"],
)
def test_the_highest_number_leaves_first_but_for_whoever_keeps_others_waiting(
    one: Bookie, before: dict[str, Any], leaves: BookieId
) -> None:
    assert leaving_next(pass_over(one, bookie(B5), **before)) == leaves
    assert leaving_next(pass_over()) is None


@pytest.mark.parametrize(
    ("one", "before", "is_kept"),
    [
        (bookie(B4), {}, True),
        (AWAY, {}, True),
        (NEW, {}, False),
        (bookie(B4, phase=Phase.STOPPING), {"drain": STOPPING}, False),
        (AWAY, {"drain": STOPPING}, False),
    ],
    ids=["serves", "is down", "never ran", "stops", "has stopped"],
)
def test_who_is_to_leave_is_kept_up_until_it_has_said_that_it_is_empty(
    one: Bookie, before: dict[str, Any], is_kept: bool
) -> None:
    assert kept_up(pass_over(one, **before)) == ([B4] if is_kept else [])
