"""What waits for a person, read out of a cluster's status: cookie fixes, collections, losses.

The status tells of fixes and collections in sentences, which name what an approval must name: the
plan's id. Tests hold the pattern against the sentences' own origin.
"""

import re
from dataclasses import dataclass
from typing import Final

from bookie_operator.model.bookie_status import BookieState, BookieStatus, DiskStatus
from bookie_operator.model.status import COLLECT, ClusterStatus
from bookie_operator.model.undecided import UndecidedStatus, for_a_person

_PLAN: Final = re.compile(r"\bapprove plan (\S+)")
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


def undecided(status: ClusterStatus) -> list[UndecidedStatus]:
    """What each repair could not close, and only a person can decide."""
    return for_a_person(one.repair.undecided for one in status.bookies if one.repair is not None)
