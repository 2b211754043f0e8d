"""One pass of the planner, row by row: what it sees and what it then wants."""

from dataclasses import replace

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.reports import AuditReport, RepairReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import TASK_TTL_SECONDS, BookieTask, TaskPhase, TaskStatus
from bookie_operator.observed import Bookie, Job, JobKind, MetadataView
from bookie_operator.plan.actions import (
    ApproveCookieFix,
    CreateVolume,
    DeleteTask,
    InitialiseMetadata,
    ReplaceVolume,
    RestartBookie,
    StartBookie,
    StartJob,
    StopJob,
)
from bookie_operator.plan.decisions import decision_job
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import HEALTHY, at, audited, bookie, cluster, fix_request, observed, task

NOTHING = ClusterStatus()
B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")


def of_type(made: Plan, kind: type) -> list[object]:
    return [action for action in made.actions if isinstance(action, kind)]


def predicates(made: Plan) -> set[str]:
    return {refusal.predicate for refusal in made.refusals}


def status_of(made: Plan, kind: ConditionType) -> str:
    condition = made.status.condition(kind)
    assert condition is not None
    return condition.status


def unclean(name: str = B0, *, limbo: int = 3, epoch: int = 2, **more: object) -> Bookie:
    return bookie(name, epoch=epoch, reason="UncleanShutdown", limbo=limbo, **more)  # type: ignore[arg-type]


def repair_job(
    *, attempt: int = 1, running: bool = False, ended: float = 20, **more: object
) -> Job:
    facts: dict[str, object] = {
        "name": f"demo-bookie-0-2-{attempt}",
        "kind": JobKind.REPAIR,
        "attempt": attempt,
        "running": running,
        "started_at": at(10),
        "ended_at": None if running else at(ended),
        "bookie": B0,
        "boot_epoch": 2,
    }
    return Job(**(facts | more))  # type: ignore[arg-type]


def settled() -> ClusterStatus:
    """The status of a healthy cluster with a clean audit behind it."""
    first = plan(cluster(), observed(), NOTHING)
    [start] = of_type(first, StartJob)
    assert isinstance(start, StartJob)
    audit = Job(
        name=start.name,
        kind=JobKind.AUDIT,
        attempt=1,
        running=False,
        started_at=at(0),
        ended_at=at(1),
        report=AuditReport(ledgers=1, entries=1, ok=1),
    )
    return plan(cluster(), observed(seconds=2, jobs=[audit]), first.status).status


class TestBringUp:
    def test_volumes_come_first(self) -> None:
        empty = replace(observed(), bookies={})
        made = plan(cluster(), empty, NOTHING)
        assert len(of_type(made, CreateVolume)) == 12
        assert not of_type(made, StartBookie)

    def test_an_empty_store_is_initialised_before_any_bookie_starts(self) -> None:
        fleet = {
            name: replace(one, process=None, health=None)
            for name, one in observed().bookies.items()
        }
        seen = replace(
            observed(), bookies=fleet, metadata=MetadataView("zk://x/ledgers", reachable=True)
        )
        made = plan(cluster(), seen, NOTHING)
        assert made.actions == (InitialiseMetadata(),)

    def test_bookies_start_once_the_store_is_there(self) -> None:
        fleet = {
            name: replace(one, process=None, health=None)
            for name, one in observed().bookies.items()
        }
        made = plan(cluster(), replace(observed(), bookies=fleet), NOTHING)
        assert len(of_type(made, StartBookie)) == 4
        assert status_of(made, ConditionType.AVAILABLE) == "False"

    def test_another_instance_id_starts_nothing(self) -> None:
        other = replace(HEALTHY, instance_id="instance-2")
        seen = replace(observed(metadata=other), bookies={})
        made = plan(cluster(), seen, settled())
        assert not of_type(made, StartBookie)
        assert "LineageMismatch" in predicates(made)
        assert status_of(made, ConditionType.DEGRADED) == "True"

    def test_an_emptied_store_is_not_initialised_again(self) -> None:
        lost = replace(HEALTHY, instance_id=None)
        made = plan(cluster(), observed(metadata=lost), settled())
        assert not of_type(made, InitialiseMetadata)
        assert "LineageMismatch" in predicates(made)

    def test_all_serving_is_available_and_audited(self) -> None:
        made = plan(cluster(), observed(), NOTHING)
        assert status_of(made, ConditionType.AVAILABLE) == "True"
        assert status_of(made, ConditionType.LIMBO_PRESENT) == "False"
        [audit] = of_type(made, StartJob)
        assert isinstance(audit, StartJob) and audit.kind is JobKind.AUDIT

    def test_nothing_is_wanted_when_all_is_well(self) -> None:
        before = settled()
        made = plan(cluster(), observed(seconds=3), before)
        assert not made.actions and not made.refusals and not made.events
        assert made.status == before
        assert status_of(made, ConditionType.DURABILITY_VERIFIED) == "True"


