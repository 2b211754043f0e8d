"""When the operator looked at a cluster last, and when its status says nothing about now any more.

A status that does not change is not written again, so the status of an operator that is gone would
read like that of a fleet at rest. Therefore a pass writes its time into the status from time to
time, and whoever shows the status says so once that time is too long ago.
"""

from datetime import datetime, timedelta
from typing import Final

RENEWED_AFTER: Final = timedelta(minutes=5)
"""A pass writes its time once the one in the status is so old: each write wakes all who watch the
object."""
OLD_AFTER: Final = timedelta(minutes=10)
"""A look before that is too long ago: a renewal is overdue, and the operator's own probe would have
restarted it."""


def renewed(looked_at: datetime | None, now: datetime) -> datetime:
    """The time for the status of a pass at `now`. A time in the future is of a clock that has been
    put right since."""
    if looked_at is not None and timedelta() <= now - looked_at < RENEWED_AFTER:
        return looked_at
    return now


def not_looked_for(looked_at: datetime | None, now: datetime) -> timedelta | None:
    """How long the operator has not looked, if that is too long. None: it keeps the status
    current, or it is of a version that does not write when."""
    if looked_at is None or now - looked_at < OLD_AFTER:
        return None
    return now - looked_at


def is_ahead(looked_at: datetime | None, now: datetime) -> bool:
    """Whether the last look is so far in the future that nobody can tell how long ago it was: the
    clock of the operator, or that of who asks, was wrong or still is."""
    return looked_at is not None and looked_at - now >= OLD_AFTER
