"""The bookie as its control plane sees it: health at any time, the rest once it is booted."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bookie.boot.boot import Boot, Booted, BootRecord
from bookie.boot.cookie_fix import FixPlan
from bookie.boot.inspection import DiskInspection
from bookie.boot.verdicts import DiskVerdict
from bookie.errors import NotReadyError, StorageError
from bookie.server.announce import Announcer
from bookie.server.collect import Collector
from bookie.server.drain import Drain, NamingCount
from bookie.server.http import Gauges
from bookie.server.marks import Marks
from bookie.server.port_tls import PortTls
from bookie.server.settings import BookieSettings, Limits
from bookie.server.state import BookieState, Phase, ReadOnlyReason
from bookie.storage.decisions import PersonDecision
from bookie.storage.disk import Disk, DiskSpace
from bookie.wire.identity import Identity


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """One directory as its boot found it, and the space of its disk now."""

    found: DiskInspection
    verdict: DiskVerdict
    """OK also where none has been given yet."""
    space: DiskSpace


@dataclass(frozen=True, slots=True)
class Health:
    """What anybody may know of the bookie at any time."""

    state: BookieState
    """As it is: read it at once."""
    version: str
    instance_id: str = ""
    """Of the cluster whose metadata store its boot has seen; empty before that."""
    disks: tuple[DiskFacts, ...] = ()
    """Journal first; none before the boot has looked."""
    plan: FixPlan | None = None
    """The cookie fix that waits for a person."""
    fix_policy: str = ""
    record: BootRecord | None = None
    """None until it serves, like the three figures below."""
    limbo_ledgers: int = 0
    unchecked_ledgers: int = 0
    losses_recorded: int = 0
    decisions: tuple[PersonDecision, ...] = ()
    """What people decided last, oldest first."""
    count: NamingCount | None = None
    """Of a drain; None = not counted, never zero."""


@dataclass(frozen=True, slots=True)
class BookieServices:
    """What a bookie has once its boot is over."""

    booted: Booted
    marks: Marks
    announcer: Announcer
    drain: Drain
    collector: Collector


class Control:
    """Answers for whatever of the bookie exists by now; `admin` puts it on the wire."""

    def __init__(
        self,
        settings: BookieSettings,
        state: BookieState,
        disk: Disk,
        tls: PortTls | None = None,
    ) -> None:
        self._settings = settings
        self._state = state
        self._disk = disk
        self.tls = tls
        """What the ports are under; None: plain."""
        self.boot: Boot | None = None
        """The last attempt to boot, from its first step on; stays when it has ended."""
        self._serving: BookieServices | None = None
        """Set when the boot is over, and never taken back."""
        self.started_at_ms = int(time.time() * 1000)

    @property
    def limits(self) -> Limits:
        """What may be asked at once."""
        return self._settings.limits

    def serve(self, serving: BookieServices) -> None:
        """The boot is over: everything can be asked from now on."""
        self._serving = serving

    @property
    def serving(self) -> BookieServices:
        """NotReadyError before the bookie serves, and once it stops."""
        if self._serving is None or not self._state.phase.serves:
            raise NotReadyError(
                f"bookie {self._state.bookie_id} is {self._state.phase.name}: "
                f"{self._state.message or 'try again'}"
            )
        return self._serving

    @property
    def booted(self) -> Booted | None:
        """What its boot has handed over, in whatever phase it is now."""
        return self._serving.booted if self._serving is not None else None

    # Identity
    def identity(self) -> Identity:
        """While it boots the cluster is the one that its metadata store holds."""
        own = self._state.identity
        if own.cluster or self.boot is None:
            return own
        return replace(own, cluster=self.boot.progress.instance_id)

    def hear_epoch(self, epoch: int) -> None:
        self._state.hear_epoch(epoch)

    # Health
    async def health(self) -> Health:
        """What is known by now, of a bookie in any phase."""
        health = Health(self._state, version=product_version())
        if self.boot is not None:
            progress = self.boot.progress
            verdicts = progress.verdicts or tuple(DiskVerdict.OK for _ in progress.disks)
            health = replace(
                health,
                instance_id=progress.instance_id,
                disks=await asyncio.to_thread(self._disks, progress.disks, verdicts),
                plan=progress.plan,
                fix_policy=self._settings.cookie_fix.policy,
            )
        if (serving := self._serving) is not None:
            health = replace(
                health,
                record=serving.booted.record,
                limbo_ledgers=serving.marks.limbo_count,
                unchecked_ledgers=serving.marks.unchecked_count,
                losses_recorded=serving.marks.losses_count,
                decisions=serving.booted.storage.decisions,
                count=serving.drain.count,
            )
        return health

    def _disks(
        self, disks: Sequence[DiskInspection], verdicts: Sequence[DiskVerdict]
    ) -> tuple[DiskFacts, ...]:
        """With their space now, 0 where the file system does not answer. Blocking."""
        return tuple(
            DiskFacts(found, verdict, self._space(found.path))
            for found, verdict in zip(disks, verdicts, strict=True)
        )

    def _space(self, path: Path) -> DiskSpace:
        """Blocking."""
        try:
            return self._disk.space(path)
        except StorageError:
            return DiskSpace(0, 0)

    async def gauges(self) -> Gauges:
        """Figures for the metrics."""
        ends_s = None if self.tls is None else self.tls.ends_at.timestamp()
        if (serving := self._serving) is None:
            return Gauges(certificate_ends_s=ends_s)
        record, storage = serving.booted.record, serving.booted.storage
        usages = await asyncio.to_thread(storage.maintenance.usage)
        return Gauges(
            record.boot_epoch,
            record.clean,
            limbo_ledgers=serving.marks.limbo_count,
            unchecked_ledgers=serving.marks.unchecked_count,
            unflushed_bytes=storage.unflushed_bytes,
            free_bytes={str(usage.path): usage.free_bytes for usage in usages},
            syncs=storage.maintenance.syncs(),
            checkpoints=storage.maintenance.checkpoints,
            certificate_ends_s=ends_s,
        )

    # What people decide
    def approve(self, plan_id: str, approved_by: str) -> str:
        if self.boot is None:
            return f"nothing waits for approval: the bookie is {self._state.phase.name}"
        return self.boot.approve(plan_id, approved_by)

    async def approve_collection(self, plan_id: str, approved_by: str) -> str:
        if self._serving is None:
            return f"nothing waits for approval: the bookie is {self._state.phase.name}"
        return await self._serving.collector.approve(plan_id, approved_by)

    async def set_read_only(self, read_only: bool) -> Phase:
        serving = self.serving
        self._state.switch_read_only(ReadOnlyReason.PERSON, read_only)
        await serving.announcer.announce()
        return self._state.phase

    async def drain(self, cancel: bool) -> tuple[Phase, int]:
        """Begin or end the drain; the phase, and how many ledgers are held here."""
        serving = self.serving
        await (serving.drain.cancel() if cancel else serving.drain.begin())
        return self._state.phase, serving.marks.ledgers_held


@lru_cache
def product_version() -> str:
    """The installed version, `dev` when run from a tree that is not installed."""
    try:
        return version("bookie-operator")
    except PackageNotFoundError:
        return "dev"
