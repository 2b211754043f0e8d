"""What one seed means to the operator: a cluster, a load and faults, and what people wish for.

Drawn whole before anything runs, as the simulation's own plans are.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bookie.testing.simulation.plan import Fault, Plan, Scale

LOAD_S: Final = 14.0
FIRST_S: Final = 2.0
"""By then bookies serve and writers write."""
WEIGHTS: Final[Mapping[str, float]] = {
    "kill": 3, "power-cut": 3, "crash-operation": 2, "crash-point": 2, "replace-disk": 3,
    "disk-error": 1, "disk-full": 0.5, "clean-restart": 1, "sleep-bookie": 1.5,
    "isolate": 1, "partition": 1.5, "slow": 1, "reset": 1, "lag": 1,
    "store-outage": 1, "store-partition": 1, "session-loss": 1, "slow-store": 1,
    "lost-replies": 1, "stale-listing": 1, "loss": 1, "doubling": 1, "clock-jump": 0.5,
    "kill-repair": 3, "kill-client": 1.5, "sleep-client": 1,
}  # fmt: skip
"""Kinds of the simulation. `kill-repair` kills the operator; a client may be one of its jobs."""
KINDS: Final = tuple(sorted(WEIGHTS))
QUORUMS: Final = ((3, 3, 2), (3, 3, 2), (3, 3, 2), (3, 2, 2), (4, 3, 2), (4, 2, 2), (3, 3, 3))


WISHES: Final = (
    "settings", "settings", "settings", "mode", "scale", "scale", "scale", "replace-disk",
    "replace-disk", "pause", "sleep", "repair", "repair-of-one", "audit", "scrub", "rereplicate",
)  # fmt: skip
"""What people ask for (`planned_person`); `sleep` is of the operator's process."""


LEAVES: Final = ("exclude", "exclude", "lose")
"""Of one bookie: the spec excludes its number, or wants it again; its machine is lost for good."""


@dataclass(frozen=True, slots=True)
class Wish:
    """`who`: number of a bookie, or of replicas beyond the ensemble; `size`: 0..1."""

    at_s: float
    kind: str
    who: int = 0
    size: float = 0.0


@dataclass(frozen=True, slots=True)
class PlannedPlan:
    """`plan`: what the simulation itself does. `spec`: as a person first writes it."""

    plan: Plan
    spec: Mapping[str, Any]
    tick_s: float = 0.5
    """Between two passes of the operator."""
    keeps_claims: bool = False
    """A new disk comes under the volume that was."""
    job_start_s: float = 0.0
    """From a job's start until it works, as a pod takes its time: limbo lasts as long."""
    wishes: tuple[Wish, ...] = ()

    @property
    def seed(self) -> int:
        return self.plan.seed


