"""A metadata store that was put back to an earlier state: while it looks so, nothing is taken away.

Bookies remember what they have seen of the store, and say when it shows less. What is then in it
names disks, copies and ends of ledgers as they were: whatever rests on it may destroy what it has
forgotten. People see the condition MetadataRolledBack.
"""

from typing import Final

from bookie_operator.model.condition_types import ConditionType
from bookie_operator.plan.actions import Refusal
from bookie_operator.plan.passes import Pass

ROLLED_BACK: Final = "MetadataRolledBack"
"""Predicate of all that is refused meanwhile."""


def rolled_back(pass_: Pass) -> str:
    """What shows that the metadata store was put back to an earlier state; empty = nothing known.

    One bookie's word is enough, and so is the record that it left in the store: a person's decision
    changes that. While the store does not answer, what was seen before still holds.
    """
    said = {name: health.metadata_rolled_back for name, health in pass_.healths.items()}
    recorded = pass_.observed.metadata.rolled_back
    reasons = {name: said.get(name) or recorded.get(name) for name in {**said, **recorded}}
    found = "; ".join(f"{name}: {why}" for name, why in reasons.items() if why)
    if found or pass_.observed.metadata.reachable:
        return found
    before = pass_.previous.condition(ConditionType.METADATA_ROLLED_BACK)
    return before.message if before is not None and before.status == "True" else ""


def rolled_back_refusal(action: str, why: str, bookie: str = "") -> Refusal | None:
    """Why `action` must wait while the store looks rolled back, or None."""
    if not why:
        return None
    return Refusal(action, ROLLED_BACK, f"the metadata store looks rolled back: {why}", bookie)
