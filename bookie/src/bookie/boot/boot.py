"""Does the steps of a boot in order, and ends a clean stop.

The docstring of the package (`bookie.boot`) has the table of the steps; each is a method here or in
`takeover`. The boot writes to no disk before its decision and, if disks changed, before the consent
that the policy demands. It replays the journal in every mode. It marks ledgers of which entries may
be forgotten, from a linearizable listing, before the metadata store learns of this boot.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

from bookie.boot.boundary_marks import (
    list_existing,
    mark_existing,
    mark_noted,
    only_unreadable,
)
from bookie.boot.claim import Claim
from bookie.boot.cookie_fix import FixPlan, FixPolicy, fix_plan
from bookie.boot.inspection import DiskInspection, Inspection, inspect_disks
from bookie.boot.marker import BootMarkers, Marker
from bookie.boot.takeover import BootSettings, Seen, Takeover, in_thread
from bookie.boot.verdicts import Decision, DiskVerdict, Kind, decide
from bookie.errors import (
    BootRefusedError,
    CorruptError,
    MetadataFormatError,
    StorageError,
    UnavailableError,
)
from bookie.hosts import at_port
from bookie.ids import LedgerId
from bookie.metadata.naming import NAMED_MAX, Listing, list_ledgers
from bookie.metadata.store import BookieInfo, MetadataStore, StoredBoot
from bookie.points import passing
from bookie.storage.decisions import DecisionKind, PersonDecision, now_ms
from bookie.storage.disk import Disk
from bookie.storage.loop_calls import CallSoon
from bookie.storage.modes import DurabilityMode
from bookie.storage.opening import OpenReport
from bookie.storage.records import Boundary
from bookie.storage.storage import Storage

log = logging.getLogger(__name__)

Result = TypeVar("Result")

RIVAL_POLL_S: Final = 0.5
UNCLEAN: Final = "UncleanShutdown"
"""The reason of a boot after a plain unclean stop."""


@dataclass(frozen=True, slots=True)
class BootRecord:
    """Facts about one boot that the control plane shows."""

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
    ledgers_unreadable: int = 0
    """How many ledgers count as this bookie's, and as lacking entries, because their metadata
    cannot be read."""
    unreadable: tuple[LedgerId, ...] = ()
    """The lowest ids of these ledgers."""


@dataclass(slots=True)
class BootProgress:
    """What the control plane shows of a boot under way; only `Boot` changes it."""

    step: str = "opening"
    """The present step, in words for people."""
    disks: tuple[DiskInspection, ...] = ()
    """The inspection of every disk, the journal's first; empty until the disks were inspected."""
    verdicts: tuple[DiskVerdict, ...] = ()
    """The verdict on each of `disks`, in their order; empty until they were judged."""
    instance_id: str = ""
    """The cluster's instance id in the metadata store; empty until the store was asked."""
    plan: FixPlan | None = None
    """The cookie fix that waits for consent; None when none does."""


@dataclass(frozen=True, slots=True)
class Booted:
    """The result of a finished boot. `claim` and `markers`: the server keeps them up to date while
    it serves. `instance_id`: of the bookie's cluster. `unchecked`: ledgers that are still
    unchecked, without those in limbo.
    """

    storage: Storage
    record: BootRecord
    claim: Claim
    markers: BootMarkers
    instance_id: str
    unchecked: set[LedgerId] = field(default_factory=set)


