"""The fake platform with bookies that behave, and their control planes: the ground of stories."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from bookie.errors import UnavailableError
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import BookieInfo, Cookie
from bookie.wire.admin.health import Health, Phase
from bookie_operator.control import Addressee
from bookie_operator.errors import PreconditionError
from bookie_operator.observed import Bookie, Job, JobKind
from bookie_operator.plan.actions import (
    BookieTemplate,
    DiskTemplate,
    RemoveBookie,
    ReplaceBookie,
    StartJob,
)
from fake_platform import FakePlatform
from story_bookies import StoryBookie

STARTS_AFTER: Final = timedelta(milliseconds=200)
"""A job begins so long after the look that asks for it."""
ENDS_AFTER: Final = timedelta(milliseconds=700)
"""One that ends does so that long after the last look."""
REGISTERED: Final = (Phase.SERVING, Phase.READ_ONLY, Phase.DRAINING)


@dataclass
class StoryPlatform(FakePlatform):
    """What is done to it happens at once; what bookies and jobs do, when the story says so."""

    metadata: MemoryCluster = field(default_factory=MemoryCluster)
    actors: dict[BookieId, StoryBookie] = field(default_factory=dict)
    stopping: set[BookieId] = field(default_factory=set)
    """Removed: gone at the next step."""
    sessions: dict[BookieId, MemoryStore] = field(default_factory=dict)

    def actor(self, bookie_id: BookieId) -> StoryBookie:
        return self.actors.setdefault(bookie_id, StoryBookie(bookie_id, self.clock))

    async def step(self) -> None:
        """A look later: boots get on, and who serves is registered."""
        for bookie_id in sorted(self.stopping):
            gone = self.actors.pop(bookie_id)
            if gone.volumes:
                self.kept[bookie_id] = tuple(sorted(gone.volumes))
        self.stopping.clear()
        for one in self.actors.values():
            one.step()
        for bookie_id in {*self.actors, *self.sessions}:
            await self._registered(bookie_id)

    async def _registered(self, bookie_id: BookieId) -> None:
        one = self.actors.get(bookie_id)
        health = one.health() if one is not None else None
        if one is not None and health is not None:
            one.instance_id = self.metadata.instance_id or ""
        is_wanted = health is not None and health.phase in REGISTERED
        old = self.sessions.pop(bookie_id, None)
        if old is not None:
            await old.close()
        if not is_wanted:
            return
        session = self.sessions[bookie_id] = MemoryStore(self.metadata)
        if await session.read_cookie(bookie_id) is None:
            cookie = Cookie(bookie_id, ("j",), ("l",), self.metadata.instance_id or "")
            await session.create_cookie(cookie)
        is_read_only = health is not None and health.phase is not Phase.SERVING
        await session.register(BookieInfo(bookie_id, (), read_only=is_read_only))

    async def bookies(self) -> Mapping[BookieId, Bookie]:
        await super().bookies()
        return {bookie_id: one.seen() for bookie_id, one in self.actors.items()}

    async def create_volume(self, bookie_id: BookieId, disk: DiskTemplate) -> bool:
        self.kept.pop(bookie_id, None)
        one = self.actor(bookie_id)
        one.make_volume(disk)
        # What was stopped for its volume comes up again without being told.
        if one.template is not None and len(one.volumes) == len(one.template.disks):
            one.begin_in_new_pod()
        return True

    async def start_bookie(self, template: BookieTemplate, *, keeps_settings: bool = False) -> bool:
        self._refuses()
        one = self.actor(template.bookie_id)
        if not (keeps_settings and one.template is not None):
            one.template = template
        if not one.is_running and not one.waiting:
            one.begin_in_new_pod()
        return True

    async def restart_bookie(
        self, template: BookieTemplate, *, instance: str, keeps_settings: bool = False
    ) -> bool:
        self._refuses()
        one = self.actor(template.bookie_id)
        if one.instance != instance:
            raise PreconditionError("another process runs")
        one.template = one.template if keeps_settings else template
        one.begin_in_new_pod()
        return True

    async def replace_volume(self, bookie_id: BookieId, disk: str, *, uid: str) -> bool:
        one = self.actor(bookie_id)
        if one.volumes[disk].uid != uid:
            raise PreconditionError(f"{disk} is not {uid}")
        del one.volumes[disk]
        one.end(0, "exit code 0", is_planned=True)
        return True

    async def replace_bookie(self, action: ReplaceBookie) -> bool:
        one = self.actor(action.bookie_id)
        for disk, uid in action.volumes:
            assert one.volumes.pop(disk).uid == uid
        one.template, one.waiting = None, ""
        one.processes += 1
        return True

    async def expand_volume(self, bookie_id: BookieId, disk: DiskTemplate) -> bool:
        one = self.actor(bookie_id)
        one.volumes[disk.name] = replace(one.volumes[disk.name], size=disk.size)
        return True

    async def remove_bookie(self, action: RemoveBookie) -> bool:
        one = self.actor(action.bookie_id)
        if one.instance != action.instance:
            raise PreconditionError("another process runs")
        one.end(0, "exit code 0", is_planned=True)
        if action.delete_volumes:
            one.volumes.clear()
        self.stopping.add(action.bookie_id)
        return True

    def _refuses(self) -> None:
        if self.failing:
            raise UnavailableError("no room")

    async def start_job(self, job: StartJob) -> bool:
        begun = await super().start_job(job)
        found = replace(self.jobs_seen[job.name], started_at=self.clock() + STARTS_AFTER)
        self.jobs_seen[job.name] = found
        if job.kind is JobKind.INDEX_REBUILD and job.bookie_id is not None:
            one = self.actor(job.bookie_id)
            one.end(0, "exit code 0", is_planned=True)
        return begun

    def end_job(self, name: str, **facts: Any) -> Job:
        """It ends now, with this exit code and report."""
        job = replace(self.jobs_seen[name], running=False, progress="", waiting="")
        ended = replace(job, ended_at=self.clock() + ENDS_AFTER, **facts)
        self.jobs_seen[name] = ended
        return ended


@dataclass
class StoryControl:
    """Control planes of the bookies of a platform."""

    platform: StoryPlatform

    def _at(self, to: Addressee) -> StoryBookie:
        return self.platform.actors[BookieId(to.address.partition(":")[0])]

    async def health(self, to: Addressee) -> Health | None:
        return self._at(to).health()

    async def approve(self, to: Addressee, *, plan_id: str, approved_by: str) -> None:
        one = self._at(to)
        assert one.fix is not None and one.fix.plan_id == plan_id
        one.approve()

    async def approve_collection(self, to: Addressee, *, plan_id: str, approved_by: str) -> None:
        one = self._at(to)
        assert one.facts.pop("collection_plan_id") == plan_id
        del one.facts["collection_held"]

    async def drain(self, to: Addressee, *, cancel: bool) -> None:
        one = self._at(to)
        one.facts["draining"] = not cancel
        one.coming = [Phase.SERVING if cancel else Phase.DRAINING]
        if cancel:
            one.facts.pop("ledgers_naming_it", None)

    async def close(self) -> None:
        return
