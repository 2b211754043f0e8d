"""The `Platform` of simulated bookies and jobs: what the local one does, in simulated time.

Objects (the cluster with its status, tasks) are kept as on an API server: as they are written, and
a status written for an older spec than there is now is refused. What an operator has begun and not
ended goes with its process; bookies, jobs and objects outlive it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from bookie.errors import BookieError, UnavailableError
from bookie.ids import BookieId
from bookie_operator.errors import PreconditionError
from bookie_operator.model.cluster import BookieCluster, ClusterSpec
from bookie_operator.model.reports import message_of
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask
from bookie_operator.observed import Bookie, Job, NamedSecret
from bookie_operator.plan.actions import (
    BookieTemplate,
    DiskTemplate,
    Event,
    RemoveBookie,
    ReplaceBookie,
    StartJob,
)
from bookie_operator.platform.processes import exit_reason
from bookie_operator.reports import with_report
from planned_bookie import Clock, HostedBookie
from planned_jobs import URL, Tree

KILLED: Final = -9
JOBS_MAX: Final = 100
"""Ended jobs beyond this are removed, oldest first."""


@dataclass(slots=True)
class Hands:
    """What the platform does to the simulation."""

    note: Callable[[str], None]
    begin_job: Callable[[StartJob], str]
    """The name of the process that does it."""
    end_process: Callable[[str], None]
    give_up: Callable[[str], None]
    """A bookie's disk is taken from it: PreconditionError when somebody has forgotten just now."""


