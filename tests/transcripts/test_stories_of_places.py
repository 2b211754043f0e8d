"""Stories of nodes, pods, racks and clocks, and of what is awaited of bookies that leave."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest
from bookie_operator.observed import JobKind
from operator_story import Story
from story_bookies import UNCLEAN
from story_reports import audit, drain, missing, repair, rereplication
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

OFF: Final = {"mode": "Off"}
CAUSES: Final = {
    "its node was restarted": {"node_boot_id": "another-boot"},
    "its pod was replaced": {"pod": "another-pod"},
    "it came up on another node": {"pod": "another-pod", "node": "another-node"},
}


@pytest.mark.parametrize("cause", CAUSES)
async def test_why_a_stop_was_unclean(cause: str, snapshot: SnapshotAssertion) -> None:
    """What the platform saw of the pod says it, where nobody saw the process end."""
    story = Story(tls=OFF)
    await story.is_running()
    story.note(cause)
    one = story.bookie(1)
    one.is_running = False
    one.platform = dict(CAUSES[cause])
    one.begin(UNCLEAN, unchecked=1)
    one.fenced = 3
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_racks(snapshot: SnapshotAssertion) -> None:
    """A rollout finishes a rack before the next; one that leaves is the last of its rack."""
    story = Story(replicas=4, tls=OFF, audit={"minRacks": 2, "schedule": "@never"})
    await story.is_running()
    for number, rack in enumerate(("/a", "/b", "/a", "/b")):
        story.bookie(number).platform["rack"] = rack
        story.bookie(number).platform["advertised"] = (
            f"stock=192.0.2.{number}:1 run=192.0.2.{number}:2"
        )
    await story.go_on()
    story.change("another image", image="example.org/bookie:2")
    for _ in range(4):
        await story.go_on(every=11)
    story.note("bookie-1 moves to the other rack, and bookie-3 is to leave")
    story.bookie(1).platform["rack"] = "/a"
    story.change("one bookie fewer", replicas=3)
    await story.go_on(2, every=11)
    story.note("the pod of bookie-0 is gone")
    one = story.bookie(0)
    one.is_running, one.processes, one.coming, one.waiting = False, 0, [], "no node"
    await story.go_on()
    assert snapshot(extension_class=Words) == story.text


async def test_pods_that_come_late(snapshot: SnapshotAssertion) -> None:
    story = Story(replicas=4, tls=OFF)
    await story.is_running()
    story.note("the pod of bookie-0 is gone, and no other one can be made")
    one = story.bookie(0)
    one.is_running, one.processes, one.coming = False, 0, []
    one.waiting = "FailedCreate: exceeded quota"
    await story.go_on(2)
    one.waiting = ""
    await story.go_on()
    story.note("of bookie-1 nobody knows why, and bookie-2 is stopped by an eviction")
    one = story.bookie(1)
    one.is_running, one.processes, one.coming = False, 0, []
    one.waiting = "FailedCreate: a webhook denied it"
    story.bookie(2).end(0, "Evicted", is_planned=True)
    await story.go_on(2)
    await story.go_on(2, every=61)
    assert snapshot(extension_class=Words) == story.text


async def test_a_bookie_that_is_away_and_is_to_leave(snapshot: SnapshotAssertion) -> None:
    """What is awaited: the delay, a job, what the job left, and in the end nothing."""
    story = Story(replicas=4, tls=OFF, lostBookieDelaySeconds=100, repair={"backoffSeconds": 5})
    await story.is_running()
    story.bookie(3).end(1, "exit code 1")
    await story.go_on()
    story.change("bookie-3 is to leave, nobody in its place", replicas=3)
    await story.go_on(2)
    await story.go_on(every=101)
    story.update_job(JobKind.REREPLICATE, progress="1/5 ledgers")
    await story.go_on()
    story.end_job(JobKind.REREPLICATE, rereplication(3, left=2), exit_code=3)
    await story.go_on(2)
    story.change("nothing by itself any more", lostBookieDelaySeconds=0)
    await story.go_on()
    story.ask("rereplicate", bookie="bookie-3")
    await story.go_on(every=10)
    story.end_job(JobKind.REREPLICATE, rereplication(2))
    await story.go_on(4)
    assert snapshot(extension_class=Words) == story.text


async def test_a_drain_that_is_held(snapshot: SnapshotAssertion) -> None:
    """By too few that take entries; the one that leaves takes some again, then a crash stops the
    job, and a job of its own is gone."""
    story = Story(replicas=4, tls=OFF, repair={"backoffSeconds": 5, "deadlineSeconds": 50})
    await story.is_running()
    story.change("one bookie fewer", replicas=3)
    await story.go_on(2)
    story.bookie(3).facts["ledgers_naming_it"] = 5
    await story.go_on(2)
    story.note("bookie-0 is stopped by somebody")
    story.bookie(0).end(0, "exit code 0", is_planned=True)
    await story.go_on()
    story.bookie(0).begin(UNCLEAN, limbo=1)
    await story.go_on(3)
    story.bookie(0).limbo = 0
    story.end_job(JobKind.REPAIR, repair())
    await story.go_on()
    story.end_job(JobKind.AUDIT, audit())
    await story.go_on(2, every=6)
    story.bookie(3).facts["ledgers_naming_it"] = 5
    await story.go_on(2)
    story.note("its job is gone")
    del story.platform.jobs_seen[story.job(JobKind.DRAIN).name]
    await story.go_on()
    await story.go_on(2, every=51)
    await story.go_on(2, every=51)
    assert snapshot(extension_class=Words) == story.text


async def test_one_copy_alone(snapshot: SnapshotAssertion) -> None:
    """Ack quorum 1 where acks are synced: restarts go on, disks and consents are a person's."""
    quorum = {"ensemble": 3, "write": 2, "ack": 1}
    story = Story(replicas=4, tls=OFF, journalWriteData=True, quorum=quorum)
    await story.is_running()
    story.ask("replace-disk", bookie="bookie-1", disk="ledger-0")
    story.ask("restart", bookie="bookie-2")
    await story.go_on(3)
    story.bookie(3).lose_disk("ledger-1", limbo=1)
    await story.go_on(3)
    assert snapshot(extension_class=Words) == story.text


