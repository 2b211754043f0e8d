"""Strokes with a cluster that fits them: one kind of wrong, again and again in one seed.

A broad seed mixes strokes under whatever load it drew, and most never meet what they are about: the
copies were flushed long ago, no bookie was left to come instead, the mode forgets nothing. Here the
stroke says which cluster it wishes, chance draws that and the rest, and its faults say whom they
mean (`plan.Fault.aim`). What happens between them stays the network's and the loop's.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from bookie.testing.simulation.plan import Fault, Scale

FIRST_S: Final = 0.8
"""By then bookies serve and writers write."""
PAUSES: Final = {"recoverer": 0.05, "writer": 0.2, "result": 0.4, "repair": 0.55, "clear": 0.7,
                 "fence": 0.9}  # fmt: skip
"""Size of a pause -> the place (`aimed.PLACES`) that it chooses."""
AFTER: Final = {"fence": 0.0, "add": 0.1, "recovery add": 0.2, "clear": 0.3}
"""Size of a cut -> the answer (`aimed.ANSWERS`) that it follows."""
SYNCED: Final = ("sync", "sync", "journal")


@dataclass(frozen=True, slots=True)
class AimedStroke:
    """`every_s`: from one to the next. `scale` makes the cluster of what was drawn anyway."""

    draw: Callable[[random.Random, float, int], list[Fault]]
    scale: Callable[[random.Random], dict[str, Any]]
    every_s: float = 2.0
    weight: int = 1
    keeps_budget: bool = True


def aimed_plan(rng: random.Random, scale: Scale) -> tuple[Scale, list[Fault], bool]:
    """A cluster, the faults, and whether they keep the loss budget."""
    chosen = rng.choices(AIMED, [one.weight for one in AIMED])[0]
    wished = replace(scale, **{**_calm(rng), **chosen.scale(rng)})
    faults: list[Fault] = []
    at = FIRST_S + 0.4 * rng.random()
    while at < wished.load_s - chosen.every_s * 0.8:
        faults += chosen.draw(rng, at, rng.randrange(wished.bookies))
        at += chosen.every_s * (0.9 + 0.2 * rng.random())
    return wished, faults, chosen.keeps_budget


def _calm(rng: random.Random) -> dict[str, Any]:
    """A cluster that does little beside what the stroke is about."""
    return {
        "mode": "memory",
        "writers": 1,
        "logs": 0,
        "readers": rng.choice((0, 0, 1)),
        "recoverers": 0,
        "askers": 1,
        "entries": rng.choice((8, 20, 60)),
        "pause_s": rng.choice((0.05, 0.1)),
        "between_s": 0.2,
        "burst": rng.choice((1, 2, 4)),
        "flush_s": rng.choice((0.5, 60.0, 60.0)),
        "latency_s": rng.choice((0.0005, 0.002)),
        "repair_s": rng.choice((0.3, 1.0)),
        "work_s": rng.choice((0.0005, 0.002, 0.01)),
        "pipeline": rng.choice((2, 8)),
        "patience_s": 0.1,
        **_quorum(rng, (3, 3, 2), (3, 3, 2), (3, 3, 2), (3, 2, 2), (4, 3, 2), (4, 2, 2)),
    }


def _quorum(rng: random.Random, *wished: tuple[int, int, int], spares: int = 1) -> dict[str, Any]:
    ensemble, write_quorum, ack_quorum = rng.choice(wished)
    return {
        "bookies": ensemble + spares,
        "ensemble": ensemble,
        "write_quorum": write_quorum,
        "ack_quorum": ack_quorum,
    }


def _size(rng: random.Random, choice: float = 0.0) -> float:
    """The choice, and below a hundredth of it whatever else the size decides."""
    return round(choice + 0.009 * rng.random(), 6)


def _rests(rng: random.Random, at: float, lasts: float, kind: str = "idle-client") -> Fault:
    return Fault(at, kind, 0, 0, lasts, 0.2)


def _rival(at: float) -> Fault:
    return Fault(at, "recover-now")


def _pause(rng: random.Random, at: float, what: str, lasts: float, *, after: int = 0) -> Fault:
    return Fault(at, "pause", rng.randrange(6), after, lasts, PAUSES[what])


def _tails(rng: random.Random) -> dict[str, Any]:
    """There is something to write back, and not without whoever comes instead."""
    return {"burst": 8, "entries": 60, "repair_s": rng.choice((0.3, 4.0, 4.0)),
            "flush_s": rng.choice((0.5, 60.0)),
            **_quorum(rng, (3, 3, 3), (2, 2, 2), (3, 3, 3), (3, 2, 2))}  # fmt: skip


# Recoverers that stop between two steps
def _brought_in(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A recoverer brings a bookie in, which then forgets before the closing write names it."""
    found = [_rests(rng, at, 2.4, "sleep-client")]
    if rng.random() < 0.5:  # the one that comes in was a member before
        found.append(Fault(at - 0.45, "clean-restart", who, 0, 0.05, aim="member"))
    found.append(Fault(at + 0.01, "clean-restart", who + 1, 0, 2.0, aim="member"))
    found += [_pause(rng, at + 0.05, "recoverer", rng.choice((1.2, 2.0)), after=1)]
    found += [_rival(at + 0.06), Fault(at + 0.4, "kill", 0, 0, 0.05, aim="newcomer")]
    return [*found, *(Fault(at + 0.8 + 0.4 * step, "clear-now") for step in range(4))]


