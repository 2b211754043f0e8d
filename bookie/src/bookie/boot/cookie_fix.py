"""The consent to a cookie fix: who may give it, and the plan that a person approves."""

import hashlib
from dataclasses import dataclass
from enum import Enum

from bookie.boot.inspection import Inspection
from bookie.boot.verdicts import Decision


class FixPolicy(Enum):
    """Who decides on a cookie fix. On a stale disk a person decides even under Auto."""

    AUTO = "Auto"
    APPROVE = "Approve"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class FixPlan:
    """A cookie fix that waits for a person. `disks`: indexes of the disks, the journal is 0."""

    plan_id: str
    disks: tuple[int, ...]
    description: str


def fix_plan(decision: Decision, found: Inspection) -> FixPlan:
    """Make the plan for these findings.

    The plan's id is a hash of the findings: it stays the same when the bookie restarts meanwhile,
    and an approval never applies to other findings than the person saw.
    """
    facts = [found.instance_id, found.bookie_id, str(found.last_epoch), decision.message]
    facts += [stamp.disk_id for stamp in found.stamps]
    plan_id = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]
    return FixPlan(plan_id, decision.replaced, decision.message)
