"""Lost bookies: they have been away so long that other bookies should hold their entries.

A bookie is away while it is not registered in the metadata store and does not answer, whatever the
cause, such as its node, its disks or its image; or while it refuses to boot. BookKeeper's auditor
and clients also go by the registration. After `spec.lostBookieDelaySeconds`, a re-replication gives
its ledgers other members; it checks again whether the bookie is back. Only time that the operator
has seen counts: the delay begins again after a restart of the operator, and after the store was
silent. If many bookies are away at the same time, it is an outage, and a person must decide.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from bookie.ids import BookieId
from bookie.wire.admin.health import Phase

from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.reports import RereplicationReport
from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.actions import Event, Refusal
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.states import Judged

REREPLICATE: Final = "Rereplicate"
MANY_GONE: Final = "ManyBookiesGone"
NO_SPARE: Final = "NoSpareBookie"
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Lost:
    """What becomes of bookies that are away for too long."""

    bookie: BookieId | None = None
    """The bookie whose ledgers should get other members now; None: there is none."""
    refusals: list[Refusal] = field(default_factory=list)
    """Why nothing is done for one that is due."""
    events: list[Event] = field(default_factory=list)


def gone_since(pass_: Pass, bookie_id: BookieId) -> datetime | None:
    """Since when it has been away; None: it is not, or it is not known, or no ledger can name
    it."""
    one, before = pass_.judged[bookie_id], pass_.previous.bookie(bookie_id)
    if one.bookie.is_registered or _answers(one) or one.state is BookieState.LEAVING:
        return None
    if before is None or not (before.boot_epoch or _is_known_leaver(pass_, one)):
        return None  # it never served
    if before.gone_since is None and not pass_.has_own_store:
        return None  # nobody knows
    return before.gone_since or whole_milliseconds(pass_.now)


def _is_known_leaver(pass_: Pass, one: Judged) -> bool:
    """Whether it is to leave and has a cookie: then it has served, even if no pass saw it."""
    return one.bookie.id not in pass_.spec.bookie_ids and one.bookie.has_cookie is True


def may_be_gone(pass_: Pass, bookie_id: BookieId) -> bool:
    """Whether it is away or may be: then tasks for bookies that are away may wait for it."""
    return gone_since(pass_, bookie_id) is not None or not pass_.has_own_store


def _answers(one: Judged) -> bool:
    """It has its disks, and serves or is about to; one whose boot is refused is not there."""
    health = one.bookie.health
    refused = (Phase.REFUSED, Phase.AWAITING_APPROVAL)
    return health is not None and health.is_fresh and health.phase not in refused


def rereplicated_at(pass_: Pass, bookie_id: BookieId) -> datetime | None:
    """When, while it is away, other bookies were last found to hold all its entries; None: not yet,
    or it is not away."""
    since, before = gone_since(pass_, bookie_id), pass_.previous.bookie(bookie_id)
    if since is None:
        return None
    begun_at = since.replace(microsecond=0)  # as starts of jobs are known
    ended = _ended_since(pass_, bookie_id, since)
    # One that began before may have passed over what the bookie took when it was back in between.
    done = [_end(job) for job in ended if job.started_at >= begun_at and _is_clean(job)]
    if before is not None and before.rereplicated_at is not None:
        done.append(before.rereplicated_at)
    return whole_milliseconds(max(done)) if done else None


def is_made_good(pass_: Pass, bookie_id: BookieId) -> bool:
    """Whether other bookies hold all its entries, and it has been away since.

    A re-replication from before this operator began to look does not count: the bookie may have
    come back in between and taken new entries.
    """
    made_at, known_since = rereplicated_at(pass_, bookie_id), pass_.observed.metadata.known_since
    return made_at is not None and known_since is not None and made_at >= known_since


def lost(pass_: Pass, *, is_loss_possible: bool) -> Lost:
    """The bookie whose turn it is, or why it has to wait. Call it while no re-replication runs."""
    delay = timedelta(seconds=pass_.spec.lost_bookie_delay_seconds)
    gone, known_since = _unreplaced(pass_), pass_.observed.metadata.known_since
    if not gone or not delay or known_since is None:
        return Lost()
    away = [one for one, since in gone.items() if pass_.now - max(since, known_since) >= delay]
    again = max(delay, timedelta(seconds=pass_.spec.repair.backoff_seconds))
    due = [one for one in away if pass_.now - _answered_at(pass_, one, gone[one]) >= again]
    if not due:
        return Lost()
    # Whoever was not tried for the longest time, so that one that fails keeps nobody else back.
    first = min(due, key=lambda one: (_tried_at(pass_, one, gone[one]), gone[one]))
    since = f"not registered since {gone[first].isoformat(timespec='seconds')}"
    why_not = _why_not(pass_, gone, is_loss_possible=is_loss_possible)
    if why_not is not None:
        predicate, why = why_not
        return Lost(refusals=[Refusal(REREPLICATE, predicate, f"{since}; {why}", first)])
    text = f"{since}: its ledgers get other members (spec.lostBookieDelaySeconds)"
    return Lost(first, events=[Event("BookieLost", text, first, "Warning")])


def _unreplaced(pass_: Pass) -> dict[BookieId, datetime]:
    """Bookies that are away, and whose copies nobody else has made yet, with since when.

    What counts no more is made again; where the bookie was not there, nothing is left to do.
    """
    found = {}
    for bookie_id in pass_.judged:
        since, is_made = gone_since(pass_, bookie_id), is_made_good(pass_, bookie_id)
        if since is not None and not is_made and not _is_rebuilt(pass_, bookie_id):
            found[bookie_id] = since
    return found


def _is_rebuilt(pass_: Pass, bookie_id: BookieId) -> bool:
    """Whether it is away only because a job rebuilds its index."""
    return any(job.bookie == bookie_id for job in pass_.running(JobKind.INDEX_REBUILD))


def _answered_at(pass_: Pass, bookie_id: BookieId, since: datetime) -> datetime:
    """When a re-replication of it last ended incompletely; long ago if none did."""
    known = pass_.previous.rereplication
    ends = [_end(job) for job in _ended_since(pass_, bookie_id, since) if job.report is not None]
    if known.bookie == bookie_id and known.finished_at is not None:
        ends.append(known.finished_at)
    return max(ends, default=_NEVER)


def _tried_at(pass_: Pass, bookie_id: BookieId, since: datetime) -> datetime:
    """When its last re-replication ended, with whatever result; long ago if there was none."""
    return max(map(_end, _ended_since(pass_, bookie_id, since)), default=_NEVER)


def _why_not(
    pass_: Pass, gone: Mapping[BookieId, datetime], *, is_loss_possible: bool
) -> tuple[str, str] | None:
    """Predicate and message, when nobody may be taken for lost now."""
    limit = max(1, pass_.spec.quorum.ack - 1)
    if len(gone) > limit:
        why = f"{', '.join(gone)} are away, which is an outage rather than a loss ({limit} may be)"
        return MANY_GONE, f"{why}: bring one back, or declare one lost by a BookieTask rereplicate"
    if is_loss_possible:
        why = "acknowledged entries may be lost; nothing is changed until a person has looked"
        return "PossibleDataLoss", why
    writable = sum(one.can_write for one in pass_.judged.values())
    if writable < pass_.spec.quorum.ensemble:
        why = f"{writable} bookies can take entries, ledgers are on {pass_.spec.quorum.ensemble}"
        return NO_SPARE, f"{why}: raise spec.replicas, or bring it back"
    if not pass_.is_settled_without({one for one in pass_.judged if gone_since(pass_, one)}):
        return "WaitingForLimbo", "it waits until all others have booted and none is in limbo"
    return None


def _ended_since(pass_: Pass, bookie_id: BookieId, since: datetime) -> list[Job]:
    return [
        job
        for job in pass_.observed.jobs
        if job.kind is JobKind.REREPLICATE and job.bookie == bookie_id
        if job.ended_at is not None and job.ended_at >= since
    ]


def _end(job: Job) -> datetime:
    assert job.ended_at is not None, "one that has ended"
    return job.ended_at


def _is_clean(job: Job) -> bool:
    report = job.reported(RereplicationReport)
    return report is not None and report.clean is True
