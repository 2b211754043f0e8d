"""Conditions: what a pass concluded, one typed sentence each, with a time that only flips move.

Nothing unknown is reported as good: a bookie that does not answer makes LimboPresent and
DurabilityVerified Unknown rather than False and True.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bookie.protocol.ids import BookieId

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import (
    AuditStatus,
    BookieState,
    ClusterStatus,
    Condition,
    ConditionType,
    DrainPhase,
    DrainStatus,
    Incident,
    IncidentOutcome,
    whole_milliseconds,
)
from bookie_operator.observed import Observed
from bookie_operator.plan.actions import Refusal
from bookie_operator.plan.audits import disturbed_at, is_stale, is_younger
from bookie_operator.plan.disks import pending_fix
from bookie_operator.plan.drains import SCALE_DOWN, drain_text
from bookie_operator.plan.losses import losses_accepted
from bookie_operator.plan.repair import Repairs
from bookie_operator.plan.states import Judged, marks_total

Verdict = tuple[Literal["True", "False", "Unknown"], str, str]
"""Status, reason, message."""

LOSS_ACCEPTED: Final = "LossAccepted"
NAMED_MAX: Final = 10
"""Ledgers that a message names; the rest is counted."""
_COMING_UP: Final = (
    BookieState.PENDING,
    BookieState.STARTING,
    BookieState.BOOTING,
    BookieState.MARKING,
    BookieState.STOPPING,
)
_BROKEN: Final = {
    BookieState.REFUSED: "RefusedBoot",
    BookieState.CRASH_LOOP: "BookieCrashLoop",
    BookieState.UNRESPONSIVE: "BookieUnresponsive",
    BookieState.DOWN: "BookieDown",
}


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything the conditions are drawn from."""

    cluster: BookieCluster
    judged: Mapping[BookieId, Judged]
    observed: Observed
    incidents: Sequence[Incident]
    repairs: Repairs
    audit: AuditStatus
    drain: DrainStatus | None
    refusals: Sequence[Refusal]
    loss: Verdict
    is_restarting: bool


def conditions(found: Findings, previous: ClusterStatus) -> tuple[Condition, ...]:
    verdicts: dict[ConditionType, Verdict] = {
        ConditionType.AVAILABLE: _available(found),
        ConditionType.PROGRESSING: _progressing(found),
        ConditionType.DEGRADED: _degraded(found),
        ConditionType.LIMBO_PRESENT: _limbo_present(found),
        ConditionType.COOKIE_FIX_PENDING: _cookie_fix_pending(found),
        ConditionType.REPAIR_RUNNING: _repair_running(found),
        ConditionType.REPAIR_STALLED: _repair_stalled(found),
        ConditionType.POSSIBLE_DATA_LOSS: found.loss,
        ConditionType.DURABILITY_VERIFIED: _durability_verified(found),
        ConditionType.SCALE_DOWN_BLOCKED: _scale_down_blocked(found),
        ConditionType.PAUSED: _paused(found),
    }
    return tuple(
        _condition(kind, verdict, found=found, before=previous.condition(kind))
        for kind, verdict in verdicts.items()
    )


def possible_data_loss(
    cluster: BookieCluster,
    judged: Mapping[BookieId, Judged],
    observed: Observed,
    *,
    incidents: Sequence[Incident],
    previous: ClusterStatus,
) -> Verdict:
    """Whether acknowledged entries may be gone. Once said, only a clean audit takes it back;
    a recorded loss stays, and one that a person accepted hides none that nobody has looked at."""
    known = _known_loss(judged, observed, previous)
    if known is not None and known[1] != LOSS_ACCEPTED:
        return known
    overlap = _overlap(cluster, judged, incidents=incidents, previous=previous)
    return overlap or known or ("False", "NothingFound", "")


def is_undecided(loss: Verdict) -> bool:
    """A loss is possible and no person has looked at it: nothing may be disturbed."""
    return loss[0] == "True" and loss[1] != LOSS_ACCEPTED


def _overlap(
    cluster: BookieCluster,
    judged: Mapping[BookieId, Judged],
    *,
    incidents: Sequence[Incident],
    previous: ClusterStatus,
) -> Verdict | None:
    """An ack quorum or more that forgot at once, until an audit of what came after is clean."""
    audit = previous.audit
    overlapping = sorted(
        {
            incident.bookie
            for incident in incidents
            if incident.outcome is IncidentOutcome.OPEN
            and incident.cleared_at is None
            and (incident.ledgers_in_limbo or incident.ledgers_unchecked)
        }
        # A disk is known to be gone before the boot that found it has ended.
        | {bookie_id for bookie_id, one in judged.items() if pending_fix(one) is not None}
    )
    quorum = cluster.spec.quorum.ack
    if len(overlapping) >= quorum:
        why = f"{', '.join(overlapping)} lost memory or disks at once; the ack quorum is {quorum}"
        return "True", "OverlappingUnclean", why
    before = previous.condition(ConditionType.POSSIBLE_DATA_LOSS)
    if before is not None and before.status == "True" and before.reason == "OverlappingUnclean":
        settled = not overlapping and audit.clean is True
        if not (settled and is_younger(audit, disturbed_at(incidents, audit))):
            return "True", "OverlappingUnclean", before.message
    return None


