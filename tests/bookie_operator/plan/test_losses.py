"""A person's decision to accept a loss: never gated by the budget, run once, followed, kept."""

from dataclasses import replace

import pytest
from bookie.ids import BookieId
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import Condition, ConditionType
from bookie_operator.model.reports import ClosedLedger, LossesReport, LossReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask
from bookie_operator.observed import Bookie, Job, JobKind, MetadataView
from bookie_operator.plan.actions import LossDecision, ReplaceVolume, StartJob, StopJob
from bookie_operator.plan.decisions import decision_job
from bookie_operator.plan.losses import last_decision, outcome
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import at, audited, bookie, cluster, observed, task

B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")
WISH = task("accept-loss", ledger=7, entry=5, reason="power cut", approvedBy="ann")
PLAIN = cluster(tls={"mode": "Off"})
"""Where no job needs a certificate first: `test_decision_certificates` has the others."""
GIVEN_UP = LossReport(
    ledger_id=7, last_entry_id=4, lost_from=5, recorded_on=("bookie-0", "bookie-1")
)


def crashed(of: BookieCluster | None = None) -> tuple[Bookie, Bookie]:
    """Two of three forgot: beyond the loss budget."""
    return (
        bookie(B0, of=of, epoch=2, reason="UncleanShutdown", limbo=1),
        bookie(B1, of=of, epoch=2, reason="UncleanShutdown", limbo=1),
    )


def job(*, running: bool = False, **more: object) -> Job:
    facts: dict[str, object] = {
        "name": decision_job(WISH),
        "kind": JobKind.ACCEPT_LOSS,
        "attempt": 1,
        "running": running,
        "started_at": at(10),
        "ended_at": None if running else at(20),
        "exit_code": None if running else 0,
    }
    return Job(**(facts | more))  # type: ignore[arg-type]


def started(made: Plan) -> list[StartJob]:
    jobs = [action for action in made.actions if isinstance(action, StartJob)]
    return [one for one in jobs if one.kind is JobKind.ACCEPT_LOSS]


def bound(made: Plan) -> BookieTask:
    """The task as it stands after this pass."""
    return WISH.model_copy(update={"status": made.tasks["task-1"]})


def look(*jobs: Job, seconds: float = 30, of: BookieTask = WISH) -> Plan:
    return plan(cluster(), observed(jobs=jobs, tasks=[of], seconds=seconds), ClusterStatus())


def loss(made: Plan) -> Condition:
    found = made.status.condition(ConditionType.POSSIBLE_DATA_LOSS)
    assert found is not None
    return found


def test_a_decision_is_carried_out_beyond_the_loss_budget() -> None:
    made = plan(PLAIN, observed(*crashed(PLAIN), of=PLAIN, tasks=[WISH]), ClusterStatus())
    [one] = started(made)
    assert one.name == decision_job(WISH)
    assert one.decision == LossDecision("7", 5, "power cut", "ann")


@pytest.mark.parametrize(
    ("spec", "metadata", "predicate"),
    [
        ({"paused": True}, MetadataView("zk://x/l", reachable=True), "Paused"),
        ({}, MetadataView("zk://x/l", message="refused"), "MetadataUnreachable"),
    ],
)
def test_it_waits(spec: dict[str, bool], metadata: MetadataView, predicate: str) -> None:
    made = plan(cluster(**spec), observed(tasks=[WISH], metadata=metadata), ClusterStatus())
    assert not started(made) and "task-1" not in made.tasks
    [mine] = [blocked for blocked in made.status.blocked if blocked.action == "AcceptLoss"]
    assert mine.predicate == predicate and "ledger 7" in mine.message


def test_decisions_are_carried_out_one_by_one() -> None:
    other = task("accept-loss", "task-2", ledger=8, reason="same", approvedBy="ann")
    made = plan(PLAIN, observed(of=PLAIN, tasks=[WISH, other]), ClusterStatus())
    assert [one.name for one in started(made)] == [decision_job(WISH)]
    assert "OneActionAtATime" in {refusal.predicate for refusal in made.refusals}


def test_a_task_is_bound_to_its_job_once_that_is_seen() -> None:
    assert "task-1" not in look().tasks
    made = look(job(running=True))
    assert not started(made)
    task = made.tasks["task-1"]
    assert (task.phase, task.target) == ("Running", decision_job(WISH))
    assert "task-1" not in look(job(running=True), of=bound(made)).tasks


def test_an_ended_task_is_never_run_again() -> None:
    over = bound(look(job(report=GIVEN_UP)))
    assert over.status.phase == "Succeeded"
    assert not started(look(of=over)) and "task-1" not in look(of=over).tasks


