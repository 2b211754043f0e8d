"""Which bookies may get new settings now: one after the other, as long as each one works.

If new settings do not work, only one bookie must fail with them. So no other bookie gets them while
one that has them fails or has not served yet: neither by a restart that the operator makes, nor
because its process happens to end.
"""

from datetime import timedelta
from typing import Final

from bookie.ids import BookieId

from bookie_operator.model.bookie_status import BookieState
from bookie_operator.plan.actions import Refusal, template_of
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.states import CRASH_LOOP_MIN, GONE, UNSCHEDULABLE, Judged

ROLLOUT_HALTED: Final = "RolloutHalted"
FAILING: Final = frozenset({*GONE, BookieState.REFUSED, BookieState.UNRESPONSIVE})
STEADY_AFTER: Final = timedelta(seconds=10)
"""A bookie with new settings has run for so long before the next one gets them."""


def renewed(pass_: Pass) -> list[Judged]:
    """Bookies that have the new settings, including those that are to leave."""
    return [one for name, one in pass_.judged.items() if _has_new(pass_, name)]


def _has_new(pass_: Pass, bookie_id: BookieId) -> bool:
    process = pass_.judged[bookie_id].bookie.process
    return process is not None and process.revision == template_of(pass_.spec, bookie_id).revision


def held_back(pass_: Pass) -> list[BookieId]:
    """Bookies that the partition keeps at settings which are not the spec's."""
    return [
        bookie_id
        for bookie_id in pass_.spec.bookie_ids
        if pass_.spec.is_held_back(bookie_id)
        and not _has_new(pass_, bookie_id)
        and pass_.judged[bookie_id].bookie.process is not None
    ]


def keeps_settings(pass_: Pass, bookie_id: BookieId) -> bool:
    """A bookie that is started keeps the settings that it ran with: the partition holds it back, or
    another one has not shown yet that the new ones work."""
    if pass_.spec.is_held_back(bookie_id):
        return True
    if pass_.judged[bookie_id].bookie.process is None and not pass_.has_booted(bookie_id):
        return False  # there is nothing to keep
    return held_up(pass_, bookie_id) is not None


def held_up(pass_: Pass, candidate: BookieId) -> Refusal | None:
    """Why `candidate` does not get the new settings now.

    One that is stuck with its old settings has nothing to lose, unless somebody serves with them:
    then they are not what keeps it from coming up.
    """
    if _is_stuck(pass_.judged[candidate]) and not _old_ones_work(pass_):
        return None
    return _halted(pass_, candidate) or _unproven(pass_, candidate) or _hurried(pass_, candidate)


def is_beyond_reach(one: Judged) -> bool:
    """Whether its node is lost: then nothing of its pod can change."""
    return one.bookie.process is not None and bool(one.bookie.process.node_trouble)


def _halted(pass_: Pass, candidate: BookieId) -> Refusal | None:
    """Another one fails with the new settings, also when it serves between two ends."""
    for one in renewed(pass_):
        ends = one.ends.in_row
        if one.bookie.id == candidate or (one.state not in FAILING and not ends):
            continue
        trouble = f"{ends} ends in a row" if ends else one.state.value
        trouble += f": {one.message}" if one.message else ""
        name = one.bookie.id
        why = f"{name} fails with the new settings ({trouble}); correct the spec, or {name}"
        return Refusal("Restart", ROLLOUT_HALTED, why, bookie=candidate)
    return None


def _unproven(pass_: Pass, candidate: BookieId) -> Refusal | None:
    """Another one has the new settings and has not served yet, or may come up with them now: it is
    between two pods. One that no node has room for, or whose node is lost, says nothing of them."""
    for name, one in pass_.judged.items():
        process = one.bookie.process
        if name == candidate or one.is_booted or is_beyond_reach(one):
            continue
        if process is None and not pass_.has_booted(name):
            continue
        if process is None or (_has_new(pass_, name) and not _is_unscheduled(one)):
            why = f"waits until {name} has served with the new settings"
            return Refusal("Restart", "OneActionAtATime", why, bookie=candidate)
    return None


def _is_unscheduled(one: Judged) -> bool:
    process = one.bookie.process
    return process is not None and process.waiting.startswith(UNSCHEDULABLE)


def _is_stuck(one: Judged) -> bool:
    """It does not come up, again and again."""
    process = one.bookie.process
    is_waiting = process is not None and not process.running and bool(process.waiting)
    is_refused = one.state is BookieState.REFUSED
    return is_waiting or is_refused or (one.state in FAILING and one.ends.in_row >= CRASH_LOOP_MIN)


def _old_ones_work(pass_: Pass) -> bool:
    return any(
        pass_.judged[name].is_booted and not _has_new(pass_, name) for name in pass_.spec.bookie_ids
    )


def _hurried(pass_: Pass, candidate: BookieId) -> Refusal | None:
    """Another one has served with the new settings for a moment only."""
    for one in renewed(pass_):
        process = one.bookie.process
        if (
            process is None
            or process.started_at is None
            or not timedelta(0) <= pass_.now - process.started_at < STEADY_AFTER
        ):
            continue
        seconds = STEADY_AFTER.total_seconds()
        why = f"waits until {one.bookie.id} has run for {seconds:g} s with the new settings"
        return Refusal("Restart", "OneActionAtATime", why, bookie=candidate)
    return None
