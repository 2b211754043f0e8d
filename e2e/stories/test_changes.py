"""Changes that people make under load: the journal, a node's drain, more bookies and fewer."""

import pytest
from harness.commands import CommandError
from harness.fleet import bookie_of, claim_name, condition_of, pod_name
from harness.kube import Object, wait_for
from harness.story import BOOKIE_PODS, Story

ROLL_S = 240.0
"""Every bookie stopped with its flush and started again, one after the other."""
DRAIN_S = 240.0


def modes(cluster: Object) -> set[str]:
    return {str(one["mode"]) for one in cluster["status"]["bookies"]}


@pytest.mark.story("k", "journalWriteData switched on and off under load")
def test_the_journal_is_switched_one_bookie_at_a_time(story: Story) -> None:
    fleet = story.fleet
    story.up()
    story.write()
    before = story.faults.kill("bookie-3")
    mark = fleet.watch.mark()
    fleet.wait_incident("bookie-3", after=before)
    with story.one_out_at_a_time():
        fleet.change({"journalWriteData": True})
        fleet.wait_refusal("LimboPresent", since=mark)
        fleet.wait_cleared("bookie-3", after=before)
        fleet.wait_condition("MixedDurability", since=mark, seconds=ROLL_S)
        fleet.wait_condition("MixedDurability", "False", seconds=ROLL_S)
        assert modes(fleet.wait_whole()) == {"journal"}
        fleet.change({"journalWriteData": False})
        fleet.wait_condition("MixedDurability")
        fleet.wait_condition("MixedDurability", "False", seconds=ROLL_S)
        assert modes(fleet.wait_whole()) == {"memory"}
    assert len(fleet.status()["incidents"]) == 1, "a restart for new settings was not clean"
    story.nothing_is_lost()


def drain(story: Story, node: str) -> str:
    """`kubectl drain` of the bookies of this story; what it said when it gave up."""
    words = ("--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector", BOOKIE_PODS)
    with pytest.raises(CommandError) as refused:
        story.kube("drain", node, *words, "--timeout", "12s")
    return refused.value.output


@pytest.mark.story("l", "a node drained")
def test_no_drain_takes_a_bookie_while_there_is_limbo(story: Story) -> None:
    story.up()
    story.write(prefill=(60, 30))
    node = story.fleet.pod("bookie-0")["spec"]["nodeName"]
    with story.faults.cordoned(node):  # no repair either: limbo stays as long as this
        before = story.faults.kill("bookie-1")
        story.fleet.wait_incident("bookie-1", after=before)
        story.wait_budget(0)
        uids = story.bookie_pods()
        assert "disruption budget" in drain(story, node)
        assert story.bookie_pods() == uids
        assert story.fleet.bookie("bookie-1")["limboLedgers"] > 0
    story.fleet.wait_cleared("bookie-1", after=before)
    story.fleet.wait_whole()
    story.wait_budget(1)
    with story.faults.cordoned(node):
        assert "disruption budget" in drain(story, node), "more than one bookie may go"
        assert len(set(uids.items()) & set(story.bookie_pods().items())) == len(uids) - 1
    story.fleet.wait_whole()
    assert len(story.fleet.status()["incidents"]) == 1, "an evicted bookie stops cleanly"
    story.nothing_is_lost()


@pytest.mark.story("o", "one bookie more and one less, under load")
def test_a_bookie_leaves_only_after_its_ledgers(story: Story) -> None:
    fleet = story.fleet
    story.up()
    story.write(prefill=(60, 30))
    fleet.change({"replicas": 5})
    fleet.wait_whole()
    wait_for(
        "bookie-4 to hold ledgers", lambda: story.fleet.has_unflushed("bookie-4"), seconds=60.0
    )
    before = story.faults.kill("bookie-1")
    mark = fleet.watch.mark()
    fleet.wait_incident("bookie-1", after=before)
    mark = fleet.watch.mark()
    fleet.change({"replicas": 4})
    fleet.wait_condition("ScaleDownBlocked", reason="LimboPresent", since=mark)
    assert story.kube.get("pod", pod_name("bookie-4")) is not None
    fleet.wait_cleared("bookie-1", after=before)
    drains = fleet.wait("bookie-4 draining", is_draining, seconds=DRAIN_S, since=mark)
    assert condition_of(drains, "LimboPresent")["status"] == "False", drains["status"]["limbo"]
    fleet.wait("bookie-4 leaving", is_leaving, seconds=DRAIN_S, since=mark)
    wait_for(
        "bookie-4's pod to go",
        lambda: story.kube.get("pod", pod_name("bookie-4")) is None,
        seconds=90.0,
    )
    told = fleet.wait_whole()
    assert condition_of(told, "ScaleDownBlocked")["status"] == "False"
    assert story.kube.get("pvc", claim_name("bookie-4", "ledger-0")) is not None, "data is kept"
    story.load.goes_on()
    story.nothing_is_lost()


@pytest.mark.story("pp", "a bookie in the middle given up, and taken back")
def test_any_bookie_can_be_given_up(story: Story) -> None:
    story.up()
    story.write(prefill=(60, 30))
    leaves = pod_name("bookie-1")
    story.fleet.change({"replicas": 4, "excludedOrdinals": [1]})
    wait_for(f"{leaves} to go", lambda: story.kube.get("pod", leaves) is None, seconds=DRAIN_S)
    told = story.fleet.wait_whole()
    bookies = {one["id"] for one in told["status"]["bookies"]}
    assert bookies == {"bookie-0", "bookie-2", "bookie-3", "bookie-4"}
    story.load.goes_on()
    story.fleet.change({"excludedOrdinals": []})
    left = pod_name("bookie-4")
    wait_for(f"{left} to go", lambda: story.kube.get("pod", left) is None, seconds=DRAIN_S)
    story.fleet.wait_whole()
    story.load.goes_on()
    story.nothing_is_missing()


def is_draining(cluster: Object) -> bool:
    return bool(bookie_of(cluster, "bookie-4")["state"] == "Draining")


def is_leaving(cluster: Object) -> bool:
    return bool(bookie_of(cluster, "bookie-4")["state"] == "Leaving")
