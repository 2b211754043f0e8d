"""`make mutants`: plants one bug after another in a copy of the product; each must be noticed.
`make mutants-sim`: whether seeds of the simulation notice it, without any test written for it.

Exit code 0: every mutant was caught by the checks that its entry names; 1: one was not, or a check
could not tell; 2: wrong usage. The catalogue is in `mutants_*.py`, one module per area.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bookie.testing.figures import tell
from bookie.testing.simulation.plan_choice import SECOND_FROM
from mutant import Mutant
from mutant_catalogue import MUTANTS
from mutant_overlay import StaleMutantError, check_fit
from mutant_reach import why_beyond
from mutant_run import Bench, Judged, Verdict, judge
from mutant_simulation import figures as simulated_figures
from mutant_simulation import row as simulated_row
from mutant_simulation import simulate, violations


def main() -> int:
    arguments = _arguments()
    number, of = map(int, arguments.part.split("/"))
    mutants = [m for m in MUTANTS if arguments.only in m.name][number - 1 :: of]
    if not mutants:
        print(f"no mutant has {arguments.only!r} in its name: see --list", file=sys.stderr)
        return 2
    if arguments.list:
        print("\n".join(_described(mutant) for mutant in mutants))
        return 0
    try:
        for mutant in mutants:
            check_fit(mutant)
    except StaleMutantError as error:
        print(error, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        bench = Bench(Path(folder), workers=arguments.workers)
        if arguments.simulate:
            return _simulate(bench, mutants, arguments)
        return _run(bench, mutants, json_path=arguments.json or Path("build/proof/mutants.json"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/mutants", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="those with NAME in their name")
    parser.add_argument(
        "--part", default="1/1", metavar="NUMBER/OF", help="each OF-th of them, from NUMBER on"
    )
    parser.add_argument("--list", action="store_true", help="what there is, without running it")
    parser.add_argument("--workers", type=int, default=2, help="processes at once")
    parser.add_argument("--json", type=Path, help="where the figures go")
    simulated = parser.add_argument_group("whether the simulation finds them")
    simulated.add_argument("--simulate", action="store_true", help="this, in place of the tests")
    simulated.add_argument("--seeds", type=int, default=300, help="for each, at most")
    simulated.add_argument("--first", type=int, default=SECOND_FROM, help="the first of them")
    simulated.add_argument("--enough", type=int, default=1, help="findings; 0: run all seeds")
    return parser.parse_args()


def _described(mutant: Mutant) -> str:
    return f"{mutant.name}\n    {mutant.patches[0].file}; {', '.join(mutant.stands_for)}"


def _run(bench: Bench, mutants: Sequence[Mutant], *, json_path: Path) -> int:
    began = time.monotonic()
    wrong = bench.unpatched([test_id for mutant in mutants for test_id in mutant.test_ids])
    for test_id, why in wrong.items():
        print(f"fails without any mutant: {test_id}: {why}")
    if wrong:
        return 1
    judged = []
    for one in bench.each(judge, mutants):
        judged.append(one)
        print(_row(one), flush=True)
    return _report(judged, seconds=time.monotonic() - began, json_path=json_path)


def _row(judged: Judged) -> str:
    tests = ", ".join(test_id.rsplit("::", 1)[1] for test_id in judged.by)
    tests += "".join(f"; model: {name}" for name in judged.mutant.model_mutants)
    shown = tests if judged.verdict is Verdict.CAUGHT else f"{tests} {judged.why}".strip()
    return f"{judged.verdict.value:8} {judged.seconds:5.1f} s  {judged.mutant.name}\n{'':18}{shown}"


def _report(judged: Sequence[Judged], *, seconds: float, json_path: Path) -> int:
    counts = {verdict: sum(j.verdict is verdict for j in judged) for verdict in Verdict}
    for one in judged:
        if one.verdict is not Verdict.CAUGHT:
            print(f"{one.verdict.value}: {one.mutant.name}: {one.why}")
    line = (
        f"mutants: {len(judged)} planted, {counts[Verdict.CAUGHT]} caught, "
        f"{counts[Verdict.SURVIVED]} survived"
        + (f", {counts[Verdict.BROKEN]} broken" if counts[Verdict.BROKEN] else "")
        + f"; {seconds:.0f} s"
    )
    figures = {
        "planted": len(judged),
        "caught": counts[Verdict.CAUGHT],
        "survived": counts[Verdict.SURVIVED],
        "broken": counts[Verdict.BROKEN],
        "seconds": round(seconds, 1),
        "mutants": [_figures_of(one) for one in judged],
    }
    tell("make mutants", figures, path=json_path, line=line)
    return 0 if counts[Verdict.CAUGHT] == len(judged) else 1


def _figures_of(judged: Judged) -> dict[str, object]:
    return {
        "name": judged.mutant.name,
        "stands_for": judged.mutant.stands_for,
        "files": sorted({patch.file for patch in judged.mutant.patches}),
        "verdict": judged.verdict.name.lower(),
        "caught_by": judged.by,
        "model": judged.mutant.model_mutants,
        "why": judged.why,
        "seconds": round(judged.seconds, 1),
    }


# Simulation


def _simulate(bench: Bench, mutants: Sequence[Mutant], arguments: argparse.Namespace) -> int:
    """1: a seed fails without any mutant, or one that is committed finds its mutant no more.

    What fails by itself finds nothing: such seeds are told and left out.
    """
    began = time.monotonic()
    wanted = [mutant for mutant in mutants if not why_beyond(mutant)]
    seeds = [str(arguments.first + number) for number in range(arguments.seeds)]
    committed = sorted({seed for mutant in wanted for seed in mutant.seeds} - set(seeds))
    halves = [half for half in (seeds[::2], seeds[1::2], committed) if half]
    wrong: dict[str, str] = {}
    for _ran, found_wrong in bench.each(violations, halves):
        wrong |= found_wrong
    for seed, why in wrong.items():
        print(f"fails without any mutant: {seed}: {why}", flush=True)
    done = []
    good = [seed for seed in seeds if seed not in wrong]
    work = partial(simulate, seeds=good, enough=arguments.enough)
    for one in bench.each(work, wanted):
        done.append(one)
        print(simulated_row(one), flush=True)
    found = sum(bool(one.found) for one in done)
    stale = [one for one in done if set(one.mutant.seeds) - one.found.keys()]
    seconds = time.monotonic() - began
    tell(
        "make mutants-sim",
        {
            "seeds": arguments.seeds,
            "first_seed": arguments.first,
            "planted": len(mutants),
            "simulated": len(done),
            "found": found,
            "failing_alone": wrong,
            "seconds": round(seconds, 1),
            "mutants": [simulated_figures(one) for one in done],
            "beyond": [
                {"name": mutant.name, "why": why}
                for mutant in mutants
                if (why := why_beyond(mutant))
            ],
        },
        path=arguments.json or Path("build/proof/mutants-sim.json"),
        line=f"mutants-sim: {found} of {len(done)} mutants that a cluster can meet were found "
        f"within {arguments.seeds} seeds each, {len(stale)} committed ones are stale; "
        f"{seconds:.0f} s",
    )
    return 1 if stale or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
