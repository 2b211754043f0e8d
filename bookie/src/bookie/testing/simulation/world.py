"""One simulation from seed to verdict.

Load and faults together; then everything is healed, the load stops, and the judge (`judge`) demands
progress. Whatever is violated on the way is in the history.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from bookie.metadata.memory import MemoryCluster
from bookie.metadata.store import MetadataStore
from bookie.points import POINTS
from bookie.protocol.availability import EntrySet
from bookie.protocol.ids import LedgerId
from bookie.testing.simulation import clients
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.clients import Shared
from bookie.testing.simulation.faults import Faults, Scene
from bookie.testing.simulation.history import History
from bookie.testing.simulation.judge import Judge
from bookie.testing.simulation.loop import OWNER, SimLoop, Stuck
from bookie.testing.simulation.metadata import SimStore, StoreWeather
from bookie.testing.simulation.network import Network, Weather
from bookie.testing.simulation.plan import LOAD_S, Plan, plan_of
from bookie.testing.simulation.process import Process
from bookie.testing.simulation.surroundings import EPOCH_S, replaced
from bookie.testing.simulation.wiretap import Wiretap

Role = Callable[[Shared, MetadataStore, str], Awaitable[None]]


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


def simulate(plan: Plan, *, with_lines: bool = False) -> Verdict:
    """Runs the plan. The same plan gives the same verdict and the same hash, always."""
    network = Network(_rng(plan, "network"), Weather(latency_s=plan.scale.latency_s))
    loop = SimLoop(network, _rng(plan, "loop"))
    network.loop = loop
    world = World(plan, loop, network)
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
    """See the module."""

    def __init__(self, plan: Plan, loop: SimLoop, network: Network) -> None:
        self.plan = plan
        self.history = History(loop.time)
        self._loop = loop
        self._network = network
        self._cluster = MemoryCluster()
        self._store_weather = StoreWeather()
        self._clock_offset = 0.0
        self._wiretap = network.tap = Wiretap(self.history, self._lost)
        self.history.has_stored = self._wiretap.has_acknowledged
        self._shared = Shared(
            plan.scale,
            network,
            self.history,
            _rng(plan, "clients"),
            losses_expected=not plan.keeps_budget,
        )
        self._bookies = [self._bookie(f"bookie-{n}") for n in range(plan.scale.bookies)]
        self._clients: dict[str, tuple[Role, Process, SimStore]] = {}
        self._generation = 0
        self._killed_at: dict[str, int] = {}
        self._scene = Scene(
            plan, self._bookies, network, self._store_weather, self.history, _rng(plan, "faults"),
            self._restart_client, self._restart_repair, self._jump_clock,
            lambda: list(self._clients), self._wiretap.excuse,
        )  # fmt: skip
        self._faults = Faults(self._scene)

    # Time of day
    def wall(self) -> float:
        return EPOCH_S + self._loop.time() + self._clock_offset

    def _jump_clock(self, seconds: float) -> None:
        self._clock_offset += seconds

    # Who is there
    def _bookie(self, name: str) -> SimBookie:
        return SimBookie(
            name,
            self.plan.scale,
            loop=self._loop,
            network=self._network,
            rng=_rng(self.plan, name),
            make_store=self._store,
            told=self.history.note,
        )

    def _lost(self, bookie: str, ledger_id: LedgerId) -> EntrySet:
        return next(one.lost(ledger_id) for one in self._bookies if one.name == bookie)

    def passing(self, point: str) -> None:
        """A place of the code that `bookie.points` names is passed by whoever runs now."""
        owner = OWNER.get()
        name = owner.name if isinstance(owner, Process) else ""
        for bookie in self._bookies:
            if bookie.name == name:
                bookie.passing(point)
        if name in self._clients and self._scene.armed_points.pop(point, None) is not None:
            self.history.note(f"{name} is killed: {point}")
            self._killed_at[point] = self._killed_at.get(point, 0) + 1
            self._begin(name, self._end_client(name))

    def _store(self, process: Process) -> SimStore:
        return SimStore(
            process.name,
            self._cluster,
            loop=self._loop,
            network=self._network,
            weather=self._store_weather,
            rng=_rng(self.plan, f"store/{process.name}/{self._loop.time()}"),
            changed=self.history.changed,
        )

    def _begin(self, name: str, role: Role) -> None:
        self._generation += 1
        rng = _rng(self.plan, f"{name}/{self._generation}")
        process = Process(name, self._loop, rng, work_s=self.plan.scale.work_s)
        store = self._store(process)
        self._clients[name] = (role, process, store)
        process.spawn(role(self._shared, store, name))  # type: ignore[arg-type]

    def _end_client(self, name: str) -> Role:
        role, process, store = self._clients.pop(name)
        process.kill()
        self._network.forget(process)
        store.die()
        return role

    def _restart_client(self, number: int) -> str:
        names = [name for name in self._clients if name != "repair"]
        if not names:
            return "nobody"
        name = names[number % len(names)]
        self._begin(name, self._end_client(name))
        return name

    def _restart_repair(self) -> None:
        self._begin("repair", self._end_client("repair"))

    def _begin_all(self) -> None:
        scale = self.plan.scale
        for bookie in self._bookies:
            bookie.start()
        self._begin("repair", clients.repair_marks)
        roles: list[tuple[str, Role, int]] = [
            ("writer", clients.write_ledgers, scale.writers),
            ("owner", clients.own_log, scale.logs),
            ("reader", clients.tail_ledgers, scale.readers),
            ("recoverer", clients.recover_ledgers, scale.recoverers),
            ("deleter", clients.delete_ledgers, scale.deletions),
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
        await asyncio.sleep(max(0.0, LOAD_S - self._loop.time()))
        for task in [watch, *ongoing]:
            task.cancel()
        await asyncio.gather(watch, *ongoing, return_exceptions=True)
        self._heal()
        await self._demand_progress()

    def _heal(self) -> None:
        self.history.note("healing")
        self._network.heal()
        self._store_weather.is_out = False
        self._store_weather.lost_replies = self._store_weather.stale_listing = 0.0
        for bookie in self._bookies:
            bookie.mend()
            bookie.is_wanted = True
            bookie.start()
        for name in [name for name in self._clients if name != "repair"]:
            self._end_client(name)

    async def _demand_progress(self) -> None:
        process = Process("judge", self._loop, _rng(self.plan, "judge"), work_s=0.001)
        judge = Judge(self.plan, self._bookies, self._shared, self._scene.counts)
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
