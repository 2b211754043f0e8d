"""`make fuzz MINUTES=2`: changed bytes into every reader, for long; what breaks one is kept.

A finding is written to the corpus of its reader, where the tests find it from then on. `--seed`
begins elsewhere; a run says with which seed it began.
"""

import argparse
import hashlib
import random
import sys
import time
import traceback

from hostile_bytes import mutated
from hostile_targets import CORPUS, TARGETS, hold, seeds_of

TURN = 200
"""Tries of one reader before the next one has its turn."""
HANG_S = 10.0


def broken(name: str, raw: bytes) -> str:
    """What the reader did that it must not; empty = nothing."""
    begun = time.monotonic()
    try:
        hold(TARGETS[name], raw)
    except Exception:
        return traceback.format_exc(limit=-3)
    took = time.monotonic() - begun
    return f"it took {took:.0f} s" if took > HANG_S else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", choices=sorted(TARGETS), action="append")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    chance, tries, found = random.Random(given.seed), 0, 0
    end = time.monotonic() + 60 * given.minutes
    while time.monotonic() < end:
        for name in given.only or sorted(TARGETS):
            seeds = seeds_of(name)
            for _ in range(TURN):
                raw = mutated(seeds, chance, is_json=TARGETS[name].is_json)
                tries += 1
                if why := broken(name, raw):
                    found += 1
                    path = CORPUS / name / f"found-{hashlib.sha256(raw).hexdigest()[:12]}"
                    path.write_bytes(raw)
                    print(f"{path}: {why}", flush=True)
                    break
                if time.monotonic() > end:
                    break
    print(f"{tries} tries, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
