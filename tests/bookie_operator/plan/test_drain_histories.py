"""Histories of replicas and excluded numbers: no bookie is removed with a ledger left, or in limbo.

Bookies crash, and one at a time dies for good; ledgers come, jobs end well or badly, and the
operator is killed before, between and after its actions: all it remembers is the status that it
published.
"""

from dataclasses import dataclass, field, replace
from functools import cache

from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_numbers import by_number
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.reports import AuditReport, RereplicationReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, Job, JobKind, Observed
from bookie_operator.plan.actions import (
    Action,
    CreateVolume,
    Destructive,
    DrainBookie,
    RemoveBookie,
    StartBookie,
    StartJob,
    StopJob,
)
from bookie_operator.plan.planner import Plan, plan
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from operator_scenes import HEALTHY, at, bookie, cluster

ENSEMBLE, MOST = 3, 6
names = st.sampled_from([BookieId(f"bookie-{ordinal}") for ordinal in range(MOST)])


@cache
def wanted(replicas: int, excluded: tuple[int, ...] = ()) -> BookieCluster:
    never = {"schedule": "@never"}
    numbers = list(excluded)
    return cluster(
        replicas=replicas, excludedOrdinals=numbers, audit=never, lostBookieDelaySeconds=30
    )


@dataclass
class Actor:
    """One bookie as it really is; `counted` is what it last counted since it drains."""

    running: bool = True
    instance: int = 1
    epoch: int = 1
    limbo: int = 0
    ledgers: int = 0
    draining: bool = False
    counted: int | None = None
    has_booted: bool = True
    silent: bool = False
    dead: bool = False
    """Its node is lost: it does not start."""
    stopping: bool = False
    """Being removed: its last answer is remembered for a while, and then its process is gone."""

    @property
    def can_write(self) -> bool:
        return self.running and self.has_booted and not self.draining and not self.stopping


@dataclass
class World:
    now: float = 0.0
    replicas: int = 4
    excluded: tuple[int, ...] = ()
    fleet: dict[BookieId, Actor] = field(default_factory=dict)
    gone: dict[BookieId, Actor] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    status: ClusterStatus = field(default_factory=ClusterStatus)

    @property
    def all(self) -> list[Actor]:
        """Those that were removed too: one comes back with its disks, and on its node."""
        return [*self.fleet.values(), *self.gone.values()]

    def cluster(self) -> BookieCluster:
        return wanted(self.replicas, self.excluded)

    def see(self) -> Observed:
        fleet = {name: self.seen(name, actor) for name, actor in self.fleet.items()}
        return Observed(at(self.now), HEALTHY, fleet, tuple(self.jobs.values()))

    def seen(self, name: BookieId, actor: Actor) -> Bookie:
        one = bookie(
            name,
            of=self.cluster(),
            phase=self.phase(actor),
            epoch=actor.epoch,
            reason="UncleanShutdown" if actor.limbo else "CleanStop",
            limbo=actor.limbo,
            running=actor.running,
            has_cookie=actor.has_booted,
            process_facts={"instance": f"{name}.{actor.instance}"},
            draining=actor.draining,
            ledgers_naming_it=actor.counted if actor.draining else None,
            is_fresh=not actor.stopping,
        )
        return one

    def phase(self, actor: Actor) -> Phase | None:
        if actor.silent:
            return None
        if not actor.has_booted:
            return Phase.BOOTING
        return Phase.DRAINING if actor.draining else Phase.SERVING

    def carry_out(self, action: Action) -> None:
        match action:
            case CreateVolume(bookie_id, _):
                if bookie_id not in self.fleet:
                    actor = self.gone.pop(bookie_id, Actor(epoch=0, has_booted=False))
                    self.fleet[bookie_id] = replace(actor, running=False)
            case StartBookie(template):
                start(self.fleet[template.bookie_id])
            case DrainBookie(bookie_id, cancel):
                actor = self.fleet[bookie_id]
                if actor.can_write or actor.draining:
                    actor.draining, actor.counted = not cancel, None
            case RemoveBookie(bookie_id, instance, _):
                self.remove(bookie_id, instance)
            case StartJob():
                self.start_job(action)
            case StopJob(name, _):
                self.end(name, exit_code=-15)

    def remove(self, name: BookieId, instance: str) -> None:
        actor = self.fleet[name]
        if actor.running and f"{name}.{actor.instance}" != instance:
            return  # the platform's precondition
        assert actor.ledgers == 0, f"{name} is removed with {actor.ledgers} ledgers on it"
        others = [one for one in self.fleet.values() if one is not actor or not actor.dead]
        assert not any(one.limbo for one in others), "removed while in limbo"
        actor.stopping = True

    def stopped(self, names: set[BookieId]) -> None:
        for name in names:
            if self.fleet[name].stopping:
                self.gone[name] = replace(self.fleet.pop(name), stopping=False)

    def start_job(self, action: StartJob) -> None:
        assert action.name not in self.jobs, "names are used once"
        self.jobs[action.name] = Job(
            name=action.name,
            kind=action.kind,
            attempt=action.attempt,
            running=True,
            started_at=at(self.now),
            bookie=action.bookie_id,
            boot_epoch=action.boot_epoch,
        )

    def end(self, name: str, *, exit_code: int) -> None:
        job = self.jobs[name]
        self.jobs[name] = replace(job, running=False, ended_at=at(self.now), exit_code=exit_code)


def start(actor: Actor) -> None:
    if not actor.running and not actor.dead:
        actor.running, actor.counted = True, None
        actor.instance += 1
        actor.epoch += 1
        actor.has_booted = True


def moved(actor: Actor | None) -> RereplicationReport:
    if actor is not None and actor.running:
        return RereplicationReport(refused="it is registered")
    if actor is not None:
        actor.ledgers = 0
    return RereplicationReport(ledgers_moved=1)


