"""Of lines that are alike only so many are written in a stretch of time."""

import logging

from bookie.server.log_rate import KINDS_MAX, LINES_MAX, STRETCH_S, LogRate
from clock import Clock


def record(text: str, level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord("bookie.server", level, "", 0, text, ("x",), None)


def passed(rate: LogRate, text: str, times: int, level: int = logging.WARNING) -> int:
    return sum(rate.filter(record(text, level)) for _ in range(times))


def test_lines_that_are_alike_are_held_back_until_the_stretch_is_over() -> None:
    clock = Clock()
    rate = LogRate(clock)
    assert passed(rate, "close %s", 1000) == LINES_MAX
    assert rate.held_back == 1000 - LINES_MAX
    clock.now += STRETCH_S
    assert passed(rate, "close %s", 1) == 1


def test_the_last_one_says_that_more_are_left_out() -> None:
    rate = LogRate(Clock())
    passed(rate, "close %s", LINES_MAX - 1)
    last = record("close %s")
    assert rate.filter(last) and "left out" in last.getMessage()


def test_other_lines_and_critical_ones_pass() -> None:
    rate = LogRate(Clock())
    passed(rate, "close %s", 1000)
    assert passed(rate, "boot: %s", 1) == 1
    assert passed(rate, "stop: %s", 1000, logging.CRITICAL) == 1000


def test_texts_that_differ_each_time_share_a_count_and_no_memory() -> None:
    rate = LogRate(Clock())
    written = sum(passed(rate, f"{number} %s", 1) for number in range(10 * KINDS_MAX))
    assert written == KINDS_MAX + LINES_MAX and len(rate._counts) == KINDS_MAX + 1
