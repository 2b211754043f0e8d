"""Ready and Stalled: the two conditions by which other programs wait for a cluster.

kstatus, and with it Helm 4 and Flux, calls an object failed once `Stalled` is True, current once
`Ready` is True for its generation, and in progress otherwise. Limbo is neither: a bookie in limbo
serves, and what is repaired meanwhile needs nobody.
"""

from datetime import timedelta
from typing import Final

from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.refused import RANKED
from bookie_operator.plan.degraded import CONTAINER_CONFIG, IMAGE_UNAVAILABLE
from bookie_operator.plan.failures import NAME_TAKEN
from bookie_operator.plan.findings import NAMED_MAX, Findings, Verdict
from bookie_operator.plan.invalid import FORBIDDEN
from bookie_operator.plan.report import READY_STATES, is_updated
from bookie_operator.plan.restarts import too_small
from bookie_operator.plan.rollback import ROLLED_BACK
from bookie_operator.plan.rollouts import ROLLOUT_HALTED, held_back
from bookie_operator.plan.states import Judged

BLOCKED: Final = "Blocked"
"""Reason of Progressing: a wish is refused, and has been for a while."""
STALLED_AFTER: Final = timedelta(seconds=60)
NEEDS_PERSON: Final = frozenset(
    {
        *RANKED,
        "PossibleDataLoss",
        ROLLED_BACK,
        FORBIDDEN,
        IMAGE_UNAVAILABLE,
        CONTAINER_CONFIG,
        NAME_TAKEN,
        "BookieCrashLoop",
    }
)
"""Reasons of Degraded that time does not mend."""
ASKS_PERSON: Final = frozenset({"SuspectDisk", "MultipleBookiesChanged", "AwaitingApproval"})
"""Reasons of CookieFixPending: the fix is made once a person approves it."""


def ready(found: Findings, *, available: Verdict) -> Verdict:
    """The spec is carried out, and every bookie that it wants serves."""
    pass_ = found.pass_
    wanted = [pass_.judged[bookie_id] for bookie_id in pass_.spec.bookie_ids]
    absent = [one for one in wanted if one.state not in READY_STATES]
    if absent:
        return Verdict("False", "BookiesNotServing", _named(absent))
    held = held_back(pass_)
    old = [one for one in wanted if not is_updated(pass_, one) and one.bookie.id not in held]
    if old:
        new = len(wanted) - len(old) - len(held)
        message = f"{new} of {len(wanted)} bookies have the new settings; not yet: {_named(old)}"
        return Verdict("False", "RollingOut", message)
    if found.drain is not None:
        return Verdict("False", "ScalingDown", f"{found.drain.bookie} is to leave")
    if found.is_restarting:
        return Verdict("False", "Restarting", "a bookie is restarted")
    if too_small(pass_):
        return Verdict("False", "VolumesGrowing", "volumes are smaller than the spec's")
    if available.status != "True":
        return available
    return Verdict("True", "AsWanted", _as_wanted(found))


def _as_wanted(found: Findings) -> str:
    count, held = found.pass_.spec.replicas, len(held_back(found.pass_))
    message = f"{count} bookies serve"
    if held:
        partition = found.pass_.spec.rollout.partition
        message += f"; {held} of them keep their settings, since rollout.partition is {partition}"
    return message


def stalled(found: Findings, *, progressing: Verdict, degraded: Verdict, fix: Verdict) -> Verdict:
    """The verdict of Stalled: True if waiting does not help; the message says what a person must
    do. `fix`: the verdict of CookieFixPending. A first failure of a pull or of a start may be the
    last one, and a program that reads Stalled gives up at once: so it has to last for a minute.
    """
    if fix.reason in ASKS_PERSON:
        return Verdict("True", fix.reason, fix.message)
    if progressing.reason == BLOCKED or (progressing.reason == ROLLOUT_HALTED and _lasts(found)):
        return Verdict("True", progressing.reason, progressing.message)
    if degraded.status == "True" and degraded.reason in NEEDS_PERSON and _is_degraded_long(found):
        return Verdict("True", degraded.reason, degraded.message)
    return Verdict("False", "NotStalled", "")


def _lasts(found: Findings) -> bool:
    """The rollout has been halted for a while."""
    pass_ = found.pass_
    since = [one.since for one in pass_.previous.blocked if one.predicate == ROLLOUT_HALTED]
    return bool(since) and pass_.now - min(since) >= STALLED_AFTER


def _is_degraded_long(found: Findings) -> bool:
    before = found.pass_.previous.condition(ConditionType.DEGRADED)
    if before is None or before.status != "True":
        return False
    return found.pass_.now - before.last_transition_time >= STALLED_AFTER


def _named(bookies: list[Judged]) -> str:
    named = [f"{one.bookie.id} ({_word(one)})" for one in bookies[:NAMED_MAX]]
    more = len(bookies) - NAMED_MAX
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def _word(one: Judged) -> str:
    return f"{one.state.value}: {one.message}" if one.message else one.state.value
