"""The bookie as its control plane sees it: health at any time, the rest once it is booted."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bookie.boot.boot import Boot, Booted, BootRecord
from bookie.boot.inspection import InspectedDisk
from bookie.boot.verdicts import DiskVerdict
from bookie.errors import NotReadyError, StorageError
from bookie.ids import LedgerId
from bookie.protocol.availability import EntrySet
from bookie.server.admin import Availability, ClearResult, LossRequest, Marked
from bookie.server.announce import Announcer
from bookie.server.collect import Collector
from bookie.server.drain import Drain, NamingCount
from bookie.server.http import Gauges
from bookie.server.marks import Marks
from bookie.server.recheck import Recheck
from bookie.server.settings import BookieSettings
from bookie.server.state import BookieState, Phase
from bookie.storage.disk import RealDisk
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.identity import Identity


class Control:
    """Implements `admin.ControlledBookie` over whatever of the bookie exists by now."""

    def __init__(self, settings: BookieSettings, state: BookieState) -> None:
        self._settings = settings
        self._state = state
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
    def health(self) -> pb.Health:
        state = self._state
        health = pb.Health(
            bookie_id=state.bookie_id,
            phase=pb.Phase.Name(int(state.phase)),
            message=state.explanation,
            limbo_cleared_total=state.traffic.limbo_cleared,
            entries_total=state.traffic.entries_added,
            bytes_total=state.traffic.bytes_added,
            version=product_version(),
            draining=state.is_draining,
            metadata_rolled_back=state.metadata_rolled_back,
            collection_held=state.collection_held,
            collection_plan_id=state.collection_plan,
        )
        if self.boot is not None:
            self._add_boot(health, self.boot)
        if self.booted is not None and self._marks is not None:
            health.boot.CopyFrom(_boot_record(self.booted.record))
            health.limbo_ledgers = self._marks.limbo_count
            health.unchecked_ledgers = self._marks.unchecked_count
            health.losses_recorded = self._marks.losses_count
        if self._drain is not None and self._drain.count is not None:
            _add_count(health, self._drain.count)
        return health

    def _add_boot(self, health: pb.Health, boot: Boot) -> None:
        progress = boot.progress
        health.instance_id = progress.instance_id
        verdicts = progress.verdicts or tuple(DiskVerdict.OK for _ in progress.disks)
        for found, verdict in zip(progress.disks, verdicts, strict=True):
            health.disks.append(_disk_health(found, verdict))
        if progress.plan is not None:
            health.cookie_fix.CopyFrom(
                pb.CookieFix(
                    plan_id=progress.plan.plan_id,
                    disk_indexes=progress.plan.disks,
                    description=progress.plan.description,
                    policy=self._settings.cookie_fix.policy,
                )
            )

    def gauges(self) -> Gauges:
        """Figures for the metrics."""
        if self.booted is None or self._marks is None:
            return Gauges()
        record = self.booted.record
        return Gauges(
            record.boot_epoch,
            record.clean,
            limbo_ledgers=self._marks.limbo_count,
            unchecked_ledgers=self._marks.unchecked_count,
            unflushed_bytes=self.booted.storage.unflushed_bytes,
            free_bytes={
                str(usage.path): usage.free_bytes
                for usage in self.booted.storage.maintenance.usage()
            },
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
        self._state.switch_read_only("person", read_only, "a person made it read-only")
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


def _add_count(health: pb.Health, count: NamingCount) -> None:
    health.ledgers_counted = True
    health.ledgers_naming_it = count.ledgers
    health.counted_at_ms = count.at_ms


def _boot_record(record: BootRecord) -> pb.BootRecord:
    return pb.BootRecord(
        boot_epoch=record.boot_epoch,
        clean=record.clean,
        reason=record.reason,
        started_at_ms=record.started_at_ms,
        mode=record.mode.value,
        previous_mode=record.previous_mode.value if record.previous_mode else "",
        ledgers_fenced=record.ledgers_fenced,
        ledgers_in_limbo=record.ledgers_in_limbo,
        ledgers_unchecked=record.ledgers_unchecked,
        cookie_fixed=record.cookie_fixed,
        ledgers_unreadable=record.ledgers_unreadable,
        unreadable_ledger_ids=record.unreadable,
    )


def _disk_health(found: InspectedDisk, verdict: DiskVerdict) -> pb.DiskHealth:
    total, free = _space(found.path)
    return pb.DiskHealth(
        path=str(found.path),
        role=found.role,
        index=found.index,
        disk_id=found.stamp.disk_id if found.stamp else "",
        verdict=verdict.value,
        total_bytes=total,
        free_bytes=free,
        volume_uid=found.volume_uid,
    )


def _space(path: Path) -> tuple[int, int]:
    try:
        space = RealDisk().space(path)
    except StorageError:
        return 0, 0
    return space.total_bytes, space.free_bytes


@lru_cache
def product_version() -> str:
    """The installed version, `dev` when run from a tree that is not installed."""
    try:
        return version("bookie-operator")
    except PackageNotFoundError:
        return "dev"
