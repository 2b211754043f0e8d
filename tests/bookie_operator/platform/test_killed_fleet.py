"""The operator is killed after each call to the API server; a new one knows only the objects.

From nothing to a serving fleet, from an unclean restart to limbo cleared and verified, and from one
bookie too many to its end: each volume is made once, each incident is told once, its repair is
started once, and who left is not started again.
"""

import asyncio
import copy
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from bookie.ids import BookieId
from bookie_operator.fleet import Fleet
from bookie_operator.metrics import OperatorMetrics
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.platform.kubernetes.api import (
    CLAIM,
    CLUSTER,
    EVENT,
    JOB,
    STATEFUL_SET,
    Kind,
    Object,
)
from bookie_operator.platform.kubernetes.names import BOOKIE_LABEL, RETAINED_LABEL
from fake_api import Killed
from fake_pods import FakeBookies
from kubernetes_lab import Lab
from virtual_time import clock, in_virtual_time

IDS: Final = tuple(BookieId(f"bookie-{n}") for n in range(3))
LIFE_MAX_S: Final = 120.0
"""Virtual; a life ends earlier when everything is as it shall be."""
STEP_S: Final = 0.5
"""Between two looks of controllers and kubelet."""
CALL_S: Final = 0.002
CALLS_MAX: Final = 2000


class World:
    """One namespace that outlives its operators."""

    def __init__(self, replicas: int = 3) -> None:
        self.lab = Lab(replicas=replicas, audit={"schedule": "@never"})
        self.bookies = FakeBookies(self.lab.controllers)

    async def live(self, is_over: Callable[["World"], bool], *, killed_at: int = 0) -> bool:
        """One operator's life, until it is killed or all is well. False = killed."""
        calls = 0

        def count() -> None:
            nonlocal calls
            calls += 1
            self.pass_time(CALL_S)
            if calls == killed_at:
                raise Killed

        self.lab.api.after_call = count
        started = clock()
        fleet = Fleet(
            self.lab.api,
            "demo",
            metrics=OperatorMetrics(),
            control=lambda _credentials: self.bookies,
            opener=self.bookies.open_store,
            clock=lambda: self.lab.api.now,
        )
        running = asyncio.ensure_future(fleet.run(lambda: False))
        while not running.done() and not is_over(self):
            assert clock() - started < LIFE_MAX_S, self.lab.cluster.status
            await asyncio.sleep(STEP_S)
            self.pass_time(STEP_S)
            self.bookies.step()
        running.cancel()
        [ended] = await asyncio.gather(running, return_exceptions=True)
        self.lab.api.after_call = lambda: None
        assert isinstance(ended, Killed | asyncio.CancelledError), ended
        return not isinstance(ended, Killed)

    def pass_time(self, seconds: float) -> None:
        self.lab.api.now += timedelta(seconds=seconds)

    def copy(self) -> "World":
        """Another one from here on; the metadata, which nobody changes any more, is shared."""
        shared = (self.bookies.metadata, self.bookies.sessions)
        return copy.deepcopy(self, {id(one): one for one in shared})


def serves(world: World) -> bool:
    return world.lab.cluster.status.is_true(ConditionType.DURABILITY_VERIFIED)


def is_mended(world: World) -> bool:
    status = world.lab.cluster.status
    done = [incident.outcome.value == "Cleared" for incident in status.incidents]
    return done == [True] and status.is_true(ConditionType.DURABILITY_VERIFIED)


def made(world: World, kind: Kind) -> Counter[str]:
    """Names of this kind, and how often an object of each came to be."""
    return Counter(name for k, name in world.lab.api.made if k == kind.name)


def told(world: World) -> Counter[str]:
    return Counter(one["reason"] for one in world.lab.api.all(EVENT))


@in_virtual_time
async def test_a_fleet_comes_up_over_any_death_of_its_operator() -> None:
    for killed_at in range(1, CALLS_MAX):
        world = World()
        await world.bookies.register(*IDS)
        survived = await world.live(serves, killed_at=killed_at)
        if not survived:
            await world.live(serves)
        assert set(made(world, CLAIM).values()) == set(made(world, STATEFUL_SET).values()) == {1}
        assert made(world, JOB) == {"demo-audit-1": 1}
        assert [boots.epoch for boots in world.bookies.boots.values()] == [1, 1, 1]
        if survived:
            return


@in_virtual_time
async def test_an_unclean_restart_is_mended_once_over_any_death_of_its_operator() -> None:
    healthy = World()
    await healthy.bookies.register(*IDS)
    await healthy.live(serves)
    healthy.lab.controllers.restart_container("demo-bookie-1-0")
    for killed_at in range(1, CALLS_MAX):
        world = healthy.copy()
        survived = await world.live(is_mended, killed_at=killed_at)
        if not survived:
            await world.live(is_mended)
        check_mended(world)
        if survived:
            return


def check_mended(world: World) -> None:
    [incident] = world.lab.cluster.status.incidents
    assert (incident.kind, incident.bookie) == ("UncleanShutdown", "bookie-1")
    assert (incident.entries_copied, incident.attempts) == (7, 1)
    seen = told(world)
    assert (seen["UncleanShutdown"], seen["LimboCleared"]) == (1, 1)
    jobs = {"demo-audit-1": 1, "demo-bookie-1-2-1": 1, "demo-audit-2": 1}
    assert made(world, JOB) == jobs
    assert world.bookies.boots["bookie-1"].epoch == 2, "and it was not restarted again"


@in_virtual_time
async def test_a_bookie_leaves_once_over_any_death_of_its_operator() -> None:
    healthy = World(replicas=4)
    await healthy.bookies.register(*healthy.lab.cluster.spec.bookie_ids)
    await healthy.live(serves)
    healthy.lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(replicas=3))
    for killed_at in range(1, CALLS_MAX):
        world = healthy.copy()
        survived = await world.live(has_left, killed_at=killed_at)
        if not survived:
            await world.live(has_left)
        assert world.bookies.boots["bookie-3"].epoch == 1, "it was never started again"
        kept = [one for one in world.lab.api.all(CLAIM) if RETAINED_LABEL in labels(one)]
        assert {labels(one)[BOOKIE_LABEL] for one in kept} == {"bookie-3"} and len(kept) == 3
        if survived:
            return


def has_left(world: World) -> bool:
    status = world.lab.cluster.status
    return status.drain is None and [one.id for one in status.bookies] == list(IDS)


def labels(thing: Object) -> dict[str, str]:
    found: dict[str, str] = thing["metadata"]["labels"]
    return found