@dataclass(eq=False)
class Boot:
    """One boot of one bookie, from locked folders to durable markers."""

    settings: BootSettings
    store: MetadataStore
    _: KW_ONLY
    disk: Disk
    call_soon: CallSoon
    started_at_ms: int
    """When the process began, in milliseconds by the wall clock."""
    on_step: Callable[[str], None] = lambda _step: None
    """The boot calls this with each step, in words for people."""
    approved_plan: str = ""
    """The id of the cookie fix that a person has approved, in this or an earlier attempt of the
    process."""
    approval: PersonDecision | None = None
    """Who approved it, and when; the boot stores this once it may write to the disks."""
    nonce: str = ""
    """Identifies the process, over all its attempts to boot; the boot makes one up when it is
    empty."""
    holders: Sequence[str] = ()
    """See `FolderLock.holders`."""
    progress: BootProgress = field(default_factory=BootProgress, init=False)
    """The control plane reads it."""

    def __post_init__(self) -> None:
        self._approved = asyncio.Event()
        self._takeover = Takeover(
            self.settings, self.store, disk=self.disk, nonce=self.nonce or uuid.uuid4().hex,
            holders=self.holders, on_step=self._step,
        )  # fmt: skip

    async def run(self) -> Booted:
        """Boot. BootRefusedError when a person must act; after any other error the caller may try
        again.

        The caller holds the folder lock, and closes the storage if a later step of its own fails.
        """
        try:
            return await self._run()
        except (CorruptError, MetadataFormatError) as error:
            # The disk or the store works, but what lies there makes no sense: a person must look.
            raise BootRefusedError(str(error)) from error

    async def _run(self) -> Booted:
        seen, decision = await self._judge()
        while await self._get_consent(decision, seen.found):
            # Other disks may lie there by now, which nobody has judged.
            seen, decision = await self._judge()
        if decision.kind is not Kind.NORMAL or not self._takeover.former_is_gone(seen.found):
            await self._outlive_rival(may_take_over=decision.kind is Kind.NORMAL)
        if decision.kind in (Kind.FIX, Kind.ASK):
            # If the former process is known to be gone, then the next process to get these locks is
            # alone, too.
            is_alone = self._takeover.former_is_gone(seen.found)
            await self._note_doubt(seen.found, holders=self.holders if is_alone else ())
        self._step("replaying")
        storage = await self._open_storage()
        try:
            return await self._finish(storage, seen, decision)
        except BaseException:
            # The markers of the previous boot are still there, so closing changes nothing for the
            # next one.
            with contextlib.suppress(StorageError):
                await in_thread(storage.close)
            raise

    def approve(self, plan_id: str, approved_by: str = "") -> str:
        """Approve the pending cookie fix; returns why not when `plan_id` is not the
        one that waits.
        """
        plan = self.progress.plan
        if plan is None:
            return "no cookie fix waits for approval"
        if plan_id != plan.plan_id:
            return f"the fix that waits is {plan.plan_id}, not {plan_id}: look again, then approve"
        log.warning("cookie fix %s approved by %s", plan_id, approved_by or "unknown")
        self.approved_plan = plan_id
        about = f"plan {plan_id} of policy {self.settings.policy.value}: {plan.description}"
        self.approval = PersonDecision(now_ms(), DecisionKind.COOKIE_FIX, approved_by, about)
        self._approved.set()
        return ""

    # Look
    async def _judge(self) -> tuple[Seen, Decision]:
        """What is there, and what to do; BootRefusedError when a person must act."""
        seen = await self._look()
        decision = decide(seen.found)
        if decision.is_dirty and self._takeover.may_be_a_copy(seen.found):
            decision = replace(decision, previous_mode=DurabilityMode.MEMORY, keeps_notes=False)
        self.progress.verdicts = decision.verdicts
        if decision.kind is Kind.REFUSE:
            raise BootRefusedError(decision.message)
        return seen, decision

    async def _look(self) -> Seen:
        bookie_id = self.settings.bookie_id
        disks = await in_thread(self._read_disks)
        instance_id = await self.store.instance_id()
        if instance_id is None and not any(disk.stamp for disk in disks):
            instance_id = await self.store.initialise()
        # If disks are stamped but the store has no instance id, it is not our store: `decide`
        # refuses, and we must not write our layout into it.
        cookie = await self.store.read_cookie(bookie_id) if instance_id else None
        stored = await self.store.read_boot(bookie_id) if instance_id else None
        self.progress.disks = disks
        self.progress.instance_id = instance_id or ""
        found = Inspection(
            bookie_id,
            instance_id or "",
            disks,
            cookie=cookie.value if cookie else None,
            **_of_the_store(stored.value if stored else None),
        )
        return Seen(found, cookie, stored)

    def _read_disks(self) -> tuple[DiskInspection, ...]:
        directories = self.settings.directories
        for directory in directories:
            self.disk.make_directory(directory)
        return inspect_disks(self.disk, directories, volume_uids=self.settings.volume_uids)

    # If disks changed or are new: before the boot writes to them
    async def _get_consent(self, decision: Decision, found: Inspection) -> bool:
        """Wait for the consent that the policy demands; False when nobody had to be asked.

        Until then the boot changes nothing: the old disk may still come back, and then the journal
        must still have the records for it.
        """
        if decision.kind not in (Kind.FIX, Kind.ASK):
            return False
        policy = self.settings.policy
        if policy is FixPolicy.NEVER:
            raise BootRefusedError(
                f"{decision.message}; cookie fix policy is Never: put the old disk back, or allow "
                "the fix (policy Auto or Approve, or `bookie cookie fix`); nothing was changed"
            )
        if policy is FixPolicy.AUTO and decision.kind is Kind.FIX:
            return False
        plan = fix_plan(decision, found)
        if plan.plan_id == self.approved_plan:
            return False
        self._approved.clear()
        self.progress.plan = plan
        self._step("awaiting approval")
        log.warning("cookie fix %s waits for approval: %s", plan.plan_id, plan.description)
        await self._approved.wait()
        self.progress.plan = None
        return True

    async def _outlive_rival(self, *, may_take_over: bool) -> None:
        """Wait until no other process is registered under this bookie id; one on other directories
        holds other locks than ours.

        A registration is either left over from a killed process, and then it expires, or belongs to
        a live rival. It counts as a rival's only if a look that began after the wait still shows
        it, as the answers of a slow store are old. With `may_take_over` the disks are the bookie's
        own, and the caller tries the boot again, as it does for a folder in use. Without it nothing
        shows which of the two is right, and a person must decide.
        """
        loop, bookie_id = asyncio.get_running_loop(), self.settings.bookie_id
        began = loop.time()
        gives_up_at = began + self.settings.rival_wait_s
        while rival := (await self.store.bookies()).get(bookie_id):
            if began > gives_up_at and may_take_over:
                raise UnavailableError(_lives_elsewhere(rival))
            if began > gives_up_at:
                raise BootRefusedError(_lives_elsewhere(rival))
            self._step("waiting for the former process to be gone")
            await asyncio.sleep(RIVAL_POLL_S)
            began = loop.time()

    async def _note_doubt(self, found: Inspection, *, holders: Sequence[str]) -> None:
        """Write dirty markers of the weakest mode, so that the next boot checks: if this boot ends
        early and the old disk comes back, that disk lacks the records that were replayed and
        trimmed meanwhile.
        """
        doubt = Marker(
            found.next_epoch - 1, DurabilityMode.MEMORY, found.next_generation, found.generation
        )
        doubtful = BootMarkers(self.disk, self.settings.directories, holders=holders)
        await in_thread(lambda: doubtful.write(doubt))

    # Open and replay
    async def _open_storage(self) -> Storage:
        opened: list[Storage] = []

        def work() -> None:
            opened.append(
                Storage.open(self.settings.storage, disk=self.disk, call_soon=self.call_soon)
            )

        try:
            await in_thread(work)
        except asyncio.CancelledError:
            for storage in opened:
                with contextlib.suppress(StorageError):
                    await in_thread(storage.close)
            raise
        return opened[0]

    # Mark, take over
    async def _finish(self, storage: Storage, seen: Seen, decision: Decision) -> Booted:
        found = seen.found
        # An earlier attempt may have marked ledgers and then ended: this attempt needs a higher
        # epoch.
        marked_epoch = storage.marked_epoch
        was_interrupted = marked_epoch >= found.next_epoch
        epoch = max(found.next_epoch, marked_epoch + 1)
        reason = unclean_reason(decision, storage.report)
        if not reason and was_interrupted:
            reason = "MarkingInterrupted"
        if not reason and decision.kind is Kind.NEW_BOOKIE and _has_past(storage, found):
            reason = "IdentityLost"
        listing = Listing()
        if self._trusts_notes(storage, decision, reason=reason, was_interrupted=was_interrupted):
            listing = await self._mark_noted(storage, epoch)
        elif reason or decision.kind is Kind.NEW_BOOKIE:
            self._step("marking")
            existing = await list_existing(self.store, self.settings.bookie_id)
            listing = existing.listing
            if decision.kind is Kind.NEW_BOOKIE and listing.surely_named:
                reason = "IdentityLost"
                await self._get_consent(_lost_identity(decision, listing), found)
            if reason:
                await in_thread(partial(mark_existing, storage, epoch, existing))
                passing("boot: marked, cookie and stamps not written")
            elif listing.unreadable:
                only = only_unreadable(listing)
                await in_thread(partial(mark_existing, storage, epoch, only))
        elif storage.unchecked_boundary() is not None:
            listing = await list_ledgers(self.store, self.settings.bookie_id)
        if not reason:
            await in_thread(storage.maintenance.settle)
        if self.approval is not None:
            await in_thread(partial(storage.maintenance.note_decision, self.approval))
        fixed = await self._takeover.take_disks(seen, decision)
        claim = await self._takeover.stamp(seen, epoch)
        if await self._takeover.outlive_former(found, claim) and reason:
            listing = await self._mark_again(storage, found, epoch)
        is_calm = not reason and not decision.is_dirty
        await self._takeover.begin_to_serve(seen, claim, is_calm=is_calm)
        unchecked = {i for i in listing.named if storage.is_unchecked(i)}
        unchecked.difference_update(storage.limbo_ledgers())
        record = self._record(
            epoch, reason, decision, storage.boundary(), listing=listing, cookie_fixed=fixed
        )
        return Booted(storage, record, claim, self._takeover.markers, found.instance_id, unchecked)

    def _trusts_notes(
        self, storage: Storage, decision: Decision, *, reason: str, was_interrupted: bool
    ) -> bool:
        """Whether only ledgers with a note may have forgotten entries.

        Only after a plain unclean stop: nothing shows that the disks are not as the boot before
        left them, and no attempt to mark ledgers was interrupted, which may have had another
        reason. If a former process may still answer, `_mark_again` marks all of them once it cannot
        any more.
        """
        return (
            decision.keeps_notes
            and reason == UNCLEAN
            and storage.report.notes_are_whole
            and not was_interrupted
        )

    async def _mark_noted(self, storage: Storage, epoch: int) -> Listing:
        """Mark the ledgers that notes leave in doubt, and list those."""
        self._step("marking")
        every = await list_ledgers(self.store, self.settings.bookie_id)
        listing = await in_thread(partial(mark_noted, storage, epoch, every))
        passing("boot: marked, cookie and stamps not written")
        log.warning(
            "unclean stop: %d ledgers may lack entries here, of %d that name this bookie; the "
            "others had nothing unsynced",
            len(listing.named),
            len(every.named),
        )
        return listing

    async def _mark_again(self, storage: Storage, found: Inspection, epoch: int) -> Listing:
        """List and mark once more. The former process answered until now, also for ledgers that
        were created after the first listing, and this bookie lacks the entries that it took.
        """
        # If this attempt ends early, the next boot on these disks need not wait for the former
        # process again.
        await self._note_doubt(found, holders=self.holders)
        self._step("marking")
        existing = await list_existing(self.store, self.settings.bookie_id)
        await in_thread(partial(mark_existing, storage, epoch, existing))
        return existing.listing

    def _record(
        self,
        epoch: int,
        reason: str,
        decision: Decision,
        boundary: Boundary | None,
        *,
        listing: Listing,
        cookie_fixed: bool,
    ) -> BootRecord:
        record = BootRecord(
            epoch,
            clean=not reason and not decision.is_dirty,
            reason=reason or _calm_reason(decision),
            started_at_ms=self.started_at_ms,
            mode=self.settings.storage.mode,
            previous_mode=decision.previous_mode,
            cookie_fixed=cookie_fixed,
            ledgers_unreadable=len(listing.unreadable),
            unreadable=tuple(sorted(listing.unreadable)[:NAMED_MAX]),
        )
        if not reason:
            return record
        is_fenced = boundary is not None and boundary.epoch == epoch
        return replace(
            record,
            ledgers_fenced=len(listing.existing) if is_fenced else 0,
            ledgers_in_limbo=len(listing.undecided),
            ledgers_unchecked=len(listing.named) - len(listing.undecided),
        )

    def _step(self, step: str) -> None:
        self.progress.step = step
        self.on_step(step)


