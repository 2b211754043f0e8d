"""The status object of a pass: totals that people and their graphs go by."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Health, Phase
from bookie_operator.model.status import Blocked, ClusterStatus
from bookie_operator.observed import MetadataView
from bookie_operator.plan.actions import Refusal
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.planner import plan
from bookie_operator.plan.report import blocked
from operator_scenes import HEALTHY, at, bookie, cluster, observed, volumes_of

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


def test_what_refuses_an_action_counts_from_when_it_began_to() -> None:
    limbo = Refusal("Restart", "LimboPresent", "why", bookie=B0)
    known = Blocked(bookie=B0, action="Restart", predicate="LimboPresent", since=at(5), message="")
    look = Pass.of(cluster(), observed(seconds=50), ClusterStatus(blocked=(known,)))
    found = blocked(look, [limbo, replace(limbo, predicate="HungAgain")])
    assert [one.since for one in found] == [at(5), at(50)]


def test_the_status_says_whether_the_metadata_store_answers() -> None:
    silent = replace(observed(), metadata=MetadataView(url="zk://here:2181/ledgers"))
    seen = [plan(cluster(), one, ClusterStatus()).status for one in (observed(), silent)]
    assert [one.metadata.reachable for one in seen] == [True, False]


def test_the_status_says_where_the_metadata_lie_until_they_lie_elsewhere() -> None:
    """Tools of people read it there, also while nobody knows."""
    status, told = ClusterStatus(), []
    for url in ("zk://here:2181/ledgers", "", "zk://there:2181/ledgers", ""):
        seen = replace(observed(), metadata=MetadataView(url=url))
        status = plan(cluster(), seen, status).status
        told.append(status.metadata.url.partition(":2181")[0])
    assert told == ["zk://here", "zk://here", "zk://there", "zk://there"]


@pytest.mark.parametrize("found", ["another", None])
def test_a_cluster_goes_by_the_first_metadata_that_it_had_for_life(found: str | None) -> None:
    """However often another store is seen: its bookies' ledgers are known only to the first."""
    status = ClusterStatus()
    for instance in ("instance-1", found, found, found):
        seen = observed(metadata=replace(HEALTHY, instance_id=instance))
        made = plan(cluster(), seen, status)
        status = made.status
        assert status.metadata.instance_id == "instance-1"
    assert "LineageMismatch" in [one.predicate for one in made.refusals]


def test_the_status_says_where_clients_find_a_bookie_unless_that_is_too_long() -> None:
    for address, told in (("far.example:3181", "far.example:3181"), ("x" * 1025, "")):
        one = bookie(B0, process_facts={"advertised": address})
        shown = plan(cluster(), observed(one), ClusterStatus()).status.bookie(B0)
        assert shown is not None and shown.advertised == told


def test_the_status_says_when_the_operator_looked() -> None:
    status = ClusterStatus()
    for seconds, looked in ((0, 0), (200, 0), (300, 300), (500, 300)):
        status = plan(cluster(), observed(seconds=seconds), status).status
        assert status.looked_at == at(looked)


def test_the_status_says_when_the_spec_last_changed() -> None:
    before = ClusterStatus(observed_generation=1, generation_since=at(5))
    same, other = cluster(), cluster()
    other = other.model_copy(
        update={"metadata": other.metadata.model_copy(update={"generation": 2})}
    )
    found = [plan(one, observed(seconds=60), before).status for one in (same, other)]
    assert [one.generation_since for one in found] == [at(5), at(60)]


def test_a_kill_that_a_boot_has_reported_is_forgotten() -> None:
    """Otherwise it would be called the cause of the next unclean stop as well."""
    before = plan(cluster(), observed(), ClusterStatus()).status
    down = bookie(B0, running=False, exit_at=10)
    killed = plan(cluster(), observed(down, seconds=20), before).status
    back = bookie(B0, epoch=2, reason="UncleanShutdown", exit_at=10, boot_at=30)
    booted = plan(cluster(), observed(back, seconds=40), killed).status
    found = [one.bookie(B0) for one in (killed, booted)]
    assert [one is not None and one.first_kill is not None for one in found] == [True, False]


def test_a_disk_keeps_its_volume_until_the_boot_on_another_one_is_known() -> None:
    """An incident says which disk was replaced since the boot before."""
    before = plan(cluster(), observed(), ClusterStatus()).status
    booting = bookie(B0, phase=Phase.BOOTING)
    assert booting.health is not None
    disks = tuple(replace(disk, volume_uid="other") for disk in booting.health.disks)
    for boot, expected in ((None, volumes_of(B0)["journal"].uid), (booting.health.boot, "other")):
        seen = replace(booting, health=replace(booting.health, boot=boot, disks=disks))
        shown = plan(cluster(), observed(seen, seconds=5), before).status.bookie(B0)
        assert shown is not None and shown.disks[0].volume_uid == expected


SAID = ("boot_epoch", "last_shutdown", "mode", "limbo_ledgers", "unchecked_ledgers", "version")
SAID += ("losses_recorded", "pod", "node", "node_boot_id", "tls", "disks")


HOST = {"pod": "pod-1", "node": "worker-1", "node_boot_id": "boot-1"}
TOLD: dict[str, Any] = {"epoch": 2, "reason": "UncleanShutdown", "limbo": 2, "unchecked": 1}
TOLD |= {"losses_recorded": 1, "version": "1.2", "process_facts": HOST}


@pytest.mark.parametrize(
    "now",
    [{"health": None}, {"health": None, "process": None}, {"health": Health(Phase.BOOTING, None)}],
    ids=["unheard", "no process", "no boot yet"],
)
def test_what_a_bookie_said_stays_until_it_says_something_else(now: dict[str, Any]) -> None:
    one, status, shown = bookie(B0, **TOLD), ClusterStatus(), []
    for seen in (one, replace(one, **now), replace(one, **now)):
        status = plan(cluster(), observed(seen), status).status
        shown.append([getattr(status.bookie(B0), name) for name in SAID])
    assert shown[0] == shown[1] == shown[2]
