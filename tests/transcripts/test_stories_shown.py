"""What people are shown at some moments of stories: tree, hints, limbo, page, and the metrics."""

from collections.abc import Awaitable, Callable
from typing import Final

import pytest
from bookie.wire.admin.health import Phase
from bookie_operator.observed import JobKind
from operator_story import Story
from story_reports import missing, rereplication, undecided
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

OFF: Final = {"mode": "Off"}
HOUR: Final = 3600.0


async def at_rest() -> Story:
    story = Story(audit={"schedule": "@daily"})
    await story.is_running()
    await story.go_on(every=5 * HOUR)
    return story


async def at_its_start() -> Story:
    story = Story(tls=OFF, journalWriteData=True)
    story.is_store_up = False
    await story.go_on(2)
    return story


async def in_limbo() -> Story:
    """Two at once, and ledgers that wait for a person."""
    story = Story(tls=OFF)
    await story.is_running()
    story.bookie(0).crash(limbo=2, unchecked=5)
    story.bookie(1).crash(limbo=1)
    await story.go_on(3)
    story.end_job(JobKind.REPAIR, undecided(waiting=1), exit_code=3)
    await story.go_on(2)
    story.update_job(JobKind.REPAIR, progress="1/6 ledgers")
    await story.go_on(every=90)
    return story


async def in_a_rollout() -> Story:
    """A drain that is held up, a bookie that waits for consent, one that fails."""
    story = Story(replicas=5, tls=OFF, cookieFix={"policy": "Approve"}, rollout={"partition": 1})
    await story.is_running()
    story.bookie(1).lose_disk("ledger-0", limbo=1)
    story.bookie(2).end(1, "exit code 1")
    story.change("one bookie fewer, another image", replicas=4, image="example.org/bookie:2")
    await story.go_on(3)
    story.bookie(2).coming = [Phase.REFUSED]
    story.bookie(2).facts["message"] = "ledger disk 0 lost its index: `bookie index rebuild`"
    story.bookie(3).facts |= {"collection_held": "9 of 10 are gone", "collection_plan_id": "p-9"}
    await story.go_on(2, every=61)
    return story


async def with_findings() -> Story:
    """Of an audit, of a re-replication; something is left of a bookie that went."""
    story = Story(
        replicas=4, tls=OFF, retention={"whenScaled": "Retain"}, scrub={"schedule": "@never"}
    )
    await story.is_running()
    story.change("one bookie fewer", replicas=3)
    await story.go_on(2)
    story.bookie(3).facts["ledgers_naming_it"] = 0
    await story.go_on(3)
    story.ask("rereplicate", "marks")
    await story.go_on(1)
    story.end_job(JobKind.REREPLICATE, rereplication(5, left=4), exit_code=3)
    await story.go_on(2)
    story.end_job(JobKind.AUDIT, missing("bookie-1"), exit_code=3)
    await story.go_on(2)
    story.end_job(JobKind.MEND, None, exit_code=1, message="out of memory")
    await story.go_on(every=7)
    story.bookie(1).end(137, "OOMKilled")
    await story.go_on(every=100)
    return story


MOMENTS: Final[tuple[Callable[[], Awaitable[Story]], ...]] = (
    at_rest,
    at_its_start,
    in_limbo,
    in_a_rollout,
    with_findings,
)


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda one: one.__name__)
async def test_what_is_shown(
    moment: Callable[[], Awaitable[Story]], snapshot: SnapshotAssertion
) -> None:
    story = await moment()
    assert snapshot(extension_class=Words) == story.shown
