"""`python -m bookie.testing.simulation`: many seeds, one seed, or a seed made small.

Each seed runs in a process of a pool; verdicts come in the order of the seeds. A failing seed is
named with the command that replays it.
"""

import argparse
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bookie.testing.figures import core_digest, source, tell
from bookie.testing.simulation.plan import Plan, described
from bookie.testing.simulation.plan_choice import LIVES_FROM, SECOND_FROM, plan_of
from bookie.testing.simulation.shrink import shrink
from bookie.testing.simulation.totals import Total, Totals, next_seeds, ranges_of
from bookie.testing.simulation.world import Verdict, simulate, simulate_seed

REPLAY = "python -m bookie.testing.simulation --seed {seed}"
FAILURES_SHOWN_MAX = 10
SEEDS_PER_APPEND = 500
"""A total is written after so many: a night that is cut off has not run for nothing."""
SEEDS_PER_PROCESS = 200
"""A process of the pool is replaced after so many: what it keeps of them is given back."""


def main(arguments: Sequence[str] | None = None) -> int:
    """0: nothing found; 1: a rule was violated."""
    options = _options().parse_args(arguments)
    if options.shrink is not None:
        return _shrink(options.shrink)
    if options.seed is not None or options.plan is not None:
        plan = _read(options.plan) if options.plan is not None else plan_of(options.seed)
        return _replay(plan, quiet=options.quiet)
    return _run(options)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many (default 2000)")
    parser.add_argument(
        "--first",
        type=int,
        help=f"the first of them (default: from 1, {SECOND_FROM} and {LIVES_FROM} in turn)",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seed", type=int, help="run this one and tell its story")
    parser.add_argument("--plan", type=Path, help="run the plan in this file and tell its story")
    parser.add_argument("--shrink", type=int, metavar="SEED", help="make a failing seed small")
    parser.add_argument("--quiet", action="store_true", help="no story, only the verdict")
    parser.add_argument("--json", type=Path, default=Path("build/proof/simulation.json"))
    parser.add_argument(
        "--total", type=Path, help="run what this core has not run yet, and add it to this file"
    )
    parser.add_argument(
        "--nightly", action="store_true", help="with --total: the next that did not run"
    )
    return parser


def _read(path: Path) -> Plan:
    return Plan.from_json(path.read_text(encoding="utf-8"))


# One
def _replay(plan: Plan, *, quiet: bool) -> int:
    verdict = simulate(plan, with_lines=not quiet)
    for line in verdict.lines:
        print(line)
    print(f"{plan.scale}, {'within' if plan.keeps_budget else 'beyond'} the loss budget")
    for fault in described(plan.faults):
        print(f"  {fault}")
    for violation in verdict.violations:
        print(f"VIOLATED {violation}")
    print(
        f"seed {plan.seed}: hash {verdict.digest}, {verdict.simulated_s:.1f} s simulated, "
        f"{verdict.acked} acked, {verdict.read} read, {len(verdict.violations)} violations"
    )
    return 0 if verdict.is_right else 1


def _shrink(seed: int) -> int:
    plan = shrink(plan_of(seed))
    path = Path(f"build/proof/seed-{seed}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plan.to_json() + "\n", encoding="utf-8")
    code = _replay(plan, quiet=False)
    print(f"again: python -m bookie.testing.simulation --plan {path}")
    return code


# Many
def _run(options: argparse.Namespace) -> int:
    began = time.monotonic()
    total = Total(options.total, source()) if options.total is not None else None
    seeds = _seeds(options, total.ran() if total is not None else set())
    totals, unwritten = Totals(), Totals()
    for verdict in _verdicts(seeds, options.jobs):
        totals.add(verdict)
        unwritten.add(verdict)
        if not verdict.is_right and len(totals.failed) <= FAILURES_SHOWN_MAX:
            seed = verdict.plan.seed
            print(f"seed {seed}: {verdict.violations[0]}\n  {REPLAY.format(seed=seed)}", flush=True)
        if total is not None and unwritten.seeds == SEEDS_PER_APPEND:
            _append(total, unwritten)
            unwritten = Totals()
    if total is not None and unwritten.seeds:
        _append(total, unwritten)
    seconds = time.monotonic() - began
    figures = {"ranges": ranges_of(totals.ran), "seconds": round(seconds, 1), **totals.json()}
    tell(
        f"make sim SEEDS={options.seeds}",
        figures,
        path=options.json,
        line=f"sim: {totals.seeds:,} seeds, {totals.simulated_s / 3600:.1f} h simulated, "
        f"{sum(totals.faults.values()):,} faults, {totals.acked:,} acked, {totals.read:,} read, "
        f"{len(totals.failed)} seeds failed; {seconds:.0f} s",
    )
    return 1 if totals.failed else 0


def _seeds(options: argparse.Namespace, ran: set[int]) -> Sequence[int]:
    """Those asked for, of both drawings unless a first one is named; not what this core has run."""
    firsts = (1, SECOND_FROM, LIVES_FROM) if options.first is None else (options.first,)
    if options.nightly:
        return list(next_seeds(ran, firsts=firsts, wanted=options.seeds))
    asked = next_seeds(set(), firsts=firsts, wanted=options.seeds)
    return [seed for seed in asked if seed not in ran]


def _append(total: Total, totals: Totals) -> None:
    if core_digest() != total.core:
        raise SystemExit(
            f"the core's sources changed while seeds ran: they were {total.core}, now they are "
            f"{core_digest()}; what ran since the last append is not counted, start again"
        )
    total.append(totals)


def _verdicts(seeds: Sequence[int], jobs: int) -> Iterator[Verdict]:
    if jobs == 1:
        yield from map(simulate_seed, seeds)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, maxtasksperchild=SEEDS_PER_PROCESS) as pool:
        yield from pool.imap(simulate_seed, seeds)


if __name__ == "__main__":
    raise SystemExit(main())
