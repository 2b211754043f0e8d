"""The judge of the stories itself: when a condition and what bookies hold contradict each other."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from harness.looks import Copy, Look, Span, missed, missing, times_of_true, untrue
from harness.watch import Seen

GONE = Copy("bookie-2", 7, 3)
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
KIND = "DurabilityVerified"


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def looks(*of_which_missing: bool) -> list[Look]:
    """One each 10 s, of 1 s each."""
    return [
        Look(at(10 * i), at(10 * i + 1), frozenset([GONE] if is_missing else []))
        for i, is_missing in enumerate(of_which_missing)
    ]


def versions(*statuses: str) -> Iterator[Seen]:
    for i, status in enumerate(statuses):
        condition = {"type": KIND, "status": status, "observedGeneration": 1}
        yield Seen(
            at(10 * i), {"metadata": {"generation": 1}, "status": {"conditions": [condition]}}
        )


def test_true_that_begins_while_a_copy_is_missing_is_untrue() -> None:
    assert len(untrue([Span(at(15), at(18))], missed(looks(False, True, True, False)))) == 1


def test_true_of_before_the_fault_may_stand_until_it_is_noticed() -> None:
    assert not untrue([Span(at(0), at(25))], missed(looks(True, True, True, True)))
    assert untrue([Span(at(0), at(45))], missed(looks(True, True, True, True, True, True)))


def test_a_copy_that_one_look_misses_contradicts_nothing() -> None:
    assert not list(missed(looks(False, True, False, True)))


def test_true_after_the_copy_is_back_is_true() -> None:
    assert not untrue([Span(at(31), at(90))], missed(looks(True, True, True, False)))


def test_a_copy_that_goes_twice_counts_anew_each_time() -> None:
    since = {one.since for one in missed(looks(True, True, False, True, True))}
    assert since == {at(1), at(31)}


def test_a_condition_that_never_ends_is_true_until_now() -> None:
    found = list(times_of_true(versions("Unknown", "True", "True"), KIND, now=at(60)))
    assert found == [Span(at(10), at(60))]
    gone_again = list(times_of_true(versions("True", "Unknown", "True"), KIND, now=at(60)))
    assert gone_again == [Span(at(0), at(10)), Span(at(20), at(60))]


def test_missing_copies_are_read_from_the_ranges_of_each_bookie() -> None:
    owed = {"missing": {"entries": 2, "ranges": [[3, 3], [9, 9]], "ranges_left_out": 0}}
    document = {"findings": [{"ledger_id": 7, "bookies": {"bookie-2": owed}}, {"ledger_id": 8}]}
    assert list(missing(document)) == [GONE, Copy("bookie-2", 7, 9)]
