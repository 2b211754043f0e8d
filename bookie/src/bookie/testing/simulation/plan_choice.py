"""Which plan a seed means.

Seeds below `SECOND_FROM` draw single faults. Every one uses its own subset of them and its own
sizes (swarm): a fault that is always there hides what only happens without it. Seeds from there on
draw strokes, faults that belong together (`strokes`); from `MENDS_FROM` on every ledger is repaired
now and then besides, and half of the plans are about just that (`strokes_of_mends`); those from
`LIVES_FROM` on are about writers that go on after a crash (`strokes_of_writers`).
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bookie.testing.simulation.families import family_plan, ordered
from bookie.testing.simulation.plan import LOAD_S, Fault, Plan, Scale
from bookie.testing.simulation.strokes_of_mends import mend_faults
from bookie.testing.simulation.strokes_of_writers import live_faults

_WEIGHTS: Final[Mapping[str, float]] = {
    "power-cut": 3, "kill": 2, "crash-operation": 3, "crash-point": 3, "replace-disk": 1,
    "disk-error": 1,
    "disk-full": 0.7, "bit-flip": 0.5, "lying-sync": 0.4, "clean-restart": 1, "isolate": 1.5,
    "partition": 1.5, "slow": 1, "reset": 1.5, "store-outage": 1, "store-partition": 1,
    "session-loss": 1, "clock-jump": 0.3, "kill-repair": 1, "kill-client": 1,
    "loss": 1, "doubling": 1, "lost-replies": 1, "stale-listing": 1,
}  # fmt: skip
KINDS: Final = tuple(sorted(_WEIGHTS))
"""Faults of the first drawing."""
SECOND_FROM: Final = 1_000_001
"""The first seed whose plan is drawn of strokes."""
MENDS_FROM: Final = 2_000_001
"""From here on the repairer repairs every ledger now and then, also while writers go on."""
MENDS_SHARE: Final = 0.5
LIVES_FROM: Final = 3_000_001
"""From here on bookies forget, and are back before their writers have noticed."""
_QUORUMS: Final = (
    (3, 3, 2),
    (3, 3, 2),
    (3, 3, 2),
    (3, 2, 2),
    (4, 3, 2),
    (4, 2, 2),
    (2, 2, 2),
    (3, 3, 3),
)


def plan_of(seed: int) -> Plan:
    """The plan of a seed; the same for ever, as recorded totals and directed seeds rely on it."""
    plan = _plan_of(seed)
    idle_flushes = random.Random(f"notes/{seed}").choice((1, 1, 1, 2, None))
    return replace(plan, scale=replace(plan.scale, note_idle_flushes=idle_flushes))


def _plan_of(seed: int) -> Plan:
    if seed < SECOND_FROM:
        return _single_faults(seed)
    plan = family_plan(seed)
    if seed < MENDS_FROM:
        return plan
    if seed >= LIVES_FROM:
        return ordered(seed, *live_faults(random.Random(f"lives/{seed}")))
    rng = random.Random(f"mends/{seed}")
    if rng.random() < MENDS_SHARE:
        return ordered(seed, *mend_faults(rng))
    return replace(plan, scale=replace(plan.scale, mends_every=rng.choice((1, 2, 4))))


def _single_faults(seed: int) -> Plan:
    rng = random.Random(f"plan/{seed}")
    scale = _scale(rng)
    keeps_budget = rng.random() < 0.8
    kinds = _swarm(rng)
    count = rng.choice((0, 1, 2, 3, 4, 6, 8, 12))
    faults = [_fault(rng, kinds, scale) for _ in range(count)]
    return Plan(seed, scale, tuple(sorted(faults, key=lambda f: f.at_s)), keeps_budget)


def _scale(rng: random.Random) -> Scale:
    ensemble, write_quorum, ack_quorum = rng.choice(_QUORUMS)
    is_log = rng.random() < 0.2
    return Scale(
        bookies=ensemble + rng.choice((0, 1, 1, 2)),
        ledger_dirs=rng.choice((1, 1, 2)),
        mode=rng.choice(("memory",) * 6 + ("sync", "journal")),
        ensemble=ensemble,
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        writers=0 if is_log else rng.choice((1, 1, 2)),
        logs=rng.choice((1, 2, 2, 3)) if is_log else 0,
        readers=rng.choice((0, 1, 1, 2)),
        recoverers=rng.choice((0, 0, 1, 1, 2)),
        deletions=rng.choice((0, 0, 0, 1)),
        entries=rng.choice((3, 10, 30, 100, 1000)),
        pause_s=rng.choice((0.05, 0.2, 0.5)),
        between_s=rng.choice((0.5, 3.0)),
        burst=rng.choice((1, 1, 2, 8)),
        flush_s=rng.choice((0.5, 3.0, 60.0, 60.0)),
        latency_s=rng.choice((0.0002, 0.001, 0.01)),
        repair_s=rng.choice((0.5, 2.0, 6.0)),
        work_s=rng.choice((0.0002, 0.001, 0.01)),
    )


def _swarm(rng: random.Random) -> Sequence[str]:
    chosen = [kind for kind in KINDS if rng.random() < 0.4]
    return chosen or [rng.choice(KINDS)]


def _fault(rng: random.Random, kinds: Sequence[str], scale: Scale) -> Fault:
    kind = rng.choices(kinds, [_WEIGHTS[one] for one in kinds])[0]
    who = rng.randrange(scale.bookies)
    return Fault(
        round(0.5 + rng.random() * (LOAD_S - 1.0), 3),
        kind,
        who,
        other=(who + 1 + rng.randrange(scale.bookies)) % (scale.bookies + 1),
        lasts_s=round(rng.choice((0.05, 0.5, 2.0, 5.0)) * (0.5 + rng.random()), 3),
        size=round(rng.random(), 4),
    )
