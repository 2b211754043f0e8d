"""Plans of a log of ledgers: owners that compete, roll and truncate while nobody hears the store.

What a log concludes from a write that nobody answered is decided by what others did meanwhile, so
owners are many and eager here, ledgers are short, and readers look on.
"""

import random
from collections.abc import Callable
from typing import Final

from bookie.testing.simulation.plan import Fault, Scale

LOAD_S: Final = 14.0
"""An answer of the store that is lost takes seconds to be missed."""


def log_faults(rng: random.Random) -> tuple[Scale, list[Fault]]:
    """A cluster that has a log and nothing else, and what happens to it."""
    stroke = rng.choice(STROKES)
    scale = Scale(
        bookies=rng.choice((3, 4)),
        writers=0,
        readers=0,
        logs=rng.choice((1, 1, 2)) if stroke is _lists_unheard else rng.choice((2, 3, 4)),
        followers=1,
        entries=rng.choice((2, 5)),
        pause_s=rng.choice((0.05, 0.2)),
        truncates=rng.random() < 0.3,
        owner_patience_s=rng.choice((0.2, 1.0)),
        flush_s=60.0,
        latency_s=rng.choice((0.0005, 0.005)),
        load_s=LOAD_S,
    )
    return scale, stroke(rng)


def _unheard(rng: random.Random) -> list[Fault]:
    """Writes happen and nobody learns of it."""
    size = rng.choice((0.4, 0.7, 0.9))
    return [Fault(0.5 + rng.random(), "lost-replies", lasts_s=LOAD_S, size=size), *_usurpers(rng)]


def _late(rng: random.Random) -> list[Fault]:
    """Writes fail and happen seconds later."""
    size = rng.choice((0.4, 0.7, 0.9))
    return [Fault(0.5 + rng.random(), "late-writes", lasts_s=LOAD_S, size=size), *_usurpers(rng)]


def _lagging(rng: random.Random) -> list[Fault]:
    """Servers lag behind, and owners come that have not written anything yet."""
    at = 1.0 + rng.random()
    found = [Fault(at + 5 * turn, "stale-reads", lasts_s=4.0) for turn in (0, 1)]
    return [*found, *(Fault(at + 0.4 + 12 * rng.random(), "own-now") for _ in range(5))]


def _by_hand(rng: random.Random) -> list[Fault]:
    """Listed ledgers are deleted past the log."""
    return [Fault(1.0 + (LOAD_S - 1.1) * rng.random(), "delete-now") for _ in range(6)]


def _lists_unheard(rng: random.Random) -> list[Fault]:
    """Few owners, and a store that hears of their lists and does not answer."""
    size = rng.choice((0.4, 0.5, 0.6))
    return [Fault(1.0 + rng.random(), "lost-values", lasts_s=LOAD_S, size=size)]


def _usurpers(rng: random.Random) -> list[Fault]:
    return [Fault(2.0 + 9 * rng.random(), "own-now") for _ in range(rng.choice((0, 2, 4)))]


STROKES: Final[tuple[Callable[[random.Random], list[Fault]], ...]] = (
    _unheard, _unheard, _late, _lagging, _lagging, _by_hand, _lists_unheard, _lists_unheard,
    _lists_unheard, _lists_unheard,
)  # fmt: skip
