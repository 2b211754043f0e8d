"""Incidents: what opens one, and what never does again."""

from bookie.ids import BookieId
from bookie_operator.model.status import INCIDENTS_MAX, ClusterStatus
from bookie_operator.observed import Bookie
from bookie_operator.plan import plan
from operator_scenes import bookie, cluster, observed

B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")


def after(epochs: range, status: ClusterStatus, *others: Bookie) -> ClusterStatus:
    """bookie-1 stopped uncleanly before each of these boots; limbo was 0 soon after."""
    for epoch in epochs:
        stopped = bookie(B1, epoch=epoch, reason="UncleanShutdown", boot_at=epoch)
        seen = observed(*others, stopped, seconds=epoch + 1)
        status = plan(cluster(), seen, status).status
    return status


def test_an_old_incident_stays_closed_however_many_others_follow() -> None:
    quiet = bookie(B0, epoch=2, reason="UncleanShutdown")
    status = after(range(2, INCIDENTS_MAX + 12), ClusterStatus(), quiet)
    assert len(status.incidents) == INCIDENTS_MAX
    assert [one.boot_epoch_after for one in status.incidents if one.bookie == B0] == [2]
    assert status.incidents[0].bookie == B0, "it was not opened again"
