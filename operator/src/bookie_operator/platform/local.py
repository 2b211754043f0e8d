"""The local platform: bookies as processes, volumes as folders, status as a JSON file.

Composes kubelet, jobs, embedded ZooKeeper and claims under one directory, and keeps the same
promises as Kubernetes: reads are live, changes name what they were planned for, what it started
runs on when the operator dies.

Disks are asked, and processes started, in one thread, one call after the other: the loop runs on
meanwhile, and no two calls work on one bookie at once, also when a pass was cancelled in one.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from bookie.errors import BookieError, UnavailableError
from bookie.ids import BookieId
from bookie.metadata.opening import LOGIN_VARIABLE

from bookie_operator.errors import PreconditionError
from bookie_operator.model.cluster import BookieCluster, ClusterSpec
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import Bookie, Job, JobKind, NamedSecret
from bookie_operator.plan.actions import (
    BookieTemplate,
    CertificateAction,
    DiskTemplate,
    Event,
    RemoveBookie,
    ReplaceBookie,
    StartJob,
)
from bookie_operator.plan.failures import ACTION_FAILED
from bookie_operator.platform.credential_folders import read_folder
from bookie_operator.platform.embedded import EmbeddedStore
from bookie_operator.platform.folders import (
    LocalFolders,
    bookie_held,
    held,
    write_json,
)
from bookie_operator.platform.jobs import JobCommand, JobProcesses, engine_command
from bookie_operator.platform.kubelet import Command, Kubelet, bookie_command
from bookie_operator.platform.local_credentials import LocalCredentials, client_environment
from bookie_operator.platform.named_secrets import judged, login_secret, wanted_secrets
from bookie_operator.platform.processes import Children, ProcessId, stop
from bookie_operator.platform.task_files import delete_task, read_tasks, write_status
from bookie_operator.platform.volumes import (
    create_volume,
    delete_volume,
    grow_volume,
    kept_claims,
    retain_volume,
    volumes_of,
)
from bookie_operator.tls_view import TlsView

REPEATED_MAX: Final = 256
REPEAT_AFTER_S: Final = 60.0
"""An event is not published twice within this time."""

Listener = Callable[[Event], None]
Result = TypeVar("Result")


class LocalPlatform:
    """The platform of one cluster, whose processes and volumes are under one directory of this
    machine; the caller holds the directory's lock."""

    def __init__(
        self,
        folders: LocalFolders,
        *,
        grace_s: float,
        bookie: Command = bookie_command,
        engine: JobCommand = engine_command,
        on_event: Listener = lambda event: None,
        on_publish: Callable[[BookieCluster], None] = lambda cluster: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.grace_s = grace_s
        self._folders = folders
        self._woken = asyncio.Event()
        self._children = Children(self._woken.set)
        self._kubelet = Kubelet(folders, self._children, command=bookie)
        self._jobs = JobProcesses(folders, self._children, command=engine)
        self._embedded = EmbeddedStore(folders, lambda: self._credentials.zookeeper)
        self._credentials = LocalCredentials(folders.tls, clock)
        self._login: Path | None = None
        """File with the fleet's ZooKeeper user; None: the spec names none."""
        self._clients = TlsMode.OFF
        """How jobs talk to bookies."""
        self._disks = ThreadPoolExecutor(max_workers=1, thread_name_prefix="platform")
        """The thread that works on kubelet, jobs and files, in the order of the calls."""
        self._on_event = on_event
        self._on_publish = on_publish
        self._stopping: dict[BookieId, asyncio.Task[None]] = {}
        """Bookies that are being stopped, and what does it."""
        self._rebuilt: dict[str, BookieId] = {}
        """Job -> the bookie whose indexes it rebuilds, and which is held meanwhile."""
        self._told: dict[tuple[str, str, str], float] = {}
        """Clock time of each event that was written not long ago."""
        self._events_once: set[str] = set()
        """Keys of events that are written once, ever; as in the events file."""

    def adopt(self) -> None:
        """Take over what a former operator of this directory left running. Blocking: it comes
        before the loop has anything else to do."""
        self._folders.make()
        self._events_once = {
            str(event["once"]) for event in self._folders.events() if "once" in event
        }
        self._kubelet.adopt()
        self._jobs.adopt()
        for job in self._jobs.jobs():
            if job.kind is JobKind.INDEX_REBUILD and job.running and job.bookie is not None:
                self._rebuilt[job.name] = job.bookie
                self._kubelet.hold(job.bookie)

    async def close(self) -> None:
        """Leave; bookies, jobs and ZooKeeper run on."""
        for task in list(self._stopping.values()):
            await asyncio.wait([task])
        await self._embedded.close()
        await asyncio.to_thread(self._disks.shutdown)
        self._children.close()

    async def _in_turn(self, work: Callable[[], Result]) -> Result:
        """Blocking work, after all that was asked for before it."""
        return await asyncio.get_running_loop().run_in_executor(self._disks, work)

    # What is there

    async def metadata_url(self, cluster: BookieCluster) -> str:
        wanted = cluster.spec.metadata.connect
        wants_tls = cluster.spec.tls.mode is TlsMode.REQUIRED
        url = wanted if wanted is not None else await self._embedded.url(wants_tls=wants_tls)
        self._kubelet.metadata_url = url
        return url

    async def bookies(self) -> Mapping[BookieId, Bookie]:
        return await self._in_turn(self._kubelet.bookies)

    async def kept_claims(self) -> Mapping[BookieId, Sequence[str]]:
        return await self._in_turn(partial(kept_claims, self._folders))

    async def jobs(self) -> Sequence[Job]:
        jobs = await self._in_turn(self._jobs.jobs)
        for job in jobs:
            if job.name in self._rebuilt and not job.running:
                self._kubelet.release(self._rebuilt.pop(job.name))
        return jobs

    async def certificates(
        self, cluster: BookieCluster, bookie_ids: Sequence[BookieId], deciding: Sequence[str] = ()
    ) -> TlsView:
        return await self._credentials.view(cluster, bookie_ids, deciding)

    async def secrets(self, cluster: BookieCluster) -> Sequence[NamedSecret]:
        login = login_secret(cluster.spec)
        self._login = self._folders.secret(login.name) / login.key if login else None
        return await self._in_turn(partial(self._read_secrets, cluster.spec))

    def _read_secrets(self, spec: ClusterSpec) -> tuple[NamedSecret, ...]:
        """Blocking."""
        named = wanted_secrets(spec)
        folders = {one.name: self._folders.secret(one.name) for one in named}
        return tuple(
            judged(one, read_folder(folders[one.name]), place=str(folders[one.name]))
            for one in named
        )

    @property
    def login(self) -> Path | None:
        return self._login if self._login is not None and self._login.is_file() else None

    @property
    def credentials(self) -> Path | None:
        return self._credentials.operator

    async def tasks(self) -> Sequence[BookieTask]:
        tasks, mistakes = await self._in_turn(partial(read_tasks, self._folders))
        for mistake in mistakes:
            await self.record(Event("TaskInvalid", str(mistake), type="Warning"))
        return tasks

    # Changes

    async def create_volume(self, bookie_id: BookieId, disk: DiskTemplate) -> bool:
        def work() -> bool:
            with held(self._folders.bookie(bookie_id) / "lock") as is_mine:
                if is_mine:
                    create_volume(self._folders, bookie_id, disk.name, size=disk.size)
                return is_mine

        return await self._in_turn(work)

    async def start_bookie(self, template: BookieTemplate, *, keeps_settings: bool = False) -> bool:
        if keeps_settings and self._kubelet.knows(template.bookie_id):
            return False
        await self._in_turn(partial(self._kubelet.ensure, template))
        return True

    async def restart_bookie(
        self, template: BookieTemplate, *, instance: str, keeps_settings: bool = False
    ) -> bool:
        bookie_id = template.bookie_id
        if bookie_id in self._stopping:
            return False
        process = self._kubelet.process_of(bookie_id)
        if process is None or str(process) != instance:
            raise PreconditionError(f"process of {bookie_id} is {process}, planned for {instance}")
        if not keeps_settings:
            await self._in_turn(partial(self._kubelet.ensure, template))
        self._begin(bookie_id, process, lambda: None)
        return True

    async def replace_volume(self, bookie_id: BookieId, disk: str, *, uid: str) -> bool:
        if bookie_id in self._stopping:
            return False
        process = self._kubelet.process_of(bookie_id)
        self._begin(
            bookie_id,
            process,
            lambda: delete_volume(self._folders, bookie_id, disk, uid=uid),
        )
        return True

    async def replace_bookie(self, action: ReplaceBookie) -> bool:
        bookie_id = action.bookie_id
        if bookie_id in self._stopping:
            return False
        process = self._unchanged(bookie_id, action.instance)

        def then() -> None:
            """Blocking."""
            for disk, uid in action.volumes:
                delete_volume(self._folders, bookie_id, disk, uid=uid)

        self._begin(bookie_id, process, then)
        return True

    def _unchanged(self, bookie_id: BookieId, instance: str) -> ProcessId | None:
        """The process that is there. PreconditionError: it is not the one that was planned for."""
        process = self._kubelet.process_of(bookie_id)
        if process is not None and str(process) != instance:
            raise PreconditionError(f"process of {bookie_id} is {process}, planned for {instance}")
        return process

    async def expand_volume(self, bookie_id: BookieId, disk: DiskTemplate) -> bool:
        """A folder has no bounds: only its claim grows."""
        return await self._in_turn(
            partial(grow_volume, self._folders, bookie_id, disk.name, size=disk.size)
        )

    async def remove_bookie(self, action: RemoveBookie) -> bool:
        bookie_id = action.bookie_id
        if bookie_id in self._stopping:
            return False
        process = self._unchanged(bookie_id, action.instance)

        def then() -> None:
            """Blocking."""
            for volume in volumes_of(self._folders, bookie_id).values():
                if action.delete_volumes:
                    delete_volume(self._folders, bookie_id, volume.disk, uid=volume.uid)
                else:
                    retain_volume(self._folders, bookie_id, volume.disk)

        self._kubelet.hold(bookie_id)
        self._begin(
            bookie_id,
            process,
            then,
            done=partial(self._kubelet.forget, bookie_id),
            undo=partial(self._kubelet.release, bookie_id),
        )
        return True

    def _begin(
        self,
        bookie_id: BookieId,
        process: ProcessId | None,
        then: Callable[[], None],
        *,
        done: Callable[[], None] = lambda: None,
        undo: Callable[[], None] = lambda: None,
    ) -> None:
        """Stop gracefully in the background, under the bookie's lock, then do `then`.

        `done` after that, in turn; `undo` when it failed, so that the next pass finds it as it was.
        """

        def work() -> None:
            with bookie_held(self._folders, bookie_id, grace_s=self.grace_s):
                if process is not None:
                    self._kubelet.expect_end(bookie_id, process)
                    stop(process, grace_s=self.grace_s)
                then()

        async def run() -> None:
            try:
                # Not in turn: it lasts for as long as a bookie takes to stop.
                await asyncio.to_thread(work)
                await self._in_turn(done)
            except PreconditionError as error:
                await self.record(Event("PlannedAnew", str(error), bookie_id))
            except (BookieError, OSError) as error:
                undo()
                await self.record(Event(ACTION_FAILED, str(error), bookie_id, "Warning"))
            finally:
                del self._stopping[bookie_id]
                self._woken.set()

        self._stopping[bookie_id] = asyncio.create_task(run())

    async def start_job(self, job: StartJob) -> bool:
        if self._kubelet.metadata_url is None:
            raise UnavailableError("the metadata store's address is not known yet")
        url = self._kubelet.metadata_url
        if job.kind is JobKind.INDEX_REBUILD and job.bookie_id is not None:
            return self._start_without(job.bookie_id, job, metadata_url=url)
        return await self._in_turn(
            partial(self._jobs.start, job, metadata_url=url, environment=self._environment_of(job))
        )

    def _environment_of(self, job: StartJob) -> Mapping[str, str]:
        login = {LOGIN_VARIABLE: str(self._login)} if self._login is not None else {}
        folder = self._credentials.shown_by(job)
        tls = client_environment(str(folder), self._clients) if folder is not None else {}
        return login | tls

    def _start_without(self, bookie_id: BookieId, job: StartJob, *, metadata_url: str) -> bool:
        """Start the job once this bookie has stopped; it is held until the job has ended."""
        if bookie_id in self._stopping or job.name in self._rebuilt:
            return False
        self._rebuilt[job.name] = bookie_id
        self._kubelet.hold(bookie_id)

        def start() -> None:
            """Blocking."""
            self._jobs.start(job, metadata_url=metadata_url)

        def undo() -> None:
            self._kubelet.release(self._rebuilt.pop(job.name))

        process = self._kubelet.process_of(bookie_id)
        self._begin(bookie_id, process, lambda: None, done=start, undo=undo)
        return True

    async def stop_job(self, name: str) -> None:
        await self._in_turn(partial(self._jobs.stop, name))

    # What people see

    async def record(self, event: Event) -> None:
        if event.once in self._events_once:
            return
        now = asyncio.get_running_loop().time()
        key = (event.reason, event.bookie, event.message)
        last = self._told.get(key)
        if not event.once and last is not None and now - last < REPEAT_AFTER_S:
            return
        if len(self._told) >= REPEATED_MAX:
            self._told.pop(next(iter(self._told)))
        self._told[key] = now
        tree = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "type": event.type,
            "reason": event.reason,
            "bookie": event.bookie,
            "message": event.message,
            **({"once": event.once} if event.once else {}),
        }
        await self._in_turn(partial(self._folders.append_event, tree))
        if event.once:
            self._events_once.add(event.once)
        self._on_event(event)

    async def publish(self, cluster: BookieCluster) -> None:
        tree = cluster.as_dict()
        await self._in_turn(partial(write_json, self._folders.status_file, tree, durable=False))
        self._on_publish(cluster)

    async def settle(
        self, cluster: BookieCluster, status: ClusterStatus
    ) -> Mapping[str, BookieError]:
        """Processes need no surroundings."""
        self._clients = TlsMode(status.tls.clients) if status.tls else TlsMode.OFF
        return {}

    async def certify(self, action: CertificateAction) -> None:
        await self._credentials.carry_out(action)

    async def publish_task(self, task: BookieTask) -> None:
        await self._in_turn(partial(write_status, self._folders, task))

    async def delete_task(self, name: str, *, uid: str) -> None:
        await self._in_turn(partial(delete_task, self._folders, name, uid=uid))

    async def wait(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        except TimeoutError:
            return
        self._woken.clear()
