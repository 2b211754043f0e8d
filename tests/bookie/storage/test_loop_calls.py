"""What the disks' threads tell the loop: no news is lost, and of much news there is one call."""

from collections.abc import Callable

import pytest
from bookie.storage.loop_calls import Progress
from hypothesis import given
from hypothesis import strategies as st

Calls = list[Callable[[], None]]


@given(st.lists(st.sampled_from(["notify", "deliver", "notify during delivery"])))
def test_whatever_comes_after_a_notification_it_is_delivered_once(steps: list[str]) -> None:
    calls: Calls = []
    progress, news = Progress(calls.append), 0
    for step in steps:
        if step == "notify":
            progress.notify()
            news = 1
        elif calls:
            during = step != "deliver"
            progress.on_progress = progress.notify if during else lambda: None
            calls.pop()()
            news = int(during)
        assert len(calls) == news


def test_whoever_notifies_looks_first_each_time() -> None:
    calls: Calls = []
    progress, seen = Progress(calls.append), list[int]()
    progress.on_notify = lambda: seen.append(len(calls))
    for _ in range(3):
        progress.notify()
    assert seen == [0, 1, 1]


def test_a_delivery_that_fails_does_not_keep_back_the_next_one() -> None:
    calls: Calls = []
    progress = Progress(calls.append)
    progress.on_progress = lambda: [].pop()
    progress.notify()
    with pytest.raises(IndexError):
        calls.pop()()
    progress.notify()
    assert len(calls) == 1


def test_a_loop_that_is_closed_ends_no_flusher() -> None:
    def closed(_call: Callable[[], None]) -> None:
        raise RuntimeError("Event loop is closed")

    Progress(closed).notify()
