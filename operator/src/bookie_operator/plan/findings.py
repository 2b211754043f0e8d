"""What the conditions are drawn from, and the questions that several of them ask of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from bookie.ids import BookieId

from bookie_operator.model.audit_status import AuditStatus, MendStatus, ScrubStatus
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.drain_status import DrainStatus, RereplicationStatus
from bookie_operator.model.incidents import Incident
from bookie_operator.observed import Failure
from bookie_operator.plan.actions import Refusal
from bookie_operator.plan.certificates import NO_CERTIFICATES, Certificates
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.repair import Repairs

NAMED_MAX: Final = 5
"""Ledgers and bookies that a message names."""


class Verdict(NamedTuple):
    """What a condition says, before it has a time."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything the conditions are drawn from."""

    pass_: Pass
    incidents: Sequence[Incident]
    repairs: Repairs
    audit: AuditStatus
    mend: MendStatus
    scrub: ScrubStatus
    rereplication: RereplicationStatus
    drain: DrainStatus | None
    refusals: Sequence[Refusal]
    loss: Verdict
    is_restarting: bool
    failures: Sequence[Failure] = ()
    """What could not be done, and is still wanted."""
    certificates: Certificates = NO_CERTIFICATES
    """What the pass makes of them; nothing without TLS."""

    def in_states(self, *states: BookieState) -> list[BookieId]:
        return [bookie_id for bookie_id, one in self.pass_.judged.items() if one.state in states]

    def refused(self, predicate: str) -> list[Refusal]:
        return [refusal for refusal in self.refusals if refusal.predicate == predicate]


def verified_text(scrub: ScrubStatus) -> str:
    """The sentence about the last scrub: audits do not read digests."""
    if scrub.finished_at is None:
        return "digests were never verified: no scrub has finished"
    when = f"{scrub.finished_at:%Y-%m-%dT%H:%M:%SZ}"
    if scrub.clean is False:
        return f"not all digests verified: the scrub of {when} left something"
    return f"digests verified by the scrub of {when}"


def scrub_text(scrub: ScrubStatus) -> str:
    return (
        f"the scrub of {scrub.entries} entries found {scrub.corrupt_found} corrupt copies; "
        f"{scrub.corrupt_left} of them are left, {scrub.blocked} ledgers were not finished"
        + (f": {scrub.message}" if scrub.message else "")
    )


def rereplication_text(done: RereplicationStatus) -> str:
    whose = done.bookie or "what marks name"
    return (
        f"the re-replication of {whose} left {done.ledgers_left} ledgers, {done.blocked} blocked "
        f"and {done.marks_found - done.marks_cleared} marks"
        + (f": {done.message}" if done.message else "")
    )


def findings_text(audit: AuditStatus) -> str:
    return (
        f"{audit.ledgers} ledgers, {audit.entries} entries: {audit.ok} ok, "
        f"{audit.missing} missing, {audit.unknown} unknown, "
        f"{audit.below_ack_quorum} below ack quorum, {audit.no_copy + audit.lost} with no copy left"
        + "".join(f"; {part}" for part in audit.not_seen)
        + _where(audit)
    )


def _where(audit: AuditStatus) -> str:
    """The first ledgers and bookies concerned; `bookie audit` lists all."""
    holders = audit.last_copies.held_by if audit.last_copies is not None else ()
    if audit.clean or not holders:
        return ""
    ledgers = sorted({ledger for one in holders for ledger in one.first_ledgers})
    names = sorted({name for one in holders for name in one.known})
    return (
        f"; first ledgers {_first(ledgers)}, copies known on {_first(names) or 'no bookie'}; "
        "all of them: `bookie audit`"
    )


def _first(items: Sequence[object]) -> str:
    """A few of them, and whether there are more."""
    more = ", ..." if len(items) > NAMED_MAX else ""
    return ", ".join(map(str, items[:NAMED_MAX])) + more


def mend_text(mend: MendStatus) -> str:
    """What becomes of the findings of an audit, behind what they are."""
    if mend.running:
        return "; a repair of them runs" + (f": {mend.progress}" if mend.progress else "")
    if mend.failures:
        return f"; {mend.message}"
    if not mend.rounds:
        return ""
    left = f", {mend.blocked} ledgers could not be repaired" if mend.blocked else ""
    why = f": {mend.message}" if mend.message else ""
    return f"; repaired {mend.rounds} times since an audit was clean{left}{why}"
