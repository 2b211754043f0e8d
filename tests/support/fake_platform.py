"""A Platform and a Control in memory: what the reconciler did to them can be looked at."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from bookie.errors import BookieError, UnavailableError
from bookie.ids import BookieId
from bookie.tls.principals import Principal, Role
from bookie.wire.admin.health import Health
from bookie.wire.identity import Identity
from bookie_operator.control import Addressee
from bookie_operator.errors import ForbiddenError, PreconditionError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask, TaskStatus
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import Bookie, Job, NamedSecret, Process, Volume
from bookie_operator.plan.actions import (
    BookieTemplate,
    CertificateAction,
    DiskTemplate,
    Event,
    RemoveBookie,
    ReplaceBookie,
    StartJob,
)
from bookie_operator.platform.certifier import Certifier
from bookie_operator.tls_view import Issuer, TlsView
from memory_vault import MemoryVault
from operator_scenes import at, bookie


@dataclass
class FakePlatform:
    """Bookies exist as values; whatever is started runs at once."""

    url: str = "memory://fake"
    secrets_seen: tuple[NamedSecret, ...] = ()
    login: Path | None = None
    fleet: dict[BookieId, Bookie] = field(default_factory=dict)
    kept: dict[BookieId, tuple[str, ...]] = field(default_factory=dict)
    jobs_seen: dict[str, Job] = field(default_factory=dict)
    tasks_seen: list[BookieTask] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    published: list[BookieCluster] = field(default_factory=list)
    task_statuses: dict[str, TaskStatus] = field(default_factory=dict)
    failing: bool = False
    settling_fails: bool = False
    publishing_fails: bool = False
    denied: str = ""
    task_refusal: BookieError | None = None
    """What each write of a task's status ends with; None: it is taken."""
    job_refusal: BookieError | None = None
    """What each start of a job ends with; None: it starts."""
    stop_refusal: BookieError | None = None
    """What each stop of a job ends with; None: it stops."""
    disruptions_allowed: int | None = None
    clock: Callable[[], datetime] = lambda: at(0)
    """Of whoever signs certificates."""
    vault: MemoryVault = field(default_factory=MemoryVault)
    issuer: Issuer | None = None
    spreads_within: timedelta = timedelta(seconds=30)
    shown: dict[str, Principal | None] = field(default_factory=dict)
    """Job -> whose certificate it has; None: that of all jobs."""
    certified: list[CertificateAction] = field(default_factory=list)

    async def metadata_url(self, cluster: BookieCluster) -> str:
        if not self.url:
            raise UnavailableError("the store is starting")
        return self.url

    async def bookies(self) -> Mapping[BookieId, Bookie]:
        if self.denied:
            raise ForbiddenError(self.denied)
        return dict(self.fleet)

    async def kept_claims(self) -> Mapping[BookieId, Sequence[str]]:
        return dict(self.kept)

    async def jobs(self) -> Sequence[Job]:
        return list(self.jobs_seen.values())

    async def tasks(self) -> Sequence[BookieTask]:
        return self.tasks_seen

    async def create_volume(self, bookie_id: BookieId, disk: DiskTemplate) -> bool:
        one = self.fleet.get(bookie_id, Bookie(bookie_id))
        volume = Volume(disk.name, f"{bookie_id}-{disk.name}-uid")
        self.fleet[bookie_id] = replace(one, volumes={**one.volumes, disk.name: volume})
        return True

    async def start_bookie(self, template: BookieTemplate, *, keeps_settings: bool = False) -> bool:
        if self.failing:
            raise UnavailableError("no room")
        name = template.bookie_id
        process = Process(
            instance=f"{name}-1",
            running=True,
            revision=template.revision,
            started_at=at(0),
            control=name,
            tls=template.tls.mode if template.tls else TlsMode.OFF,
        )
        self.fleet[name] = replace(self.fleet[name], process=process)
        return True

    async def restart_bookie(
        self, template: BookieTemplate, *, instance: str, keeps_settings: bool = False
    ) -> bool:
        process = self.fleet[template.bookie_id].process
        if process is None or process.instance != instance:
            raise PreconditionError("another process runs")
        revision = process.revision if keeps_settings else template.revision
        tls = template.tls.mode if template.tls else TlsMode.OFF
        tls = process.tls if keeps_settings else tls
        fresh = replace(process, revision=revision, instance=f"{instance}+", tls=tls)
        self.fleet[template.bookie_id] = replace(self.fleet[template.bookie_id], process=fresh)
        return True

    async def replace_volume(self, bookie_id: BookieId, disk: str, *, uid: str) -> bool:
        raise PreconditionError(f"{disk} is not {uid}")

    async def replace_bookie(self, action: ReplaceBookie) -> bool:
        raise PreconditionError(f"{action.bookie_id} has no {action.volumes}")

    async def expand_volume(self, bookie_id: BookieId, disk: DiskTemplate) -> bool:
        one = self.fleet[bookie_id]
        volume = replace(one.volumes[disk.name], size=disk.size)
        self.fleet[bookie_id] = replace(one, volumes={**one.volumes, disk.name: volume})
        return True

    async def remove_bookie(self, action: RemoveBookie) -> bool:
        one = self.fleet[action.bookie_id]
        if one.process is not None and one.process.instance != action.instance:
            raise PreconditionError("another process runs")
        del self.fleet[action.bookie_id]
        return True

    async def start_job(self, job: StartJob) -> bool:
        if self.job_refusal is not None:
            raise self.job_refusal
        if job.name in self.jobs_seen:
            return False
        self.shown[job.name] = job.shows
        self.jobs_seen[job.name] = Job(
            name=job.name,
            kind=job.kind,
            attempt=job.attempt,
            running=True,
            started_at=at(0),
            bookie=job.bookie_id,
            boot_epoch=job.boot_epoch,
        )
        return True

    async def stop_job(self, name: str) -> None:
        if self.stop_refusal is not None:
            raise self.stop_refusal
        del self.jobs_seen[name]

    def holder(self, role: Role, name: str = "") -> Principal:
        """One of the cluster `demo`."""
        return Principal("local", "demo", role, name or role.value)

    @property
    def certifier(self) -> Certifier:
        return Certifier(self.vault, "demo", self.clock)

    async def certificates(
        self, cluster: BookieCluster, bookie_ids: Sequence[BookieId], deciding: Sequence[str] = ()
    ) -> TlsView:
        if self.denied:
            raise ForbiddenError(self.denied)
        holders = [self.holder(Role.BOOKIE, one) for one in bookie_ids]
        holders += [self.holder(role) for role in (Role.OPERATOR, Role.JOB)]
        persons = {one: self.holder(Role.DECISION, one) for one in deciding}
        everybody = [*holders, *persons.values()]
        return TlsView(
            hosts={one: (f"{one.name}.demo.svc",) for one in holders},
            certificates=await self.certifier.certificates(everybody),
            places={one: f"Secret demo-{one.name}-tls" for one in everybody},
            deciding=persons,
            authorities=await self.certifier.authorities(),
            issuer=self.issuer,
            spreads_within=self.spreads_within,
        )

    async def secrets(self, cluster: BookieCluster) -> Sequence[NamedSecret]:
        return self.secrets_seen

    @property
    def credentials(self) -> Path | None:
        return None

    async def certify(self, action: CertificateAction) -> None:
        self.certified.append(action)
        await self.certifier.carry_out(action, self.vault.holders)

    async def record(self, event: Event) -> None:
        if not event.once or all(event.once != told.once for told in self.events):
            self.events.append(event)

    async def publish(self, cluster: BookieCluster) -> None:
        if self.publishing_fails:
            raise UnavailableError("not now")
        self.published.append(cluster)

    async def settle(
        self, cluster: BookieCluster, status: ClusterStatus
    ) -> Mapping[str, BookieError]:
        self.disruptions_allowed = status.disruptions_allowed
        return {"Service demo": UnavailableError("not now")} if self.settling_fails else {}

    async def publish_task(self, task: BookieTask) -> None:
        if self.task_refusal is not None:
            raise self.task_refusal
        self.task_statuses[task.metadata.name] = task.status
        names = [one.metadata.name for one in self.tasks_seen]
        self.tasks_seen[names.index(task.metadata.name)] = task

    async def delete_task(self, name: str, *, uid: str) -> None:
        self.tasks_seen = [task for task in self.tasks_seen if task.metadata.name != name]

    async def wait(self, timeout_s: float) -> None:
        return

    @property
    def reasons(self) -> list[str]:
        return [event.reason for event in self.events]


