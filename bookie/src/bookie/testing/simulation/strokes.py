"""Plans of strokes: faults that belong together, under hurried clients.

A rare wrong needs several things at once: a writer that stops between two adds, a recovery just
then, a bookie that forgets before the writer goes on. Single faults drawn apart almost never meet.
A stroke draws them together, with its times and victims left to chance.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from bookie.testing.simulation.aimed_strokes import aimed_plan
from bookie.testing.simulation.plan import Fault, Plan, Scale

QUORUMS: Final = (
    (3, 3, 2), (3, 3, 2), (3, 3, 2), (3, 2, 2), (4, 2, 2), (4, 3, 2), (2, 2, 2), (3, 3, 3),
    (5, 3, 2),
)  # fmt: skip
ONE_IS_ENOUGH: Final = ((3, 3, 1), (3, 2, 1), (2, 2, 1))
"""With these an entry may be on one bookie alone: only where its mode syncs it."""
AIMED_CHANCE: Final = 0.65
"""How many seeds are about one stroke, on a cluster that fits it (`aimed_strokes`)."""
LOAD_S: Final = 8.0
ENTRIES_MAX: Final = 150
FIRST_S: Final = 1.0
"""By then bookies serve and writers write."""
LEFT_S: Final = 5.0
"""Every stroke has about so long to come to its end."""
MODES: Final = ("memory", "memory", "memory", "sync", "journal")


def stroke_plan(seed: int) -> Plan:
    """The plan of such a seed; the same for ever."""
    rng = random.Random(f"strokes/{seed}")
    scale = _scale(rng)
    if rng.random() < AIMED_CHANCE:
        scale, faults, keeps_budget = aimed_plan(rng, scale)
        return _ordered(seed, scale, faults, keeps_budget)
    keeps_budget = rng.random() < 0.8
    strokes = STROKES if keeps_budget else (*STROKES, *BLACKOUTS * 6)
    faults = _of_a_log(rng) if scale.logs else []
    for _ in range(rng.choice((1, 2, 3, 4))):
        stroke = rng.choice(strokes)
        if stroke in OF_SYNCS and rng.random() < 0.6:
            scale = replace(scale, mode=rng.choice(("sync", "journal")))
        faults += stroke(
            rng, FIRST_S + rng.random() * (LOAD_S - LEFT_S), rng.randrange(scale.bookies)
        )
    for fault in list(faults):
        if fault.kind == "blackout":
            faults.remove(fault)
            faults += [replace(fault, kind="power-cut", who=n) for n in range(scale.bookies)]
    return _ordered(seed, scale, faults, keeps_budget)


def _ordered(seed: int, scale: Scale, faults: Sequence[Fault], keeps_budget: bool) -> Plan:
    times = [replace(fault, at_s=round(fault.at_s, 4)) for fault in faults]
    return Plan(seed, scale, tuple(sorted(times, key=lambda fault: fault.at_s)), keeps_budget)


def _scale(rng: random.Random) -> Scale:
    mode = rng.choice(MODES)
    quorums = QUORUMS if mode == "memory" else (*QUORUMS, *ONE_IS_ENOUGH)
    ensemble, write_quorum, ack_quorum = rng.choice(quorums)
    is_log = rng.random() < 0.2
    pause_s, burst = rng.choice((0.02, 0.1, 0.3)), rng.choice((1, 1, 2, 2, 8, 40))
    life_s = rng.choice((0.3, 2.0, 5.0, 5.0))
    return Scale(
        bookies=ensemble + rng.choice((0, 1, 1, 2)),
        ledger_dirs=rng.choice((1, 1, 2)),
        mode=mode,
        ensemble=ensemble,
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        writers=0 if is_log else rng.choice((1, 2, 2)),
        logs=rng.choice((2, 3)) if is_log else 0,
        readers=rng.choice((0, 1)),
        recoverers=rng.choice((0, 1, 2, 4)),
        deletions=0,
        entries=rng.choice((3, 10, 30))
        if is_log
        else min(ENTRIES_MAX, 3 + int(life_s / pause_s * (1 + burst) / 2)),
        pause_s=pause_s,
        between_s=rng.choice((0.1, 0.5)),
        burst=burst,
        flush_s=rng.choice((0.5, 3.0, 60.0, 60.0)),
        latency_s=rng.choice((0.0005, 0.002, 0.01, 0.03)),
        repair_s=rng.choice((0.3, 1.0, 4.0)),
        work_s=rng.choice((0.0005, 0.002, 0.01)),
        load_s=LOAD_S,
        pipeline=rng.choice((2, 8)),
        truncates=rng.random() < 0.5,
        lease_s=rng.choice((2.0, 12.0)),
        collect_s=rng.choice((0.8, 5.0)),
        patience_s=0.3,
        askers=1,
        writes_again=12,
    )


def _of_a_log(rng: random.Random) -> list[Fault]:
    """Owners roll often; the store is at its worst for as long as they compete."""
    kind = rng.choice(("lost-replies", "late-writes", "stale-reads", "delete-now", "none"))
    lasts, size = rng.choice((2.0, LOAD_S)), rng.choice((0.3, 0.6, 0.9))
    return [Fault(0.5 + 2 * rng.random(), kind, 0, 0, lasts, size)] if kind != "none" else []


# What strokes are made of
def _forgets(rng: random.Random, at: float, who: int) -> Fault:
    """It stops, one way or the other, and may have forgotten when it is back."""
    kind = rng.choice(
        ("kill", "kill", "power-cut", "power-cut", "clean-restart", "clean-restart", "replace-disk",
         "other-mode", "crash-operation")
    )  # fmt: skip
    size = rng.random() * (0.27 if kind in ("crash-operation", "replace-disk") else 1.0)
    return Fault(at, kind, who, rng.randrange(3), rng.choice((0.05, 0.3)), round(size, 4))


def _resting_writer(rng: random.Random, at: float, lasts: float) -> Fault:
    kind = rng.choice(("idle-client", "idle-client", "sleep-client"))
    return Fault(at, kind, 0, rng.randrange(2), lasts, 0.2)


def _rival(at: float) -> Fault:
    return Fault(at, "recover-now")


def _way(rng: random.Random, at: float, who: int, kind: str) -> Fault:
    return Fault(at, kind, who, rng.randrange(12), rng.choice((0.5, 3.0)), round(rng.random(), 4))


# Strokes
def _usurped(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A writer rests, its ledger is taken, bookies that were asked forget; the writer goes on."""
    lasts = rng.choice((1.5, 3.0))
    taken = at + rng.random() * 0.2
    second = taken + rng.choice((0.05, 0.3, 0.8)) * (0.3 + rng.random())
    found = [_resting_writer(rng, at, lasts), _rival(taken), _forgets(rng, second, who)]
    if rng.random() < 0.5:
        found.append(_forgets(rng, second + 0.3 * rng.random(), who + 1))
    return found


