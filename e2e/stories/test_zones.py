"""Zones: the label of a node is the rack of its bookies, and copies go to several."""

import json
from collections.abc import Iterator

import pytest
from harness.kube import Object, wait_for
from harness.manifests import CLUSTER, WRITER
from harness.story import BOOKIE_PODS, Story

ZONE = "topology.kubernetes.io/zone"
LEDGERS = 12
"""Pairs of bookies taken without racks in mind are of one zone once in three times."""
RACK_S = 60.0
BOOKIE = "bookkeeper.bookie-operator.dev/bookie"


@pytest.fixture
def zones(story: Story) -> Iterator[dict[str, str]]:
    """Node -> zone, one zone for each node that takes pods."""
    nodes = [n for n in story.kube.items("nodes") if not n["spec"].get("taints")]
    found = {node["metadata"]["name"]: f"zone-{i}" for i, node in enumerate(nodes)}
    if len(found) < 2:
        pytest.skip("one node: a kind cluster with two workers has zones")
    for node, zone in found.items():
        story.kube("label", "node", node, f"{ZONE}={zone}", "--overwrite")
    yield found
    for node in found:
        story.kube("label", "node", node, f"{ZONE}-")


def racks_by_nodes(story: Story, zones: dict[str, str]) -> dict[str, str]:
    """Where the scheduler put each bookie's pod: the API server's word."""
    pods = story.kube.items("pods", BOOKIE_PODS)
    nodes = {pod["metadata"]["labels"][BOOKIE]: pod["spec"]["nodeName"] for pod in pods}
    return {bookie: f"/{zones[node]}" for bookie, node in nodes.items()}


def registered_racks(story: Story) -> dict[str, str]:
    """As ZooKeeper has it."""
    return {bookie: told["rack"] for bookie, told in story.fleet.registered().items()}


def in_writer(story: Story, *words: str, stdin: str = "") -> Object:
    metadata = story.fleet.metadata_url()
    words = ("bookie", *words, "--metadata", metadata, "--output", "json")
    found: Object = json.loads(
        story.kube("exec", "--stdin", WRITER, "--", *words, stdin=stdin or "nothing")
    )
    return found


def ensemble_of(story: Story) -> list[str]:
    """A ledger of two copies; who holds them."""
    pair = ("--ensemble", "2", "--write-quorum", "2", "--ack-quorum", "2")
    ledger = in_writer(story, "ledger", "write", *pair, stdin="an entry")["ledger_id"]
    info = in_writer(story, "ledger", "info", str(ledger))
    return list(info["fragments"][0]["ensemble"])


@pytest.mark.story("bb", "zones by the labels of nodes; nothing is misplaced")
def test_copies_go_to_several_zones(story: Story, zones: dict[str, str]) -> None:
    story.up()
    story.write()
    wanted = racks_by_nodes(story, zones)
    assert len(set(wanted.values())) > 1, "the scheduler spread nothing"
    wait_for("racks", lambda: registered_racks(story) == wanted, seconds=RACK_S)
    assert {b["id"]: b["rack"] for b in story.fleet.status()["bookies"]} == wanted
    for _ in range(LEDGERS):
        members = ensemble_of(story)
        assert len({wanted[member] for member in members}) == 2, members
    assert story.fleet.ask("audit", {"cluster": CLUSTER, "type": "audit"})["phase"] == "Succeeded"
    found = story.load.copies(digests=False)
    assert (found["racks"], found["misplaced"]) == (len(set(wanted.values())), [])
    before = story.faults.kill("bookie-1")
    story.fleet.wait_cleared("bookie-1", after=before)
    wait_for("racks again", lambda: registered_racks(story) == wanted, seconds=RACK_S)
    story.nothing_is_lost()
