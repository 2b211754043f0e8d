"""Simulates seeds on the code that comes first on the path: a line of JSON for each.

Started by `mutant_simulation` in a process of its own: `mutant_seeds.py OVERLAY ENOUGH 17 18 ...`.
"""

import faulthandler
import json
import sys
from pathlib import Path

from bookie.testing.simulation.world import simulate_seed

import bookie

READY = "ready"
"""The first line: from here on an end without a word is a seed's doing."""
SEED_SECONDS_MAX = 120
"""A seed that takes longer turns in circles: the process ends, and with it the seed's say."""


def violation_of(name: str) -> str:
    """What was found first, empty when nothing. A defect may break the simulation itself."""
    try:
        return next(iter(simulate_seed(int(name)).violations), "")
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main(overlay: str, enough: str, *seeds: str) -> None:
    """Ends after `enough` seeds with a violation; 0: never before the last."""
    if not Path(str(bookie.__file__)).is_relative_to(overlay):
        raise SystemExit(f"{bookie.__file__} is under test, expected that in {overlay}")
    print(READY, flush=True)
    found = 0
    for seed in seeds:
        faulthandler.dump_traceback_later(SEED_SECONDS_MAX, exit=True)
        violation = violation_of(seed)
        print(json.dumps({"seed": seed, "violation": violation}), flush=True)
        faulthandler.cancel_dump_traceback_later()
        found += bool(violation)
        if 0 < int(enough) <= found:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
