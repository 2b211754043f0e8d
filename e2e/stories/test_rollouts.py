"""Rolling images out: a canary, a bad image that halts, the good one behind it, one restart."""

import pytest
from harness.fleet import bookie_of, condition_of
from harness.kube import Object
from harness.manifests import BOOKIE_IMAGE, CLUSTER
from harness.story import Story

ROLL_S = 240.0
"""Every bookie stopped with its flush and started again, one after the other."""
HALT_S = 150.0
"""An image that cannot be had: the pull's own waits, then a minute in which it may still come."""
GOOD, BAD = "bookie-operator/bookie:canary", "bookie-operator/bookie:of-nobody"
LAST = "bookie-3"
"""The one above the partition."""


def is_updated(cluster: Object) -> dict[str, bool]:
    return {one["id"]: one["isUpdated"] for one in cluster["status"]["bookies"]}


@pytest.mark.story("aa", "a canary, a bad image, a good one, one bookie restarted on request")
def test_an_image_goes_no_further_than_it_is_let_and_no_further_than_it_works(
    story: Story,
) -> None:
    fleet = story.fleet
    story.kind.load_as(BOOKIE_IMAGE, GOOD)
    story.up()
    story.write()
    first = story.bookie_images()

    with story.one_out_at_a_time():
        fleet.change({"image": GOOD, "rollout": {"partition": 3}})
        canary = fleet.wait_condition(
            "Progressing", "False", reason="PartitionReached", seconds=ROLL_S
        )
        assert condition_of(canary, "Ready")["status"] == "True"
        assert story.bookie_images() == first | {LAST: GOOD}
        assert canary["status"]["updatedReplicas"] == 1
        assert [name for name, new in is_updated(canary).items() if new] == [LAST]

        asked = {"cluster": CLUSTER, "type": "restart", "bookie": "bookie-0"}
        uid = fleet.pod("bookie-0")["metadata"]["uid"]
        assert fleet.ask("restart-one", asked, seconds=ROLL_S)["phase"] == "Succeeded"
        assert fleet.pod("bookie-0")["metadata"]["uid"] != uid
        assert story.bookie_images() == first | {LAST: GOOD}, (
            "a restart is no way past the partition"
        )

        fleet.change({"image": BAD, "rollout": {"partition": 0}})
        halted = fleet.wait_condition("Stalled", reason="RolloutHalted", seconds=HALT_S)
        assert BAD in condition_of(halted, "Stalled")["message"], "the pod's own words"
        assert list(story.bookie_images().values()).count(BAD) == 1, "nobody else was touched"
        assert condition_of(halted, "Ready")["status"] == "False"
        story.load.goes_on()

        fleet.change({"image": GOOD})
        fleet.wait_condition("Ready", seconds=ROLL_S)
        assert set(story.bookie_images().values()) == {GOOD}
    whole = fleet.wait_whole()
    assert whole["status"]["updatedReplicas"] == 4
    assert bookie_of(whole, "bookie-0")["version"]
    assert condition_of(whole, "Stalled")["status"] == "False"
    story.nothing_is_lost()
