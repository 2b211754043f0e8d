"""Boot steps 1-5 and the end of a stop: nothing is served before all of this is durable.

Order (DESIGN.md 4): lock; stamps, markers, cookie, epoch -> `verdicts.decide`; where disks changed,
the consent that the policy asks for, before anything is written to them; open the storage (replays
the journal in every mode); if something may be forgotten, mark: fence boundary, limbo, unchecked,
from a linearizable listing; then the cookie; then stamps with the new epoch, the epoch in the
metadata store, and last this boot's markers. A crash at any point leaves a state that the next boot
judges at least as carefully.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from bookie.metadata.store import BookieInfo, Cookie, MetadataStore, Versioned
from bookie.points import passing
from bookie.protocol.errors import (
    BootRefusedError,
    CorruptError,
    MetadataConflictError,
    MetadataFormatError,
    StorageError,
)
from bookie.protocol.ids import BookieId, LedgerId
from bookie.storage.consent import FixPlan, FixPolicy, fix_plan
from bookie.storage.disk import Disk, remove_file
from bookie.storage.engine import Storage, StorageSettings
from bookie.storage.listing import Listing, list_ledgers
from bookie.storage.looking import look_at_disks
from bookie.storage.marker import Marker, clear_markers, write_markers
from bookie.storage.modes import DurabilityMode
from bookie.storage.opening import OpenReport
from bookie.storage.records import Boundary
from bookie.storage.routing import ROUTING_VERSION
from bookie.storage.stamps import STAMP_NAME, Stamp, write_stamp
from bookie.storage.verdicts import Decision, DiskVerdict, Found, FoundDisk, Kind, decide

__all__ = [
    "Boot", "BootProgress", "BootRecord", "BootSettings", "Booted", "FixPlan", "FixPolicy",
    "finish_clean_stop",
]  # fmt: skip

log = logging.getLogger(__name__)

Result = TypeVar("Result")

RIVAL_POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class BootSettings:
    """Identity and folders of the bookie that boots; `volume_uids` journal first.

    `rival_wait_s`: how long a registration of the same id may outlive its process; more than a
    session of the metadata store.
    """

    bookie_id: BookieId
    storage: StorageSettings
    policy: FixPolicy
    volume_uids: tuple[str, ...] = ()
    rival_wait_s: float = 30.0

    @property
    def directories(self) -> tuple[Path, ...]:
        """The journal directory, then the ledger directories."""
        return (self.storage.journal_dir, *self.storage.ledger_dirs)


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
    """What a finished boot hands over. `unchecked`: ledgers whose check has not ended."""

    storage: Storage
    record: BootRecord
    unchecked: set[LedgerId] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the decision rests on, with the versions that later writes must find unchanged."""

    found: Found
    cookie: Versioned[Cookie] | None
    epoch: Versioned[int] | None


