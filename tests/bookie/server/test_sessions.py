"""Who is cut off, why, and how often: for messages begun and not ended, and for those who come."""

import asyncio
import random
from dataclasses import dataclass, field
from itertools import product

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


@dataclass(eq=False)
class Guest(Half):
    """A connection that has begun no message."""

    since: float | None = None
    bytes_here: int = 0
    spare: int = 0
    has_asked: bool = False  # type: ignore[misc]

    def close(self) -> None:
        self.cuts.append("close")


def closed(sessions: Sessions, guests: list[Guest]) -> list[Guest]:
    """The loop's next turn: those that were cut off are gone. Who is left."""
    for guest in guests:
        if guest.cuts:
            sessions.closed(guest)
    return [guest for guest in guests if not guest.cuts]


@pytest.mark.parametrize("seed", range(300))
async def test_however_many_come_in_one_turn_no_more_stay_than_there_are_places(seed: int) -> None:
    rng, here, everybody = random.Random(seed), list[Guest](), list[Guest]()
    sessions = Sessions(traffic := Traffic(), connections_max=3)
    for _turn in range(8):
        for _ in range(rng.randrange(6)):
            here.append(guest := Guest())
            everybody.append(guest)
            sessions.opened(guest)
        here = closed(sessions, here)
        assert traffic.connections == len(here) == min(3, len(everybody))
        rng.choice(here or [Guest()]).has_asked |= rng.random() < 0.5
    assert all(guest.cuts in ([], ["abort"], ["close"]) for guest in everybody)
    assert not any(guest.has_asked and guest.cuts for guest in everybody)
    assert sum(traffic.cut_off.values()) == len(everybody) - len(here)
    if sessions._looking is not None:
        sessions._looking.cancel()


@dataclass(eq=False)
class Leaver(Guest):
    """Closes when it is closed, or only when it is cut off."""

    sessions: Sessions = field(kw_only=True)
    is_slow: bool = field(kw_only=True)

    def close(self) -> None:
        super().close()
        if not self.is_slow:
            self.sessions.closed(self)

    def abort(self) -> None:
        super().abort()
        self.sessions.closed(self)


@pytest.mark.parametrize("slow", [*product((False, True), repeat=3)])
async def test_at_the_end_all_are_closed_and_whoever_takes_too_long_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, slow: tuple[bool, ...]
) -> None:
    monkeypatch.setattr("bookie.server.sessions.LAST_REPLIES_S", 0.0)
    sessions = Sessions(traffic := Traffic(), connections_max=9)
    leavers = [Leaver(sessions=sessions, is_slow=is_slow) for is_slow in slow]
    for leaver in leavers:
        sessions.opened(leaver)
    await sessions.end()
    assert traffic.connections == 0
    assert [leaver.cuts == ["close", "abort"] for leaver in leavers] == list(slow)


async def test_an_end_is_over_once_the_last_has_left_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bookie.server.sessions.LAST_REPLIES_S", 60.0)
    sessions = Sessions(Traffic(), connections_max=9)
    leavers = [Leaver(sessions=sessions, is_slow=True) for _ in range(3)]
    for leaver in leavers:
        sessions.opened(leaver)
    ending = asyncio.create_task(sessions.end())
    for leaver in leavers:
        assert (await asyncio.wait([ending], timeout=0.0))[1], "somebody is still there"
        sessions.closed(leaver)
    await asyncio.wait_for(ending, 30.0)
    assert [leaver.cuts for leaver in leavers] == [["close"]] * 3
