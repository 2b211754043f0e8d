"""What the control plane can ask of the bookie: health at any time, the rest once it has booted."""

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
    """One directory as the boot found it, and the present space on its disk."""

    found: DiskInspection
    verdict: DiskVerdict
    """The boot's verdict; OK also while there is none yet."""
    space: DiskSpace


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the bookie, which the control plane reports in every phase."""

    state: BookieState
    """The live state object: read it at once."""
    version: str
    instance_id: str = ""
    """The cluster's instance id that the boot has read; empty before that."""
    disks: tuple[DiskFacts, ...] = ()
    """The directories, the journal's first; empty before the boot has inspected them."""
    plan: FixPlan | None = None
    """The cookie fix that waits for a person."""
    fix_policy: str = ""
    record: BootRecord | None = None
    """None until the bookie serves; until then the three figures below are 0."""
    limbo_ledgers: int = 0
    unchecked_ledgers: int = 0
    losses_recorded: int = 0
    decisions: tuple[PersonDecision, ...] = ()
    """The newest decisions of people, oldest first."""
    count: NamingCount | None = None
    """The count of a drain; None = not counted, which does not mean zero."""


@dataclass(frozen=True, slots=True)
class BookieServices:
    """The parts that a bookie has once its boot has finished."""

    booted: Booted
    marks: Marks
    announcer: Announcer
    drain: Drain
    collector: Collector


class Control:
    """Answers calls of the control plane in any phase of the bookie; `admin` puts the answers on
    the wire.
    """

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
        """The TLS of the ports; None = plain."""
        self.boot: Boot | None = None
        """The last attempt to boot, from its first step on; it stays here after its end."""
        self._serving: BookieServices | None = None
        """Set when the boot has finished, and never unset."""
        self.started_at_ms = int(time.time() * 1000)

    @property
    def limits(self) -> Limits:
        """How much may be asked at once."""
        return self._settings.limits

    def serve(self, serving: BookieServices) -> None:
        """Note that the boot has finished: from now on all calls can be answered."""
        self._serving = serving

    @property
    def serving(self) -> BookieServices:
        """The parts of the serving bookie; NotReadyError before it serves, and once it stops."""
        if self._serving is None or not self._state.phase.serves:
            raise NotReadyError(
                f"bookie {self._state.bookie_id} is {self._state.phase.name}: "
                f"{self._state.message or 'try again'}"
            )
        return self._serving

    @property
    def booted(self) -> Booted | None:
        """The result of the finished boot, in every later phase."""
        return self._serving.booted if self._serving is not None else None

    # Identity
    def identity(self) -> Identity:
        """The identity of this process; while it boots, with the cluster that its metadata store
        names.
        """
        own = self._state.identity
        if own.cluster or self.boot is None:
            return own
        return replace(own, cluster=self.boot.progress.instance_id)

    def hear_epoch(self, epoch: int) -> None:
        self._state.hear_epoch(epoch)

    # Health
    async def health(self) -> Health:
        """The health as known now, in any phase."""
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
        """The directories with their present space, 0 where the file system does not answer.
        Blocking.
        """
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
        """Measure the figures for the metrics."""
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
            noted_ledgers=storage.noted_count,
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
        """Begin or end the drain; returns the phase and how many ledgers this bookie holds."""
        serving = self.serving
        await (serving.drain.cancel() if cancel else serving.drain.begin())
        return self._state.phase, serving.marks.ledgers_held


@lru_cache
def product_version() -> str:
    """The installed version; `dev` in a source tree that is not installed."""
    try:
        return version("bookie-operator")
    except PackageNotFoundError:
        return "dev"
