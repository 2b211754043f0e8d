"""Disks that are replaced, wiped, swapped or older than they were."""

import pytest
from harness.claims import by_spark
from harness.faults import DISKS
from harness.fleet import claim_name, condition_of
from harness.story import Story

VERIFIED_S = 60.0


@pytest.mark.story("d", "PVCs and pod deleted")
def test_a_bookie_on_new_volumes_gets_its_cookie_fixed(story: Story) -> None:
    story.up({"repair": {"engine": "spark-kubernetes"}})
    story.write(prefill=(60, 30))
    with story.recording(story.folder / "watch.txt"), story.executors() as executors:
        before = story.faults.delete_claims("bookie-2", *DISKS)
        incident = story.fleet.wait_cleared("bookie-2", after=before)
        story.fleet.wait_condition("DurabilityVerified", seconds=VERIFIED_S)
    story.note(incident)
    assert incident["kind"] == "DiskReplaced"
    assert incident["entriesCopiedClosed"] > 0, incident
    by_spark(incident, executors)
    story.load.goes_on()
    story.nothing_is_lost()


@pytest.mark.story("e", "a folder wiped under the same PVC")
def test_a_wiped_folder_is_found_under_its_old_volume(story: Story) -> None:
    story.up()
    story.write(prefill=(60, 30))
    before = story.fleet.epoch("bookie-1")
    with story.faults.stopped("bookie-1"):
        claim = story.kube.get("pvc", claim_name("bookie-1", "ledger-0"))
        story.faults.wipe("bookie-1", "ledger-0")
    incident = story.fleet.wait_cleared("bookie-1", after=before)
    story.note(incident)
    assert incident["kind"] == "DiskWiped"
    assert incident["entriesCopiedClosed"] > 0, incident
    now = story.kube.get("pvc", claim_name("bookie-1", "ledger-0"))
    assert claim and now and now["metadata"]["uid"] == claim["metadata"]["uid"]
    story.nothing_is_lost()


@pytest.mark.story("f", "one of two ledger disks replaced")
def test_one_replaced_disk_leaves_the_other_alone(story: Story) -> None:
    story.up()
    story.write(prefill=(60, 30))
    before = story.faults.delete_claims("bookie-3", "ledger-1")
    incident = story.fleet.wait_cleared("bookie-3", after=before)
    story.note(incident)
    assert incident["kind"] == "DiskReplaced"
    verdicts = {one["name"]: one["verdict"] for one in story.fleet.bookie("bookie-3")["disks"]}
    assert (verdicts["journal"], verdicts["ledger-0"]) == ("ok", "ok"), verdicts
    assert verdicts["ledger-1"] == "empty", verdicts
    story.nothing_is_lost()


@pytest.mark.story("g", "two disks swapped")
def test_swapped_disks_are_refused(story: Story) -> None:
    disks = ("bookie-1", "ledger-0"), ("bookie-1", "ledger-1")
    story.up()
    story.write()
    before = story.fleet.epoch("bookie-1")
    with story.faults.stopped("bookie-1"):
        story.faults.swap(*disks)
    refused = story.fleet.wait_condition("Degraded", reason="SwappedDisk")
    assert "swapped" in condition_of(refused, "Degraded")["message"].lower()
    story.load.goes_on()
    assert story.fleet.epoch("bookie-1") == before
    with story.faults.stopped("bookie-1"):
        story.faults.swap(*disks)
    story.fleet.wait_whole()
    story.nothing_is_lost()


@pytest.mark.story("p", "a volume restored from an older copy")
def test_an_older_copy_waits_for_a_person(story: Story) -> None:
    story.up()
    story.write()
    with story.faults.stopped("bookie-2"):
        story.faults.copy_aside("bookie-2", "ledger-0")
    story.fleet.wait_whole()
    story.load.goes_on(entries=1500)
    before = story.fleet.epoch("bookie-2")
    with story.faults.stopped("bookie-2"):
        story.faults.put_back("bookie-2", "ledger-0")
    refusal = story.fleet.wait_refusal("SuspectDisk", bookie="bookie-2")
    assert "stale" in refusal["message"]
    story.fleet.wait_condition("CookieFixPending")
    story.load.goes_on()
    assert story.fleet.epoch("bookie-2") == before
    plan = story.fleet.pending_plan("bookie-2")
    wish = {"type": "approve-cookie-fix", "bookie": "bookie-2", "planId": plan}
    wish["approvedBy"] = "kubernetes-admin"  # by the API server's word
    approved = story.fleet.ask("approve-p", wish)
    assert approved["phase"] == "Succeeded", approved
    incident = story.fleet.wait_cleared("bookie-2", after=before)
    story.note(incident)
    assert incident["kind"] == "DiskStale"
    story.nothing_is_lost()