@dataclass(frozen=True, slots=True)
class _Existing:
    """Every ledger there was at one moment: all ids up to `limit`, and those the listing has."""

    limit: LedgerId
    listing: Listing


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
        approved_plan: str = "",
    ) -> None:
        """`approved_plan`: what an earlier attempt of this process was allowed to do."""
        self._settings = settings
        self._store = store
        self._disk = disk
        self._call_soon = call_soon
        self._started_at_ms = started_at_ms
        self._on_step = on_step
        self._approved = asyncio.Event()
        self.approved_plan = approved_plan
        self.progress = BootProgress()

    async def run(self) -> Booted:
        """The whole boot. BootRefusedError when a person must act; any other error = no start.

        The caller holds the folder lock and closes the storage when a later step of its own fails.
        """
        try:
            return await self._run()
        except (CorruptError, MetadataFormatError) as error:
            # The disk or the store works, but what lies there makes no sense: a person must look.
            raise BootRefusedError(str(error)) from error

    async def _run(self) -> Booted:
        seen = await self._look()
        decision = decide(seen.found)
        self.progress.verdicts = decision.verdicts
        if decision.kind is Kind.REFUSE:
            raise BootRefusedError(decision.message)
        if decision.kind in (Kind.FIX, Kind.ASK):
            await self._get_consent(decision, seen.found)
        if decision.kind is not Kind.NORMAL:
            await self._outlive_rival()
        if decision.kind in (Kind.FIX, Kind.ASK):
            await self._note_doubt(seen.found)
        self._step("replaying")
        storage = await self._open_storage()
        try:
            return await self._finish(storage, seen, decision)
        except BaseException:
            # The markers of the boot before are still there: closing changes nothing for the next.
            with contextlib.suppress(StorageError):
                await asyncio.to_thread(storage.close)
            raise

    def approve(self, plan_id: str, approved_by: str = "") -> str:
        """Let the pending fix proceed; a sentence when this is not the one that waits."""
        plan = self.progress.plan
        if plan is None:
            return "no cookie fix waits for approval"
        if plan_id != plan.plan_id:
            return f"the fix that waits is {plan.plan_id}, not {plan_id}: look again, then approve"
        log.warning("cookie fix %s approved by %s", plan_id, approved_by or "unknown")
        self.approved_plan = plan_id
        self._approved.set()
        return ""

    # Step 1: look
    async def _look(self) -> _Seen:
        bookie_id = self._settings.bookie_id
        disks = await _in_thread(self._read_disks)
        instance_id = await self._store.instance_id()
        if instance_id is None and not any(disk.stamp for disk in disks):
            instance_id = await self._store.initialise()
        # A store without instance id beside stamped disks is not ours: `decide` refuses, and we
        # leave no layout of ours behind in it.
        cookie = await self._store.read_cookie(bookie_id) if instance_id else None
        epoch = await self._store.read_boot_epoch(bookie_id) if instance_id else None
        self.progress.disks = disks
        self.progress.instance_id = instance_id or ""
        found = Found(
            bookie_id,
            instance_id or "",
            disks,
            cookie=cookie.value if cookie else None,
            last_epoch=epoch.value if epoch else None,
        )
        return _Seen(found, cookie, epoch)

    def _read_disks(self) -> tuple[FoundDisk, ...]:
        directories = self._settings.directories
        for directory in directories:
            self._disk.make_directory(directory)
        return look_at_disks(self._disk, directories, volume_uids=self._settings.volume_uids)

    # Where disks changed, or are new: before anything is written to them
    async def _get_consent(self, decision: Decision, found: Found) -> None:
        """By the policy. Until it is given nothing was changed: the old disk may still come back,
        and the journal's records must then be there for it."""
        policy = self._settings.policy
        if policy is FixPolicy.NEVER:
            raise BootRefusedError(
                f"{decision.message}; cookie fix policy is Never: put the old disk back, or allow "
                "the fix (policy Auto or Approve, or `bookie cookie fix`); nothing was changed"
            )
        if policy is FixPolicy.AUTO and decision.kind is Kind.FIX:
            return
        plan = fix_plan(decision, found)
        if plan.plan_id == self.approved_plan:
            return
        self.progress.plan = plan
        self._step("awaiting approval")
        log.warning("cookie fix %s waits for approval: %s", plan.plan_id, plan.description)
        await self._approved.wait()
        self.progress.plan = None

    async def _outlive_rival(self) -> None:
        """No process of this id may live on other directories, which only its lock would show.

        What is registered is a left-over of a killed process, which goes away, or a rival, who is
        still there in a look that began after the wait: the answers of a slow store are old.
        """
        loop, bookie_id = asyncio.get_running_loop(), self._settings.bookie_id
        began = loop.time()
        gives_up_at = began + self._settings.rival_wait_s
        while rival := (await self._store.bookies()).get(bookie_id):
            if began > gives_up_at:
                raise _lives_elsewhere(rival)
            self._step("waiting for the former process to be gone")
            await asyncio.sleep(RIVAL_POLL_S)
            began = loop.time()

    async def _note_doubt(self, found: Found) -> None:
        """Should this boot go no further and the old disk come back, what was replayed and trimmed
        meanwhile is missing there: markers of the weakest mode make the next boot check."""
        doubt = Marker(found.next_epoch - 1, DurabilityMode.MEMORY)
        await _in_thread(lambda: write_markers(self._disk, self._settings.directories, doubt))

    # Step 2: open and replay
    async def _open_storage(self) -> Storage:
        def work() -> Storage:
            return Storage.open(self._settings.storage, disk=self._disk, call_soon=self._call_soon)

        opening = asyncio.create_task(asyncio.to_thread(work))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])
            if opening.exception() is None:
                with contextlib.suppress(StorageError):
                    await asyncio.to_thread(opening.result().close)
            raise

    # Steps 3-5
    async def _finish(self, storage: Storage, seen: _Seen, decision: Decision) -> Booted:
        found = seen.found
        before = storage.boundary()
        # An earlier attempt may have marked and gone no further: this one has an epoch of its own.
        epoch = max(found.next_epoch, before.epoch + 1 if before else 0)
        reason = unclean_reason(decision, storage.report)
        if not reason and before is not None and before.epoch >= found.next_epoch:
            reason = "MarkingInterrupted"
        if not reason and decision.kind is Kind.NEW_BOOKIE and _has_past(storage, found):
            reason = "IdentityLost"
        listing = Listing()
        if reason or decision.kind is Kind.NEW_BOOKIE:
            self._step("marking")
            existing = await self._list_existing()
            listing = existing.listing
            if decision.kind is Kind.NEW_BOOKIE and listing.named:
                reason = "IdentityLost"
                await self._get_consent(_lost_identity(decision, listing), found)
            if reason:
                await self._mark(storage, epoch, existing)
                passing("boot: marked, cookie and stamps not written")
        elif storage.unchecked_boundary() is not None:
            listing = await list_ledgers(self._store, self._settings.bookie_id)
        if not reason:
            await _in_thread(storage.settle)
        fixed = await self._take_disks(seen, decision)
        await self._stamp(seen, epoch)
        unchecked = {i for i in listing.named if storage.is_unchecked(i)}
        unchecked.difference_update(storage.limbo_ledgers())
        record = self._record(epoch, reason, decision, listing=listing, cookie_fixed=fixed)
        return Booted(storage, record, unchecked)

    async def _list_existing(self) -> _Existing:
        # One id from the generator: every id it ever gave is below, whoever got it (R24). Before
        # the listing, so that a ledger made meanwhile is in one of the two or in neither's past.
        limit = await self._store.new_ledger_id()
        return _Existing(limit, await list_ledgers(self._store, self._settings.bookie_id))

    async def _mark(self, storage: Storage, epoch: int, existing: _Existing) -> None:
        # What lies here above the limit had an explicit id, and may be deleted by now (S40).
        known = {*existing.listing.existing, *storage.ledger_ids()}
        extra = frozenset(ledger_id for ledger_id in known if ledger_id > existing.limit)
        recovering = frozenset(existing.listing.recovering)
        boundary = Boundary(epoch, existing.limit, extra, recovering)
        limbo = existing.listing.undecided
        await _in_thread(lambda: storage.mark(boundary, limbo, unchecked=True))

    def _record(
        self, epoch: int, reason: str, decision: Decision, *, listing: Listing, cookie_fixed: bool
    ) -> BootRecord:
        record = BootRecord(
            epoch,
            clean=not reason and not decision.is_dirty,
            reason=reason or _calm_reason(decision),
            started_at_ms=self._started_at_ms,
            mode=self._settings.storage.mode,
            previous_mode=decision.previous_mode,
            cookie_fixed=cookie_fixed,
        )
        if not reason:
            return record
        return replace(
            record,
            ledgers_fenced=len(listing.existing),
            ledgers_in_limbo=len(listing.undecided),
            ledgers_unchecked=len(listing.named) - len(listing.undecided),
        )

    async def _take_disks(self, seen: _Seen, decision: Decision) -> bool:
        """Make the cookie name these disks; True when that mended a mismatch."""
        wanted = self._cookie(seen.found)
        mends = decision.kind in (Kind.FIX, Kind.ASK)
        if not mends and seen.cookie is not None and seen.cookie.value == wanted:
            return False
        self._step("fixing the cookie")
        try:
            if seen.cookie is None:
                await self._store.create_cookie(wanted)
            else:
                await self._store.write_cookie(wanted, version=seen.cookie.version)
        except MetadataConflictError as error:
            raise self._rival("cookie") from error
        log.warning("wrote the cookie: %s", decision.message or "directories moved")
        return mends

    def _rival(self, what: str) -> BootRefusedError:
        return BootRefusedError(
            f"the {what} of {self._settings.bookie_id} changed during this boot: another process "
            "uses this bookie id; stop it, then start this one again"
        )

    async def _stamp(self, seen: _Seen, epoch: int) -> None:
        """Stamps, then the store's epoch, then markers: see `verdicts` on stale disks."""
        passing("boot: cookie written, not stamped")
        self._step("stamping")
        await _in_thread(lambda: self._write_stamps(seen.found, epoch))
        passing("boot: stamped, epoch not in the store")
        try:
            await self._store.write_boot_epoch(
                self._settings.bookie_id, epoch, version=seen.epoch.version if seen.epoch else None
            )
        except MetadataConflictError as error:
            # With our stamps these directories would pass for the ones that the other boot stamped.
            await _in_thread(lambda: self._restore_stamps(seen.found))
            raise self._rival("boot epoch") from error
        passing("boot: epoch in the store, no marker yet")
        marker = Marker(epoch, self._settings.storage.mode)
        await _in_thread(lambda: write_markers(self._disk, self._settings.directories, marker))

    def _write_stamps(self, found: Found, epoch: int) -> None:
        uids = tuple(
            disk.volume_uid or (disk.stamp.volume_uid if disk.stamp else "") for disk in found.disks
        )
        for disk in found.disks:
            is_same = disk.stamp is not None and disk.holds_store
            stamp = Stamp(
                found.instance_id,
                found.bookie_id,
                disk.role,
                disk.index,
                found.ledger_directories,
                ROUTING_VERSION,
                disk_id=disk.stamp.disk_id if disk.stamp and is_same else uuid.uuid4().hex,
                boot_epoch=epoch,
                volume_uids=uids,
            )
            write_stamp(self._disk, disk.path, stamp)

    def _restore_stamps(self, found: Found) -> None:
        for disk in found.disks:
            if disk.stamp is not None:
                write_stamp(self._disk, disk.path, disk.stamp)
            else:
                remove_file(self._disk, disk.path / STAMP_NAME)

    def _cookie(self, found: Found) -> Cookie:
        ledgers = tuple(str(path) for path in self._settings.storage.ledger_dirs)
        journal = (str(self._settings.storage.journal_dir),)
        return Cookie(self._settings.bookie_id, journal, ledgers, found.instance_id, ledgers)

    def _step(self, step: str) -> None:
        self.progress.step = step
        self._on_step(step)


