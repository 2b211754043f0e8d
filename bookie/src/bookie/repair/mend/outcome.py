"""What the repair of one ledger did: a flat row, the same in process and as a Spark column set."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from bookie.ids import LedgerId
from bookie.repair.judge.counts import COUNT_NAMES, AuditCounts


@dataclass(frozen=True, slots=True)
class LedgerTask:
    """One ledger to repair; `limbo`: some bookie holds it in limbo, so it has to be recovered."""

    ledger_id: LedgerId
    limbo: bool = False


@dataclass(frozen=True, slots=True)
class LedgerOutcome:
    """The repair of one ledger, up to but not including flush, loss records and clearing.

    `state_before`: OPEN, IN_RECOVERY, CLOSED, DELETED or UNREADABLE (its metadata). `reason`: ""
    when nothing is in the way, else Undecidable, RecoveryFailed, MetadataUnavailable,
    MetadataUnreadable, CopyIncomplete or CorruptKept, with `message`. `version`: of the metadata it
    was judged by. `possible_loss_from`: the entry that could not be decided, -1 = none.
    `waiting_for`: members whose answer is awaited. `corrupt_found`, `corrupt_replaced`: copies that
    a deep look found to be corrupt, and those of them that are good now. `touched`: bookies that
    were written to and must sync. `before`: the audit after recovery and before copying.
    """

    ledger_id: int
    state_before: str
    recovered: bool = False
    entries_recovered: int = 0
    entries_copied: int = 0
    bytes_copied: int = 0
    corrupt_copies: int = 0
    corrupt_found: int = 0
    corrupt_replaced: int = 0
    reason: str = ""
    message: str = ""
    version: int = -1
    possible_loss_from: int = -1
    waiting_for: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    before: AuditCounts = field(default_factory=AuditCounts)

    def row(self) -> dict[str, Any]:
        """Plain values by column name, the counts as `before_...`."""
        row = {name: getattr(self, name) for name in FIELD_NAMES if name != "before"}
        row["waiting_for"], row["touched"] = list(self.waiting_for), list(self.touched)
        counted = zip(COUNT_NAMES, self.before.row(), strict=True)
        return row | {f"before_{name}": count for name, count in counted}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "LedgerOutcome":
        """The inverse of `row`."""
        plain = {name: row[name] for name in FIELD_NAMES if name != "before"}
        plain["waiting_for"], plain["touched"] = tuple(row["waiting_for"]), tuple(row["touched"])
        return cls(**plain, before=AuditCounts(*(row[f"before_{name}"] for name in COUNT_NAMES)))


FIELD_NAMES: Final = tuple(column.name for column in fields(LedgerOutcome))


Done = Callable[[Sequence[LedgerOutcome]], None]
"""Told of ledgers that are done, in any order, each once; in one thread at a time."""
