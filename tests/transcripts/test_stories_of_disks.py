"""Stories of disks: replaced by the world or by a task, full, and consent to what was found."""

from typing import Final

from bookie.wire.admin.health import PersonDecision, Phase
from bookie_operator.observed import JobKind
from operator_story import Story
from story_bookies import GIB
from story_reports import repair
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

OFF: Final = {"mode": "Off"}


async def test_a_wiped_disk_with_policy_auto(snapshot: SnapshotAssertion) -> None:
    """The operator consents; later the same disk is replaced by another volume."""
    story = Story(tls=OFF)
    await story.is_running()
    story.note("bookie-1 comes back with an empty disk")
    story.bookie(1).lose_disk("ledger-1", limbo=5)
    await story.go_on(5)
    story.bookie(1).limbo = 0
    story.end_job(JobKind.REPAIR, repair())
    await story.go_on(3)
    assert snapshot(extension_class=Words) == story.text


async def test_a_replaced_disk_with_policy_approve(snapshot: SnapshotAssertion) -> None:
    """A person consents: to another plan, then to this one; then a task that is late."""
    story = Story(tls=OFF, cookieFix={"policy": "Approve"})
    await story.is_running()
    story.note("the volume of ledger-0 of bookie-1 is another one")
    one = story.bookie(1)
    one.end(-9, "killed by signal 9")
    one.make_volume(one.template.disks[1])
    one.lose_disk("ledger-0", limbo=2)
    await story.go_on(3)
    story.ask("approve-cookie-fix", "other-plan", bookie="bookie-1", planId="plan-9")
    await story.go_on()
    story.ask("approve-cookie-fix", bookie="bookie-1", planId="plan-1", approvedBy="ann")
    await story.go_on(4)
    story.ask("approve-cookie-fix", "late", bookie="bookie-1", planId="plan-1")
    await story.go_on()
    assert snapshot(extension_class=Words) == story.text


async def test_disks_of_two_bookies_at_once(snapshot: SnapshotAssertion) -> None:
    """A person must decide, also under Auto; a foreign disk is a person's matter anyway."""
    story = Story(replicas=5, quorum={"ensemble": 4, "write": 4, "ack": 3}, tls=OFF)
    await story.is_running()
    story.note("two come back with empty disks, and one with a stale one")
    story.bookie(0).lose_disk("journal", limbo=1, plan_id="plan-a")
    story.bookie(1).lose_disk("ledger-1", limbo=1, plan_id="plan-b")
    await story.go_on(2)
    story.bookie(2).ask_for_fix({"ledger-0": "stale"}, plan_id="plan-c")
    await story.go_on(3)
    story.ask("approve-cookie-fix", bookie="bookie-0", planId="plan-a")
    await story.go_on(2)
    story.note("and bookie-4 refuses: its disk is another cluster's")
    story.bookie(4).begin()
    story.bookie(4).verdicts = {"journal": "foreign"}
    story.bookie(4).coming = [Phase.REFUSED]
    story.bookie(4).facts["message"] = "the journal is foreign: it belongs to bookie-8"
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_a_disk_that_a_task_replaces(snapshot: SnapshotAssertion) -> None:
    story = Story(replicas=4, tls=OFF)
    await story.is_running()
    story.ask("replace-disk", "no-such-disk", bookie="bookie-1", disk="ledger-7")
    story.ask("replace-disk", bookie="bookie-1", disk="ledger-0")
    story.ask("replace-disk", "another", bookie="bookie-2", disk="journal")
    await story.go_on(3)
    story.note("the disk is empty, and the bookie asks")
    story.bookie(1).ask_for_fix({"ledger-0": "new"}, limbo=2)
    await story.go_on(5)
    assert snapshot(extension_class=Words) == story.text


async def test_a_bookie_that_a_task_replaces(snapshot: SnapshotAssertion) -> None:
    story = Story(replicas=4, tls=OFF)
    await story.is_running()
    story.ask("replace-bookie", "too-early", bookie="bookie-3")
    await story.go_on()
    story.note("the node of bookie-3 is gone with its disks")
    story.bookie(3).coming = []
    story.bookie(3).platform = {"running": False, "node_trouble": "is gone", "is_ready": False}
    await story.go_on(2, every=70)
    story.ask("replace-bookie", bookie="bookie-3")
    await story.go_on()
    story.bookie(3).platform.clear()
    await story.go_on(2)
    story.bookie(3).ask_for_fix({"journal": "new", "ledger-0": "new", "ledger-1": "new"}, limbo=9)
    await story.go_on(5)
    assert snapshot(extension_class=Words) == story.text


async def test_full_disks(snapshot: SnapshotAssertion) -> None:
    """First a warning, then read-only; a volume grows, and there is space again."""
    story = Story(tls=OFF)
    await story.is_running()
    story.note("little is free on bookie-2")
    story.bookie(2).free = {"ledger-0": GIB // 2, "journal": GIB // 4}
    await story.go_on()
    story.note("it takes no more")
    story.bookie(2).coming = [Phase.READ_ONLY]
    story.bookie(2).facts["message"] = "ledger 0 is full"
    await story.go_on(2)
    larger = [{"name": d.name, "role": d.role, "size": "20Gi"} for d in story.disks]
    story.change("larger disks", storage={"disks": larger})
    await story.go_on()
    story.bookie(2).free = {"ledger-0": 5 * GIB // 4}
    story.bookie(2).coming = [Phase.SERVING]
    story.bookie(2).facts.clear()
    await story.go_on()
    story.bookie(2).free = {}
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_a_collection_that_waits(snapshot: SnapshotAssertion) -> None:
    """A store that was put back, ledgers that would go, and who may say that they should."""
    story = Story(tls=OFF)
    await story.is_running()
    one = story.bookie(1)
    one.facts |= {"collection_held": "90 of 100 ledgers are gone", "collection_plan_id": "gone-90"}
    one.facts["metadata_rolled_back"] = "ledger 12 was there"
    await story.go_on()
    approval = {"bookie": "bookie-1", "approvedBy": "ann"}
    story.ask("approve-collection", "other-plan", planId="gone-1", **approval)
    story.ask("approve-collection", planId="gone-90", **approval)
    story.ask("accept-loss", ledger=3, reason="no writer", approvedBy="ann")
    await story.go_on()
    story.note("a person has decided that the store is right")
    del one.facts["metadata_rolled_back"]
    await story.go_on()
    decision = PersonDecision(1000, "CollectionApproved", "ann", "plan gone-90: 90 ledgers")
    one.facts["decisions"] = (decision,)
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_a_lost_index(snapshot: SnapshotAssertion) -> None:
    story = Story(tls=OFF)
    await story.is_running()
    story.ask("index-rebuild", "not-lost", bookie="bookie-0", disk="ledger-0")
    story.ask("index-rebuild", "no-index", bookie="bookie-1", disk="journal")
    await story.go_on()
    story.note("bookie-1 refuses to boot: its index is lost")
    one = story.bookie(1)
    one.begin()
    one.coming = [Phase.REFUSED]
    one.facts["message"] = "ledger disk 0 lost its index: `bookie index rebuild`"
    await story.go_on()
    story.ask("index-rebuild", bookie="bookie-1")
    story.ask("index-rebuild", "once-more", bookie="bookie-1", disk="ledger-1")
    await story.go_on(2)
    story.update_job(JobKind.INDEX_REBUILD, progress="40 %")
    await story.go_on()
    story.end_job(JobKind.INDEX_REBUILD)
    await story.go_on()
    one.begin("UncleanShutdown", limbo=1)
    await story.go_on(3)
    assert snapshot(extension_class=Words) == story.text