async def _in_thread(work: Callable[[], Result]) -> Result:
    """Blocking work, to its end also when the boot is stopped: the folders stay locked for it."""
    task = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def unclean_reason(decision: Decision, report: OpenReport) -> str:
    """Why entries may be forgotten, empty when none can be: DESIGN.md 4's table of modes."""
    if decision.kind is Kind.ASK:
        return "DiskStale"
    if decision.kind is Kind.FIX:
        return "DiskReplaced"
    if report.journal_lost:
        return "JournalLost"
    if report.index_rebuilt:
        return "IndexRebuilt"
    if decision.is_dirty and decision.previous_mode is DurabilityMode.MEMORY:
        return "UncleanShutdown"
    if decision.lacks_journal and decision.kind is not Kind.NEW_BOOKIE:
        return "JournalLost"
    # With the journal on, what the torn log lost was replayed; else it was there and is gone.
    if report.torn and decision.previous_mode is not DurabilityMode.JOURNAL:
        return "TornLog"
    return ""


def _has_past(storage: Storage, found: Found) -> bool:
    """A bookie of this id has served before, whatever its disks and cookie say (#4812).

    One that has not must not fence anything: writers are about to choose it for ledgers that exist.
    """
    return found.last_epoch is not None or found.is_dirty or bool(storage.ledger_ids())


