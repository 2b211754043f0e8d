"""Bookies that are to leave but are permanently away: they cannot say that no ledger names them.

Instead, a re-replication must have left nothing undone, and the bookie must have been away since
(`lost`): then other bookies hold all its entries, and no ledger names it. The re-replication begins
by the rules for lost bookies. Until then, or if an entry has no other copy, the bookie stays a
member, and the status says what it waits for and what a person can do.
"""

from datetime import datetime, timedelta
from typing import Final

from bookie.ids import BookieId

from bookie_operator.model.bookie_status import BookieState
from bookie_operator.observed import JobKind
from bookie_operator.plan.lost import gone_since, is_made_good
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.states import GONE

_STAYS_AWAY: Final = frozenset(
    {
        *(*GONE, BookieState.PENDING),
        *(BookieState.REFUSED, BookieState.UNRESPONSIVE, BookieState.AWAITING_APPROVAL),
    }
)
"""Other bookies that are not registered but are starting, and may then say what they hold."""


def is_away(pass_: Pass, bookie_id: BookieId) -> bool:
    """It is not there, nor is it about to be."""
    is_gone = gone_since(pass_, bookie_id) is not None
    return is_gone and pass_.judged[bookie_id].state in _STAYS_AWAY


def why_not_made_good(pass_: Pass, bookie_id: BookieId) -> str:
    """What giving up a bookie that is away waits for, and what to do; empty = for nothing."""
    since = gone_since(pass_, bookie_id)
    if since is None or is_made_good(pass_, bookie_id):
        return ""
    away = f"{bookie_id} is away since {since.isoformat(timespec='seconds')} and cannot be drained"
    return f"{away}: {_awaited(pass_, bookie_id, since)}"


def _awaited(pass_: Pass, bookie_id: BookieId, since: datetime) -> str:
    running = [job for job in pass_.running(JobKind.REREPLICATE) if job.bookie == bookie_id]
    if running:
        return f"its ledgers get other members{_after_colon(running[0].progress)}"
    last = pass_.previous.rereplication
    is_of_now = last.finished_at is not None and last.finished_at >= since
    if last.bookie == bookie_id and is_of_now and last.clean is False:
        left = f"{last.ledgers_left} ledgers still name it, {last.blocked} are blocked"
        return f"{left}{_after_colon(last.message)}; bring it back, or solve what is in the way"
    delay = timedelta(seconds=pass_.spec.lost_bookie_delay_seconds)
    if not delay:
        why = "spec.lostBookieDelaySeconds is 0, so its ledgers move only on request"
        return f"{why}: bring it back, or create a BookieTask rereplicate for it"
    due = max(since, pass_.observed.metadata.known_since or pass_.now) + delay
    if due > pass_.now:
        at = due.isoformat(timespec="seconds")
        return f"its ledgers get other members at {at}, by a BookieTask rereplicate sooner"
    return "its ledgers are to get other members; Blocked, action Rereplicate, says why not yet"


def _after_colon(words: str) -> str:
    return f": {words}" if words else ""
