"""What the API server refuses: it stands in the status in its own words, and holds up nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from harness import manifests
from harness.claims import by_spark
from harness.fleet import claim_name, condition_of
from harness.kube import Object, wait_for
from harness.manifests import CLUSTER, SPEC
from harness.story import Story

QUOTA = "full"
REFUSED = f"exceeded quota: {QUOTA}"
OTHER_CLASS = "e2e-other"
NOT_RESIZED = "only dynamically provisioned pvc can be resized"
"""The API server's words where a class does not allow expansion."""
REPLACE_S = 180.0
STALLED_S = 180.0
"""Two attempts, each with a start of Spark and the wait for executors."""
RETRIED_S = 240.0
"""A job's controller waits for a minute at most before it tries again to make a pod."""


def events_with(story: Story, words: str) -> set[str]:
    """Reasons of the cluster's events that have these words."""
    return {one["reason"] for one in story.kube.events(CLUSTER) if words in one["message"]}


@contextmanager
def quota(story: Story, what: str, count: int = 0) -> Iterator[None]:
    """So many and no more; it refuses only once a controller has counted for it."""
    story.kube.apply(manifests.quota(story.name, QUOTA, {what: str(count)}))

    def counts() -> bool:
        found = story.kube.get("resourcequota", QUOTA) or {}
        return what in ((found.get("status") or {}).get("hard") or {})

    wait_for("the quota to count", counts, seconds=30.0)
    try:
        yield
    finally:
        story.kube.delete("resourcequota", QUOTA)


@pytest.mark.story("gg", "quotas in limbo: no job for a repair, then no pod for its job")
def test_a_quota_that_refuses_a_repair_is_named_and_waited_out(story: Story) -> None:
    fleet = story.fleet
    story.up()
    story.write(prefill=(60, 30))
    for bookie, what in (("bookie-1", "count/jobs.batch"), ("bookie-2", "pods")):
        with quota(story, what):
            before = story.faults.kill(bookie)
            refusal = fleet.wait_refusal("ActionFailed", bookie=bookie)
            assert refusal["action"] == "StartJob" and REFUSED in refusal["message"], refusal
            seen = fleet.wait_condition("Degraded", reason="ActionFailed")
            assert REFUSED in condition_of(seen, "Degraded")["message"]
            assert condition_of(seen, "LimboPresent")["status"] == "True"
            assert REFUSED in story.shown()
            assert events_with(story, REFUSED) == {"ActionFailed"}
            story.load.goes_on()
        incident = fleet.wait_cleared(bookie, after=before, seconds=RETRIED_S)
        story.note(incident, name=bookie)
        fleet.wait_condition("Degraded", "False")
    assert not fleet.status().get("blocked")
    story.load.goes_on()
    story.nothing_is_lost()


@pytest.mark.story("kk", "a quota in limbo with room for Spark's driver and none for executors")
def test_executors_that_are_refused_are_told_of_in_the_servers_words(story: Story) -> None:
    fleet = story.fleet
    whole = {"engine": "spark-kubernetes", "maxAttempts": 2, "startDeadlineSeconds": 10}
    story.up({"repair": whole})
    story.write(prefill=(60, 30))
    fleet.wait_condition("DurabilityVerified")  # no other job's pod counts
    running = [pod for pod in story.kube.items("pods") if pod["status"]["phase"] == "Running"]
    with quota(story, "pods", len(running) + 1):
        before = story.faults.kill("bookie-1")
        stalled = fleet.wait_condition("RepairStalled", seconds=STALLED_S)
        assert REFUSED in condition_of(stalled, "RepairStalled")["message"]
        assert condition_of(stalled, "LimboPresent")["status"] == "True"
        assert "RepairStalled" in events_with(story, REFUSED)
        story.load.goes_on()
    with story.executors() as executors:
        incident = fleet.wait_cleared("bookie-1", after=before, seconds=RETRIED_S)
    story.note(incident)
    by_spark(incident, executors)
    fleet.wait_condition("RepairStalled", "False")
    story.nothing_is_lost()


def disks(**more: str) -> Object:
    """Those of the manifest, the ledger disks with more."""
    known = SPEC["storage"]["disks"]
    return {
        "storage": {"disks": [one | (more if one["role"] == "ledger" else {}) for one in known]}
    }


@pytest.fixture
def other_class(story: Story) -> Iterator[str]:
    """A class beside the default one, of the same provisioner."""
    (default,) = story.kube.items("storageclasses")
    story.kube.apply(manifests.storage_class(OTHER_CLASS, default["provisioner"]))
    yield OTHER_CLASS
    story.kube.delete("storageclass", OTHER_CLASS)


@pytest.mark.story("hh", "growth that the class refuses, and another class for new volumes")
def test_volumes_that_cannot_change_stay_and_stop_nothing(story: Story, other_class: str) -> None:
    fleet = story.fleet
    story.up()
    story.write(prefill=(60, 30))
    pods = story.bookie_pods()

    fleet.change(disks(size="2Gi"))
    refusal = fleet.wait_refusal("ActionFailed")
    assert refusal["action"] == "ExpandVolume" and NOT_RESIZED in refusal["message"], refusal
    seen = fleet.wait_condition("Degraded", reason="ActionFailed")
    assert NOT_RESIZED in condition_of(seen, "Degraded")["message"]
    assert condition_of(seen, "Ready")["reason"] == "VolumesGrowing"
    assert events_with(story, NOT_RESIZED) == {"ActionFailed"}
    before = story.faults.kill("bookie-1")
    story.note(fleet.wait_cleared("bookie-1", after=before))

    fleet.change(disks(size="2Gi", storageClass=other_class))
    others = fleet.wait_refusal("NewVolumesOnly")["message"]
    assert others.startswith("bookie-0 ledger-0 (standard), ") and "3 more" in others, others
    assert story.bookie_pods() == pods, "neither a size nor a class restarts anybody"

    replace = {"type": "replace-disk", "bookie": "bookie-0", "disk": "ledger-0"}
    before = fleet.epoch("bookie-0")
    done = fleet.ask("anew", replace, seconds=REPLACE_S)
    assert done["phase"] == "Succeeded", done
    fleet.wait_cleared("bookie-0", after=before)
    claim = story.kube.get("pvc", claim_name("bookie-0", "ledger-0"))
    assert claim is not None and claim["spec"]["storageClassName"] == other_class
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    others = fleet.wait_refusal("NewVolumesOnly")["message"]
    assert "bookie-0 ledger-0" not in others, others
    story.load.goes_on()
    story.nothing_is_lost()
