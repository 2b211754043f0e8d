"""`make repair-scale`: ledgers repaired, or given new members, by executors killed at random.

Five real bookies, a real ZooKeeper, `--ledgers` ledgers each damaged in one of the ways of
`scale_ledgers.Kind`; then `scale_story` runs, or with `--story lost` all of them name a bookie that
goes with its disks, and `lost_story` runs. Prints one JSON object. Exit code 0: every claim
held; 1: one did not.
"""

import argparse
import asyncio
import json
import logging
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bookie.testing.figures import code_revision
from lost_story import lost_claims, tell_lost
from scale_story import Size, claims, failed, tell

STORIES: Final = {"repair": (tell, claims), "lost": (tell_lost, lost_claims)}


def main() -> int:
    options = _options()
    logging.disable(logging.WARNING)
    size = Size(options.ledgers, options.kills, options.seed, is_whole=not options.short)
    with tempfile.TemporaryDirectory(prefix="repair-scale-", ignore_cleanup_errors=True) as name:
        folder = Path(options.work or name)
        tell_it, claims_of = STORIES[options.story]
        saw = asyncio.run(tell_it(folder, size))
    held = claims_of(saw, size)
    told = json.dumps(
        {
            "revision": code_revision(),
            "story": options.story,
            **asdict(size),
            "claims": held,
            **saw,
        },
        indent=1,
    )
    print(told)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(told + "\n", encoding="utf-8")
    for claim in failed(held):
        print(f"not so: {claim}", file=sys.stderr)
    return 1 if failed(held) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="repair_scale", description=__doc__)
    parser.add_argument("--story", choices=tuple(STORIES), default="repair")
    parser.add_argument("--ledgers", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=12, help="of executors, in each job")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help="no driver killed, no bookie away")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", type=Path, help="an empty folder to keep; default: a new one")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