@dataclass
class FakeControl:
    """Control planes by address (here: the bookie's id); None = silence."""

    healths: dict[str, Health | None] = field(default_factory=dict)
    approved: list[tuple[str, str, str]] = field(default_factory=list)
    collections: list[tuple[str, str, str]] = field(default_factory=list)
    """Approved ones."""
    drains: list[tuple[str, bool]] = field(default_factory=list)
    on_approval: Health | None = None
    on_drain: Health | None = None
    """What the bookie says once it was told."""
    told: list[Addressee] = field(default_factory=list)
    """Who was told to approve or to drain, and how."""

    @property
    def meant(self) -> list[Identity]:
        return [to.meant for to in self.told]

    async def health(self, to: Addressee) -> Health | None:
        return self.healths.get(to.address, bookie(to.address).health)

    async def approve(self, to: Addressee, *, plan_id: str, approved_by: str) -> None:
        self.approved.append((to.address, plan_id, approved_by))
        self._tell(to, self.on_approval)

    async def approve_collection(self, to: Addressee, *, plan_id: str, approved_by: str) -> None:
        self.collections.append((to.address, plan_id, approved_by))
        self._tell(to, self.on_approval)

    async def drain(self, to: Addressee, *, cancel: bool) -> None:
        self.drains.append((to.address, cancel))
        self._tell(to, self.on_drain)

    def _tell(self, to: Addressee, then: Health | None) -> None:
        self.told.append(to)
        if then is not None:
            self.healths[to.address] = then

    async def close(self) -> None:
        return
