"""What waits for a person, read out of a cluster's status: cookie fixes, collections, losses.

The status tells them in sentences, which name what an approval or an acceptance must name: the
plan's id, the ledger and the entry. Tests hold the patterns against the sentences' own origin.
"""

import re
from dataclasses import dataclass
from typing import Final

from bookie_operator.model.status import (
    COLLECT,
    BookieState,
    BookieStatus,
    ClusterStatus,
    DiskStatus,
)

_PLAN: Final = re.compile(r"\bapprove plan (\S+)")
_UNDECIDABLE: Final = re.compile(r"\bledger ([0-9]+) entry ([0-9]+) cannot be decided")
GOOD_VERDICTS: Final = ("ok", "new")


@dataclass(frozen=True, slots=True)
class PendingFix:
    """A bookie that found changed disks and asks whether it may take them as its own."""

    bookie: str
    plan_id: str
    predicate: str
    message: str
    disks: tuple[DiskStatus, ...]


@dataclass(frozen=True, slots=True)
class HeldCollection:
    """A bookie that asks before it drops what so many deleted ledgers left."""

    bookie: str
    plan_id: str
    message: str


@dataclass(frozen=True, slots=True, order=True)
class Undecidable:
    """A ledger whose end cannot be found: a person may accept the loss."""

    ledger: int
    entry: int


def pending_fix(status: ClusterStatus, bookie: BookieStatus) -> PendingFix | None:
    """The fix that a person may approve; None also when the operator approves it by itself."""
    if bookie.state is not BookieState.AWAITING_APPROVAL:
        return None
    for item in status.blocked:
        found = _PLAN.search(item.message) if item.bookie == bookie.id else None
        if found is not None:
            changed = tuple(disk for disk in bookie.disks if disk.verdict not in GOOD_VERDICTS)
            return PendingFix(bookie.id, found[1], item.predicate, item.message, changed)
    return None


def pending_fixes(status: ClusterStatus) -> list[PendingFix]:
    found = (pending_fix(status, bookie) for bookie in status.bookies)
    return [fix for fix in found if fix is not None]


def held_collections(status: ClusterStatus) -> list[HeldCollection]:
    """As far as a person may approve them by their plans."""
    asked = [item for item in status.blocked if item.action == COLLECT]
    found = ((item, _PLAN.search(item.message)) for item in asked)
    return [
        HeldCollection(item.bookie, plan[1], item.message)
        for item, plan in found
        if plan is not None
    ]


def undecidable(status: ClusterStatus) -> list[Undecidable]:
    """Ledgers that repairs have named as beyond them, as far as the status has room for them."""
    messages = [bookie.repair.message for bookie in status.bookies if bookie.repair is not None]
    found = (match for message in messages for match in _UNDECIDABLE.finditer(message))
    return sorted({Undecidable(int(match[1]), int(match[2])) for match in found})
