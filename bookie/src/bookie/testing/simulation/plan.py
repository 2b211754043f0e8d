"""What one seed means: a cluster, a load, a weather, and a list of faults. Values only.

A plan is drawn whole before anything runs, so that it can be printed, shortened (`shrink`) and run
again. Every seed uses its own subset of faults and its own sizes (swarm): a fault that is always
there hides what only happens without it.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from bookie.protocol.errors import BadRequestError

LOAD_S: Final = 12.0
"""Load and faults last so long; then everything is healed."""


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
    """Of one ledger, before its writer begins another."""
    pause_s: float = 0.1
    between_s: float = 1.0
    """Pause between two ledgers of a writer, at most."""
    burst: int = 4
    flush_s: float = 2.0
    latency_s: float = 0.0005
    repair_s: float = 1.0
    """Between two looks of the repairer."""
    work_s: float = 0.001
    """What a piece of blocking work takes, roughly."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong. `who`, `other`: numbers of bookies or clients; `size`: 0..1."""

    at_s: float
    kind: str
    who: int = 0
    other: int = 0
    lasts_s: float = 0.0
    size: float = 0.0


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
    {"power-cut", "kill", "replace-disk", "disk-error", "crash-operation", "crash-point"}
)
"""Faults after which a bookie may lack what it acknowledged."""
LASTING: Final = frozenset({"bit-flip", "lying-sync"})
"""What no repair mends: the budget is used up by one for good."""

_WEIGHTS: Final[Mapping[str, float]] = {
    "power-cut": 3, "kill": 2, "crash-operation": 3, "crash-point": 3, "replace-disk": 1,
    "disk-error": 1,
    "disk-full": 0.7, "bit-flip": 0.5, "lying-sync": 0.4, "clean-restart": 1, "isolate": 1.5,
    "partition": 1.5, "slow": 1, "reset": 1.5, "store-outage": 1, "store-partition": 1,
    "session-loss": 1, "clock-jump": 0.3, "kill-repair": 1, "kill-client": 1,
    "loss": 1, "doubling": 1, "lost-replies": 1, "stale-listing": 1,
}  # fmt: skip
KINDS: Final = tuple(sorted(_WEIGHTS))
_QUORUMS: Final = (
    (3, 3, 2),
    (3, 3, 2),
    (3, 3, 2),
    (3, 2, 2),
    (4, 3, 2),
    (4, 2, 2),
    (2, 2, 2),
    (3, 3, 3),
)


def plan_of(seed: int) -> Plan:
    """The plan of a seed; the same for ever, as recorded totals and directed seeds rely on it."""
    rng = random.Random(f"plan/{seed}")
    scale = _scale(rng)
    keeps_budget = rng.random() < 0.8
    kinds = _swarm(rng)
    count = rng.choice((0, 1, 2, 3, 4, 6, 8, 12))
    faults = [_fault(rng, kinds, scale) for _ in range(count)]
    return Plan(seed, scale, tuple(sorted(faults, key=lambda f: f.at_s)), keeps_budget)


def _scale(rng: random.Random) -> Scale:
    ensemble, write_quorum, ack_quorum = rng.choice(_QUORUMS)
    is_log = rng.random() < 0.2
    return Scale(
        bookies=ensemble + rng.choice((0, 1, 1, 2)),
        ledger_dirs=rng.choice((1, 1, 2)),
        mode=rng.choice(("memory",) * 6 + ("sync", "journal")),
        ensemble=ensemble,
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        writers=0 if is_log else rng.choice((1, 1, 2)),
        logs=rng.choice((1, 2, 2, 3)) if is_log else 0,
        readers=rng.choice((0, 1, 1, 2)),
        recoverers=rng.choice((0, 0, 1, 1, 2)),
        deletions=rng.choice((0, 0, 0, 1)),
        entries=rng.choice((3, 10, 30, 100, 1000)),
        pause_s=rng.choice((0.05, 0.2, 0.5)),
        between_s=rng.choice((0.5, 3.0)),
        burst=rng.choice((1, 1, 2, 8)),
        flush_s=rng.choice((0.5, 3.0, 60.0, 60.0)),
        latency_s=rng.choice((0.0002, 0.001, 0.01)),
        repair_s=rng.choice((0.5, 2.0, 6.0)),
        work_s=rng.choice((0.0002, 0.001, 0.01)),
    )


def _swarm(rng: random.Random) -> Sequence[str]:
    chosen = [kind for kind in KINDS if rng.random() < 0.4]
    return chosen or [rng.choice(KINDS)]


def _fault(rng: random.Random, kinds: Sequence[str], scale: Scale) -> Fault:
    kind = rng.choices(kinds, [_WEIGHTS[one] for one in kinds])[0]
    who = rng.randrange(scale.bookies)
    return Fault(
        round(0.5 + rng.random() * (LOAD_S - 1.0), 3),
        kind,
        who,
        other=(who + 1 + rng.randrange(scale.bookies)) % (scale.bookies + 1),
        lasts_s=round(rng.choice((0.05, 0.5, 2.0, 5.0)) * (0.5 + rng.random()), 3),
        size=round(rng.random(), 4),
    )


def described(faults: Sequence[Fault]) -> list[dict[str, Any]]:
    """For people."""
    return [asdict(fault) for fault in faults]
