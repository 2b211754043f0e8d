"""Which models are run, and what became of them: the gate of every change, and the nightly runs."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from model_gentle import CONDITIONS, ENDS_WRITERS, GENTLE, LIVES_ON, quick
from model_ledger import LedgerModel
from model_mutants import (
    CHOOSES_UNCLEAN,
    E0_ACKED,
    FINDS_NOTHING,
    MUTANTS,
    NOTHING,
    ONLY_ON_B2,
    STUCK,
    Case,
    Mutant,
    begin,
)
from model_published import SCENARIO_1, SCENARIO_2, Stage, replay
from model_rules import BootFence, Bounds, Rules
from model_search import Found, Search
from model_story import Move, summary, tell

GATE = (
    Bounds(crashes=3),
    Bounds(write_quorum=2, crashes=2),
    Bounds(ack_quorum=3, crashes=2),
    Bounds(spares=1, writer_changes=1),
    Bounds(spares=1, recovery_changes=1),
    Bounds(write_quorum=2, spares=1, writer_changes=1, recovery_changes=1, attempts=2),
    CHOOSES_UNCLEAN,
)
GATE_CASES = quick("striped, two entries", "a drain moves what came before")
PLANTED = (*MUTANTS, *CONDITIONS)
CHOSEN_BY_RECOVERER = Bounds(
    write_quorum=2, crashes=2, spares=1, recovery_changes=1, slow_boot=True
)
TWO_OF_THREE = Bounds(write_quorum=2, ensemble=3)
NIGHTLY = (
    Bounds(crashes=3, partial_loss=True, disk_loss=True),
    Bounds(crashes=3, slow_boot=True),
    Bounds(crashes=2, accept_loss=True),
    Bounds(crashes=2, disk_loss=True, delete=True),
    Bounds(io_errors=True, retries=True),
    Bounds(write_quorum=4, crashes=1),
    Bounds(spares=1, writer_changes=1, recovery_changes=1),
    Bounds(entries=2, crashes=0),
    Bounds(recoverers=2, crashes=0),
    Bounds(write_quorum=2, recoverers=2, spares=1, recovery_changes=1),
    Bounds(write_quorum=2, entries=2, spares=1, writer_changes=1, recovery_changes=1),
    Bounds(write_quorum=2, entries=2, crashes=2, retries=True, reader=True),
    Bounds(write_quorum=2, recoverers=2, crashes=2, retries=True),
    replace(TWO_OF_THREE, entries=2),
    replace(TWO_OF_THREE, ensemble=4),
    replace(TWO_OF_THREE, spares=1, writer_changes=1),
    TWO_OF_THREE,
    replace(CHOOSES_UNCLEAN, slow_boot=True, slow_clear=True),
    replace(CHOOSES_UNCLEAN, slow_boot=True, recovery_changes=1),
    replace(CHOSEN_BY_RECOVERER, slow_clear=True, attempts=2),
    replace(CHOSEN_BY_RECOVERER, disk_loss=True, retries=True),
    replace(CHOSEN_BY_RECOVERER, stale_starts=True, retries=True),
)
"""The last five: who chooses a bookie that booted unclean, and when that bookie looked."""


SEEDED = (
    Case("e0 acknowledged", Bounds(entries=2), start=E0_ACKED),
    Case("R1 is to close", Bounds(recoverers=2, crashes=2), start=(*ONLY_ON_B2, *FINDS_NOTHING)),
    *(
        Case(f"from the start of {mutant.name}", mutant.bounds, start=mutant.start)
        for mutant in MUTANTS
        if mutant.start
    ),
)
"""Two entries with crashes, and the product's rules from where the mutants begin."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line for people, one row for the figures, and the story when something is wrong."""

    line: str
    row: dict[str, Any]
    is_right: bool
    story: tuple[str, ...] = ()


def described(bounds: Bounds) -> str:
    """3/3/2, 1 entry, up to 1 crash, and whatever differs from the smallest model."""
    size, copies, acks = bounds.ensemble_size, bounds.write_quorum, bounds.ack_quorum
    said = [
        f"{size}/{copies}/{acks}",
        _count(bounds.entries, "entry", "entries"),
        "no crash" if not bounds.crashes else f"up to {_count(bounds.crashes, 'crash', 'crashes')}",
    ]
    if bounds.restarts:
        said.append(f"up to {_count(bounds.restarts, 'clean restart', 'clean restarts')}")
    if bounds.recoverers > 1:
        said.append(f"{bounds.recoverers} recoverers")
    if bounds.attempts > 1:
        said.append(f"{bounds.attempts} attempts")
    if bounds.spares:
        said.append(f"{_count(bounds.spares, 'spare', 'spares')}")
        said.append(f"ensemble changes {bounds.writer_changes}+{bounds.recovery_changes}")
    if bounds.moves:
        said.append(f"up to {_count(bounds.moves, 'move', 'moves')}")
    flags = [f.name.replace("_", " ") for f in fields(bounds) if getattr(bounds, f.name) is True]
    return ", ".join([*said, *flags])


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def check(
    bounds: Bounds,
    rules: Rules | None = None,
    *,
    start: Sequence[Move] = (),
    name: str = "",
    states_max: int | None = None,
) -> Outcome:
    """One model, by default under the product's rules: all must hold, explored to the end."""
    rules = rules or Rules()
    model = LedgerModel(bounds, rules, begin(bounds, rules, start))
    found = Search(model, states_max=states_max).run()
    said = "holds"
    if found.violation:
        said = f"VIOLATED in {found.steps} steps: {found.violation}"
    elif not found.is_complete:
        said = "not explored to the end"
    elif found.stuck or found.unreported:
        said = f"STUCK in {found.stuck} states, unreported in {found.unreported}"
    elif found.waiting:
        said = f"holds; {found.waiting:,} states beyond the budget wait, reported"
    title = f"{name}: {described(bounds)}" if name else described(bounds)
    row = {"model": title, "bounds": asdict(bounds), **_figures(found)}
    story = tuple(tell(model, found.path))
    return Outcome(f"{title}: {_size(found)}: {said}", row, found.is_right, story)


