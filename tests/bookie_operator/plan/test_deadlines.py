"""How long the next attempt waits."""

from datetime import timedelta

import pytest
from bookie_operator.model.repair_spec import Repair
from bookie_operator.plan.deadlines import CLOCKS_APART, backoff, is_waited_out
from operator_scenes import at

SHORT = Repair(backoffSeconds=1, backoffMaxSeconds=1)


def test_the_first_wait_applies_though_the_longest_is_shorter() -> None:
    wanted = Repair(backoffSeconds=600, backoffMaxSeconds=60)
    assert {backoff(number, wanted) for number in (1, 2, 9)} == {timedelta(seconds=600)}
    assert not is_waited_out(at(600), wanted, at(0))


@pytest.mark.parametrize(("ahead", "begins"), [(CLOCKS_APART, False), (2 * CLOCKS_APART, True)])
def test_short_waits_are_kept_though_the_clock_of_the_job_is_ahead(
    ahead: timedelta, begins: bool
) -> None:
    assert is_waited_out(at(1) + ahead, SHORT, at(0)) is begins
