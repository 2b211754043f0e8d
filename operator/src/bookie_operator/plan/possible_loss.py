"""Whether acknowledged entries may be gone: what was seen, what is on record, what was accepted.

The condition stays until a later audit is clean. A recorded loss stays as long as a bookie has the
record. A loss that a person has accepted does not hide other losses.
"""

from collections.abc import Sequence
from typing import Final

from bookie_operator.model.audit_status import AuditStatus
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.incidents import Incident, IncidentOutcome
from bookie_operator.observed import Observed
from bookie_operator.plan.audits import disturbed_at, is_younger
from bookie_operator.plan.disks import pending_fix
from bookie_operator.plan.findings import Verdict
from bookie_operator.plan.losses import losses_accepted
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.states import losses_recorded

LOSS_ACCEPTED: Final = "LossAccepted"
AUDIT_MISSING: Final = "AuditMissing"
NAMED_MAX: Final = 10
"""Ledgers that a message names; the rest is counted."""


def possible_data_loss(pass_: Pass, *, incidents: Sequence[Incident], certain: int) -> Verdict:
    """Whether acknowledged entries may be gone, of which `certain` copies were made at the least.

    Only a clean audit ends the condition. A recorded loss stays with its record, and a loss that a
    person has accepted does not hide other losses.
    """
    known = _known_loss(pass_)
    if known is not None and known.reason != LOSS_ACCEPTED:
        return known
    overlap = _overlap(pass_, incidents=incidents, quorum=certain)
    return overlap or _still_missing(pass_) or known or Verdict("False", "NothingFound", "")


def is_undecided(loss: Verdict) -> bool:
    """Whether a loss is possible that no person has accepted: then no bookie may be disturbed."""
    return loss.status == "True" and loss.reason != LOSS_ACCEPTED


def _overlap(pass_: Pass, *, incidents: Sequence[Incident], quorum: int) -> Verdict | None:
    """The verdict if an ack quorum of bookies or more forgot entries at once, until a clean
    audit."""
    audit = pass_.previous.audit
    overlapping = sorted(
        {
            incident.bookie
            for incident in incidents
            if incident.outcome is IncidentOutcome.OPEN
            and incident.cleared_at is None
            and (incident.ledgers_in_limbo or incident.ledgers_unchecked)
        }
        # A disk is known to be gone before the boot that found it has ended.
        | {bookie_id for bookie_id, one in pass_.judged.items() if pending_fix(one) is not None}
    )
    if len(overlapping) >= quorum:
        names = ", ".join(overlapping)
        why = f"{names} lost memory or disks at once; the ack quorum is {quorum}"
        return Verdict("True", "OverlappingUnclean", why)
    before = pass_.previous.condition(ConditionType.POSSIBLE_DATA_LOSS)
    if before is not None and before.status == "True" and before.reason == "OverlappingUnclean":
        settled = not overlapping and audit.clean is True
        if not (settled and is_younger(audit, disturbed_at(incidents, audit))):
            return Verdict("True", "OverlappingUnclean", before.message)
    return None


def _known_loss(pass_: Pass) -> Verdict | None:
    """A loss that is on record, by the bookies' word, the last audit's or a person's."""
    audit = pass_.previous.audit
    recorded = sorted(
        bookie_id
        for bookie_id, one in pass_.judged.items()
        if losses_recorded(one, pass_.previous.bookie(bookie_id)) > 0
    )
    records = f"{', '.join(recorded)} hold records of lost entries" if recorded else ""
    accepted = _accepted(pass_.observed, audit)
    # A person's word explains the records on bookies, unless an audit found more than that.
    if accepted and not (audit.no_copy or audit.lost):
        return Verdict("True", LOSS_ACCEPTED, f"{accepted}; {records}" if records else accepted)
    if recorded:
        return Verdict("True", "LossRecorded", records)
    if audit.no_copy or audit.lost:
        why = f"the last audit found {audit.no_copy + audit.lost} entries with no copy left"
        return Verdict("True", AUDIT_MISSING, why)
    return None


def _still_missing(pass_: Pass) -> Verdict | None:
    """What an audit found and the last one could not look at: that one does not end it."""
    before = pass_.previous.condition(ConditionType.POSSIBLE_DATA_LOSS)
    if before is None or (before.status, before.reason) != ("True", AUDIT_MISSING):
        return None
    return Verdict("True", AUDIT_MISSING, before.message) if _is_blind(pass_) else None


def _is_blind(pass_: Pass) -> bool:
    """Whether the last audit may have passed over entries without a copy. One that lacks some of
    its copies counts as missing, though the last one may be on a bookie that did not answer."""
    audit = pass_.previous.audit
    if audit.clean:
        return False
    copies = audit.last_copies
    if copies is None or not (copies.is_complete and audit.knows_all):
        return True
    return any(one.perhaps for one in copies.held_by)


def _accepted(observed: Observed, audit: AuditStatus) -> str:
    """The sentence about accepted losses: it names ledgers while their jobs exist, later only
    counts."""
    named = losses_accepted(observed.jobs)
    if not named and not audit.accepted_losses:
        return ""
    ids = ", ".join(map(str, named[:NAMED_MAX]))
    count = max(len(named), audit.accepted_losses)
    which = f" ({ids}{', ...' if count > len(named[:NAMED_MAX]) else ''})" if named else ""
    noun = "ledger was" if count == 1 else "ledgers were"
    return f"{count} {noun} closed by a person who accepted a possible loss{which}"
