"""The operator is killed before and after every call of a pass: yet everything happens once.

What it knew is gone; the next one begins from the status that was published last.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import BookieInfo, MetadataStore
from bookie.wire.admin.health import Phase
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.reports import (
    AuditReport,
    DrainReport,
    MendReport,
    RepairReport,
    ScrubReport,
)
from bookie_operator.model.task import TaskPhase
from bookie_operator.observe import Observer
from bookie_operator.observed import JobKind
from bookie_operator.reconcile import Reconciler
from fake_platform import FakeControl, FakePlatform
from operator_scenes import at, bookie, cluster, fix_request, task

B0, B3 = BookieId("bookie-0"), BookieId("bookie-3")


class Killed(BaseException):
    """SIGKILL: nothing may catch it."""


class Mortal:
    """Passes calls on until the `at`-th, before or after which the operator dies."""

    def __init__(self, inner: object, deaths: "Deaths") -> None:
        self._inner, self._deaths = inner, deaths

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            dies = self._deaths.count()
            if dies and not self._deaths.after:
                raise Killed
            answer = await getattr(self._inner, name)(*args, **kwargs)
            if dies:
                raise Killed
            return answer

        return call


class Deaths:
    def __init__(self, at_call: int, *, after: bool) -> None:
        self.left, self.after = at_call, after

    def count(self) -> bool:
        self.left -= 1
        return self.left == -1


class World:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.platform, self.control = FakePlatform(), FakeControl()
        self.metadata = MemoryCluster()
        self.cluster: BookieCluster = cluster()
        self.sessions: list[MemoryStore] = []

    def copy(self) -> "World":
        """Another one from here on; the metadata, which nobody changes any more, is shared."""
        other = copy(self)
        other.platform, other.control = deepcopy(self.platform), deepcopy(self.control)
        return other

    async def _open(self, url: str) -> MetadataStore:
        return MemoryStore(self.metadata)

    async def live(self, deaths: Deaths, passes: int) -> bool:
        """One operator's life, from the published status on; False = it was killed."""
        platform: Any = Mortal(self.platform, deaths)
        control: Any = Mortal(self.control, deaths)
        observer = Observer(platform, control, opener=self._open, clock=lambda: at(self.seconds))
        reconciler = Reconciler(platform, observer, control)
        for _ in range(passes):
            self.seconds += 1
            self.finish_jobs()
            try:
                await reconciler.run_pass(self.published)
            except Killed:
                return False
        return True

    @property
    def published(self) -> BookieCluster:
        last = self.platform.published[-1] if self.platform.published else self.cluster
        return self.cluster.model_copy(update={"status": last.status})

    async def settle(self) -> None:
        await self.live(Deaths(10**6, after=False), 3)
        for bookie_id in self.cluster.spec.bookie_ids:
            session = MemoryStore(self.metadata)
            await session.register(BookieInfo(bookie_id, ()))
            self.sessions.append(session)
        await self.live(Deaths(10**6, after=False), 3)
        self.platform.events.clear()

    def finish_jobs(self) -> None:
        """Jobs that run end well, and bookies say so."""
        for job in [job for job in self.platform.jobs_seen.values() if job.running]:
            done = replace(job, running=False, ended_at=at(self.seconds), exit_code=0)
            match job.kind:
                case JobKind.AUDIT:
                    done = replace(done, report=AuditReport(ok=1))
                case JobKind.SCRUB:
                    done = replace(done, report=ScrubReport())
                case JobKind.MEND:
                    done = replace(done, report=MendReport())
                case JobKind.REPAIR:
                    done = replace(done, report=RepairReport(entries_copied=7))
                    self.control.healths[B0] = self.unclean(0)
                case JobKind.DRAIN:
                    done = replace(done, report=DrainReport(ledgers_moved=5))
                    self.control.healths[B3] = draining(0)
            self.platform.jobs_seen[job.name] = done

    def unclean(self, limbo: int) -> Any:
        return bookie(B0, epoch=2, reason="UncleanShutdown", limbo=limbo).health


def draining(left: int) -> Any:
    return bookie(B3, phase=Phase.DRAINING, draining=True, ledgers_naming_it=left).health


def begin_unclean(world: World) -> None:
    world.control.healths[B0] = world.unclean(3)


def begin_cookie_fix(world: World) -> None:
    facts: dict[str, Any] = {
        "epoch": 2,
        "reason": "DiskReplaced",
        "verdicts": {"ledger-0": "empty"},
    }
    asks = bookie(B0, phase=Phase.AWAITING_APPROVAL, fix=fix_request(), **facts)
    world.control.healths[B0] = asks.health
    world.control.on_approval = bookie(B0, limbo=3, **facts).health


def begin_scale_down(world: World) -> None:
    world.cluster = cluster(replicas=3)
    world.control.on_drain = draining(5)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("begin", "told"),
    [
        (begin_unclean, ("UncleanShutdown", "LimboCleared")),
        (begin_cookie_fix, ("DiskWiped", "LimboCleared")),
        (begin_scale_down, ()),
    ],
)
async def test_an_operator_killed_anywhere_does_everything_once(
    begin: Callable[[World], None], told: tuple[str, ...], after: bool
) -> None:
    settled = World()
    await settled.settle()
    begin(settled)
    async for world in killed_anywhere(settled, after=after):
        check(world, told)


async def killed_anywhere(settled: World, *, after: bool) -> AsyncIterator[World]:
    """A world for each call at which the operator ends, some passes after the next one began."""
    for at_call in range(500):
        world = settled.copy()
        survived = await world.live(Deaths(at_call, after=after), 4)
        await world.live(Deaths(10**6, after=False), 6)
        yield world
        if survived:
            return
    pytest.fail("more calls than expected")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("asked", ["audit", "scrub", "repair"])
async def test_a_task_has_its_job_once_wherever_the_operator_is_killed(
    asked: str, after: bool
) -> None:
    settled = World()
    await settled.settle()
    jobs = len(settled.platform.jobs_seen)
    settled.platform.tasks_seen = [task(asked)]
    async for world in killed_anywhere(settled, after=after):
        [one] = world.platform.tasks_seen
        assert one.status.phase is TaskPhase.SUCCEEDED, one.status.message
        own = [name for name in world.platform.jobs_seen if name == one.status.target]
        assert own and len(world.platform.jobs_seen) <= jobs + 2  # an audit follows a repair


def check(world: World, told: tuple[str, ...]) -> None:
    events = Counter(event.reason for event in world.platform.events if event.once)
    assert events == dict.fromkeys(told, 1)
    status = world.published.status
    incidents = [(one.kind, one.outcome.value, one.entries_copied) for one in status.incidents]
    assert incidents == ([(told[0], "Cleared", 7)] if told else [])
    kinds = Counter(job.kind for job in world.platform.jobs_seen.values())
    assert kinds[JobKind.REPAIR] == len(incidents), "one repair of each"
    assert kinds[JobKind.DRAIN] == (not told)
    replicas = world.cluster.spec.replicas
    assert len(status.bookies) == len(world.platform.fleet) == replicas
