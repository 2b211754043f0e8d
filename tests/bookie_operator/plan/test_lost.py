"""A bookie that stays away is taken for lost once, alone, and only where that can help."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.reports import RereplicationReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, Job, JobKind
from bookie_operator.plan.actions import StartJob
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import HEALTHY, at, bookie, cluster, observed, task

DONE = RereplicationReport(ledgers_moved=7)
LEFT = RereplicationReport(ledgers_left=2)
REFUSED = RereplicationReport(refused="it is registered")
HOUR = 3600
AWAY = bookie("bookie-1", running=False)


def look(
    *special: Bookie,
    seconds: float,
    before: ClusterStatus,
    of: BookieCluster | None = None,
    **seen: Any,
) -> Plan:
    of = of or cluster()
    return plan(of, observed(*special, of=of, seconds=seconds, **seen), before)


def after_away(*special: Bookie, of: BookieCluster | None = None) -> ClusterStatus:
    """A fleet that served, and then these went away, at second 10."""
    served = look(seconds=0, before=ClusterStatus(), of=of).status
    return look(*(special or (AWAY,)), seconds=10, before=served, of=of).status


def taken(made: Plan) -> list[str]:
    return [
        one.bookie_id or ""
        for one in made.actions
        if isinstance(one, StartJob) and one.kind is JobKind.REREPLICATE
    ]


def refused(made: Plan) -> list[str]:
    return [one.predicate for one in made.refusals if one.action == "Rereplicate"]


def job(report: RereplicationReport | None = DONE, *, ended: float, attempt: int = 1) -> Job:
    return Job(
        f"demo-rereplicate-{attempt}", JobKind.REREPLICATE, attempt, running=False,
        started_at=at(ended - 5), ended_at=at(ended), report=report, bookie=BookieId("bookie-1"),
    )  # fmt: skip


def test_a_bookie_that_is_away_for_the_delay_is_taken_for_lost() -> None:
    before = after_away()
    assert taken(look(AWAY, seconds=HOUR + 9, before=before)) == []
    made = look(AWAY, seconds=HOUR + 10, before=before)
    assert taken(made) == ["bookie-1"] and refused(made) == []
    assert [one.bookie for one in made.events if one.reason == "BookieLost"] == ["bookie-1"]


def test_a_bookie_that_runs_and_is_not_registered_is_away_as_well() -> None:
    deaf = replace(bookie("bookie-1", phase=None), is_registered=False)
    assert taken(look(deaf, seconds=HOUR + 10, before=after_away(deaf))) == ["bookie-1"]


def test_the_delay_begins_again_with_every_registration() -> None:
    back = look(seconds=HOUR, before=after_away()).status
    assert back.bookies[1].gone_since is None
    again = look(AWAY, seconds=HOUR + 5, before=back).status
    assert taken(look(AWAY, seconds=2 * HOUR, before=again)) == []


def test_zero_means_never_and_the_spec_says_how_long() -> None:
    never, soon = cluster(lostBookieDelaySeconds=0), cluster(lostBookieDelaySeconds=60)
    assert taken(look(AWAY, seconds=9 * HOUR, of=never, before=after_away(of=never))) == []
    assert taken(look(AWAY, seconds=70, of=soon, before=after_away(of=soon))) == ["bookie-1"]


def test_one_that_never_booted_holds_nothing() -> None:
    fresh = look(AWAY, seconds=0, before=ClusterStatus()).status
    assert taken(look(AWAY, seconds=2 * HOUR, before=fresh)) == []


def test_a_metadata_store_that_does_not_answer_makes_nobody_lost() -> None:
    served = look(seconds=0, before=ClusterStatus()).status
    dark = replace(HEALTHY, reachable=False, message="no answer", known_since=None)
    made = look(AWAY, seconds=10, before=served, metadata=dark)
    assert made.status.bookies[1].gone_since is None
    assert taken(look(AWAY, seconds=2 * HOUR, before=after_away(), metadata=dark)) == []


def test_more_than_the_ack_quorum_leaves_over_is_an_outage_and_a_person_decides() -> None:
    five = cluster(replicas=5)
    both = (bookie("bookie-1", running=False), bookie("bookie-2", running=False))
    made = look(*both, seconds=2 * HOUR, of=five, before=after_away(*both, of=five))
    assert taken(made) == [] and refused(made) == ["ManyBookiesGone"]


def test_without_a_spare_bookie_it_waits_and_says_so() -> None:
    three = cluster(replicas=3)
    made = look(AWAY, seconds=2 * HOUR, of=three, before=after_away(of=three))
    assert taken(made) == [] and refused(made) == ["NoSpareBookie"]
    [blocked] = [one for one in made.status.blocked if one.action == "Rereplicate"]
    assert "2 bookies can take entries, ledgers are on 3" in blocked.message


def test_others_in_limbo_go_first() -> None:
    marked = bookie("bookie-3", limbo=2, reason="UncleanShutdown", epoch=2)
    assert taken(look(AWAY, marked, seconds=2 * HOUR, before=after_away())) == []


def test_its_own_limbo_of_before_is_no_reason_to_wait() -> None:
    marked = bookie("bookie-1", limbo=2, reason="UncleanShutdown", epoch=2)
    was = look(marked, seconds=5, before=ClusterStatus()).status
    gone = look(AWAY, seconds=10, before=was).status
    assert gone.bookies[1].limbo_ledgers == 2
    assert taken(look(AWAY, seconds=2 * HOUR, before=gone)) == ["bookie-1"]


def test_once_others_hold_everything_it_is_left_alone_until_it_is_back() -> None:
    before = after_away()
    made = look(AWAY, seconds=HOUR + 99, before=before, jobs=[job(ended=HOUR + 90)])
    assert made.status.bookies[1].rereplicated_at == at(HOUR + 90)
    assert taken(look(AWAY, seconds=5 * HOUR, before=made.status)) == []
    back = look(seconds=6 * HOUR, before=made.status).status
    assert back.bookies[1].rereplicated_at is None


def test_a_job_from_before_it_went_away_once_more_says_nothing() -> None:
    """It may have looked at the ledgers before the bookie came back and took new ones."""
    back = look(seconds=HOUR + 86, before=after_away()).status
    again = look(AWAY, seconds=HOUR + 88, before=back).status
    made = look(AWAY, seconds=HOUR + 99, before=again, jobs=[job(ended=HOUR + 90)])
    assert made.status.bookies[1].rereplicated_at is None


@pytest.mark.parametrize("report", [LEFT, REFUSED])
def test_what_left_something_is_begun_again_after_the_delay(report: RereplicationReport) -> None:
    ended = job(report, ended=HOUR + 90)
    made = look(AWAY, seconds=HOUR + 99, before=after_away(), jobs=[ended])
    assert made.status.bookies[1].rereplicated_at is None and taken(made) == []
    assert taken(look(AWAY, seconds=2 * HOUR, before=made.status)) == []
    assert taken(look(AWAY, seconds=2 * HOUR + 90, before=made.status)) == ["bookie-1"]


@pytest.mark.parametrize(("delay", "wait"), [(1, 10), (10, 10), (30, 30)])
def test_what_left_something_is_begun_again_after_the_back_off_at_the_soonest(
    delay: int, wait: int
) -> None:
    """The back-off is 10 s: however soon a bookie is taken for lost, nobody works without pause."""
    of = cluster(lostBookieDelaySeconds=delay)
    before = after_away(of=of)
    ended = job(LEFT, ended=90)
    assert taken(look(AWAY, seconds=89 + wait, of=of, before=before, jobs=[ended])) == []
    assert taken(look(AWAY, seconds=90 + wait, of=of, before=before, jobs=[ended])) == ["bookie-1"]


def test_a_failed_attempt_is_begun_again_after_its_back_off() -> None:
    started = look(AWAY, seconds=HOUR + 80, before=after_away()).status
    failed = look(AWAY, seconds=HOUR + 90, before=started, jobs=[job(None, ended=HOUR + 90)])
    assert taken(failed) == [] and failed.status.rereplication.next_at == at(HOUR + 100)
    again = look(AWAY, seconds=HOUR + 100, before=failed.status, jobs=[job(None, ended=HOUR + 90)])
    assert taken(again) == ["bookie-1"]


def test_a_task_takes_one_of_ours_for_lost_at_once_while_it_is_away() -> None:
    wish = task("rereplicate", bookie="bookie-1")
    assert taken(look(AWAY, seconds=20, before=after_away(), tasks=[wish])) == ["bookie-1"]


def test_a_second_one_may_be_lost_after_the_first_was_made_good() -> None:
    of = cluster(replicas=5)
    first = look(AWAY, seconds=HOUR + 99, of=of, before=after_away(of=of), jobs=[job(ended=HOUR)])
    other = bookie("bookie-2", running=False)
    both = look(AWAY, other, seconds=2 * HOUR, of=of, before=first.status).status
    assert taken(look(AWAY, other, seconds=3 * HOUR, of=of, before=both)) == ["bookie-2"]


def test_what_nobody_has_seen_does_not_count() -> None:
    """The operator was down, or the store silent, for hours: the delay begins when it is back."""
    fresh = replace(HEALTHY, known_since=at(2 * HOUR))
    for known, seconds, bookies in (
        (fresh, 2 * HOUR + 5, []),
        (fresh, 3 * HOUR, ["bookie-1"]),
        (replace(HEALTHY, known_since=None), 9 * HOUR, []),
    ):
        made = look(AWAY, seconds=seconds, before=after_away(), metadata=known)
        assert taken(made) == bookies


def test_what_was_made_before_the_operator_looked_is_made_again() -> None:
    """The bookie may have been there in between, and have taken entries."""
    made = look(AWAY, seconds=HOUR + 99, before=after_away(), jobs=[job(ended=HOUR + 90)]).status
    fresh = replace(HEALTHY, known_since=at(4 * HOUR))
    assert taken(look(AWAY, seconds=5 * HOUR, before=made, metadata=fresh)) == ["bookie-1"]


def test_what_is_made_again_counts_from_then_on() -> None:
    """Else it would be made again after every delay."""
    made = look(AWAY, seconds=HOUR + 99, before=after_away(), jobs=[job(ended=HOUR + 90)]).status
    fresh = replace(HEALTHY, known_since=at(4 * HOUR))
    jobs = [job(ended=5 * HOUR + 9, attempt=2)]
    again = look(AWAY, seconds=5 * HOUR + 10, before=made, metadata=fresh, jobs=jobs)
    assert again.status.bookies[1].rereplicated_at == at(5 * HOUR + 9)
    assert taken(look(AWAY, seconds=9 * HOUR, before=again.status, metadata=fresh)) == []


def test_one_that_answers_is_there() -> None:
    deaf = replace(bookie("bookie-1"), is_registered=False, is_writable=False)
    booting = replace(bookie("bookie-1", phase=Phase.MARKING), is_registered=False)
    for one in (deaf, booting):
        assert taken(look(one, seconds=2 * HOUR, before=after_away(one))) == []


def test_one_whose_boot_is_refused_is_away() -> None:
    refused = replace(bookie("bookie-1", phase=Phase.REFUSED), is_registered=False)
    assert taken(look(refused, seconds=2 * HOUR, before=after_away(refused))) == ["bookie-1"]


def test_one_whose_index_is_built_again_is_away_for_a_reason_of_ours() -> None:
    rebuild = Job(
        "demo-index-1", JobKind.INDEX_REBUILD, 1, running=True, started_at=at(20),
        bookie=BookieId("bookie-1"),
    )  # fmt: skip
    assert taken(look(AWAY, seconds=2 * HOUR, before=after_away(), jobs=[rebuild])) == []


def test_one_that_fails_keeps_no_other_one_back() -> None:
    of = cluster(replicas=6, quorum={"ensemble": 3, "write": 3, "ack": 3})
    both = (bookie("bookie-1", running=False), bookie("bookie-2", running=False))
    failed = [job(None, ended=HOUR + 90)]
    before = after_away(*both, of=of)
    status = look(*both, seconds=HOUR + 90, of=of, before=before, jobs=failed).status
    after = look(*both, seconds=HOUR + 200, of=of, before=status, jobs=failed)
    assert taken(after) == ["bookie-2"]


def test_attempts_that_go_on_failing_are_said() -> None:
    status = after_away()
    failures = {"failures": 7, "attempt": 7, "message": "rereplicate 7 failed: killed"}
    worn = status.rereplication.model_copy(update=failures)
    status = status.model_copy(update={"rereplication": worn})
    made = look(AWAY, seconds=2 * HOUR, before=status)
    assert taken(made) == ["bookie-1"] and refused(made) == ["AttemptsExhausted"]


def test_a_task_is_not_failed_by_attempts_of_others() -> None:
    wish = task("rereplicate")
    running = {"phase": "Running", "target": "demo-rereplicate-1"}
    asked = wish.model_copy(update={"status": wish.status.model_validate(running)})
    status = after_away()
    others = status.rereplication.model_copy(update={"failures": 9, "attempt": 9})
    status = status.model_copy(update={"rereplication": others})
    assert "task-1" not in look(AWAY, seconds=30, before=status, tasks=[asked]).tasks or (
        look(AWAY, seconds=30, before=status, tasks=[asked]).tasks["task-1"].phase != "Failed"
    )


@pytest.mark.parametrize(
    "other",
    [
        bookie("bookie-3", limbo=2, reason="UncleanShutdown", epoch=2),
        replace(bookie("bookie-3", phase=Phase.BOOTING), is_registered=True),
    ],
    ids=["in limbo, and its repair waits", "boots"],
)
def test_it_says_that_it_waits_for_limbo_and_boots_of_others(other: Bookie) -> None:
    """Not for its own, which nobody can mend."""
    of, failed = cluster(replicas=5), Job(
        "demo-bookie-3-2-1", JobKind.REPAIR, 1, running=False, bookie=other.id, boot_epoch=2,
        started_at=at(2 * HOUR - 9), ended_at=at(2 * HOUR - 1), exit_code=1,
    )  # fmt: skip
    made = look(AWAY, other, of=of, seconds=2 * HOUR, before=after_away(of=of), jobs=[failed])
    assert (taken(made), refused(made)) == ([], ["WaitingForLimbo"])
    assert taken(look(AWAY, of=of, seconds=2 * HOUR, before=after_away(of=of))) == ["bookie-1"]
