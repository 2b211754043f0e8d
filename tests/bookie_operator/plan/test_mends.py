"""What an audit finds outside limbo is made good: when, how often, and what it gives way to."""

from dataclasses import replace

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.audit_status import AuditStatus, ClassCounts, MendStatus
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.reports import AuditReport, MendReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask, TaskPhase
from bookie_operator.observed import Bookie, Job, JobKind
from bookie_operator.plan.actions import StartJob, StopJob
from bookie_operator.plan.audits import Audits
from bookie_operator.plan.findings import mend_text
from bookie_operator.plan.mends import mends
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import at, audited, bookie, cluster, observed, task

B0 = BookieId("bookie-0")
MISSING = AuditReport(ledgers=3, ok=90, missing=6, below_write_quorum=6)
CORRUPT = AuditReport(ledgers=3, ok=90, classes={"corrupt": ClassCounts(findings=1, entries=2)})
UNKNOWN = AuditReport(ledgers=3, ok=90, unknown=6)


def mended(attempt: int = 1, *, at_s: float = 10, report: MendReport | None = None) -> Job:
    return Job(
        f"demo-mend-{attempt}", JobKind.MEND, attempt, running=False,
        started_at=at(at_s), ended_at=at(at_s + 1), report=report or MendReport(entries_copied=6),
    )  # fmt: skip


RUNNING = Job("demo-mend-1", JobKind.MEND, 1, running=True, started_at=at(5))


def after(*jobs: Job, seconds: float = 5, of: BookieCluster | None = None, **how: object) -> Plan:
    """A pass in which these jobs are seen; `before`: the status of the pass before."""
    before = how.pop("before", ClusterStatus())
    seen = replace(observed(jobs=list(jobs), seconds=seconds), **how)  # type: ignore[arg-type]
    return plan(of or cluster(), seen, before)  # type: ignore[arg-type]


def started(made: Plan, kind: JobKind = JobKind.MEND) -> list[str]:
    return [one.name for one in made.actions if isinstance(one, StartJob) and one.kind is kind]


@pytest.mark.parametrize("found", [MISSING, CORRUPT])
def test_d1_what_an_audit_finds_starts_a_repair_of_every_ledger(found: AuditReport) -> None:
    made = after(audited(found))
    assert started(made) == ["demo-mend-1"] and not started(made, JobKind.AUDIT)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (MendStatus(), ""),
        (MendStatus(running=True), "; a repair of them runs"),
        (MendStatus(running=True, progress="half"), "; a repair of them runs: half"),
        (MendStatus(failures=1, message="no disk", rounds=2), "; no disk"),
        (MendStatus(rounds=2), "; repaired 2 times since an audit was clean"),
        (
            MendStatus(rounds=2, blocked=3, message="why"),
            "; repaired 2 times since an audit was clean, 3 ledgers could not be repaired: why",
        ),
    ],
)
def test_a_line_says_what_becomes_of_findings(status: MendStatus, words: str) -> None:
    assert mend_text(status) == words


def test_what_nobody_answered_for_is_not_repaired() -> None:
    assert not started(after(audited(UNKNOWN)))


@pytest.mark.parametrize(("seconds", "again"), [(60, []), (62, ["demo-audit-2"])])
def test_an_audit_that_one_entry_was_unknown_to_looks_again_a_minute_after_its_end(
    seconds: float, again: list[str]
) -> None:
    made = after(audited(UNKNOWN.model_copy(update={"unknown": 1})), seconds=seconds)
    assert started(made, JobKind.AUDIT) == again


def test_findings_are_only_told_where_the_spec_says_so() -> None:
    assert not started(after(audited(MISSING), of=cluster(audit={"onFindings": "Report"})))


def test_a_paused_cluster_repairs_nothing_and_says_so() -> None:
    made = after(audited(MISSING), of=cluster(paused=True))
    assert not started(made) and [r.predicate for r in made.refusals] == ["Paused"]


@pytest.mark.parametrize(
    "special",
    [
        bookie(B0, phase=Phase.BOOTING),
        bookie(B0, running=False),
        bookie(B0, epoch=2, reason="UncleanShutdown", limbo=1),
    ],
)
def test_it_waits_until_every_bookie_serves_without_marks(special: object) -> None:
    seen = observed(special, jobs=[audited(MISSING)], seconds=5)  # type: ignore[arg-type]
    assert not started(plan(cluster(), seen, ClusterStatus()))


def test_limbo_that_comes_up_stops_it() -> None:
    limbo = bookie(B0, epoch=2, reason="UncleanShutdown", limbo=1, boot_at=6)
    seen = observed(limbo, jobs=[audited(MISSING), RUNNING], seconds=7)
    stops = [
        one for one in plan(cluster(), seen, ClusterStatus()).actions if isinstance(one, StopJob)
    ]
    assert StopJob("demo-mend-1", "RepairFirst") in stops


def test_an_audit_of_its_own_follows_before_another_round() -> None:
    made = after(audited(MISSING), mended(), seconds=12)
    assert started(made, JobKind.AUDIT) == ["demo-audit-2"] and not started(made)
    assert made.status.mend.rounds == 1


def test_no_round_follows_while_audits_fail() -> None:
    first = after(audited(MISSING), mended(), seconds=12).status
    failed = replace(audited(MISSING, 2, began=13), report=None, message="no engine")
    made = after(failed, mended(), seconds=22, before=first)
    assert made.status.audit.failures == 1 and not started(made)