def check_case(case: Case, *, states_max: int | None = None) -> Outcome:
    """One model with a name, a start or rules of its own."""
    return check(case.bounds, case.rules, start=case.start, name=case.name, states_max=states_max)


def _size(found: Found) -> str:
    return (
        f"{found.states:,} states, {found.edges:,} steps, depth {found.depth}, "
        f"{found.seconds:.1f} s"
    )


def _figures(found: Found) -> dict[str, Any]:
    return {
        "states": found.states,
        "edges": found.edges,
        "depth": found.depth,
        "seconds": round(found.seconds, 2),
        "complete": found.is_complete,
        "violation": found.violation,
        "stuck": found.stuck,
        "waiting_beyond_budget": found.waiting,
        "unreported": found.unreported,
    }


def plant(mutant: Mutant) -> Outcome:
    """One broken rule: what the model says of it against what it must say."""
    model, found = mutant.run()
    steps = found.steps + len(mutant.start) if found.violation else 0
    is_right = mutant.is_as_expected(found)
    if found.violation:
        said = f"{steps} steps: {found.violation}"
    elif mutant.expects == STUCK:
        said = f"{found.stuck:,} stuck states, the first after {found.steps} steps"
    else:
        said = "not detected in the model; by " + ", ".join(mutant.directed)
    if not is_right:
        said += f"; EXPECTED {mutant.expects}"
    row = {
        "mutant": mutant.name,
        "breaks": mutant.breaks,
        "expected": mutant.expects,
        "steps": steps,
        "as_expected": is_right,
        "directed": list(mutant.directed),
        **_figures(found),
    }
    story = tuple(tell(model, found.path))
    return Outcome(f"{mutant.name} ({mutant.breaks}): {said}", row, is_right, story)


PUBLISHED_RUNS = (
    (
        "BP-46 scenario 1",
        SCENARIO_1,
        Bounds(entries=2),
        Rules(boot_fence=BootFence.NONE, fence_durable=False, marks_refuse=False),
    ),
    ("BP-46 scenario 2", SCENARIO_2, Bounds(), Rules(limbo=False)),
)


def replay_published() -> Iterator[Outcome]:
    """Each published order must be a path to a violation without its protection, and none with."""
    for name, stages, bounds, broken in PUBLISHED_RUNS:
        yield _replayed(name, stages, bounds, broken)


def _replayed(name: str, stages: tuple[Stage, ...], bounds: Bounds, broken: Rules) -> Outcome:
    model = LedgerModel(bounds, broken)
    bare = replay(model, stages)
    guarded = replay(LedgerModel(bounds, Rules()), stages)
    is_right = bool(bare.violation) and bool(guarded.stopped_at)
    line = (
        f"{name}: unprotected: {bare.violation or bare.stopped_at} "
        f"({summary(model, bare.state)}); protected, it stops at: {guarded.stopped_at or 'NOTHING'}"
    )
    row = {
        "scenario": name,
        "unprotected": bare.violation,
        "protected_stops_at": guarded.stopped_at,
        "as_expected": is_right,
    }
    return Outcome(line, row, is_right)


def replay_gentle() -> Outcome:
    """The story that the gentler rule is for: a path with it, none without it."""
    bounds = Bounds(entries=2, spares=1, writer_changes=1)
    model = LedgerModel(bounds, GENTLE)
    lives = replay(model, LIVES_ON)
    before = replay(LedgerModel(bounds, ENDS_WRITERS), LIVES_ON)
    is_right = not (lives.stopped_at or lives.violation) and bool(before.stopped_at)
    line = (
        f"a writer lives on: {summary(model, lives.state)}; "
        f"by the rules of 0.1.0 it stops at: {before.stopped_at}"
    )
    row = {
        "scenario": "a writer lives on",
        "stops_at": lives.stopped_at,
        "before_stops_at": before.stopped_at,
        "as_expected": is_right,
    }
    return Outcome(line, row, is_right)


def counted(mutants: list[Outcome]) -> str:
    """How the mutants were seen."""
    hidden = sum(row.row["expected"] == NOTHING for row in mutants)
    stuck = sum(row.row["expected"] == STUCK for row in mutants)
    found = len(mutants) - hidden - stuck
    return f"{found} violate, {stuck} get stuck, {hidden} are hidden and have directed tests"
