"""The decision of a boot: stamps, markers and cookie in, one verdict per disk and one for all.

Pure; the table is tests/bookie/storage/test_verdicts.py. Only "disk replaced, identity intact" is
ever mended; every other mismatch refuses and says what was found, expected, and safe to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from bookie.metadata.store import Cookie
from bookie.storage.marker import FoundMarker
from bookie.storage.modes import DurabilityMode
from bookie.storage.routing import ROUTING_VERSION
from bookie.storage.stamps import Stamp


class DiskVerdict(Enum):
    """What one directory turned out to be."""

    OK = "ok"
    NEW = "new"
    EMPTY = "empty"
    """No stamp though the bookie is known: replaced or wiped."""
    STALE = "stale"
    """Ours, but of an older boot: a restored snapshot or a cloned volume."""
    FOREIGN = "foreign"
    SWAPPED = "swapped"
    RESHAPED = "reshaped"
    """Ours, of another number of directories or routing."""


class Kind(Enum):
    """What the boot does next."""

    NEW_BOOKIE = "new"
    NORMAL = "normal"
    FIX = "fix"
    """Disks were replaced: fence and mark, then stamp under the policy."""
    ASK = "ask"
    """A stale disk: fence and mark, then a person decides, under every policy."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class FoundDisk:
    """One configured directory and what lies in it."""

    path: Path
    role: str
    index: int
    stamp: Stamp | None
    marker: FoundMarker
    volume_uid: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """All that a boot decides by. `last_epoch`: from the metadata store, None when never booted."""

    bookie_id: str
    instance_id: str
    disks: tuple[FoundDisk, ...]
    cookie: Cookie | None
    last_epoch: int | None

    @property
    def ledger_directories(self) -> int:
        return sum(disk.role == "ledger" for disk in self.disks)

    @property
    def next_epoch(self) -> int:
        """1 + the highest epoch found on any disk, in any marker or in the metadata store."""
        stamped = [disk.stamp.boot_epoch for disk in self.disks if disk.stamp is not None]
        marked = [
            disk.marker.marker.boot_epoch for disk in self.disks if disk.marker.marker is not None
        ]
        return 1 + max([*stamped, *marked, self.last_epoch or 0])


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do. `previous_mode`: of the boot whose stop is judged; None = stopped cleanly."""

    kind: Kind
    verdicts: tuple[DiskVerdict, ...]
    message: str = ""
    is_dirty: bool = False
    previous_mode: DurabilityMode | None = None

    @property
    def replaced(self) -> tuple[int, ...]:
        """Places (in `Found.disks`) of disks that are not the ones stamped last."""
        suspicious = (DiskVerdict.EMPTY, DiskVerdict.STALE)
        return tuple(i for i, verdict in enumerate(self.verdicts) if verdict in suspicious)


def decide(found: Found) -> Decision:
    """The whole boot's decision."""
    verdicts = tuple(_judge(disk, found) for disk in found.disks)
    refusals = [
        _refusal(disk, verdict, found)
        for disk, verdict in zip(found.disks, verdicts, strict=True)
        if verdict in (DiskVerdict.FOREIGN, DiskVerdict.SWAPPED, DiskVerdict.RESHAPED)
    ]
    refusals += _cookie_refusals(found, verdicts)
    dirty = any(disk.marker.is_dirty for disk in found.disks)
    mode = _previous_mode([disk.marker for disk in found.disks]) if dirty else None
    if refusals:
        return Decision(Kind.REFUSE, verdicts, "; ".join(refusals), dirty, mode)
    if found.cookie is None:
        fresh = tuple(DiskVerdict.NEW for _ in verdicts)
        return Decision(Kind.NEW_BOOKIE, fresh, "no cookie, no stamps: a new bookie", dirty, mode)
    return Decision(*_intact(found, verdicts), is_dirty=dirty, previous_mode=mode)


