"""One simulation from seed to verdict.

Load and faults together; then everything is healed, the load stops, and the judge (`judge`) demands
progress. Whatever is violated on the way is in the history.
"""

import asyncio
import contextvars
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from bookie.client.log_list import LedgerList
from bookie.ids import LedgerId
from bookie.metadata.memory import MemoryCluster
from bookie.metadata.store import MetadataStore
from bookie.points import POINTS
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import LedgerMetadata
from bookie.testing.simulation import clients, owners
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.clients import LOG_NAME, Shared
from bookie.testing.simulation.collection_watch import CollectionWatch
from bookie.testing.simulation.disk import MachineDisk
from bookie.testing.simulation.faults import Faults
from bookie.testing.simulation.history import History
from bookie.testing.simulation.identity_watch import IdentityWatch
from bookie.testing.simulation.judge import Judge
from bookie.testing.simulation.loop import OWNER, SimLoop, Stuck
from bookie.testing.simulation.marks_watch import MarksWatch
from bookie.testing.simulation.metadata import SimStore, StoreWeather
from bookie.testing.simulation.network import ELSEWHERE, Network, Weather
from bookie.testing.simulation.plan import Plan
from bookie.testing.simulation.plan_choice import plan_of
from bookie.testing.simulation.process import Process
from bookie.testing.simulation.scene import Scene
from bookie.testing.simulation.surroundings import EPOCH_S, replaced
from bookie.testing.simulation.visitors import ask_replicas
from bookie.testing.simulation.wiretap import ANSWER_S, Wiretap

Hosted = TypeVar("Hosted", bound=SimBookie)
Role = Callable[[Shared, MetadataStore, str], Awaitable[None]]
REPAIR: Final = "repair"
"""The process of whoever repairs."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one simulation went. `digest`: hash of its history."""

    plan: Plan
    violations: tuple[str, ...]
    digest: str
    simulated_s: float
    acked: int
    read: int
    messages_lost: int
    faults: dict[str, int] = field(default_factory=dict)
    points: dict[str, int] = field(default_factory=dict)
    """Named places of the code (`bookie.points`) at which power went."""
    lines: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        return not self.violations


def simulate(
    plan: Plan,
    *,
    with_lines: bool = False,
    begin: "Callable[[Plan, SimLoop, Network], World] | None" = None,
) -> Verdict:
    """Runs the plan. The same plan gives the same verdict and the same hash, always.

    `begin`: makes another kind of world of it.
    """
    network = Network(_rng(plan, "network"), Weather(latency_s=plan.scale.latency_s))
    loop = SimLoop(network, _rng(plan, "loop"))
    network.loop = loop
    world = (begin or World)(plan, loop, network)
    if with_lines:
        world.history.lines = []
    with replaced(loop.time, world.wall, world.passing, plan.seed):
        try:
            loop.run_until_complete(world.run())
        except Stuck as stuck:
            world.history.violate(f"stuck: {stuck}")
        finally:
            world.end(loop)
    for defect in loop.defects:
        world.history.violate(f"a defect: {defect}")
    return world.verdict()


def simulate_seed(seed: int) -> Verdict:
    """For pools of processes."""
    return simulate(plan_of(seed))


def _rng(plan: Plan, what: str) -> random.Random:
    return random.Random(f"{what}/{plan.seed}")