class SimPlatform:
    """See the module."""

    def __init__(
        self,
        cluster: BookieCluster,
        bookies: Sequence[HostedBookie],
        hands: Hands,
        *,
        clock: Clock,
    ) -> None:
        self.cluster = cluster
        self._bookies = {BookieId(bookie.name): bookie for bookie in bookies}
        self._hands = hands
        self.now = clock
        self._jobs: dict[str, Job] = {}
        self._processes: dict[str, str] = {}
        self._tasks: dict[str, BookieTask] = {}
        self._told: set[str] = set()
        self.watch_pass: Callable[[], None] = lambda: None
        """Called when the operator begins to look."""
        self.watch_action: Callable[[str, BookieId], None] = lambda _what, _bookie: None
        """Called before something is taken from a bookie."""
        self.watch_status: Callable[[ClusterStatus], None] = lambda _status: None

    # What people do
    def change(self, spec: ClusterSpec) -> None:
        """A person writes another spec."""
        metadata = self.cluster.metadata
        generation = metadata.generation + 1
        metadata = metadata.model_copy(update={"generation": generation})
        self.cluster = self.cluster.model_copy(update={"spec": spec, "metadata": metadata})

    def hand_in(self, task: BookieTask) -> None:
        """A person asks for something, once."""
        assert task.metadata.name not in self._tasks
        self._tasks[task.metadata.name] = task

    def task(self, name: str) -> BookieTask:
        return self._tasks[name]

    # What is there
    async def metadata_url(self, cluster: BookieCluster) -> str:
        return URL

    async def bookies(self) -> Mapping[BookieId, Bookie]:
        found = {bookie_id: one.seen() for bookie_id, one in self._bookies.items()}
        return {bookie_id: bookie for bookie_id, bookie in found.items() if bookie is not None}

    async def kept_claims(self) -> Mapping[BookieId, Sequence[str]]:
        kept = {bookie_id: sorted(one.retained) for bookie_id, one in self._bookies.items()}
        return {bookie_id: disks for bookie_id, disks in kept.items() if disks}

    async def jobs(self) -> Sequence[Job]:
        self.watch_pass()
        return list(self._jobs.values())

    async def tasks(self) -> Sequence[BookieTask]:
        return list(self._tasks.values())

    # Changes
    async def create_volume(self, bookie_id: BookieId, disk: DiskTemplate) -> bool:
        bookie = self._bookies[bookie_id]
        return not bookie.is_stopping and bookie.make_volume(disk.name, disk.size)

    async def start_bookie(self, template: BookieTemplate, *, keeps_settings: bool = False) -> bool:
        bookie = self._bookies[template.bookie_id]
        if keeps_settings and bookie.template is not None:
            return False
        bookie.told(template)
        return True

    async def restart_bookie(
        self, template: BookieTemplate, *, instance: str, keeps_settings: bool = False
    ) -> bool:
        bookie = self._bookies[template.bookie_id]
        if bookie.is_stopping:
            return False
        if not instance or bookie.instance != instance:
            found = bookie.instance or "none"
            raise PreconditionError(f"process is {found}, planned for {instance}")
        self.watch_action("restart", template.bookie_id)
        if not keeps_settings:
            bookie.told(template)
        self._begin(bookie, lambda: None)
        return True

    async def replace_volume(self, bookie_id: BookieId, disk: str, *, uid: str) -> bool:
        bookie = self._bookies[bookie_id]
        if bookie.is_stopping:
            return False
        volume = bookie.volumes.get(disk)
        if volume is None or volume.uid != uid:
            found = volume.uid if volume is not None else "none"
            raise PreconditionError(f"volume {disk} is {found}, planned for {uid}")
        self.watch_action("replace a disk of", bookie_id)
        self._hands.give_up(bookie_id)
        self._begin(bookie, lambda: bookie.delete_volume(disk))
        return True

    async def replace_bookie(self, action: ReplaceBookie) -> bool:
        raise AssertionError("nobody asks for it here")

    async def expand_volume(self, bookie_id: BookieId, disk: DiskTemplate) -> bool:
        volumes = self._bookies[bookie_id].volumes
        if volumes[disk.name].size == disk.size:
            return False
        volumes[disk.name] = replace(volumes[disk.name], size=disk.size)
        return True

    async def remove_bookie(self, action: RemoveBookie) -> bool:
        bookie = self._bookies[action.bookie_id]
        if bookie.is_stopping:
            return False
        if bookie.instance and bookie.instance != action.instance:
            raise PreconditionError(f"process is {bookie.instance}, planned for {action.instance}")
        self.watch_action("remove", action.bookie_id)

        def then() -> None:
            bookie.template = None
            bookie.retained, bookie.volumes = dict(bookie.volumes), {}
            for disk in list(bookie.retained) if action.delete_volumes else []:
                bookie.delete_volume(disk)

        self._begin(bookie, then)
        return True

    def _begin(self, bookie: HostedBookie, then: Callable[[], None]) -> None:
        """Stops it gracefully in the background, then does `then`; as the operator's own work."""
        bookie.is_stopping = bookie.is_held = True

        async def work() -> None:
            try:
                await self._stop(bookie)
                then()
            finally:
                bookie.is_stopping = bookie.is_held = False
                bookie.start()

        self._work = asyncio.create_task(work())

    async def _stop(self, bookie: HostedBookie) -> None:
        grace_s = float(self.cluster.spec.grace_period_seconds)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await bookie.stop()
        if bookie.is_up:
            self._hands.note(f"{bookie.name} does not stop within {grace_s:g} s and is killed")
            bookie.crash(lambda disk: disk.kill())

    # Jobs
    async def start_job(self, wanted: StartJob) -> bool:
        if wanted.name in self._jobs:
            return False
        self._prune()
        self._jobs[wanted.name] = Job(
            name=wanted.name,
            kind=wanted.kind,
            attempt=wanted.attempt,
            running=True,
            started_at=self.now(),
            bookie=wanted.bookie_id,
            boot_epoch=wanted.boot_epoch,
        )
        self._processes[wanted.name] = self._hands.begin_job(wanted)
        return True

    async def stop_job(self, name: str) -> None:
        job = self._jobs.get(name)
        if job is not None and job.running:
            self._hands.end_process(self._processes[name])
            self.job_ended(name, KILLED, None, "")

    def job_ended(self, name: str, code: int, result: Tree | None, last_words: str) -> None:
        """As its process ended; what it left as its result is its report."""
        job = self._jobs[name]
        if not job.running:
            return
        job = replace(job, running=False, ended_at=self.now(), exit_code=code)
        if result is None:
            told = f"{exit_reason(code)}: {last_words}" if last_words else exit_reason(code)
            job = replace(job, message=told[:1024])
        else:
            job = replace(with_report(job, result), message=message_of(result))
        self._jobs[name] = job
        self._hands.note(f"job {name} ended: {code} {job.message}".rstrip())

    def _prune(self) -> None:
        ended = sorted(
            (job for job in self._jobs.values() if not job.running), key=lambda job: job.started_at
        )
        for job in ended[: max(0, len(ended) - JOBS_MAX + 1)]:
            del self._jobs[job.name]

    # What people see
    async def secrets(self, cluster: BookieCluster) -> Sequence[NamedSecret]:
        """Nobody brings any."""
        return ()

    @property
    def login(self) -> None:
        return None

    async def record(self, event: Event) -> None:
        if event.once in self._told:
            return
        if event.once:
            self._told.add(event.once)
        self._hands.note(f"event {event.reason} {event.bookie}: {event.message}")

    async def publish(self, cluster: BookieCluster) -> None:
        if cluster.metadata.generation != self.cluster.metadata.generation:
            found, now = cluster.metadata.generation, self.cluster.metadata.generation
            raise PreconditionError(f"a status of generation {found}, the object has {now}")
        self.cluster = BookieCluster.model_validate(cluster.as_dict())
        self.watch_status(self.cluster.status)

    async def settle(
        self, cluster: BookieCluster, status: ClusterStatus
    ) -> Mapping[str, BookieError]:
        """Nothing surrounds simulated bookies."""
        return {}

    async def publish_task(self, task: BookieTask) -> None:
        if task.metadata.name not in self._tasks:
            raise UnavailableError(f"there is no task {task.metadata.name}")
        self._tasks[task.metadata.name] = task

    async def delete_task(self, name: str, *, uid: str) -> None:
        self._tasks.pop(name, None)

    async def wait(self, timeout_s: float) -> None:
        await asyncio.sleep(timeout_s)
