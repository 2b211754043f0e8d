"""Bookies that are taken for lost: away for so long that others are to hold what they held.

A bookie is away while it is not registered with the metadata store and does not answer, whatever
keeps it: its node, its disks, its image; or while its boot is refused. BookKeeper's auditor and
clients go by the registration as well. After `spec.lostBookieDelaySeconds` its ledgers get other
members (a re-replication, which looks again itself whether the bookie is back). What nobody has
seen does not count: the delay begins again with the operator, and with the store that was silent.
An outage of many is no loss of one: then a person is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from bookie.ids import BookieId
from bookie.wire.admin.health import Phase

from bookie_operator.model.reports import RereplicationReport
from bookie_operator.model.status import BookieState, whole_milliseconds
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
    """Whose ledgers are to get other members now; None: nobody's."""
    refusals: list[Refusal] = field(default_factory=list)
    """Why nothing is done for one that is due."""
    events: list[Event] = field(default_factory=list)


def gone_since(pass_: Pass, bookie_id: BookieId) -> datetime | None:
    """Since when it is away; None: it is not, or nobody knows, or no ledger can name it."""
    one, before = pass_.judged[bookie_id], pass_.previous.bookie(bookie_id)
    if one.bookie.is_registered or _answers(one) or one.state is BookieState.LEAVING:
        return None
    if before is None or not (before.boot_epoch or _is_known_leaver(pass_, one)):
        return None  # it never served
    if before.gone_since is None and not pass_.observed.metadata.reachable:
        return None  # nobody knows
    return min(before.gone_since or pass_.now, whole_milliseconds(pass_.now))


def _is_known_leaver(pass_: Pass, one: Judged) -> bool:
    """To leave, and known to metadata: it served, though perhaps nobody saw it do so."""
    return one.bookie.id not in pass_.spec.bookie_ids and one.bookie.has_cookie is True


def may_be_gone(pass_: Pass, bookie_id: BookieId) -> bool:
    """It is away, or nobody knows: what people ask for one that is away may come true."""
    return gone_since(pass_, bookie_id) is not None or not pass_.observed.metadata.reachable


def _answers(one: Judged) -> bool:
    """It has its disks, and serves or is about to; one whose boot is refused is not there."""
    health = one.bookie.health
    refused = (Phase.REFUSED, Phase.AWAITING_APPROVAL)
    return health is not None and health.is_fresh and health.phase not in refused


def rereplicated_at(pass_: Pass, bookie_id: BookieId) -> datetime | None:
    """When others were last found to have all that it held, since it is away; None: not yet, or it
    is there."""
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
    """Others have all that it held, and it was away ever since.

    What was made before this operator began to look does not count: the bookie may have been there
    in between and have taken new entries.
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
    """Its index is being built again: it is away for a reason of ours."""
    return any(job.bookie == bookie_id for job in pass_.running(JobKind.INDEX_REBUILD))


def _answered_at(pass_: Pass, bookie_id: BookieId, since: datetime) -> datetime:
    """When a re-replication of it last ended with something left; long ago when none has."""
    known = pass_.previous.rereplication
    ends = [_end(job) for job in _ended_since(pass_, bookie_id, since) if job.report is not None]
    if known.bookie == bookie_id and known.finished_at is not None:
        ends.append(known.finished_at)
    return max(ends, default=_NEVER)


def _tried_at(pass_: Pass, bookie_id: BookieId, since: datetime) -> datetime:
    """When its last attempt ended, whatever came of it; long ago when there was none."""
    return max(map(_end, _ended_since(pass_, bookie_id, since)), default=_NEVER)


def _why_not(
    pass_: Pass, gone: Mapping[BookieId, datetime], *, is_loss_possible: bool
) -> tuple[str, str] | None:
    """Predicate and message, when nobody may be taken for lost now."""
    limit = max(1, pass_.spec.quorum.ack - 1)
    if len(gone) > limit:
        why = f"{', '.join(gone)} are away, which is more an outage than a loss ({limit} may be)"
        return MANY_GONE, f"{why}: bring one back, or ask for one by a BookieTask rereplicate"
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