class Replicas(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        for ordinal in range(self.world.replicas):
            self.world.fleet[BookieId(f"bookie-{ordinal}")] = Actor(ledgers=1)

    def planned(self) -> Plan:
        world = self.world
        made = plan(world.cluster(), world.see(), world.status)
        assert len([action for action in made.actions if isinstance(action, Destructive)]) <= 1
        world.status = made.status
        return made

    def step(self) -> None:
        for action in self.planned().actions:
            self.world.carry_out(action)

    @rule(replicas=st.integers(ENSEMBLE, MOST))
    def scale(self, replicas: int) -> None:
        self.world.replicas = replicas

    @rule(ordinal=st.integers(0, MOST - 1))
    def exclude_or_take_back(self, ordinal: int) -> None:
        world = self.world
        world.excluded = tuple({ordinal} ^ set(world.excluded))[-3:]

    @rule(name=names, is_given_up=st.booleans())
    def die(self, name: BookieId, is_given_up: bool) -> None:
        world = self.world
        actor = world.fleet.get(name)
        if actor is None or any(one.dead for one in world.all):
            return
        self.stop(name, unclean=True)
        actor.dead = not actor.running
        if is_given_up and actor.dead:
            world.excluded = tuple({*world.excluded[:2], by_number(name)[1]})

    @rule(is_back=st.sampled_from([False, False, True]))
    def node_comes_back(self, is_back: bool) -> None:
        for actor in self.world.all:
            actor.dead = actor.dead and not is_back

    @rule(name=names)
    def ledger_comes(self, name: BookieId) -> None:
        actor = self.world.fleet.get(name)
        if actor is not None and actor.can_write:
            actor.ledgers += 1

    @rule(name=names)
    def count(self, name: BookieId) -> None:
        actor = self.world.fleet.get(name)
        if actor is not None and actor.draining and actor.running:
            actor.counted = actor.ledgers

    @rule(name=names, unclean=st.booleans())
    def stop(self, name: BookieId, unclean: bool) -> None:
        actor = self.world.fleet.get(name)
        if actor is not None and actor.running and actor.has_booted and not actor.stopping:
            actor.running = False
            actor.limbo = 2 if unclean and actor.ledgers else actor.limbo

    @rule(name=names)
    def come_back(self, name: BookieId) -> None:
        if name in self.world.fleet:
            start(self.world.fleet[name])

    @rule(name=names, silent=st.booleans())
    def fall_silent(self, name: BookieId, silent: bool) -> None:
        if name in self.world.fleet:
            self.world.fleet[name].silent = silent

    @rule(good=st.booleans())
    def jobs_end(self, good: bool) -> None:
        world = self.world
        for job in [job for job in world.jobs.values() if job.running]:
            world.end(job.name, exit_code=0 if good else 1)
            actor = world.fleet.get(job.bookie or BookieId(""))
            if good and job.kind is JobKind.AUDIT:
                world.jobs[job.name] = replace(world.jobs[job.name], report=AuditReport(ok=1))
            if job.kind is JobKind.REREPLICATE and good:
                world.jobs[job.name] = replace(world.jobs[job.name], report=moved(actor))
            if actor is None or not good:
                continue
            if job.kind is JobKind.DRAIN and actor.draining:
                actor.ledgers = 0
            elif job.kind is JobKind.REPAIR and actor.running:
                actor.limbo = 0

    @rule()
    def stops_end(self) -> None:
        self.world.stopped(set(self.world.fleet))

    @rule(seconds=st.sampled_from([1.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.world.now += seconds

    @rule(done=st.integers(0, 3))
    def operator_dies_between_its_actions(self, done: int) -> None:
        for action in self.planned().actions[:done]:
            self.world.carry_out(action)

    @rule()
    def operator_dies_before_it_publishes(self) -> None:
        plan(self.world.cluster(), self.world.see(), self.world.status)

    @rule()
    def left_alone_as_many_run_as_are_wanted(self) -> None:
        world = self.world
        for name, actor in (*world.fleet.items(), *world.gone.items()):
            actor.dead = actor.dead and name not in world.cluster().spec.bookie_ids
        for _ in range(120):
            if self.is_as_wanted():
                break
            if self.is_loss_possible():  # a person must look, and brings the node back
                self.node_comes_back(is_back=True)
            for name in list(world.fleet):
                world.fleet[name].silent = False
                self.come_back(name)
                self.count(name)
            stopping = {name for name, actor in world.fleet.items() if actor.stopping}
            self.step()
            world.stopped(stopping)
            self.jobs_end(good=True)
            world.now += 1000
        assert self.is_as_wanted()

    def is_loss_possible(self) -> bool:
        """Two were in limbo at once: what the dead one holds may be the only copy."""
        found = self.world.status.condition(ConditionType.POSSIBLE_DATA_LOSS)
        return found is not None and found.status == "True"

    def is_as_wanted(self) -> bool:
        world = self.world
        names = set(world.cluster().spec.bookie_ids)
        return (
            set(world.fleet) == names == {one.id for one in world.status.bookies}
            and all(one.can_write and not one.silent for one in world.fleet.values())
            and world.status.drain is None
        )

    @invariant()
    def operator_looks(self) -> None:
        self.step()

    @invariant()
    def enough_take_entries(self) -> None:
        """As long as as many run as an ensemble needs, as many can be written to."""
        fleet = self.world.fleet.values()
        if all(actor.running and actor.has_booted and not actor.silent for actor in fleet):
            self.step()
            assert sum(actor.can_write for actor in fleet) >= ENSEMBLE


TestReplicas = Replicas.TestCase
TestReplicas.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
