"""The last steps of a boot: disks and metadata store come to name this process.

`boot` calls them in this order, once fences and marks are durable: cookie, stamps, claim, markers.
After a crash between any two the next boot judges at least as carefully.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from bookie.boot.claim import Claim, SupersededError, outlasts_s
from bookie.boot.cookie_fix import FixPolicy
from bookie.boot.inspection import DiskInspection, Inspection
from bookie.boot.lock import place_of_lock
from bookie.boot.marker import BootMarkers, Marker
from bookie.boot.stamps import STAMP_NAME, Stamp, write_stamp
from bookie.boot.verdicts import Decision, Kind
from bookie.errors import BootRefusedError, MetadataConflictError
from bookie.ids import BookieId
from bookie.metadata.store import Cookie, MetadataStore, StoredBoot, Versioned
from bookie.points import passing
from bookie.storage.disk import Disk, remove_file
from bookie.storage.routing import ROUTING_VERSION
from bookie.storage.settings import StorageSettings

log = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BootSettings:
    """Identity and folders of the bookie that boots; `volume_uids`: the journal's first.

    `rival_wait_s`: how long a registration of the same id may outlive its process; longer than a
    session of the metadata store. `lease_wait_s`: how long a former process may still answer as
    this bookie after the new claim, if its own claim does not say; longer than a lease
    (`server.lease`). `lease_s`: the lease that this process's claim names, 0 = none.
    """

    bookie_id: BookieId
    storage: StorageSettings
    policy: FixPolicy
    volume_uids: tuple[str, ...] = ()
    rival_wait_s: float = 30.0
    lease_wait_s: float = 80.0
    lease_s: float = 0.0

    @property
    def directories(self) -> tuple[Path, ...]:
        """The journal directory, then the ledger directories."""
        return (self.storage.journal_dir, *self.storage.ledger_dirs)


@dataclass(frozen=True, slots=True)
class Seen:
    """The facts on which the decision rests, with the versions that later writes must find
    unchanged.
    """

    found: Inspection
    cookie: Versioned[Cookie] | None
    stored: Versioned[StoredBoot] | None


@dataclass(eq=False)
class Takeover:
    """The steps of one boot."""

    settings: BootSettings
    store: MetadataStore
    _: KW_ONLY
    disk: Disk
    nonce: str
    """Identifies this process, over all its attempts to boot."""
    holders: Sequence[str]
    """See `FolderLock.holders`; empty when unknown."""
    on_step: Callable[[str], None]
    """Takeover calls this with each step that may take long, in words for people."""

    def __post_init__(self) -> None:
        self.markers = BootMarkers(self.disk, self.settings.directories, holders=self.holders)
        """This boot's markers; `begin_to_serve` writes them."""

    async def take_disks(self, seen: Seen, decision: Decision) -> bool:
        """Make the cookie name these disks; True when that fixed a mismatch."""
        wanted = self._cookie(seen.found)
        mends = decision.kind in (Kind.FIX, Kind.ASK)
        if not mends and seen.cookie is not None and seen.cookie.value == wanted:
            return False
        self.on_step("fixing the cookie")
        try:
            if seen.cookie is None:
                await self.store.create_cookie(wanted)
            else:
                await self.store.write_cookie(wanted, version=seen.cookie.version)
        except MetadataConflictError as error:
            # A write of our own earlier attempt may have landed since we looked.
            found = await self.store.read_cookie(self.settings.bookie_id)
            if found is None or found.value != wanted:
                raise self._rival("cookie") from error
        log.warning("wrote the cookie: %s", decision.message or "directories moved")
        return mends

    def _rival(self, what: str) -> BootRefusedError:
        return BootRefusedError(
            f"the {what} of {self.settings.bookie_id} changed during this boot: another process "
            "uses this bookie id; stop it, then start this one again"
        )

    async def stamp(self, seen: Seen, epoch: int) -> Claim:
        """Write the stamps, then the claim in the store; `verdicts` relies on this order for stale
        disks.
        """
        passing("boot: cookie written, not stamped")
        self.on_step("stamping")
        await in_thread(lambda: self._write_stamps(seen.found, epoch))
        passing("boot: stamped, epoch not in the store")
        found = seen.found
        before = seen.stored.value.rolled_back if seen.stored else ""
        claim = Claim(self.store, self.settings.bookie_id, seen=seen.stored)
        # If an older version served last, it left no proof of its stop. Until this boot serves, the
        # next boot must not demand that proof either.
        served = 0 if found.is_bare else found.last_served
        wanted = StoredBoot(
            epoch, self.nonce, found.generation, served,
            rolled_back=before or found.rollback_of_store,
            # The former process's lease counts as well until it has ended, whichever process waits
            # for it.
            lease_s=max(self.settings.lease_s, seen.stored.value.lease_s if seen.stored else 0.0),
        )  # fmt: skip
        try:
            await claim.write(wanted)
        except SupersededError as error:
            # With our stamps these directories would look like those that the other boot stamped.
            await in_thread(lambda: self._restore_stamps(seen.found))
            raise self._rival("boot epoch") from error
        passing("boot: epoch in the store, no marker yet")
        return claim

    async def outlive_former(self, found: Inspection, claim: Claim) -> bool:
        """Wait until no former process can answer as this bookie; False when none could anyway.

        The claim is written before, so that no former process can confirm its own any more.
        """
        if self.former_is_gone(found):
            return False
        self.on_step("waiting until a former process can no longer answer")
        # The former process may have had a longer lease than our settings say.
        claimed_s = outlasts_s(claim.stored.lease_s)
        await asyncio.sleep(max(self.settings.lease_wait_s, claimed_s))
        return True

    async def begin_to_serve(self, seen: Seen, claim: Claim, *, is_calm: bool) -> None:
        """Write the markers, then write to the store that this process serves; call it after
        `outlive_former`.

        Until the store knows, the bookie has served nothing. So after a clean stop (`is_calm`) the
        markers still say clean until then, and a store that does not answer now does not make the
        next boot unclean. The dirty markers have a higher generation, which the lease confirms in
        the store before the first answer: from then on a copy of the disks from before is
        recognised as old.
        """
        mine, generation = claim.stored, seen.found.next_generation
        mode = self.settings.storage.mode
        keeps_notes = self.settings.storage.note_idle_flushes is not None
        marker = Marker(
            mine.epoch, mode, generation, mine.generation, is_clean=is_calm, keeps_notes=keeps_notes
        )
        await in_thread(lambda: self.markers.write(marker))
        passing("boot: markers written, the store does not know that it serves")
        try:
            serving = replace(mine, served=mine.epoch, generation=generation)
            await claim.write(replace(serving, lease_s=self.settings.lease_s))
        except SupersededError as error:
            raise self._rival("boot epoch") from error
        passing("boot: the store knows that it serves, its markers may say clean")
        await in_thread(lambda: self.markers.begin(confirmed=generation))

    def former_is_gone(self, found: Inspection) -> bool:
        """True when no process that served as this bookie can still answer: it stopped cleanly, or
        it held a lock that is ours now. Also True for a process of an older version, which had no
        lease to wait for.
        """
        if not found.needs_proof or not found.is_dirty:
            return True
        return any(
            disk.stamp is not None
            and disk.marker.marker is not None
            # A marker with a higher epoch is of a boot that had outlived all earlier ones and then
            # died.
            and disk.marker.marker.boot_epoch >= found.last_served
            and disk.marker.marker.holder == holder != ""
            for disk, holder in zip(found.disks, self.holders, strict=False)
        )

    def may_be_a_copy(self, found: Inspection) -> bool:
        """True when nothing shows that these are the same disks as at the previous boot: neither
        the volume's name nor the lock file's place. A copy may lack even what that boot had synced.
        """
        return found.needs_proof and not all(
            is_same_volume(disk) or (holder and _place_before(disk) == place_of_lock(holder))
            for disk, holder in zip(found.disks, self.holders, strict=False)
            if disk.stamp is not None
        )

    def _write_stamps(self, found: Inspection, epoch: int) -> None:
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
            write_stamp(self.disk, disk.path, stamp)

    def _restore_stamps(self, found: Inspection) -> None:
        for disk in found.disks:
            if disk.stamp is not None:
                write_stamp(self.disk, disk.path, disk.stamp)
            else:
                remove_file(self.disk, disk.path / STAMP_NAME)

    def _cookie(self, found: Inspection) -> Cookie:
        ledgers = tuple(str(path) for path in self.settings.storage.ledger_dirs)
        journal = (str(self.settings.storage.journal_dir),)
        return Cookie(self.settings.bookie_id, journal, ledgers, found.instance_id, ledgers)


def _place_before(disk: DiskInspection) -> str:
    return place_of_lock(disk.marker.marker.holder) if disk.marker.marker is not None else ""


def is_same_volume(disk: DiskInspection) -> bool:
    """True when the platform names the volume and it is the one that was stamped."""
    return disk.stamp is not None and disk.volume_uid == disk.stamp.volume_uid != ""


async def in_thread(work: Callable[[], Result]) -> Result:
    """Run blocking work in a thread, to its end even when the boot is stopped: the folders must
    stay locked until then.
    """
    return await to_its_end(asyncio.to_thread(work))


async def to_its_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Run work that must not be left half done, however often its caller is cancelled: it has
    ended when this returns.

    If the work fails after a cancel, the error is logged and becomes the cause of the
    CancelledError, as no caller waits for the result.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError as stopped:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if (error := task.exception()) is not None:
            log.warning("failed when nobody waited for it any more: %s", error)
        raise stopped from error
