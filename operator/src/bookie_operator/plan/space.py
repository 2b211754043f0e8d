"""SpaceLow: a disk fills up, and its bookie still takes entries.

Bookies turn read-only by marks of their own (`bookie.storage.space`), and those that fill alike do
so at once. This is reported at three times as much, so that a person is in time. What a disk has is
not in the message: it changes with every entry, and a status should not.
"""

from typing import Final

from bookie.wire.admin.health import DiskHealth

from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.storage_spec import DiskRole
from bookie_operator.plan.findings import Verdict
from bookie_operator.plan.passes import Pass

_MIB: Final = 2**20
_GIB: Final = 2**30
EARLIER: Final = 3
"""How many times the mark of read-only is warned of."""
FRACTION: Final = 0.05
FRACTION_BYTES_MAX: Final = 4 * _GIB
FILES: Final = {DiskRole.JOURNAL.value: 2 * 64 * _MIB, DiskRole.LEDGER.value: 2 * 128 * _MIB}
"""The bookies' marks: a part of the disk, bounded, or room for two files; the larger of them."""
RESUME: Final = 1.25
"""Factor on the limit above which a reported lack of space ends, so that it does not flap."""
NAMED_MAX: Final = 5
"""Disks that a message names."""


def space_low(pass_: Pass) -> Verdict:
    """The condition SpaceLow."""
    healths = pass_.healths
    disks = [(f"{name} {_name(disk)}", disk) for name, one in healths.items() for disk in one.disks]
    low = [_sentence(name, disk) for name, disk in disks if _is_low(disk)]
    if not low and pass_.previous.is_true(ConditionType.SPACE_LOW):
        low = [_sentence(name, disk) for name, disk in disks if _is_low(disk, RESUME)]
    if low:
        more = f"; {len(low) - NAMED_MAX} more" if len(low) > NAMED_MAX else ""
        return Verdict("True", "DiskNearlyFull", "; ".join(low[:NAMED_MAX]) + more)
    if silent := pass_.silent:
        return Verdict("Unknown", "BookiesNotBooted", f"not known of {', '.join(silent)}")
    return Verdict("False", "EnoughSpace", "")


def early_bytes(disk: DiskHealth) -> int:
    """Free bytes below which it is reported: of a small disk not before half of it is full."""
    part = min(int(FRACTION * disk.total_bytes), FRACTION_BYTES_MAX)
    mark = max(FILES.get(disk.role, 0), part)
    return min(EARLIER * mark, max(mark, disk.total_bytes // 2))


def _is_low(disk: DiskHealth, factor: float = 1.0) -> bool:
    """Whether the disk lacks space; False if its total is 0, which means not known."""
    return disk.total_bytes > 0 and disk.free_bytes < factor * early_bytes(disk)


def _name(disk: DiskHealth) -> str:
    return disk.role if disk.role == DiskRole.JOURNAL.value else f"{disk.role} {disk.index}"


def _sentence(name: str, disk: DiskHealth) -> str:
    least = early_bytes(disk) / _GIB
    return f"{name} has less than {least:.1f} of {disk.total_bytes / _GIB:.1f} GiB free"
