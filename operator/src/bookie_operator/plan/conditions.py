"""Conditions: what a pass concluded, one typed sentence each, with a time that only flips move.

Nothing unknown is reported as good: a bookie that does not answer makes LimboPresent and
DurabilityVerified Unknown rather than False and True.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.bookie_status import BookieState, RepairState
from bookie_operator.model.condition_types import Condition, ConditionType
from bookie_operator.model.drain_status import DrainPhase
from bookie_operator.model.incidents import IncidentOutcome
from bookie_operator.model.undecided import in_words
from bookie_operator.plan.audits import disturbed_at, is_stale, is_younger
from bookie_operator.plan.collection import collection_held, metadata_rolled_back
from bookie_operator.plan.degraded import degraded
from bookie_operator.plan.drains import SCALE_DOWN, drain_text
from bookie_operator.plan.findings import Findings, Verdict, findings_text, verified_text
from bookie_operator.plan.other_store import lineage_refusal
from bookie_operator.plan.readiness import BLOCKED, ready, stalled
from bookie_operator.plan.rollouts import ROLLOUT_HALTED, held_back
from bookie_operator.plan.secret_conditions import secret_verdicts
from bookie_operator.plan.space import space_low
from bookie_operator.plan.states import Judged
from bookie_operator.plan.tls_conditions import tls_verdicts

BLOCKED_AFTER: Final = timedelta(seconds=60)
"""What is refused for longer does not come by itself; between two restarts it is so for moments."""
_BY_SPEC: Final = frozenset({"Restart", "ReplaceDisk", SCALE_DOWN})
"""Wishes that Progressing is about."""
_COMING_UP: Final = (
    BookieState.PENDING,
    BookieState.STARTING,
    BookieState.BOOTING,
    BookieState.MARKING,
    BookieState.STOPPING,
)
LEASE_WAIT: Final = "former process"
"""Part of the message of a boot that waits until its former process can no longer answer."""


def conditions(found: Findings) -> tuple[Condition, ...]:
    available, progressing, broken = _available(found), _progressing(found), degraded(found)
    fix = _cookie_fix_pending(found)
    verdicts: dict[ConditionType, Verdict] = {
        ConditionType.READY: ready(found, available=available),
        ConditionType.STALLED: stalled(found, progressing=progressing, degraded=broken, fix=fix),
        ConditionType.AVAILABLE: available,
        ConditionType.PROGRESSING: progressing,
        ConditionType.DEGRADED: broken,
        ConditionType.LIMBO_PRESENT: _limbo_present(found),
        ConditionType.COOKIE_FIX_PENDING: fix,
        ConditionType.REPAIR_RUNNING: _repair_running(found),
        ConditionType.REPAIR_STALLED: _repair_stalled(found),
        ConditionType.POSSIBLE_DATA_LOSS: found.loss,
        ConditionType.DURABILITY_VERIFIED: _durability_verified(found),
        ConditionType.SCALE_DOWN_BLOCKED: _scale_down_blocked(found),
        ConditionType.MIXED_DURABILITY: _mixed_durability(found),
        ConditionType.METADATA_ROLLED_BACK: metadata_rolled_back(found.pass_),
        ConditionType.COLLECTION_HELD: collection_held(found.pass_),
        ConditionType.SPACE_LOW: space_low(found.pass_),
        **tls_verdicts(found),
        **secret_verdicts(found),
        ConditionType.PAUSED: _paused(found),
    }
    return tuple(
        _condition(kind, verdict, found=found, before=found.pass_.previous.condition(kind))
        for kind, verdict in verdicts.items()
    )


def _condition(
    kind: ConditionType, verdict: Verdict, *, found: Findings, before: Condition | None
) -> Condition:
    status, reason, message = verdict
    flipped = before is None or before.status != status
    moment = whole_milliseconds(found.pass_.now)
    return Condition(
        type=kind.value,
        status=status,
        reason=reason,
        message=message[:1024],
        observed_generation=found.pass_.cluster.metadata.generation,
        last_transition_time=moment if before is None or flipped else before.last_transition_time,
    )


def _available(found: Findings) -> Verdict:
    if not found.pass_.observed.metadata.reachable:
        return Verdict("False", "MetadataUnreachable", found.pass_.observed.metadata.message)
    if (other := lineage_refusal(found.pass_)) is not None:
        return Verdict("False", other.predicate, other.message)
    writable = sum(one.can_write for one in found.pass_.judged.values())
    ensemble = found.pass_.spec.quorum.ensemble
    message = f"{writable} writable bookies, the ensemble needs {ensemble}"
    if writable < ensemble:
        return Verdict("False", "BelowEnsemble", message)
    return Verdict("True", "EnoughWritable", message)


def _progressing(found: Findings) -> Verdict:
    halted = found.refused(ROLLOUT_HALTED)
    if halted:
        return Verdict("False", ROLLOUT_HALTED, halted[0].message)
    starting = [found.pass_.judged[bookie_id] for bookie_id in found.in_states(*_COMING_UP)]
    wants_more = any(
        refusal.action == "Restart" and refusal.predicate != "Paused" for refusal in found.refusals
    )
    if found.is_restarting or (starting and wants_more):
        messages = ["bookies are restarted, one by one", *map(_coming_up, starting)]
        return Verdict("True", "Rolling", "; ".join(messages))
    if found.drain is not None and found.drain.phase is not DrainPhase.HELD:
        return Verdict("True", "Draining", drain_text(found.drain))
    if starting:
        is_waiting = any(LEASE_WAIT in one.message for one in starting)
        reason = "WaitingForLease" if is_waiting else "BookiesStarting"
        return Verdict("True", reason, ", ".join(map(_coming_up, starting)))
    waiting = found.in_states(BookieState.AWAITING_APPROVAL)
    if waiting:
        return Verdict("True", "FixingCookie", ", ".join(waiting))
    if found.pass_.marks:
        return Verdict("True", "WaitingForLimbo", "until every bookie's limbo is 0")
    for reason, what, one in (
        ("Rereplicating", "a re-replication", found.rereplication),
        ("Mending", "a repair of what an audit found", found.mend),
        ("Auditing", "an audit", found.audit),
    ):
        if one.running:
            return Verdict(
                "True", reason, f"{what} runs" + (f": {one.progress}" if one.progress else "")
            )
    return _refused(found) or _held(found) or Verdict("False", "Idle", "")


def _held(found: Findings) -> Verdict | None:
    """The verdict if `rollout.partition` stops the rollout: then the cluster is not idle."""
    held = held_back(found.pass_)
    if not held:
        return None
    message = f"{', '.join(held)} keep their settings: rollout.partition is "
    message += str(found.pass_.spec.rollout.partition)
    return Verdict("False", "PartitionReached", message)


def _refused(found: Findings) -> Verdict | None:
    """What is wanted and refused is no rest: nobody may take the spec for carried out."""
    refused = [one for one in found.refusals if one.action in _BY_SPEC]
    if not refused:
        return None
    since = {(b.bookie, b.action, b.predicate): b.since for b in found.pass_.previous.blocked}
    old = [
        one
        for one in refused
        if (moment := since.get((one.bookie, one.action, one.predicate))) is not None
        and found.pass_.now - moment >= BLOCKED_AFTER
    ]
    first = (old or refused)[0]  # what has just come up is not what stands still
    message = f"{first.bookie}: {first.action} {first.predicate}, {first.message}"
    return Verdict("False", BLOCKED, message) if old else Verdict("True", "Waiting", message)


def _coming_up(one: Judged) -> str:
    word = f"{one.state}: {one.message}" if one.message else str(one.state)
    return f"{one.bookie.id} ({word})"


def _limbo_present(found: Findings) -> Verdict:
    marked = [bookie_id for bookie_id, one in found.pass_.judged.items() if one.has_marks]
    if marked:
        ledgers = sum(one.limbo for one in found.pass_.judged.values())
        unchecked = sum(one.unchecked for one in found.pass_.judged.values())
        message = f"{ledgers} ledgers in limbo, {unchecked} unchecked on {', '.join(marked)}"
        return Verdict("True", _limbo_reason(found, marked), message)
    if silent := found.pass_.silent:
        return Verdict("Unknown", "BookiesNotBooted", f"not known of {', '.join(silent)}")
    return Verdict("False", "NoLimbo", "")


def _limbo_reason(found: Findings, marked: Sequence[str]) -> str:
    for incident in reversed(found.incidents):
        if incident.outcome is IncidentOutcome.OPEN and incident.bookie in marked:
            return incident.kind
    return "UncleanShutdown"


def _cookie_fix_pending(found: Findings) -> Verdict:
    waiting = found.in_states(BookieState.AWAITING_APPROVAL)
    if not waiting:
        return Verdict("False", "NonePending", "")
    for refusal in found.refusals:
        if refusal.action == "CookieFix":
            return Verdict("True", refusal.predicate, f"{refusal.bookie}: {refusal.message}")
    return Verdict("True", "Approved", ", ".join(waiting))


def _repair_running(found: Findings) -> Verdict:
    running = [
        f"{status.episode} attempt {status.attempt}"
        + (f": {status.progress}" if status.progress else "")
        + (f"; {status.message}" if status.message else "")
        for status in found.repairs.statuses.values()
        if status.state is RepairState.RUNNING
    ]
    if running:
        return Verdict("True", "JobStarted", ", ".join(running))
    return Verdict("False", "NoJob", "")


def _repair_stalled(found: Findings) -> Verdict:
    undecided = found.repairs.undecided
    messages = [in_words(undecided)] if undecided else []
    messages += [
        f"{bookie_id}: {status.attempt} attempts, {status.message or 'limbo is left'}"
        for bookie_id, status in found.repairs.statuses.items()
        if bookie_id in found.repairs.stalled and status.undecided not in undecided
    ]
    if undecided:  # no further attempt would find more than the last one
        return Verdict("True", "Undecidable", "; ".join(messages))
    if not messages:
        return Verdict("False", "NotStalled", "")
    return Verdict("True", "AttemptsExhausted", "; ".join(messages))


def _durability_verified(found: Findings) -> Verdict:
    audit = found.audit
    if found.pass_.marks:
        return Verdict("False", "LimboPresent", "not every entry's copies are known")
    if silent := found.pass_.silent:
        return Verdict("Unknown", "BookiesNotBooted", f"not known of {', '.join(silent)}")
    if (other := lineage_refusal(found.pass_)) is not None:
        return Verdict("Unknown", other.predicate, other.message)
    if audit.finished_at is None or not is_younger(audit, disturbed_at(found.incidents, audit)):
        reason = "AuditRunning" if audit.running else "AuditPending"
        return Verdict(
            "Unknown", reason, audit.message or "no audit has finished since a bookie was away"
        )
    message = f"audit of {audit.finished_at:%Y-%m-%dT%H:%M:%SZ}: {findings_text(audit)}"
    if not audit.clean:
        return Verdict("False", "AuditFindings", message)
    if is_stale(found.pass_, audit.finished_at):
        return Verdict("False", "AuditStale", message)
    return Verdict("True", "AuditClean", f"{message}; {verified_text(found.scrub)}")


def _scale_down_blocked(found: Findings) -> Verdict:
    blocked = [refusal for refusal in found.refusals if refusal.action == SCALE_DOWN]
    if blocked:
        return Verdict("True", blocked[0].predicate, blocked[0].message)
    if found.drain is not None:
        return Verdict("False", "Draining", drain_text(found.drain))
    return Verdict("False", "NotWanted", "")


def _mixed_durability(found: Findings) -> Verdict:
    """The verdict of MixedDurability, by the modes that the bookies themselves report."""
    spec = found.pass_.spec
    wanted = "journal" if spec.journal_write_data else spec.ack.value
    others = {
        bookie_id: one.bookie.health.boot.mode
        for bookie_id, one in found.pass_.judged.items()
        if one.bookie.health is not None
        and one.bookie.health.boot is not None
        and one.bookie.health.boot.mode != wanted
        and bookie_id in spec.bookie_ids
    }
    if not others:
        return Verdict("False", "AsWanted", "")
    named = ", ".join(f"{bookie_id} ({mode})" for bookie_id, mode in others.items())
    return Verdict("True", "JournalModeFlip", f"wanted is {wanted}; not yet so: {named}")


def _paused(found: Findings) -> Verdict:
    if found.pass_.spec.paused:
        return Verdict("True", "BySpec", "spec.paused is true: nothing is changed, only observed")
    return Verdict("False", "NotPaused", "")