def plan_of(seed: int) -> PlannedPlan:
    """The same for ever."""
    rng = random.Random(f"planned/{seed}")
    scale = _scale(rng)
    kinds = [kind for kind in KINDS if rng.random() < 0.4] or [rng.choice(KINDS)]
    faults = [_fault(rng, kinds, scale) for _ in range(rng.choice((1, 2, 3, 4, 6, 8)))]
    wishes = [_wish(rng) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    if rng.random() < 0.5:
        rolled, struck = _disturbed_roll(rng, scale)
        wishes, faults = [*wishes, rolled], [*faults, *struck]
    plan = Plan(seed, scale, tuple(sorted(faults, key=lambda fault: fault.at_s)))
    spec = spec_of(
        scale,
        replicas=rng.randint(scale.ensemble, scale.bookies),
        audit_s=rng.choice((5, 20, 3600)),
        fixes={
            "policy": rng.choice(("Auto",) * 4 + ("Approve",)),
            "windowSeconds": rng.choice((0, 2, 600)),
        },
    )
    spec["retention"] = {"whenScaled": rng.choice(("Retain", "Delete"))}
    made = PlannedPlan(
        plan,
        spec,
        rng.choice((0.2, 0.5, 1.0)),
        keeps_claims=rng.random() < 0.5,
        job_start_s=rng.choice((0.0, 0.0, 1.0, 3.0)),
    )
    if rng.random() < 0.4:
        spec["lostBookieDelaySeconds"] = rng.choice((1, 5, 3600))
        wishes += [_wish(rng, LEAVES) for _ in range(rng.choice((1, 1, 2)))]
    return replace(made, wishes=tuple(sorted(wishes, key=lambda wish: wish.at_s)))


def _wish(rng: random.Random, kinds: Sequence[str] = WISHES) -> Wish:
    return Wish(
        round(FIRST_S + rng.random() * (LOAD_S - FIRST_S), 3),
        rng.choice(kinds),
        rng.randrange(12),
        round(rng.random(), 4),
    )


def _disturbed_roll(rng: random.Random, scale: Scale) -> tuple[Wish, list[Fault]]:
    """Settings that restart every bookie, and bookies that go down just before and meanwhile."""
    at_s = FIRST_S + rng.random() * (LOAD_S - FIRST_S - 4.0)
    faults = [
        Fault(
            round(at_s + 3.0 * rng.random() - 1.0, 3),
            rng.choice(("kill", "power-cut", "clean-restart", "replace-disk")),
            rng.randrange(scale.bookies),
            lasts_s=rng.choice((0.2, 1.0, 4.0)),
            size=round(rng.random(), 4),
        )
        for _ in range(rng.choice((1, 2)))
    ]
    return Wish(round(at_s, 3), "settings", size=round(rng.random(), 4)), faults


def _scale(rng: random.Random) -> Scale:
    ensemble, write_quorum, ack_quorum = rng.choice(QUORUMS)
    return Scale(
        bookies=ensemble + rng.choice((0, 1, 1, 2)),
        ledger_dirs=rng.choice((1, 1, 2)),
        mode=rng.choice(("memory",) * 4 + ("sync", "journal")),
        ensemble=ensemble,
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        writers=rng.choice((1, 1, 2)),
        readers=rng.choice((0, 1)),
        recoverers=rng.choice((0, 1)),
        deletions=rng.choice((0, 0, 0, 1)),
        entries=rng.choice((3, 10, 30, 100)),
        pause_s=rng.choice((0.05, 0.2, 0.5)),
        between_s=rng.choice((0.5, 3.0)),
        burst=rng.choice((1, 2, 8)),
        flush_s=rng.choice((0.5, 3.0, 60.0)),
        latency_s=rng.choice((0.0002, 0.001, 0.01)),
        work_s=rng.choice((0.0002, 0.001, 0.01)),
        load_s=LOAD_S,
        patience_s=0.5,
    )


def _fault(rng: random.Random, kinds: list[str], scale: Scale) -> Fault:
    kind = rng.choices(kinds, [WEIGHTS[one] for one in kinds])[0]
    who = rng.randrange(scale.bookies)
    return Fault(
        round(FIRST_S + rng.random() * (LOAD_S - FIRST_S - 0.5), 3),
        kind,
        who,
        other=(who + 1 + rng.randrange(scale.bookies)) % (scale.bookies + 1),
        lasts_s=round(rng.choice((0.05, 0.5, 2.0, 5.0)) * (0.5 + rng.random()), 3),
        size=round(rng.random(), 4),
    )


def spec_of(
    scale: Scale, *, replicas: int, audit_s: int, fixes: Mapping[str, Any]
) -> dict[str, Any]:
    """A BookieCluster's spec for such a cluster; waits are short, as the simulation is."""
    disks = [{"name": "journal", "role": "journal"}]
    disks += [{"name": f"ledger-{n}", "role": "ledger"} for n in range(scale.ledger_dirs)]
    return {
        "tls": {"mode": "Off"},  # simulated connections make no handshakes
        "replicas": replicas,
        "quorum": {
            "ensemble": scale.ensemble, "write": scale.write_quorum, "ack": scale.ack_quorum,
        },
        "journalWriteData": scale.mode == "journal",
        "ack": "sync" if scale.mode == "sync" else "memory",
        "flushIntervalSeconds": scale.flush_s,
        "storage": {"disks": disks},
        "cookieFix": dict(fixes),
        "repair": {
            "engine": "inline", "backoffSeconds": 1.0, "backoffMaxSeconds": 8.0,
            "deadlineSeconds": 60,
        },
        "audit": {
            "engine": "inline", "schedule": f"@every {audit_s}s", "recheckDelaySeconds": 0.3,
        },
        "gracePeriodSeconds": 60,
    }  # fmt: skip
