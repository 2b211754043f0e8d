"""Incidents: what opens one, and what never does again."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.incidents import INCIDENTS_MAX
from bookie_operator.model.reports import RepairReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, Job, JobKind
from bookie_operator.plan.actions import Event
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.status_tree.tree import incident_line
from operator_scenes import at, bookie, cluster, observed

B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")


def after(epochs: range, status: ClusterStatus, *others: Bookie) -> ClusterStatus:
    """bookie-1 stopped uncleanly before each of these boots; limbo was 0 soon after."""
    for epoch in epochs:
        stopped = bookie(B1, epoch=epoch, reason="UncleanShutdown", boot_at=epoch)
        seen = observed(*others, stopped, seconds=epoch + 1)
        status = plan(cluster(), seen, status).status
    return status


def test_an_old_incident_stays_closed_however_many_others_follow() -> None:
    quiet = bookie(B0, epoch=2, reason="UncleanShutdown")
    status = after(range(2, INCIDENTS_MAX + 12), ClusterStatus(), quiet)
    assert len(status.incidents) == INCIDENTS_MAX
    assert [one.boot_epoch_after for one in status.incidents if one.bookie == B0] == [2]
    assert status.incidents[0].bookie == B0, "it was not opened again"


QUIET = plan(cluster(), observed(), ClusterStatus()).status
"""Four bookies that serve, in epoch 1."""


def unclean(limbo: int = 3, **facts: Any) -> Bookie:
    return bookie(B0, **({"epoch": 2, "reason": "UncleanShutdown", "limbo": limbo} | facts))


def seen(status: ClusterStatus, one: Bookie, *jobs: Job, seconds: float = 10) -> Plan:
    return plan(cluster(), observed(one, seconds=seconds, jobs=jobs), status)


def repair(report: RepairReport | None = None, *, epoch: int = 2, attempt: int = 1) -> Job:
    """One that has ended if it has a report; else it runs."""
    return Job(
        f"demo-bookie-0-{epoch}-{attempt}", JobKind.REPAIR, attempt, running=report is None,
        started_at=at(1), ended_at=at(2) if report else None, bookie=B0, boot_epoch=epoch,
        exit_code=0 if report else None, report=report,
    )  # fmt: skip


def told(made: Plan, reason: str) -> list[Event]:
    return [event for event in made.events if event.reason == reason]


@pytest.mark.parametrize(
    ("one", "kinds"),
    [
        (unclean(), ["UncleanShutdown"]),
        (unclean(0), ["UncleanShutdown"]),
        (unclean(phase=Phase.MARKING), ["UncleanShutdown"]),
        (unclean(running=False), []),
        (bookie(B0, epoch=2, reason="CleanStop"), []),
        (bookie(B0, epoch=2, reason="FirstBoot"), []),
        (bookie(B0, epoch=2, limbo=1), ["LimboFound"]),
        (bookie(B0, epoch=2, unchecked=1), ["LimboFound"]),
        (bookie(B0, epoch=2, limbo=1, phase=Phase.BOOTING), []),
    ],
)
def test_what_a_running_bookie_says_of_its_boot_opens_an_incident(
    one: Bookie, kinds: list[str]
) -> None:
    assert [incident.kind for incident in seen(QUIET, one).status.incidents] == kinds


def test_a_boot_that_found_no_process_that_runs_is_not_believed_yet() -> None:
    gone = replace(unclean(), process=None)
    assert not seen(QUIET, gone).status.incidents
    one = unclean()
    assert one.process is not None
    stopped = replace(one, process=replace(one.process, running=False))
    assert not seen(QUIET, stopped).status.incidents


def test_an_incident_says_what_the_boot_found_and_when() -> None:
    made = seen(QUIET, unclean(unchecked=2, boot_at=8, exit_at=6), seconds=10)
    [one] = made.status.incidents
    assert (one.bookie, one.boot_epoch_before, one.boot_epoch_after) == (B0, 1, 2)
    assert (one.ledgers_fenced, one.ledgers_in_limbo, one.ledgers_unchecked) == (5, 3, 2)
    assert (one.stopped_at, one.detected_at, one.seconds_to_detect) == (at(6), at(10), 4)
    assert one.cause and one.outcome.value == "Open"
    [event] = told(made, "UncleanShutdown")
    assert (event.type, event.bookie, event.once) == ("Warning", B0, "bookie-0/2/UncleanShutdown")
    assert event.message.startswith(
        "boot 2 found an unclean stop: 5 ledgers fenced, 3 in limbo, 2 unchecked; "
    )
    assert event.message.endswith(f"; {one.cause}: {one.cause_message}")


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (bookie(B0, epoch=2, limbo=1), "limbo of an earlier boot"),
        (bookie(B0, epoch=2, reason="DiskReplaced"), "changed disks"),
        (bookie(B0, epoch=2, reason="IdentityLost"), "changed disks"),
        (bookie(B0, epoch=2, reason="TornLog"), "an unclean stop"),
    ],
)
def test_its_event_says_what_was_found(one: Bookie, words: str) -> None:
    made = seen(QUIET, one)
    [incident] = made.status.incidents
    [event] = told(made, incident.kind)
    assert event.message.startswith(f"boot 2 found {words}: ")


def test_without_an_end_that_was_seen_the_time_counts_from_the_boot() -> None:
    [one] = seen(QUIET, unclean(boot_at=8)).status.incidents
    assert (one.stopped_at, one.seconds_to_detect) == (None, 2)
    [later] = seen(QUIET, unclean(boot_at=8, exit_at=9)).status.incidents
    assert (later.stopped_at, later.seconds_to_detect) == (None, 2), "it ended after this boot"
    [at_once] = seen(QUIET, unclean(boot_at=8, exit_at=8)).status.incidents
    assert at_once.stopped_at == at(8)
    [early] = seen(QUIET, unclean(boot_at=12)).status.incidents
    assert early.seconds_to_detect == 0, "clocks differ"


@pytest.mark.parametrize(
    ("known", "epoch", "before"), [(1, 2, 1), (1, 5, 1), (3, 4, 3), (4, 4, 3), (9, 4, 3)]
)
def test_the_boot_before_is_the_last_that_was_known(known: int, epoch: int, before: int) -> None:
    status = seen(QUIET, bookie(B0, epoch=known), seconds=1).status
    [one] = seen(status, unclean(epoch=epoch)).status.incidents
    assert (one.boot_epoch_before, one.boot_epoch_after) == (before, epoch)


def test_where_none_was_known_it_is_the_one_below() -> None:
    [one] = seen(ClusterStatus(), unclean(epoch=5)).status.incidents
    assert one.boot_epoch_before == 4


def empty_disk(uid: str, *, reason: str = "DiskReplaced", verdict: str = "empty") -> Bookie:
    one = bookie(B0, epoch=2, reason=reason, verdicts={"ledger-0": verdict})
    assert one.health is not None
    disks = tuple(
        replace(disk, volume_uid=uid) if disk.verdict == verdict else disk
        for disk in one.health.disks
    )
    return replace(one, health=replace(one.health, disks=disks))


@pytest.mark.parametrize(
    ("one", "kind"),
    [
        (empty_disk("bookie-0-ledger-0-uid"), "DiskWiped"),
        (empty_disk("bookie-0-ledger-0-uid", verdict="new"), "DiskWiped"),
        (empty_disk("another"), "DiskReplaced"),
        (empty_disk("bookie-0-ledger-0-uid", verdict="stale"), "DiskReplaced"),
        (empty_disk("bookie-0-ledger-0-uid", reason="DiskStale"), "DiskStale"),
    ],
)
def test_a_disk_that_is_empty_under_its_own_volume_was_wiped(one: Bookie, kind: str) -> None:
    assert [incident.kind for incident in seen(QUIET, one).status.incidents] == [kind]
    [first] = seen(ClusterStatus(), empty_disk("bookie-0-ledger-0-uid")).status.incidents
    assert first.kind == "DiskReplaced", "nobody knows what it had"


def test_another_bookies_stop_and_one_that_is_over_are_not_superseded() -> None:
    status = seen(QUIET, unclean(0)).status
    both = plan(
        cluster(),
        observed(unclean(0), bookie(B1, epoch=2, reason="UncleanShutdown", limbo=1), seconds=11),
        status,
    ).status
    third = plan(
        cluster(),
        observed(
            unclean(1, epoch=3), bookie(B1, epoch=2, reason="UncleanShutdown", limbo=1), seconds=12
        ),
        both,
    ).status
    assert [(one.bookie, one.boot_epoch_after, one.outcome.value) for one in third.incidents] == [
        (B0, 2, "Cleared"),
        (B1, 2, "Open"),
        (B0, 3, "Open"),
    ]


def test_what_is_found_later_in_the_same_boot_raises_the_counts_and_lowers_none() -> None:
    status = seen(QUIET, unclean(3, unchecked=1)).status
    [more] = seen(status, unclean(4, unchecked=2), seconds=11).status.incidents
    assert (more.ledgers_fenced, more.ledgers_in_limbo, more.ledgers_unchecked) == (6, 4, 2)
    [less] = seen(status, unclean(1), seconds=11).status.incidents
    assert (less.ledgers_fenced, less.ledgers_in_limbo, less.ledgers_unchecked) == (4, 3, 1)
    [other] = seen(status, bookie(B0, epoch=3, limbo=9), seconds=11).status.incidents
    assert other.ledgers_in_limbo == 3, "another boot's"


@pytest.mark.parametrize(
    ("one", "is_over"),
    [
        (unclean(0), True),
        (bookie(B0, epoch=3), True),
        (unclean(1), False),
        (unclean(0, unchecked=1), False),
        (unclean(0, is_fresh=False), False),
        (unclean(0, phase=Phase.BOOTING), False),
        (unclean(0, phase=None), False),
        (bookie(B0, epoch=1), False),
    ],
)
def test_only_a_bookies_own_word_in_this_pass_ends_an_incident(one: Bookie, is_over: bool) -> None:
    made = seen(seen(QUIET, unclean()).status, one, seconds=31.5)
    incident = made.status.incidents[0]
    assert (incident.outcome.value == "Cleared") is is_over
    assert incident.cleared_at == (at(31.5) if is_over else None)
    assert incident.seconds_to_clear == (21.5 if is_over else None)
    events = told(made, "LimboCleared")
    assert [event.message for event in events] == (
        ["boot 2: limbo is 0 after 21.5 s, 0 entries brought back"] if is_over else []
    )
    if is_over:
        assert (events[0].once, events[0].bookie) == ("bookie-0/2/LimboCleared", B0)
        again = seen(made.status, one, seconds=40)
        assert again.status.incidents == made.status.incidents and not told(again, "LimboCleared")


def test_a_repair_that_ends_after_the_marks_does_not_move_the_time_of_the_end() -> None:
    status = seen(QUIET, unclean()).status
    status = seen(status, unclean(0), repair(), seconds=20).status
    assert status.incidents[0].outcome.value == "Open"
    made = seen(
        status, unclean(0), repair(RepairReport(entries_copied=4, entries_recovered=3)), seconds=30
    )
    [one] = made.status.incidents
    assert (one.cleared_at, one.seconds_to_clear) == (at(20), 10)
    [event] = told(made, "LimboCleared")
    assert event.message.endswith("7 entries brought back")
    assert "7 entries brought back" in incident_line(one, at(30)).plain


def test_a_bookie_that_is_gone_leaves_no_incident_open() -> None:
    status = plan(cluster(), observed(), QUIET).status
    gone = bookie("bookie-4", epoch=2, reason="UncleanShutdown", limbo=1)
    status = plan(cluster(), observed(gone, seconds=10), status).status
    without = status.model_copy(
        update={"bookies": tuple(one for one in status.bookies if one.id != "bookie-4")}
    )
    [one] = plan(cluster(), observed(seconds=15), without).status.incidents
    assert (one.outcome.value, one.cleared_at, one.seconds_to_clear) == ("Cleared", at(15), 5)


FULL = RepairReport(
    entries_recovered=1, entries_copied=2, entries_copied_closed=3, ledgers_recovered=4,
    engine="spark", engine_reason="many", spark_app_id="app-1", executors=5,
)  # fmt: skip


def test_every_repair_of_the_episode_is_counted_once() -> None:
    status = seen(QUIET, unclean()).status
    jobs = [repair(FULL), repair(FULL, attempt=2), repair(attempt=3)]
    for seconds in (11, 12):
        status = seen(status, unclean(), *jobs, seconds=seconds).status
        [one] = status.incidents
        sums = (one.entries_recovered, one.entries_copied, one.entries_copied_closed)
        assert (*sums, one.ledgers_recovered, one.attempts) == (2, 4, 6, 8, 3)
        assert (one.engine, one.engine_reason) == ("spark", "many")
        assert (one.spark_app_id, one.executors) == ("app-1", 5)
        assert one.counted_jobs == ("demo-bookie-0-2-1", "demo-bookie-0-2-2")
    inline = repair(RepairReport(entries_copied=1, engine="inline"), attempt=3)
    [one] = seen(status, unclean(), *jobs[:2], inline, seconds=13).status.incidents
    assert (one.engine, one.spark_app_id, one.executors) == ("inline", "app-1", 5)
    assert one.entries_copied == 5
    [fewer] = seen(status, unclean(), repair(FULL), seconds=13).status.incidents
    assert fewer.attempts == 3, "jobs are removed in time"


@pytest.mark.parametrize(
    ("job", "is_counted"),
    [
        (repair(FULL), True),
        (repair(FULL, epoch=3), True),
        (repair(FULL, epoch=1), False),
        (replace(repair(FULL), bookie=B1), False),
        (replace(repair(FULL), kind=JobKind.DRAIN), False),
    ],
)
def test_an_open_episode_takes_the_repairs_of_its_bookie_from_its_boot_on(
    job: Job, is_counted: bool
) -> None:
    [one] = seen(seen(QUIET, unclean()).status, unclean(), job).status.incidents
    assert (one.entries_copied == 2) is is_counted
    over = seen(seen(QUIET, unclean()).status, unclean(0), seconds=11).status
    [one] = seen(over, unclean(0), job, seconds=12).status.incidents
    assert (one.entries_copied == 2) is (is_counted and job.boot_epoch == 2)


def test_as_many_jobs_are_remembered_as_a_status_has_room_for() -> None:
    jobs = [repair(RepairReport(entries_copied=1), attempt=n) for n in range(1, 105)]
    [one] = seen(seen(QUIET, unclean()).status, unclean(), *jobs).status.incidents
    assert len(one.counted_jobs) == 100 and one.counted_jobs[-1] == "demo-bookie-0-2-104"
    assert one.entries_copied == 104


def test_of_too_many_the_oldest_that_are_over_go() -> None:
    status = after(range(2, INCIDENTS_MAX + 5), QUIET)
    assert [one.boot_epoch_after for one in status.incidents][:2] == [5, 6]
    assert status.incidents[-1].boot_epoch_after == INCIDENTS_MAX + 4
    assert len(status.incidents) == INCIDENTS_MAX
