"""What happens to the cluster, drawn from a seed: two endless tracks of faults.

Losses make one bookie forget; they come one at a time, each repaired before the next. Nuisances
make somebody slow, silent or absent and forget nothing; they go on beside the losses. The plan is a
function of the seed; when a fault comes also depends on how long the repairs before it took.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """The values are the words of reports."""

    KILL = "SIGKILL"
    WIPE_LEDGER = "ledger disk wiped"
    WIPE_JOURNAL = "journal disk wiped"
    WIPE_ALL = "all disks wiped"
    DISK_FULL = "disk full"
    FREEZE = "SIGSTOP"
    CLEAN_STOP = "clean stop"
    METADATA_PAUSE = "ZooKeeper pause"
    METADATA_KILL = "ZooKeeper SIGKILL"
    CLIENT_KILL = "client SIGKILL"
    CLIENT_FREEZE = "client SIGSTOP"
    CUT_OFF = "bookie cut off from ZooKeeper"
    COPY_BESIDE = "copy started beside the living"
    COPY_AFTER_KILL = "copy started after SIGKILL"
    COPY_ASLEEP = "copy started beside the sleeping"
    COPY_CUT_OFF = "copy started beside the cut off"
    ROLLBACK = "folders put back to a copy"
    ADDRESS_AFTER_KILL = "address taken after SIGKILL"
    ADDRESS_AFTER_STOP = "address taken after a clean stop"


LOSSES: Final = {
    Kind.KILL: 8,
    Kind.WIPE_LEDGER: 3,
    Kind.WIPE_JOURNAL: 1,
    Kind.WIPE_ALL: 2,
    Kind.DISK_FULL: 2,
    Kind.COPY_BESIDE: 1,
    Kind.COPY_AFTER_KILL: 1,
    Kind.COPY_ASLEEP: 3,
    Kind.COPY_CUT_OFF: 3,
    Kind.ROLLBACK: 3,
    Kind.ADDRESS_AFTER_KILL: 3,
}
NUISANCES: Final = {
    Kind.FREEZE: 5,
    Kind.CLEAN_STOP: 2,
    Kind.METADATA_PAUSE: 2,
    Kind.METADATA_KILL: 1,
    Kind.CLIENT_KILL: 1,
    Kind.CLIENT_FREEZE: 2,
    Kind.CUT_OFF: 3,
    Kind.ADDRESS_AFTER_STOP: 2,
}
"""How often each is drawn, beside the others of its track."""
OF_CLIENTS: Final = (Kind.CLIENT_KILL, Kind.CLIENT_FREEZE)
OF_COPIES: Final = frozenset(
    {Kind.COPY_BESIDE, Kind.COPY_AFTER_KILL, Kind.COPY_ASLEEP, Kind.COPY_CUT_OFF}
)
"""A second process is started as the same bookie. They count as losses: should it win, it lacks
what came after the copy."""

LOSS_GAP_S: Final = (0.5, 5.0)
NUISANCE_GAP_S: Final = (2.0, 12.0)
FREEZE_S: Final = (1.0, 15.0)
"""Longer than a session with the metadata store at times: a bookie has to register anew, a writer
comes back to ledgers that were closed meanwhile."""
PAUSE_S: Final = (1.0, 12.0)
DOWN_S: Final = (0.0, 6.0)
FULL_S: Final = (4.0, 20.0)
CUT_OFF_S: Final = (1.0, 25.0)
"""Shorter and longer than the leases."""
TWIN_S: Final = (1.0, 40.0)
"""How long the first process sleeps or is cut off beside its successor, who needs a session, a
lease and a boot to take over: often it returns before, often after."""
TAKEN_S: Final = (4.0, 15.0)
LEASES_S: Final = (6.0, 15.0)
"""Of bookies, by turns: as short as a session with the metadata store, and far longer."""
AGAIN_S: Final = (0.0, 8.0)
LATE_SHARE: Final = 0.5
AGAIN_SHARE: Final = 0.3
"""Of the losses, so many are struck once more while they start or are being repaired."""
FREE_BYTES: Final = (0, 1 << 16, 1 << 20, 1 << 24)
"""What a filler leaves: from the very last byte to what the bookie itself sees coming."""
MODES: Final = {"memory": 8, "sync": 1, "journal": 1}
"""How bookies acknowledge."""
TOGGLE_SHARE: Final = 0.2
"""Of the restarts, so many come with a mode that is drawn anew."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `gap_s` lies before it; for `hold_s` the victim is down, frozen or full.

    `victim`: number of a bookie, or of a client. `disk`: which ledger disk. `again_s`: killed once
    more so long after its start. `mode`: what it is told to be from its next start on.
    `is_late`: a copy is made when the first process sleeps or is cut off already.
    """

    number: int
    kind: Kind
    victim: int
    gap_s: float
    hold_s: float
    disk: int = 0
    again_s: float | None = None
    free_bytes: int = 0
    mode: str | None = None
    is_late: bool = False

    def __str__(self) -> str:
        again = f", again after {self.again_s:.1f} s" if self.again_s is not None else ""
        mode = f", then {self.mode}" if self.mode else ""
        late = ", copied late" if self.kind in OF_COPIES and self.is_late else ""
        return f"{self.kind} of {self.victim} for {self.hold_s:.1f} s{late}{again}{mode}"


def draw_mode(rng: random.Random) -> str:
    """Mostly memory: that is what has to be proven."""
    return rng.choices(list(MODES), list(MODES.values()))[0]


def _toggle(rng: random.Random) -> str | None:
    return draw_mode(rng) if rng.random() < TOGGLE_SHARE else None


def losses(seed: int, *, bookies: int, kinds: frozenset[Kind]) -> Iterator[Fault]:
    """Faults that make their victim forget. `kinds`: what this machine can do."""
    rng = random.Random(f"losses {seed}")
    names = [kind for kind in LOSSES if kind in kinds]
    holds = {kind: TWIN_S for kind in OF_COPIES}
    holds |= {Kind.DISK_FULL: FULL_S, Kind.ADDRESS_AFTER_KILL: TAKEN_S}
    number = 0
    while True:
        kind = rng.choices(names, [LOSSES[name] for name in names])[0]
        yield Fault(
            number,
            kind,
            victim=rng.randrange(bookies),
            gap_s=rng.uniform(*LOSS_GAP_S),
            hold_s=rng.uniform(*holds.get(kind, DOWN_S)),
            disk=rng.randrange(2),
            again_s=rng.uniform(*AGAIN_S) if rng.random() < AGAIN_SHARE else None,
            free_bytes=rng.choice(FREE_BYTES),
            mode=_toggle(rng),
            is_late=rng.random() < LATE_SHARE,
        )
        number += 1


def nuisances(seed: int, *, bookies: int, clients: int) -> Iterator[Fault]:
    """Faults after which everybody still knows everything."""
    rng = random.Random(f"nuisances {seed}")
    holds = {
        Kind.FREEZE: FREEZE_S,
        Kind.CLIENT_FREEZE: FREEZE_S,
        Kind.METADATA_PAUSE: PAUSE_S,
        Kind.CUT_OFF: CUT_OFF_S,
        Kind.ADDRESS_AFTER_STOP: TAKEN_S,
    }
    number = 0
    while True:
        kind = rng.choices(list(NUISANCES), list(NUISANCES.values()))[0]
        yield Fault(
            number,
            kind,
            victim=rng.randrange(clients if kind in OF_CLIENTS else bookies),
            gap_s=rng.uniform(*NUISANCE_GAP_S),
            hold_s=rng.uniform(*holds.get(kind, DOWN_S)),
            mode=_toggle(rng),
        )
        number += 1
