"""Judges what was observed of one bookie: its state in one word, and whether it is impaired.

This is the first step of a pass. Impaired bookies (down, booting, in limbo or silent) use up the
loss budget. A bookie whose state is not known counts as impaired, and its counts of limbo are kept
from the previous status until the bookie itself reports newer ones.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from bookie.ids import BookieId
from bookie.wire.admin.health import Phase

from bookie_operator.model.bookie_numbers import by_number
from bookie_operator.model.bookie_status import BookieState, BookieStatus
from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.model.drain_status import DrainStatus
from bookie_operator.model.refused import refusal_reason
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, Job, JobKind, Observed, Process
from bookie_operator.plan.ends import NO_ENDS, Ends, ends_of
from bookie_operator.plan.hung import silence, words

CRASH_LOOP_MIN: Final = 3
"""Ends in a row that make a crash loop, until a process answers or runs on."""
STARTING_MAX: Final = timedelta(seconds=60)
"""A process whose control plane does not answer for longer is called unresponsive; one that is to
come and is not there for longer, down."""

UNSCHEDULABLE: Final = "Unschedulable"
"""How Kubernetes begins to say that no node has room for a pod."""
GONE: Final = frozenset({BookieState.DOWN, BookieState.CRASH_LOOP})
"""No process whose word can be taken: none there, or none that has answered between its ends."""
_BY_BROKENNESS: Final = (
    BookieState.UNRESPONSIVE,
    BookieState.REFUSED,
    BookieState.DOWN,
    BookieState.CRASH_LOOP,
)
"""The worst last; whoever is in another state comes up, or serves some of what it should."""
OTHER_VERSION: Final = (
    "it answers in words of another version than the operator's: upgrade the operator first"
)
_STATES: Final = {
    Phase.BOOTING: BookieState.BOOTING,
    Phase.MARKING: BookieState.MARKING,
    Phase.AWAITING_APPROVAL: BookieState.AWAITING_APPROVAL,
    Phase.SERVING: BookieState.SERVING,
    Phase.READ_ONLY: BookieState.READ_ONLY,
    Phase.DRAINING: BookieState.DRAINING,
    Phase.STOPPING: BookieState.STOPPING,
    Phase.REFUSED: BookieState.REFUSED,
}


class Impairment(StrEnum):
    """Why a bookie that runs counts as out all the same; another one's is its state."""

    IN_LIMBO = "in limbo"
    NOT_READY = "not ready"
    SILENT = "silent in this pass"
    NOT_REGISTERED = "not registered"


@dataclass(frozen=True, slots=True)
class Judged:
    """One bookie, judged. `impairment` None = it holds all it ever acknowledged, and serves."""

    bookie: Bookie
    state: BookieState
    message: str
    limbo: int
    unchecked: int
    impairment: Impairment | BookieState | None
    silent_since: datetime | None = None
    hung_restarts: int = 0
    ends: Ends = NO_ENDS

    @property
    def is_booted(self) -> bool:
        """Whether the bookie itself reports its counts of limbo, after a completed boot."""
        if self.state is BookieState.LEAVING:
            return True
        health = self.bookie.health
        return self.state not in GONE and health is not None and health.phase.is_booted

    @property
    def has_marks(self) -> bool:
        return self.limbo > 0 or self.unchecked > 0

    @property
    def can_write(self) -> bool:
        return self.state in (BookieState.SERVING, BookieState.LIMBO) and self.bookie.is_writable


def losses_recorded(one: Judged, before: BookieStatus | None) -> int:
    """Ledgers of which the bookie has a record of lost entries; before its boot has read them, as
    many as it had."""
    health = one.bookie.health
    if health is not None and health.phase.is_booted:
        return health.losses_recorded
    return before.losses_recorded if before else 0