async def test_a_loss_that_an_audit_cannot_look_at_again(snapshot: SnapshotAssertion) -> None:
    """Found once, it stays until an audit sees all copies."""
    story = Story(tls=OFF)
    await story.is_running()
    story.ask("audit")
    await story.go_on()
    story.end_job(JobKind.AUDIT, audit(exit_code=3, ok=38, no_copy=2))
    await story.go_on()
    story.ask("audit", "again")
    await story.go_on()
    story.end_job(JobKind.AUDIT, audit(exit_code=3, ok=30, unknown=10))
    await story.go_on()
    story.ask("audit", "and-again")
    await story.go_on(every=61)
    story.end_job(JobKind.AUDIT, missing("bookie-0"), exit_code=3)
    await story.go_on(2)
    story.note("what an audit says of quorums is not what the spec has")
    story.end_job(JobKind.MEND, None, exit_code=1)
    story.ask("audit", "of-quorums")
    await story.go_on()
    lower = {"ack_asked": 2, "ack_lowest": 1, "copies_lowest": 1, "ledgers_lowest": [4, 6]}
    story.end_job(JobKind.AUDIT, audit(quorums=lower))
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_a_clock_that_is_put_back(snapshot: SnapshotAssertion) -> None:
    """What was written for a time to come is as of now."""
    story = Story(tls=OFF)
    await story.is_running()
    story.ask("audit")
    await story.go_on(2)
    story.end_job(JobKind.AUDIT, None, exit_code=1)
    story.bookie(1).end(1, "exit code 1")
    await story.go_on()
    story.note("two hours back")
    story.seconds -= 7200
    await story.go_on(3)
    assert snapshot(extension_class=Words) == story.text


async def test_volumes_of_another_kind(snapshot: SnapshotAssertion) -> None:
    """One is being deleted under its bookie, another one has another class than is wanted."""
    story = Story(replicas=4, tls=OFF)
    await story.is_running()
    volumes = story.bookie(1).volumes
    volumes["ledger-0"] = replace(volumes["ledger-0"], is_terminating=True)
    volumes = story.bookie(2).volumes
    volumes["journal"] = replace(volumes["journal"], storage_class="slow")
    fast = [{"name": d.name, "role": d.role, "storageClass": "fast"} for d in story.disks]
    story.change("another class", storage={"disks": fast})
    await story.go_on(4)
    assert snapshot(extension_class=Words) == story.text


async def test_jobs_that_never_start(snapshot: SnapshotAssertion) -> None:
    story = Story(replicas=4, tls=OFF, repair={"startDeadlineSeconds": 20, "maxAttempts": 1})
    await story.is_running()
    story.change("one bookie fewer", replicas=3)
    await story.go_on(2)
    story.bookie(3).facts["ledgers_naming_it"] = 5
    await story.go_on()
    refused = "FailedCreate: exceeded quota"
    story.update_job(JobKind.DRAIN, waiting=refused)
    await story.go_on(2)
    await story.go_on(2, every=21)
    story.change("it is to stay after all", replicas=4)
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_an_operator_that_starts_again(snapshot: SnapshotAssertion) -> None:
    """With what it wrote before, whatever happened since."""
    story = Story(replicas=4, tls=OFF)
    await story.is_running()
    story.change("one bookie fewer", replicas=3)
    await story.go_on(3)
    story.note("half an hour later")
    story.restart_operator()
    story.bookie(3).facts["ledgers_naming_it"] = 2
    story.bookie(1).crash()
    await story.go_on(every=timedelta(minutes=30).total_seconds())
    await story.go_on(3)
    story.end_job(JobKind.DRAIN, drain(2, 0))
    story.bookie(3).facts["ledgers_naming_it"] = 0
    story.restart_operator()
    await story.go_on(4)
    assert snapshot(extension_class=Words) == story.text
