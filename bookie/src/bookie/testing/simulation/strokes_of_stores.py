"""Plans of a metadata store that is wrong: what bookies and repairs must not conclude from it.

No bookie forgets here beside what a stroke itself has: what the store says is to be all that is
wrong.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from bookie.testing.simulation.plan import Fault, Scale

HASTY: Final = 0.8
"""Between two looks for deleted ledgers."""


def store_faults(rng: random.Random) -> tuple[Scale, list[Fault]]:
    """A small cluster that looks for deleted ledgers all the time."""
    scale = Scale(
        bookies=rng.choice((3, 3, 4)),
        mode=rng.choice(("memory", "memory", "sync", "journal")),
        writers=2,
        readers=rng.choice((0, 1)),
        entries=rng.choice((5, 20)),
        pause_s=rng.choice((0.05, 0.1)),
        between_s=0.3,
        burst=2,
        flush_s=rng.choice((0.5, 60.0)),
        collect_s=HASTY,
        lease_s=2.0,
        load_s=9.0,
        askers=1,
        repair_s=4.0,
        patience_s=0.3,
    )
    return rng.choice(STROKES)(rng, scale, rng.randrange(scale.bookies))


def _for_a_moment(rng: random.Random, scale: Scale, who: int) -> tuple[Scale, list[Fault]]:
    """Ledgers are gone for a moment, more than once."""
    return scale, [Fault(1.5 + rng.random(), "vanish", who, size=rng.random())]


def _many(rng: random.Random, scale: Scale, who: int) -> tuple[Scale, list[Fault]]:
    """Nearly everything is gone for long."""
    crowded = replace(scale, bookies=3, entries=1, burst=1, pause_s=0.01, between_s=0.1, readers=0)
    found = [Fault(2.5 + 0.5 * rng.random(), "vanish-many", lasts_s=2.8)]
    return replace(crowded, load_s=6.0, askers=0, writers=4), found


def _found_again(rng: random.Random, scale: Scale, who: int) -> tuple[Scale, list[Fault]]:
    """Ledgers are collected by mistake and found again; bookies start again meanwhile."""
    at = 1.5 + rng.random()
    found = [Fault(at, "found-again", who, lasts_s=2.8)]
    if rng.random() < 0.5:
        return scale, found
    second = at + 2.8 + 1.0 + 0.5 * rng.random()
    kind = rng.choice(("clean-restart", "kill", "kill"))
    found += [Fault(second, kind, who + step, 0, 0.05) for step in range(3)]
    return replace(scale, mode=rng.choice(("sync", "journal"))), found


def _put_back(rng: random.Random, scale: Scale, who: int) -> tuple[Scale, list[Fault]]:
    """The store is put back to what it was; a bookie may be down just then."""
    slower = replace(scale, collect_s=2.0, load_s=13.0)
    return slower, [Fault(1.5 + rng.random(), "put-store-back", who, rng.randrange(2), 8.0)]


def _unreadable(rng: random.Random, scale: Scale, who: int) -> tuple[Scale, list[Fault]]:
    """Metadata cannot be read while a bookie forgets, or while it is drained."""
    at = 1.5 + rng.random()
    found = [Fault(at, "bad-znode", who, lasts_s=rng.choice((2.0, 4.0)))]
    if rng.random() < 0.5:
        found.append(Fault(at + 0.3 * rng.random(), "kill", who, lasts_s=0.05))
        return replace(scale, mode="memory"), [*found, Fault(at + 4.2, "recover-now")]
    drained = Fault(at - 1.2 * rng.random(), "drain", who, lasts_s=5.0)
    slow = Fault(at - 1.3, "slow-store", lasts_s=4.0, size=0.2)
    return replace(scale, bookies=4), [*found, slow, drained]


def _deposed(rng: random.Random, scale: Scale, who: int) -> tuple[Scale, list[Fault]]:
    """A bookie hears of the store from a leader that was deposed."""
    return replace(scale, entries=5), [Fault(1.5 + rng.random(), "deposed", who, lasts_s=4.0)]


def _misled(rng: random.Random, scale: Scale, who: int) -> tuple[Scale, list[Fault]]:
    """Somebody calls lost what is not, and somebody has a wrong key."""
    claims = [Fault(1.0 + 6 * rng.random(), "claim-loss", who) for _ in range(3)]
    ensemble, quorum = rng.choice(((3, 3), (3, 2), (4, 2)))
    wider = replace(scale, bookies=ensemble + 1, ensemble=ensemble, write_quorum=quorum)
    return wider, [*claims, Fault(1.0 + 6 * rng.random(), "wrong-key", who)]


Stroke = Callable[[random.Random, Scale, int], tuple[Scale, list[Fault]]]
STROKES: Final[tuple[Stroke, ...]] = (
    _for_a_moment, _for_a_moment, _many, _found_again, _found_again, _found_again, _put_back,
    _put_back, _unreadable, _unreadable, _deposed, _misled,
)  # fmt: skip