class TestUncleanStop:
    def test_it_opens_one_incident_and_one_repair(self) -> None:
        made = plan(cluster(), observed(unclean(exit_at=-3), seconds=5), settled())
        [incident] = made.status.incidents
        assert (incident.kind, incident.bookie) == ("UncleanShutdown", B0)
        assert (incident.boot_epoch_before, incident.boot_epoch_after) == (1, 2)
        assert incident.seconds_to_detect == 8
        [job] = of_type(made, StartJob)
        assert isinstance(job, StartJob) and job.name == "demo-bookie-0-2-1"

    def test_seeing_it_again_opens_no_other_incident(self) -> None:
        first = plan(cluster(), observed(unclean()), settled())
        again = plan(cluster(), observed(unclean(), jobs=[repair_job(running=True)]), first.status)
        assert len(again.status.incidents) == 1
        assert not again.events and not of_type(again, StartJob)
        assert status_of(again, ConditionType.REPAIR_RUNNING) == "True"

    def test_limbo_is_not_forgotten_while_the_bookie_is_down(self) -> None:
        first = plan(cluster(), observed(unclean()), settled())
        down = bookie(B0, running=False, epoch=2)
        made = plan(cluster(), observed(down), first.status)
        assert status_of(made, ConditionType.LIMBO_PRESENT) == "True"
        assert made.status.limbo.ledgers == 3

    def test_a_silent_bookie_makes_limbo_unknown(self) -> None:
        made = plan(cluster(), observed(bookie(B0, running=False, exit_at=0)), settled())
        assert status_of(made, ConditionType.LIMBO_PRESENT) == "Unknown"
        assert status_of(made, ConditionType.DURABILITY_VERIFIED) == "Unknown"
        assert made.status.bookies[0].state is BookieState.DOWN

    def test_only_the_bookies_own_count_clears(self) -> None:
        first = plan(cluster(), observed(unclean()), settled())
        done = repair_job(exit_code=0, report=RepairReport(entries_copied=7))
        made = plan(cluster(), observed(unclean(), jobs=[done], seconds=21), first.status)
        assert made.status.incidents[0].cleared_at is None
        assert status_of(made, ConditionType.LIMBO_PRESENT) == "True"

    def test_cleared_incident_counts_what_the_repair_reported(self) -> None:
        first = plan(cluster(), observed(unclean()), settled())
        report = RepairReport(entries_copied=7, entries_copied_closed=2, engine="inline")
        done = repair_job(exit_code=0, report=report)
        seen = observed(unclean(limbo=0), jobs=[done], seconds=21)
        made = plan(cluster(), seen, first.status)
        [incident] = made.status.incidents
        assert incident.outcome == "Cleared" and incident.seconds_to_clear == 21
        assert (incident.entries_copied, incident.entries_copied_closed) == (7, 2)
        again = plan(cluster(), seen, made.status)
        assert again.status.incidents == made.status.incidents

    def test_incident_waits_for_the_report_of_a_running_repair(self) -> None:
        first = plan(cluster(), observed(unclean()), settled())
        seen = observed(unclean(limbo=0), jobs=[repair_job(running=True)], seconds=12)
        made = plan(cluster(), seen, first.status)
        [incident] = made.status.incidents
        assert incident.outcome == "Open" and incident.cleared_at == at(12)

    def test_a_clean_boot_with_old_limbo_keeps_the_incident(self) -> None:
        first = plan(cluster(), observed(unclean()), settled())
        made = plan(cluster(), observed(bookie(B0, epoch=3, limbo=3)), first.status)
        [incident] = made.status.incidents
        assert incident.boot_epoch_after == 2 and incident.outcome == "Open"

    def test_a_second_unclean_stop_supersedes_the_first(self) -> None:
        first = plan(cluster(), observed(unclean()), settled())
        made = plan(cluster(), observed(unclean(epoch=3)), first.status)
        assert [i.outcome.value for i in made.status.incidents] == ["Superseded", "Open"]

    def test_limbo_without_a_reason_is_an_incident_too(self) -> None:
        made = plan(cluster(), observed(bookie(B0, epoch=5, limbo=1)), NOTHING)
        assert [i.kind for i in made.status.incidents] == ["LimboFound"]

    def test_audit_follows_the_repair(self) -> None:
        first = plan(cluster(), observed(unclean()), settled())
        cleared = plan(cluster(), observed(unclean(limbo=0), seconds=9), first.status)
        [audit] = of_type(cleared, StartJob)
        assert isinstance(audit, StartJob) and audit.kind is JobKind.AUDIT
        assert status_of(cleared, ConditionType.DURABILITY_VERIFIED) == "Unknown"


