"""`make sim-planned`: seeds of the simulation with the real operator in it, or one seed's story.

Each seed runs in a process of a pool. A failing seed is named with the command that replays it.
Exit code 0: nothing found; 1: a rule was violated.
"""

import argparse
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bookie.testing.figures import tell
from bookie.testing.simulation.plan import described
from bookie.testing.simulation.totals import Totals, ranges_of
from bookie.testing.simulation.world import Verdict
from planned_plan import plan_of
from planned_world import run, run_seed

REPLAY: Final = "python tests/planned --seed {seed}"
FAILURES_SHOWN_MAX: Final = 10
SEEDS_PER_PROCESS: Final = 200
"""A process of the pool is replaced after so many: what it keeps of them is given back."""


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    options = _options().parse_args(arguments)
    if options.seed is not None:
        return _replay(options.seed, quiet=options.quiet)
    return _run(options)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests/planned", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seed", type=int, help="run this one and tell its story")
    parser.add_argument("--quiet", action="store_true", help="no story, only the verdict")
    parser.add_argument("--json", type=Path, default=Path("build/proof/planned.json"))
    return parser


def _replay(seed: int, *, quiet: bool) -> int:
    planned = plan_of(seed)
    verdict = run(planned, with_lines=not quiet)
    for line in verdict.lines:
        print(line)
    print(f"{planned.plan.scale}\n{planned.spec}")
    for event in [*described(planned.plan.faults), *planned.wishes]:
        print(f"  {event}")
    for violation in verdict.violations:
        print(f"VIOLATED {violation}")
    print(
        f"seed {seed}: hash {verdict.digest}, {verdict.simulated_s:.1f} s simulated, "
        f"{verdict.acked} acked, {verdict.read} read, {len(verdict.violations)} violations"
    )
    return 0 if verdict.is_right else 1


def _run(options: argparse.Namespace) -> int:
    began, totals = time.monotonic(), Totals()
    seeds = range(options.first, options.first + options.seeds)
    for verdict in _verdicts(seeds, options.jobs):
        totals.add(verdict)
        if not verdict.is_right and len(totals.failed) <= FAILURES_SHOWN_MAX:
            seed = verdict.plan.seed
            print(f"seed {seed}: {verdict.violations[0]}\n  {REPLAY.format(seed=seed)}", flush=True)
    seconds = time.monotonic() - began
    figures = {"ranges": ranges_of(totals.ran), "seconds": round(seconds, 1), **totals.json()}
    tell(
        f"make sim-planned SEEDS={options.seeds}",
        figures,
        path=options.json,
        line=f"sim-planned: {totals.seeds:,} seeds, {totals.simulated_s / 3600:.1f} h simulated, "
        f"{sum(totals.faults.values()):,} faults, {totals.acked:,} acked, {totals.read:,} read, "
        f"{len(totals.failed)} seeds failed; {seconds:.0f} s",
    )
    return 1 if totals.failed else 0


def _verdicts(seeds: Sequence[int], jobs: int) -> Iterator[Verdict]:
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, maxtasksperchild=SEEDS_PER_PROCESS) as pool:
        yield from pool.imap(run_seed, seeds)


if __name__ == "__main__":
    raise SystemExit(main())
