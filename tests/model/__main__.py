"""`python tests/model`: the protocol's model, its mutants and the published counterexamples.

Without options, the gate; `--nightly`, the larger models; `--gentle` and `--dirty`, more of writers
that live on and of dirty notes; with any bound, that one model; with `--mutant NAME`, that broken
rule with its story.
"""

import argparse
import sys
import time
from collections.abc import Iterable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import chain
from pathlib import Path

import model_dirty
from bookie.testing.figures import tell
from model_gentle import CONDITIONS, LONG, QUICK
from model_rules import Bounds
from model_runs import (
    GATE,
    GATE_CASES,
    NIGHTLY,
    PLANTED,
    SEEDED,
    Outcome,
    check,
    check_case,
    counted,
    plant,
    replay_gentle,
    replay_published,
)

DEFAULT_JSON = Path("build/proof/model.json")


@dataclass(frozen=True, slots=True)
class Runs:
    """All that was run."""

    published: list[Outcome] = field(default_factory=list)
    models: list[Outcome] = field(default_factory=list)
    mutants: list[Outcome] = field(default_factory=list)

    @property
    def states(self) -> int:
        return sum(one.row["states"] for one in (*self.models, *self.mutants))

    @property
    def wrong(self) -> int:
        return sum(not one.is_right for one in (*self.published, *self.models, *self.mutants))

    def line(self, seconds: float) -> str:
        """The one line of figures."""
        said = [f"model: {self.states:,} states in {seconds:.0f} s"]
        if self.models:
            said.append(f"{len(self.models)} models")
        if self.mutants:
            said.append(f"{len(self.mutants)} mutants ({counted(self.mutants)})")
        if self.published:
            said.append(f"{len(self.published)} published scenarios replayed")
        return ", ".join([*said, f"{self.wrong} wrong" if self.wrong else "all as expected"])


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests/model", description=__doc__)
    parser.add_argument("--json", type=Path, default=DEFAULT_JSON, help="where the figures go")
    parser.add_argument("--nightly", action="store_true", help="the larger models")
    parser.add_argument("--gentle", action="store_true", help="more of writers that live on")
    parser.add_argument("--dirty", action="store_true", help="the dirty notes")
    parser.add_argument("--mutant", choices=[m.name for m in PLANTED], help="one broken rule")
    parser.add_argument("--workers", type=int, default=2, help="processes at once")
    parser.add_argument("--states-max", type=int, help="stop after so many states")
    sizes = parser.add_argument_group("one model of these bounds")
    for bound in fields(Bounds):
        flag = "--" + bound.name.replace("_", "-")
        if isinstance(bound.default, bool):
            sizes.add_argument(flag, action="store_true", default=None)
        else:
            sizes.add_argument(flag, type=int, help=f"{bound.default} if not given")
    return parser


def chosen_bounds(chosen: argparse.Namespace) -> Bounds | None:
    """The bounds named on the command line, None when there are none."""
    given = {bound.name: getattr(chosen, bound.name) for bound in fields(Bounds)}
    named = {name: value for name, value in given.items() if value is not None}
    return Bounds(**named) if named else None


def show(outcomes: Iterable[Outcome], *, stories: bool = False) -> list[Outcome]:
    """One line each as they come; the story of whatever is wrong, or of all."""
    seen = []
    for outcome in outcomes:
        print(("" if outcome.is_right else "WRONG ") + outcome.line, flush=True)
        if stories or not outcome.is_right:
            print("".join(f"  {line}\n" for line in outcome.story), end="", flush=True)
        seen.append(outcome)
    return seen


def run(chosen: argparse.Namespace, workers: Executor) -> Runs:
    """What the options ask for."""
    bounds, most = chosen_bounds(chosen), chosen.states_max
    checked = partial(check, states_max=most)
    checked_case = partial(check_case, states_max=most)
    if chosen.mutant:
        wanted = [mutant for mutant in PLANTED if mutant.name == chosen.mutant]
        return Runs(mutants=show(map(plant, wanted), stories=True))
    if bounds is not None:
        return Runs(models=show([checked(bounds)]))
    if chosen.gentle:
        models = workers.map(checked_case, QUICK)
        mutants = workers.map(plant, CONDITIONS)
        return Runs(show([replay_gentle()]), show(models), show(mutants))
    if chosen.dirty:
        models = workers.map(checked_case, model_dirty.QUICK)
        return Runs(models=show(models), mutants=show(workers.map(plant, model_dirty.LIES)))
    if chosen.nightly:
        larger = chain(
            workers.map(checked_case, SEEDED),
            workers.map(checked, NIGHTLY),
            workers.map(checked_case, (*LONG, *model_dirty.LONG)),
        )
        return Runs(models=show(larger))
    models = chain(workers.map(checked, GATE), workers.map(checked_case, GATE_CASES))
    published = (*replay_published(), replay_gentle())
    return Runs(show(published), show(models), show(workers.map(plant, PLANTED)))


def main() -> int:
    chosen = options().parse_args()
    started = time.perf_counter()
    with ProcessPoolExecutor(chosen.workers) as workers:
        runs = run(chosen, workers)
    figures = {
        "models": [one.row for one in runs.models],
        "mutants": [one.row for one in runs.mutants],
        "published": [one.row for one in runs.published],
        "states": runs.states,
        "seconds": round(time.perf_counter() - started, 1),
        "wrong": runs.wrong,
    }
    command = " ".join(["python tests/model", *sys.argv[1:]])
    tell(command, figures, path=chosen.json, line=runs.line(time.perf_counter() - started))
    return 1 if runs.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
