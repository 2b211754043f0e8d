"""Stories of audits, repairs of what they find, scrubs, and the tasks that ask for such."""

from typing import Final

from bookie.errors import UnavailableError
from bookie_operator.observed import JobKind
from operator_story import Story
from story_bookies import UNCLEAN
from story_reports import after, audit, missing, repair, rereplication
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

OFF: Final = {"mode": "Off"}
HOUR: Final = 3600.0


async def test_findings_that_are_made_good(snapshot: SnapshotAssertion) -> None:
    """By the schedule: a repair that leaves something, and another one that does not."""
    story = Story(tls=OFF, audit={"schedule": "@every 30m", "minRacks": 3, "engine": "spark-local"})
    await story.is_running()
    await story.go_on(every=HOUR / 2)
    story.end_job(JobKind.AUDIT, missing("bookie-1", "bookie-2"), exit_code=3)
    await story.go_on(2)
    story.update_job(JobKind.MEND, progress="3/20 ledgers")
    await story.go_on()
    blocked = [{"ledger_id": 8, "reason": "BookieAway", "message": "bookie-0 does not answer"}]
    story.end_job(JobKind.MEND, after(exit_code=3, wrong=2, blocked=1) | {"blocked": blocked})
    await story.go_on()
    story.end_job(JobKind.AUDIT, audit(exit_code=3, ok=38, missing=2))
    await story.go_on(2)
    await story.go_on(every=11)
    story.end_job(JobKind.MEND, after())
    await story.go_on()
    story.end_job(JobKind.AUDIT, audit())
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_findings_that_are_reported(snapshot: SnapshotAssertion) -> None:
    """Until a person asks; what could not be looked at is looked at again."""
    story = Story(tls=OFF, audit={"schedule": "@never", "onFindings": "Report"})
    await story.is_running()
    story.ask("audit")
    await story.go_on()
    unseen = {"silent_bookie": {"findings": 1, "entries": 0}}
    found = audit(exit_code=3, ok=30, missing=4, unknown=6, classes=unseen)
    story.end_job(JobKind.AUDIT, found | {"underreplicated_skipped": 2})
    await story.go_on(2)
    story.ask("repair", "all")
    await story.go_on(every=61)
    await story.go_on()
    story.end_job(JobKind.AUDIT, None, exit_code=1, message="out of memory")
    await story.go_on(2)
    story.end_job(JobKind.MEND, after(exit_code=3, wrong=1))
    await story.go_on()
    story.note("audits take too long")
    await story.go_on(2, every=HOUR + 1)
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_a_schedule_that_nobody_keeps(snapshot: SnapshotAssertion) -> None:
    """Jobs cannot be made for hours: what is known of the copies is out of date."""
    story = Story(tls=OFF, audit={"schedule": "0 3 * * *"}, scrub={"schedule": "@never"})
    await story.is_running()
    story.platform.job_refusal = UnavailableError("exceeded quota")
    await story.go_on(2, every=2 * HOUR)
    await story.go_on(2, every=24 * HOUR)
    story.platform.job_refusal = None
    await story.go_on(every=HOUR)
    story.end_job(JobKind.AUDIT, audit())
    await story.go_on()
    assert snapshot(extension_class=Words) == story.text


async def test_a_scrub(snapshot: SnapshotAssertion) -> None:
    """On schedule; it gives way to a repair, goes on, leaves something, and is asked for again."""
    scrub = {"schedule": "@daily", "readBytesPerSecond": 1234567}
    story = Story(tls=OFF, audit={"schedule": "@never"}, scrub=scrub)
    await story.is_running()
    await story.go_on(every=24 * HOUR)
    await story.go_on()
    story.note("bookie-1 crashes")
    story.bookie(1).crash(limbo=1)
    await story.go_on(4)
    story.bookie(1).limbo = 0
    story.end_job(JobKind.REPAIR, repair())
    await story.go_on(2)
    story.end_job(JobKind.AUDIT, audit())
    await story.go_on(2, every=20)
    story.end_job(JobKind.SCRUB, after(exit_code=3, corrupt_replaced=5, blocked=2))
    await story.go_on()
    story.ask("scrub")
    await story.go_on(2)
    story.end_job(JobKind.SCRUB, after())
    await story.go_on()
    story.change("no scrubs any more", scrub={"schedule": "@never"})
    await story.go_on()
    assert snapshot(extension_class=Words) == story.text