class TestRepairs:
    @pytest.mark.parametrize(("attempt", "wait"), [(1, 10), (2, 20), (3, 40), (4, 80), (30, 900)])
    def test_attempts_wait_twice_as_long_each_time(self, attempt: int, wait: float) -> None:
        failed = repair_job(attempt=attempt, exit_code=1)
        early = observed(unclean(), jobs=[failed], seconds=20 + wait - 1)
        late = observed(unclean(), jobs=[failed], seconds=20 + wait)
        assert not of_type(plan(cluster(), early, settled()), StartJob)
        [job] = of_type(plan(cluster(), late, settled()), StartJob)
        assert isinstance(job, StartJob) and job.attempt == attempt + 1

    def test_exhausted_attempts_are_stalled_and_still_retried(self) -> None:
        failed = repair_job(attempt=5, exit_code=1, message="Spark image broken")
        made = plan(cluster(), observed(unclean(), jobs=[failed], seconds=2000), settled())
        assert status_of(made, ConditionType.REPAIR_STALLED) == "True"
        assert len(of_type(made, StartJob)) == 1

    def test_a_job_that_succeeded_proves_nothing_while_marks_are_left(self) -> None:
        done = repair_job(attempt=5, exit_code=0)
        made = plan(cluster(), observed(unclean(), jobs=[done], seconds=2000), settled())
        assert status_of(made, ConditionType.REPAIR_STALLED) == "True"
        assert len(of_type(made, StartJob)) == 1
        told = made.status.bookie(B0)
        assert told is not None and told.repair is not None and told.repair.state == "Failed"

    def test_a_changed_spec_is_tried_at_once_and_once(self) -> None:
        failed = repair_job(attempt=5, exit_code=1, message="image broken")
        before = plan(cluster(), observed(unclean(), jobs=[failed], seconds=25), settled()).status
        mended = cluster(image="mended:1")
        metadata = mended.metadata.model_copy(update={"generation": 2})
        mended = mended.model_copy(update={"metadata": metadata})
        made = plan(mended, observed(unclean(), jobs=[failed], seconds=30), before)
        assert [a.attempt for a in made.actions if isinstance(a, StartJob)] == [6]
        again = repair_job(attempt=6, started_at=at(30), ended=40, exit_code=1)
        after = plan(mended, observed(unclean(), jobs=[failed, again], seconds=41), made.status)
        assert not of_type(after, StartJob)

    def test_a_repair_that_gets_through_is_stalled_no_more(self) -> None:
        failed = repair_job(attempt=5, exit_code=1, message="Spark image broken")
        stalled = plan(cluster(), observed(unclean(), jobs=[failed], seconds=30), settled()).status
        assert stalled.is_true(ConditionType.REPAIR_STALLED)
        done = observed(unclean(limbo=0), jobs=[failed], seconds=99)
        made = plan(cluster(), done, stalled)
        assert status_of(made, ConditionType.REPAIR_STALLED) == "False"

    def test_one_repair_at_a_time(self) -> None:
        seen = observed(unclean(), unclean(B1), jobs=[repair_job(running=True)])
        assert not of_type(plan(cluster(), seen, settled()), StartJob)

    def test_the_bookie_with_fewest_attempts_is_next(self) -> None:
        failed = repair_job(attempt=1, exit_code=1)
        seen = observed(unclean(), unclean(B1), jobs=[failed], seconds=100)
        [job] = of_type(plan(cluster(), seen, settled()), StartJob)
        assert isinstance(job, StartJob) and job.bookie_id == B1

    def test_how_many_marks_have_gone_since_the_boot_is_its_progress(self) -> None:
        first = plan(cluster(), observed(unclean(limbo=3, unchecked=2)), settled()).status
        seen = observed(unclean(limbo=1, unchecked=1), jobs=[repair_job(running=True)])
        repair = plan(cluster(), seen, first).status.bookies[0].repair
        assert repair is not None and repair.progress == "3/5 ledgers (60 %)"

    def test_repair_of_an_older_boot_is_stopped(self) -> None:
        seen = observed(unclean(epoch=3), jobs=[repair_job(running=True)])
        made = plan(cluster(), seen, settled())
        assert of_type(made, StopJob) == [StopJob("demo-bookie-0-2-1", "BookieRestarted")]

    def test_hung_repair_is_stopped_at_its_deadline(self) -> None:
        seen = observed(unclean(), jobs=[repair_job(running=True)], seconds=3700)
        made = plan(cluster(), seen, settled())
        assert of_type(made, StopJob) == [StopJob("demo-bookie-0-2-1", "DeadlineExceeded")]

    def test_a_vanished_job_counts_as_an_attempt(self) -> None:
        before = plan(
            cluster(), observed(unclean(), jobs=[repair_job(running=True)]), settled()
        ).status
        made = plan(cluster(), observed(unclean(), seconds=30), before)
        repair = made.status.bookies[0].repair
        assert repair is not None and (repair.state, repair.attempt) == ("Failed", 1)

    @pytest.mark.parametrize(
        "later",
        [bookie(B0, epoch=3, reason="UncleanShutdown"), bookie(B0, running=False, exit_at=25)],
        ids=["booted again without marks", "is down"],
    )
    def test_a_repair_runs_no_longer_than_its_job_whatever_its_bookie_does(
        self, later: Bookie
    ) -> None:
        run = observed(unclean(), jobs=[repair_job(running=True)])
        before = plan(cluster(), run, settled()).status
        ended = observed(later, jobs=[repair_job(exit_code=0)], seconds=30)
        made = plan(cluster(), ended, before)
        assert status_of(made, ConditionType.REPAIR_RUNNING) == "False"

    def test_a_finished_repair_stays_finished_while_its_bookie_is_down(self) -> None:
        done = [repair_job(exit_code=0)]
        first = plan(cluster(), observed(unclean(), jobs=done, seconds=21), settled()).status
        before = plan(cluster(), observed(unclean(limbo=0), jobs=done, seconds=22), first).status
        down = observed(bookie(B0, running=False, exit_at=25), jobs=done, seconds=30)
        told = plan(cluster(), down, before).status.bookies[0].repair
        assert told is not None and told.state == "Finished"

    def test_a_later_boot_without_marks_is_audited_though_its_repair_was_last_seen_running(
        self,
    ) -> None:
        run = observed(unclean(), jobs=[repair_job(running=True)])
        before = plan(cluster(), run, settled()).status
        again = observed(bookie(B0, epoch=3, reason="UncleanShutdown"), seconds=30)
        [audit] = of_type(plan(cluster(), again, before), StartJob)
        assert isinstance(audit, StartJob) and audit.kind is JobKind.AUDIT

    def test_nothing_is_repaired_on_a_bookie_that_still_marks(self) -> None:
        made = plan(cluster(), observed(unclean(phase=Phase.MARKING)), settled())
        assert not of_type(made, StartJob)

    def test_paused_repairs_nothing_and_says_so(self) -> None:
        paused = cluster(paused=True)
        made = plan(paused, observed(unclean()), settled())
        assert not made.actions and "Paused" in predicates(made)
        assert status_of(made, ConditionType.PAUSED) == "True"


