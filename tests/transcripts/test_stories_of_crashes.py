"""Stories of bookies that end without a stop, of their repairs, and of entries that may be lost."""

from typing import Final

from bookie.wire.admin.health import Phase
from bookie_operator.observed import JobKind
from operator_story import Story
from story_bookies import UNCLEAN
from story_reports import audit, repair, rereplication, undecided
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

OFF: Final = {"mode": "Off"}


async def test_a_crash_and_its_repair(snapshot: SnapshotAssertion) -> None:
    """A job that ends without a result, one that does half, and one that does the rest."""
    story = Story(tls=OFF, repair={"maxAttempts": 2, "backoffSeconds": 5})
    await story.is_running()
    story.note("bookie-1 runs out of memory")
    story.bookie(1).end(137, "OOMKilled")
    await story.go_on()
    story.bookie(1).restarts += 1
    story.bookie(1).begin(UNCLEAN, limbo=4, unchecked=3)
    await story.go_on(2)
    story.update_job(JobKind.REPAIR, waiting="ImagePullBackOff: no such image")
    await story.go_on()
    story.update_job(JobKind.REPAIR, waiting="", progress="1/7 ledgers")
    story.bookie(1).limbo = 3
    await story.go_on()
    story.end_job(JobKind.REPAIR, None, exit_code=137, message="killed by signal 9")
    await story.go_on()
    await story.go_on(every=6)
    story.bookie(1).limbo, story.bookie(1).unchecked = 1, 0
    story.end_job(JobKind.REPAIR, repair(blocked=BLOCKED), exit_code=3)
    await story.go_on()
    await story.go_on(2, every=11)
    story.bookie(1).limbo = 0
    story.end_job(JobKind.REPAIR, repair(entries_recovered=1, entries_copied=2))
    await story.go_on(2)
    story.end_job(JobKind.AUDIT, audit())
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_a_crash_during_a_repair(snapshot: SnapshotAssertion) -> None:
    """The episode before is superseded, its job is stopped, and the job that was made meanwhile is
    gone without a trace; the operator is another process by then."""
    story = Story(tls=OFF)
    await story.is_running()
    story.bookie(1).crash(limbo=4)
    await story.go_on(3)
    story.bookie(1).fenced = 2
    await story.go_on()
    story.note("bookie-1 is killed again")
    story.bookie(1).crash(limbo=6)
    await story.go_on(4)
    story.note("somebody deletes the job, and the operator starts again")
    story.restart_operator()
    del story.platform.jobs_seen[story.job(JobKind.REPAIR).name]
    await story.go_on(2)
    await story.go_on(every=30)
    story.note("it takes too long")
    await story.go_on(2, every=3601)
    assert snapshot(extension_class=Words) == story.text


async def test_two_crashes_at_once(snapshot: SnapshotAssertion) -> None:
    """As many as an ack quorum: a loss is possible until a clean audit. One more is no news."""
    story = Story(replicas=4, tls=OFF)
    await story.is_running()
    story.note("bookie-2 is killed, and a moment after it bookie-0")
    story.bookie(2).crash(unchecked=3)
    await story.go_on()
    story.bookie(0).crash(limbo=2)
    story.change("a new image meanwhile", image="example.org/bookie:2")
    await story.go_on(4)
    story.bookie(2).unchecked = 0
    story.end_job(JobKind.REPAIR, repair())
    await story.go_on(2)
    story.bookie(0).limbo = 0
    story.end_job(JobKind.REPAIR, repair(entries_copied=1))
    await story.go_on(2)
    story.end_job(JobKind.AUDIT, audit())
    await story.go_on(4)
    assert snapshot(extension_class=Words) == story.text


async def test_a_loss_that_a_person_accepts(snapshot: SnapshotAssertion) -> None:
    """First with another entry than is in question, then as a trial, then for all that waits."""
    story = Story(tls=OFF, repair={"maxAttempts": 1})
    await story.is_running()
    story.bookie(0).crash(limbo=2)
    story.bookie(1).crash(limbo=1)
    await story.go_on(3)
    story.end_job(JobKind.REPAIR, undecided(waiting=1), exit_code=3)
    await story.go_on(2)
    decided = {"reason": "the writer is gone", "approvedBy": "ann"}
    story.ask("accept-loss", "other-entry", ledger=7, entry=10, **decided)
    await story.go_on(2)
    refused = "entry 12 is in question, not 10"
    story.end_job(JobKind.ACCEPT_LOSS, None, exit_code=2, message=refused)
    await story.go_on()
    story.ask("accept-loss", "try", ledgers="7,9", dryRun=True, **decided)
    await story.go_on(2)
    story.end_job(JobKind.ACCEPT_LOSS, losses(dry_run=True))
    story.ask("accept-loss", "all", ledgers="7@12,9", **decided)
    await story.go_on(3)
    story.end_job(JobKind.ACCEPT_LOSS, losses())
    for number in (0, 1):
        story.bookie(number).facts["losses_recorded"] = 1 + number
    await story.go_on(3)
    assert snapshot(extension_class=Words) == story.text


