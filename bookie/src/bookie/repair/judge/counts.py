"""Entries counted by class: what an audit sums up over ledgers, and a repair before it copies."""

from dataclasses import dataclass
from typing import Final

from bookie.repair.judge.expect import Verdict


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """Entries by class, see `expect.Verdict`; each entry counts once, however many copies."""

    ledgers: int = 0
    entries: int = 0
    ok: int = 0
    missing: int = 0
    unknown: int = 0
    lost: int = 0
    below_write_quorum: int = 0
    below_ack_quorum: int = 0
    no_copy: int = 0
    corrupt: int = 0

    def __add__(self, other: "AuditCounts") -> "AuditCounts":
        return AuditCounts(*(a + b for a, b in zip(self.row(), other.row(), strict=True)))

    def row(self) -> tuple[int, ...]:
        return tuple(getattr(self, name) for name in COUNT_NAMES)

    @property
    def is_clean(self) -> bool:
        return self.ok == self.entries


COUNT_NAMES: Final = tuple(AuditCounts.__dataclass_fields__)


def counts_of(verdict: Verdict) -> AuditCounts:
    """The counts of one ledger."""
    return AuditCounts(
        ledgers=1,
        entries=verdict.entries,
        ok=verdict.entries - sum(map(len, (verdict.missing, verdict.unknown, verdict.lost))),
        missing=len(verdict.missing),
        unknown=len(verdict.unknown),
        lost=len(verdict.lost),
        below_write_quorum=len(verdict.below_write_quorum),
        below_ack_quorum=len(verdict.below_ack_quorum),
        no_copy=len(verdict.no_copy),
        corrupt=len(verdict.corrupt),
    )
