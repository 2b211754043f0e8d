"""What leaves entries with a copy less: each ends by itself with every copy back, and says so.

All the while every bookie is asked for its copies: DurabilityVerified is never True while one is
missing. What kind-review saw of revision 6162029 (D1, D2): copies missing for good after each.
"""

import time
from datetime import UTC, datetime

import pytest
from harness.fleet import Fleet
from harness.kube import Object
from harness.story import Story

ROLL_S = 240.0
PARTITION_S = 30.0
REBUILD_S = 120.0
KILLED = ("bookie-1", "bookie-2")


def boots(cluster: Object) -> dict[str, int]:
    return {one["id"]: int(one["bootEpoch"]) for one in cluster["status"]["bookies"]}


def wait_booted_again(fleet: Fleet, before: dict[str, int], *bookies: str) -> datetime:
    """Each of them once more, and all serving without limbo; when the last of them served."""

    def have(found: Object) -> bool:
        return all(boots(found)[bookie] > before[bookie] for bookie in bookies)

    fleet.wait(f"further boots of {', '.join(bookies)}", have, seconds=ROLL_S)
    now = boots(fleet.wait_whole())
    return max(fleet.up_at(bookie, now[bookie]) for bookie in bookies)


@pytest.mark.story("v", "a rolling restart under load, every copy counted meanwhile")
def test_a_rolling_restart_ends_with_every_copy(story: Story) -> None:
    story.up()
    story.write()
    before = boots(story.fleet.object())
    with story.looked_at():
        story.fleet.change({"flushIntervalSeconds": 9})
        story.verified_by_itself(wait_booted_again(story.fleet, before, *before))
    story.load.goes_on()
    story.nothing_is_missing()


@pytest.mark.story("w", "a bookie cut off for 30 s under load")
def test_a_partition_ends_with_every_copy(story: Story) -> None:
    story.up()
    story.write()
    with story.looked_at(misses=True):
        with story.faults.cut_off("bookie-2"):
            time.sleep(PARTITION_S)  # is the fault, not a wait
        healed = datetime.now(UTC)
        story.fleet.wait_whole()
        story.verified_by_itself(healed)
    story.load.goes_on()
    story.nothing_is_missing()


@pytest.mark.story("x", "two bookies with journals killed at once")
def test_two_kills_with_journals_end_with_every_copy(story: Story) -> None:
    story.up({"journalWriteData": True})
    story.write()
    before = boots(story.fleet.object())
    with story.looked_at():
        story.faults.kill_now(*KILLED)
        story.verified_by_itself(wait_booted_again(story.fleet, before, *KILLED))
    story.load.goes_on()
    story.nothing_is_missing()


@pytest.mark.story("y", "an index lost, built anew by the task that status names")
def test_a_lost_index_ends_with_every_copy(story: Story) -> None:
    story.up()
    story.write(prefill=(60, 30))
    before = boots(story.fleet.object())
    with story.looked_at():
        with story.faults.stopped("bookie-2"):
            story.faults.lose_index("bookie-2", "ledger-1")
        story.fleet.wait_condition("Degraded", reason="IndexLost")
        task = {"type": "index-rebuild", "bookie": "bookie-2", "disk": "ledger-1"}
        assert story.fleet.ask("rebuild", task, seconds=REBUILD_S)["phase"] == "Succeeded"
        story.verified_by_itself(wait_booted_again(story.fleet, before, "bookie-2"))
    story.load.goes_on()
    story.nothing_is_missing()