def test_a_running_task_whose_job_vanished_is_not_run_again() -> None:
    made = look(of=bound(look(job(running=True))))
    assert not started(made)
    assert made.tasks["task-1"].phase == "Failed" and "is gone" in made.tasks["task-1"].message


def test_the_outcome_is_the_jobs() -> None:
    status = look(job(report=GIVEN_UP)).tasks["task-1"]
    assert status.phase == "Succeeded" and status.finished_at == at(30)
    assert status.message == (
        "ledger 7 closed at entry 4; entries from 5 on are given up, recorded on bookie-0, bookie-1"
    )


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (
            LossReport(ledger_id=7, last_entry_id=9),
            "ledger 7 closed at entry 9; nothing had to be given up",
        ),
        (
            LossReport(ledger_id=7, last_entry_id=-1, lost_from=0),
            "closed empty; entries from 0 on are given up",
        ),
    ],
)
def test_outcomes_in_words(report: LossReport, words: str) -> None:
    assert words in outcome(report)


ROWS = (ClosedLedger(ledger_id=7, last_entry_id=4, lost_from=5),
        ClosedLedger(ledger_id=9, last_entry_id=-1))  # fmt: skip


@pytest.mark.parametrize(
    ("report", "phase", "words"),
    [
        (
            LossesReport(closed=2, given_up=1, decisions=ROWS),
            "Succeeded",
            "2 of 2 ledgers closed, 1 with entries given up: 7 at 4, 9 empty",
        ),
        (
            LossesReport(closed=1, given_up=1, refused=2, decisions=ROWS[:1], first_refusal="away"),
            "Failed",
            "1 of 3 ledgers closed, 1 with entries given up: 7 at 4; refused: away",
        ),
        (
            LossesReport(dry_run=True, closed=1, refused=1, decisions=(
                *ROWS[:1], ROWS[1].model_copy(update={"away": ("bookie-2",)}))),
            "Succeeded",
            "1 of 2 ledgers would be closed, 0 with entries given up: 7 at 4, "
            "9 waits for bookie-2",
        ),
    ],
)  # fmt: skip
def test_a_decision_about_many_ends_with_all_of_them(
    report: LossesReport, phase: str, words: str
) -> None:
    status = look(job(report=report)).tasks["task-1"]
    assert (status.phase, status.message) == (phase, words)


def test_a_range_without_a_ledger_to_decide_about_says_so() -> None:
    assert look(job(report=LossesReport())).tasks["task-1"].message.startswith("no ledger of these")


def test_a_jobs_name_is_that_of_release_0_1_0_and_another_one_for_each_wish() -> None:
    assert decision_job(WISH) == "demo-loss-0b014eed51e9"
    wish = {"reason": "power cut", "approvedBy": "ann"}
    made = [task("accept-loss", ledgers="7@5", **wish, dryRun=dry) for dry in (False, True)]
    assert len({decision_job(one) for one in (WISH, *made)}) == 3


@pytest.mark.parametrize(
    ("ledgers", "words"),
    [("7", "ledger 7"), ("7@5,9", "ledgers 7@5,9"), ("1," * 60, f"ledgers {'1,' * 50}...")],
)
def test_a_sentence_has_room_for_so_much_of_a_selector(ledgers: str, words: str) -> None:
    assert LossDecision(ledgers, None, "power cut", "ann").named == words


def test_what_was_given_up_of_many_is_on_record_with_them() -> None:
    made = look(job(report=LossesReport(closed=2, given_up=1, decisions=ROWS)))
    assert "1 ledger was closed by a person who accepted a possible loss (7)" in loss(made).message


def test_a_dry_run_gave_nothing_up_and_calls_for_no_audit() -> None:
    report = LossesReport(dry_run=True, closed=2, given_up=1, decisions=ROWS)
    assert loss(look(job(report=report))).status == "False"
    assert last_decision([job(report=report)]) is None
    assert last_decision([job(report=replaced(report))]) == at(20)


def replaced(report: LossesReport) -> LossesReport:
    return report.model_copy(update={"dry_run": False})


def test_one_job_is_about_all_that_a_task_names() -> None:
    many = task(
        "accept-loss", ledgers="7@5,9-12", reason="power cut", approvedBy="ann", dryRun=True
    )
    made = plan(PLAIN, observed(of=PLAIN, tasks=[many]), ClusterStatus())
    [one] = started(made)
    assert one.decision == LossDecision("7@5,9-12", None, "power cut", "ann", is_dry_run=True)


