"""Collections that wait for approval: a person approves, with a task, the plan that they saw.

The operator never decides here, since only a person knows whether so many ledgers were deleted on
purpose. It passes on what a BookieTask says. Whether the bookie accepted it is read from the
decisions that the bookie keeps: so a task does not count as done just because the plan has
disappeared (the bookie was restarted, or the ledgers are back).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bookie.ids import BookieId
from bookie.wire.admin.health import Health, PersonDecision

from bookie_operator.model.status import COLLECT
from bookie_operator.model.task import BookieTask, TaskPhase, TaskStatus, TaskType
from bookie_operator.plan.actions import Action, ApproveCollection, Refusal
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.rollback import rolled_back_refusal

KIND: Final = "CollectionApproved"
"""Kind of such a decision in a bookie's records."""


@dataclass(frozen=True, slots=True)
class CollectionApprovals:
    """Approvals to hand on now, and what waits for one."""

    actions: list[ApproveCollection]
    refusals: list[Refusal]


def collection_approvals(pass_: Pass, *, rolled_back: str = "") -> CollectionApprovals:
    made = CollectionApprovals([], [])
    for bookie_id, health in pass_.healths.items():
        if not health.collection_plan_id:
            continue
        refusal = _refusal(pass_, bookie_id, health, rolled_back=rolled_back)
        person = _approved_by(pass_, bookie_id, health.collection_plan_id)
        if person and refusal is None:
            approval = ApproveCollection(bookie_id, health.collection_plan_id, person)
            made.actions.append(approval)
        else:
            made.refusals.append(refusal or _waits(bookie_id, health))
    return made


def follow_collection(pass_: Pass, task: BookieTask, actions: Sequence[Action]) -> TaskStatus:
    """The task's status: it ends once the bookie shows the decision, or waits for none by it."""
    bookie_id, plan_id = BookieId(task.spec.bookie), task.spec.plan_id
    if any(
        isinstance(one, ApproveCollection) and (one.bookie_id, one.plan_id) == (bookie_id, plan_id)
        for one in actions
    ):
        return task.status.begun(plan_id, at=pass_.now)
    one = pass_.judged[bookie_id]
    health = one.bookie.health
    if health is None or not (health.is_fresh and one.is_booted):
        return task.status
    pending = health.collection_plan_id
    if pending == plan_id:
        return task.status
    taken = _taken(health, plan_id)
    if taken is not None:
        return task.status.ended(TaskPhase.SUCCEEDED, _outcome(taken), at=pass_.now)
    what = f"another plan waits: {pending}" if pending else "no collection waits on this bookie"
    return task.status.ended(TaskPhase.FAILED, f"{what}; look again", at=pass_.now)


def _refusal(
    pass_: Pass, bookie_id: BookieId, health: Health, *, rolled_back: str
) -> Refusal | None:
    """Why even a person's word waits, or None."""
    if pass_.spec.paused:
        message = f"spec.paused is true; {health.collection_held}"
        return Refusal(COLLECT, "Paused", message, bookie_id)
    if not health.is_fresh:
        return _waits(bookie_id, health)
    return rolled_back_refusal(COLLECT, rolled_back, bookie_id)


def _waits(bookie_id: BookieId, health: Health) -> Refusal:
    """The bookie's own words: how much is gone, and the plan that an approval must name."""
    return Refusal(COLLECT, "AwaitingApproval", health.collection_held, bookie_id)


def _approved_by(pass_: Pass, bookie_id: BookieId, plan_id: str) -> str:
    """Who approved this plan with a task; empty = nobody."""
    tasks = pass_.unfinished(TaskType.APPROVE_COLLECTION)
    mine = (
        one.spec for one in tasks if (one.spec.bookie, one.spec.plan_id) == (bookie_id, plan_id)
    )
    return next((wanted.approved_by for wanted in mine), "")


def _taken(health: Health, plan_id: str) -> PersonDecision | None:
    """The bookie's record that this plan was approved."""
    about = f"plan {plan_id}:"
    found = [one for one in health.decisions if one.kind == KIND and one.about.startswith(about)]
    return found[-1] if found else None


def _outcome(taken: PersonDecision) -> str:
    return f"the bookie removes the ledgers of the plan, approved by {taken.by or 'somebody'}"
