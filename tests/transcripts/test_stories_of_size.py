"""Stories of an operator whose cluster begins, grows, shrinks and is changed."""

from typing import Any, Final

from bookie.ids import BookieId
from bookie_operator.observed import JobKind
from operator_story import Story
from story_bookies import UNCLEAN
from story_reports import after, audit, drain, last_copies, repair
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

OFF: Final = {"mode": "Off"}
STORAGE: Final[dict[str, Any]] = {
    "disks": [
        {"name": "journal", "role": "journal", "size": "11Gi"},
        {"name": "ledger-0", "role": "ledger", "size": "12Gi", "storageClass": "fast"},
        {"name": "ledger-1", "role": "ledger", "size": "13Gi"},
    ]
}


async def test_first_start_under_tls(snapshot: SnapshotAssertion) -> None:
    story = Story(tls={"mode": "Required", "http": True}, storage=STORAGE)
    story.platform.url = ""
    await story.go_on()
    story.platform.url = "zks://zk:2281/ledgers"
    await story.go_on(4)
    story.update_job(JobKind.AUDIT, progress="2/3 ledgers")
    await story.go_on(2)
    story.end_job(JobKind.AUDIT, audit())
    await story.go_on(3)
    assert snapshot(extension_class=Words) == story.text


async def test_first_start_in_plain(snapshot: SnapshotAssertion) -> None:
    """The store is slow, a job's image is not there at first, and one bookie finds no room."""
    story = Story(tls=OFF, journalWriteData=True, audit={"schedule": "@never"})
    story.is_store_up = False
    await story.go_on(2)
    story.is_store_up = True
    story.note("bookie-2 finds no node")
    waiting = {"running": False, "waiting": "Unschedulable: 0/2 nodes are available"}
    story.platform.actor(BookieId("bookie-2")).platform = waiting
    await story.go_on(4)
    story.note("a node comes")
    story.bookie(2).platform.clear()
    await story.go_on(3)
    assert snapshot(extension_class=Words) == story.text


async def test_scale_up(snapshot: SnapshotAssertion) -> None:
    story = Story(tls=OFF)
    await story.is_running()
    story.change("one bookie more, and larger disks", replicas=4, storage=STORAGE)
    await story.go_on(5)
    assert snapshot(extension_class=Words) == story.text


async def test_scale_down(snapshot: SnapshotAssertion) -> None:
    """A drain that is counted, moved in two attempts, emptied, removed; its volumes stay."""
    story = Story(replicas=4, tls=OFF, repair={"maxAttempts": 2, "backoffSeconds": 3})
    await story.is_running()
    story.change("one bookie fewer", replicas=3)
    await story.go_on(2)
    story.bookie(3).facts["ledgers_naming_it"] = 7
    await story.go_on()
    story.update_job(JobKind.DRAIN, progress="3/7 ledgers")
    await story.go_on()
    blocked = [{"ledger_id": 8, "reason": "NoRoom", "message": "none is free"}]
    story.end_job(JobKind.DRAIN, drain(4, 3, blocked=blocked), exit_code=3)
    story.bookie(3).facts["ledgers_naming_it"] = 3
    await story.go_on(2)
    await story.go_on(every=3)
    for _ in range(2):
        story.end_job(JobKind.DRAIN, None, exit_code=1, message="killed")
        await story.go_on(1)
        await story.go_on(1, every=8)
    story.end_job(JobKind.DRAIN, drain(3, 0))
    story.bookie(3).facts["ledgers_naming_it"] = 0
    await story.go_on(6)
    assert snapshot(extension_class=Words) == story.text


async def test_scale_down_that_is_refused(snapshot: SnapshotAssertion) -> None:
    """By a bookie that is out, by limbo, by too few writable ones, by the last copy; then taken
    back, and begun again with volumes that go."""
    story = Story(replicas=4, tls=OFF, retention={"whenScaled": "Delete"})
    await story.is_running()
    story.note("bookie-0 is away")
    story.bookie(0).end(1, "exit code 1")
    story.change("one bookie fewer", replicas=3)
    await story.go_on()
    story.note("it comes back in limbo")
    story.bookie(0).begin(UNCLEAN, limbo=2)
    await story.go_on(3)
    story.bookie(0).limbo = 0
    story.end_job(JobKind.REPAIR, repair())
    await story.go_on()
    last = last_copies("bookie-3")
    story.end_job(JobKind.AUDIT, audit(exit_code=3, ok=36, missing=4, last_copies=last))
    story.bookie(3).facts["ledgers_naming_it"] = 0
    await story.go_on(2)
    story.change("it is to stay", replicas=4)
    await story.go_on(2)
    story.end_job(JobKind.MEND, after())
    await story.go_on()
    story.end_job(JobKind.AUDIT, audit())
    story.change("it is to go after all", replicas=3)
    await story.go_on(2)
    story.bookie(3).facts["ledgers_naming_it"] = 0
    await story.go_on(4)
    assert snapshot(extension_class=Words) == story.text
