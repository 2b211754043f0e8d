"""Any number can be given up: its bookie is drained; a dead one goes once others hold all."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.drain_status import DrainPhase
from bookie_operator.model.reports import RereplicationReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, Job, JobKind
from bookie_operator.plan.actions import DrainBookie, RemoveBookie, StartBookie, StartJob
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import HEALTHY, at, audited, bookie, cluster, fix_request, observed, task

B1, B4 = BookieId("bookie-1"), BookieId("bookie-4")
BEFORE, AFTER = cluster(), cluster(excludedOrdinals=[1])
ASKING = cluster(excludedOrdinals=[1], cookieFix={"policy": "Approve"})
HOUR = 3600
AWAY = bookie(B1, running=False)
HERE = bookie(B1)
DONE = RereplicationReport(ledgers_moved=7)
SETTLED = plan(BEFORE, observed(of=BEFORE, jobs=[audited()], seconds=2), ClusterStatus()).status


def look(
    *special: Bookie, seconds: float = 5, before: ClusterStatus = SETTLED,
    of: BookieCluster = AFTER, jobs: tuple[Job, ...] = (), **seen: Any,
) -> Plan:  # fmt: skip
    """A pass over the bookies that `of` wants, all serving, and these."""
    look = observed(*special, of=of, seconds=seconds, jobs=(audited(), *jobs), **seen)
    return plan(of, look, before)


def away_since_ten(*special: Bookie, of: BookieCluster = AFTER, **seen: Any) -> ClusterStatus:
    served = look(HERE, of=of, seconds=3).status
    return look(*(special or (AWAY,)), of=of, seconds=10, before=served, **seen).status


def moved(report: RereplicationReport | None = DONE, *, ended: float | None = HOUR + 20) -> Job:
    return Job(
        "demo-rereplicate-1", JobKind.REREPLICATE, 1, running=ended is None, bookie=B1,
        started_at=at(HOUR + 10), ended_at=None if ended is None else at(ended), report=report,
        progress="3 of 7 ledgers",
    )  # fmt: skip


def again(job: Job, *special: Bookie, of: BookieCluster = AFTER, **seen: Any) -> list[Plan]:
    """Three passes from the end of that job on."""
    made, before = [], away_since_ten(*special, of=of)
    after = audited(attempt=2, began=HOUR + 30)
    for seconds in (40, 50, 60):
        few = special or (AWAY,)
        made.append(
            look(*few, of=of, seconds=HOUR + seconds, before=before, jobs=(job, after), **seen)
        )
        before = made[-1].status
    return made


def removals(made: Plan) -> list[RemoveBookie]:
    return [action for action in made.actions if isinstance(action, RemoveBookie)]


def why_not(made: Plan) -> str:
    blocked = made.status.condition(ConditionType.SCALE_DOWN_BLOCKED)
    assert blocked is not None
    return f"{blocked.reason}: {blocked.message}" if blocked.status == "True" else ""


# One that serves


def test_the_fleet_does_without_the_number_and_a_new_bookie_joins_at_the_end() -> None:
    made = plan(AFTER, observed(of=BEFORE, jobs=[audited()], seconds=5), SETTLED)
    created = {a.bookie_id for a in made.actions if type(a).__name__ == "CreateVolume"}
    assert created == {B4}


def test_the_bookie_of_the_number_is_drained_once_the_new_one_serves() -> None:
    young = bookie(B4, phase=Phase.BOOTING)
    assert why_not(look(HERE, young)).startswith("LossBudgetExceeded")
    made = look(HERE)
    assert [a for a in made.actions if isinstance(a, DrainBookie)] == [DrainBookie(B1)]


def test_it_goes_when_it_has_said_twice_that_no_ledger_names_it() -> None:
    empty = bookie(B1, phase=Phase.DRAINING, draining=True, ledgers_naming_it=0)
    once = look(empty, before=look(HERE).status)
    twice = look(empty, before=once.status)
    assert removals(once) == [] and removals(twice) == [RemoveBookie(B1, "bookie-1-1", False)]


def test_with_fewer_replicas_no_new_one_joins() -> None:
    three = cluster(replicas=3, excludedOrdinals=[1])
    made = look(HERE, of=three)
    assert DrainBookie(B1) in made.actions
    assert [one.id for one in made.status.bookies] == [f"bookie-{n}" for n in range(4)]


def test_a_number_that_is_taken_out_of_the_list_comes_back() -> None:
    gone = look(seconds=9, before=look().status).status
    made = plan(BEFORE, observed(of=AFTER, jobs=[audited()], seconds=10), gone)
    created = {a.bookie_id for a in made.actions if type(a).__name__ == "CreateVolume"}
    assert created == {B1} and made.status.drain is not None and made.status.drain.bookie == B4


def test_a_drain_that_has_begun_goes_on_when_a_higher_number_is_to_leave_as_well() -> None:
    fewer = cluster(replicas=3, excludedOrdinals=[1])
    draining = bookie(B1, phase=Phase.DRAINING, draining=True, ledgers_naming_it=7)
    begun = look(HERE).status
    made = look(draining, bookie(B4), of=fewer, before=begun)
    assert made.status.drain is not None and made.status.drain.bookie == B1
    assert DrainBookie(B1, cancel=True) not in made.actions


def test_one_that_stops_already_goes_before_all_others() -> None:
    empty = bookie(B1, phase=Phase.DRAINING, draining=True, ledgers_naming_it=0)
    status = look(empty, before=look(empty, before=look(HERE).status).status).status
    both = cluster(excludedOrdinals=[1, 2])
    stopped = replace(empty, process=None, health=None, is_registered=False)
    made = look(stopped, bookie("bookie-2"), of=both, before=status)
    assert [one.bookie_id for one in removals(made)] == [B1]
    assert not [a for a in made.actions if isinstance(a, StartBookie)], "one that has to go"


# One that is away for good


def test_a_dead_bookie_stays_until_others_hold_what_it_held() -> None:
    made = look(AWAY, seconds=100, before=away_since_ten())
    assert removals(made) == [] and "NotRereplicated: bookie-1 is away since" in why_not(made)
    assert "its ledgers get other members at 2026-01-01T01:00:10" in why_not(made)


def test_then_it_leaves_without_having_answered_after_a_second_look() -> None:
    first, second, third = again(moved())
    assert removals(first) == [] and first.status.drain is not None
    assert first.status.drain.phase is DrainPhase.EMPTIED
    assert removals(second) == removals(third) == [RemoveBookie(B1, "bookie-1-1", False)]
    assert third.status.bookie(B1).state is BookieState.LEAVING  # type: ignore[union-attr]


def test_once_it_is_gone_it_is_forgotten() -> None:
    *_, last = again(moved())
    made = look(seconds=HOUR + 70, before=last.status)
    assert made.status.drain is None and made.status.bookie(B1) is None
    assert [event.reason for event in made.events] == ["BookieRemoved"]


def test_one_without_a_process_leaves_as_well() -> None:
    bare = replace(AWAY, process=None)
    made = again(moved(), bare)[1]
    assert removals(made) == [RemoveBookie(B1, "", False)]
    assert not [a for a in made.actions if isinstance(a, StartBookie)], "one that has to go"


@pytest.mark.parametrize("phase", [Phase.REFUSED, Phase.AWAITING_APPROVAL, None])
def test_one_whose_boot_does_not_get_on_leaves_as_well(phase: Phase | None) -> None:
    stuck = replace(bookie(B1, phase=phase, fix=fix_request()), is_registered=False)
    made = again(moved(), stuck, of=ASKING)[1]
    assert removals(made) == [RemoveBookie(B1, "bookie-1-1", False)], why_not(made)


def test_on_a_lost_node_its_pod_goes_by_force() -> None:
    facts = {"node": "n7", "node_trouble": "is gone"}
    silent = replace(bookie(B1, phase=None, process_facts=facts), is_registered=False)
    assert removals(again(moved(), silent)[1]) == [
        RemoveBookie(B1, "bookie-1-1", delete_volumes=False, is_node_lost=True)
    ]


def test_its_volumes_go_only_when_a_person_says_so() -> None:
    careless = cluster(excludedOrdinals=[1], retention={"whenScaled": "Delete"})
    assert removals(again(moved(), of=careless)[1])[0].delete_volumes


def test_its_own_marks_of_before_do_not_hold_it_back() -> None:
    marked = bookie(B1, limbo=2, reason="UncleanShutdown", epoch=2)
    was = away_since_ten(marked)
    before = look(AWAY, seconds=20, before=was, jobs=(moved(),)).status
    assert before.bookies[1].limbo_ledgers == 2
    later = look(AWAY, seconds=HOUR + 40, before=before, jobs=(moved(),)).status
    assert removals(look(AWAY, seconds=HOUR + 50, before=later, jobs=(moved(),)))


@pytest.mark.parametrize(
    ("report", "word"),
    [
        (RereplicationReport(ledgers_left=2, message="CopyIncomplete"), "2 ledgers still name it"),
        (RereplicationReport(blocked=1), "1 are blocked"),
        (RereplicationReport(refused="it is registered"), "are to get other members"),
        (None, "are to get other members"),
    ],
)
def test_what_only_it_holds_keeps_it(report: RereplicationReport | None, word: str) -> None:
    last = again(moved(report))[-1]
    assert removals(last) == [] and word in why_not(last)


@pytest.mark.parametrize(
    ("finished", "whose", "clean", "is_said"),
    [
        (9, B1, False, False),
        (10, B1, False, True),
        (11, B1, False, True),
        (11, B4, False, False),
        (11, B1, True, False),
    ],
)
def test_what_a_re_replication_left_is_said_of_its_bookie_while_that_is_away(
    finished: float, whose: str, clean: bool, is_said: bool
) -> None:
    """It went at second 10: what one of before had left says nothing of what it took since."""
    facts = {"bookie": whose, "finished_at": at(finished), "clean": clean, "ledgers_left": 2}
    last = ClusterStatus().rereplication.model_copy(update=facts)
    before = away_since_ten().model_copy(update={"rereplication": last})
    why = why_not(look(AWAY, seconds=100, before=before))
    assert ("2 ledgers still name it" in why) is is_said, why
    assert ("its ledgers get other members at" in why) is not is_said or clean, why


def test_what_was_made_good_before_the_operator_looked_does_not_count() -> None:
    """The bookie may have been there in between, and have taken entries."""
    fresh = replace(HEALTHY, known_since=at(HOUR + 30))
    assert not any(removals(made) for made in again(moved(), metadata=fresh))


def test_how_far_its_re_replication_is_shows() -> None:
    made = look(AWAY, seconds=HOUR + 15, before=away_since_ten(), jobs=(moved(None, ended=None),))
    assert "its ledgers get other members: 3 of 7 ledgers" in why_not(made)


def test_with_a_delay_of_zero_a_person_is_asked_for_a_task() -> None:
    never = cluster(excludedOrdinals=[1], lostBookieDelaySeconds=0)
    made = look(AWAY, of=never, seconds=9 * HOUR, before=away_since_ten(of=never))
    assert "create a BookieTask rereplicate" in why_not(made)
    wish = task("rereplicate", bookie=B1)
    asked = look(AWAY, of=never, seconds=20, before=away_since_ten(of=never), tasks=[wish])
    assert [a.kind for a in asked.actions if isinstance(a, StartJob)] == [JobKind.REREPLICATE]


@pytest.mark.parametrize(
    ("other", "predicate"),
    [
        (bookie("bookie-2", running=False), "LossBudgetExceeded"),
        (bookie("bookie-2", limbo=2, reason="UncleanShutdown", epoch=2), "LimboPresent"),
        (bookie("bookie-2", losses_recorded=1), "PossibleDataLoss"),
    ],
)
def test_nobody_is_given_up_while(other: Bookie, predicate: str) -> None:
    before = again(moved())[0].status
    made = look(AWAY, other, seconds=HOUR + 50, before=before, jobs=(moved(),))
    assert removals(made) == [] and why_not(made).startswith(predicate)


def test_with_an_ack_quorum_of_three_two_may_be_given_up_one_by_one() -> None:
    wide: dict[str, Any] = {"replicas": 5, "quorum": {"ensemble": 4, "write": 4, "ack": 3}}
    both = cluster(**wide, excludedOrdinals=[1, 2])
    other = bookie("bookie-2", running=False)
    served = look(HERE, bookie("bookie-2"), of=both, seconds=3).status
    gone = look(AWAY, other, of=both, seconds=10, before=served).status
    jobs = (moved(), replace(moved(), name="demo-rereplicate-2", bookie=other.id, attempt=2))
    once = look(AWAY, other, of=both, seconds=HOUR + 40, before=gone, jobs=jobs)
    twice = look(AWAY, other, of=both, seconds=HOUR + 50, before=once.status, jobs=jobs)
    assert [one.bookie_id for one in removals(twice)] == [other.id]


def test_one_that_comes_back_meanwhile_is_drained_as_any_other() -> None:
    before = again(moved())[0].status
    booting = replace(bookie(B1, phase=Phase.BOOTING, epoch=2), is_registered=False)
    assert why_not(look(booting, seconds=HOUR + 50, before=before)).startswith("LossBudget")
    back = look(bookie(B1, epoch=2), seconds=HOUR + 60, before=before)
    assert removals(back) == [] and DrainBookie(B1) in back.actions


def test_one_that_died_before_anybody_saw_it_serve_is_given_up_alike() -> None:
    """Metadata has its cookie, so ledgers may name it."""
    young = replace(AWAY, process=None, waiting="Unschedulable: no room")
    status = ClusterStatus()
    for seconds in (5, 10, HOUR + 40, HOUR + 50):
        jobs = (moved(),) if seconds > HOUR else ()
        made = look(young, seconds=seconds, before=status, jobs=jobs)
        status = made.status
    assert removals(made) == [RemoveBookie(B1, "", delete_volumes=False)]


def test_it_is_kept_up_until_then_as_it_may_come_back() -> None:
    made = look(replace(AWAY, process=None), seconds=100, before=away_since_ten())
    assert [a.template.bookie_id for a in made.actions if isinstance(a, StartBookie)] == [B1]


def test_a_drain_that_waits_for_a_dead_one_says_what_that_waits_for() -> None:
    draining = bookie(B4, phase=Phase.DRAINING, draining=True, ledgers_naming_it=7)
    both = cluster(replicas=3, excludedOrdinals=[1])
    status = look(HERE, bookie(B4), of=both, seconds=3).status
    gone = look(AWAY, draining, of=both, seconds=10, before=status).status
    made = look(AWAY, draining, of=both, seconds=100, before=gone)
    assert [(one.bookie, one.predicate) for one in made.refusals if one.action == "ScaleDown"] == [
        (B4, "LossBudgetExceeded"),
        (B1, "NotRereplicated"),
    ]


def test_it_goes_before_one_that_serves_when_others_hold_what_it_held() -> None:
    both = cluster(replicas=3, excludedOrdinals=[1])
    status = look(HERE, bookie(B4), of=both, seconds=3).status
    gone = look(AWAY, bookie(B4), of=both, seconds=10, before=status).status
    made = look(AWAY, bookie(B4), of=both, seconds=HOUR + 40, before=gone, jobs=(moved(),))
    assert made.status.drain is not None and made.status.drain.bookie == B1


def test_one_that_is_removed_is_not_started_in_the_same_pass() -> None:
    bare = replace(HERE, process=None, health=None, is_writable=False, is_registered=False)
    made = again(moved(), bare)[-1]
    assert [one.bookie_id for one in removals(made)] == [B1]
    assert not [a for a in made.actions if isinstance(a, StartBookie) if a.template.bookie_id == B1]


def test_a_person_may_ask_for_one_of_two_that_are_away_as_the_message_says() -> None:
    both, other = cluster(excludedOrdinals=[1, 2]), BookieId("bookie-2")
    served = look(HERE, bookie(other), of=both, seconds=3).status
    dead = (AWAY, bookie(other, running=False))
    before = look(*dead, of=both, seconds=10, before=served).status
    wish = task("rereplicate", bookie=B1)
    made = look(*dead, of=both, seconds=2 * HOUR, before=before, tasks=[wish])
    started = [a for a in made.actions if isinstance(a, StartJob)]
    assert [a.bookie_id for a in started if a.kind is JobKind.REREPLICATE] == [B1]


def test_one_that_served_and_whose_cookie_is_gone_did_run() -> None:
    dead = replace(AWAY, has_cookie=False)
    before = away_since_ten(dead)
    for seconds in (12, 20):
        made = look(dead, seconds=seconds, before=before)
        assert removals(made) == []
        before = made.status


def test_a_joiner_that_never_came_up_goes_before_the_drain_that_waits_for_it() -> None:
    both = cluster(excludedOrdinals=[1, 4])
    young = bookie(B4, running=False, has_cookie=False)
    begun = look(HERE, young).status
    assert begun.drain is not None and begun.drain.bookie == B1
    made = look(HERE, young, of=both, seconds=10, before=begun)
    assert [one.bookie_id for one in removals(made)] == [B4]
