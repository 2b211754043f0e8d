"""Who lets a bookie take a replaced disk as its own, and what exactly is asked."""

import hashlib
from dataclasses import dataclass
from enum import Enum

from bookie.boot.inspection import Inspection
from bookie.boot.verdicts import Decision


class FixPolicy(Enum):
    """Who decides. A stale disk is a person's decision under Auto too."""

    AUTO = "Auto"
    APPROVE = "Approve"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class FixPlan:
    """A cookie fix that waits for a person; `disks`: places, the journal is 0."""

    plan_id: str
    disks: tuple[int, ...]
    description: str


def fix_plan(decision: Decision, found: Inspection) -> FixPlan:
    """The plan for what was found.

    The id follows from the findings: it stays when the bookie starts again meanwhile, and an
    approval never meets anything but what its giver looked at.
    """
    facts = [found.instance_id, found.bookie_id, str(found.last_epoch), decision.message]
    facts += [stamp.disk_id for stamp in found.stamps]
    plan_id = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]
    return FixPlan(plan_id, decision.replaced, decision.message)
