"""What the status says of moving ledgers: off a bookie that leaves, and after a re-replication."""

from enum import StrEnum

from pydantic import AwareDatetime

from bookie_operator.model.attempt_status import AttemptStatus, EngineUse
from bookie_operator.model.base import Count, LongText, ShortText


class RereplicationStatus(AttemptStatus, EngineUse):
    """The last finished re-replication, and one that runs or failed since."""

    bookie: ShortText = ""
    """The lost bookie that was replaced in its ledgers; empty = only marked ledgers were
    restored."""
    ledgers_moved: Count = 0
    """Number of ledgers in which the bookie was replaced."""
    ledgers_left: Count = 0
    """Number of ledgers that still name the bookie."""
    blocked: Count = 0
    """Number of ledgers that could not be finished."""
    marks_found: Count = 0
    """Number of ledgers that it found marked as under-replicated by BookKeeper."""
    marks_cleared: Count = 0
    """How many of these marks it deleted because the ledger had all copies."""
    entries_copied: Count = 0
    """Number of copies that it made."""


class DrainPhase(StrEnum):
    HELD = "Held"
    """Wanted but refused now: status.blocked says why."""
    DRAINING = "Draining"
    EMPTIED = "Emptied"
    """No ledger names it; or it stays away and other bookies hold its entries. The operator checks
    this once more before it removes the bookie."""
    REMOVING = "Removing"


class DrainStatus(EngineUse):
    """The bookie that leaves next, because fewer are wanted or its number is excluded."""

    bookie: ShortText
    """Id of the bookie that leaves."""
    phase: DrainPhase
    """`Held`, `Draining`, `Emptied` or `Removing`."""
    started_at: AwareDatetime
    """When it was first to leave."""
    ledgers_left: Count | None = None
    """Number of ledgers that name it, as the bookie counts them; absent = not counted."""
    is_running: bool = False
    """Whether a job moves its ledgers now."""
    progress: ShortText = ""
    """How far that job is, as it reports."""
    attempt: Count = 0
    """Number of the last job that moved its ledgers."""
    failures: Count = 0
    """Number of jobs in a row that moved nothing."""
    next_attempt_at: AwareDatetime | None = None
    """The next job begins no earlier than this."""
    instance: ShortText = ""
    """Identifies the process that is being removed; empty = there is none."""
    ledgers_moved: Count = 0
    """Number of ledgers that all its jobs together have moved."""
    entries_copied: Count = 0
    """Number of copies that all its jobs together have made."""
    message: LongText = ""
    """Why it cannot leave yet, or the message of the last job."""
    racks: LongText = ""
    """Warning that once it has left, copies of new ledgers are in fewer racks than
    `audit.minRacks`; empty = they are not, or not every bookie's rack is known."""

    @property
    def is_removing(self) -> bool:
        return self.phase is DrainPhase.REMOVING
