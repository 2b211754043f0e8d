"""Plans of writers that live on: a bookie forgets and is back before its writers have noticed.

They rest while it is down, so that its ledgers still name it when it boots, and go on within the
grace of a repair or after it. There is a spare bookie, or two. While the limbo of an open ledger is
to end, the bookie stops again, another one does, the ledger is taken over, a member leaves.
"""

import random
from typing import Final

from bookie.testing.simulation.plan import Fault, Scale

QUORUMS: Final = ((3, 3, 2), (3, 3, 2), (2, 2, 2), (3, 2, 2), (3, 3, 3), (4, 3, 2))
FORGETS: Final = ("kill", "kill", "kill", "power-cut", "power-cut", "replace-disk", "other-mode")
"""How a bookie may have forgotten when it is back."""
BESIDE: Final = (
    "kill", "power-cut", "clear-now", "clear-now", "recover-now", "drain", "kill-repair",
    "kill-client", "isolate", "reset", "cut-checkpoint",
)  # fmt: skip
"""What may come while its limbo is to end."""


def live_faults(rng: random.Random) -> tuple[Scale, list[Fault]]:
    """A cluster with a spare, slow writers, and bookies that are back at once."""
    ensemble, write_quorum, ack_quorum = rng.choice(QUORUMS)
    scale = Scale(
        bookies=ensemble + rng.choice((1, 1, 2)),
        ledger_dirs=rng.choice((1, 2)),
        ensemble=ensemble,
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        writers=2,
        readers=rng.choice((0, 1)),
        recoverers=rng.choice((0, 0, 1)),
        entries=rng.choice((40, 120)),
        pause_s=rng.choice((0.05, 0.1, 0.3)),
        burst=rng.choice((1, 2, 4)),
        flush_s=rng.choice((0.5, 2.0, 60.0)),
        latency_s=rng.choice((0.0005, 0.002, 0.01)),
        repair_s=rng.choice((0.3, 1.0)),
        work_s=rng.choice((0.0005, 0.002)),
        load_s=10.0,
        patience_s=0.3,
        askers=1,
    )
    faults: list[Fault] = []
    at = 1.0 + rng.random()
    while at < 7.0:
        faults += _forgets_and_is_back(rng, at, rng.randrange(scale.bookies))
        at += 1.5 + 2.0 * rng.random()
    return scale, faults


def _forgets_and_is_back(rng: random.Random, at: float, who: int) -> list[Fault]:
    """All writers rest over it, or one of the two; then perhaps something else comes."""
    rests = round(0.5 + 1.5 * rng.random(), 4)
    kind = rng.choice(("idle-client", "idle-client", "sleep-client"))
    found = [Fault(at, kind, 0, client, rests, 0.2) for client in range(rng.choice((1, 2, 2)))]
    size = round(0.2 * rng.random(), 4)
    found.append(Fault(at + 0.15, rng.choice(FORGETS), who, 0, 0.05, size, aim="member"))
    for _ in range(rng.choice((0, 1, 1, 2))):
        beside, delay = rng.choice(BESIDE), rests * rng.random() + rng.choice((0.0, 0.5))
        other = who + rng.randrange(3)
        found.append(Fault(at + 0.2 + delay, beside, other, rng.randrange(3), 0.1, size))
    return found
