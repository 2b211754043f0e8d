"""Statuses of passes that could not be planned: a wrong spec, a permission that lacks.

Nothing was looked at, so nothing else is said again: the status stays as it was, and only Ready,
Stalled and Degraded say what is in the way. The next pass that can be planned replaces it.
"""

from datetime import datetime
from typing import Final

from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.condition_types import Condition, ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.actions import Event

INVALID_SPEC: Final = "InvalidSpec"
FORBIDDEN: Final = "Forbidden"


def invalid_status(
    previous: ClusterStatus, generation: int, message: str, now: datetime
) -> ClusterStatus:
    """The spec of `generation` cannot be carried out; what ran before runs on."""
    return _hindered(previous, generation, INVALID_SPEC, message, now=now)


def forbidden_status(
    previous: ClusterStatus, generation: int, message: str, now: datetime
) -> ClusterStatus:
    """The platform does not let the operator look."""
    return _hindered(previous, generation, FORBIDDEN, message, now=now)


def hindrance_event(after: ClusterStatus, before: ClusterStatus) -> Event | None:
    """What people should hear of a status made here; None when they have heard it."""
    now, was = (status.condition(ConditionType.DEGRADED) for status in (after, before))
    assert now is not None, "every status made here has it"
    if was is not None and (was.reason, was.message) == (now.reason, now.message):
        return None
    return Event(now.reason, now.message, type="Warning")


def _hindered(
    previous: ClusterStatus, generation: int, reason: str, message: str, *, now: datetime
) -> ClusterStatus:
    moment = whole_milliseconds(now)
    said = {
        ConditionType.READY: "False",
        ConditionType.STALLED: "True",
        ConditionType.DEGRADED: "True",
    }
    kept = [c for c in previous.conditions if c.type not in said]
    if previous.condition(ConditionType.AVAILABLE) is None:
        kept.insert(0, _condition(ConditionType.AVAILABLE, "False", reason, "", generation, moment))
    for kind, status in said.items():
        was = previous.condition(kind)
        since = was.last_transition_time if was is not None and was.status == status else moment
        kept.append(_condition(kind, status, reason, message, generation, since))
    return previous.model_copy(
        update={
            "observed_generation": generation,
            "phase": reason,
            "conditions": tuple(kept),
        }
    )


def _condition(
    kind: ConditionType, status: str, reason: str, message: str, generation: int, since: datetime
) -> Condition:
    return Condition.model_validate(
        {
            "type": kind.value,
            "status": status,
            "reason": reason,
            "message": message[:1024],
            "observed_generation": generation,
            "last_transition_time": since,
        }
    )
