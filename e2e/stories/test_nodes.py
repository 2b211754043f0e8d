"""Nodes: one that is stopped or paused with bookies or ZooKeeper on it, and comes back; or never
does, and is deleted."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from harness.fleet import bookie_of, condition_of
from harness.kube import wait_for
from harness.story import BOOKIE_PODS, Story

DETECT_S = 180.0
"""The node's lease runs out (40 s), and the operator asks the node once a minute."""
BACK_S = 300.0
LOST_DELAY_S = 60
LOST_S = 240.0
"""The delay, a re-replication, and the wait for a node's lease before."""
BOOKIE = "bookkeeper.bookie-operator.dev/bookie"
FOR_BOOKIES = "e2e/bookies"
HOSTNAME = "kubernetes.io/hostname"
PAUSED_S = 75.0
"""Longer than a node's lease, a session with ZooKeeper and a bookie's own lease."""
AWAY_S = 60.0
"""Longer than every bookie's session with ZooKeeper."""
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def workers(story: Story) -> list[str]:
    nodes = story.kube.items("nodes")
    return [n["metadata"]["name"] for n in nodes if CONTROL_PLANE not in n["metadata"]["labels"]]


@contextmanager
def stopped(story: Story, node: str) -> Iterator[None]:
    story.kube.tool("docker", "stop", "--time", "1", node, seconds=60.0)
    try:
        yield
    finally:
        story.kube.tool("docker", "start", node, seconds=60.0)


@contextmanager
def paused(story: Story, node: str) -> Iterator[None]:
    """Every process there stands still, and goes on as if no time had passed."""
    story.kube.tool("docker", "pause", node, seconds=60.0)
    try:
        yield
    finally:
        story.kube.tool("docker", "unpause", node, seconds=60.0)


@contextmanager
def labelled(story: Story, kept: str) -> Iterator[None]:
    """Every worker but `kept` is one for bookies."""
    others = [node for node in workers(story) if node != kept]
    for node in others:
        story.kube("label", "node", node, f"{FOR_BOOKIES}=yes", "--overwrite")
    try:
        yield
    finally:
        for node in others:
            story.kube("label", "node", node, f"{FOR_BOOKIES}-")


def on_node(story: Story, node: str) -> set[str]:
    pods = story.kube.items("pods", BOOKIE_PODS)
    return {p["metadata"]["labels"][BOOKIE] for p in pods if p["spec"]["nodeName"] == node}


def node_to_lose(story: Story) -> str:
    found = workers(story)
    if len(found) < 2:
        pytest.skip("one node: a kind cluster with two workers has one to lose")
    return found[-1]


def with_the_fifth_alone(story: Story) -> str:
    """A fleet that is written to; the node that has its fifth bookie and nothing else."""
    lost = node_to_lose(story)
    with story.faults.cordoned(lost):  # so that operator, ZooKeeper and writer are on another one
        story.operator.renew()
        story.up()
    story.fleet.change({"replicas": 5})
    story.fleet.wait_whole()
    with story.faults.cordoned(lost):
        story.write(prefill=(60, 30))  # ledgers that the fifth has its share of
    names = on_node(story, lost)
    assert names == {"bookie-4"}, "the fifth alone is on the node that goes"
    return lost


@pytest.mark.story("cc", "a node stopped with its bookies, and back")
def test_a_stopped_node_is_named_and_its_bookies_come_back(story: Story) -> None:
    lost = with_the_fifth_alone(story)
    with stopped(story, lost):
        seen = story.fleet.wait_condition("Degraded", reason="NodeLost", seconds=DETECT_S)
        message = condition_of(seen, "Degraded")["message"]
        assert message.startswith("bookie-4: ") and f"node {lost} is not ready" in message
        assert condition_of(seen, "Ready")["status"] == "False"
        story.load.goes_on()
    story.fleet.wait_whole(seconds=BACK_S)
    story.fleet.wait_condition("Degraded", "False", seconds=BACK_S)
    story.load.goes_on()
    story.nothing_is_lost()