def test_a_refused_decision_fails_with_the_jobs_words() -> None:
    status = look(job(exit_code=5, message="exit code 5: members are away")).tasks["task-1"]
    assert (status.phase, status.message) == ("Failed", "exit code 5: members are away")


def test_a_hung_job_is_stopped() -> None:
    made = look(job(running=True), seconds=10 + cluster().spec.repair.deadline_seconds + 1)
    assert StopJob(decision_job(WISH), "DeadlineExceeded") in made.actions


def test_each_task_has_a_job_of_its_own() -> None:
    other = task("accept-loss", ledger=8, reason="power cut", approvedBy="ann")
    again = task("accept-loss", "task-2", ledger=7, entry=5, reason="power cut", approvedBy="ann")
    assert len({decision_job(WISH), decision_job(other), decision_job(again)}) == 3
    assert all(len(decision_job(one)) <= 63 for one in (WISH, other, again))


class TestPossibleDataLoss:
    """It stays True, and says whose word it was."""

    def test_an_accepted_loss_is_named_by_its_ledger(self) -> None:
        fleet = [bookie(name, losses_recorded=1) for name in (B0, B1)]
        made = plan(cluster(), observed(*fleet, jobs=[job(report=GIVEN_UP)]), ClusterStatus())
        assert (loss(made).status, loss(made).reason) == ("True", "LossAccepted")
        assert (
            "1 ledger was closed by a person who accepted a possible loss (7)" in loss(made).message
        )
        assert "bookie-0, bookie-1 hold records" in loss(made).message

    def test_it_outlives_job_and_task(self) -> None:
        counted = ClusterStatus.model_validate({"audit": {"acceptedLosses": 1, "clean": True}})
        made = plan(cluster(), observed(), counted)
        assert (loss(made).status, loss(made).reason) == ("True", "LossAccepted")
        made = plan(cluster(), observed(bookie(B0, losses_recorded=1)), ClusterStatus())
        assert (loss(made).status, loss(made).reason) == ("True", "LossRecorded")

    def test_it_hides_no_other_loss(self) -> None:
        counted = ClusterStatus.model_validate({"audit": {"acceptedLosses": 1, "lost": 2}})
        assert loss(plan(cluster(), observed(), counted)).reason == "AuditMissing"

    def test_it_hides_no_forgetting_that_nobody_has_looked_at(self) -> None:
        counted = ClusterStatus.model_validate({"audit": {"acceptedLosses": 1, "clean": True}})
        made = plan(cluster(), observed(*crashed()), counted)
        assert loss(made).reason == "OverlappingUnclean"

    def test_what_a_person_accepted_blocks_no_later_work(self) -> None:
        wish = task("replace-disk", bookie=B0, disk="ledger-0")
        seen = observed(bookie(B1, losses_recorded=1), tasks=[wish])
        undecided = plan(cluster(), seen, ClusterStatus())
        assert not any(isinstance(one, ReplaceVolume) for one in undecided.actions)
        accepted = plan(cluster(), replace(seen, jobs=(job(report=GIVEN_UP),)), ClusterStatus())
        assert any(isinstance(one, ReplaceVolume) for one in accepted.actions)

    def test_a_ledger_closed_without_a_loss_is_none(self) -> None:
        made = look(job(report=LossReport(ledger_id=7, last_entry_id=9)))
        assert loss(made).status == "False"


def test_an_audit_follows_a_decision() -> None:
    audit = audited()
    calm = plan(cluster(), observed(seconds=2, jobs=[audit]), ClusterStatus())
    assert not [one for one in calm.actions if isinstance(one, StartJob)]
    made = plan(cluster(), observed(seconds=30, jobs=[audit, job(report=GIVEN_UP)]), calm.status)
    [one] = [one for one in made.actions if isinstance(one, StartJob)]
    assert one.kind is JobKind.AUDIT


def test_a_repair_that_was_blocked_tries_again_at_once() -> None:
    stuck = Job(
        name="demo-bookie-0-2-1",
        kind=JobKind.REPAIR,
        attempt=1,
        running=False,
        started_at=at(10),
        ended_at=at(19),
        bookie=B0,
        boot_epoch=2,
    )
    seen = observed(crashed()[0], seconds=21, jobs=[stuck])
    waiting = plan(cluster(), seen, ClusterStatus())
    assert not [one for one in waiting.actions if isinstance(one, StartJob) and one.bookie_id]
    freed = replace(seen, jobs=(stuck, job(report=GIVEN_UP)))
    made = plan(cluster(), freed, waiting.status)
    assert [o.bookie_id for o in made.actions if isinstance(o, StartJob) and o.bookie_id] == [B0]
