"""What a bookie says of itself: its phase, its boot, its disks, and what waits for a person.

This is what a client of the control plane makes of the messages. The bookie keeps its own types
(`server.state.Phase`, `boot.boot.BootRecord`): the two ends may be of different versions, so what
one end adds must not change what the other understands.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from bookie.wire.identity import Identity

UNKNOWN: Final = Identity("", "")


class Phase(StrEnum):
    """Phase of a bookie's life, as its control plane says it."""

    BOOTING = "Booting"
    MARKING = "Marking"
    AWAITING_APPROVAL = "AwaitingApproval"
    SERVING = "Serving"
    READ_ONLY = "ReadOnly"
    DRAINING = "Draining"
    STOPPING = "Stopping"
    REFUSED = "Refused"
    UNKNOWN = "Unknown"
    """Of another version: nothing may be concluded from it."""

    @property
    def is_booted(self) -> bool:
        """Marks and stamps of this boot are on disk: its counts of limbo can be trusted."""
        return self in (Phase.SERVING, Phase.READ_ONLY, Phase.DRAINING)


@dataclass(frozen=True, slots=True)
class BootRecord:
    """Durable facts of a bookie's boot: the truth about how it was stopped before."""

    epoch: int
    clean: bool
    """The stop before it had flushed everything."""
    reason: str
    """Why it was not clean, or CleanStop or FirstBoot; the proto lists them."""
    started_at: datetime
    mode: str
    """journal, memory or sync: of this boot."""
    previous_mode: str = ""
    """As the marker of the boot before had it; empty = there was none."""
    ledgers_fenced: int = 0
    ledgers_in_limbo: int = 0
    """Put in limbo by this boot."""
    ledgers_unchecked: int = 0
    cookie_fixed: bool = False


@dataclass(frozen=True, slots=True)
class DiskHealth:
    """One disk of a bookie."""

    role: str
    """journal or ledger."""
    index: int
    """Its place among the disks of its role."""
    disk_id: str
    """The random id of its stamp."""
    verdict: str
    """ok, new, empty, stale, foreign, swapped, reshaped or torn."""
    volume_uid: str
    """As the platform handed it to the bookie."""
    total_bytes: int = 0
    """0 = the file system did not answer."""
    free_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CookieFix:
    """A cookie fix that waits for approval."""

    plan_id: str
    """What an approval must name."""
    disk_indexes: tuple[int, ...]
    description: str
    policy: str


@dataclass(frozen=True, slots=True)
class PersonDecision:
    """What a person decided about a bookie, as the bookie keeps it."""

    at_ms: int
    kind: str
    """CookieFixApproved, CollectionApproved, LossAccepted or LossRetracted."""
    by: str
    """Proved by a certificate, or what somebody wrote; empty = nobody said so."""
    about: str


@dataclass(frozen=True, slots=True)
class Health:
    """A bookie's own answer."""

    phase: Phase
    boot: BootRecord | None
    """None while it has not booted."""
    message: str = ""
    disks: tuple[DiskHealth, ...] = ()
    limbo_ledgers: int = 0
    unchecked_ledgers: int = 0
    losses_recorded: int = 0
    """Ledgers with a durable loss record."""
    instance_id: str = ""
    """Of the cluster in its metadata store; empty = not known yet."""
    cookie_fix: CookieFix | None = None
    """Set while it awaits approval."""
    draining: bool = False
    """It takes no new entries, since it is to leave."""
    ledgers_naming_it: int | None = None
    """Ledgers whose metadata names it, counted since it drains; None = not counted."""
    metadata_rolled_back: str = ""
    """What shows it that the metadata store was put back to an earlier state; empty = nothing."""
    collection_held: str = ""
    """Why its collection of deleted ledgers waits for a person; empty = it does not."""
    version: str = ""
    """Of the program that runs there; empty = it does not say."""
    collection_plan_id: str = ""
    """What an approval of that collection must name."""
    decisions: tuple[PersonDecision, ...] = ()
    """What people decided last, oldest first."""
    answered_by: Identity = UNKNOWN
    """Who made this answer; an approval of what it shows means that process alone."""
    is_fresh: bool = True
    """Given just now; False: an earlier answer, shown again for want of one."""