def _of_the_store(stored: StoredBoot | None) -> dict[str, Any]:
    """The fields of `Inspection` that come from the bookie's claim in the store."""
    if stored is None:
        return {"last_epoch": None}
    return {
        "last_epoch": stored.epoch,
        "last_served": stored.served,
        "generation": stored.generation,
        "is_bare": stored.is_bare,
    }


def unclean_reason(decision: Decision, report: OpenReport) -> str:
    """Why this bookie may have forgotten entries (docs/design.md, section 4); empty when it cannot
    have.
    """
    if decision.kind is Kind.ASK:
        return "DiskStale"
    if decision.kind is Kind.FIX:
        return "DiskReplaced"
    if report.journal_lost:
        return "JournalLost"
    if report.index_rebuilt:
        return "IndexRebuilt"
    if decision.is_dirty and decision.previous_mode is DurabilityMode.MEMORY:
        return UNCLEAN
    if decision.lacks_journal and decision.kind is not Kind.NEW_BOOKIE:
        return "JournalLost"
    # With the journal on, the replay restored what the torn log lost; otherwise those entries are
    # gone.
    if report.torn and decision.previous_mode is not DurabilityMode.JOURNAL:
        return "TornLog"
    return ""


def _has_past(storage: Storage, found: Inspection) -> bool:
    """True when a bookie of this id has served before, whatever its disks and cookie say (#4812).

    A bookie that has never served must not fence anything: writers are about to choose it for
    existing ledgers.
    """
    return found.last_epoch is not None or found.is_dirty or bool(storage.ledger_ids())


