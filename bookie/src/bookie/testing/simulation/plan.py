"""What one seed means: a cluster, a load, a weather, and a list of faults. Values only.

A plan is drawn whole before anything runs (`plan_choice`), so that it can be printed, shortened
(`shrink`) and run again.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from bookie.errors import BadRequestError

LOAD_S: Final = 12.0
"""Load and faults last so long, unless the plan says otherwise; then everything is healed."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The cluster and its load."""

    bookies: int = 4
    ledger_dirs: int = 1
    mode: str = "memory"
    ensemble: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2
    writers: int = 1
    logs: int = 0
    """Owners competing for one replicated log, in place of plain writers."""
    readers: int = 1
    recoverers: int = 0
    deletions: int = 0
    entries: int = 60
    """Entries in a ledger before its writer begins another one."""
    pause_s: float = 0.1
    between_s: float = 1.0
    """Pause between two ledgers of a writer, at most."""
    burst: int = 4
    flush_s: float = 2.0
    note_idle_flushes: int | None = 1
    """After how many idle checkpoints a bookie takes a note back; None: it keeps no notes."""
    latency_s: float = 0.0005
    repair_s: float = 1.0
    """Between two looks of the repairer."""
    work_s: float = 0.001
    """What a piece of blocking work takes, roughly."""
    load_s: float = LOAD_S
    lease_s: float = 12.0
    """How long a bookie may answer without a word of the metadata store."""
    pipeline: int = 2
    """Batches of a writer under way before it gathers more into each."""
    truncates: bool = False
    """Owners give up the beginning of their log now and then."""
    collect_s: float = 5.0
    """Between two looks for ledgers that were deleted; the grace is a little less."""
    patience_s: float = 2.0
    """How long a writer waits after a refusal."""
    askers: int = 0
    """Clients that ask single replicas for what they have."""
    followers: int = 0
    """Readers of the log."""
    owner_patience_s: float = 2.0
    """How long who has lost the log waits before it takes it over again, about."""
    recover_s: float = 12.0
    """How long a recoverer waits between two ledgers, at most."""
    writes_again: int = 0
    """Entries that somebody writes when all is healed."""
    payload_bytes: int = 0
    """Minimum bytes of an entry."""
    mends_every: int = 0
    """One in this many passes of the repairer repairs every ledger, marked or not; 0: none does."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong. `who`, `other`: numbers of bookies or clients; `size`: 0..1.

    `aim`: whom it means when its time has come, `who` then chooses among these: "member" or "spare"
    of the ledger whose writer rests (or of one that is written), "newcomer": who took a copy from a
    recovery that has not named it yet. Empty: any bookie.
    """

    at_s: float
    kind: str
    who: int = 0
    other: int = 0
    lasts_s: float = 0.0
    size: float = 0.0
    aim: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """`keeps_budget`: faults that make bookies forget wait until no more than f have forgotten."""

    seed: int
    scale: Scale = Scale()
    faults: tuple[Fault, ...] = ()
    keeps_budget: bool = True

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        found = json.loads(text)
        if unknown := set(found) - {one.name for one in fields(cls)}:
            raise BadRequestError(f"a plan has no {', '.join(sorted(unknown))}")
        return cls(
            found["seed"],
            Scale(**found["scale"]),
            tuple(Fault(**one) for one in found["faults"]),
            found["keeps_budget"],
        )

    def without(self, *places: int) -> "Plan":
        """The same with fewer faults."""
        kept = tuple(f for place, f in enumerate(self.faults) if place not in places)
        return replace(self, faults=kept)


FORGETTING: Final = frozenset(
    {
        "power-cut", "kill", "replace-disk", "disk-error", "crash-operation", "crash-point",
        "other-mode", "gone", "put-back", "twin", "crash-boot", "stop-boot", "cut-stop",
        "cut-answer", "cut-checkpoint", "wipe-boot", "marker-lost", "disk-hiccup",
    }
)  # fmt: skip
"""Faults after which a bookie may lack what it acknowledged."""
CRASHES: Final = frozenset(
    {
        "power-cut", "kill", "crash-operation", "crash-point", "other-mode", "crash-boot",
        "stop-boot", "cut-stop", "cut-answer", "cut-checkpoint",
    }
)  # fmt: skip
"""Faults that destroy nothing that the mode has synced."""
LASTING: Final = frozenset({"bit-flip", "bit-rot", "lying-sync", "forge"})
"""Faults that no repair undoes: each uses up one of the budget permanently."""


def described(faults: Sequence[Fault]) -> list[dict[str, Any]]:
    """The faults as dictionaries, for people."""
    return [asdict(fault) for fault in faults]