def _two_close(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Of two recoverers one stops before it closes; bookies fail and come back meanwhile."""
    found = [_rests(rng, at, 2.5, rng.choice(("sleep-client", "idle-client")))]
    found += [_pause(rng, at + 0.04, "recoverer", 0.8, after=1), _rival(at + 0.05)]
    if rng.random() < 0.6:
        away = rng.choice(("isolate", "clean-restart"))
        found.append(Fault(at + 0.02, away, who, 0, rng.choice((0.3, 1.0)), aim="member"))
    for step in range(rng.choice((1, 1, 2))):
        found.append(_rival(at + 0.3 + 0.2 * step * rng.random()))
    if rng.random() < 0.4:
        found.append(Fault(at + 0.35, "kill", who + 1, 0, 0.05, aim="member"))
    return found


def _limbo_in_recovery(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A member forgets; its ledger is IN_RECOVERY for long; repairs want its mark cleared."""
    return [
        _rests(rng, at, 2.0),
        Fault(at + 0.02, rng.choice(("kill", "power-cut")), who, 0, 0.05, _size(rng), "member"),
        _pause(rng, at + 0.1, "recoverer", rng.choice((0.8, 1.5)), after=rng.choice((0, 1, 1))),
        _rival(at + 0.12),
        Fault(at + 0.4, rng.choice(("clean-restart", "clear-now")), who, 0, 0.05, aim="member"),
        Fault(at + 0.7, "clear-now"),
        _rival(at + 0.9),
    ]  # fmt: skip


def _fences_race(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Two recoverers ask at once; power goes after the answer of one member; the writer goes on."""
    cuts = [
        Fault(at + 0.04, "cut-answer", who + step, rng.choice((0, 0, 1)), 0.05,
              _size(rng, AFTER["fence"]), "member")
        for step in range(rng.choice((1, 2)))
    ]  # fmt: skip
    rivals = [_rival(at + 0.05), _rival(at + 0.05 + 0.006 * rng.random())]
    return [_rests(rng, at, rng.choice((0.5, 0.9))), *cuts, *rivals[: rng.choice((1, 2, 2))]]


def _late_fence(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A member is away while others are fenced, and hears of it when its entries are read."""
    return [
        _rests(rng, at, 1.4),
        Fault(at + 0.02, "clean-restart", who, 0, 0.05, aim="member"),
        Fault(at + 0.03, "sleep-bookie", who + 1, 0, rng.choice((0.3, 0.6, 0.9)), aim="member"),
        _rival(at + 0.05),
        Fault(at + 0.05, "cut-answer", who, 0, 0.05, _size(rng, AFTER["fence"]), "member"),
        Fault(at + 0.25, "slow-disk", who, 0, 1.0, 0.1, "member"),
    ]


def _synced(rng: random.Random) -> dict[str, Any]:
    return {"mode": rng.choice(SYNCED), "entries": 60, "burst": rng.choice((1, 2)),
            "work_s": rng.choice((0.002, 0.01, 0.01)), "flush_s": 60.0}  # fmt: skip


# Writers
def _closes(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A writer stops before it writes metadata, or rests before it closes; its ledger is taken."""
    found: list[Fault] = []
    for step in range(3):
        soon = at + 0.5 * step
        if rng.random() < 0.4:
            found += [_rests(rng, soon, 0.3), _rival(soon + 0.1)]
            continue
        found += [_pause(rng, soon, "writer", 0.3), _rival(soon + 0.05 + 0.1 * rng.random())]
        if rng.random() < 0.5:
            found.append(Fault(soon + 0.01, "reset", who, aim="member"))
    return found


def _torn(rng: random.Random, at: float, who: int) -> list[Fault]:
    """See aimed.Aimed: an ensemble that changes while each entry is on few bookies."""
    return [Fault(at, "torn", 0, rng.randrange(2), 0.4, round(rng.random(), 6))]


def _torn_scale(rng: random.Random) -> dict[str, Any]:
    return {
        "entries": 150, "burst": rng.choice((1, 2, 8)), "pipeline": 8, "pause_s": 0.02,
        "readers": 0, "repair_s": 4.0, "work_s": 0.0005,
        **_quorum(rng, (3, 3, 2), (3, 2, 2), (4, 2, 2), (4, 3, 2), (3, 3, 3), (4, 4, 3), spares=2),
    }  # fmt: skip


def _hole(rng: random.Random, at: float, who: int) -> list[Fault]:
    """The same, and the writer dies of it: what it leaves is on few bookies, or has holes."""
    return [Fault(at, "torn-end", 0, rng.randrange(2), 0.5, round(rng.random(), 6))]


# Boots and stops
def _boot_cut(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A bookie forgets, and its next boot is cut off, or stopped, at any of its operations;
    of those behind the replay more often.
    """
    kind = rng.choice(("crash-boot", "stop-boot", "wipe-boot"))
    found = [_rests(rng, at, 1.6)] if rng.random() < 0.5 else []
    if rng.random() < 0.4:
        found.append(_rival(at + 0.1))
    size = round(rng.choice((rng.random(), 0.6 + 0.4 * rng.random())), 4)
    found.append(Fault(at + 0.3, kind, who, rng.randrange(3), 0.05, size, "member"))
    return [*found, _rival(at + 1.2)]


def _boot_without_store(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A bookie boots while the store loses answers or is away for moments."""
    kind = rng.choice(("lost-replies", "lost-replies", "lost-replies", "store-outage"))
    forgets = rng.choice(("kill", "power-cut"))
    return [
        Fault(at, forgets, who, 1, 0.05, round(rng.random(), 4), "member"),
        Fault(at + 0.05 + 0.05 * rng.random(), kind, 0, 0, 1.5, rng.choice((0.6, 0.9))),
        _rival(at + 2.0),
    ]  # fmt: skip


def _stop_cut(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Power goes at any of the operations of a stop, or soon after the boot that follows one."""
    size = round(rng.random(), 4)
    if rng.random() < 0.75:
        cut = [Fault(at, "cut-stop", who, 0, 0.05, size, "member")]
    else:
        cut = [Fault(at, "clean-restart", who, 0, 0.05),
               Fault(at + 0.15 + 0.5 * rng.random(), "power-cut", who, 0, 0.05, size)]  # fmt: skip
    return [*cut, _rival(at + 1.0)]


def _broken_stop(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A disk takes no more when its bookie gets SIGTERM, or fails but once."""
    kind = rng.choice(("disk-error", "disk-hiccup", "disk-hiccup"))
    size = rng.choice((0.1, 0.3, 0.9))
    broken = Fault(at, kind, who, rng.randrange(3), 1.0, size, "member")
    return [broken, Fault(at + 0.002, "clean-restart", who, 0, 0.1, aim="member"), _rival(at + 1.2)]


def _few_disks(rng: random.Random) -> dict[str, Any]:
    return {"ledger_dirs": rng.choice((1, 1, 2)), "flush_s": rng.choice((0.5, 60.0)),
            "mode": rng.choice(("memory", "memory", "sync", "journal")),
            **_quorum(rng, (3, 3, 2), (3, 2, 2), (2, 2, 2), spares=rng.choice((0, 1)))}  # fmt: skip


def _another_mode(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A crash, and other settings in the life after it."""
    size = round(rng.random(), 4)
    return [Fault(at, "other-mode", who, rng.randrange(2), 0.05, size, "member"), _rival(at + 0.8)]


def _checkpoint_cut(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Power goes at any of the operations of a checkpoint that has much to do."""
    size = round(rng.random(), 4)
    return [Fault(at, "cut-checkpoint", who, 0, 0.05, size, "member"), _rival(at + 0.6)]


def _much(rng: random.Random) -> dict[str, Any]:
    return {"mode": "journal", "payload_bytes": 1500, "entries": 60, "burst": 8, "pause_s": 0.1,
            "flush_s": 60.0, "repair_s": 1.0}  # fmt: skip


def _wiped(rng: random.Random, at: float, who: int) -> list[Fault]:
    """One disk of a bookie is another one; its ledgers were closed, changed or deleted before."""
    before = rng.choice(("recover-now", "delete-now", "none"))
    found = [_rests(rng, at, 1.6)]
    if before != "none":
        found.append(Fault(at + 0.1, before))
    wiped = Fault(at + 0.5, "replace-disk", who, rng.randrange(3), 0.05, rng.choice((0.1, 0.9)),
                  "member")  # fmt: skip
    return [*found, wiped, _rival(at + 1.2)]


def _collected(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A ledger is deleted and collected, or forgotten, under a writer that rests for so long."""
    found = [_rests(rng, at, 2.0), Fault(at + 0.05, "delete-now")]
    if rng.random() < 0.6:
        kind = rng.choice(("power-cut", "replace-disk"))
        found.append(Fault(at + 0.3, kind, who, 0, 0.05, 0.1))
    return found


def _after_answer(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Power goes after an answer of a bookie that syncs what it answers for."""
    what = rng.choice(("add", "add", "recovery add"))
    cut = Fault(at, "cut-answer", who, rng.randrange(4), 0.05, _size(rng, AFTER[what]), "member")
    return [cut, _rival(at + 0.4)]


# Copies
def _tail_in_memory(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A bookie forgets all of a young ledger, gets it back from a recovery, and is cleared."""
    return [
        _rests(rng, at, 1.4),
        Fault(at + 0.05, rng.choice(("kill", "power-cut")), who, 0, 0.05, 0.5, "member"),
        _rival(at + 0.3 + 0.2 * rng.random()),
        *(Fault(at + 0.5 + 0.15 * step, "clear-now") for step in range(3)),
    ]


def _young(rng: random.Random) -> dict[str, Any]:
    """All of its entries at once, so that no LAC was sent yet."""
    return {"flush_s": 60.0, "repair_s": 4.0, "entries": 150, "burst": 40, "pause_s": 0.3,
            "ledger_dirs": 1}  # fmt: skip


def _changed(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A member is replaced, and its successor forgets while the ledger is written."""
    gone = rng.choice(("clean-restart", "reset"))
    return [
        Fault(at, gone, who, 0, rng.choice((0.1, 1.0)), aim="member"),
        Fault(at + 0.25, "kill", who, 0, 0.05, aim="member"),
        Fault(at + 0.3, "kill-repair"),
        *([_rival(at + 1.0)] if rng.random() < 0.5 else []),
    ]


def _unreadable(rng: random.Random, at: float, who: int) -> list[Fault]:
    """What a disk gives back is not what was written, and its bookie is asked for that."""
    found = [
        Fault(at + 0.02 * step, "bit-rot", who, size=round(rng.random(), 4), aim="member")
        for step in range(3)
    ]
    found.append(Fault(at + 0.1, "clean-restart", who, 0, 0.05, aim="member"))
    return [*found, Fault(at + 0.5, "ask-now")]


def _on_disk(rng: random.Random) -> dict[str, Any]:
    return {"flush_s": 0.5, "burst": 4, "pause_s": 0.1, "entries": 60,
            "payload_bytes": 100, "ledger_dirs": 1,
            **_quorum(rng, (3, 3, 2), (3, 3, 3), (4, 3, 2))}  # fmt: skip


def _forged(rng: random.Random, at: float, who: int) -> list[Fault]:
    """What one bookie stores is wrong; others need copies of it: moves, repairs, recoveries."""
    found = [Fault(at, "forge", who, 0, 1.5, round(rng.random(), 4))]
    other = who + 1 + rng.randrange(2)
    needs = rng.choice(("drain", "gone", "kill", "isolate", "rival"))
    if needs in ("drain", "gone"):
        found.append(Fault(at + 1.0, needs, other, 0, 1.5))
    elif needs != "rival":
        found.append(Fault(at + 0.8, needs, other, 0, 0.5, aim="member"))
    return [*found, _rests(rng, at + 0.9, 0.8), _rival(at + 1.0), _rival(at + 1.5)]


def _strong(rng: random.Random) -> dict[str, Any]:
    """One may forget beside the one that lies."""
    spares = rng.choice((1, 2))
    return {
        "burst": rng.choice((2, 4)), "pause_s": 0.1, "entries": 20,
        "flush_s": rng.choice((0.5, 60.0)),
        **_quorum(rng, (3, 3, 3), (4, 4, 3), (4, 3, 3), (3, 3, 2), spares=spares),
    }  # fmt: skip


def _dark(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Two members forget at once, beyond the loss budget, and the tail of their ledger with it."""
    size = round(rng.random(), 4)
    kind = rng.choice(("kill", "power-cut", "replace-disk"))
    found = [_rests(rng, at, 1.6, "sleep-client")]
    for step in range(rng.choice((2, 2, 3))):
        found.append(Fault(at + 0.1, kind, who + step, 1, 0.05, size, "member"))
    if rng.random() < 0.5:
        found.append(_rival(at + 0.5))
    return found


AIMED: Final[tuple[AimedStroke, ...]] = (
    AimedStroke(_brought_in, _tails, 2.9, 4),
    AimedStroke(_two_close, lambda _rng: {"burst": 8, "entries": 60}, 2.5, 2),
    AimedStroke(_limbo_in_recovery, lambda _rng: {"repair_s": 0.3, "entries": 60}, 2.2, 2),
    AimedStroke(_fences_race, _synced, 1.5, 4),
    AimedStroke(_late_fence, _synced, 1.9, 3),
    AimedStroke(_closes, lambda _rng: {"entries": 8, "burst": 2}, 1.8, 2),
    AimedStroke(_torn, _torn_scale, 1.6, 5),
    AimedStroke(_hole, _torn_scale, 1.3, 4),
    AimedStroke(_boot_cut, _few_disks, 1.5, 7),
    AimedStroke(_boot_without_store, lambda _rng: {"flush_s": 60.0, "burst": 4}, 2.2, 3),
    AimedStroke(_stop_cut, _few_disks, 1.0, 5),
    AimedStroke(_broken_stop, _few_disks, 1.8, 2),
    AimedStroke(_another_mode, _few_disks, 1.5, 2),
    AimedStroke(_checkpoint_cut, _much, 1.2, 2),
    AimedStroke(_wiped, _few_disks, 1.8, 2),
    AimedStroke(_collected, lambda _rng: {"collect_s": 0.8, "entries": 60}, 2.1, 3),
    AimedStroke(_after_answer, _synced, 1.0, 3),
    AimedStroke(_tail_in_memory, _young, 1.6, 3),
    AimedStroke(_changed, lambda _rng: {"entries": 60}, 1.8, 2),
    AimedStroke(_unreadable, _on_disk, 2.5, 3),
    AimedStroke(_forged, _strong, 2.4, 3),
    AimedStroke(_dark, lambda _rng: {"burst": 4, "pause_s": 0.1}, 3.2, 2, keeps_budget=False),
)