def judge_all(
    spec: ClusterSpec, observed: Observed, previous: ClusterStatus
) -> dict[BookieId, Judged]:
    """Every bookie that is wanted, was known, or is there; in numeric order."""
    wanted = set(spec.bookie_ids)
    known = {
        *wanted,
        *observed.bookies,
        *(BookieId(one.id) for one in previous.bookies if not _has_left(one, previous.drain)),
    }
    judged = {
        bookie_id: _left_alone(observed.bookie(bookie_id))
        if bookie_id not in wanted and _is_leaving(observed.bookie(bookie_id), previous.drain)
        else judge(
            observed.bookie(bookie_id), previous=previous.bookie(bookie_id), now=observed.now
        )
        for bookie_id in sorted(known, key=by_number)
    }
    for job in observed.jobs:
        if job.kind is JobKind.INDEX_REBUILD and job.running and job.bookie in judged:
            judged[job.bookie] = _while_rebuilt(judged[job.bookie], job)
    return judged


def _while_rebuilt(one: Judged, job: Job) -> Judged:
    """It is away for a reason of ours, for as long as that takes."""
    if one.bookie.process is not None and one.bookie.process.running:
        return one
    how = job.waiting or job.progress or f"by job {job.name}"
    state, message = BookieState.STARTING, f"its index is being rebuilt: {how}"
    return replace(one, state=state, message=message)


def _has_left(one: BookieStatus, drain: DrainStatus | None) -> bool:
    """It is not there, nor missed: it was emptied before, or had never booted."""
    is_removed = drain is not None and drain.bookie == one.id and drain.is_removing
    return one.boot_epoch == 0 or is_removed


def _is_leaving(bookie: Bookie, drain: DrainStatus | None) -> bool:
    """The very process that said it is empty stops, or has; another one would be asked again."""
    if drain is None or drain.bookie != bookie.id or not drain.is_removing:
        return False
    process, health = bookie.process, bookie.health
    if process is None or not process.running:
        return True
    if process.instance != drain.instance:
        return False
    if health is None or not health.is_fresh or health.phase is Phase.STOPPING:
        return True
    # Its pod ends, and until its hook has run it answers as before.
    return not process.is_ready and health.draining and health.ledgers_naming_it == 0


def _left_alone(bookie: Bookie) -> Judged:
    return Judged(bookie, BookieState.LEAVING, "drained, being removed", 0, 0, impairment=None)


def judge(bookie: Bookie, *, previous: BookieStatus | None, now: datetime) -> Judged:
    ends = ends_of(bookie, previous, now=now)
    state, message = _state(bookie, previous=previous, in_row=ends.in_row, now=now)
    since, restarts = silence(bookie, previous, now)
    if state is BookieState.UNRESPONSIVE:
        message = OTHER_VERSION if bookie.health else words(bookie, since, restarts)
    if lost := node_lost(bookie):
        message = f"{message}; {lost}" if message else lost
    health = bookie.health
    if state not in GONE and health is not None and health.phase.is_booted:
        limbo, unchecked = health.limbo_ledgers, health.unchecked_ledgers
    else:
        limbo = previous.limbo_ledgers if previous else 0
        unchecked = previous.unchecked_ledgers if previous else 0
        if health is not None and state not in GONE:
            limbo = max(limbo, health.limbo_ledgers)
            unchecked = max(unchecked, health.unchecked_ledgers)
    if state is BookieState.SERVING and (limbo or unchecked):
        state = BookieState.LIMBO
        message = f"{limbo} ledgers in limbo, {unchecked} unchecked"
    return Judged(
        bookie=bookie,
        state=state,
        message=message,
        limbo=limbo,
        unchecked=unchecked,
        impairment=_impairment(bookie, state=state, marks=limbo + unchecked),
        silent_since=since,
        hung_restarts=restarts,
        ends=ends,
    )


