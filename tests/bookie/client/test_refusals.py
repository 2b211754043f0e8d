"""How long a bookie that refused a ledger replaces nobody in it."""

import pytest
from bookie.client.refusals import REFUSED_MAX_S, REFUSED_S, Refusals
from bookie.ids import BookieId
from clock import Clock

B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")


@pytest.fixture
def clock() -> Clock:
    return Clock(1000.0)


def lasts_s(refusals: Refusals, clock: Clock) -> float:
    """How long the refusal that B0 gives now counts."""
    began = clock.now
    refusals.note(B0)
    while B0 in refusals.now():
        clock.now += 1
    return clock.now - began


def test_a_refusal_counts_for_a_while_and_for_this_bookie_alone(clock: Clock) -> None:
    refusals = Refusals(clock)
    refusals.note(B1)
    assert refusals.now() == {B1}
    clock.now += REFUSED_S
    assert refusals.now() == frozenset()


def test_each_counts_twice_as_long_as_the_one_before_up_to_a_minute(clock: Clock) -> None:
    refusals = Refusals(clock)
    assert [lasts_s(refusals, clock) for _ in range(6)] == [5, 10, 20, 40, 60, 60]


def test_many_at_once_are_one(clock: Clock) -> None:
    refusals = Refusals(clock)
    for _ in range(9):
        refusals.note(B0)
    assert lasts_s(refusals, clock) == REFUSED_S


def test_one_of_long_ago_does_not_count(clock: Clock) -> None:
    refusals = Refusals(clock)
    lasts_s(refusals, clock)
    clock.now += REFUSED_MAX_S
    assert lasts_s(refusals, clock) == REFUSED_S
