"""Incidents in the status: unclean stops and changed disks, until no ledger is in limbo."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import AwareDatetime, Field

from bookie_operator.model.attempt_status import EngineUse
from bookie_operator.model.base import Count, LongText, ShortText

INCIDENTS_MAX: Final = 50
"""Closed incidents that are kept; open ones are always kept."""


class IncidentOutcome(StrEnum):
    OPEN = "Open"
    CLEARED = "Cleared"
    SUPERSEDED = "Superseded"
    """The bookie stopped uncleanly again; a later incident covers what was left."""


class Incident(EngineUse):
    """An unclean stop or a changed disk, from its detection until no ledger is in limbo any
    more."""

    kind: ShortText
    """What happened: UncleanShutdown, DiskReplaced, DiskWiped, DiskStale, TornLog,
    MarkingInterrupted, ..."""
    bookie: ShortText
    """Id of the bookie that it happened to."""
    boot_epoch_before: Count = 0
    """Number of the last boot before it; 0 = not known."""
    boot_epoch_after: Count = 0
    """Number of the boot that found it."""
    cause: ShortText = ""
    """The cause that the platform saw: OOMKilled, Signal, ExitCode, PodReplaced, NodeRestarted or
    NodeChanged; empty = none. Whether the stop was unclean is decided by the bookie, not by
    this."""
    cause_message: LongText = ""
    """The cause, in the platform's words."""
    outcome: IncidentOutcome = IncidentOutcome.OPEN
    """`Open`, `Cleared` (no ledger is in limbo any more) or `Superseded` (a later incident of the
    bookie covers what was left)."""
    ledgers_fenced: Count = 0
    """Number of ledgers that the boot fenced forever, as more had happened than a stop: it refuses
    their old writers' adds."""
    ledgers_in_limbo: Count = 0
    """Number of ledgers that the boot put into limbo."""
    ledgers_unchecked: Count = 0
    """Number of ledgers that the boot marked as unchecked."""
    stopped_at: AwareDatetime | None = None
    """When the process ended, if the platform saw it."""
    detected_at: AwareDatetime
    """When the operator learned of it."""
    cleared_at: AwareDatetime | None = None
    """When no ledger was in limbo any more; absent while the incident is open."""
    seconds_to_detect: float | None = None
    """Seconds from the stop to the detection; if the stop is not known, from the start of the boot
    that found it."""
    seconds_to_clear: float | None = None
    """Seconds from the detection until it was cleared; absent while it is open."""
    entries_recovered: Count = 0
    """Number of entries that recoveries wrote back before they closed the ledgers."""
    entries_copied: Count = 0
    """Number of entries that repairs copied to bookies that lacked them, in closed ledgers."""
    entries_copied_closed: Count = 0
    """How many of these were in ledgers that were closed before the repair."""
    ledgers_recovered: Count = 0
    """Number of ledgers that repairs recovered and closed."""
    attempts: Count = 0
    """Number of repair jobs that were needed."""
    counted_jobs: Annotated[tuple[ShortText, ...], Field(max_length=100)] = ()
    """Names of the repair jobs whose entries are in the sums above."""

    @property
    def entries_brought_back(self) -> int:
        """What recoveries wrote back and repairs copied."""
        return self.entries_recovered + self.entries_copied

    @property
    def marks(self) -> str:
        """What the boot did to the ledgers of its bookie, as people read it: `7 ledgers fenced, 2
        in limbo, 5 unchecked`. A plain unclean stop fences none, which goes without saying."""
        fenced, limbo = self.ledgers_fenced, self.ledgers_in_limbo
        marks = [(fenced, "fenced")] if fenced else []
        marks += [(limbo, "in limbo"), (self.ledgers_unchecked, "unchecked")]
        (number, mark), *others = marks
        ledgers = "ledger" if number == 1 else "ledgers"
        return ", ".join([f"{number} {ledgers} {mark}", *(f"{n} {other}" for n, other in others)])
