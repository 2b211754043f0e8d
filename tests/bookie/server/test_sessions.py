"""Messages that were begun and not ended: who is cut off for them, why, and how often."""

import random
from dataclasses import dataclass, field

import pytest
from bookie.server.sessions import LOOK_INTERVAL_S, RequestLimits, Sessions
from bookie.server.state import CutOff, Traffic

LIMITS = RequestLimits(total=1000, seconds=60.0)
NOW = 500.0


@dataclass(eq=False)
class Half:
    """A connection with a message of which so much is here; `since` None: none is begun."""

    since: float | None
    bytes_here: int
    spare: int
    """Memory that no bytes are in."""
    cuts: list[str] = field(default_factory=list)
    peer = "somebody"
    has_asked = True
    reply_bytes = 0

    @property
    def unfinished_since(self) -> float | None:
        return self.since

    @property
    def buffer_bytes(self) -> int:
        return self.bytes_here + self.spare

    def shrink(self) -> None:
        self.spare = 0

    def abort(self) -> None:
        self.cuts.append("abort")

    def close(self) -> None: ...

    def has_left_unread(self, now: float, patience_s: float) -> bool:
        return False


def some(rng: random.Random) -> list[Half]:
    ages = (None, 0.0, LOOK_INTERVAL_S / 2, LOOK_INTERVAL_S, 2.0, 30.0, 60.0, 60.1, 300.0)
    found = []
    for _ in range(rng.randrange(1, 9)):
        age = rng.choice(ages)
        held = rng.choice((1, 90, 400, 900)) if age is not None else 0
        found.append(Half(None if age is None else NOW - age, held, rng.choice((0, 0, 300))))
    return found


def looked_at(halves: list[Half]) -> Traffic:
    """After one look at them all."""
    sessions = Sessions(traffic := Traffic(), connections_max=99, requests=LIMITS)
    for half in halves:
        sessions.opened(half)
    sessions._look_at_requests(NOW)
    assert sessions._looking is not None
    sessions._looking.cancel()
    return traffic


def age(half: Half) -> float:
    return 0.0 if half.since is None else NOW - half.since


@pytest.mark.parametrize("seed", range(300))
async def test_late_ones_go_and_of_the_others_the_oldest_and_no_more_than_must(seed: int) -> None:
    traffic = looked_at(halves := some(random.Random(seed)))
    gone, left = ([half for half in halves if bool(half.cuts) is cut] for cut in (True, False))
    late = [half for half in halves if age(half) > LIMITS.seconds]
    others = sorted((half for half in gone if half not in late), key=age, reverse=True)
    assert all(half.cuts == ["abort"] and half.since is not None for half in gone)
    assert set(late) <= set(gone)
    assert traffic.cut_off[CutOff.UNFINISHED] == len(late)
    assert traffic.cut_off[CutOff.MEMORY] == len(others)
    held = sum(half.buffer_bytes for half in left)
    assert held <= LIMITS.total or all(age(half) < LOOK_INTERVAL_S for half in left)
    for half in reversed(others):
        held += half.buffer_bytes
        assert held > LIMITS.total, "it could have stayed"
        assert age(half) >= max(map(age, left), default=0.0)