class TestCookieFix:
    def waiting(self, name: str = B0, **more: object) -> Bookie:
        facts: dict[str, object] = {
            "phase": Phase.AWAITING_APPROVAL,
            "epoch": 2,
            "reason": "DiskReplaced",
            "fix": fix_request(),
            "verdicts": {"ledger-0": "empty"},
        }
        return bookie(name, **(facts | more))  # type: ignore[arg-type]

    def test_auto_approves_within_the_budget(self) -> None:
        made = plan(cluster(), observed(self.waiting()), settled())
        assert of_type(made, ApproveCookieFix) == [ApproveCookieFix(B0, "plan-1")]

    def test_wiped_under_its_own_volume_is_told_apart(self) -> None:
        made = plan(cluster(), observed(self.waiting()), settled())
        assert [i.kind for i in made.status.incidents] == ["DiskWiped"]

    def test_budget_refuses_while_another_is_down(self) -> None:
        seen = observed(self.waiting(), bookie(B1, running=False))
        made = plan(cluster(), seen, settled())
        assert not of_type(made, ApproveCookieFix)
        assert "LossBudgetExceeded" in predicates(made)
        assert any("approve plan plan-1" in blocked.message for blocked in made.status.blocked)
        assert status_of(made, ConditionType.COOKIE_FIX_PENDING) == "True"

    def test_auto_asks_a_person_when_several_bookies_changed(self) -> None:
        seen = observed(self.waiting(), self.waiting(B1))
        made = plan(cluster(), seen, settled())
        assert not of_type(made, ApproveCookieFix)
        assert predicates(made) == {"MultipleBookiesChanged"}
        assert status_of(made, ConditionType.DEGRADED) == "True"

    def test_a_change_outside_the_window_does_not_count(self) -> None:
        first = plan(cluster(), observed(self.waiting()), settled())
        fixed = bookie(B0, epoch=2, reason="DiskReplaced")
        between = plan(cluster(), observed(fixed, seconds=5), first.status)
        soon = plan(cluster(), observed(fixed, self.waiting(B1), seconds=300), between.status)
        late = plan(cluster(), observed(fixed, self.waiting(B1), seconds=700), between.status)
        assert not of_type(soon, ApproveCookieFix)
        assert of_type(late, ApproveCookieFix)

    @pytest.mark.parametrize("verdict", ["stale", "foreign", "swapped"])
    def test_a_suspect_disk_is_a_persons_decision(self, verdict: str) -> None:
        seen = observed(self.waiting(verdicts={"ledger-0": verdict}))
        made = plan(cluster(), seen, settled())
        assert not of_type(made, ApproveCookieFix)
        assert "SuspectDisk" in predicates(made)

    def test_policy_approve_waits(self) -> None:
        made = plan(cluster(cookieFix={"policy": "Approve"}), observed(self.waiting()), settled())
        assert not of_type(made, ApproveCookieFix)
        assert "AwaitingApproval" in predicates(made)

    def test_a_persons_approval_counts_for_the_named_plan_only(self) -> None:
        careful = cluster(cookieFix={"policy": "Approve"})
        yes = task("approve-cookie-fix", bookie=B0, planId="plan-1", approvedBy="ann")
        other = task("approve-cookie-fix", bookie=B0, planId="plan-0", approvedBy="ann")
        made = plan(careful, observed(self.waiting(), of=careful, tasks=[yes]), settled())
        assert of_type(made, ApproveCookieFix) == [ApproveCookieFix(B0, "plan-1", "ann")]
        made = plan(careful, observed(self.waiting(), of=careful, tasks=[other]), settled())
        assert not of_type(made, ApproveCookieFix)
        assert made.tasks["task-1"].phase == "Failed"