def _judge(disk: FoundDisk, found: Found) -> DiskVerdict:
    stamp = disk.stamp
    if stamp is None:
        return DiskVerdict.EMPTY
    if (stamp.instance_id, stamp.bookie_id) != (found.instance_id, found.bookie_id):
        return DiskVerdict.FOREIGN
    if (stamp.role, stamp.index) != (disk.role, disk.index):
        return DiskVerdict.SWAPPED
    shape = (stamp.ledger_directories, stamp.routing_version)
    if shape != (found.ledger_directories, ROUTING_VERSION):
        return DiskVerdict.RESHAPED
    # Stamps are written before the metadata store's epoch, so one of ours is never behind it.
    return DiskVerdict.STALE if stamp.boot_epoch < (found.last_epoch or 0) else DiskVerdict.OK


def _refusal(disk: FoundDisk, verdict: DiskVerdict, found: Found) -> str:
    stamp = disk.stamp
    assert stamp is not None
    place = f"{disk.path} is configured as {disk.role} {disk.index} of {found.bookie_id}"
    if verdict is DiskVerdict.SWAPPED:
        return (
            f"{place}, but it is stamped as {stamp.role} {stamp.index}: the disks are swapped; "
            "put each volume back in its place, nothing was changed"
        )
    if verdict is DiskVerdict.RESHAPED:
        return (
            f"{place} with {found.ledger_directories} ledger directories and routing "
            f"{ROUTING_VERSION}, but it was stamped with {stamp.ledger_directories} and routing "
            f"{stamp.routing_version}: the number of ledger directories is fixed for a bookie's "
            "life; restore the old list, or drain this bookie and start one with another id"
        )
    if stamp.bookie_id != found.bookie_id:
        return (
            f"{place}, but it is stamped as a disk of bookie {stamp.bookie_id}: it is another "
            "bookie's volume; give each bookie its own, nothing was changed"
        )
    return (
        f"{place} in cluster {found.instance_id}, but it is stamped for cluster "
        f"{stamp.instance_id}: the metadata store was reset or is another one; connect this "
        "bookie to its own metadata store, nothing was changed"
    )


def _cookie_refusals(found: Found, verdicts: Sequence[DiskVerdict]) -> list[str]:
    cookie = found.cookie
    stamped = [v for v in verdicts if v in (DiskVerdict.OK, DiskVerdict.STALE)]
    if cookie is None:
        if not stamped:
            return []
        return [
            f"the metadata store has no cookie of {found.bookie_id}, but {len(stamped)} of its "
            f"{len(verdicts)} disks are stamped: the cookie was deleted or the metadata restored "
            "from before this bookie; restore the cookie, never delete the stamps"
        ]
    if cookie.instance_id != found.instance_id:
        return [
            f"the cookie of {found.bookie_id} names cluster {cookie.instance_id}, the metadata "
            f"store says {found.instance_id}: its instance id was replaced; restore it"
        ]
    if len(cookie.ledger_dirs) != found.ledger_directories:
        return [
            f"the cookie of {found.bookie_id} names {len(cookie.ledger_dirs)} ledger directories, "
            f"{found.ledger_directories} are configured: their number is fixed for a bookie's life"
        ]
    return []


def _previous_mode(markers: Sequence[FoundMarker]) -> DurabilityMode:
    """What the last boot's acknowledgements meant; the weakest when the markers do not say."""
    known = [found.marker for found in markers if found.marker is not None]
    unreadable = any(found.is_dirty and found.marker is None for found in markers)
    if unreadable or not known:
        return DurabilityMode.MEMORY
    # A boot that died while it wrote its markers left older ones beside them; neither served since.
    modes = {marker.mode for marker in known}
    return modes.pop() if len(modes) == 1 else DurabilityMode.MEMORY


def _intact(
    found: Found, verdicts: tuple[DiskVerdict, ...]
) -> tuple[Kind, tuple[DiskVerdict, ...], str]:
    replaced = [
        f"{disk.role} {disk.index} ({disk.path}) is {verdict.value}"
        for disk, verdict in zip(found.disks, verdicts, strict=True)
        if verdict is not DiskVerdict.OK
    ]
    message = ", ".join(replaced)
    if DiskVerdict.STALE in verdicts:
        return Kind.ASK, verdicts, message + ": a snapshot or clone of an older time"
    return (Kind.FIX if replaced else Kind.NORMAL), verdicts, message
