"""A status says when the operator looked, and is called old only where no operator leaves it so."""

from datetime import timedelta

import pytest
from bookie_operator.metrics import STUCK_AFTER_S
from bookie_operator.model.looks import OLD_AFTER, RENEWED_AFTER, is_ahead, not_looked_for, renewed
from operator_scenes import at


@pytest.mark.parametrize(
    ("before", "now", "written"),
    [(None, 7, 7), (0, 0, 0), (0, 299, 0), (0, 300, 300), (9, 5, 5)],
    ids=["the first look", "the same look", "young", "due", "a clock that went back"],
)
def test_a_pass_writes_its_time_seldom(before: int | None, now: int, written: int) -> None:
    assert renewed(None if before is None else at(before), at(now)) == at(written)


@pytest.mark.parametrize(("now", "seconds"), [(-60, None), (0, None), (599, None), (600, 600)])
def test_a_look_of_ten_minutes_ago_is_old(now: int, seconds: int | None) -> None:
    length = None if seconds is None else timedelta(seconds=seconds)
    assert not_looked_for(at(0), at(now)) == length


@pytest.mark.parametrize(("now", "ahead"), [(-600, True), (-599, False), (600, False)])
def test_a_look_ten_minutes_in_the_future_says_nothing_about_now(now: int, ahead: bool) -> None:
    assert is_ahead(at(0), at(now)) is ahead and not is_ahead(None, at(now))


def test_a_status_that_does_not_say_when_is_not_called_old() -> None:
    assert not_looked_for(None, at(10**9)) is None


def test_no_operator_that_works_leaves_a_look_so_old() -> None:
    """One whose pass does not end for longer is restarted by its probe."""
    assert RENEWED_AFTER + timedelta(seconds=STUCK_AFTER_S) <= OLD_AFTER
