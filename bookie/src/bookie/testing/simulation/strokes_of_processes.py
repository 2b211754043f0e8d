"""Plans of a bookie that is more than one process, or whose disks are not what they were.

A second process serves on a clone of the disks while the first one is cut off from the store,
asleep, or neither; boots meet their own late writes; disks are put back, their markers are gone.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from bookie.testing.simulation.plan import Fault, Scale


def process_faults(rng: random.Random) -> tuple[Scale, list[Fault]]:
    """A small cluster whose clients stay connected, and come back to the same ledgers.

    In memory mode: where a mode syncs, a clone does not know of what was acknowledged between it
    and the next confirmation, and that is no defect (docs/safety.md).
    """
    scale = Scale(
        bookies=3,
        mode="memory",
        writers=2,
        readers=0,
        recoverers=2,
        recover_s=2.0,
        entries=200,
        pause_s=rng.choice((0.03, 0.08)),
        burst=2,
        flush_s=60.0,
        collect_s=5.0,
        lease_s=2.0,
        load_s=12.0,
        patience_s=0.3,
        askers=2,
    )
    return rng.choice(STROKES)(rng, scale, rng.randrange(3))


def _rivals(rng: random.Random, first_s: float, last_s: float) -> list[Fault]:
    count = int((last_s - first_s) * 2)
    return [Fault(first_s + (last_s - first_s) * rng.random(), "recover-now") for _ in range(count)]


def _cut_off(rng: random.Random, scale: Scale, who: int) -> tuple[Scale, list[Fault]]:
    """The first process hears no more of the store, and its clients still reach it; then there are
    writers that never met it.
    """
    lease_s = rng.choice((2.0, 6.0))
    cut = Fault(1.0, "store-partition", who, lasts_s=11.5)
    twin = Fault(1.1 + 0.5 * rng.random(), "twin", who, lasts_s=11.0)
    scale = replace(scale, load_s=13.5)
    if lease_s > 2.0 or rng.random() < 0.3:
        return replace(scale, lease_s=lease_s), [cut, twin, *_rivals(rng, 4.5, 12.0)]
    at = 6.0 + rng.random()
    restarts = [Fault(at + 0.05 * step, "kill-client") for step in (0, 1)]
    return replace(scale, lease_s=lease_s, recover_s=1.0), [cut, twin, *restarts]


def _asleep(rng: random.Random, scale: Scale, who: int) -> tuple[Scale, list[Fault]]:
    """The first process sleeps, maybe while it waits for the store; it wakes when the other one
    serves."""
    at, lasts = 1.3 + 0.3 * rng.random(), 9.5 + rng.random()
    found = [Fault(at, "sleep-bookie", who, lasts_s=lasts), Fault(1.2, "twin", who, lasts_s=12.0)]
    if rng.random() < 0.5:
        found.append(Fault(1.2, "slow-store", lasts_s=1.0, size=0.7))
        found.append(Fault(at + lasts - 0.3, "slow-store", lasts_s=2.0, size=0.7))
        idle = lasts + 0.2 + 0.3 * rng.random()
        found += [Fault(at - 0.2, "idle-client", 0, number, idle) for number in (0, 1)]
    return replace(scale, load_s=14.0), [*found, *_rivals(rng, at + lasts - 1.0, at + lasts + 0.5)]


def _both_awake(rng: random.Random, scale: Scale, who: int) -> tuple[Scale, list[Fault]]:
    """Nothing is wrong with the first process but that there is another one."""
    return scale, [Fault(1.2, "twin", who, lasts_s=8.0), *_rivals(rng, 2.0, 8.0)]


def _late(rng: random.Random, scale: Scale, who: int) -> tuple[Scale, list[Fault]]:
    """Boots learn that their writes failed, and those happen later."""
    found = []
    kind, again = rng.choice(("clean-restart", "replace-disk")), rng.choice((5.0, 8.0))
    for at in (0.0, again):
        found.append(Fault(at, "late-writes", lasts_s=rng.choice((1.0, 3.0, 6.0)), size=0.9))
        found.append(Fault(at, "slow-store", lasts_s=8.0, size=rng.choice((0.3, 0.6, 1.0))))
    found += [Fault(again + 0.1 * step, kind, step, lasts_s=0.05) for step in range(2)]
    return replace(scale, load_s=16.0, lease_s=12.0), found


def _put_back(rng: random.Random, scale: Scale, who: int) -> tuple[Scale, list[Fault]]:
    """Its disks are put back to what they were a while ago."""
    mode = rng.choice(("sync", "journal", "memory"))
    found = [Fault(1.5 + rng.random(), "put-back", who, lasts_s=rng.choice((4.0, 5.0)))]
    return replace(scale, mode=mode), [*found, *_rivals(rng, 6.0, 9.0)]


def _unmarked(rng: random.Random, scale: Scale, who: int) -> tuple[Scale, list[Fault]]:
    """It crashes and its markers are gone."""
    at = 2.0 + 3 * rng.random()
    lost = Fault(at, "marker-lost", who, lasts_s=0.1)
    return replace(scale, mode="memory"), [lost, *_rivals(rng, at, at + 2.0)]


def _namesake(rng: random.Random, scale: Scale, who: int) -> tuple[Scale, list[Fault]]:
    """One of another cluster has its name and address."""
    at = 1.5 + rng.random()
    found = [Fault(at, "namesake", who, lasts_s=4.0), Fault(at + 0.5, "audit-now", who)]
    return replace(scale, load_s=9.0), [*found, *_rivals(rng, at, at + 4.0)]


Stroke = Callable[[random.Random, Scale, int], tuple[Scale, list[Fault]]]
STROKES: Final[tuple[Stroke, ...]] = (
    _cut_off, _cut_off, _cut_off, _asleep, _asleep, _both_awake, _late, _late, _put_back, _unmarked,
    _namesake,
)  # fmt: skip