class TestRestarts:
    def test_changed_settings_restart_one_bookie(self) -> None:
        made = plan(cluster(journalWriteData=True), observed(), settled())
        assert len(of_type(made, RestartBookie)) == 1
        assert "OneActionAtATime" in predicates(made)

    def test_one_that_is_out_anyway_restarts_before_those_that_serve(self) -> None:
        wide = cluster(
            replicas=5, quorum={"ensemble": 5, "write": 5, "ack": 4}, journalWriteData=True
        )
        seen = observed(bookie(B1, process_facts={"is_ready": False}), bookie("bookie-4"))
        [restart] = of_type(plan(wide, seen, settled()), RestartBookie)
        assert isinstance(restart, RestartBookie) and restart.template.bookie_id == B1

    def test_a_restart_is_refused_while_limbo_exists(self) -> None:
        wide = cluster(
            replicas=5, quorum={"ensemble": 5, "write": 5, "ack": 4}, journalWriteData=True
        )
        made = plan(wide, observed(unclean(), bookie("bookie-4")), settled())
        assert not of_type(made, RestartBookie)
        assert "LimboPresent" in predicates(made)

    def test_a_restart_is_refused_while_one_is_down(self) -> None:
        seen = observed(bookie(B0, running=False))
        made = plan(cluster(journalWriteData=True), seen, settled())
        assert not of_type(made, RestartBookie)
        assert "LossBudgetExceeded" in predicates(made)
        assert made.status.blocked[0].since == at(0)

    def test_a_restart_is_refused_without_metadata(self) -> None:
        gone = MetadataView(message="no route")
        made = plan(cluster(journalWriteData=True), observed(metadata=gone), settled())
        assert not made.actions and "MetadataUnreachable" in predicates(made)

    def test_disruptions_are_zero_while_limbo_exists(self) -> None:
        assert settled().disruptions_allowed == 1
        assert plan(cluster(), observed(unclean()), settled()).status.disruptions_allowed == 0

    @pytest.mark.parametrize(
        "special",
        [
            bookie(B0, phase=Phase.BOOTING),
            bookie(B0, phase=None),
            bookie(B0, running=False),
            bookie(B0, is_fresh=False),
            bookie(B0, process_facts={"is_ready": False}),
            replace(bookie(B0), is_writable=False),
        ],
    )
    def test_disruptions_are_zero_while_one_is_away_or_not_known(self, special: Bookie) -> None:
        assert plan(cluster(), observed(special), settled()).status.disruptions_allowed == 0

    def test_one_disruption_at_a_time_is_allowed_whatever_the_budget(self) -> None:
        wide = cluster(replicas=5, quorum={"ensemble": 5, "write": 5, "ack": 4})
        assert plan(wide, observed(of=wide), settled()).status.disruptions_allowed == 1