async def test_a_loss_that_is_taken_back(snapshot: SnapshotAssertion) -> None:
    story = Story(tls=OFF)
    await story.is_running()
    story.note("an audit finds no copy, and bookie-0 has a record")
    story.bookie(0).facts["losses_recorded"] = 1
    story.ask("audit")
    await story.go_on(2)
    found = audit(exit_code=3, ok=37, no_copy=2, lost=1, accepted_losses=[7])
    story.end_job(JobKind.AUDIT, found)
    await story.go_on(2)
    decided = {"ledger": 7, "reason": "the disk turned up", "approvedBy": "ann"}
    story.ask("retract-loss", **decided)
    story.ask("accept-loss", "meanwhile", **decided)
    await story.go_on(2)
    some = {"ledger_id": 7, "retracted_on": {"bookie-0": 3}, "refused": {"bookie-1": "no entry"}}
    story.end_job(JobKind.RETRACT_LOSS, some, exit_code=3)
    await story.go_on(2)
    story.end_job(JobKind.ACCEPT_LOSS, {"ledger_id": 7, "last_entry_id": 11, "lost_from": 12})
    story.ask("retract-loss", "again", **decided)
    await story.go_on(2)
    done = {"ledger_id": 7, "retracted_on": {"bookie-0": 3}, "in_limbo_on": ["bookie-0"]}
    story.end_job(JobKind.RETRACT_LOSS, done)
    story.bookie(0).facts["losses_recorded"] = 0
    story.bookie(0).limbo = 1
    await story.go_on(3)
    assert snapshot(extension_class=Words) == story.text


async def test_a_lost_bookie(snapshot: SnapshotAssertion) -> None:
    """Its node is gone: its ledgers get other members after the delay; then it is excluded."""
    story = Story(replicas=4, tls=OFF, lostBookieDelaySeconds=100, repair={"backoffSeconds": 10})
    await story.is_running()
    story.note("the node of bookie-3 is gone")
    story.bookie(3).coming = []
    story.bookie(3).platform = {"running": False, "node_trouble": "is gone", "is_ready": False}
    await story.go_on()
    await story.go_on(2, every=60)
    story.update_job(JobKind.REREPLICATE, progress="1/5 ledgers")
    await story.go_on()
    story.end_job(JobKind.REREPLICATE, rereplication(3, left=2), exit_code=3)
    await story.go_on()
    await story.go_on(2, every=60)
    story.end_job(JobKind.REREPLICATE, rereplication(2))
    await story.go_on(2)
    story.end_job(JobKind.AUDIT, audit())
    await story.go_on()
    story.change("bookie-3 is given up", excludedOrdinals=[3])
    await story.go_on(6)
    assert snapshot(extension_class=Words) == story.text


async def test_an_outage_is_no_loss(snapshot: SnapshotAssertion) -> None:
    """Two bookies away for long: only a person may say that one is lost."""
    story = Story(replicas=5, tls=OFF, lostBookieDelaySeconds=100)
    await story.is_running()
    for number in (3, 4):
        story.bookie(number).end(1, "exit code 1")
    await story.go_on()
    await story.go_on(every=101)
    story.ask("rereplicate", "lost-4", bookie="bookie-4")
    story.ask("rereplicate", "not-lost", bookie="bookie-0")
    await story.go_on(2)
    story.end_job(JobKind.REREPLICATE, REFUSED)
    await story.go_on()
    story.note("bookie-3 is back, and bookie-4 hangs")
    story.bookie(3).begin()
    await story.go_on(3)
    assert snapshot(extension_class=Words) == story.text


async def test_a_bookie_that_hangs(snapshot: SnapshotAssertion) -> None:
    story = Story(tls=OFF)
    await story.is_running()
    story.note("bookie-2 answers no more, and is registered as before")
    story.bookie(2).coming = [None]
    await story.go_on(2)
    story.note("its container is not ready any more, and no restart helps")
    story.bookie(2).platform["is_ready"] = False
    story.bookie(2).is_deaf = True
    await story.go_on(7, every=160)
    await story.go_on(6, every=160)
    story.note("somebody mends its node")
    story.bookie(2).is_deaf = False
    story.bookie(2).platform.clear()
    await story.go_on(3)
    assert snapshot(extension_class=Words) == story.text


async def test_a_bookie_that_ends_again_and_again(snapshot: SnapshotAssertion) -> None:
    story = Story(tls=OFF)
    await story.is_running()
    for _ in range(3):
        one = story.bookie(0)
        one.end(1, "exit code 1")
        one.restarts += 1
        one.epoch -= 1
        one.begin(UNCLEAN, limbo=1)
        one.coming = [None]
        await story.go_on(every=3)
    story.note("it comes up")
    story.bookie(0).coming = [Phase.BOOTING, Phase.SERVING]
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


BLOCKED: Final = [{"ledger_id": 8, "reason": "BookieAway", "message": "bookie-2 does not answer"}]


NO_MARKS: Final = {"found": 0, "cleared": 0}
REFUSED: Final = {"marks": NO_MARKS, "refused": "bookie-4 is registered: it is back"}


def losses(*, dry_run: bool = False) -> dict[str, object]:
    rows = [
        {"ledger_id": 7, "last_entry_id": 11, "lost_from": 12},
        {"ledger_id": 9, "last_entry_id": -1, "away": ["bookie-2"] if dry_run else []},
    ]
    found: dict[str, object] = {"decisions": rows, "closed": 2, "given_up": 1, "refused": 0}
    return found | {"dry_run": dry_run}
