"""Durations as a histogram: cumulative, each bound included."""

from bookie.storage.durations import BOUNDS_S, Durations


def test_a_bound_counts_what_took_just_as_long() -> None:
    durations = Durations()
    for seconds in (0.0, 0.001, 0.0011, 99.0):
        durations.observe(seconds)
    found = dict(durations.buckets())
    assert (found["0.0005"], found["0.001"], found["0.002"]) == (1, 2, 3)
    assert found["10.0"] == 3 and found["+Inf"] == 4
    assert durations.sum_s == 0.0 + 0.001 + 0.0011 + 99.0


def test_every_bound_is_told_once_and_in_order() -> None:
    bounds = [bound for bound, _count in Durations().buckets()]
    assert bounds == [*map(str, BOUNDS_S), "+Inf"] and list(BOUNDS_S) == sorted(BOUNDS_S)
