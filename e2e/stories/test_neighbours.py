"""Clusters beside each other in one namespace; those whose objects would have one name."""

import pytest
from harness import manifests
from harness.fleet import BKC, condition_of
from harness.kube import Object, wait_for
from harness.manifests import CLUSTER
from harness.story import Story

OTHER = "other"
CLASHING = (f"{CLUSTER}-bookies", f"{CLUSTER}-zookeeper")
"""Each has a service of its own name, which the first cluster has for its bookies or ZooKeeper."""
ONE_BOOKIE: Object = {
    "replicas": 1,
    "quorum": {"ensemble": 1, "write": 1, "ack": 1},
    "journalWriteData": True,  # a single copy in memory alone is refused
}
UP_S = 150.0
STOP_S = 120.0
KINDS = "statefulsets,services,serviceaccounts,persistentvolumeclaims,poddisruptionbudgets"


def objects(story: Story) -> dict[str, tuple[str, Object]]:
    """Everything that the first cluster has: uid and selector by kind and name."""
    found = story.kube.items(KINDS, f"bookkeeper.bookie-operator.dev/cluster={CLUSTER}")
    return {
        f"{one['kind']} {one['metadata']['name']}": (
            one["metadata"]["uid"],
            (one.get("spec") or {}).get("selector"),
        )
        for one in found
    }


def wait_says(story: Story, name: str, kind: str, reason: str) -> str:
    """Until a cluster's condition is True for this reason; its message."""

    def says() -> Object | None:
        one = condition_of(story.kube.get(BKC, name) or {"metadata": {}}, kind)
        return one if (one["status"], one["reason"]) == ("True", reason) else None

    return str(wait_for(f"{name}: {kind} {reason}", says, seconds=UP_S)["message"])


@pytest.mark.story("jj", "two clusters in a namespace, and two whose names clash with the first")
def test_neighbours_share_a_namespace_and_no_names(story: Story) -> None:
    story.up({"replicas": 3})
    story.write(prefill=(60, 30))
    mine = objects(story)
    for name in (OTHER, *CLASHING):
        story.kube.apply(manifests.cluster(story.name, ONE_BOOKIE, name=name))
    for name in CLASHING:
        message = wait_says(story, name, "Degraded", "NameTaken")
        taken = f"Service {name} exists already and belongs to BookieCluster {CLUSTER};"
        assert taken in message, message
    wait_says(story, OTHER, "Ready", "AsWanted")

    before = story.faults.kill("bookie-1")
    story.note(story.fleet.wait_cleared("bookie-1", after=before))
    other = story.kube.get(BKC, OTHER) or {}
    assert not other["status"].get("incidents")
    assert condition_of(other, "Ready")["status"] == "True"
    assert objects(story) == mine

    story.kube.delete(BKC, *CLASHING, OTHER, wait=True, seconds=STOP_S)
    assert objects(story) == mine, "who goes takes nothing of others along"
    story.fleet.wait_whole()
    story.load.goes_on()
    story.nothing_is_lost()
