"""Actions that could not be carried out: when each is tried again, and what people see of it. Pure.

Each waits for itself alone: a claim that a quota refuses holds up no repair. What it waited for is
forgotten once it succeeds or is not wanted any more, and when its wish is another one.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

from bookie_operator.observed import Failure, JobKind, Observed
from bookie_operator.plan.actions import Action, CreateVolume, Refusal, StartJob, StopJob, bookie_of
from bookie_operator.plan.deadlines import still_waits
from bookie_operator.plan.invalid import FORBIDDEN

RETRY_FIRST: Final = timedelta(seconds=1)
RETRY_MAX: Final = timedelta(seconds=30)
"""Waits between tries double from the one to the other."""
DOUBLINGS_MAX: Final = 10
NAMED_FROM: Final = 2
"""Failures in a row that are a state of the cluster: one may be a moment's."""
FAILURES_MAX: Final = 50
"""Failed actions that a status has."""
ACTION_FAILED: Final = "ActionFailed"
NAME_TAKEN: Final = "NameTaken"
LASTING: Final = frozenset({FORBIDDEN, NAME_TAKEN})
"""Reasons that do not pass by themselves: they are reported at once."""
NOT_MADE: Final = "FailedCreate"
"""The word of a controller that may not make a pod: a quota or a policy refuses it."""
KEEP: Final = "Keep"
"""The word for an object that is not as it must be and cannot be written."""

Some = TypeVar("Some", bound=Action)


def failed_again(
    subject: Action | str,
    message: str,
    before: Failure | None,
    *,
    now: datetime,
    reason: str,
) -> Failure:
    """What is known of an action, or of keeping an object of this name, that has just failed."""
    count = 1 if before is None else before.count + 1
    wait = min(RETRY_FIRST * 2 ** min(count - 1, DOUBLINGS_MAX), RETRY_MAX)
    return Failure(
        subject=subject,
        action=KEEP if isinstance(subject, str) else type(subject).__name__,
        bookie="" if isinstance(subject, str) else bookie_of(subject),
        message=_named(subject, message),
        count=count,
        next_at=now + wait,
        reason=reason,
    )


def _named(subject: Action | str, message: str) -> str:
    if isinstance(subject, str):
        return f"{subject}: {message}"
    return f"{subject.disk.name}: {message}" if isinstance(subject, CreateVolume) else message


def resting(actions: Iterable[Some], observed: Observed) -> list[Some]:
    """Actions that failed and wait for their next try."""
    waiting = {
        one.subject
        for one in observed.failures
        if still_waits(one.next_at, observed.now, longest=RETRY_MAX)
    }
    return [action for action in actions if action in waiting]


def untried(actions: Iterable[Some], observed: Observed) -> list[Some]:
    """Actions that have not failed: others need not wait for one that keeps failing."""
    failed = {one.subject for one in observed.failures}
    return [action for action in actions if action not in failed]


def due_first(actions: Sequence[Some], observed: Observed) -> list[Some]:
    """Keep only the first destructive action, and none that waits for its next try."""
    waiting = resting(actions, observed)
    return [*(action for action in actions if action not in waiting), *waiting]


def split(
    actions: Sequence[Action], wanted: Sequence[Action], observed: Observed
) -> tuple[tuple[Action, ...], tuple[Action, ...]]:
    """What is to be done now, and what waits; `wanted`: disruptions, of which only one is."""
    waiting = resting(dict.fromkeys([*actions, *wanted]), observed)
    return tuple(action for action in actions if action not in waiting), tuple(waiting)


def may_start(action: Action, not_stopped: Collection[StopJob]) -> bool:
    """A job waits for those that must end before it; a repair waits for nobody."""
    is_job = isinstance(action, StartJob) and action.kind is not JobKind.REPAIR
    return not (is_job and not_stopped)


def is_reported(failure: Failure) -> bool:
    """Whether it is a state of the cluster."""
    return failure.count >= NAMED_FROM or failure.reason in LASTING


def wanted_failures(observed: Observed, wanted: Iterable[Action]) -> list[Failure]:
    """What failed and is still wanted; objects that are kept always are."""
    subjects = set(wanted)
    return [
        one for one in observed.failures if isinstance(one.subject, str) or one.subject in subjects
    ]


def jobs_without_pods(observed: Observed) -> list[Failure]:
    """Jobs that were made, and whose pods are refused. It is their controller that tries again."""
    return [
        Failure(
            subject=job.name,
            action=StartJob.__name__,
            bookie=job.bookie or "",
            message=f"{job.name}: {job.waiting}",
            count=NAMED_FROM,
            next_at=observed.now,
            reason=ACTION_FAILED,
        )
        for job in observed.jobs
        if job.running and job.waiting.startswith(NOT_MADE)
    ]


def failure_refusals(failures: Sequence[Failure]) -> list[Refusal]:
    """The failures as entries of `status.blocked`, with the message of whoever refused."""
    return [
        Refusal(
            action=one.action,
            predicate=one.reason,
            message=one.message,
            bookie=one.bookie,
        )
        for one in failures[:FAILURES_MAX]
    ]
