"""Bulk work beside clients that append: held to its rate, free without them."""

import pytest
from bookie.server.pacing import (
    ANSWER_DELAY_S_MAX,
    BURST_S,
    BUSY_S,
    BusyRates,
    Pace,
    Pacing,
)
from clock import Clock

MIB = 1024 * 1024


def busy(clock: Clock, **rates: float) -> Pacing:
    """A client has just appended."""
    pacing = Pacing(BusyRates(**rates), clock=clock)
    pacing.normal_add()
    return pacing


def test_nobody_waits_while_no_client_appends() -> None:
    pacing = Pacing(BusyRates(recovery=1, compaction=1), clock=Clock(1000.0))
    assert pacing.recovery_delay_s(MIB) == pacing.compaction_delay_s(MIB) == 0


def test_a_bookie_that_was_told_no_rates_holds_nothing_back() -> None:
    pacing = busy(Clock(1000.0))
    assert pacing.recovery_delay_s(MIB) == pacing.compaction_delay_s(MIB) == 0


def test_who_waits_as_told_keeps_the_rate() -> None:
    pace, now = Pace(64 * MIB), 0.0
    for _ in range(640):
        now += pace.delay_s(MIB, now=now, is_busy=True)
    assert now == pytest.approx(10, abs=2 * BURST_S)


def test_all_in_flight_together_get_no_more_than_one_after_the_other() -> None:
    pace = Pace(64 * MIB)
    delays = [pace.delay_s(MIB, now=0, is_busy=True) for _ in range(32)]
    assert delays == sorted(delays) and delays[-1] == pytest.approx(0.5, abs=BURST_S)


def test_the_short_recovery_of_one_ledger_is_answered_at_once() -> None:
    clock = Clock(1000.0)
    assert busy(clock, recovery=64 * MIB).recovery_delay_s(int(64 * MIB * BURST_S)) == 0


def test_rest_is_not_saved_up() -> None:
    pace = Pace(MIB)
    pace.delay_s(1, now=0, is_busy=True)
    assert pace.delay_s(MIB, now=3600, is_busy=True) == pytest.approx(1 - BURST_S)


def test_a_moment_after_the_last_add_nothing_is_held_back_any_more() -> None:
    clock = Clock(1000.0)
    pacing = busy(clock, recovery=MIB)
    assert pacing.recovery_delay_s(MIB) > 0
    clock.now += BUSY_S
    assert pacing.recovery_delay_s(MIB) == 0


def test_what_was_owed_is_forgotten_once_no_client_appends() -> None:
    pace = Pace(MIB)
    pace.delay_s(100 * MIB, now=0, is_busy=True)
    pace.delay_s(MIB, now=1, is_busy=False)
    assert pace.delay_s(MIB, now=1, is_busy=True) <= 1


def test_no_answer_waits_so_long_that_its_client_gives_up() -> None:
    pacing = busy(Clock(1000.0), recovery=1)
    assert {pacing.recovery_delay_s(MIB) for _ in range(100)} == {ANSWER_DELAY_S_MAX}


def test_repair_and_compaction_have_a_rate_each() -> None:
    pacing = busy(Clock(1000.0), recovery=MIB, compaction=64 * MIB)
    pacing.recovery_delay_s(MIB)
    assert pacing.compaction_delay_s(MIB) == 0