def _known_loss(
    judged: Mapping[BookieId, Judged], observed: Observed, previous: ClusterStatus
) -> Verdict | None:
    """A loss that is on record, by the bookies' word, the last audit's or a person's."""
    audit = previous.audit
    recorded = sorted(
        bookie_id for bookie_id, one in judged.items() if _losses(bookie_id, one, previous) > 0
    )
    records = f"{', '.join(recorded)} hold records of lost entries" if recorded else ""
    accepted = _accepted(observed, audit)
    # A person's word explains the records on bookies, unless an audit found more than that.
    if accepted and not (audit.no_copy or audit.lost):
        return "True", LOSS_ACCEPTED, f"{accepted}; {records}" if records else accepted
    if recorded:
        return "True", "LossRecorded", records
    if audit.no_copy or audit.lost:
        why = f"the last audit found {audit.no_copy + audit.lost} entries with no copy left"
        return "True", "AuditMissing", why
    return None


def _accepted(observed: Observed, audit: AuditStatus) -> str:
    """Which losses a person accepted: named while their jobs are kept, later counted only."""
    named = losses_accepted(observed.jobs)
    if not named and not audit.accepted_losses:
        return ""
    ids = ", ".join(str(loss.ledger_id) for loss in named[:NAMED_MAX])
    count = max(len(named), audit.accepted_losses)
    which = f" ({ids}{', ...' if count > len(named[:NAMED_MAX]) else ''})" if named else ""
    noun = "ledger was" if count == 1 else "ledgers were"
    return f"{count} {noun} closed at a possible loss by a person's word{which}"


def _losses(bookie_id: BookieId, one: Judged, previous: ClusterStatus) -> int:
    if one.bookie.health is not None:
        return one.bookie.health.losses_recorded
    before = previous.bookie(bookie_id)
    return before.losses_recorded if before else 0


def _condition(
    kind: ConditionType, verdict: Verdict, *, found: Findings, before: Condition | None
) -> Condition:
    status, reason, message = verdict
    flipped = before is None or before.status != status
    moment = whole_milliseconds(found.observed.now)
    return Condition(
        type=kind.value,
        status=status,
        reason=reason,
        message=message[:1024],
        observed_generation=found.cluster.metadata.generation,
        last_transition_time=moment if before is None or flipped else before.last_transition_time,
    )


def _available(found: Findings) -> Verdict:
    if not found.observed.metadata.reachable:
        return "False", "MetadataUnreachable", found.observed.metadata.message
    writable = sum(one.can_write for one in found.judged.values())
    ensemble = found.cluster.spec.quorum.ensemble
    told = f"{writable} writable bookies, the ensemble needs {ensemble}"
    if writable < ensemble:
        return "False", "BelowEnsemble", told
    return "True", "EnoughWritable", told


def _progressing(found: Findings) -> Verdict:
    if found.is_restarting:
        return "True", "Rolling", "a bookie is restarted with new settings"
    if found.drain is not None and found.drain.phase is not DrainPhase.HELD:
        return "True", "Draining", drain_text(found.drain)
    coming = _in_states(found, *_COMING_UP)
    if coming:
        return "True", "BookiesStarting", ", ".join(coming)
    waiting = _in_states(found, BookieState.AWAITING_APPROVAL)
    if waiting:
        return "True", "FixingCookie", ", ".join(waiting)
    if marks_total(found.judged):
        return "True", "WaitingForLimbo", "until every bookie's limbo is 0"
    if found.audit.running:
        return "True", "Auditing", "an audit runs"
    return "False", "Idle", ""


def _degraded(found: Findings) -> Verdict:
    """Time or a person is needed; most pressing reason first."""
    if found.loss[0] == "True":
        return "True", "PossibleDataLoss", found.loss[2]
    lineage = _refused(found, "LineageMismatch")
    if lineage:
        return "True", "LineageMismatch", lineage[0].message
    if not found.observed.metadata.reachable:
        return "True", "MetadataUnreachable", found.observed.metadata.message
    for predicate in ("SuspectDisk", "MultipleBookiesChanged"):
        refused = _refused(found, predicate)
        if refused:
            return "True", predicate, f"{refused[0].bookie}: {refused[0].message}"
    for state, reason in _BROKEN.items():
        broken = _in_states(found, state)
        if broken:
            first = found.judged[BookieId(broken[0])]
            return "True", reason, f"{', '.join(broken)}: {first.message}"
    if found.repairs.stalled:
        return "True", "RepairStalled", ", ".join(found.repairs.stalled)
    if found.audit.clean is False:
        return "True", "AuditFindings", _findings_text(found.audit)
    return "False", "AsWanted", ""


