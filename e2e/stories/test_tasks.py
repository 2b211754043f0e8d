"""Tasks that are over: each goes when its time is, none before its end, all with their cluster."""

import pytest
from harness import manifests
from harness.fleet import BKC, BKT
from harness.kube import Object, wait_for
from harness.manifests import CLUSTER
from harness.story import Story

TTL_S = 5
ENDED_S = 90.0
STOP_S = 120.0
NO_LIMBO: Object = {"type": "repair", "bookie": "bookie-1"}


def phase(story: Story, name: str) -> str:
    """Empty: there is no such task."""
    found = story.kube.get(BKT, name) or {}
    return str((found.get("status") or {}).get("phase", ""))


def wait_gone(story: Story, name: str, *, seconds: float) -> None:
    wait_for(f"task {name} to go", lambda: story.kube.get(BKT, name) is None, seconds=seconds)


@pytest.mark.story("ii", "ended tasks go by time and by number, one that runs never")
def test_a_task_goes_when_its_time_is_over(story: Story) -> None:
    fleet = story.fleet
    story.up()
    audits = fleet.wait_condition("DurabilityVerified")["status"]["audit"]["attempt"]
    with story.faults.cordoned(story.kind.nodes()[0]):  # an audit that gets no pod
        held = {"type": "audit", "ttlSecondsAfterFinished": 0}
        story.kube.apply(manifests.task(story.name, "held", held))
        wait_for("held to run", lambda: phase(story, "held") == "Running", seconds=ENDED_S)
        assert fleet.ask("kept", NO_LIMBO)["phase"] == "Succeeded"
        brief = fleet.ask("brief", NO_LIMBO | {"ttlSecondsAfterFinished": TTL_S})
        assert brief["phase"] == "Succeeded", brief
        wait_gone(story, "brief", seconds=ENDED_S)
        assert phase(story, "held") == "Running", "it has not ended"
    wait_gone(story, "held", seconds=ENDED_S)
    audit = fleet.status()["audit"]
    assert (audit["attempt"], audit["failures"]) == (audits + 1, 0), "held ended as it should"

    fleet.change({"taskHistoryLimit": 1})
    assert fleet.ask("newest", NO_LIMBO)["phase"] == "Succeeded"
    wait_gone(story, "kept", seconds=ENDED_S)
    newest = story.kube.get(BKT, "newest") or {}
    (owner,) = newest["metadata"]["ownerReferences"]
    assert owner["uid"] == fleet.object()["metadata"]["uid"]
    fleet.stop_watching()
    story.kube.delete(BKC, CLUSTER, wait=True, seconds=STOP_S)
    wait_gone(story, "newest", seconds=ENDED_S)
