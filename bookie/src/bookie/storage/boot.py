"""Boot steps 1-5 and the end of a stop: nothing is served before all of this is durable.

Order (DESIGN.md 4): lock; stamps, markers, cookie, epoch -> `verdicts.decide`; open the storage
(replays the journal in every mode); if something may be forgotten, mark: fence boundary, limbo,
unchecked, from a linearizable listing; then the cookie under its policy; then stamps with the new
epoch, the epoch in the metadata store, and last this boot's markers. A crash at any point leaves a
state that the next boot judges at least as carefully.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from bookie.metadata.store import Cookie, MetadataStore, Versioned
from bookie.protocol.errors import BootRefusedError, MetadataConflictError, StorageError
from bookie.protocol.ids import BookieId, LedgerId
from bookie.storage.disk import Disk
from bookie.storage.engine import Storage, StorageSettings
from bookie.storage.listing import Listing, list_ledgers
from bookie.storage.marker import Marker, clear_markers, read_marker, write_markers
from bookie.storage.modes import DurabilityMode
from bookie.storage.records import Boundary
from bookie.storage.routing import ROUTING_VERSION
from bookie.storage.stamps import JOURNAL_ROLE, LEDGER_ROLE, Stamp, read_stamp, write_stamp
from bookie.storage.verdicts import Decision, DiskVerdict, Found, FoundDisk, Kind, decide

log = logging.getLogger(__name__)


class FixPolicy(Enum):
    """Who lets a bookie take a replaced disk as its own."""

    AUTO = "Auto"
    APPROVE = "Approve"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class BootSettings:
    """Identity and folders of the bookie that boots; `volume_uids` journal first."""

    bookie_id: BookieId
    storage: StorageSettings
    policy: FixPolicy
    volume_uids: tuple[str, ...] = ()

    @property
    def directories(self) -> tuple[Path, ...]:
        """The journal directory, then the ledger directories."""
        return (self.storage.journal_dir, *self.storage.ledger_dirs)


@dataclass(frozen=True, slots=True)
class FixPlan:
    """A cookie fix that waits for a person; the id binds an approval to exactly this one."""

    plan_id: str
    disks: tuple[int, ...]
    description: str


@dataclass(frozen=True, slots=True)
class BootRecord:
    """Durable facts of one boot, as the control plane tells them."""

    boot_epoch: int
    clean: bool
    reason: str
    started_at_ms: int
    mode: DurabilityMode
    previous_mode: DurabilityMode | None = None
    ledgers_fenced: int = 0
    ledgers_in_limbo: int = 0
    ledgers_unchecked: int = 0
    cookie_fixed: bool = False


@dataclass(slots=True)
class BootProgress:
    """What the control plane can tell while a boot goes on; changed by `Boot` only."""

    step: str = "opening"
    disks: tuple[FoundDisk, ...] = ()
    verdicts: tuple[DiskVerdict, ...] = ()
    instance_id: str = ""
    plan: FixPlan | None = None


@dataclass(frozen=True, slots=True)
class Booted:
    """What a finished boot hands over. `unchecked`: ledgers whose copies are to be checked."""

    storage: Storage
    record: BootRecord
    unchecked: set[LedgerId] = field(default_factory=set)


class Boot:
    """One boot of one bookie, from locked folders to durable markers."""

    def __init__(
        self,
        settings: BootSettings,
        store: MetadataStore,
        *,
        disk: Disk,
        call_soon: Callable[[Callable[[], None]], None],
        started_at_ms: int,
        on_step: Callable[[str], None] = lambda _step: None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._disk = disk
        self._call_soon = call_soon
        self._started_at_ms = started_at_ms
        self._on_step = on_step
        self._approved = asyncio.Event()
        self.progress = BootProgress()

    async def run(self) -> Booted:
        """The whole boot. BootRefusedError when a person must act; any other error = no start.

        The caller holds the folder lock and closes the storage when a later step of its own fails.
        """
        found, cookie = await self._look()
        decision = decide(found)
        self.progress.verdicts = decision.verdicts
        if decision.kind is Kind.REFUSE:
            raise BootRefusedError(decision.message)
        self._step("replaying")
        storage = await asyncio.to_thread(
            Storage.open, self._settings.storage, disk=self._disk, call_soon=self._call_soon
        )
        try:
            return await self._finish(storage, found, decision, cookie)
        except BaseException:
            # The markers of the boot before are still there: closing changes nothing for the next.
            with contextlib.suppress(StorageError):
                await asyncio.to_thread(storage.close)
            raise

    def approve(self, plan_id: str) -> str:
        """Let the pending fix proceed; a sentence when this is not the one that waits."""
        plan = self.progress.plan
        if plan is None:
            return "no cookie fix waits for approval"
        if plan_id != plan.plan_id:
            return f"the fix that waits is {plan.plan_id}, not {plan_id}: look again, then approve"
        self._approved.set()
        return ""

    # Step 1: look
    async def _look(self) -> tuple[Found, Versioned[Cookie] | None]:
        bookie_id = self._settings.bookie_id
        for directory in self._settings.directories:
            await asyncio.to_thread(self._disk.make_directory, directory)
        instance_id = await self._store.initialise()
        cookie = await self._store.read_cookie(bookie_id)
        epoch = await self._store.read_boot_epoch(bookie_id)
        disks = await asyncio.to_thread(self._read_disks)
        self.progress.disks = disks
        self.progress.instance_id = instance_id
        found = Found(
            bookie_id,
            instance_id,
            disks,
            cookie=cookie.value if cookie else None,
            last_epoch=epoch.value if epoch else None,
        )
        return found, cookie

    def _read_disks(self) -> tuple[FoundDisk, ...]:
        uids = self._settings.volume_uids
        return tuple(
            FoundDisk(
                path,
                JOURNAL_ROLE if place == 0 else LEDGER_ROLE,
                max(place - 1, 0),
                stamp=read_stamp(self._disk, path),
                marker=read_marker(self._disk, path),
                volume_uid=uids[place] if place < len(uids) else "",
            )
            for place, path in enumerate(self._settings.directories)
        )

    # Steps 2-5
    async def _finish(
        self,
        storage: Storage,
        found: Found,
        decision: Decision,
        cookie: Versioned[Cookie] | None,
    ) -> Booted:
        record = BootRecord(
            found.next_epoch,
            clean=True,
            reason="CleanStop",
            started_at_ms=self._started_at_ms,
            mode=self._settings.storage.mode,
            previous_mode=decision.previous_mode,
        )
        reason = unclean_reason(decision, storage)
        listing = Listing()
        if reason or decision.kind is Kind.NEW_BOOKIE:
            self._step("marking")
            listing = await self._mark(storage, record.boot_epoch, is_new=not reason)
            record = _describe(record, decision, reason, listing)
        else:
            await asyncio.to_thread(storage.settle)
            if decision.is_dirty:
                record = replace(record, clean=False, reason="UncleanShutdown")
            if storage.unchecked_boundary() is not None:
                listing = await list_ledgers(self._store, self._settings.bookie_id)
        fixed = await self._take_disks(found, decision, cookie)
        await self._stamp(found, record.boot_epoch)
        unchecked = {i for i in listing.named if storage.is_unchecked(i)}
        unchecked.difference_update(storage.limbo_ledgers())
        return Booted(storage, replace(record, cookie_fixed=fixed), unchecked)

    async def _mark(self, storage: Storage, epoch: int, *, is_new: bool) -> Listing:
        # One id from the generator: every id it ever gave is below, whoever got it (R24).
        limit = await self._store.new_ledger_id()
        listing = await list_ledgers(self._store, self._settings.bookie_id)
        extra = frozenset(i for i in listing.existing if i > limit)
        boundary = Boundary(epoch, limit, extra)
        # Nothing names a bookie that is really new: it cannot have forgotten anything.
        unchecked = bool(listing.named) or not is_new
        await asyncio.to_thread(storage.mark, boundary, listing.undecided, unchecked=unchecked)
        return listing

    async def _take_disks(
        self, found: Found, decision: Decision, cookie: Versioned[Cookie] | None
    ) -> bool:
        """Make the cookie name these disks; True when that mended a mismatch."""
        wanted = self._cookie(found)
        if cookie is None:
            await self._store.create_cookie(wanted)
            return False
        if decision.kind in (Kind.FIX, Kind.ASK):
            await self._get_consent(decision)
        if cookie.value == wanted and decision.kind is Kind.NORMAL:
            return False
        self._step("fixing the cookie")
        try:
            await self._store.write_cookie(wanted, version=cookie.version)
        except MetadataConflictError as error:
            raise BootRefusedError(
                f"the cookie of {found.bookie_id} changed during this boot: another process uses "
                "this bookie id; stop it, then start this one again"
            ) from error
        log.warning("fixed the cookie: %s", decision.message or "directories moved")
        return decision.kind in (Kind.FIX, Kind.ASK)

    async def _get_consent(self, decision: Decision) -> None:
        policy = self._settings.policy
        if policy is FixPolicy.NEVER:
            raise BootRefusedError(
                f"{decision.message}; cookie fix policy is Never: put the old disk back, or allow "
                "the fix (policy Auto or Approve, or `bookie cookie fix`)"
            )
        if policy is FixPolicy.AUTO and decision.kind is Kind.FIX:
            return
        plan = FixPlan(uuid.uuid4().hex[:12], decision.replaced, decision.message)
        self.progress.plan = plan
        self._step("awaiting approval")
        log.warning("cookie fix %s waits for approval: %s", plan.plan_id, plan.description)
        await self._approved.wait()
        self.progress.plan = None

    async def _stamp(self, found: Found, epoch: int) -> None:
        """Stamps, then the store's epoch, then markers: see `verdicts` on stale disks."""
        self._step("stamping")
        await asyncio.to_thread(self._write_stamps, found, epoch)
        stored = await self._store.read_boot_epoch(self._settings.bookie_id)
        await self._store.write_boot_epoch(
            self._settings.bookie_id, epoch, version=stored.version if stored else None
        )
        marker = Marker(epoch, self._settings.storage.mode)
        await asyncio.to_thread(write_markers, self._disk, self._settings.directories, marker)

    def _write_stamps(self, found: Found, epoch: int) -> None:
        for disk in found.disks:
            stamp = Stamp(
                found.instance_id,
                found.bookie_id,
                disk.role,
                disk.index,
                found.ledger_directories,
                ROUTING_VERSION,
                disk_id=disk.stamp.disk_id if disk.stamp else uuid.uuid4().hex,
                boot_epoch=epoch,
            )
            write_stamp(self._disk, disk.path, stamp)

    def _cookie(self, found: Found) -> Cookie:
        ledgers = tuple(str(path) for path in self._settings.storage.ledger_dirs)
        journal = (str(self._settings.storage.journal_dir),)
        return Cookie(self._settings.bookie_id, journal, ledgers, found.instance_id, ledgers)

    def _step(self, step: str) -> None:
        self.progress.step = step
        self._on_step(step)