def _limbo_present(found: Findings) -> Verdict:
    marked = [bookie_id for bookie_id, one in found.judged.items() if one.has_marks]
    if marked:
        ledgers = sum(one.limbo for one in found.judged.values())
        unchecked = sum(one.unchecked for one in found.judged.values())
        told = f"{ledgers} ledgers in limbo, {unchecked} unchecked on {', '.join(marked)}"
        return "True", _limbo_reason(found, marked), told
    silent = [bookie_id for bookie_id, one in found.judged.items() if not one.is_booted]
    if silent:
        return "Unknown", "BookiesNotBooted", f"not known of {', '.join(silent)}"
    return "False", "NoLimbo", ""


def _limbo_reason(found: Findings, marked: Sequence[str]) -> str:
    for incident in reversed(found.incidents):
        if incident.outcome is IncidentOutcome.OPEN and incident.bookie in marked:
            return incident.kind
    return "UncleanShutdown"


def _cookie_fix_pending(found: Findings) -> Verdict:
    waiting = _in_states(found, BookieState.AWAITING_APPROVAL)
    if not waiting:
        return "False", "NonePending", ""
    for refusal in found.refusals:
        if refusal.action == "CookieFix":
            return "True", refusal.predicate, f"{refusal.bookie}: {refusal.message}"
    return "True", "Approved", ", ".join(waiting)


def _repair_running(found: Findings) -> Verdict:
    running = [
        f"{status.episode} attempt {status.attempt}"
        for status in found.repairs.statuses.values()
        if status.state == "Running"
    ]
    if running:
        return "True", "JobStarted", ", ".join(running)
    return "False", "NoJob", ""


def _repair_stalled(found: Findings) -> Verdict:
    if not found.repairs.stalled:
        return "False", "NotStalled", ""
    told = [
        f"{bookie_id}: {found.repairs.statuses[bookie_id].attempt} attempts, "
        f"{found.repairs.statuses[bookie_id].message or 'limbo is left'}"
        for bookie_id in found.repairs.stalled
    ]
    return "True", "AttemptsExhausted", "; ".join(told)


def _durability_verified(found: Findings) -> Verdict:
    audit = found.audit
    if marks_total(found.judged):
        return "False", "LimboPresent", "not every entry's copies are known"
    silent = [bookie_id for bookie_id, one in found.judged.items() if not one.is_booted]
    if silent:
        return "Unknown", "BookiesNotBooted", f"not known of {', '.join(silent)}"
    if audit.finished_at is None or not is_younger(audit, disturbed_at(found.incidents, audit)):
        reason = "AuditRunning" if audit.running else "AuditPending"
        return "False", reason, audit.message or "no audit since the last incident has finished"
    told = f"audit of {audit.finished_at:%Y-%m-%dT%H:%M:%SZ}: {_findings_text(audit)}"
    if not audit.clean:
        return "False", "AuditFindings", told
    if is_stale(found.cluster, audit, found.observed.now):
        return "False", "AuditStale", told
    return "True", "AuditClean", told


def _findings_text(audit: AuditStatus) -> str:
    return (
        f"{audit.ledgers} ledgers, {audit.entries} entries: {audit.ok} ok, "
        f"{audit.missing} missing, {audit.unknown} unknown, "
        f"{audit.below_ack_quorum} below ack quorum, {audit.no_copy + audit.lost} with no copy left"
    )


def _scale_down_blocked(found: Findings) -> Verdict:
    blocked = [refusal for refusal in found.refusals if refusal.action == SCALE_DOWN]
    if blocked:
        return "True", blocked[0].predicate, blocked[0].message
    if found.drain is not None:
        return "False", "Draining", drain_text(found.drain)
    return "False", "NotWanted", ""


def _paused(found: Findings) -> Verdict:
    if found.cluster.spec.paused:
        return "True", "BySpec", "spec.paused is true: nothing is changed, only observed"
    return "False", "NotPaused", ""


def _in_states(found: Findings, *states: BookieState) -> list[str]:
    return [bookie_id for bookie_id, one in found.judged.items() if one.state in states]


def _refused(found: Findings, predicate: str) -> list[Refusal]:
    return [refusal for refusal in found.refusals if refusal.predicate == predicate]
