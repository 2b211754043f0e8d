"""What a person decided, and when."""

import time

from bookie.storage.decisions import now_ms


def test_a_decision_is_dated_in_milliseconds_of_the_wall_clock() -> None:
    before = time.time_ns() // 1_000_000
    assert before <= now_ms() <= time.time_ns() // 1_000_000 + 1
