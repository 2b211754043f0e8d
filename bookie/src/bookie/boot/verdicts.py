"""Decides what a boot does: from stamps, markers and cookie to a verdict per disk and one decision.

Pure; tests/bookie/boot/test_verdicts.py has the table of cases. A boot fixes only "disk replaced,
identity intact"; for every other mismatch it refuses, and says what it found, what it expected, and
what is safe to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bookie.boot.inspection import DiskInspection, Inspection
from bookie.boot.stamps import Stamp
from bookie.storage.modes import DurabilityMode
from bookie.storage.routing import ROUTING_VERSION

STRANGE_SHOWN_MAX: Final = 5
"""How many unknown file names a message lists."""


class DiskVerdict(Enum):
    """The verdict on one directory."""

    OK = "ok"
    NEW = "new"
    EMPTY = "empty"
    """It has no stamp though the bookie is known, or nothing beside the stamp: replaced or
    wiped."""
    STALE = "stale"
    """It is ours, but of an older boot or on another volume: a restored snapshot or a cloned
    volume."""
    FOREIGN = "foreign"
    """It belongs to another bookie or cluster, or is not a bookie's directory at all."""
    SWAPPED = "swapped"
    RESHAPED = "reshaped"
    """It is ours, but stamped with another number of directories or another routing."""
    TORN = "torn"
    """Its stamp cannot be read."""


class Kind(Enum):
    """What the boot does next."""

    NEW_BOOKIE = "new"
    NORMAL = "normal"
    FIX = "fix"
    """Disks were replaced: after the consent that the policy demands, fence and mark, then
    stamp."""
    ASK = "ask"
    """A disk is stale: a person must consent under every policy; then fence and mark."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Decision:
    """What the boot does. `previous_mode`: of the boot before this one; None = it
    stopped cleanly.
    """

    kind: Kind
    verdicts: tuple[DiskVerdict, ...]
    message: str = ""
    is_dirty: bool = False
    previous_mode: DurabilityMode | None = None
    lacks_journal: bool = False
    """The stop was unclean and there is no journal to replay: its content is unknown."""
    keeps_notes: bool = False
    """The boot before this one acknowledged from memory only what it had noted, every directory is
    as that boot left it, and it stopped uncleanly: a ledger without a note has forgotten
    nothing."""

    @property
    def replaced(self) -> tuple[int, ...]:
        """Indexes (in `Inspection.disks`) of disks that are not the ones stamped last."""
        suspicious = (DiskVerdict.EMPTY, DiskVerdict.STALE)
        return tuple(i for i, verdict in enumerate(self.verdicts) if verdict in suspicious)


def decide(found: Inspection) -> Decision:
    """Decide for the whole boot."""
    verdicts = tuple(_judge(disk, found) for disk in found.disks)
    kind, message = _decide(found, verdicts)
    if kind is Kind.NEW_BOOKIE:
        verdicts = tuple(DiskVerdict.NEW for _ in verdicts)
    mode = _previous_mode(found) if found.is_dirty else None
    lacks_journal = found.is_dirty and found.lacks_journal
    keeps_notes = (
        kind is Kind.NORMAL
        and mode is DurabilityMode.MEMORY
        and not lacks_journal
        and not found.rollback_of_store
        and all(
            disk.marker.marker is not None and disk.marker.marker.keeps_notes
            for disk in found.disks
        )
    )
    return Decision(
        kind, verdicts, message, found.is_dirty, mode, lacks_journal, keeps_notes=keeps_notes
    )


def _judge(disk: DiskInspection, found: Inspection) -> DiskVerdict:
    stamp = disk.stamp
    if disk.problem:
        return DiskVerdict.TORN
    if stamp is None:
        return DiskVerdict.FOREIGN if disk.strange else DiskVerdict.EMPTY
    if (stamp.instance_id, stamp.bookie_id) != (found.instance_id, found.bookie_id):
        return DiskVerdict.FOREIGN
    if (stamp.role, stamp.index) != (disk.role, disk.index):
        return DiskVerdict.SWAPPED
    shape = (stamp.ledger_directories, stamp.routing_version)
    if shape != (found.ledger_directories, ROUTING_VERSION):
        return DiskVerdict.RESHAPED
    # A boot writes the stamps before it writes its epoch to the store, so no stamp of ours is
    # behind the store's epoch. It also raises the generation on the disks before the store's.
    is_old = stamp.boot_epoch < (found.last_epoch or 0) or found.is_behind(disk)
    if is_old or _moved(disk, stamp):
        return DiskVerdict.STALE
    return DiskVerdict.OK if disk.holds_store else DiskVerdict.EMPTY


def _moved(disk: DiskInspection, stamp: Stamp) -> bool:
    """True when our stamp is on another volume: a clone, a snapshot, or a volume bound to another
    claim.
    """
    return bool(disk.volume_uid and stamp.volume_uid) and disk.volume_uid != stamp.volume_uid


def _decide(found: Inspection, verdicts: Sequence[DiskVerdict]) -> tuple[Kind, str]:
    refusals = [
        _disk_refusal(disk, verdict, found)
        for disk, verdict in zip(found.disks, verdicts, strict=True)
        if verdict not in (DiskVerdict.OK, DiskVerdict.EMPTY, DiskVerdict.STALE)
    ]
    refusals += _cookie_refusals(found)
    if refusals:
        return Kind.REFUSE, "; ".join(refusals)
    if found.cookie is None:
        return Kind.NEW_BOOKIE, "no cookie, no stamps: a new bookie"
    if found.has_ended_no_boot and DiskVerdict.EMPTY in verdicts:
        return Kind.NEW_BOOKIE, "no boot of this bookie has ended yet: a new bookie"
    changed = ", ".join(
        _change(disk, verdict, found)
        for disk, verdict in zip(found.disks, verdicts, strict=True)
        if verdict is not DiskVerdict.OK
    )
    if DiskVerdict.STALE in verdicts:
        return Kind.ASK, changed
    return (Kind.FIX if changed else Kind.NORMAL), changed


def _change(disk: DiskInspection, verdict: DiskVerdict, found: Inspection) -> str:
    """One sentence about a disk that is not the one stamped last."""
    place = f"{disk.role} {disk.index} ({disk.path})"
    if verdict is DiskVerdict.EMPTY:
        former = {stamp.volume_uid_at(disk.place) for stamp in found.stamps} - {""}
        if not former or not disk.volume_uid:
            return f"{place} is empty: replaced or wiped"
        if disk.volume_uid in former:
            return f"{place} is empty: wiped, its volume is still {disk.volume_uid}"
        return f"{place} is empty: volume {disk.volume_uid} replaced {', '.join(sorted(former))}"
    assert disk.stamp is not None
    if _moved(disk, disk.stamp):
        return (
            f"{place} is stale: stamped on volume {disk.stamp.volume_uid}, found on "
            f"{disk.volume_uid}: a clone, a snapshot or another binding"
        )
    if disk.stamp.boot_epoch < (found.last_epoch or 0):
        return (
            f"{place} is stale: stamped by boot {disk.stamp.boot_epoch}, the last was "
            f"{found.last_epoch}: a restored snapshot or an old disk put back"
        )
    return (
        f"{place} is stale: its generation is {disk.marker.generation}, the metadata store has "
        f"seen {found.generation}: put back to an older copy of the same boot; if its former "
        "process still runs, stop that first: it raises the number seen, and with it the plan"
    )


def _previous_mode(found: Inspection) -> DurabilityMode:
    """The durability mode of the last boot; the weakest mode when the markers do not say."""
    markers = [disk.marker for disk in found.disks]
    known = [found.marker for found in markers if found.marker is not None]
    unreadable = any(marker.is_there and marker.marker is None for marker in markers)
    lacks_one = found.needs_proof and not all(marker.is_there for marker in markers)
    if unreadable or lacks_one or not known:
        return DurabilityMode.MEMORY
    # A boot that died while it wrote its markers left some older ones; neither boot has served
    # since.
    modes = {marker.mode for marker in known}
    return modes.pop() if len(modes) == 1 else DurabilityMode.MEMORY


# ---- the sentences of a refused boot: found, expected, safe to do. Nothing was changed yet ------
def _disk_refusal(disk: DiskInspection, verdict: DiskVerdict, found: Inspection) -> str:
    """The sentence that says why one directory cannot be this bookie's."""
    if disk.problem:
        return disk.problem
    stamp = disk.stamp
    place = f"{disk.path} is configured as {disk.role} {disk.index} of {found.bookie_id}"
    if stamp is None:
        names = ", ".join(disk.strange[:STRANGE_SHOWN_MAX])
        return (
            f"{place}; it has no stamp and holds what no bookie wrote ({names}): "
            "name the right directory, or an empty one"
        )
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
        f"{place} in cluster {found.instance_id or '(none)'}, but it is stamped for cluster "
        f"{stamp.instance_id}: the metadata store was reset or is another one; connect this "
        "bookie to its own metadata store, nothing was changed"
    )


