"""Plans of ledgers that are mended while their writers go on.

A member hears nothing for a while, or not all: it lacks entries that the others have, and every few
tenths of a second a repair brings it what a LAC says is acknowledged. Writers rest meanwhile, so
that their last entries are there and no LAC covers them; they end, change the ensemble, or are
taken over while copies are under way.
"""

import random
from dataclasses import replace
from typing import Final

from bookie.testing.simulation.plan import Fault, Scale

HOLES: Final = ("isolate", "lag", "leak", "leak", "clean-restart", "kill")
"""How a member comes to lack what the others have."""
ENDS: Final = ("recover-now", "recover-now", "kill-client", "reset", "kill-repair")
"""What may come while copies are under way."""


def mend_faults(rng: random.Random) -> tuple[Scale, list[Fault]]:
    """A cluster without a spare: a member that fails is waited for, or the writer ends."""
    scale = Scale(
        bookies=3,
        mode=rng.choice(("memory", "journal", "sync")),
        writers=2,
        readers=1,
        recoverers=rng.choice((0, 1)),
        entries=rng.choice((30, 200)),
        pause_s=rng.choice((0.03, 0.1)),
        burst=rng.choice((1, 2, 8)),
        latency_s=rng.choice((0.0005, 0.002, 0.01)),
        repair_s=0.3,
        load_s=9.0,
        patience_s=0.3,
        askers=1,
        mends_every=1,
    )
    if rng.random() < 0.3:
        scale = replace(scale, bookies=4)
    faults: list[Fault] = []
    for _ in range(rng.choice((2, 3, 5))):
        faults += _a_hole(rng, 1.0 + 6.0 * rng.random(), rng.randrange(3))
    return scale, faults


def _a_hole(rng: random.Random, at: float, who: int) -> list[Fault]:
    """One member misses something, then the writer rests, then perhaps something ends it."""
    size = round(0.2 + 0.8 * rng.random(), 4)
    lasts = rng.choice((0.1, 0.3, 0.8))
    found = [Fault(at, rng.choice(HOLES), who, rng.randrange(4), lasts, size)]
    resting = rng.choice(("idle-client", "sleep-client"))
    found.append(Fault(at + lasts * rng.random(), resting, 0, rng.randrange(2), 0.8, 0.2))
    if rng.random() < 0.5:
        found.append(Fault(at + lasts + 0.6 * rng.random(), rng.choice(ENDS), who, 0, 0.1))
    return found
