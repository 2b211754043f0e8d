"""The judge of the stories itself: when a condition and what bookies hold contradict each other."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from harness.load import Load
from harness.looks import (
    Copy,
    Look,
    Looks,
    Span,
    blind,
    missed,
    missing,
    times_of_true,
    unknown,
    untrue,
)
from harness.watch import Seen

GONE = Copy("bookie-2", 7, 3)
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
KIND = "DurabilityVerified"


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def looks(seen: str) -> list[Look]:
    """One each 10 s, of 1 s each: M missing, ? not asked, `.` there."""
    return [
        Look(
            at(10 * i),
            at(10 * i + 1),
            frozenset([GONE] if one == "M" else []),
            frozenset([("bookie-2", 7)] if one == "?" else []),
        )
        for i, one in enumerate(seen)
    ]


def versions(*statuses: str) -> Iterator[Seen]:
    for i, status in enumerate(statuses):
        condition = {"type": KIND, "status": status, "observedGeneration": 1}
        yield Seen(
            at(10 * i), {"metadata": {"generation": 1}, "status": {"conditions": [condition]}}
        )


def test_true_that_begins_while_a_copy_is_missing_is_untrue() -> None:
    assert len(untrue([Span(at(15), at(18))], missed(looks(".MM.")))) == 1


def test_true_of_before_the_fault_may_stand_until_it_is_noticed() -> None:
    assert not untrue([Span(at(0), at(25))], missed(looks("MMMM")))
    assert untrue([Span(at(0), at(45))], missed(looks("MMMMMM")))


def test_a_copy_that_one_look_misses_contradicts_nothing() -> None:
    assert not list(missed(looks(".M.M")))


def test_a_copy_that_could_not_be_asked_for_has_not_come_back() -> None:
    assert untrue([Span(at(0), at(600))], missed(looks("M?" * 30)))
    assert untrue([Span(at(35), at(58))], missed(looks("MMM?MMMM")))


def test_misses_far_apart_prove_nothing_of_the_time_between() -> None:
    far = [looks("M")[0], *(Look(at(600), at(601), frozenset([GONE])) for _ in range(1))]
    assert not list(missed(far))


def test_looks_that_saw_nothing_are_not_believed() -> None:
    seen = list(versions("True"))
    assert not blind(looks("MM."), seen, began=at(0))
    assert blind(looks("MM."), [], began=at(0)) == ["no version of the cluster was seen"]
    for least in ("MM?", "MMM", ""):
        assert blind(looks(least), seen, began=at(0)), least
    assert blind(looks("."), seen, began=at(-600)), "nobody looked for ten minutes"
    assert blind([replace(looks(".")[0], left_out=3)], seen, began=at(0))


def test_a_look_that_meets_a_bug_is_told_at_the_end() -> None:
    class Drifted:
        def copies(self, *, digests: bool) -> dict[str, object]:
            return {"findings": [], "digests": digests}

    with pytest.raises(KeyError, match="findings_left_out"):
        Looks(cast(Load, Drifted())).look()


def test_true_after_the_copy_is_back_is_true() -> None:
    assert not untrue([Span(at(31), at(90))], missed(looks("MMM.")))


def test_a_copy_that_goes_twice_counts_anew_each_time() -> None:
    since = {one.since for one in missed(looks("MM.MM"))}
    assert since == {at(1), at(31)}


def test_a_condition_that_never_ends_is_true_until_now() -> None:
    found = list(times_of_true(versions("Unknown", "True", "True"), KIND, now=at(60)))
    assert found == [Span(at(10), at(60))]
    gone_again = list(times_of_true(versions("True", "Unknown", "True"), KIND, now=at(60)))
    assert gone_again == [Span(at(0), at(10)), Span(at(20), at(60))]


def test_missing_copies_are_read_from_the_ranges_of_each_bookie() -> None:
    owed: dict[str, Any] = {
        "missing": {"entries": 2, "ranges": [[3, 3], [9, 9]], "ranges_left_out": 0}
    }
    document = {"findings": [{"ledger_id": 7, "bookies": {"bookie-2": owed, "bookie-1": {}}}]}
    assert list(missing(document)) == [GONE, Copy("bookie-2", 7, 9)]
    owed["missing"]["ranges_left_out"] = 1
    with pytest.raises(AssertionError, match="not all that bookie-2 lacks"):
        list(missing(document))


def test_what_an_audit_could_not_tell_is_unknown() -> None:
    silent = {"unknown": {"entries": 1, "ranges": [[3, 3]], "ranges_left_out": 0}}
    document = {"findings": [{"ledger_id": 7, "bookies": {"bookie-2": silent}}]}
    assert list(unknown(document)) == [("bookie-2", 7)] and not list(missing(document))