class TestVolumes:
    def test_a_volume_that_is_too_small_grows(self) -> None:
        one = bookie(B0)
        sizes = {"journal": "5Gi", "ledger-0": "10Gi", "ledger-1": "5G"}
        volumes = {name: replace(v, size=sizes[name]) for name, v in one.volumes.items()}
        made = plan(cluster(), observed(replace(one, volumes=volumes)), settled())
        assert [action.disk.name for action in made.actions] == ["journal"]  # type: ignore[union-attr]

    def test_nothing_grows_while_paused(self) -> None:
        one = bookie(B0)
        small = replace(one.volumes["journal"], size="5Gi")
        seen = observed(replace(one, volumes={**one.volumes, "journal": small}))
        assert not plan(cluster(paused=True), seen, settled()).actions


class TestLoss:
    def test_overlapping_unclean_stops_of_an_ack_quorum(self) -> None:
        made = plan(cluster(), observed(unclean(), unclean(B1)), settled())
        assert status_of(made, ConditionType.POSSIBLE_DATA_LOSS) == "True"
        assert made.status.phase == "PossibleDataLoss"

    def test_it_stays_until_a_later_audit_is_clean(self) -> None:
        first = plan(cluster(), observed(unclean(), unclean(B1)), settled())
        calm = observed(unclean(limbo=0), unclean(B1, limbo=0), seconds=50)
        second = plan(cluster(), calm, first.status)
        assert status_of(second, ConditionType.POSSIBLE_DATA_LOSS) == "True"
        audit = audited(attempt=2, began=51)
        done = replace(calm, jobs=(audit,), now=at(53))
        third = plan(cluster(), done, second.status)
        fourth = plan(cluster(), done, third.status)
        assert status_of(fourth, ConditionType.POSSIBLE_DATA_LOSS) == "False"

    def test_a_recorded_loss_stays_as_long_as_its_record(self) -> None:
        made = plan(cluster(), observed(bookie(B0, losses_recorded=1)), settled())
        assert status_of(made, ConditionType.POSSIBLE_DATA_LOSS) == "True"
        down = plan(cluster(), observed(bookie(B0, running=False)), made.status)
        assert status_of(down, ConditionType.POSSIBLE_DATA_LOSS) == "True"

    def test_a_loss_that_was_taken_back_is_over_with_the_next_clean_audit(self) -> None:
        report = AuditReport(clean=False, exit_code=3, ledgers=4, lost=1)
        found = plan(
            cluster(),
            observed(bookie(B0, losses_recorded=1), jobs=[audited(report)], seconds=5),
            ClusterStatus(),
        )
        assert status_of(found, ConditionType.POSSIBLE_DATA_LOSS) == "True"
        taken_back = plan(
            cluster(),
            observed(bookie(B0, limbo=1), jobs=[audited(report)], seconds=9),
            found.status,
        )
        assert status_of(taken_back, ConditionType.POSSIBLE_DATA_LOSS) == "True", "AuditMissing"
        assert status_of(taken_back, ConditionType.LIMBO_PRESENT) == "True"
        repaired = plan(cluster(), observed(jobs=[audited(report)], seconds=15), taken_back.status)
        seen = observed(jobs=[audited(report), audited(attempt=2, began=20)], seconds=30)
        over = plan(cluster(), seen, plan(cluster(), seen, repaired.status).status)
        assert status_of(over, ConditionType.POSSIBLE_DATA_LOSS) == "False"
        assert status_of(over, ConditionType.DURABILITY_VERIFIED) == "True"

    def test_limbo_that_a_boot_is_marked_with_again_gets_another_repair(self) -> None:
        first = plan(cluster(), observed(unclean(limbo=1)), settled())
        repaired = observed(unclean(limbo=0), jobs=[repair_job()], seconds=30)
        calm = plan(cluster(), repaired, first.status)
        again = observed(unclean(limbo=1), jobs=[repair_job()], seconds=60)
        made = plan(cluster(), again, calm.status)
        kinds = [one.kind for one in of_type(made, StartJob) if isinstance(one, StartJob)]
        assert kinds == [JobKind.REPAIR]


