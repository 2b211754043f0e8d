"""The true loss budget: ledgers' own quorums, missing copies, and bookies that are out."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import BootRecord, Phase
from bookie_operator.model.audit_status import Holders, LastCopies, QuorumsStatus
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.reports import AuditReport, ScrubReport
from bookie_operator.model.status import ClusterStatus, LossBudgetStatus
from bookie_operator.observed import Bookie, Job, JobKind, Observed
from bookie_operator.plan.actions import (
    ApproveCookieFix,
    Refusal,
    RemoveBookie,
    ReplaceVolume,
    RestartBookie,
    StartJob,
    candidate_of,
)
from bookie_operator.plan.budget import Budget, budget_of
from bookie_operator.plan.copies import Copies
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.plan.states import Impairment
from operator_scenes import at, bookie, cluster, fix_request, observed, task

NOTHING = ClusterStatus()
B0, B1, B2, B3 = (BookieId(f"bookie-{n}") for n in range(4))
REPLACE = task("replace-disk", bookie=B0, disk="ledger-0")
ACK3 = {"ensemble": 4, "write": 4, "ack": 3}
ACK1: dict[str, Any] = {"quorum": {"ensemble": 3, "write": 2, "ack": 1}, "journalWriteData": True}


def audit_job(report: AuditReport, *, seconds: float = 0, attempt: int = 1) -> Job:
    return Job(
        name=f"demo-audit-{attempt}",
        kind=JobKind.AUDIT,
        attempt=attempt,
        running=False,
        started_at=at(seconds),
        ended_at=at(seconds + 1),
        report=report,
    )


def held(
    known: tuple[str, ...], perhaps: tuple[str, ...] = (), *, groups: int = 1, left_out: int = 0
) -> LastCopies:
    one = Holders(known=known, perhaps=perhaps, entries=1000, ledgers=2, first_ledgers=(3, 7))
    return LastCopies(entries=1000, groups=groups, entries_left_out=left_out, held_by=(one,))


def thin(last: LastCopies | None, **more: Any) -> AuditReport:
    """1000 entries of which one copy is left."""
    facts: dict[str, Any] = {"entries": 1000, "missing": 1000, "below_ack_quorum": 1000}
    return AuditReport(**(facts | {"last_copies": last} | more))


def seen(
    *special: Bookie, of: BookieCluster | None = None, seconds: float = 2, **more: Any
) -> Observed:
    return observed(*special, of=of, seconds=seconds, **more)


def durable(name: str, *, of: BookieCluster, mode: str = "journal", **more: Any) -> Bookie:
    """A bookie that acknowledges from its disk."""
    one = bookie(name, of=of, **more)
    assert one.health is not None and isinstance(one.health.boot, BootRecord)
    return replace(one, health=replace(one.health, boot=replace(one.health.boot, mode=mode)))


def waiting(name: str, of: BookieCluster | None = None) -> Bookie:
    return bookie(
        name,
        of=of,
        phase=Phase.AWAITING_APPROVAL,
        epoch=2,
        reason="DiskReplaced",
        fix=fix_request(),
        verdicts={"ledger-0": "empty"},
    )


def taken(made: Plan) -> list[object]:
    kinds = (ReplaceVolume, RestartBookie, ApproveCookieFix, RemoveBookie)
    return [action for action in made.actions if isinstance(action, kinds)]


def refused(made: Plan, name: str = B0) -> str:
    return next(f"{r.predicate}: {r.message}" for r in made.refusals if r.bookie == name)


def budget(made: Plan) -> LossBudgetStatus:
    assert made.status.loss_budget is not None
    return made.status.loss_budget


class TestLastCopies:
    @pytest.mark.parametrize("last", [held((B0,)), None])
    def test_replace_disk_refuses_to_destroy_the_last_copy(self, last: LastCopies | None) -> None:
        # A6: the audit has just ended, and neither pass may carry the task out.
        jobs = [audit_job(thin(last))]
        first = plan(cluster(), seen(jobs=jobs, tasks=[REPLACE]), NOTHING)
        second = plan(cluster(), seen(jobs=jobs, tasks=[REPLACE], seconds=3), first.status)
        for made in (first, second):
            assert not taken(made)
            assert made.status.disruptions_allowed == 0
            assert refused(made).startswith("LastCopy: ")
        assert made.status.audit.below_ack_quorum == 1000

    def test_a_refusal_names_bookie_and_ledgers(self) -> None:
        made = plan(cluster(), seen(jobs=[audit_job(thin(held((B0,))))], tasks=[REPLACE]), NOTHING)
        told = "bookie-0 may hold the last known copies of 1000 entries (ledgers 3, 7)"
        assert refused(made) == f"LastCopy: {told}"
        assert budget(made).reason == "LastCopy" and told in budget(made).message
        assert budget(made).last_copies_on == (B0,)

    def test_who_holds_none_may_be_taken(self) -> None:
        made = plan(cluster(), seen(jobs=[audit_job(thin(held((B1,))))], tasks=[REPLACE]), NOTHING)
        assert [type(action) for action in taken(made)] == [ReplaceVolume]

    @pytest.mark.parametrize("last", [held((B1,), groups=2), held((B1,), left_out=5)])
    def test_what_was_cut_off_concerns_every_bookie(self, last: LastCopies) -> None:
        made = plan(cluster(), seen(jobs=[audit_job(thin(last))], tasks=[REPLACE]), NOTHING)
        assert not taken(made) and "every bookie may" in refused(made)
        assert budget(made).last_copies_on == (B0, B1, B2, B3)

    def test_a_fix_that_an_unsure_audit_holds_back_is_given_by_the_next_one(self) -> None:
        unsure = AuditReport(entries=1000, unknown=1000, last_copies=held((), (B0, B1)))
        jobs = [audit_job(unsure)]
        first = plan(cluster(), seen(waiting(B0), jobs=jobs), NOTHING)
        assert refused(first).startswith("LastCopy: ")
        later = plan(cluster(), seen(waiting(B0), jobs=jobs, seconds=100), first.status)
        assert [a.kind for a in later.actions if isinstance(a, StartJob)] == [JobKind.AUDIT]
        sure = AuditReport(entries=1000, unknown=1000, last_copies=LastCopies())
        jobs.append(audit_job(sure, attempt=2, seconds=101))
        end = plan(cluster(), seen(waiting(B0), jobs=jobs, seconds=110), later.status)
        assert [type(action) for action in taken(end)] == [ApproveCookieFix]

    def test_findings_of_an_engine_that_names_nobody_concern_every_bookie(self) -> None:
        jobs = [audit_job(AuditReport(entries=9, unknown=9))]
        made = plan(cluster(), seen(jobs=jobs, tasks=[REPLACE]), NOTHING)
        assert not taken(made) and "every bookie may" in refused(made)

    def test_a_copy_nobody_was_heard_about_may_be_the_last(self) -> None:
        jobs = [audit_job(thin(held((), (B0, B1))))]
        assert not taken(plan(cluster(), seen(jobs=jobs, tasks=[REPLACE]), NOTHING))

    def test_the_other_holder_is_the_last_while_one_is_out(self) -> None:
        both = [audit_job(thin(held((B0, B1))))]
        made = plan(cluster(), seen(jobs=both, tasks=[REPLACE]), NOTHING)
        assert [type(action) for action in taken(made)] == [ReplaceVolume]
        wide = cluster(quorum=ACK3)
        out = seen(
            waiting(B0, wide), bookie(B1, of=wide, running=False, exit_at=0), of=wide, jobs=both
        )
        made = plan(wide, out, NOTHING)
        assert not taken(made) and refused(made).startswith("LastCopy: ")

    def test_a_restart_that_may_forget_is_refused_and_one_that_forgets_nothing_is_not(self) -> None:
        wanted = cluster(image="new:1")
        jobs = [audit_job(thin(held((B0,))))]
        others = [bookie(b, of=wanted) for b in (B1, B2, B3)]
        made = plan(wanted, seen(bookie(B0), *others, of=wanted, jobs=jobs), NOTHING)
        assert not taken(made) and refused(made).startswith("LastCopy: ")
        safe = durable(B0, of=cluster(), mode="sync")
        made = plan(wanted, seen(safe, *others, of=wanted, jobs=jobs, seconds=20), NOTHING)
        assert [type(action) for action in taken(made)] == [RestartBookie]

    def test_no_audit_begins_beside_a_restart_whose_silence_it_would_count(self) -> None:
        wanted, others = cluster(image="new:1"), [bookie(b) for b in (B1, B2, B3)]
        seen_ = seen(bookie(B0), *others, of=wanted)
        made = plan(wanted, seen_, NOTHING)
        assert [type(action) for action in taken(made)] == [RestartBookie]
        assert not [action for action in made.actions if isinstance(action, StartJob)]
        asked = plan(wanted, replace(seen_, tasks=(task("audit"),)), NOTHING)
        assert [action for action in asked.actions if isinstance(action, StartJob)]

    def test_a_cookie_fix_is_left_to_a_person(self) -> None:
        jobs = [audit_job(thin(held((B0,))))]
        made = plan(cluster(), seen(waiting(B0), jobs=jobs), NOTHING)
        assert not taken(made) and "approve plan plan-1" in refused(made)
        assert refused(made).startswith("LastCopy: ")
        yes = task("approve-cookie-fix", bookie=B0, planId="plan-1", approvedBy="ann")
        assert taken(plan(cluster(), seen(waiting(B0), jobs=jobs, tasks=[yes]), NOTHING))

    def test_an_emptied_bookie_goes_once_an_audit_names_it_no_more(self) -> None:
        fewer = cluster(replicas=3)
        empty = bookie(B3, of=cluster(), phase=Phase.DRAINING, draining=True, ledgers_naming_it=0)
        jobs = [audit_job(thin(held((B3,))))]
        status = NOTHING
        for seconds in (2, 3, 4):
            made = plan(fewer, seen(empty, of=fewer, jobs=jobs, seconds=seconds), status)
            assert not taken(made) and refused(made, B3).startswith("LastCopy: ")
            status = made.status
        made = plan(fewer, seen(empty, of=fewer, jobs=jobs, seconds=302), status)
        assert [a.name for a in made.actions if isinstance(a, StartJob)] == ["demo-audit-2"]
        jobs.append(audit_job(thin(held((B1,))), seconds=310, attempt=2))
        for seconds in (312, 313):
            made = plan(fewer, seen(empty, of=fewer, jobs=jobs, seconds=seconds), made.status)
        assert [type(action) for action in taken(made)] == [RemoveBookie]

    def test_a_clean_audit_takes_it_back(self) -> None:
        first = plan(cluster(), seen(jobs=[audit_job(thin(held((B0,))))], tasks=[REPLACE]), NOTHING)
        clean = AuditReport(entries=1000, ok=1000, last_copies=LastCopies())
        jobs = [audit_job(clean, seconds=10, attempt=2)]
        made = plan(cluster(), seen(jobs=jobs, tasks=[REPLACE], seconds=12), first.status)
        assert taken(made) and made.status.disruptions_allowed == 1

    def test_an_audit_looks_again_once_a_scrub_has_brought_copies_back(self) -> None:
        status = plan(cluster(), seen(jobs=[audit_job(thin(held((B0,))))]), NOTHING).status
        scrub = replace(
            audit_job(AuditReport(), seconds=20),
            name="demo-scrub-1",
            kind=JobKind.SCRUB,
            report=ScrubReport(entries=1000),
        )
        status = plan(cluster(), seen(jobs=[scrub], seconds=22), status).status
        made = plan(cluster(), seen(jobs=[scrub], seconds=23), status)
        assert [a.name for a in made.actions if isinstance(a, StartJob)] == ["demo-audit-2"]

    def test_corrupt_copies_that_a_scrub_left_are_no_copies(self) -> None:
        left = ScrubReport(corrupt_found=1, wrong=1, last_copies=held((B0,)))
        scrub = replace(audit_job(AuditReport()), kind=JobKind.SCRUB, report=left)
        whole = audit_job(AuditReport(ok=1, last_copies=LastCopies()))
        made = plan(cluster(), seen(jobs=[scrub, whole], tasks=[REPLACE]), NOTHING)
        assert not taken(made) and refused(made).startswith("LastCopy: ")


class TestQuorums:
    def report(self, lowest: int, asked: int, ledgers: tuple[int, ...] = (9,)) -> AuditReport:
        told = QuorumsStatus(
            ack_asked=asked, ack_lowest=lowest, copies_lowest=lowest, ledgers_lowest=ledgers
        )
        return AuditReport(ok=1, quorums=told, last_copies=LastCopies())

    def test_budget_of_a_mixed_cluster(self) -> None:
        # A6: ack 3 in the spec, ledgers with ack 2, one of their bookies killed and down.
        mixed = cluster(quorum=ACK3)
        jobs = [audit_job(self.report(2, asked=3))]
        down = bookie(B1, of=mixed, running=False, exit_at=0)
        made = plan(mixed, seen(down, of=mixed, jobs=jobs, tasks=[REPLACE]), NOTHING)
        assert not taken(made) and refused(made).startswith("LossBudgetExceeded: ")

    def test_a_cookie_fix_counts_by_the_lowest_ack_quorum_of_the_ledgers(self) -> None:
        mixed = cluster(quorum=ACK3)
        out = seen(waiting(B0, mixed), bookie(B1, of=mixed, running=False, exit_at=0), of=mixed)
        same = replace(out, jobs=(audit_job(self.report(3, asked=3)),))
        assert [type(action) for action in taken(plan(mixed, same, NOTHING))] == [ApproveCookieFix]
        lower = replace(out, jobs=(audit_job(self.report(2, asked=3)),))
        made = plan(mixed, lower, NOTHING)
        assert not taken(made) and "2 bookies would be out, 1 may be" in refused(made)
        assert "in ledgers 9, not 3" in refused(made) and "bookie-1 (Down)" in refused(made)
        assert (budget(made).limit, budget(made).reason) == (1, "LowerQuorum")

    def test_before_the_first_audit_it_is_the_specs_and_says_so(self) -> None:
        made = plan(cluster(quorum=ACK3), seen(of=cluster(quorum=ACK3)), NOTHING)
        assert (budget(made).limit, budget(made).reason) == (2, "NotAudited")
        assert "no audit" in budget(made).message

    def test_after_it_there_is_no_doubt(self) -> None:
        jobs = [audit_job(self.report(3, asked=2))]
        made = plan(cluster(), seen(jobs=jobs), NOTHING)
        assert budget(made) == LossBudgetStatus(
            limit=1, reason="AckQuorum", message="2 copies of every entry are certain"
        )

    def test_a_raised_ack_quorum_counts_once_an_audit_has_looked_after_it(self) -> None:
        raised = cluster(quorum=ACK3)
        made = plan(raised, seen(of=raised, jobs=[audit_job(self.report(4, asked=2))]), NOTHING)
        assert (budget(made).limit, budget(made).reason) == (1, "OlderAudit")
        made = plan(raised, seen(of=raised, jobs=[audit_job(self.report(4, asked=3))]), NOTHING)
        assert (budget(made).limit, budget(made).reason) == (2, "AckQuorum")

    def test_as_many_as_may_have_the_only_copies_forgot_at_once(self) -> None:
        jobs = [audit_job(self.report(1, asked=2))]
        status = plan(cluster(), seen(jobs=jobs), NOTHING).status
        forgot = bookie(B0, epoch=2, reason="UncleanShutdown", limbo=1)
        made = plan(cluster(), seen(forgot, jobs=jobs, seconds=3), status)
        assert made.status.is_true(ConditionType.POSSIBLE_DATA_LOSS)

    @pytest.mark.parametrize(
        ("ack", "journal", "asked"), [(2, False, 2), (3, True, 3), (1, True, 2)]
    )
    def test_an_audit_is_asked_for_what_survives_a_crash(
        self, ack: int, journal: bool, asked: int
    ) -> None:
        wanted = cluster(quorum={"ensemble": 3, "write": 3, "ack": ack}, journalWriteData=journal)
        made = plan(wanted, seen(of=wanted), NOTHING)
        [job] = [a for a in made.actions if isinstance(a, StartJob)]
        assert f"--ack-quorum {asked}" in " ".join(job.options), "they run from memory now"


class TestOneAtATime:
    @pytest.mark.parametrize("ack", [2, 3, 4])
    def test_nobody_is_taken_out_while_another_is(self, ack: int) -> None:
        # D4: a broken image takes one bookie down, whatever the ack quorum.
        quorum = {"ensemble": 5, "write": 5, "ack": ack}
        old, new = cluster(replicas=6, quorum=quorum), cluster(replicas=6, quorum=quorum, image="x")
        others = [bookie(f"bookie-{n}", of=old) for n in range(1, 6)]
        broken = bookie(B0, of=new, running=False, exit_at=0)
        made = plan(new, seen(broken, *others, of=new), NOTHING)
        assert not taken(made)
        assert refused(made, B1).startswith("RolloutHalted: bookie-0 fails with the new settings")


class TestAckQuorumOne:
    def fleet(self, of: BookieCluster, mode: str = "journal") -> list[Bookie]:
        return [durable(name, of=of, mode=mode) for name in of.spec.bookie_ids]

    @pytest.mark.parametrize("mode", ["journal", "sync"])
    def test_settings_roll_out_one_clean_restart_at_a_time(self, mode: str) -> None:
        # A11: what was acknowledged is on the disk, and a restart leaves the disk alone.
        old, new = cluster(**ACK1), cluster(**ACK1, image="new:1")
        made = plan(new, seen(*self.fleet(old, mode), of=new), NOTHING)
        assert [candidate_of(action) for action in taken(made)] == [B0]  # type: ignore[arg-type]
        away = bookie(B0, of=new, phase=Phase.BOOTING)
        made = plan(new, seen(*self.fleet(old, mode)[1:], away, of=new), made.status)
        assert not taken(made) and "all others serve" in refused(made, B1)

    def test_one_may_be_evicted_while_all_serve(self) -> None:
        one = cluster(**ACK1)
        made = plan(one, seen(*self.fleet(one), of=one), NOTHING)
        assert made.status.disruptions_allowed == 1
        assert (budget(made).limit, budget(made).reason) == (0, "SingleCopy")
        assert "restarts and evictions go on" in budget(made).message
        down = durable(B3, of=one)
        down = replace(down, process=None, health=None)
        made = plan(one, seen(*self.fleet(one)[:3], down, of=one), made.status)
        assert made.status.disruptions_allowed == 0

    def test_one_that_runs_from_memory_is_not_stopped(self) -> None:
        one, new = cluster(**ACK1), cluster(**ACK1, image="new:1")
        made = plan(new, seen(*self.fleet(one, "memory"), of=new), NOTHING)
        assert not taken(made) and made.status.disruptions_allowed == 0
        assert refused(made).startswith("LossBudgetExceeded: 1 bookie would be out, 0 may be")
        assert "acknowledge from memory (bookie-0, " in budget(made).message

    def test_one_of_which_nobody_knows_how_it_runs_is_not_stopped(self) -> None:
        old, new = cluster(**ACK1), cluster(**ACK1, image="new:1")
        fleet = self.fleet(old)
        silent = replace(fleet[0], health=None, is_writable=False)
        made = plan(new, seen(silent, *fleet[1:], of=new), NOTHING)
        assert not taken(made)
        status = plan(old, seen(*fleet, of=old), NOTHING).status
        made = plan(new, seen(silent, *fleet[1:], of=new, seconds=3), status)
        assert [candidate_of(action) for action in taken(made)] == [B0]  # type: ignore[arg-type]

    def test_disks_and_cookies_are_a_persons_decision_and_say_so(self) -> None:
        one = cluster(**ACK1)
        made = plan(one, seen(*self.fleet(one), of=one, tasks=[REPLACE]), NOTHING)
        assert not taken(made) and "0 may be (ack quorum 1" in refused(made)
        assert "a person decides on every cookie fix" in budget(made).message
        made = plan(one, seen(*self.fleet(one)[1:], waiting(B0, one), of=one), NOTHING)
        assert not taken(made) and "approve plan plan-1" in refused(made)


def alone(**more: Any) -> Budget:
    """The budget of four bookies that serve, all of which may forget."""
    facts: dict[str, Any] = {
        "copies": Copies(2, "AckQuorum", "2 copies"), "bookies": (B0, B1, B2, B3), "impaired": {},
        "forgetful": frozenset((B0, B1, B2, B3)), "no_store": None,
        "is_paused": False, "is_loss_possible": False,
    }  # fmt: skip
    return Budget(**(facts | more))


def copies(certain: int, *last: str) -> Copies:
    held_by = (Holders(known=last, entries=9, ledgers=1, first_ledgers=(3,)),) if last else ()
    return Copies(certain, "AckQuorum", f"{certain} copies", last=held_by)


class TestWhatABudgetSays:
    @pytest.mark.parametrize(
        ("facts", "allowed"),
        [
            ({}, 1),
            ({"is_loss_possible": True}, 0),
            ({"rolled_back": "an older store"}, 0),
            ({"impaired": {B3: BookieState.DOWN}}, 0),
            ({"no_store": Refusal("", "LineageMismatch", "another")}, 0),
            ({"copies": copies(2, B3)}, 0),
            ({"copies": copies(1)}, 0),
            ({"copies": copies(1), "forgetful": frozenset()}, 1),
        ],
    )
    def test_an_eviction_is_allowed_only_where_nothing_is_out_or_unknown(
        self, facts: dict[str, Any], allowed: int
    ) -> None:
        assert alone(**facts).disruptions_allowed == allowed

    @pytest.mark.parametrize(
        ("facts", "predicate"),
        [
            ({}, ""),
            ({"is_paused": True}, "Paused"),
            ({"no_store": Refusal("", "LineageMismatch", "another")}, "LineageMismatch"),
            ({"rolled_back": "an older store"}, "MetadataRolledBack"),
            ({"is_loss_possible": True}, "PossibleDataLoss"),
        ],
    )
    def test_what_stops_everything_stops_every_kind_of_disruption_of_the_named_bookie(
        self, facts: dict[str, Any], predicate: str
    ) -> None:
        budget = alone(**facts)
        refusals = [
            budget.refusal("fix", B0),
            budget.taking_refusal("restart", B0, keeps_disks=True),
            budget.taking_refusal("replace", B0, keeps_disks=False),
            budget.leaving_refusal("drain", B0),
            budget.given_up_refusal("give up", B0),
        ]
        said = [(one.action, one.predicate, one.bookie) for one in refusals if one is not None]
        kinds = ("fix", "restart", "replace", "drain", "give up")
        assert said == [(kind, predicate, B0) for kind in kinds if predicate]

    def test_marks_of_others_stop_whoever_serves_and_nobody_who_is_out_already(self) -> None:
        beside_limbo = alone(copies=copies(3), impaired={B1: Impairment.IN_LIMBO})
        assert beside_limbo.refusal("fix", B0) is None
        for refusal in (
            beside_limbo.taking_refusal("restart", B0, keeps_disks=True),
            beside_limbo.leaving_refusal("drain", B0),
        ):
            assert refusal is not None
            assert (refusal.predicate, refusal.message) == ("LimboPresent", "bookie-1 in limbo")

    def test_who_is_out_already_is_not_counted_among_the_others(self) -> None:
        out = alone(impaired={B0: BookieState.BOOTING, B1: BookieState.DOWN})
        taking = out.taking_refusal("restart", B0, keeps_disks=True)
        assert taking is not None and taking.message.endswith("serve; out: bookie-1 (Down)")
        fix = out.refusal("fix", B0)
        assert fix == Refusal(
            "fix", "LossBudgetExceeded",
            "2 bookies would be out, 1 may be (2 copies); already out bookie-1 (Down)", B0,
        )  # fmt: skip

    @pytest.mark.parametrize("state", [None, *BookieState, Impairment.NOT_READY])
    def test_content_is_taken_from_nobody_beyond_the_limit_in_whatever_state_it_is(
        self, state: BookieState | Impairment | None
    ) -> None:
        mine = {} if state is None else {B0: state}
        for certain, others in ((2, {B1: BookieState.DOWN}), (1, {}), (2, {})):
            last = () if certain == 1 or others else (B0,)
            found = alone(copies=copies(certain, *last), impaired={**mine, **others})
            assert found.taking_refusal("replace", B0, keeps_disks=False) is not None

    def test_with_nobody_else_out_nobody_is_named(self) -> None:
        refusal = alone(copies=copies(1)).refusal("fix", B0)
        assert (
            refusal is not None and refusal.message == "1 bookie would be out, 0 may be (1 copies)"
        )

    def test_where_one_copy_is_all_two_are_never_out_even_if_neither_forgets(self) -> None:
        both = {B0: BookieState.CRASH_LOOP, B1: BookieState.DOWN}
        one = alone(copies=copies(1), impaired=both, forgetful=frozenset())
        refusal = one.taking_refusal("restart", B0, keeps_disks=True)
        assert refusal is not None and refusal.action == "restart"
        assert refusal.message.startswith("2 bookies would be out, 1 may be")

    def test_a_refusal_of_a_store_that_was_put_back_names_the_bookie(self) -> None:
        refusal = alone(rolled_back="bookie-3: an older store").refusal("fix", B0)
        assert refusal is not None
        assert (refusal.predicate, refusal.bookie) == ("MetadataRolledBack", B0)

    def test_the_status_says_how_many_copies_there_are_and_who_holds_the_last(self) -> None:
        status = alone(copies=copies(2, B3)).status()
        assert status.message.startswith("2 copies; bookie-3 may hold the last known copies of 9")
        long = alone(copies=Copies(2, "AckQuorum", "x" * 3000)).status()
        assert long.message == "x" * 1024


@pytest.mark.parametrize(
    ("before", "now", "may_forget"),
    [
        ("journal", "memory", True),
        ("memory", "journal", False),
        ("memory", "sync", False),
        ("journal", None, False),
        ("sync", None, False),
        ("memory", None, True),
        ("another process", None, True),
        (None, None, True),
    ],
)
@pytest.mark.parametrize("is_heard", [True, False])
def test_a_process_may_forget_unless_its_own_word_now_or_before_is_that_it_does_not(
    before: str | None, now: str | None, may_forget: bool, is_heard: bool
) -> None:
    """`now` None: it has not said in this pass how it runs, heard or not."""
    of = cluster()
    status = NOTHING
    if before is not None:
        first = durable(B0, of=of, mode=before if before != "another process" else "journal")
        status = plan(of, seen(first, of=of), NOTHING).status
    one = durable(B0, of=of, mode=now or "journal", epoch=2 if before == "another process" else 1)
    assert one.health is not None
    if now is None:
        one = replace(one, health=replace(one.health, boot=None) if is_heard else None)
    made = budget_of(
        Pass.of(of, seen(one, of=of, seconds=3), status), copies=copies(2), is_loss_possible=False
    )
    assert (B0 in made.forgetful) is may_forget


def test_a_bookie_without_a_process_may_forget_whatever_it_said_before() -> None:
    of = cluster()
    status = plan(of, seen(durable(B0, of=of), of=of), NOTHING).status
    gone = replace(durable(B0, of=of), process=None, health=None)
    pass_ = Pass.of(of, seen(gone, of=of, seconds=3), status)
    assert B0 in budget_of(pass_, copies=copies(2), is_loss_possible=False).forgetful