@pytest.mark.story("ee", "a node lost for good: others get its copies, and its bookie new volumes")
def test_a_node_that_is_lost_for_good_is_done_without(story: Story) -> None:
    lost = with_the_fifth_alone(story)
    story.fleet.change({"lostBookieDelaySeconds": LOST_DELAY_S})
    with stopped(story, lost):
        story.fleet.wait_condition("Degraded", reason="NodeLost", seconds=DETECT_S)
        seen = story.fleet.wait(
            "bookie-4 is rereplicated",
            lambda found: bookie_of(found, "bookie-4").get("rereplicatedAt"),
            seconds=LOST_S,
        )
        made = seen["status"]["rereplication"]
        assert made["bookie"] == "bookie-4" and made["ledgersMoved"] > 0, made
        story.load.goes_on()
        done = story.fleet.ask("gone", {"type": "replace-bookie", "bookie": "bookie-4"})
        assert done["phase"] == "Succeeded", done
        story.fleet.wait_whole(seconds=BACK_S)
        assert on_node(story, lost) == set(), "it runs where there is a node"
        story.load.goes_on()
        story.nothing_is_lost()


@pytest.mark.story("ss", "ZooKeeper's node stopped for longer than its sessions, and back")
def test_a_fleet_outlives_the_node_of_its_metadata_store(story: Story) -> None:
    lost = node_to_lose(story)
    with labelled(story, lost):
        story.up(
            {
                "scheduling": {"nodeSelector": {FOR_BOOKIES: "yes"}},
                "zookeeperPod": {"nodeSelector": {HOSTNAME: lost}},
            }
        )
        with story.faults.cordoned(lost):
            story.operator.renew()
            story.write(prefill=(60, 30))
        zookeeper = story.kube.get("pod", "demo-zookeeper-0")
        assert zookeeper and zookeeper["spec"]["nodeName"] == lost
        assert on_node(story, lost) == set(), "bookies are on another one"
        with stopped(story, lost):
            away = {"reason": "MetadataUnreachable", "seconds": DETECT_S}
            story.fleet.wait_condition("Available", "False", **away)
            time.sleep(AWAY_S)  # is the fault
        story.fleet.wait_whole(seconds=BACK_S)
        story.fleet.wait_condition("Degraded", "False", seconds=BACK_S)
        story.load.goes_on(seconds=BACK_S)
        assert not story.fleet.status().get("incidents"), "nobody forgot anything"
        story.nothing_is_lost()


@pytest.mark.story("tt", "a node paused, so that its bookie wakes up long after its lease")
def test_a_bookie_of_a_paused_node_goes_on_as_what_it_is(story: Story) -> None:
    lost = with_the_fifth_alone(story)
    before = story.fleet.epoch("bookie-4")
    with paused(story, lost):
        story.load.goes_on()
        time.sleep(PAUSED_S)  # is the fault
        seen = story.fleet.wait_condition("Degraded", reason="NodeLost", seconds=DETECT_S)
        assert condition_of(seen, "Ready")["status"] == "False"
    story.fleet.wait_whole(seconds=BACK_S)
    story.fleet.wait_condition("Degraded", "False", seconds=BACK_S)
    story.numbers["boots"] = story.fleet.epoch("bookie-4") - before
    story.load.goes_on()
    story.nothing_is_lost()


@pytest.mark.story("uu", "a node deleted from the cluster: its bookie gets new volumes elsewhere")
def test_a_bookie_of_a_deleted_node_is_replaced(story: Story) -> None:
    lost = with_the_fifth_alone(story)
    with stopped(story, lost):
        story.kube("delete", "node", lost)
        story.fleet.wait(
            "bookie-4 not serving",
            lambda found: bookie_of(found, "bookie-4")["state"] != "Serving",
            seconds=DETECT_S,
        )
        story.load.goes_on()
        done = story.fleet.ask(
            "gone", {"type": "replace-bookie", "bookie": "bookie-4"}, seconds=LOST_S
        )
        assert done["phase"] == "Succeeded", done
        story.fleet.wait_whole(seconds=BACK_S)
        assert lost not in {n["metadata"]["name"] for n in story.kube.items("nodes")}
        story.load.goes_on()
        story.nothing_is_lost()
    wait_for("the node to be back", lambda: lost in workers(story), seconds=BACK_S)
