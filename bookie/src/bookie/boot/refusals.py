"""The sentences of a refused boot: what was found, what was expected, what is safe to do.

Nothing on the disks or in the metadata store has been changed when one of them is said.
"""

from typing import Final

from bookie.boot.found import DiskVerdict, Found, FoundDisk
from bookie.storage.routing import ROUTING_VERSION

STRANGE_SHOWN_MAX: Final = 5
"""How many unknown names a sentence lists."""


def disk_refusal(disk: FoundDisk, verdict: DiskVerdict, found: Found) -> str:
    """Why one directory cannot be this bookie's."""
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


def cookie_refusals(found: Found) -> list[str]:
    """What in the metadata store contradicts the disks or the settings."""
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


def _missing_cookie(found: Found) -> list[str]:
    ours = sum(stamp.bookie_id == found.bookie_id for stamp in found.stamps)
    if not ours:
        return []
    return [
        f"the metadata store has no cookie of {found.bookie_id}, but {ours} of its "
        f"{len(found.disks)} disks are stamped: the cookie was deleted or the metadata restored "
        "from before this bookie; restore the cookie, never delete the stamps"
    ]