def _all_again(rng: random.Random, at: float, who: int) -> list[Fault]:
    """The same, and every bookie stops meanwhile, in one way: those that may."""
    lasts = rng.choice((2.0, 3.0))
    kind = rng.choice(("clean-restart", "power-cut", "power-cut", "kill", "other-mode"))
    second = at + 0.3 + rng.random()
    found = [_resting_writer(rng, at, lasts), _rival(at + 0.1)]
    for step in range(6):
        size = round(rng.random(), 4)
        found.append(Fault(second + 0.05 * step * rng.random(), kind, step, step, 0.1, size))
    return found


def _left_out(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A bookie is down while its ledger is closed without it; then the writer goes on."""
    found = [_resting_writer(rng, at, 3.0), _rival(at + 0.1)]
    for step in range(rng.choice((1, 2))):
        found.append(Fault(at + 0.05, "kill", who + step, lasts_s=rng.choice((0.8, 1.5))))
    return found


def _cut_while_fenced(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Power goes at the very moment at which bookies write their fences."""
    found = [_resting_writer(rng, at, rng.choice((1.0, 2.0))), _rival(at + 0.1)]
    for step in range(rng.choice((1, 3, 5))):
        size = round(rng.random() * 0.24, 4)
        armed = at + 0.1 + rng.choice((0.0, 0.02)) * rng.random()
        found.append(Fault(armed, "crash-operation", who + step, 0, 0.1, size))
    if rng.random() < 0.4:
        found.append(_rival(at + 0.1 + 0.004 * rng.random()))
    return found


def _full_while_fenced(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A fence cannot be written; somebody asks for it again; the bookie starts again."""
    found = [_resting_writer(rng, at, 4.0)]
    for step in range(rng.choice((1, 3))):
        found.append(Fault(at, "disk-full", who + step, 0, 1.0, 0.0))
    found += [_rival(at + 0.1), _rival(at + 0.4), _rival(at + 1.2)]
    return [*found, _forgets(rng, at + 1.5 + rng.random(), who)]


def _deleted(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A ledger is deleted under a writer that rests; a bookie loses what it knew of it, too."""
    lasts = rng.choice((1.5, 4.0))
    second = at + 0.1 + (lasts - 0.8) * rng.random()
    found = [_resting_writer(rng, at, lasts), Fault(at + 0.05, "delete-now")]
    for step in (0, 1):
        if rng.random() < 0.5:
            wiped = Fault(second, "replace-disk", who + step, 0, 0.05, 0.1)
            found.append(replace(wiped, at_s=second + 0.3 * step))
        else:
            found.append(_forgets(rng, second + 0.3 * step, who + step))
    return found


def _changed_then_killed(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A member is replaced; soon its successor, or somebody, forgets; then somebody asks."""
    gone = rng.choice(("clean-restart", "clean-restart", "reset", "sleep-bookie"))
    second = at + (2.2 if gone == "sleep-bookie" else 0.3) + rng.random()
    found = [Fault(at, gone, who, lasts_s=rng.choice((0.3, 2.5)))]
    for step in range(3):
        other = who + 1 + rng.randrange(4)
        found.append(Fault(second + 0.9 * step, "kill", other, lasts_s=0.1))
    return [*found, _rival(second + 2.0 + rng.random() * 2.0)]


def _one_left(rng: random.Random, at: float, who: int) -> list[Fault]:
    """One has forgotten while another cannot be reached; repairs and recoveries go on."""
    kind = rng.choice(("isolate", "isolate", "sleep-bookie"))
    other = who + 1 + rng.randrange(2)
    return [
        Fault(at, kind, other, lasts_s=rng.choice((2.0, 6.0))),
        Fault(at + 0.2 * rng.random(), rng.choice(("kill", "power-cut")), who, 0, 0.1, 0.5),
        _rival(at + 0.4 + rng.random()),
    ]


def _limbo_for_long(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A bookie with marks starts again and is asked, while nothing can clear it."""
    found = [
        Fault(at, rng.choice(("kill", "power-cut")), who, 0, 0.05, round(rng.random(), 4)),
        Fault(at + 0.1, "isolate", who + 1, lasts_s=rng.choice((1.0, 4.0))),
        Fault(at + 0.3 + rng.random(), "clean-restart", who, lasts_s=0.05),
        _rival(at + 0.5 + rng.random()),
    ]
    if rng.random() < 0.4:
        found.append(Fault(at + 0.2, "kill-repair"))
    return found


def _bad_ways(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Messages between clients and bookies are late or lost one way only; a ledger is taken."""
    kinds = ("lag", "lag", "leak", "slow", "loss", "doubling")
    ways = [_way(rng, at, who + step, rng.choice(kinds)) for step in range(rng.choice((2, 3, 5)))]
    found = [replace(way, size=round(way.size * 0.1, 4)) if way.kind == "slow" else way
             for way in ways]  # fmt: skip
    return [*found, _rival(at + rng.random()), _rival(at + 0.5 + rng.random())]


def _replaced_twice(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Writers replace it, and before that is done another one; the store is slow to say."""
    lasts = rng.choice((0.5, 3.0))
    other = who + 1 + rng.randrange(3)
    soon = at + rng.choice((0.0, 0.3, 2.5)) * rng.random()
    kind = rng.choice(("isolate", "sleep-bookie", "reset", "clean-restart"))
    found = [Fault(at, kind, who, lasts_s=lasts), Fault(soon, "isolate", other, lasts_s=lasts)]
    if rng.random() < 0.5:
        store = rng.choice(("store-outage", "lost-replies", "late-writes"))
        found.append(Fault(at + 0.1, store, 0, 0, 3.0, round(rng.random(), 4)))
    return found


def _torn_ensemble(rng: random.Random, at: float, who: int) -> list[Fault]:
    """All are late but one or two, and these fail; the store is slow to say who comes instead."""
    writer, lasts, failing = rng.choice((1, 1, 2)), rng.choice((2.0, 4.0)), rng.choice((1, 1, 2))
    found = []
    for step in range(7):
        late = rng.choice((0.01, 0.03, 0.07) if step < failing else (0.11, 0.21, 0.31, 0.55))
        found.append(Fault(at, "lag", who + step, writer, lasts, late))
        if rng.random() < 0.2:
            found.append(Fault(at, "lag", who + step, writer, lasts, rng.choice((0.04, 0.2, 0.4))))
    kind = rng.choice(("reset", "reset", "reset", "leak", "clean-restart", "kill"))
    for again in range(rng.choice((1, 3))):
        soon = at + 0.3 + 0.6 * again + 0.4 * rng.random()
        found += [Fault(soon, kind, who + step, writer, 0.3, 0.95) for step in range(failing)]
        if rng.random() < 0.5:
            store = rng.choice(("store-outage", "store-outage", "late-writes", "lost-replies"))
            found.append(Fault(soon + 0.001, store, 0, 0, rng.choice((0.2, 0.6)), 0.9))
    return found


def _flapping(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Members fail and come back within a moment, again and again, and what they say is late."""
    found = []
    for step in range(rng.choice((3, 5, 8))):
        kind = rng.choice(("reset", "reset", "clean-restart", "lag", "slow"))
        late = Fault(at + 0.25 * step * rng.random(), kind, who + rng.randrange(2),
                     rng.randrange(4), 0.4, round(0.1 * rng.random(), 4))  # fmt: skip
        found.append(late)
    return found


def _failed_stop(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Its disk takes no more when it gets SIGTERM."""
    size = rng.choice((0.1, 0.3, 0.9))  # sync, write, commit
    broken = Fault(at, "disk-error", who, other=rng.randrange(2), lasts_s=4.0, size=size)
    return [broken, Fault(at + 0.01 + rng.random() * 0.1, "clean-restart", who, lasts_s=0.2)]


def _cut_stop(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Power goes in the midst of a stop."""
    cut = Fault(at, "crash-operation", who, 0, 0.2, round(0.3 * rng.random(), 4))
    return [cut, Fault(at + 0.001, "clean-restart", who, lasts_s=0.2), _rival(at + 1.0)]


def _crash_at_boot(rng: random.Random, at: float, who: int) -> list[Fault]:
    """It crashes, and again and again while it boots or is repaired."""
    size = round(rng.random(), 4)
    kind = rng.choice(("kill", "power-cut", "power-cut", "other-mode", "replace-disk"))
    found = [Fault(at, kind, who, rng.randrange(2), lasts_s=0.1, size=size)]
    again = at + 0.1
    for _ in range(rng.choice((1, 2, 3))):
        again += rng.choice((0.01, 0.05, 0.2, 0.6)) * rng.random() + 0.001
        kind = rng.choice(("kill", "crash-point", "clean-restart", "clean-restart",
                           "crash-operation", "crash-operation"))  # fmt: skip
        size = round(rng.random() * 0.55, 4)
        found.append(Fault(again, kind, who, lasts_s=0.1, size=size))
        again += 0.1
    return [*found, _rival(again + 0.2 + rng.random())]


def _new_disk(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Its disk is another one, and power goes again while it boots with that."""
    wiped = Fault(at, "replace-disk", who, rng.randrange(3), 0.1, round(rng.random() * 0.9, 4))
    found = [wiped, _rival(at + 0.8 + 2 * rng.random())]
    for step in range(rng.choice((0, 1, 2))):
        size = round(rng.random() * 0.6, 4)
        kind = rng.choice(("crash-operation", "crash-operation", "kill"))
        found.append(Fault(at + 0.102 + 0.2 * step, kind, who, 0, 0.1, size))
    return found


def _rotten(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Bits of what it holds flip."""
    flips = [
        Fault(at + rng.random(), "bit-flip", who, size=round(rng.random(), 4)) for _ in range(3)
    ]
    return [*flips, Fault(at + 1.2, "clean-restart", who, lasts_s=0.2)]


def _forged(rng: random.Random, at: float, who: int) -> list[Fault]:
    """What a bookie stores is wrong though all but its digest is right; others are away."""
    found = [Fault(at, "forge", who, 0, rng.choice((1.0, 4.0)), round(rng.random(), 4))]
    away = rng.choice(("isolate", "lag", "leak", "clean-restart", "slow"))
    found.append(Fault(at + rng.random(), away, who + 1, rng.randrange(6), 2.0, 0.3))
    return [*found, _rival(at + 0.5 + rng.random() * 2), _rival(at + 2 + rng.random() * 2)]


def _tired(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Processes stop in the midst of it and wake when all is different."""
    found = []
    for _ in range(rng.choice((2, 3))):
        kind = rng.choice(("sleep-bookie", "sleep-client", "sleep-client"))
        found.append(Fault(at + rng.random(), kind, who + rng.randrange(2), rng.randrange(8),
                           rng.choice((0.3, 2.0, 6.0)), round(rng.random(), 4)))  # fmt: skip
    return [*found, _rival(at + rng.random()), _forgets(rng, at + 1.0 + rng.random(), who)]


def _store(rng: random.Random, at: float, who: int) -> list[Fault]:
    """The metadata store is away for a moment, loses answers, is late, or shows an old list."""
    kind = rng.choice(
        ("store-outage", "lost-replies", "late-writes", "late-writes", "stale-listing",
         "session-loss", "store-partition", "stale-reads", "stale-reads")
    )  # fmt: skip
    trouble = Fault(at, kind, who, 0, rng.choice((1.5, 4.0)), round(rng.random(), 4))
    return [trouble, _rival(at + rng.random()), _forgets(rng, at + 0.2 + rng.random(), who)]


def _restless(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Clients die, and the repair does."""
    kinds = ("kill-client", "kill-client", "kill-repair", "doubling")
    return [
        Fault(at, rng.choice(kinds), who, rng.randrange(16), 2.0, round(rng.random(), 4)),
        _rival(at + rng.random()),
        Fault(at + rng.random(), rng.choice(kinds), who, rng.randrange(16), 2.0, 0.5),
    ]


def _moved(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Ledgers are moved off a bookie while another one, or who moves them, stops."""
    kind = rng.choice(("drain", "drain", "gone"))
    found = [Fault(at, kind, who, lasts_s=rng.choice((1.5, 5.0)))]
    trouble = rng.choice(("forgets", "sleep-client", "isolate", "lost-replies", "rival"))
    if trouble == "forgets":
        found.append(_forgets(rng, at + 0.2 + 2 * rng.random(), who + 1))
    elif trouble == "rival":
        found += [_rival(at + rng.random()), _rival(at + 1.5 * rng.random())]
    else:
        found.append(Fault(at + rng.random(), trouble, who + 1, rng.randrange(8), 1.0, 0.8))
    return found


def _mistaken(rng: random.Random, at: float, who: int) -> list[Fault]:
    """While a bookie is down one of another cluster answers in its place; ledgers are recovered."""
    found = [Fault(at, "namesake", who, lasts_s=rng.choice((1.5, 3.0))), _rival(at + 0.7)]
    if rng.random() < 0.5:
        found.append(Fault(at + 0.1, "isolate", who + 1, lasts_s=rng.choice((0.5, 2.0))))
    return [*found, _rival(at + 1.0 + rng.random()), Fault(at + 1.1, "audit-now", who)]


def _older(rng: random.Random, at: float, who: int) -> list[Fault]:
    """The disks of a bookie are put back to what they were; somebody asks it."""
    lasts = rng.choice((2.5, 3.5))
    found = [Fault(at - 0.6, "put-back", who, lasts_s=lasts), _rival(at + lasts)]
    if rng.random() < 0.5:
        found += [_resting_writer(rng, at + 0.2, lasts + 0.5), _rival(at + 0.4)]
    return found


def _two_of_one(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Two processes of a bookie run at once, one of them cut off from the store or asleep."""
    lasts = rng.choice((5.5, 6.5))
    found = [Fault(0.9, "twin", who, lasts_s=lasts), _rival(at + lasts * rng.random())]
    trouble = rng.choice(("store-partition", "store-partition", "sleep-bookie"))
    found.append(Fault(0.95, trouble, who, lasts_s=rng.choice((4.5, 7.0))))
    return [*found, *(_rival(at + 3.0 + 1.5 * rng.random()) for _ in range(2))]


def _watched(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A bookie forgets, and others look at it before it is repaired."""
    found = [_forgets(rng, at, who), Fault(at + 0.3, "kill-repair")]
    looks = rng.choice(("audit-now", "doubt-now"))
    return [*found, *(Fault(at + 0.4 + rng.random() * 2, looks, who) for _ in range(2))]


def _late_recoverer(rng: random.Random, at: float, who: int) -> list[Fault]:
    """A recoverer brings a bookie in and stops; the bookie forgets and is checked meanwhile."""
    found = [
        _resting_writer(rng, at, 3.0),
        Fault(at + 0.02, rng.choice(("clean-restart", "clean-restart", "isolate")), who, 0, 4.0),
    ]
    for number in range(rng.choice((1, 2))):
        taken = at + 0.1 + 0.3 * number
        asleep = taken + rng.choice((0.01, 0.03, 0.1, 0.3)) * (0.3 + rng.random())
        found += [_rival(taken), Fault(asleep, "sleep-client", 0, number, 4.0, 0.95)]
    if rng.random() < 0.4:
        found.append(Fault(at + 0.1 + 0.1 * rng.random(), "store-outage", 0, 0, 1.0))
    for step in (1, 2):
        found.append(Fault(at + 0.4 + 0.6 * step, "kill", who + 1 + rng.randrange(4), 0, 0.1))
    return found


def _blackout(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Power goes everywhere at once."""
    return [Fault(at, "blackout", 0, 0, rng.choice((0.1, 1.0)), round(rng.random(), 4))]


def _half_dark(rng: random.Random, at: float, who: int) -> list[Fault]:
    """Two forget at once, while a third has come late to what they knew."""
    slow = Fault(at - 0.8, rng.choice(("slow", "isolate")), who + 2, lasts_s=0.7, size=0.2)
    return [slow, *(Fault(at, "kill", who + step, lasts_s=0.2) for step in (0, 1))]


Stroke = Callable[[random.Random, float, int], list[Fault]]
BLACKOUTS: Final[tuple[Stroke, ...]] = (_blackout, _half_dark)
OF_SYNCS: Final[tuple[Stroke, ...]] = (_cut_while_fenced, _all_again, _new_disk, _full_while_fenced)
"""What they look for shows where a mode syncs: memory mode doubts everything after a crash."""
STROKES: Final[tuple[Stroke, ...]] = (
    _usurped, _usurped, _all_again, _all_again, _left_out, _cut_while_fenced,
    _cut_while_fenced, _full_while_fenced,
    _deleted, _changed_then_killed, _changed_then_killed, _one_left, _one_left, _limbo_for_long,
    _limbo_for_long, _bad_ways, _bad_ways, _replaced_twice, _replaced_twice, _torn_ensemble,
    _torn_ensemble, _torn_ensemble, _torn_ensemble,
    _torn_ensemble, _torn_ensemble, _torn_ensemble, _flapping,
    _failed_stop, _cut_stop, _crash_at_boot, _crash_at_boot,
    _crash_at_boot, _crash_at_boot, _new_disk, _new_disk, _deleted, _late_recoverer, _rotten,
    _forged, _forged, _tired, _store, _restless, _watched, _watched, _moved, _moved,
    _mistaken, _mistaken, _older, _older, _two_of_one, _two_of_one,
    _late_recoverer,
)  # fmt: skip