def _state(
    bookie: Bookie, *, previous: BookieStatus | None, in_row: int, now: datetime
) -> tuple[BookieState, str]:
    process = bookie.process
    if process is not None and bookie.health is None and in_row >= CRASH_LOOP_MIN:
        ended = process.last_exit
        reason = ended.reason if ended else "no reason known"
        return BookieState.CRASH_LOOP, f"{in_row} ends in a row: {reason}"
    if process is None:
        return _absent(bookie, previous, now=now)
    if not process.running:
        return _not_running(process, previous, now=now)
    health = bookie.health
    if health is not None:
        return _STATES.get(health.phase, BookieState.UNRESPONSIVE), health.message
    is_new = process.started_at is None or now - process.started_at <= STARTING_MAX
    if is_new and not _is_silent_for_long(process, previous, now=now):
        return BookieState.STARTING, "its control plane does not answer yet"
    return BookieState.UNRESPONSIVE, ""


def _is_silent_for_long(process: Process, previous: BookieStatus | None, *, now: datetime) -> bool:
    """Whether no start takes so long, by the clock here: that of its node may be ahead."""
    if previous is None or previous.instance != process.instance or previous.silent_since is None:
        return False
    return now - previous.silent_since > STARTING_MAX


def node_lost(bookie: Bookie) -> str:
    """What is wrong with its node; empty while the bookie answers, or nothing is known."""
    process = bookie.process
    if process is None or not process.node_trouble:
        return ""
    if bookie.health is not None and bookie.health.is_fresh:
        return ""  # whatever the node's kubelet does, the bookie serves
    return f"its node {process.node} {process.node_trouble}"


def _absent(
    bookie: Bookie, previous: BookieStatus | None, *, now: datetime
) -> tuple[BookieState, str]:
    """No pod: for a moment that is how one takes the place of another."""
    if previous is None or not previous.boot_epoch:
        return BookieState.PENDING, bookie.waiting
    since = previous.state_since if previous.state is BookieState.STARTING else None
    is_late = since is not None and now - since > STARTING_MAX
    if is_late or bookie.waiting or previous.state is BookieState.DOWN:
        return BookieState.DOWN, f"no process: {bookie.waiting}" if bookie.waiting else "no process"
    return BookieState.STARTING, "its process is not there yet"


def _not_running(
    process: Process, previous: BookieStatus | None, *, now: datetime
) -> tuple[BookieState, str]:
    """It ended, or its container was never made: that is worth a word only when it hangs."""
    ended = process.last_exit
    if ended is not None:
        message = f"process ended: {ended.reason}"
        is_expected = ended.is_graceful and not process.waiting
        if is_expected and now - ended.at <= STARTING_MAX:
            return BookieState.STARTING, message
        return BookieState.DOWN, f"{message}; {process.waiting}" if process.waiting else message
    if previous is None or not previous.boot_epoch:
        return BookieState.PENDING, process.waiting
    is_new = process.started_at is None or now - process.started_at <= STARTING_MAX
    if process.waiting or not is_new:
        return BookieState.DOWN, process.waiting or "its process is not there"
    return BookieState.STARTING, "its process is not there yet"


def _impairment(
    bookie: Bookie, *, state: BookieState, marks: int
) -> Impairment | BookieState | None:
    if marks:
        return Impairment.IN_LIMBO
    if state not in (BookieState.SERVING, BookieState.READ_ONLY, BookieState.DRAINING):
        return state
    assert bookie.health is not None and bookie.process is not None
    if not bookie.process.is_ready:
        return Impairment.NOT_READY
    if not bookie.health.is_fresh:
        return Impairment.SILENT
    if state is BookieState.SERVING and not bookie.is_writable:
        return Impairment.NOT_REGISTERED
    return None


def brokenness(impairment: Impairment | BookieState) -> int:
    """How broken a bookie is, to be compared with others' only."""
    return _BY_BROKENNESS.index(impairment) + 1 if impairment in _BY_BROKENNESS else 0


def refusal_of(one: Judged) -> str:
    """The reason of a boot that was refused."""
    disks = one.bookie.health.disks if one.bookie.health else ()
    return refusal_reason({disk.verdict for disk in disks}, one.message)
