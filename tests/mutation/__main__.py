"""`make mutation MODULE=bookie.protocol.quorum`: plants every mutant of a module, or of a package;
with SAMPLE=300 a sample of them.
`make mutation-nightly SAMPLE=2000 SEED=7`: a sample of those of all that safety rests on.
`make mutation-map`: records again which tests reach which lines.

Exit code 0: all were noticed or are listed as equivalent (nightly: as many as LEAST says); 1: some
survived, or an entry of the list is stale; 2: wrong usage.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import mutation_equivalents as equivalents
from mutation_choice import chosen, sample
from mutation_kept import Kept
from mutation_made import made
from mutation_map import BUILD, ROOT, SOURCES, digest, read, record, stale, test_files
from mutation_operators import Mutant, modules_of
from mutation_report import Row, added, figures, row, so_far, survivors, told
from mutation_run import Judged, Outcomes, Place, Task, Work, run
from mutation_session import Outcome

CRITICAL: Final = (
    "bookie.protocol", "bookie.storage", "bookie.boot", "bookie_operator.plan", "bookie.frames",
    "bookie.server", "bookie.metadata", "bookie.client", "bookie.repair", "bookie.wire",
    "bookie.errors", "bookie.ids", "bookie.points", "bookie.progress", "bookie.rows",
)  # fmt: skip
"""The core (`bookie.testing.figures.CORE`) and the planner; the strictest first."""
LEAST: Final = 0.9
"""What a nightly sample must notice, of those that are not equivalent."""


def main() -> int:
    arguments = _arguments()
    names = CRITICAL if arguments.nightly else arguments.modules
    modules = {
        module: file for name in names for module, file in modules_of(name, root=ROOT).items()
    }
    if not modules and not arguments.map:
        print(f"no module or package is named {' or '.join(names) or 'so'}", file=sys.stderr)
        return 2
    files = test_files(arguments.tests)
    is_whole = arguments.map and not arguments.stale
    missing = [] if arguments.recorded else files if is_whole else stale(files)
    if missing:
        print(f"recording which lines {len(missing)} test files reach", flush=True)
        record(missing, workers=arguments.workers)
    if arguments.map:
        return 0
    return _judge(modules, arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="dotted; packages too")
    parser.add_argument("--nightly", action="store_true", help="a sample of all that is critical")
    parser.add_argument("--sample", type=int, help="so many mutants; all without it")
    parser.add_argument("--seed", type=int, default=1, help="which sample")
    parser.add_argument("--map", action="store_true", help="record all again, judge nothing")
    parser.add_argument("--stale", action="store_true", help="--map: only new or changed files")
    parser.add_argument("--tests", nargs="*", default=(), metavar="PATH", help="only these judge")
    parser.add_argument("--seconds", type=float, default=20.0, help="of tests, for each mutant")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--verdicts", type=Path, help="where all verdicts go, and are read first")
    parser.add_argument("--recorded", action="store_true", help="record nothing: judge by what is")
    parser.add_argument("--quick", action="store_true", help="but for what runs at import")
    parser.add_argument("--last", type=Path, metavar="JSON", help="only what survived that run")
    parser.add_argument("--afresh", action="store_true", help="judge again what was judged")
    parser.add_argument("--so-far", action="store_true", help="judge nothing: what is known")
    parser.add_argument("--toml", action="store_true", help="survivors as entries of the list")
    parser.add_argument(
        "--equivalents", action="store_true", help="judge those too that are listed as equivalent"
    )
    return parser.parse_args()


def _judge(modules: Mapping[str, str], arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    found = {
        module: made(
            module, file, (ROOT / file).read_text(encoding="utf-8"), folder=BUILD / "mutants"
        )
        for module, file in modules.items()
    }
    listed = equivalents.read(equivalents.PATH.read_text(encoding="utf-8"))
    old = equivalents.stale(listed, found)
    for module, function, diff in old:
        print(f"equivalent.toml: fits no mutant any more: {module} {function}\n{diff}")
    if arguments.last:
        survived = _survivors_of(arguments.last)
        found = {
            module: [
                mutant for mutant in all_of_it if mutant.key[1:] in survived.get(mutant.file, ())
            ]
            for module, all_of_it in found.items()
        }
    if arguments.sample is not None:
        found = sample(found, size=arguments.sample, seed=arguments.seed)
    known = {} if arguments.equivalents else listed
    mutants = {
        module: [mutant for mutant in all_of_it if mutant.key not in known]
        for module, all_of_it in found.items()
    }
    left_out = {module: len(found[module]) - len(mutants[module]) for module in found}
    progress = _Progress(mutants, left_out, began, arguments)
    judged = _run(progress)
    if arguments.so_far:
        progress.so_far(judged.outcomes)
        return 0
    status = progress.report(judged.outcomes)
    return 1 if old else status


def _survivors_of(report: Path) -> dict[str, set[tuple[str, str]]]:
    """Function and diff of each survivor of a report, by file."""
    found: dict[str, set[tuple[str, str]]] = {}
    for one in json.loads(report.read_text(encoding="utf-8"))["survivors"]:
        file = one["where"].partition(":")[0]
        found.setdefault(file, set()).add((one["function"], one["diff"]))
    return found


@dataclass(slots=True)
class _Progress:
    """What is said while mutants are judged, and at the end: the report is written as they come."""

    mutants: Mapping[str, Sequence[Mutant]]
    """By module: those to be judged."""
    left_out: Mapping[str, int]
    """How many of each module are listed as equivalent."""
    began: float
    arguments: argparse.Namespace
    kept: Kept = field(default_factory=lambda: Kept(BUILD / "verdicts.jsonl", cache(_digest)))
    tasks: list[Task] = field(default_factory=list)
    """Of all modules: whose verdicts the report rests on."""

    def judged(self, task: Task, outcome: Outcome) -> None:
        self.kept.keep(task, outcome)

    def done(self, module: str, outcomes: Outcomes) -> None:
        for mutant, verdict in survivors(self.mutants[module], outcomes[module]):
            print(equivalents.entry(mutant) if self.arguments.toml else told(mutant, verdict))
        newest = row(module, outcomes[module], equivalent=self.left_out[module])
        self.so_far(outcomes, line=str(newest))

    def so_far(self, outcomes: Outcomes, *, line: str = "") -> None:
        """The report of a run that is not at its end: of what is judged, and no more."""
        begun = {module: so_far(found) for module, found in outcomes.items() if any(found)}
        self._write(begun, line=line)

    def report(self, outcomes: Outcomes) -> int:
        """Of all modules: what was not judged by now survives."""
        total = self._write({module: outcomes.get(module, []) for module in self.mutants})
        if self.arguments.nightly:
            return 0 if total.share >= LEAST else 1
        return 1 if total.survived else 0

    def _write(self, found: Outcomes, *, line: str = "") -> Row:
        sys.path[:0] = [str(ROOT / source) for source in SOURCES]
        from bookie.testing.figures import tell  # not before: a worker must import the copy

        rows = [row(name, found[name], equivalent=self.left_out[name]) for name in sorted(found)]
        survived = [one for name in found for one in survivors(self.mutants[name], found[name])]
        total = added("total", rows)
        if self.arguments.verdicts:
            self.kept.write(self.arguments.verdicts, self.tasks)
        seconds = time.monotonic() - self.began
        more: dict[str, object] = {"date": time.strftime("%Y-%m-%d"), "seconds": round(seconds, 1)}
        if self.arguments.sample is not None:
            more |= {"sample": self.arguments.sample, "seed": self.arguments.seed}
            more["seconds_of_tests"] = self.arguments.seconds
        tell(
            "make mutation-nightly" if self.arguments.nightly else "make mutation",
            figures(rows, survived, more),
            path=self.arguments.json or ROOT / "build" / "proof" / "mutation.json",
            line=line or f"{total}; {seconds:.0f} s",
        )
        return total


def _run(progress: _Progress) -> Judged:
    arguments = progress.arguments
    reach = read({mutant.file for found in progress.mutants.values() for mutant in found})
    wanted = tuple(arguments.tests)
    if wanted:
        reach.tests = {i: t for i, t in reach.tests.items() if t.file.startswith(wanted)}
    tasks = {
        module: [
            Task(
                mutant,
                tuple(chosen(mutant, reach, seconds=arguments.seconds)),
                any((mutant.file, line) in reach.at_import for line in mutant.lines),
            )
            for mutant in found
        ]
        for module, found in progress.mutants.items()
        if found
    }
    progress.kept.read(*filter(None, [arguments.verdicts]))
    progress.tasks = [task for of_module in tasks.values() for task in of_module]
    if arguments.so_far:
        found = {module: [*map(progress.kept.last_of, of)] for module, of in tasks.items()}
        return Judged(found)
    known = {} if arguments.afresh else _known(tasks, progress.kept)
    if known:
        print(f"{len(known)} were judged by an earlier run, and hold", flush=True)
    seconds = {test.id: test.seconds for test in reach.tests.values()}
    work = Work(tasks, seconds, arguments.quick, known)
    judged = run(work, workers=arguments.workers, listener=progress)
    for what, module in judged.dropped.items():
        print(f"judges nothing, fails without any mutant: {what} ({module})")
    return judged


def _known(tasks: Mapping[str, Sequence[Task]], kept: Kept) -> dict[Place, Outcome]:
    return {
        (module, index): outcome
        for module, found in tasks.items()
        for index, task in enumerate(found)
        if (outcome := kept.of(task))
    }


def _digest(file: str) -> str:
    path = ROOT / file
    return digest(path) if path.is_file() else ""


if __name__ == "__main__":
    sys.exit(main())
