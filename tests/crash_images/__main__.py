"""`make crash-images`: crashes the real bookie between any two operations, boots what is left.

For every crash point of every run (`crash_runs`, `crash_lives`) all legal images of the disks are
made, and the real boot must refuse or be right (`crash_claims`). Exit code 0: no image was wrong;
1: one was, or was refused where it must not be; 2: wrong usage.
"""

import argparse
import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bookie.testing.figures import tell
from bookie.testing.inline import InlineLoop
from crash_catalogue import LIVES, run_named, run_names
from crash_explore import Depth, Exploration, Tally, place_named

ALL = Depth(boots=10, boot_images=500)
FINDINGS_SHOWN_MAX = 5


def main() -> int:
    options = _options()
    logging.disable(logging.CRITICAL)  # a bookie that boots thousands of times warns a lot
    names = run_names(options.run, first_life=options.first_life, lives=options.lives)
    if options.list:
        print("\n".join(f"{name}: {run_named(name).tell.__doc__}" for name in names))
        return 0
    if not names or (options.image and options.run not in names):
        print(f"no run is named {options.run!r}: see --list", file=sys.stderr)
        return 2
    if options.image:
        return _repeat(options.run, options.image)
    return _explore(names, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/crash_images", description=__doc__)
    parser.add_argument("--run", default="", help="only runs with this in their name")
    parser.add_argument("--image", default="", help="repeat what a finding names, of one run")
    parser.add_argument("--all", action="store_true", help="crash many more boots in turn")
    parser.add_argument("--lives", type=int, default=LIVES, help="so many lives drawn from seeds")
    parser.add_argument("--first-life", type=int, default=1, help="the seed of the first one")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes, one run each"
    )
    parser.add_argument("--list", action="store_true", help="say which runs there are")
    parser.add_argument("--json", type=Path, default=Path("build/proof/crash-images.json"))
    return parser.parse_args()


def _explore(names: Sequence[str], options: argparse.Namespace) -> int:
    began = time.monotonic()
    tallies = []
    depths = [ALL if options.all else Depth()] * len(names)
    for tally in _tallies(names, depths, workers=options.workers):
        tallies.append(tally)
        print(_row(tally), flush=True)
        for finding in tally.findings[:FINDINGS_SHOWN_MAX]:
            print(finding, flush=True)
    seconds = time.monotonic() - began
    points = sum(tally.points for tally in tallies)
    images = sum(tally.images for tally in tallies)
    wrong = sum(len(tally.findings) for tally in tallies)
    refused = sum(tally.refused.total() for tally in tallies)
    line = (
        f"crash-images: {len(tallies)} runs, {points:,} crash points, {images:,} images, "
        f"{refused} rightly refused, {wrong} wrong; {seconds:.0f} s"
    )
    figures = {
        "runs": [tally.figures() for tally in tallies], "crash_points": points, "images": images,
        "refused": refused, "wrong": wrong, "seconds": round(seconds, 1),
        "processor_seconds": round(sum(tally.seconds for tally in tallies), 1),
    }  # fmt: skip
    tell(f"python {' '.join(sys.argv)}", figures, path=options.json, line=line)
    return 1 if wrong else 0


def _tallies(names: Sequence[str], depths: Sequence[Depth], *, workers: int) -> Iterator[Tally]:
    if workers == 1:
        yield from map(_tally, names, depths)
        return
    with ProcessPoolExecutor(workers, initializer=logging.disable) as pool:
        yield from pool.map(_tally, names, depths)


def _tally(name: str, depth: Depth) -> Tally:
    with contextlib.closing(InlineLoop()) as loop:
        return Exploration(run_named(name), depth, loop=loop).all()


def _row(tally: Tally) -> str:
    refused = f", refused {tally.refused.total()}" if tally.refused else ""
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(tally.right.items()))
    return (
        f"{tally.name:32} {tally.operations:4} operations {tally.points:4} points "
        f"{tally.images:6} images: {reasons}{refused}"
        + (f", WRONG {len(tally.findings)}" if tally.findings else "")
    )


def _repeat(name: str, image: str) -> int:
    """One image, as a finding names it."""
    with contextlib.closing(InlineLoop()) as loop:
        exploration = Exploration(run_named(name), Depth(), loop=loop)
        outcome = exploration.repeat(place_named(image))
    print(f"{name} {image}: {outcome.verdict.value}: {outcome.why}")
    for finding in exploration.tally.findings:
        print(finding)
    return 1 if exploration.tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
