"""Which family of plans a seed of strokes belongs to, and its plan.

Most seeds draw any strokes on any cluster (`strokes`). The others need a cluster of their own to
mean anything: owners of a log, a bookie that runs twice, a metadata store that forgets.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from bookie.testing.simulation.plan import Fault, Plan, Scale
from bookie.testing.simulation.strokes import stroke_plan
from bookie.testing.simulation.strokes_of_logs import log_faults
from bookie.testing.simulation.strokes_of_processes import process_faults
from bookie.testing.simulation.strokes_of_stores import store_faults

Draw = Callable[[random.Random], tuple[Scale, list[Fault]]]
FAMILIES: Final[tuple[tuple[float, Draw], ...]] = (
    (0.12, log_faults),
    (0.13, store_faults),
    (0.14, process_faults),
)
"""The share of the seeds that each has; the rest draws any strokes."""


def family_plan(seed: int) -> Plan:
    """The plan of such a seed; the same for ever."""
    drawn = family_of(seed)
    if drawn is None:
        return stroke_plan(seed)
    return ordered(seed, *drawn(random.Random(f"family plan/{seed}")))


def ordered(seed: int, scale: Scale, faults: Sequence[Fault]) -> Plan:
    """The plan with its faults in the order of their times."""
    times = [replace(fault, at_s=round(max(0.0, fault.at_s), 4)) for fault in faults]
    return Plan(seed, scale, tuple(sorted(times, key=lambda fault: fault.at_s)))


def family_of(seed: int) -> Draw | None:
    """None: any strokes."""
    chance = random.Random(f"family/{seed}").random()
    for share, draw in FAMILIES:
        if chance < share:
            return draw
        chance -= share
    return None