async def test_repairs_that_people_ask_for(snapshot: SnapshotAssertion) -> None:
    story = Story(replicas=4, tls=OFF, repair={"backoffSeconds": 600, "engine": "spark-local"})
    await story.is_running()
    story.ask("repair", "nothing-to-do", bookie="bookie-0")
    await story.go_on()
    story.bookie(1).crash(limbo=3)
    await story.go_on(3)
    story.end_job(JobKind.REPAIR, repair(), exit_code=3)
    story.bookie(1).limbo = 2
    await story.go_on()
    story.ask("repair", "do-not-wait", bookie="bookie-1")
    await story.go_on(2)
    story.update_job(JobKind.REPAIR, progress="1/2 ledgers")
    await story.go_on()
    story.update_job(JobKind.REPAIR, progress="")
    await story.go_on()
    story.end_job(JobKind.REPAIR, repair(), exit_code=3)
    await story.go_on()
    story.ask("repair", "gone", bookie="bookie-1")
    await story.go_on(2)
    del story.platform.jobs_seen[story.job(JobKind.REPAIR).name]
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_rereplications_that_people_ask_for(snapshot: SnapshotAssertion) -> None:
    """Of BookKeeper's marks, of a bookie of others; one waits for another, and for limbo."""
    story = Story(replicas=4, tls=OFF, repair={"maxAttempts": 2, "backoffSeconds": 5})
    await story.is_running()
    story.ask("rereplicate", "marks")
    story.ask("rereplicate", "of-others", bookie="10.0.0.7:3181")
    await story.go_on(2)
    story.update_job(JobKind.REREPLICATE, progress="5/9 ledgers")
    await story.go_on()
    story.end_job(JobKind.REREPLICATE, rereplication(5, left=4), exit_code=3)
    story.bookie(0).crash(limbo=1)
    await story.go_on(3)
    story.bookie(0).limbo = 0
    story.end_job(JobKind.REPAIR, repair())
    await story.go_on(2)
    for _ in range(2):
        story.end_job(JobKind.REREPLICATE, None, exit_code=1, message="no room")
        await story.go_on()
        await story.go_on(every=11)
    story.ask("rereplicate", "again")
    await story.go_on(2)
    none = {"found": 0, "cleared": 0}
    story.end_job(JobKind.REREPLICATE, {"marks": none, "refused": "switched off in BookKeeper"})
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_tasks_that_are_over(snapshot: SnapshotAssertion) -> None:
    """They are deleted when their time is over, or when there are too many."""
    story = Story(tls=OFF, taskHistoryLimit=2, audit={"schedule": "@never"})
    await story.is_running()
    story.ask("restart", "short", bookie="bookie-9", ttlSecondsAfterFinished=30)
    await story.go_on(2)
    await story.go_on(2, every=30)
    for number in range(3):
        story.ask("restart", f"task-{number}", bookie="bookie-9")
        await story.go_on()
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_a_decision_under_tls(snapshot: SnapshotAssertion) -> None:
    """The job of a person's decision gets a certificate in the person's name, for as long."""
    story = Story(tls={"mode": "Required"})
    await story.is_running()
    story.bookie(0).begin(UNCLEAN, limbo=1)
    decided = {"reason": "gone", "approvedBy": "ann"}
    story.ask("accept-loss", ledger=7, entry=2, **decided)
    story.ask("retract-loss", "of-ben", ledger=9, reason="back", approvedBy="ben")
    await story.go_on(4)
    story.end_job(JobKind.ACCEPT_LOSS, {"ledger_id": 7, "last_entry_id": -1, "lost_from": 0})
    await story.go_on(4)
    story.end_job(JobKind.RETRACT_LOSS, {"ledger_id": 9, "silent": ["bookie-2"]})
    await story.go_on(3)
    assert snapshot(extension_class=Words) == story.text
