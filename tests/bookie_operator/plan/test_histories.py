"""Histories of a whole fleet: whatever happens, the planner stays within the loss budget.

A small truthful world (bookies that crash, lose disks, fall silent; jobs that fail or hang; a store
that goes away; changing specs) is driven by hypothesis; the planner sees it, its actions change it.
"""

from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final

from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.audit_status import Holders, LastCopies
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.reports import AuditReport, MendReport, RepairReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, Job, JobKind, MetadataView, Observed
from bookie_operator.plan.actions import (
    ApproveCookieFix,
    Destructive,
    RestartBookie,
    StartJob,
    StopJob,
    candidate_of,
)
from bookie_operator.plan.planner import Plan, plan
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from operator_scenes import HEALTHY, all_certified, at, bookie, cluster, fix_request

FLEET = [BookieId(f"bookie-{ordinal}") for ordinal in range(5)]
names = st.sampled_from(FLEET)
QUORUM: Final = {"ensemble": 4, "write": 4, "ack": 3}
PERSONS: Final = ("MultipleBookiesChanged", "PossibleDataLoss")
"""Why a fix is held back that only a person may give then."""


@dataclass
class Actor:
    """One bookie as it really is."""

    epoch: int = 1
    phase: Phase = Phase.SERVING
    reason: str = "CleanStop"
    running: bool = True
    limbo: int = 0
    empty_disk: bool = False
    journaled: bool = False
    silent: bool = False
    next_reason: str = "CleanStop"

    def fix(self) -> None:
        self.phase, self.empty_disk = Phase.MARKING, False


@dataclass
class World:
    now: float = 0.0
    reachable: bool = True
    journaled: bool = False
    paused: bool = False
    bookies: dict[BookieId, Actor] = field(default_factory=lambda: {n: Actor() for n in FLEET})
    jobs: dict[str, Job] = field(default_factory=dict)
    status: ClusterStatus = field(default_factory=ClusterStatus)
    thin: frozenset[BookieId] = frozenset()
    """Who holds the last copies of some entry, should an audit look now."""

    def cluster(self, journaled: bool | None = None) -> BookieCluster:
        wanted = self.journaled if journaled is None else journaled
        return cluster(replicas=5, quorum=QUORUM, journalWriteData=wanted, paused=self.paused)

    def see(self) -> Observed:
        metadata = HEALTHY if self.reachable else MetadataView(message="gone")
        return Observed(
            now=at(self.now),
            metadata=metadata,
            bookies={name: self.seen(name, actor) for name, actor in self.bookies.items()},
            jobs=tuple(self.jobs.values()),
            tls=all_certified(self.cluster()),
        )

    def seen(self, name: BookieId, actor: Actor) -> Bookie:
        one = bookie(
            name,
            of=self.cluster(actor.journaled),
            phase=None if actor.silent else actor.phase,
            epoch=actor.epoch,
            reason=actor.reason,
            limbo=actor.limbo,
            running=actor.running,
            fix=fix_request() if actor.phase is Phase.AWAITING_APPROVAL else None,
            verdicts={"ledger-0": "empty"} if actor.empty_disk else {},
        )
        return one if self.reachable else replace(one, is_writable=False)

    def out(self) -> set[BookieId]:
        """Truly impaired: down, booting, or in limbo."""
        return {
            name
            for name, actor in self.bookies.items()
            if not actor.running or actor.phase is not Phase.SERVING or actor.limbo
        }

    def carry_out(self, made: Plan) -> None:
        for action in made.actions:
            if isinstance(action, RestartBookie):
                actor = self.bookies[action.template.bookie_id]
                actor.journaled = self.journaled
                boot(actor, "CleanStop")
            elif isinstance(action, ApproveCookieFix):
                self.bookies[action.bookie_id].fix()
            elif isinstance(action, StartJob):
                self.jobs[action.name] = Job(
                    name=action.name,
                    kind=action.kind,
                    attempt=action.attempt,
                    running=True,
                    started_at=at(self.now),
                    bookie=action.bookie_id,
                    boot_epoch=action.boot_epoch,
                )
            elif isinstance(action, StopJob):
                self.end(action.name, exit_code=-15)

    def answering(self) -> set[BookieId]:
        return {
            name
            for name, actor in self.bookies.items()
            if actor.running and not actor.silent and actor.phase is Phase.SERVING
        }

    def last_copies(self) -> tuple[Holders, ...]:
        """Who holds them by the last audit that came to its end."""
        found = [(job.attempt, job.reported(AuditReport)) for job in self.jobs.values()]
        ended = [(attempt, report) for attempt, report in found if report is not None]
        newest = max(ended, key=lambda one: one[0])[1] if ended else None
        told = newest.last_copies if newest is not None else None
        return told.held_by if told else ()

    def end(self, name: str, *, exit_code: int) -> None:
        job = self.jobs[name]
        self.jobs[name] = replace(job, running=False, ended_at=at(self.now), exit_code=exit_code)


