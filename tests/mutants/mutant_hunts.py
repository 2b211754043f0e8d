"""Plans that go where mutants hide: strokes of faults that belong together, under hurried clients.

Seeds of `make sim` draw single faults from all there is. A hunt draws strokes: a stop whose flush
fails, a crash within the boot after a crash, replacements that overlap. Its ledgers are short-lived
and recovered under their writers, its messages late. The same number gives the same plan for ever.
"""

import random
from collections.abc import Callable
from typing import Final

from bookie.testing.simulation.plan import LOAD_S, Fault, Plan, Scale

QUORUMS: Final = ((3, 3, 2), (3, 3, 2), (3, 3, 2), (4, 2, 2), (3, 2, 2), (4, 3, 2), (3, 3, 3))


def hunt(number: int) -> Plan:
    """The plan of one hunt."""
    rng = random.Random(f"hunt/{number}")
    scale = _scale(rng)
    faults: list[Fault] = []
    for _ in range(rng.choice((2, 4, 6))):
        stroke = rng.choice(STROKES)
        faults += stroke(rng, 0.5 + rng.random() * (LOAD_S - 2.0), rng.randrange(scale.bookies))
    return Plan(number, scale, tuple(sorted(faults, key=lambda fault: fault.at_s)))


def _scale(rng: random.Random) -> Scale:
    ensemble, write_quorum, ack_quorum = rng.choice(QUORUMS)
    return Scale(
        bookies=ensemble + rng.choice((1, 2)),
        mode=rng.choice(("memory", "memory", "memory", "memory", "journal")),
        ensemble=ensemble,
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        writers=2,
        readers=1,
        recoverers=6,
        entries=rng.choice((3, 30, 100)),
        pause_s=rng.choice((0.02, 0.1)),
        between_s=0.1,
        burst=rng.choice((1, 2)),
        flush_s=rng.choice((1.0, 60.0, 60.0)),
        latency_s=rng.choice((0.001, 0.01, 0.03)),
        repair_s=rng.choice((0.5, 3.0)),
    )


def _failed_stop(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Its disk takes no more when it is told to stop."""
    size = rng.choice((0.1, 0.3, 0.9))  # sync, write, commit
    broken = Fault(at, "disk-error", who, other=rng.randrange(2), lasts_s=4.0, size=size)
    return [broken, Fault(at + 0.01 + rng.random() * 0.1, "clean-restart", who, lasts_s=0.2)]


def _crash_at_boot(rng: random.Random, at: float, who: int) -> list[Fault]:
    """It crashes, and again while it boots or is repaired."""
    first = Fault(at, rng.choice(("kill", "power-cut")), who, lasts_s=0.1, size=rng.random())
    again = at + 0.1 + rng.choice((0.02, 0.1, 0.5, 2.0)) * rng.random()
    kind = rng.choice(("kill", "power-cut", "crash-point", "clean-restart"))
    return [first, Fault(again, kind, who, lasts_s=0.2, size=rng.random() * 0.5)]


def _replaced_twice(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Writers replace it, and before that is done another one."""
    lasts = rng.choice((0.5, 3.0))
    other = who + 1 + rng.randrange(3)
    soon = at + rng.random() * 2.5
    return [Fault(at, "isolate", who, lasts_s=lasts), Fault(soon, "isolate", other, lasts_s=lasts)]


def _late(rng: random.Random, at: float, who: int) -> list[Fault]:
    """All it says and hears is late, and some of what others say gets lost."""
    slow = Fault(at, "slow", who, lasts_s=3.0, size=rng.choice((0.01, 0.05, 0.1)))
    return [slow, Fault(at + rng.random(), "loss", who, lasts_s=3.0, size=rng.random())]


def _cut_off(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Two ways are cut, to a client or another bookie; later it comes back from a crash."""
    cuts = [
        Fault(at, "partition", who + step, other=rng.randrange(16), lasts_s=2.0) for step in (0, 1)
    ]
    return [*cuts, Fault(at + 1.0, rng.choice(("kill", "reset")), who, lasts_s=0.3)]


def _new_disk(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Its disk is another one, perhaps after a crash that comes first."""
    wiped = Fault(at + 0.3, "replace-disk", who, rng.randrange(2), lasts_s=0.2, size=rng.random())
    return [Fault(at, "kill", who, lasts_s=0.2), wiped] if rng.random() < 0.3 else [wiped]


def _rotten(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Bits of what it holds flip."""
    flips = [Fault(at + rng.random(), "bit-flip", who, size=rng.random()) for _ in range(3)]
    return [*flips, Fault(at + 1.2, "clean-restart", who, lasts_s=0.2)]


def _store(rng: random.Random, at: float, who: int) -> list[Fault]:
    """The metadata store is away for a moment, loses answers, or shows an old list."""
    kind = rng.choice(("store-outage", "lost-replies", "stale-listing", "session-loss"))
    crash = Fault(at + 0.2, "kill", who, lasts_s=0.1)
    return [Fault(at, kind, who, lasts_s=1.5, size=rng.random()), crash]


def _restless(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Clients die, and the repair does."""
    kinds = ("kill-client", "kill-client", "kill-repair", "doubling")
    return [Fault(at, rng.choice(kinds), who, rng.randrange(16), 2.0, rng.random())]


Stroke = Callable[[random.Random, float, int], list[Fault]]
STROKES: Final[tuple[Stroke, ...]] = (
    _failed_stop,
    _crash_at_boot,
    _crash_at_boot,
    _replaced_twice,
    _replaced_twice,
    _late,
    _late,
    _cut_off,
    _new_disk,
    _rotten,
    _store,
    _restless,
)