def _lost_identity(decision: Decision, listing: Listing) -> Decision:
    """Ledgers name this bookie, but it has neither cookie nor stamps: decide as if all its disks
    were replaced, with the same consent (R29).
    """
    message = (
        f"{len(listing.surely_named)} ledgers name this bookie, but it has no cookie and no "
        "stamped disk: its identity was deleted, or this is another bookie's id"
    )
    return replace(decision, kind=Kind.FIX, message=message)


def _calm_reason(decision: Decision) -> str:
    if decision.kind is Kind.NEW_BOOKIE:
        return "FirstBoot"
    return UNCLEAN if decision.is_dirty else "CleanStop"


def finish_clean_stop(storage: Storage, markers: BootMarkers) -> None:
    """Flush, sync and close the storage, and only if all of that succeeded mark the stop as clean
    (R22, S28). Blocking.
    """
    storage.close()
    passing("stop: flushed, markers still dirty")
    markers.end_cleanly()


def _lives_elsewhere(rival: BookieInfo) -> str:
    places = ", ".join(at_port(e.host, e.port) for e in rival.endpoints) or "?"
    return (
        f"bookie {rival.bookie_id} is registered and alive at {places}, on other directories than "
        "these: stop that process, or give this one an id of its own; nothing was changed"
    )
