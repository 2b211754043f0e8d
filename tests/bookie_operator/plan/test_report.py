"""The status object of a pass: totals that people and their graphs go by."""

import pytest
from bookie.ids import BookieId
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.planner import plan
from operator_scenes import bookie, cluster, observed

B0 = BookieId("bookie-0")


def marked(epoch: int, limbo: int, seconds: float, before: ClusterStatus) -> ClusterStatus:
    one = bookie(B0, epoch=epoch, reason="UncleanShutdown", limbo=limbo)
    return plan(cluster(), observed(one, seconds=seconds), before).status


@pytest.mark.parametrize("epoch", [2, 3])
@pytest.mark.parametrize("limbo", [0, 2, 5, 9])
def test_only_marks_that_one_boot_has_less_count_as_cleared(epoch: int, limbo: int) -> None:
    """Another boot has marks of its own: what it has less was never cleared."""
    before = marked(2, 5, 10, ClusterStatus())
    assert (before.limbo.ledgers, before.limbo.cleared_total) == (5, 0)
    after = marked(epoch, limbo, 20, before)
    assert after.limbo.ledgers == limbo
    assert after.limbo.cleared_total == (max(0, 5 - limbo) if epoch == 2 else 0)
