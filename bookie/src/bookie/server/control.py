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
from bookie.boot.inspection import InspectedDisk
from bookie.boot.verdicts import DiskVerdict
from bookie.errors import NotReadyError, StorageError
from bookie.ids import LedgerId
from bookie.protocol.availability import EntrySet
from bookie.server.announce import Announcer
from bookie.server.collect import Collector
from bookie.server.drain import Drain, NamingCount
from bookie.server.http import Gauges
from bookie.server.marks import Availability, ClearResult, LossRequest, Marked, Marks
from bookie.server.recheck import Recheck
from bookie.server.settings import BookieSettings
from bookie.server.state import BookieState, Phase, ReadOnlyReason
from bookie.storage.disk import Disk, DiskSpace
from bookie.wire.identity import Identity


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """One directory as its boot found it, and the space of its disk now."""

    found: InspectedDisk
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
    count: NamingCount | None = None
    """Of a drain; None = not counted, never zero."""


class Control:
    """Answers for whatever of the bookie exists by now; `admin` puts it on the wire."""

    def __init__(self, settings: BookieSettings, state: BookieState, disk: Disk) -> None:
        self._settings = settings
        self._state = state
        self._disk = disk
        self.booted: Booted | None = None
        self._marks: Marks | None = None
        self._announcer: Announcer | None = None
        self._drain: Drain | None = None
        self._collector: Collector | None = None
        self.boot: Boot | None = None
        self.started_at_ms = int(time.time() * 1000)

    def serve(
        self,
        booted: Booted,
        marks: Marks,
        *,
        announcer: Announcer,
        drain: Drain,
        collector: Collector,
    ) -> None:
        """The boot is over: everything can be asked from now on."""
        self._collector = collector
        self.booted, self._marks = booted, marks
        self._announcer, self._drain = announcer, drain

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
        if self.booted is not None and self._marks is not None:
            health = replace(
                health,
                record=self.booted.record,
                limbo_ledgers=self._marks.limbo_count,
                unchecked_ledgers=self._marks.unchecked_count,
                losses_recorded=self._marks.losses_count,
            )
        return replace(health, count=self._drain.count) if self._drain is not None else health

    def _disks(
        self, disks: Sequence[InspectedDisk], verdicts: Sequence[DiskVerdict]
    ) -> tuple[DiskFacts, ...]:
        """With their space now, 0 where the file system does not answer. Blocking."""
        return tuple(
            DiskFacts(found, verdict, self._space(found.path))
            for found, verdict in zip(disks, verdicts, strict=True)
        )

    def _space(self, path: Path) -> DiskSpace:
        try:
            return self._disk.space(path)
        except StorageError:
            return DiskSpace(0, 0)

    async def gauges(self) -> Gauges:
        """Figures for the metrics."""
        if self.booted is None or self._marks is None:
            return Gauges()
        record, storage = self.booted.record, self.booted.storage
        usages = await asyncio.to_thread(storage.maintenance.usage)
        return Gauges(
            record.boot_epoch,
            record.clean,
            limbo_ledgers=self._marks.limbo_count,
            unchecked_ledgers=self._marks.unchecked_count,
            unflushed_bytes=storage.unflushed_bytes,
            free_bytes={str(usage.path): usage.free_bytes for usage in usages},
        )

    # Marks
    async def marked(self, *, include_unchecked: bool) -> Sequence[Marked]:
        return self._ready().marked(include_unchecked=include_unchecked)

    async def availability(self, ledger_ids: Sequence[LedgerId]) -> Sequence[Availability]:
        return await self._ready().availability(ledger_ids)

    async def clear(self, ledger_ids: Sequence[LedgerId]) -> Sequence[ClearResult]:
        return await self._ready().clear(ledger_ids)

    async def record_loss(self, request: LossRequest) -> str:
        return await self._ready().record_loss(request)

    async def recheck(self, ledger_id: LedgerId, entries: EntrySet) -> Recheck:
        return await self._ready().recheck(ledger_id, entries)

    def approve(self, plan_id: str, approved_by: str) -> str:
        if self.boot is None:
            return f"nothing waits for approval: the bookie is {self._state.phase.name}"
        return self.boot.approve(plan_id, approved_by)

    def approve_collection(self, plan_id: str, approved_by: str) -> str:
        if self._collector is None:
            return f"nothing waits for approval: the bookie is {self._state.phase.name}"
        return self._collector.approve(plan_id, approved_by)

    # Modes
    async def set_read_only(self, read_only: bool) -> Phase:
        self._ready()
        assert self._announcer is not None
        self._state.switch_read_only(ReadOnlyReason.PERSON, read_only)
        await self._announcer.announce()
        return self._state.phase

    async def drain(self, cancel: bool) -> tuple[Phase, int]:
        marks = self._ready()
        assert self._drain is not None
        await (self._drain.cancel() if cancel else self._drain.begin())
        return self._state.phase, marks.ledgers_held

    async def flush(self) -> int:
        return await self._ready().flush()

    def _ready(self) -> Marks:
        if self._marks is None or not self._state.phase.serves:
            raise NotReadyError(
                f"bookie {self._state.bookie_id} is {self._state.phase.name}: "
                f"{self._state.message or 'try again'}"
            )
        return self._marks


@lru_cache
def product_version() -> str:
    """The installed version, `dev` when run from a tree that is not installed."""
    try:
        return version("bookie-operator")
    except PackageNotFoundError:
        return "dev"
