"""What the work on one ledger did: one shape for repairs and moves, in process and in Spark."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields

from bookie.ids import BookieId, LedgerId
from bookie.protocol.clearing import is_left_to_writer
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.repair.judge.counts import AuditCounts
from bookie.repair.mend.copy import Copied


@dataclass(frozen=True, slots=True)
class LedgerTask:
    """One ledger to repair."""

    ledger_id: LedgerId
    limbo_on: tuple[BookieId, ...] = ()
    """Bookies that hold it in limbo. While it is OPEN and its last fragment names one of them, only
    a recovery ends that."""
    unchecked_on: tuple[BookieId, ...] = ()
    """Bookies where it is unchecked: they may have forgotten entries of earlier fragments."""

    def needs_recovery(self, metadata: LedgerMetadata) -> bool:
        """True when only a recovery ends what is undecided: one that was begun and left, or one of
        a ledger that is still written to a bookie which holds it in limbo.
        """
        return metadata.state is LedgerState.IN_RECOVERY or self.is_written(metadata)

    def is_written(self, metadata: LedgerMetadata) -> bool:
        """True when the ledger is OPEN and a writer would send its next entry to a bookie that
        holds it in limbo.
        """
        is_open = metadata.state is LedgerState.OPEN
        is_in_limbo = bool(self.limbo_on)
        return is_open and is_in_limbo and not is_left_to_writer(metadata, *self.limbo_on)


@dataclass(slots=True)
class Outcome:
    """What the work on `ledger_id` did, before flush, loss records and clearing of marks."""

    ledger_id: LedgerId
    state_before: str = ""
    """OPEN, IN_RECOVERY, CLOSED, DELETED or UNREADABLE (its metadata); "" = not looked at yet."""
    moved: bool = False
    """Whether this run replaced the leaving bookie in it."""
    recovered: bool = False
    """Whether this run fenced, recovered and closed it."""
    entries_recovered: int = 0
    """Entries that the recovery wrote back."""
    entries_copied: int = 0
    """Entries copied to bookies that lacked them, counted once for each such bookie."""
    bytes_copied: int = 0
    """Bytes of these entries, without the headers of frames."""
    corrupt_copies: int = 0
    """Copies that were read as a source, and whose digest is wrong."""
    corrupt_found: int = 0
    """Copies that a deep look found to be corrupt."""
    corrupt_replaced: int = 0
    """How many of `corrupt_found` were replaced by good copies."""
    reason: str = ""
    """Why it is blocked, as in `blocked` of the result object; "" = it is not."""
    message: str = ""
    """Says the reason as a sentence for people; "" without a reason."""
    version: int = -1
    """Version of the metadata by which it was judged; -1 = it was not judged."""
    possible_loss_from: int = -1
    """The entry that its recovery could not decide; -1 = none (S33)."""
    last_add_confirmed: int = -1
    """With `possible_loss_from`: entries to this id were acknowledged for certain; -1 =
    none is known to be."""
    forgotten_by: tuple[str, ...] = ()
    """Members that have searched and may have forgotten that entry, in order."""
    away: tuple[str, ...] = ()
    """Members that could not be asked, or could not read what they have: the next attempt may learn
    more of them. In order."""
    touched: tuple[str, ...] = ()
    """Bookies that were written to and must sync, in order."""
    before: AuditCounts = field(default_factory=AuditCounts)
    """Its entries by class, after recovery and before copying."""

    def block(self, reason: str, message: str) -> None:
        """Set why it is blocked; only the first reason is kept."""
        if not self.reason:
            self.reason, self.message = reason, message
        self._check()

    def add_copied(self, target: BookieId, copied: Copied) -> None:
        """Count what `target` got; what it did not get is in the way."""
        self.entries_copied += len(copied.entries)
        self.bytes_copied += copied.bytes_copied
        self.corrupt_copies += len(copied.corrupt)
        if copied.entries:
            self.touched = tuple(sorted({*self.touched, target}))
        if copied.left:
            said = f"{len(copied.left)} entries could not be copied to {target}: {copied.why}"
            self.block("CopyIncomplete", said)

    def take(self, found: "Outcome") -> None:
        """Become what came of the same ledger elsewhere."""
        assert found.ledger_id == self.ledger_id
        for column in fields(Outcome):
            setattr(self, column.name, getattr(found, column.name))
        self._check()

    def _check(self) -> None:
        assert self.reason or not self.message
        assert not (self.forgotten_by or self.away or self.possible_loss_from >= 0) or self.reason
        assert 0 <= self.corrupt_replaced <= self.corrupt_found
        assert list(self.touched) == sorted(set(self.touched))
        assert self.last_add_confirmed < max(self.possible_loss_from, 0)
        assert min(self.possible_loss_from, self.last_add_confirmed, self.version) >= -1


Done = Callable[[Sequence[Outcome]], None]
"""Called with ledgers that are done, in any order, each once; in one thread at a time."""
