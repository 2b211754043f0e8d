"""What audits found about copies: how many are certain, and which bookies may hold last copies.

The spec names an ack quorum, ledgers have their own, and some copies are known to be missing. If an
audit has findings but does not say which bookies hold the remaining copies, every bookie may hold
one.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from bookie.ids import BookieId

from bookie_operator.model.audit_status import AuditStatus, Holders, LastCopies, ScrubStatus
from bookie_operator.model.cluster import ClusterSpec

NAMED_MAX: Final = 5
"""Ledgers that a message names."""
ASKED_AT_LEAST: Final = 2
"""Copies of closed ledgers that an audit looks after whatever it is asked for."""


@dataclass(frozen=True, slots=True)
class Copies:
    """`certain`: number of copies that every acknowledged entry has, except those in `last`.
    `reason`, `message`: why this number. `last`: entries with fewer, by the bookies that hold them.
    `nobody_knows`: why any bookie may hold a last copy; empty = only those in `last`.
    """

    certain: int
    reason: str
    message: str
    last: tuple[Holders, ...] = ()
    nobody_knows: str = ""

    def taken_with(self, candidate: BookieId, out: Collection[BookieId]) -> str:
        """What would have no known copy on a bookie that serves, were `candidate` out as well.

        In words; empty = nothing. Of copies that nobody could ask about each may be the last.
        """
        away = {*out, candidate}
        mine = [
            held
            for held in self.last
            if candidate in (*held.known, *held.perhaps) and away.issuperset(held.known)
        ]
        if mine:
            entries = sum(held.entries for held in mine)
            return f"{candidate} may hold the last known copies of {entries} entries ({_of(mine)})"
        return self.nobody_knows


def copies_of(spec: ClusterSpec, audit: AuditStatus, scrub: ScrubStatus) -> Copies:
    """Certain and last copies, by the last finished audit, and the last scrub if it left corrupt
    ones."""
    certain, reason, message = _certain(spec, audit)
    is_wrong = bool(audit.missing or audit.below_ack_quorum or not audit.knows_all)
    reports = [(audit.last_copies, is_wrong)]
    if scrub.corrupt_left:  # no audit by indexes would see them
        reports.append((scrub.last_copies, True))
    return Copies(
        certain,
        reason,
        message,
        last=tuple(held for found, _ in reports if found is not None for held in found.held_by),
        nobody_knows=next((words for part in reports if (words := _unknown(*part))), ""),
    )


def _certain(spec: ClusterSpec, audit: AuditStatus) -> tuple[int, str, str]:
    wanted, found = spec.quorum.ack, audit.quorums
    if audit.finished_at is None or found is None:
        message = f"ack quorum {wanted} of the spec; no audit has read the ledgers' own yet"
        return wanted, "NotAudited", message
    lowest = max(1, found.copies_lowest) if found.copies_lowest is not None else wanted
    asked = found.ack_asked or ASKED_AT_LEAST
    if lowest < min(wanted, asked):
        which = _named(found.ledgers_lowest)
        message = f"{_certain_copies(lowest)} in ledgers {which}, not {wanted}"
        return lowest, "LowerQuorum", message
    if asked < wanted:
        message = f"the last audit looked after ack quorum {asked}, the spec has {wanted} by now"
        return asked, "OlderAudit", message
    return wanted, "AckQuorum", _certain_copies(wanted)


def _certain_copies(count: int) -> str:
    copies, are = ("copy", "is") if count == 1 else ("copies", "are")
    return f"{count} {copies} of every entry {are} certain"


def _unknown(found: LastCopies | None, is_wrong: bool) -> str:
    """Why these findings do not say who holds what is left; empty = they do."""
    if found is None:
        return (
            "it is not known which bookies hold last copies: every bookie may" if is_wrong else ""
        )
    if found.is_complete:
        return ""
    known = f"{len(found.held_by)} of {found.groups} groups of holders"
    return f"of those who hold last copies only {known} are known: every bookie may"


def _of(held: Sequence[Holders]) -> str:
    ledgers = sorted({ledger for one in held for ledger in one.first_ledgers})
    is_cut = any(one.ledgers > len(one.first_ledgers) for one in held) or len(ledgers) > NAMED_MAX
    return f"ledgers {_named(ledgers)}" + (", ..." if is_cut else "")


def _named(ledgers: Sequence[int]) -> str:
    return ", ".join(map(str, ledgers[:NAMED_MAX]))