def _cookie_refusals(found: Inspection) -> list[str]:
    """Sentences for whatever in the metadata store contradicts the disks or the settings."""
    cookie, bookie_id = found.cookie, found.bookie_id
    if cookie is None:
        return _missing_cookie(found)
    if cookie.bookie_id != bookie_id:
        return [
            f"the cookie kept for {bookie_id} names bookie {cookie.bookie_id}: it was written by "
            "hand or by another product; look who wrote it, nothing was changed"
        ]
    if cookie.instance_id != found.instance_id:
        return [
            f"the cookie of {bookie_id} names cluster {cookie.instance_id}, the metadata "
            f"store says {found.instance_id or '(none)'}: its instance id was replaced; restore it"
        ]
    counts = (len(cookie.journal_dirs), len(cookie.ledger_dirs))
    if counts != (1, found.ledger_directories):
        return [
            f"the cookie of {bookie_id} names {counts[0]} journal and {counts[1]} ledger "
            f"directories, 1 and {found.ledger_directories} are configured: their number is fixed "
            "for a bookie's life; restore the old list, or start a bookie with another id"
        ]
    return []


def _missing_cookie(found: Inspection) -> list[str]:
    ours = sum(stamp.bookie_id == found.bookie_id for stamp in found.stamps)
    if not ours:
        return []
    return [
        f"the metadata store has no cookie of {found.bookie_id}, but {ours} of its "
        f"{len(found.disks)} disks are stamped: the cookie was deleted or the metadata restored "
        "from before this bookie; restore the cookie, never delete the stamps"
    ]
