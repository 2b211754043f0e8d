"""A status is one of the past, or of a wrong clock, only where nobody can take it for now."""

from datetime import timedelta

import pytest
from bookie_operator.model.looks import OLD_AFTER
from bookie_operator.model.status import ClusterStatus
from bookie_operator.status_tree.last_look import look_lines, no_look
from operator_scenes import at

SECOND, NOW = timedelta(seconds=1), at(10_000)


@pytest.mark.parametrize(
    ("ago", "word"),
    [
        (None, ""),
        (timedelta(), ""),
        (OLD_AFTER - SECOND, ""),
        (OLD_AFTER, "has not looked at the cluster for 10m"),
        (-SECOND, ""),
        (SECOND - OLD_AFTER, ""),
        (-OLD_AFTER, "which is in the future by the clock here"),
    ],
    ids=str,
)
def test_clocks_may_differ_by_as_much_as_a_look_may_be_old(
    ago: timedelta | None, word: str
) -> None:
    status = ClusterStatus(looked_at=None if ago is None else NOW - ago)
    why = no_look(status, NOW)
    assert word in why and bool(why) is bool(word)
    assert len(look_lines(status, NOW)) == bool(word)
