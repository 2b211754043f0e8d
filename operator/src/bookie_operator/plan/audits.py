"""Audits: after every repair and re-replication, after a possible loss, and on schedule.

An audit changes nothing. DurabilityVerified depends on when the last finished audit began: an audit
that began before the last incident was cleared says nothing about what happened later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bookie.ids import BookieId

from bookie_operator.model.audit_status import SILENT, AuditStatus, findings_of
from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.bookie_options import AckMode
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.incidents import Incident
from bookie_operator.model.schedule import due_after
from bookie_operator.model.task import TaskType
from bookie_operator.observed import Observed
from bookie_operator.plan.actions import Action
from bookie_operator.plan.attempts import AUDITS, wants_to_run
from bookie_operator.plan.deadlines import is_waited_out
from bookie_operator.plan.losses import last_decision
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.rereplications import last_rereplication
from bookie_operator.plan.states import Judged

HEALED_AGAIN_S: Final = 60.0
"""Wait from an audit with unknown copies to the next one, once all bookies serve."""
SEEN_AGAIN_S: Final = 300.0
"""Wait from an audit that left out ledgers or bookies to the next one."""
HELD_AGAIN_S: Final = 300.0
"""Wait from an audit whose last copies prevent actions to the next one."""


_TAKES_ENTRIES: Final = (BookieState.SERVING, BookieState.LIMBO)
_LEAVES: Final = frozenset({BookieState.DRAINING, BookieState.LEAVING})
"""What such a bookie had is moved and counted before it goes."""


@dataclass(frozen=True, slots=True)
class Audits:
    status: AuditStatus
    actions: list[Action]

    @property
    def wants_to_run(self) -> bool:
        return wants_to_run(self.status, self.actions)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReasons:
    """What else of this pass makes an audit wanted, or keeps it waiting."""

    incidents: Sequence[Incident]
    is_loss_possible: bool
    """PossibleDataLoss is True."""
    is_repairing: bool
    """A repair or a drain runs or wants to, or a repair of findings runs: it changes what an audit
    would look at."""
    is_asked: bool
    """Something was seen that only an audit can settle."""
    is_held: bool
    """Last copies, by the last audit, hold something back."""
    is_taking_out: bool
    """This pass stops a bookie."""


def audits(pass_: Pass, reasons: AuditReasons, *, mended_at: datetime | None = None) -> Audits:
    """`mended_at`: when a repair of findings ended last."""
    status = AUDITS.followed(pass_)
    if reasons.is_asked:
        status = status.model_copy(update={"asked_at": whole_milliseconds(pass_.now)})
    actions = AUDITS.stops(pass_)
    if status.running or reasons.is_repairing or pass_.spec.paused or not pass_.has_own_store:
        return Audits(status, actions)
    has_booted = len(pass_.silent) < len(pass_.judged)
    if pass_.observed.metadata.instance_id is None or not has_booted:
        return Audits(status, actions)
    if not is_waited_out(status.next_at, pass_.spec.repair, pass_.now):
        return Audits(status, actions)
    changed = (pass_.previous.scrub.finished_at, mended_at)
    is_mended = any(moment is not None and not is_younger(status, moment) for moment in changed)
    asked_by = pass_.waiting(TaskType.AUDIT, AUDITS.next_job(pass_, status))
    is_wanted = _is_wanted(
        pass_,
        incidents=reasons.incidents,
        status=status,
        is_loss=reasons.is_loss_possible,
        is_mended=is_mended,
        is_held=reasons.is_held,
        is_taking_out=reasons.is_taking_out,
    )
    if is_wanted or asked_by:
        options = _options(pass_)
        actions.append(
            AUDITS.start(pass_, status, options=options, asked_by=asked_by, is_due=is_wanted)
        )
    return Audits(status, actions)


def is_disturbed(pass_: Pass) -> bool:
    """A bookie came or went since the last pass, or booted again, however cleanly: entries that
    were acknowledged meanwhile may lack its copy, and only an audit can tell."""
    for bookie_id, one in pass_.judged.items():
        before, health = pass_.previous.bookie(bookie_id), one.bookie.health
        if before is None or not before.boot_epoch:
            continue
        epoch = health.boot.epoch if health is not None and health.boot is not None else 0
        states = {before.state, one.state}
        if not states & _LEAVES and len({state in _TAKES_ENTRIES for state in states}) > 1:
            return True
        if one.state in _TAKES_ENTRIES and epoch > before.boot_epoch:
            return True
    return False


def _options(pass_: Pass) -> tuple[str, ...]:
    """Findings are remembered where the cluster's next audit finds them, wherever it runs."""
    audit = pass_.spec.audit
    return (
        *("--history", "metadata"),
        *("--recheck-delay", f"{audit.recheck_delay_seconds:g}"),
        *("--underreplicated-grace", f"{audit.underreplicated_grace_seconds:g}"),
        *("--min-racks", str(audit.min_racks)),
        *("--ack-quorum", str(max(pass_.spec.quorum.ack, _survives_a_crash(pass_.judged)))),
    )