class World:
    """See the module. Another kind of world says who its bookies, its repairer, its judge are."""

    def __init__(self, plan: Plan, loop: SimLoop, network: Network) -> None:
        self.plan = plan
        self.history = History(loop.time)
        self._loop = loop
        self._network = network
        self._cluster = MemoryCluster()
        self._store_weather = StoreWeather()
        self._clock_offset = 0.0
        network.identities = IdentityWatch(self.history)
        self._wiretap = network.tap = Wiretap(self.history, self._lost, self._held, loop.time)
        self.history.has_stored = self._wiretap.has_acknowledged
        self._shared = Shared(
            plan.scale,
            network,
            self.history,
            _rng(plan, "clients"),
            losses_expected=not plan.keeps_budget,
        )
        self._bookies = [self._bookie(f"bookie-{n}") for n in range(plan.scale.bookies)]
        self._watch = MarksWatch(self._bookies, self.history, self._wiretap)
        self._collection = CollectionWatch(
            self._bookies, self.history, loop.time, patience_s=1.0 + 2.0 * plan.scale.collect_s
        )
        self._wiretap.mislaid = self._shared.mislaid = self._collection.mislaid
        self._wiretap.on_cleared = self._watch.cleared
        self._shared.marks = self._watch.marks
        self._shared.learned_fenced = self._wiretap.learned_fenced
        self._clients: dict[str, tuple[Role, Process, SimStore]] = {}
        self._visits = self._others = 0
        self._generation = 0
        self._killed_at: dict[str, int] = {}
        self._scene = Scene(
            plan, self._bookies, network, self._store_weather, self.history, _rng(plan, "faults"),
            self._restart_client, self._restart_repair, self._jump_clock,
            lambda: list(self._clients), self._wiretap.excuse,
            process_of=lambda name: self._clients[name][1],
            visit=self._visit,
            namesake=self._namesake,
            twin=self._twin,
            resting=self._shared.resting,
            distrust=self._distrust,
            look_at_marks=self._watch.look,
            cluster=self._cluster,
            collection=self._collection,
            writing=self._shared.writing,
            newcomers=self._wiretap.newcomers,
        )  # fmt: skip
        self._faults = Faults(self._scene)
        self._wiretap.on_answer = self._answered

    # Time of day
    def wall(self) -> float:
        return EPOCH_S + self._loop.time() + self._clock_offset

    def _jump_clock(self, seconds: float) -> None:
        self._clock_offset += seconds

    # Who is there
    def _bookie(self, name: str) -> SimBookie:
        return self._bookie_of(name, SimBookie)

    def _bookie_of(self, name: str, make: Callable[..., Hosted]) -> Hosted:
        return make(
            name,
            self.plan.scale,
            loop=self._loop,
            network=self._network,
            rng=_rng(self.plan, name),
            make_store=self._store,
            note=self.history.note,
            stopped_uncleanly=self._wiretap.stopped_uncleanly,
        )

    def _namesake(self, name: str) -> SimBookie:
        """Empty disks, and a metadata store of another cluster."""
        self._others += 1
        cluster, weather = MemoryCluster(), StoreWeather()

        def store(process: Process) -> SimStore:
            return SimStore(
                process.name,
                cluster,
                loop=self._loop,
                network=self._network,
                weather=weather,
                rng=_rng(self.plan, f"namesake/{name}/{self._loop.time()}"),
                changed=lambda _ledger_id, _metadata, _by: None,
            )

        return SimBookie(
            name,
            self.plan.scale,
            loop=self._loop,
            network=self._network,
            rng=_rng(self.plan, f"namesake/{name}/{self._others}"),
            make_store=store,
            note=lambda what: self.history.note(f"of another cluster: {what}"),
        )

    def _twin(self, name: str, disk: MachineDisk) -> SimBookie:
        self._others += 1
        machine = f"{name}{ELSEWHERE}{self._others}"
        made = SimBookie(
            name,
            self.plan.scale,
            loop=self._loop,
            network=self._network,
            rng=_rng(self.plan, machine),
            make_store=self._store,
            note=lambda what: self.history.note(f"on another machine: {what}"),
            elsewhere=machine,
        )
        made.disk = disk
        return made

    def _lost(self, bookie: str, ledger_id: LedgerId) -> EntrySet:
        return next(one.lost(ledger_id) for one in self._bookies if one.name == bookie)

    def _held(self, bookie: str, ledger_id: LedgerId) -> EntrySet | None:
        one = next(one for one in self._bookies if one.name == bookie)
        return one.held(ledger_id) if one.is_serving else None

    def passing(self, point: str) -> None:
        """A place of the code that `bookie.points` names is passed by whoever runs now."""
        owner = OWNER.get()
        name = owner.name if isinstance(owner, Process) else ""
        for bookie in self._bookies:
            if bookie.name == name:
                bookie.passing(point)
        self._perhaps_pauses(point, name)
        if name in self._clients and self._scene.armed_points.pop(point, None) is not None:
            self.history.note(f"{name} is killed: {point}")
            self._killed_at[point] = self._killed_at.get(point, 0) + 1
            self._begin(name, self._end_client(name))

    def _perhaps_pauses(self, point: str, name: str) -> None:
        """A fault waits for whoever passes here to stop for a while."""
        for pause in self._scene.pauses:
            if pause.point != point or not name.startswith(pause.who):
                continue
            pause.left -= 1
            if pause.left < 0:
                self._scene.pauses.remove(pause)
                self.history.note(f"{name} pauses: {point}")
                self._sleep(name, pause.lasts_s)
                return

    def _sleep(self, name: str, lasts_s: float) -> None:
        sleeper = next((one for one in self._bookies if one.name == name), None)
        process = sleeper or self._clients[name][1]
        process.sleep()
        self._shared.resting.add(name)

        def wake() -> None:
            process.wake()
            self._shared.resting.discard(name)

        self._loop.call_later(lasts_s, wake, context=contextvars.Context())

    def _answered(self, bookie: str, what: str) -> None:
        """A bookie has just given an answer of that kind."""
        waits = self._scene.answers.get(bookie)
        if waits is None or waits.what != what:
            return
        waits.left -= 1
        if waits.left < 0:
            del self._scene.answers[bookie]
            self._loop.call_soon(waits.then, context=contextvars.Context())

    def _store(self, process: Process) -> SimStore:
        return SimStore(
            process.name,
            self._cluster,
            loop=self._loop,
            network=self._network,
            weather=self._store_weather,
            rng=_rng(self.plan, f"store/{process.name}/{self._loop.time()}"),
            changed=self._ledger_changed,
        )

    def _ledger_changed(
        self, ledger_id: LedgerId, metadata: LedgerMetadata | None, by: str
    ) -> None:
        self._wiretap.changed(self.history.ledger(ledger_id).metadata, metadata)
        self.history.changed(ledger_id, metadata, by=by)
        stored = self._cluster.values.get(f"logs/{LOG_NAME}")
        if metadata is not None or stored is None or ledger_id in self._shared.deleted:
            return
        if ledger_id in LedgerList.decode(stored.value).ledgers:
            self.history.violate(f"ledger {ledger_id} was deleted while the log listed it")

    def _distrust(self, bookie: str) -> None:
        self._watch.excuse(bookie)
        self._wiretap.distrust(bookie)
        self._shared.distrusted.add(bookie)

    def _visit(self, title: str, role: Role) -> None:
        """A client that does one deed."""
        self._visits += 1
        name = f"{title}-{self._visits}"
        work = self._begin(name, role)
        work.add_done_callback(lambda _work: self._leaves(name, work))

    def _leaves(self, name: str, work: "asyncio.Task[None]") -> None:
        if not work.cancelled() and name in self._clients:
            self._end_client(name)

    def _begin(self, name: str, role: Role) -> "asyncio.Task[None]":
        self._generation += 1
        rng = _rng(self.plan, f"{name}/{self._generation}")
        process = Process(name, self._loop, rng, work_s=self.plan.scale.work_s)
        store = self._store(process)
        self._clients[name] = (role, process, store)
        return process.spawn(role(self._shared, store, name))  # type: ignore[arg-type]

    def _end_client(self, name: str) -> Role:
        role, process, store = self._clients.pop(name)
        process.kill()
        self._network.forget(process)
        store.die()
        return role

    def _restart_client(self, number: int) -> str:
        names = [name for name in self._clients if name != REPAIR]
        if not names:
            return "nobody"
        name = names[number % len(names)]
        self._begin(name, self._end_client(name))
        return name

    def _restart_repair(self) -> None:
        self._begin(REPAIR, self._end_client(REPAIR))

    def _repairer(self) -> Role:
        """Who brings back what bookies have forgotten, as the process of that name."""
        return clients.repair_marks

    def _works_on(self, name: str) -> bool:
        """Of a client: healing does not end it."""
        return name == REPAIR

    def _begin_all(self) -> None:
        scale = self.plan.scale
        for bookie in self._bookies:
            bookie.start()
        self._begin(REPAIR, self._repairer())
        roles: list[tuple[str, Role, int]] = [
            ("writer", clients.write_ledgers, scale.writers),
            ("owner", clients.own_log, scale.logs),
            ("reader", clients.tail_ledgers, scale.readers),
            ("recoverer", clients.recover_ledgers, scale.recoverers),
            ("deleter", clients.delete_ledgers, scale.deletions),
            ("asker", ask_replicas, scale.askers),
            ("follower", owners.follow_log, scale.followers),
        ]
        for title, role, count in roles:
            for number in range(count):
                self._begin(f"{title}-{number}", role)

    # The course of it
    async def run(self) -> None:
        self._begin_all()
        watch = self._loop.create_task(self._faults.watch_budget())
        ongoing: list[asyncio.Task[None]] = []
        await self._faults.run(lambda work: ongoing.append(self._loop.create_task(work)))  # type: ignore[arg-type]
        await asyncio.sleep(max(0.0, self.plan.scale.load_s - self._loop.time()))
        for task in [watch, *ongoing]:
            task.cancel()
        await asyncio.gather(watch, *ongoing, return_exceptions=True)
        self._heal()
        await self._demand_answers()
        await self._demand_progress()

    async def _demand_answers(self) -> None:
        """Clients ask nothing more; those whose work is done go."""
        done = [name for name in self._clients if not self._works_on(name)]
        for name in done:
            self._clients[name][1].sleep()
        await asyncio.sleep(ANSWER_S)
        self._wiretap.calmed_down(self._network.lasting())
        for name in done:
            if name in self._clients:
                self._end_client(name)

    def _heal(self) -> None:
        self.history.note("healing")
        self._network.heal()
        self._store_weather.is_out = False
        weather = self._store_weather
        weather.lost_replies = weather.stale_listing = weather.late_writes = 0.0
        weather.lost_values = 0.0
        weather.deposed.clear()
        weather.stale_since, weather.latency_s = None, StoreWeather().latency_s
        for bookie in self._bookies:
            bookie.mend()
            bookie.is_wanted = True
            bookie.start()
        for _role, process, _store in self._clients.values():
            process.wake()

    def _judge(self) -> Judge:
        return Judge(self.plan, self._bookies, self._shared, self._scene.counts)

    async def _demand_progress(self) -> None:
        process = Process("judge", self._loop, _rng(self.plan, "judge"), work_s=0.001)
        judge = self._judge()
        helping = self._loop.create_task(judge.obey_refusals())
        work = process.spawn(judge.run(self._store(process)))
        await asyncio.wait([work])
        helping.cancel()
        work.result()

    # The end
    def end(self, loop: SimLoop) -> None:
        """Unwinds whatever still runs and closes the loop."""
        for name in list(self._clients):
            self._end_client(name)
        for bookie in self._bookies:
            bookie.is_wanted = False
            bookie.crash(lambda disk: disk.kill())
        rest = [task for task in asyncio.all_tasks(loop) if not task.done()]
        for task in sorted(rest, key=lambda task: task.get_name()):
            task.cancel()
        loop.run_until_complete(_unwound(rest))
        loop.close()

    def _points(self) -> dict[str, int]:
        """How often power went at each place that `bookie.points` names."""
        found = dict(self._killed_at)
        for bookie in self._bookies:
            for what, count in bookie.crashes_at.items():
                if what in POINTS:
                    found[what] = found.get(what, 0) + count
        return found

    def verdict(self) -> Verdict:
        history = self.history
        return Verdict(
            self.plan,
            tuple(history.violations),
            history.digest,
            self._loop.time(),
            history.acks,
            history.reads,
            self._network.lost,
            dict(self._scene.counts),
            self._points(),
            tuple(history.lines or ()),
        )


async def _unwound(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