class TestTasks:
    def test_replacing_a_disk_is_gated_and_followed(self) -> None:
        wish = task("replace-disk", bookie=B0, disk="ledger-0")
        made = plan(cluster(), observed(tasks=[wish]), settled())
        assert of_type(made, ReplaceVolume) == [
            ReplaceVolume(B0, "ledger-0", "bookie-0-ledger-0-uid")
        ]
        assert made.tasks["task-1"].phase == "Running"
        blocked = plan(cluster(), observed(unclean(B1), tasks=[wish]), settled())
        assert not of_type(blocked, ReplaceVolume)

    def test_a_volume_deleted_in_use_is_let_go_in_good_order(self) -> None:
        made = plan(cluster(), observed(self.losing_a_volume()), settled())
        assert of_type(made, ReplaceVolume) == [
            ReplaceVolume(B0, "ledger-0", "bookie-0-ledger-0-uid")
        ]
        blocked = plan(cluster(), observed(self.losing_a_volume(), unclean(B1)), settled())
        assert not of_type(blocked, ReplaceVolume)

    def test_nothing_starts_on_a_volume_that_goes(self) -> None:
        stopped = replace(self.losing_a_volume(), process=None, health=None)
        made = plan(cluster(), observed(stopped), settled())
        assert not of_type(made, StartBookie) and not of_type(made, CreateVolume)

    def losing_a_volume(self) -> Bookie:
        one = bookie(B0)
        going = replace(one.volumes["ledger-0"], is_terminating=True)
        return replace(one, volumes={**one.volumes, "ledger-0": going})

    def test_an_audit_task_is_bound_to_its_job(self) -> None:
        wish = task("audit")
        made = plan(cluster(), observed(seconds=3, tasks=[wish]), settled())
        [job] = of_type(made, StartJob)
        assert isinstance(job, StartJob) and made.tasks["task-1"].target == job.name

    def test_an_audit_is_asked_what_the_spec_says(self) -> None:
        asked = cluster(audit={"recheckDelaySeconds": 20, "underreplicatedGraceSeconds": 3600})
        made = plan(asked, observed(seconds=3, tasks=[task("audit")]), settled())
        [job] = of_type(made, StartJob)
        assert isinstance(job, StartJob) and " ".join(job.options) == (
            "--history metadata --recheck-delay 20 --underreplicated-grace 3600 --min-racks 2 "
            "--ack-quorum 2"
        )

    def test_a_task_for_a_stranger_fails(self) -> None:
        wish = task("repair", bookie="bookie-9")
        made = plan(cluster(), observed(tasks=[wish]), settled())
        assert made.tasks["task-1"].phase == "Failed"
        assert "no bookie bookie-9" in made.tasks["task-1"].message