def audit_of(thin: frozenset[BookieId], answering: set[BookieId]) -> AuditReport:
    """What an audit finds now: one entry on any four bookies, and one that only `thin` have."""
    places = [frozenset(chosen) for chosen in combinations(FLEET, QUORUM["write"])]
    held = [one for one in places if len(one & answering) < QUORUM["ack"]] + [thin] * bool(thin)
    holders = [
        Holders(known=tuple(sorted(one & answering)), perhaps=tuple(sorted(one - answering)))
        for one in held
    ]
    return AuditReport(
        entries=len(places) + 1,
        unknown=sum(not one <= answering for one in places),
        missing=bool(thin),
        below_ack_quorum=bool(thin),
        last_copies=LastCopies(entries=len(holders), groups=len(holders), held_by=tuple(holders)),
    )


def boot(actor: Actor, reason: str) -> None:
    actor.epoch += 1
    actor.reason, actor.phase, actor.running = reason, Phase.BOOTING, True


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.is_asleep = False

    def step(self) -> Plan:
        world = self.world
        before = world.out()
        seen = world.see()
        made = plan(world.cluster(), seen, world.status)
        self.judge(made, before)
        world.status = made.status
        world.carry_out(made)
        return made

    def judge(self, made: Plan, out: set[BookieId]) -> None:
        destructive = [action for action in made.actions if isinstance(action, Destructive)]
        assert len(destructive) <= 1
        budget = self.world.cluster().spec.quorum.ack - 1
        for action in destructive:
            candidate = candidate_of(action)  # type: ignore[arg-type]
            assert len(out | {candidate}) <= budget
            assert not self.world.paused and self.world.reachable
            last = [x for x in self.world.last_copies() if candidate in (*x.known, *x.perhaps)]
            assert not any(set(one.known) <= out | {candidate} for one in last)
            if isinstance(action, RestartBookie):
                # Of a candidate that is silent nobody knows it. It is out already, and a restart
                # within the budget is how a broken rollout is mended.
                known = [
                    actor.limbo
                    for name, actor in self.world.bookies.items()
                    if name != candidate or not actor.silent
                ]
                assert not any(known)
        started = [a for a in made.actions if isinstance(a, StartJob)]
        assert not {action.name for action in started} & set(self.world.jobs)
        self.judge_status(made.status)

    def judge_status(self, status: ClusterStatus) -> None:
        in_limbo = [actor for actor in self.world.bookies.values() if actor.limbo]
        limbo = status.condition(ConditionType.LIMBO_PRESENT)
        verified = status.is_true(ConditionType.DURABILITY_VERIFIED)
        assert limbo is not None
        assert not in_limbo or limbo.status != "False"
        assert not in_limbo or not verified
        for incident in status.incidents:
            assert incident.outcome != "Cleared" or incident.cleared_at is not None

    @rule(name=names)
    def crash(self, name: BookieId) -> None:
        self.world.bookies[name].running = False
        self.world.bookies[name].next_reason = "UncleanShutdown"

    @rule(name=names)
    def lose_a_disk(self, name: BookieId) -> None:
        actor = self.world.bookies[name]
        actor.running, actor.empty_disk, actor.next_reason = False, True, "DiskReplaced"

    @rule(name=names)
    def come_back(self, name: BookieId) -> None:
        actor = self.world.bookies[name]
        if not actor.running:
            boot(actor, actor.next_reason)

    @rule(name=names)
    def boot_on(self, name: BookieId) -> None:
        actor = self.world.bookies[name]
        if not actor.running:
            return
        if actor.phase is Phase.BOOTING:  # it asks before it marks anything
            actor.phase = Phase.AWAITING_APPROVAL if actor.empty_disk else Phase.MARKING
        elif actor.phase is Phase.MARKING:
            if actor.reason != "CleanStop":
                actor.limbo = 3
            actor.phase = Phase.SERVING

    @rule(name=names, silent=st.booleans())
    def fall_silent(self, name: BookieId, silent: bool) -> None:
        self.world.bookies[name].silent = silent

    @rule(seconds=st.sampled_from([0.5, 30.0, 1000.0]))
    def wait(self, seconds: float) -> None:
        self.world.now += seconds

    @rule(good=st.booleans())
    def jobs_end(self, good: bool) -> None:
        for job in [job for job in self.world.jobs.values() if job.running]:
            self.end_job(job, good=good)

    def end_job(self, job: Job, *, good: bool) -> None:
        world = self.world
        world.end(job.name, exit_code=0 if good else 1)
        if not good:
            return
        done = world.jobs[job.name]
        if job.kind is JobKind.AUDIT:
            world.jobs[job.name] = replace(done, report=audit_of(world.thin, world.answering()))
            return
        if job.kind is JobKind.MEND:
            world.jobs[job.name] = replace(done, report=MendReport(entries_copied=1))
            return
        world.jobs[job.name] = replace(done, report=RepairReport(entries_copied=1))
        assert job.bookie is not None
        actor = world.bookies[job.bookie]
        if actor.running and actor.phase is Phase.SERVING and actor.epoch == job.boot_epoch:
            actor.limbo = 0

    @rule(names=st.frozensets(names, max_size=2))
    def copies_are_lost_or_found(self, names: frozenset[BookieId]) -> None:
        self.world.thin = names

    @rule()
    def store_goes_or_comes(self) -> None:
        self.world.reachable = not self.world.reachable

    @rule(journaled=st.booleans(), paused=st.booleans())
    def spec_changes(self, journaled: bool, paused: bool) -> None:
        self.world.journaled, self.world.paused = journaled, paused

    @rule()
    def operator_sleeps_or_wakes(self) -> None:
        self.is_asleep = not self.is_asleep

    @rule()
    def operator_dies_before_it_writes_status(self) -> None:
        world = self.world
        out = world.out()
        made = plan(world.cluster(), world.see(), world.status)
        self.judge(made, out)
        world.carry_out(made)

    @precondition(lambda self: self.world.status.incidents)
    @rule()
    def in_the_end_all_is_well(self) -> None:
        """Left alone, the fleet is brought back; a person answers what only a person may."""
        world = self.world
        world.reachable, world.paused, world.thin = True, False, frozenset()
        for name, actor in world.bookies.items():
            actor.silent = False
            self.come_back(name)
        for _ in range(60):
            made = self.step()
            world.now += 400
            for name in world.bookies:
                self.boot_on(name)
            for refusal in made.refusals:
                if refusal.action == "CookieFix" and refusal.predicate in PERSONS:
                    world.bookies[BookieId(refusal.bookie)].fix()
            self.jobs_end(good=True)
        assert not world.out()
        assert world.status.is_true(ConditionType.DURABILITY_VERIFIED)
        assert not world.status.is_true(ConditionType.POSSIBLE_DATA_LOSS)
        assert all(actor.journaled == world.journaled for actor in world.bookies.values())

    @invariant()
    def operator_looks(self) -> None:
        if not self.is_asleep:
            self.step()

    @invariant()
    def one_repair_runs(self) -> None:
        running = [job for job in self.world.jobs.values() if job.running]
        assert len([job for job in running if job.kind is JobKind.REPAIR]) <= 1


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=30,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_a_disk_lost_while_another_bookie_is_cut_off_needs_no_person_once_that_one_is_back() -> (
    None
):
    """The audit that runs meanwhile can ask neither, and the next one may not wait for both."""
    story = Histories()
    story.step()
    story.copies_are_lost_or_found(frozenset(FLEET[:2]))
    story.fall_silent(FLEET[0], silent=True)
    story.lose_a_disk(FLEET[1])
    story.jobs_end(good=True)
    story.come_back(FLEET[1])
    story.boot_on(FLEET[1])
    assert [refusal.predicate for refusal in story.step().refusals] == ["LastCopy"]
    story.in_the_end_all_is_well()
