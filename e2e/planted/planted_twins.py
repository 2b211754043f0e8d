"""Stories with a bug planted in the images: each must turn its story red. Values only.

A story that passes with its bug sees nothing of what it claims. Where the product would notice its
own bug, what would notice it is spoilt as well: what is left is a fleet that calls itself whole.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from judge_faults import AUDITS_BLINDLY, CLEARED_UNWHOLE, MOVES_NOTHING
from mutant import Patch

BUDGET: Final = "operator/src/bookie_operator/plan/budget.py"
ROLLOUTS: Final = "operator/src/bookie_operator/plan/rollouts.py"
INSPECTION: Final = "bookie/src/bookie/boot/inspection.py"
VERDICTS: Final = "bookie/src/bookie/boot/verdicts.py"

RESTARTS_AT_WILL: Final = (
    Patch(
        BUDGET,
        old="        if others and not self._is_most_broken(candidate):\n",
        new="        if False:\n",
    ),
    Patch(
        BUDGET,
        old="        if len(out) <= limit:\n",
        new="        if True:\n",
    ),
    Patch(
        ROLLOUTS,
        old="    return _halted(pass_, candidate) or _unproven(pass_, candidate)"
        " or _hurried(pass_, candidate)\n",
        new="    return None\n",
    ),
)
"""Whoever is out or fails with new settings keeps nobody from being restarted."""


Row = dict[str, Any]
"""What the report says of one bug."""


@dataclass(frozen=True, slots=True)
class Twin:
    """`story`: its letter. `seen`: words of the claim that must fail; another failure is no proof
    that the story sees the bug."""

    story: str
    bug: str
    patches: tuple[Patch, ...]
    seen: str


TWINS: Final[tuple[Twin, ...]] = (
    Twin(
        "smoke",
        "a repair that copies nothing, and limbo that is cleared without a look",
        CLEARED_UNWHOLE.patches,
        seen=r"'exitCode': 4",
    ),
    Twin(
        "c",
        "a bookie that takes every stop for a clean one",
        (
            Patch(
                INSPECTION,
                old="return says_dirty or (self.needs_proof and not self._is_proven_clean)",
                new="return False",
            ),
        ),
        seen="waiting for an incident of bookie-2",
    ),
    Twin(
        "g",
        "a bookie that takes its disks in any order",
        (
            Patch(
                VERDICTS,
                old="    if (stamp.role, stamp.index) != (disk.role, disk.index):\n"
                "        return DiskVerdict.SWAPPED\n",
                new="",
            ),
        ),
        seen="waiting for Degraded=True SwappedDisk",
    ),
    Twin(
        "p",
        "a bookie that takes an older copy of its disk for the disk",
        (
            Patch(
                VERDICTS,
                old="    if is_old or _moved(disk, stamp):\n",
                new="    if _moved(disk, stamp):\n",
            ),
        ),
        seen="waiting for blocked by SuspectDisk",
    ),
    Twin(
        "pp",
        "a drain that moves nothing, and an audit that sees every copy",
        MOVES_NOTHING.patches,
        seen=r"'exitCode': 4|exit_code|the check failed",
    ),
    Twin(
        "o",
        "an operator that empties a bookie while another one is in limbo",
        (
            Patch(
                BUDGET,
                old="        general = "
                "self._general_refusal(action, candidate, without_marks=True)\n"
                "        others = self._others(candidate)\n"
                "        if general is None and others:\n",
                new="        general, others = None, ''\n        if general is None and others:\n",
            ),
        ),
        seen="waiting for ScaleDownBlocked=True LimboPresent",
    ),
    Twin(
        "k",
        "an operator that restarts while others are out",
        RESTARTS_AT_WILL,
        seen="bookies were out at once, expected 1",
    ),
    Twin(
        "l",
        "an operator that lets bookies be evicted while one is in limbo",
        (
            Patch(
                BUDGET,
                old="        if self.is_loss_possible or self.rolled_back or self.impaired:\n",
                new="        if self.is_loss_possible or self.rolled_back:\n",
            ),
        ),
        seen="waiting for a disruption budget of 0",
    ),
    Twin(
        "aa",
        "an operator that goes on with an image that fails",
        RESTARTS_AT_WILL,
        seen="RolloutHalted|nobody else was touched|out at once",
    ),
    Twin(
        "w",
        "audits and repairs that see every copy, whoever lacks one",
        (AUDITS_BLINDLY,),
        seen="untrue|no look saw|findings|'exitCode': [45]|waiting for DurabilityVerified",
    ),
)


def renewed(before: Iterable[Row], found: Iterable[Row]) -> list[Row]:
    """A report's rows with these in the place of older ones; without bugs planted no more."""
    by_bug = {row["bug"]: row for row in [*before, *found]}
    return [by_bug[twin.bug] for twin in TWINS if twin.bug in by_bug]


def is_caught(twin: Twin, outcome: str, words: str) -> bool:
    """The story failed, not what is around it, and by the claim that is about the bug."""
    return outcome == "failure" and re.search(twin.seen, words) is not None
