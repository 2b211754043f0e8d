"""Simulates seeds and hunts on the code that comes first on the path: a line of JSON for each.

Started by `mutant_simulation` in a process of its own: `mutant_seeds.py OVERLAY 17 hunt:4 ...`.
"""

import faulthandler
import json
import sys
from pathlib import Path

from bookie.testing.simulation.plan import Plan, plan_of
from bookie.testing.simulation.world import simulate
from mutant_hunts import hunt

import bookie

READY = "ready"
"""The first line: from here on an end without a word is a seed's doing."""
SEED_SECONDS_MAX = 120
"""A seed that takes longer turns in circles: the process ends, and with it the seed's say."""


def plan_named(name: str) -> Plan:
    """`17` is a seed of `make sim`, `hunt:17` one of `mutant_hunts`."""
    kind, _, number = name.rpartition(":")
    return hunt(int(number)) if kind == "hunt" else plan_of(int(number))


def violation_of(name: str) -> str:
    """What was found first, empty when nothing. A defect may break the simulation itself."""
    try:
        return next(iter(simulate(plan_named(name)).violations), "")
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main(overlay: str, *seeds: str) -> None:
    if not Path(str(bookie.__file__)).is_relative_to(overlay):
        raise SystemExit(f"{bookie.__file__} is under test, expected that in {overlay}")
    print(READY, flush=True)
    for seed in seeds:
        faulthandler.dump_traceback_later(SEED_SECONDS_MAX, exit=True)
        print(json.dumps({"seed": seed, "violation": violation_of(seed)}), flush=True)
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(*sys.argv[1:])
