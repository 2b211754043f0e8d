"""Who answers as a bookie: the name it registers, and how long the next process waits for it."""

from datetime import UTC, datetime

import pytest
from harness.faults import DISKS
from harness.fleet import condition_of, pod_name
from harness.kube import Object
from harness.settings import PATIENCE
from harness.story import Story

LEASE_S = 75.0
OWN_LOCK_S = 60.0
"""Who gets the lock of the process before is back before a lease could have run out."""
SETTLED_S = 60.0


def named_by_pods(story: Story) -> Object:
    """What must be registered: each bookie under its pod's name, which leads to that pod."""
    found = {}
    for number in range(story.fleet.object()["spec"]["replicas"]):
        pod = pod_name(f"bookie-{number}")
        host = f"{pod}.demo-bookies.{story.name}.svc"
        address = story.fleet.pod(f"bookie-{number}")["status"]["podIP"]
        found[f"bookie-{number}"] = {"hosts": [host], "addresses": [address]}
    return found


def registered(story: Story) -> Object:
    """Hosts and addresses, without racks."""
    told = story.fleet.registered()
    return {b: {k: one[k] for k in ("hosts", "addresses")} for b, one in told.items()}


def seconds_until_served(story: Story, incident: Object, began: datetime) -> float:
    up = story.fleet.up_at(incident["bookie"], incident["bootEpochAfter"])
    return round((up - began).total_seconds(), 1)


@pytest.mark.story("q", "names of bookies; a killed and a forced one get their own locks")
def test_who_gets_its_own_lock_waits_for_no_lease(story: Story) -> None:
    story.up()
    story.write()
    assert registered(story) == named_by_pods(story)
    for name, fault in (
        ("killed_s", story.faults.kill),
        ("forced_s", story.faults.hang_and_force_delete),
    ):
        before, began = fault("bookie-1"), datetime.now(UTC)
        incident = story.fleet.wait_cleared("bookie-1", after=before)
        story.numbers[name] = seconds_until_served(story, incident, began)
        assert story.numbers[name] < OWN_LOCK_S
    assert registered(story) == named_by_pods(story)
    story.nothing_is_lost()


@pytest.mark.story("s", "disks of a hung bookie come to another machine")
def test_copied_disks_wait_until_the_former_process_cannot_answer(story: Story) -> None:
    story.up()
    story.write()
    before = story.fleet.epoch("bookie-1")
    with story.faults.hung_and_held("bookie-1"):
        for disk in DISKS:  # a copied lock is another lock
            story.faults.copy_aside("bookie-1", disk)
            story.faults.put_back("bookie-1", disk)
        began = datetime.now(UTC)
    with story.recording(story.folder / "watch.txt"):
        incident = story.fleet.wait_cleared("bookie-1", after=before)
    story.numbers["copied_s"] = seconds_until_served(story, incident, began)
    assert LEASE_S < story.numbers["copied_s"] < LEASE_S + OWN_LOCK_S * PATIENCE
    assert incident["kind"] == "UncleanShutdown"
    story.load.goes_on()
    story.nothing_is_lost()


@pytest.mark.story("t", "what a cluster at rest says of its metadata store and of collection")
def test_a_cluster_at_rest_tells_of_rollbacks_collection_and_budget(story: Story) -> None:
    story.up()
    story.fleet.wait_condition("DurabilityVerified", seconds=SETTLED_S)
    told = story.fleet.wait_condition("MetadataRolledBack", "False", reason="NotSeen")
    assert condition_of(told, "CollectionHeld")["status"] == "False"
    assert told["status"]["lossBudget"]
    shown = story.kube("describe", "bkc", "demo")
    for word in ("MetadataRolledBack", "CollectionHeld", "Loss Budget"):
        assert word in shown, shown
