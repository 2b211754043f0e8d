"""What strikes the fleet in each round of a chaos run: a pure function of the seed.

A loss makes one bookie forget; a nuisance makes somebody slow, silent or absent and forgets
nothing. A round is a loss with one nuisance or two beside it, or nuisances alone, and the fleet is
whole again before the next: two losses at once may cost entries, and nobody promises otherwise.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

BOOKIES: Final = 4
GAP_S: Final = (0.0, 8.0)
"""Between the strikes of a round: shorter and longer than a boot and a flush."""
CALM_S: Final = (3.0, 15.0)
"""Before a round: shorter and longer than the flush interval."""


class Kind(StrEnum):
    """The values are the words of reports."""

    KILL = "SIGKILL of a bookie"
    FORCE = "a hanging bookie's pod deleted by force"
    DISK = "a ledger disk replaced"
    OPERATOR = "SIGKILL of the operator"
    ZOOKEEPER = "ZooKeeper's pod deleted by force"
    CUT_OFF = "a bookie cut off"
    HANG = "a bookie hangs and goes on"
    EVICT = "a bookie's pod deleted"
    RESTART = "a restart by a task"
    SETTINGS = "other settings rolled out"


LOSSES: Final = {Kind.KILL: 5, Kind.FORCE: 3, Kind.DISK: 2}
NUISANCES: Final = {
    Kind.OPERATOR: 4,
    Kind.ZOOKEEPER: 3,
    Kind.CUT_OFF: 3,
    Kind.HANG: 3,
    Kind.EVICT: 2,
    Kind.RESTART: 2,
    Kind.SETTINGS: 2,
}
ROLLS: Final = frozenset({Kind.EVICT, Kind.RESTART, Kind.SETTINGS})
"""Each stops bookies, by itself or by the operator: one of them in a round."""
SHAPES: Final = {(1, 1): 4, (1, 2): 3, (0, 2): 2, (0, 3): 1}
"""Losses and nuisances of a round, and how often."""
DISK_OF: Final = 3
"""Disks are replaced of this bookie only: a person is asked where two come with other disks within
ten minutes."""


@dataclass(frozen=True, slots=True)
class Strike:
    """`seconds`: how long it lasts, where it has an end. `after_s`: since the strike before it."""

    kind: Kind
    bookie: str
    seconds: float
    after_s: float

    def __str__(self) -> str:
        return f"{self.kind} ({self.bookie})" if self.bookie else str(self.kind)


@dataclass(frozen=True, slots=True)
class Round:
    """Strikes in order; `calm_s` is before them."""

    number: int
    calm_s: float
    strikes: tuple[Strike, ...]

    @property
    def losses(self) -> tuple[Strike, ...]:
        return tuple(one for one in self.strikes if one.kind in LOSSES)


def rounds(seed: int) -> Iterator[Round]:
    """Endless."""
    rng = random.Random(f"chaos {seed}")
    number = 0
    while True:
        number += 1
        yield _round(rng, number)


def _round(rng: random.Random, number: int) -> Round:
    losses, nuisances = rng.choices(list(SHAPES), list(SHAPES.values()))[0]
    kinds = [_drawn(rng, LOSSES) for _ in range(losses)]
    while len(kinds) < losses + nuisances:
        kind = _drawn(rng, NUISANCES)
        if kind not in kinds and not (kind in ROLLS and ROLLS & set(kinds)):
            kinds.append(kind)
    rng.shuffle(kinds)
    bookies = [f"bookie-{one}" for one in rng.sample(range(BOOKIES), BOOKIES)]
    if Kind.DISK in kinds:
        bookies.remove(f"bookie-{DISK_OF}")
    strikes = []
    for kind in kinds:
        bookie = ""
        if kind is Kind.DISK:
            bookie = f"bookie-{DISK_OF}"
        elif kind not in (Kind.OPERATOR, Kind.ZOOKEEPER, Kind.SETTINGS):
            bookie = bookies.pop()
        strikes.append(Strike(kind, bookie, rng.uniform(4.0, 25.0), rng.uniform(*GAP_S)))
    return Round(number, rng.uniform(*CALM_S), tuple(strikes))


def _drawn(rng: random.Random, weights: dict[Kind, int]) -> Kind:
    return rng.choices(list(weights), list(weights.values()))[0]