def test_rounds_wait_longer_and_a_clean_audit_ends_them() -> None:
    first = after(audited(MISSING), mended(), seconds=12).status
    jobs = (audited(MISSING, 2, began=13), mended())
    assert not started(after(*jobs, seconds=15, before=first)), "10 s after the first"
    assert started(after(*jobs, seconds=22, before=first)) == ["demo-mend-2"]
    clean = after(audited(AuditReport(ok=96), 2, began=13), mended(), seconds=22, before=first)
    assert not started(clean) and clean.status.mend.rounds == 0
    assert clean.status.is_true(ConditionType.DURABILITY_VERIFIED)


def test_while_it_runs_no_audit_does_and_people_are_told() -> None:
    made = after(audited(MISSING), RUNNING, seconds=6)
    degraded = made.status.condition(ConditionType.DEGRADED)
    progressing = made.status.condition(ConditionType.PROGRESSING)
    assert degraded is not None and "a repair of them runs" in degraded.message
    assert progressing is not None and progressing.reason == "Mending"
    assert not started(made, JobKind.AUDIT) and not made.status.is_true(
        ConditionType.DURABILITY_VERIFIED
    )


class TestOnDemand:
    ALL = task("repair", "all")

    def test_a_task_without_a_bookie_repairs_every_ledger(self) -> None:
        made = after(audited(AuditReport(ok=96)), tasks=(self.ALL,))
        assert started(made) == ["demo-mend-1"]
        assert made.tasks["all"].phase is TaskPhase.RUNNING

    def test_it_ends_with_what_was_copied(self) -> None:
        running = self.ALL.status.model_copy(
            update={"phase": TaskPhase.RUNNING, "target": "demo-mend-1"}
        )
        made = after(mended(), tasks=(self.ALL.model_copy(update={"status": running}),))
        assert made.tasks["all"].phase is TaskPhase.SUCCEEDED
        assert "6 entries copied" in made.tasks["all"].message

    def test_it_fails_when_something_is_left(self) -> None:
        running = self.ALL.status.model_copy(
            update={"phase": TaskPhase.RUNNING, "target": "demo-mend-1"}
        )
        left = mended(report=MendReport(wrong=2, message="no good copy"))
        made = after(left, tasks=(self.ALL.model_copy(update={"status": running}),))
        assert made.tasks["all"].phase is TaskPhase.FAILED
        assert "no good copy" in made.tasks["all"].message

    def test_nothing_in_limbo_is_not_said_over_missing_copies(self) -> None:
        one: BookieTask = task("repair", "one", bookie=B0)
        made = after(audited(MISSING), tasks=(one,), of=cluster(audit={"onFindings": "Report"}))
        assert "6 copies missing or wrong" in made.tasks["one"].message


class TestDisturbances:
    CLEAN = after(audited(AuditReport(ok=96)), seconds=3).status

    def verified(self, made: Plan) -> str:
        found = made.status.condition(ConditionType.DURABILITY_VERIFIED)
        assert found is not None
        return found.status

    def seen(self, one: Bookie, seconds: float, before: ClusterStatus, *jobs: Job) -> Plan:
        jobs = jobs or (audited(AuditReport(ok=96)),)
        return plan(cluster(), observed(one, jobs=jobs, seconds=seconds), before)

    def test_a_calm_cluster_stays_verified(self) -> None:
        assert self.verified(self.seen(bookie(B0), 5, self.CLEAN)) == "True"

    @pytest.mark.parametrize(
        "away", [bookie(B0, phase=Phase.READ_ONLY), bookie(B0, phase=None, running=False)]
    )
    def test_d2_after_a_bookie_was_away_only_a_younger_audit_verifies(self, away: Bookie) -> None:
        gone = self.seen(away, 5, self.CLEAN)
        back = self.seen(bookie(B0), 9, gone.status)
        assert self.verified(gone) == self.verified(back) == "Unknown"
        assert started(back, JobKind.AUDIT) == ["demo-audit-2"]
        audit = audited(AuditReport(ok=96), 2, began=10)
        assert self.verified(self.seen(bookie(B0), 12, back.status, audit)) == "True"

    def test_d2_a_clean_restart_between_two_looks_asks_for_an_audit(self) -> None:
        made = self.seen(bookie(B0, epoch=2, boot_at=4), 5, self.CLEAN)
        assert self.verified(made) == "Unknown" and started(made, JobKind.AUDIT)


@pytest.mark.parametrize(("seconds", "again"), [(15, []), (16, ["demo-mend-2"])])
def test_a_round_that_failed_is_tried_again_when_it_is_time(
    seconds: float, again: list[str]
) -> None:
    failed = replace(mended(at_s=5), report=None, message="no engine")
    made = after(audited(MISSING), failed, seconds=seconds)
    assert (made.status.mend.failures, made.status.mend.next_at) == (1, at(16))
    assert started(made) == again


def test_no_audit_begins_while_findings_are_made_good() -> None:
    """It would look at what changes; once the repair has ended, it looks at what came of it."""
    asked = (task("audit"),)
    assert not started(after(audited(), RUNNING, tasks=asked), JobKind.AUDIT)
    assert started(after(audited(), mended(), seconds=20, tasks=asked), JobKind.AUDIT)


@pytest.mark.parametrize(("began", "again"), [(9.5, False), (10.5, False), (11.5, True)])
def test_only_an_audit_that_began_after_a_round_says_what_that_left(
    began: float, again: bool
) -> None:
    """The round is from 10 to 11, and the audit takes a second as well."""
    found = AuditStatus(clean=False, missing=6, started_at=at(began), finished_at=at(began + 1))
    pass_ = Pass.of(cluster(), observed(jobs=[mended()], seconds=60), ClusterStatus())
    assert bool(mends(pass_, Audits(found, []), gives_way_to="").actions) is again
