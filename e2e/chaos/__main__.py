"""`make chaos MINUTES=120 SEED=1`: a fleet on Kubernetes under load, struck in pairs and triples.

Two writers note what is acknowledged: the native client, and the judge, which is Apache's own
client and shares no code with the fleet. Exit codes: 0 every entry and every copy is there, or
SKIPPED without a kind cluster, Maven or a JDK; 1 anything else; what was seen is kept.
"""

import argparse
import random
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bookie.testing.apache import NoToolsError
from bookie.testing.figures import source, tell
from chaos_run import Chaos
from harness.kind import NoClusterError, bring_up, load_images
from harness.operator import Operator
from harness.settings import Settings
from harness.story import Story
from judge_java import build

SEEDS: Final = 1_000_000
LETTER: Final = "chaos"


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0, help="how long strikes go on")
    parser.add_argument("--seed", type=int, help="of plan and judge; default: a random one")
    parser.add_argument("--json", type=Path, default=Path("build/proof/chaos.json"))
    options = parser.parse_args()
    seed = random.randrange(SEEDS) if options.seed is None else options.seed
    of = source()
    try:
        build().classpath()
        kind = bring_up(Settings.from_environment())
        load_images(kind)
    except (NoToolsError, NoClusterError) as error:
        print(f"SKIPPED: chaos: {error}")
        return 0
    print(f"chaos: seed {seed}", flush=True)
    operator = Operator(kind)
    operator.renew()
    operator.ensure()
    story = Story(kind, LETTER)
    story.begin()
    chaos, began, found = Chaos(story, seed), time.monotonic(), ""
    try:
        chaos.run(options.minutes)
    except AssertionError as error:
        found = str(error)
        print(f"chaos: {found}\nchaos: what was seen: {story.keep_what_is_seen()}", flush=True)
    report(chaos, found, minutes=(time.monotonic() - began) / 60, path=options.json, of=of)
    if not found or not kind.settings.keep:
        story.end()
        operator.remove()
    kind.down()
    return 1 if found else 0


def report(chaos: Chaos, found: str, *, minutes: float, path: Path, of: Mapping[str, str]) -> None:
    figures = {
        "date": datetime.now(UTC).date().isoformat(),
        "seed": chaos.seed,
        "minutes": round(minutes, 1),
        "rounds": chaos.together.total(),
        "strikes_at_once": {str(n): chaos.together[n] for n in sorted(chaos.together)},
        "struck": dict(sorted(chaos.struck.items())),
        "bookies_made_to_forget": chaos.story.faults.forgotten,
        "slowest_round_s": round(chaos.slowest_round_s, 1),
        "verdicts": chaos.verdicts,
        "numbers": chaos.story.numbers,
        "found": found[:2000],
    }
    line = (
        f"chaos: seed {chaos.seed}: {figures['rounds']} rounds in {figures['minutes']} minutes, "
        f"{chaos.story.faults.forgotten} times a bookie was made to forget: "
        f"{'NOT WHOLE' if found else 'every entry and every copy is there'}"
    )
    tell("make chaos", figures, path=path, line=line, of=of)


if __name__ == "__main__":
    sys.exit(main())
