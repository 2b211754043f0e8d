"""Bookies that hang: the process lives and answers nobody. They are restarted, within bounds. Pure.

No platform's probe does it: a bookie that boots for long must never be killed. Silence towards the
operator alone is no proof, since a network policy makes the same: it also does not serve.
"""

from datetime import datetime, timedelta
from typing import Final

from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.bookie_status import BookieState, BookieStatus
from bookie_operator.observed import Bookie

HUNG_AFTER: Final = timedelta(minutes=5)
"""Silence after which a process counts as hung; a booting bookie does answer."""
RESTARTS_MAX: Final = 3
"""Restarts in a row without an answer; after that a person must look."""
HUNG: Final = "Hung"
HUNG_AGAIN: Final = "HungAgain"


def silence(
    bookie: Bookie, before: BookieStatus | None, now: datetime
) -> tuple[datetime | None, int]:
    """Return since when its process has been silent (None = it answers, or there is no process),
    and how many restarts did not help."""
    if bookie.health is not None:
        return None, 0
    process = bookie.process
    restarts = before.hung_restarts if before is not None else 0
    was_hung = before is not None and before.state is BookieState.UNRESPONSIVE
    if process is None or not process.running:
        return None, restarts + was_hung
    if before is None or before.instance != process.instance:
        return whole_milliseconds(now), restarts + was_hung
    return before.silent_since or whole_milliseconds(now), restarts


def serves(bookie: Bookie) -> bool:
    """Whether others than the operator hear of it."""
    return bookie.process is not None and bookie.process.is_ready and bookie.is_registered


def is_hung(bookie: Bookie, since: datetime | None, now: datetime) -> bool:
    return since is not None and not serves(bookie) and now - since >= HUNG_AFTER


def words(bookie: Bookie, since: datetime | None, restarts: int) -> str:
    """What people read of its silence; it changes with no second."""
    message = "its control plane does not answer"
    if since is None:
        return message
    message += f" since {since:%H:%M:%S} UTC"
    if serves(bookie):
        return f"{message}, but it serves: does a network policy block the operator?"
    if restarts >= RESTARTS_MAX:
        return f"{message}; {restarts} restarts did not help, a person must look"
    return f"{message}; it is restarted when that lasts {HUNG_AFTER.total_seconds():g} s"