def _lost_identity(decision: Decision, listing: Listing) -> Decision:
    """Ledgers name a bookie that has neither cookie nor stamps: as if all its disks were replaced,
    and for whoever decides about those (R29)."""
    message = (
        f"{len(listing.named)} ledgers name this bookie, but it has no cookie and no stamped disk: "
        "its identity was deleted, or this is another bookie's id"
    )
    return replace(decision, kind=Kind.FIX, message=message)


def _calm_reason(decision: Decision) -> str:
    if decision.kind is Kind.NEW_BOOKIE:
        return "FirstBoot"
    return "UncleanShutdown" if decision.is_dirty else "CleanStop"


def finish_clean_stop(storage: Storage, disk: Disk, directories: tuple[Path, ...]) -> None:
    """Flush, sync, close, and only if all of that succeeded clear the markers (R22, S28)."""
    storage.close()
    passing("stop: flushed, markers not cleared")
    clear_markers(disk, directories)


def _lives_elsewhere(rival: BookieInfo) -> BootRefusedError:
    places = ", ".join(f"{e.host}:{e.port}" for e in rival.endpoints) or "?"
    return BootRefusedError(
        f"bookie {rival.bookie_id} is registered and alive at {places}, on other directories than "
        "these: stop that process, or give this one an id of its own; nothing was changed"
    )
