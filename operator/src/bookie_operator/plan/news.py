"""Events: what changed for people between the last status and this one, each reported at its turn.

Incidents, drains and actions tell their own; here is what only a comparison shows.
"""

from typing import Final

from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.condition_types import Condition, ConditionType
from bookie_operator.model.refused import REFUSED_REASONS
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.actions import Event
from bookie_operator.plan.failures import ACTION_FAILED, NOT_MADE, jobs_without_pods
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.report import READY_STATES
from bookie_operator.plan.states import GONE

_EVENTS_OF_BOOKIES: Final = REFUSED_REASONS | {
    "BookieDown",
    "BookieCrashLoop",
    "BookieUnresponsive",
    "PossibleDataLoss",
    "RepairStalled",
    "MetadataRolledBack",
    "CollectionHeld",
    "CertificatesInvalid",
    ACTION_FAILED,
}
"""Reasons of Degraded that an event of a bookie, or of another condition, tells already."""
_PASSING: Final = frozenset({"OneActionAtATime"})
_WARNINGS: Final = (
    ConditionType.POSSIBLE_DATA_LOSS,
    ConditionType.REPAIR_STALLED,
    ConditionType.SCALE_DOWN_BLOCKED,
    ConditionType.MIXED_DURABILITY,
    ConditionType.METADATA_ROLLED_BACK,
    ConditionType.COLLECTION_HELD,
    ConditionType.SPACE_LOW,
)


def state_events(pass_: Pass) -> list[Event]:
    """One event when a bookie was restarted, goes down, is refused, or serves again."""
    events = []
    for bookie_id, one in pass_.judged.items():
        before = pass_.previous.bookie(bookie_id)
        was = before.state if before else BookieState.PENDING
        process = one.bookie.process
        if before is not None and process is not None and process.restarts > before.restarts:
            ended = process.last_exit
            reason = ended.reason if ended is not None else "for a reason not known"
            is_clean = ended is not None and ended.is_graceful
            event = Event("BookieRestarted", reason, bookie_id, "Normal" if is_clean else "Warning")
            events.append(event)
        if one.state is was:
            continue
        if one.state in GONE:
            events.append(Event(f"Bookie{one.state}", one.message, bookie_id, "Warning"))
        elif one.state is BookieState.REFUSED:
            events.append(Event("BootRefused", one.message, bookie_id, "Warning"))
        elif one.state in READY_STATES and was not in READY_STATES:
            events.append(Event("BookieServing", one.message or "serves", bookie_id))
    return events


def job_events(pass_: Pass) -> list[Event]:
    """One event for each job whose pod is refused; a job that cannot be made has its own."""
    known = [one.message for one in pass_.previous.blocked]
    return [
        Event(ACTION_FAILED, f"{one.action}: {one.message}", one.bookie, "Warning")
        for one in jobs_without_pods(pass_.observed)
        if not any(message.startswith(f"{one.subject}: {NOT_MADE}") for message in known)
    ]


def condition_events(status: ClusterStatus, previous: ClusterStatus) -> list[Event]:
    """One event when a condition takes a reason that people must know, and when all is proven."""
    events = []
    degraded = _turned(ConditionType.DEGRADED, status, previous)
    if degraded is not None and degraded.reason not in _EVENTS_OF_BOOKIES:
        events.append(Event(degraded.reason, degraded.message, type="Warning"))
    for kind in _WARNINGS:
        found = _turned(kind, status, previous)
        if found is not None and found.reason not in _PASSING:
            text = f"{found.reason}: {found.message}"
            events.append(Event(kind.value, text, type="Warning"))
    for kind in (ConditionType.CERTIFICATES_VALID, ConditionType.SECRETS_USABLE):
        events += _credential_events(kind, status, previous)
    verified = ConditionType.DURABILITY_VERIFIED
    if status.is_true(verified) and not previous.is_true(verified):
        found = status.condition(verified)
        events.append(Event(verified.value, found.message if found else ""))
    return events


def _credential_events(
    kind: ConditionType, status: ClusterStatus, previous: ClusterStatus
) -> list[Event]:
    """One event when credentials stop working, when that is for another reason, and when all do
    again."""
    now, was = status.condition(kind), previous.condition(kind)
    if now is None or (was is not None and (was.status, was.reason) == (now.status, now.reason)):
        return []
    if now.status == "False":
        return [Event(now.reason, now.message, type="Warning")]
    is_over = now.status == "True" and was is not None and was.status == "False"
    return [Event(kind.value, now.message)] if is_over else []


def _turned(
    kind: ConditionType, status: ClusterStatus, previous: ClusterStatus
) -> Condition | None:
    """The condition when it is True now, and was not or for another reason."""
    now, was = status.condition(kind), previous.condition(kind)
    if now is None or now.status != "True":
        return None
    is_same = was is not None and (was.status, was.reason) == ("True", now.reason)
    return None if is_same else now
