"""A bookie that hangs: its process lives, answers nobody, and holds entries only in memory."""

import time
from datetime import UTC, datetime

import pytest
from harness.claims import told_once
from harness.fleet import bookie_of, condition_of
from harness.kube import wait_for
from harness.manifests import CLUSTER
from harness.story import Story

HUNG = "bookie-2"
HUNG_S = 300.0
"""Of silence before the operator restarts it."""
SAID_S = 120.0
"""Until it is silent, not ready, and its session with ZooKeeper has ended."""
RESTART_S = 240.0
"""The grace of a pod that hears no SIGTERM, and the boot after it."""
VERIFIED_S = 120.0


def is_said_of(story: Story) -> str:
    """What Degraded says once others miss it, too; `kubectl bookie status` shows the same."""

    def is_missed(cluster: dict[str, object]) -> bool:
        one = condition_of(cluster, "Degraded")
        return one["reason"] == "BookieUnresponsive" and "is restarted" in one["message"]

    seen = story.fleet.wait(f"{HUNG} is said to hang", is_missed, seconds=SAID_S)
    message = str(condition_of(seen, "Degraded")["message"])
    words = message.removeprefix(f"{HUNG}: ")
    assert words.startswith("its control plane does not answer since "), message
    assert words.endswith(f"it is restarted when that lasts {HUNG_S:g} s"), message
    assert bookie_of(seen, HUNG)["message"] == words
    assert condition_of(seen, "Ready")["status"] == "False"
    shown = story.shown()
    assert "Unresponsive" in shown and words in shown, shown
    return message


@pytest.mark.story("ff", "a bookie that hangs: thawed in time, then restarted by the operator")
def test_a_hung_bookie_is_left_for_five_minutes_and_then_restarted(story: Story) -> None:
    fleet = story.fleet
    story.up()
    story.write(prefill=(60, 30))
    uid = fleet.pod(HUNG)["metadata"]["uid"]

    with story.faults.hung(HUNG):
        is_said_of(story)
        story.load.goes_on()
    thawed = datetime.now(UTC)
    fleet.wait_whole()
    story.verified_by_itself(thawed)
    assert fleet.pod(HUNG)["metadata"]["uid"] == uid, "nobody restarts it within five minutes"

    before, began = story.faults.hang(HUNG), time.monotonic()
    is_said_of(story)
    story.wait_budget(0)
    seconds = HUNG_S + RESTART_S
    wait_for("another pod", lambda: fleet.pod(HUNG)["metadata"]["uid"] != uid, seconds=seconds)
    story.numbers["another_pod_s"] = round(time.monotonic() - began, 1)
    assert story.numbers["another_pod_s"] >= HUNG_S
    incident = fleet.wait_cleared(HUNG, after=before)
    story.note(incident)
    assert incident["kind"] == "UncleanShutdown"
    told_once(fleet, HUNG, after=before)
    restarting = [one for one in fleet.kube.events(CLUSTER) if one["reason"] == "BookieRestarting"]
    assert [one["message"] for one in restarting] == [f"{HUNG}: Hung"]
    fleet.wait_condition("DurabilityVerified", seconds=VERIFIED_S)
    story.load.goes_on()
    story.nothing_is_missing()
