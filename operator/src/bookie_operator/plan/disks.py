"""Cookie fixes: a bookie found replaced or wiped disks, has changed nothing yet, and asks.

It serves nothing and is not registered while it waits; with the consent it fences and marks, and
only then stamps the disks (docs/decisions/2026-11-21-consent-before-marks.md).

The operator answers in the bookies' place under policy Auto, because it alone sees the fleet: not
beyond the loss budget, one at a time, and not when disks of several bookies changed within the
window (that is a storage incident, and the old disks may come back). A stale, foreign or swapped
disk is a person's decision under every policy; so is everything under Approve. What was left to a
person once stays so, however late it gets: the status remembers it until the bookie has booted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from bookie.ids import BookieId
from bookie.wire.admin.health import CookieFix, Phase

from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.model.incidents import Incident
from bookie_operator.model.repair_spec import FixPolicy
from bookie_operator.model.task import TaskType
from bookie_operator.plan.actions import ApproveCookieFix, Refusal
from bookie_operator.plan.budget import Budget
from bookie_operator.plan.episodes import DISK_KINDS
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.states import Judged

PERSONS_VERDICTS: Final = frozenset({"stale", "foreign", "swapped"})
_ACTION: Final = "CookieFix"


@dataclass(frozen=True, slots=True)
class Fixes:
    """Approvals to give now, why the others wait, and which of them wait for a person for good."""

    approvals: list[ApproveCookieFix]
    refusals: list[Refusal]
    held: Mapping[BookieId, str]


def cookie_fixes(pass_: Pass, *, incidents: Sequence[Incident], budget: Budget) -> Fixes:
    changed = bookies_with_changed_disks(pass_, incidents)
    fixes = Fixes([], [], _held(pass_, changed=changed))
    for bookie_id, one in pass_.judged.items():
        request = pending_fix(one)
        if request is None:
            continue
        person = _approved_by(pass_, bookie_id, request)
        if person and not (pass_.spec.paused or budget.rolled_back):
            # A person's word is not weighed against the budget: with several bookies waiting it
            # would never be met, and a bookie that waits holds nothing for anybody either.
            fixes.approvals.append(ApproveCookieFix(bookie_id, request.plan_id, person))
            continue
        held = fixes.held.get(bookie_id, "")
        refusal = None if budget.rolled_back else _persons_decision(pass_.spec, one, held=held)
        if refusal is None and (not_now := budget.refusal(_ACTION, bookie_id)) is not None:
            refusal = replace(not_now, message=f"{not_now.message}; {_how(request)}")
        if refusal is None:
            fixes.approvals.append(ApproveCookieFix(bookie_id, request.plan_id))
        else:
            fixes.refusals.append(refusal)
    return fixes


def _held(pass_: Pass, *, changed: set[str]) -> dict[BookieId, str]:
    """Bookies whose changed disks came with others': as reported when it was seen first."""
    window_s = pass_.spec.cookie_fix.window_seconds
    now = f"disks of {', '.join(sorted(changed))} changed within {window_s} s"
    held = {}
    for bookie_id, one in pass_.judged.items():
        before = pass_.previous.bookie(bookie_id)
        known = before.fix_held if before is not None and not one.is_booted else ""
        if known or (len(changed) > 1 and pending_fix(one) is not None):
            held[bookie_id] = known or now
    return held


def pending_fix(one: Judged) -> CookieFix | None:
    health = one.bookie.health
    if health is None or health.phase is not Phase.AWAITING_APPROVAL or not health.is_fresh:
        return None
    return health.cookie_fix


def bookies_with_changed_disks(pass_: Pass, incidents: Sequence[Incident]) -> set[str]:
    """Bookies whose disks changed within the window, those that ask now included."""
    since = pass_.now - timedelta(seconds=pass_.spec.cookie_fix.window_seconds)
    recent = {
        incident.bookie
        for incident in incidents
        if incident.kind in DISK_KINDS and incident.detected_at >= since
    }
    asking = {
        bookie_id
        for bookie_id, bookie in pass_.observed.bookies.items()
        if bookie.health is not None and bookie.health.cookie_fix is not None
    }
    return recent | asking


def _persons_decision(spec: ClusterSpec, one: Judged, *, held: str) -> Refusal | None:
    """The reason why the operator may not decide, or None."""
    health = one.bookie.health
    assert health is not None and health.cookie_fix is not None
    approve = _how(health.cookie_fix)
    suspects = sorted({d.verdict for d in health.disks if d.verdict in PERSONS_VERDICTS})
    if suspects:
        why = f"a disk is {' and '.join(suspects)}; {approve}"
        return _wait(one, "SuspectDisk", why)
    if spec.cookie_fix.policy is not FixPolicy.AUTO:
        return _wait(one, "AwaitingApproval", f"policy {spec.cookie_fix.policy.value}; {approve}")
    return _wait(one, "MultipleBookiesChanged", f"{held}; {approve}") if held else None


def _how(request: CookieFix) -> str:
    """What was found, and what a person may do: the id is what a task or the command needs."""
    return (
        f"{request.description}; approve plan {request.plan_id} if the old content is permanently "
        "lost"
    )


def _wait(one: Judged, predicate: str, message: str) -> Refusal:
    return Refusal(_ACTION, predicate, message, bookie=one.bookie.id)


def _approved_by(pass_: Pass, bookie_id: BookieId, request: CookieFix) -> str:
    """Who approved this plan with a task; empty = nobody."""
    for task in pass_.unfinished(TaskType.APPROVE_COOKIE_FIX):
        wanted = task.spec
        if (wanted.bookie, wanted.plan_id) == (bookie_id, request.plan_id):
            return wanted.approved_by or f"task {task.metadata.name}"
    return ""