def unclean_reason(decision: Decision, storage: Storage) -> str:
    """Why entries may be forgotten, empty when none can be: DESIGN.md 4's table of modes."""
    if decision.kind is Kind.ASK:
        return "DiskStale"
    if decision.kind is Kind.FIX:
        return "DiskReplaced"
    report = storage.report
    if decision.kind is Kind.NEW_BOOKIE:
        return ""
    if report.journal_lost:
        return "JournalLost"
    if report.index_rebuilt:
        return "IndexRebuilt"
    if decision.is_dirty and decision.previous_mode is DurabilityMode.MEMORY:
        return "UncleanShutdown"
    # With the journal on, what the torn log lost was replayed; else it was there and is gone.
    if report.torn and decision.previous_mode is not DurabilityMode.JOURNAL:
        return "TornLog"
    return ""


def _describe(record: BootRecord, decision: Decision, reason: str, listing: Listing) -> BootRecord:
    if decision.kind is Kind.NEW_BOOKIE:
        # A new bookie fences all that exists too: an old one at this id may have had a say (#4812).
        known = bool(listing.named)
        reason = "IdentityLost" if known else "FirstBoot"
        record = replace(record, clean=not known, reason=reason)
    else:
        record = replace(record, clean=False, reason=reason)
    return replace(
        record,
        ledgers_fenced=len(listing.existing),
        ledgers_in_limbo=len(listing.undecided),
        ledgers_unchecked=len(listing.named) - len(listing.undecided),
    )


def finish_clean_stop(storage: Storage, disk: Disk, directories: tuple[Path, ...]) -> None:
    """Flush, sync, close, and only if all of that succeeded clear the markers (R22, S28)."""
    storage.close()
    clear_markers(disk, directories)