def _survives_a_crash(judged: Mapping[BookieId, Judged]) -> int:
    """The ack quorum with which one unclean stop loses nothing."""
    boots = (one.bookie.health.boot for one in judged.values() if one.bookie.health is not None)
    return 2 if any(boot is not None and boot.mode == AckMode.MEMORY for boot in boots) else 1


def disturbed_at(incidents: Sequence[Incident], status: AuditStatus) -> datetime | None:
    """The time after which an audit must begin to prove anything; None: any audit does."""
    moments = [incident.cleared_at or incident.detected_at for incident in incidents]
    return max([*moments, *([status.asked_at] if status.asked_at else [])], default=None)


def is_younger(status: AuditStatus, moment: datetime | None) -> bool:
    """True when the last finished audit began after `moment`."""
    return status.started_at is not None and (moment is None or status.started_at > moment)


def is_stale(pass_: Pass, finished_at: datetime) -> bool:
    """Two audits were due by the schedule since the last one finished, and none has."""
    schedule = pass_.spec.audit.schedule
    next_one = due_after(schedule, finished_at)
    one_more = due_after(schedule, next_one) if next_one is not None else None
    return one_more is not None and pass_.now > one_more


def _is_wanted(
    pass_: Pass,
    *,
    incidents: Sequence[Incident],
    status: AuditStatus,
    is_loss: bool,
    is_mended: bool,
    is_held: bool,
    is_taking_out: bool,
) -> bool:
    """Whether an audit is wanted even if no task asks for one."""
    if is_taking_out:  # its silence would look like last copies, and hold up what follows
        return False
    for changed_at in (
        last_decision(pass_.observed.jobs),
        last_rereplication(pass_.observed.jobs),
    ):
        if changed_at is not None and not is_younger(status, changed_at):
            return True
    if status.started_at is None and not is_loss:
        return pass_.is_settled
    if _is_due(pass_, status.started_at):
        return True
    if is_loss:  # look at once, and again after every further incident
        detected = max((incident.detected_at for incident in incidents), default=None)
        if not is_younger(status, detected):
            return True
    is_unclean = status.clean is False
    may_release = is_held and is_unclean and pass_.is_settled_without(pass_.silent)
    if may_release and (is_mended or _may_be_released(pass_, status)):
        return True
    if not pass_.is_settled:
        return False
    if not is_younger(status, disturbed_at(incidents, status)):
        return True
    return is_unclean and (is_mended or _may_have_healed(status, pass_.observed))


def _is_due(pass_: Pass, last: datetime | None) -> bool:
    due = due_after(pass_.spec.audit.schedule, last) if last is not None else None
    return due is not None and pass_.now >= due


def _may_be_released(pass_: Pass, status: AuditStatus) -> bool:
    """Whether an audit may find no last copies where they hold something back now.

    It waits for nobody: a bookie with a replaced disk answers nothing until last copies no longer
    hold its fix back. While someone is silent, it may find fewer only where a bookie answers of
    which the last audit did not know what it has. Of holders that are not named any may do so."""
    copies = status.last_copies
    if not pass_.silent or copies is None or not copies.is_complete:
        return _waited(status, pass_.now, HELD_AGAIN_S)
    perhaps = {name for held in copies.held_by for name in held.perhaps}
    answering = pass_.judged.keys() - set(pass_.silent)
    return bool(perhaps & answering) and _has_rested(status, pass_.now, HEALED_AGAIN_S)


def _may_have_healed(status: AuditStatus, observed: Observed) -> bool:
    """An audit that found unknowns while bookies were away is repeated once all are back, and one
    that left out ledgers or bookies too: as long as that lasts, so each rests as long as it worked.
    What only a person can mend, as metadata, waits for the schedule or a task."""
    is_left_out = status.underreplicated_skipped or findings_of(status.classes, SILENT)
    if not (status.unknown or is_left_out):
        return False
    return _has_rested(status, observed.now, HEALED_AGAIN_S if status.unknown else SEEN_AGAIN_S)


def _has_rested(status: AuditStatus, now: datetime, at_least_s: float) -> bool:
    """The last one ended so long ago, and no shorter than it worked."""
    if status.finished_at is None:
        return False
    took = status.finished_at - (status.started_at or status.finished_at)
    return _waited(status, now, max(at_least_s, took.total_seconds()))


def _waited(status: AuditStatus, now: datetime, seconds: float) -> bool:
    return status.finished_at is not None and now - status.finished_at >= timedelta(seconds=seconds)
