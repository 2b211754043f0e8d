"""What a bookie says of itself: its phase, its boot, its disks, and what waits for a person.

A client of the control plane turns messages into these values. The bookie has types of its own
(`server.state.Phase`, `boot.boot.BootRecord`): the two sides may be of different versions, so what
one side adds must not change what the other understands.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from bookie.wire.identity import Identity

UNKNOWN: Final = Identity("", "")


class Phase(StrEnum):
    """Phase of a bookie's life, as its control plane names it."""

    BOOTING = "Booting"
    MARKING = "Marking"
    AWAITING_APPROVAL = "AwaitingApproval"
    SERVING = "Serving"
    READ_ONLY = "ReadOnly"
    DRAINING = "Draining"
    STOPPING = "Stopping"
    REFUSED = "Refused"
    UNKNOWN = "Unknown"
    """A phase that only another version of the bookie has: nothing may be concluded from it."""

    @property
    def is_booted(self) -> bool:
        """Marks and stamps of this boot are on disk, so the counts of ledgers in limbo can be
        trusted.
        """
        return self in (Phase.SERVING, Phase.READ_ONLY, Phase.DRAINING)


@dataclass(frozen=True, slots=True)
class BootRecord:
    """What a bookie durably recorded about its boot, and about how it was stopped before."""

    epoch: int
    clean: bool
    """True when the stop before this boot had flushed everything."""
    reason: str
    """Why the stop was not clean, or CleanStop or FirstBoot; the proto lists the reasons."""
    started_at: datetime
    mode: str
    """Durability mode of this boot: journal, memory or sync."""
    previous_mode: str = ""
    """Durability mode that the marker of the boot before names; empty = there was no marker."""
    ledgers_fenced: int = 0
    ledgers_in_limbo: int = 0
    """Ledgers that this boot put into limbo."""
    ledgers_unchecked: int = 0
    cookie_fixed: bool = False


@dataclass(frozen=True, slots=True)
class DiskHealth:
    """One disk of a bookie."""

    role: str
    """What the disk is for: journal or ledger."""
    index: int
    """Position of the disk among the disks of its role."""
    disk_id: str
    """The random id in the stamp on the disk."""
    verdict: str
    """What the boot found: ok, new, empty, stale, foreign, swapped, reshaped or torn."""
    volume_uid: str
    """Id of the volume, as the platform gave it to the bookie."""
    total_bytes: int = 0
    """0 = the file system did not answer."""
    free_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CookieFix:
    """A change of cookies for replaced disks, which waits for approval."""

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
    """Who decided: a name that a certificate proved, or a name that somebody wrote; empty = not
    known."""
    about: str


@dataclass(frozen=True, slots=True)
class Health:
    """What a bookie answers when it is asked how it is."""

    phase: Phase
    boot: BootRecord | None
    """None while the bookie has not booted."""
    message: str = ""
    disks: tuple[DiskHealth, ...] = ()
    limbo_ledgers: int = 0
    unchecked_ledgers: int = 0
    losses_recorded: int = 0
    """Number of ledgers with a durable loss record."""
    instance_id: str = ""
    """Instance id of the cluster, from its metadata store; empty = not known yet."""
    cookie_fix: CookieFix | None = None
    """Set while a cookie fix awaits approval."""
    draining: bool = False
    """True when the bookie takes no new entries because it is to leave the cluster."""
    ledgers_naming_it: int | None = None
    """Number of ledgers whose metadata names the bookie, which it counts while it drains; None =
    not counted."""
    metadata_rolled_back: str = ""
    """What shows the bookie that the metadata store was put back to an earlier state; empty =
    nothing does."""
    collection_held: str = ""
    """Why the garbage collection of deleted ledgers waits for a person; empty = it does not
    wait."""
    version: str = ""
    """Version of the program that runs there; empty = it does not say."""
    collection_plan_id: str = ""
    """The id that an approval of the held collection must name."""
    decisions: tuple[PersonDecision, ...] = ()
    """The latest decisions of people, oldest first."""
    answered_by: Identity = UNKNOWN
    """Process that made this answer; an approval of something that it shows is meant for that
    process only."""
    is_fresh: bool = True
    """True when the answer was given just now; False: it is an earlier one, shown again because the
    bookie gave none."""