def test_d9_a_scale_counts_bookies_alone() -> None:
    group = "bookkeeper.bookie-operator.dev"
    made = plan(cluster(), observed(), NOTHING)
    assert made.status.selector == f"{group}/cluster=demo,{group}/component=bookie"


def finished(**facts: object) -> BookieTask:
    status = TaskStatus(phase=TaskPhase.SUCCEEDED, finished_at=at(0))
    return task("audit", **facts).model_copy(update={"status": status})


@pytest.mark.parametrize(("ttl", "seconds"), [(60, 60), (0, 0), (None, TASK_TTL_SECONDS)])
def test_d14_a_finished_task_goes_when_its_time_is_over(ttl: int | None, seconds: float) -> None:
    done = finished() if ttl is None else finished(ttlSecondsAfterFinished=ttl)
    for moment, count in ((seconds - 1, 0), (seconds, 1)):
        made = plan(cluster(), observed(tasks=[done], seconds=moment), NOTHING)
        assert len(of_type(made, DeleteTask)) == count


def test_d14_a_task_that_is_under_way_or_paused_stays() -> None:
    ages = 10 * TASK_TTL_SECONDS
    waiting = plan(cluster(), observed(tasks=[task("audit")], seconds=ages), NOTHING)
    paused = plan(cluster(paused=True), observed(tasks=[finished()], seconds=ages), NOTHING)
    assert not of_type(waiting, DeleteTask) and not of_type(paused, DeleteTask)


def test_of_more_finished_tasks_than_the_history_holds_the_oldest_go() -> None:
    done = [
        task("audit", f"t{n}").model_copy(
            update={"status": TaskStatus(phase=TaskPhase.FAILED, finished_at=at(age))}
        )
        for n, age in enumerate((2, 0, 3, 1))
    ]
    seen = observed(tasks=[*done, task("audit", "runs")], seconds=4)
    made = plan(cluster(taskHistoryLimit=2), seen, NOTHING)
    assert {one.name for one in of_type(made, DeleteTask)} == {"t1", "t3"}
    assert not of_type(plan(cluster(taskHistoryLimit=4), seen, NOTHING), DeleteTask)


def test_d14_a_job_keeps_the_name_that_an_older_operator_gave_it() -> None:
    wish = {"ledger": 5, "reason": "power cut", "approvedBy": "ann"}
    kept = [task("accept-loss", **wish, ttlSecondsAfterFinished=ttl) for ttl in (0, 9)]
    assert {decision_job(one) for one in kept} == {"demo-loss-1feb279c8b3c"}
