"""Bookies that stop without a flush: a killed process, a forced pod, two at once."""

import json
import re

import pytest
from harness.claims import by_spark, detected_and_cleared_in_time
from harness.commands import CommandError
from harness.fleet import condition_of, pod_name
from harness.story import Story
from judge_java import NOT_JUDGED, WHOLE

DEMO_SIZE = (500, 200)
"""Ledgers and MiB that limbo of a bookie must clear of within CLEAR_S."""

VERIFIED_S = 60.0
TWO_AWAY_S = 60.0
"""An open ledger of which both forgot entries is tried until then, and stays undecided."""


@pytest.mark.story("b", "kill -9 of the bookie's process")
def test_a_killed_bookie_is_repaired_by_spark(story: Story) -> None:
    story.up({"repair": {"engine": "spark-kubernetes"}})
    story.write(prefill=DEMO_SIZE)
    with story.recording(story.folder / "watch.txt"), story.executors() as executors:
        before = story.faults.kill("bookie-1")
        incident = story.fleet.wait_cleared("bookie-1", after=before)
        story.fleet.wait_condition("DurabilityVerified", seconds=VERIFIED_S)
    story.note(incident)
    assert incident["kind"] == "UncleanShutdown"
    detected_and_cleared_in_time(story.fleet, incident)
    by_spark(incident, executors)
    story.load.goes_on()
    story.nothing_is_lost()


@pytest.mark.story("c", "a hanging bookie's pod deleted by force, the engine chosen automatically")
def test_a_forced_pod_is_an_unclean_stop(story: Story) -> None:
    story.up()
    story.write()
    uid = story.fleet.pod("bookie-2")["metadata"]["uid"]
    with story.executors() as executors:
        before = story.faults.hang_and_force_delete("bookie-2")
        incident = story.fleet.wait_cleared("bookie-2", after=before)
    story.note(incident)
    assert story.fleet.pod("bookie-2")["metadata"]["uid"] != uid
    assert incident["kind"] == "UncleanShutdown"
    detected_and_cleared_in_time(story.fleet, incident)
    assert incident["engine"] == "inline", incident
    repair = story.fleet.bookie("bookie-2")["repair"]
    assert "ledgers" in repair["engineReason"], repair
    assert not executors.names(), "what one process mends needs no executors"
    story.nothing_is_lost()


def struck_at_once(story: Story) -> int:
    """Two bookies lose their memory; where the watch was before.

    The judge's writer ends just before: what is acknowledged while two are away never reaches one
    of them, which denies it then, and truly.
    """
    story.up()
    story.write(prefill=(60, 30))
    story.judge_ends()
    mark = story.fleet.watch.mark()
    epochs = {bookie: story.fleet.epoch(bookie) for bookie in ("bookie-1", "bookie-2")}
    story.faults.kill_now(*epochs)
    for bookie, epoch in epochs.items():
        story.fleet.wait_incident(bookie, after=epoch)
    return mark


@pytest.mark.story("h", "two bookies killed at once")
def test_two_at_once_are_told_and_never_cleared_silently(story: Story) -> None:
    mark = struck_at_once(story)
    story.fleet.wait_condition("PossibleDataLoss", reason="OverlappingUnclean", since=mark)
    story.fleet.wait_condition("Degraded", reason="PossibleDataLoss")
    told = story.fleet.wait_condition("RepairStalled", reason="Undecidable", seconds=180.0)
    assert condition_of(told, "LimboPresent")["status"] == "True"
    assert condition_of(told, "PossibleDataLoss")["status"] == "True"
    assert told["status"]["disruptionsAllowed"] == 0
    found = story.read_back()
    assert (found["lost"], found["wrong"]) == (0, 0), found
    assert found["read"] + found["unknown"] == found["acked"], found
    assert found["read"] > found["unknown"], "all but what two forgot at once reads back"
    story.numbers["unknown"] = found["unknown"]
    verdict = story.verdict(seconds=TWO_AWAY_S)
    assert verdict["exitCode"] in (WHOLE, NOT_JUDGED), "a bookie in limbo denied a copy"


@pytest.mark.story("rr", "a loss accepted as the status says, and what of it cannot be taken back")
def test_a_person_accepts_a_loss_by_the_words_of_the_status(story: Story) -> None:
    struck_at_once(story)
    story.fleet.wait_condition("RepairStalled", reason="Undecidable", seconds=180.0)
    wanted = re.search(r"accept-loss (\S+) REASON .*--dry-run", story.shown())
    assert wanted is not None, story.shown()
    ledgers = [(one, int(entry)) for one, entry in re.findall(r"(\d+)@(\d+)", wanted[1])]
    (ledger, entry), every = ledgers[0], len(ledgers)
    look = story.plugin("accept-loss", wanted[1], "a drill", "--dry-run")
    assert re.search(rf"{every} of {every} ledgers? would be closed", look), look
    with pytest.raises(CommandError, match=f"entry {entry}"):
        story.plugin("accept-loss", f"{ledger}@{entry + 1}", "a drill", "--yes")
    said = story.plugin("accept-loss", wanted[1], "a drill", "--yes")
    closed = f"ledger {ledger} closed at entry {entry - 1}"
    assert (closed if every == 1 else f"{every} of {every} ledgers closed") in said, said
    story.numbers["decided_at_once"] = every
    story.fleet.wait_condition("RepairStalled", "False", seconds=180.0)
    inside = ("exec", pod_name("bookie-0"), "--", "bookie", "decisions", "--output", "json")
    decisions = json.loads(story.kube(*inside))
    assert "kubernetes-admin" in json.dumps(decisions), decisions
    with pytest.raises(CommandError, match=r"a person accepted the loss.*cannot be undone"):
        story.plugin("retract-loss", ledger, "the drill is over", "--yes")
    found = story.read_back()  # an entry that both had acknowledged is in what was given up
    assert found["wrong"] == 0, found
    story.numbers |= {"unknown": found["unknown"], "given_up": found["lost"]}
