"""Bookies whose process lives and does not answer."""

from dataclasses import replace
from typing import Any

from bookie.ids import BookieId
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie
from bookie_operator.plan.actions import RestartBookie
from bookie_operator.plan.hung import HUNG_AFTER, RESTARTS_MAX
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import at, bookie, cluster, observed

B0 = BookieId("bookie-0")
SERVED = plan(cluster(), observed(), ClusterStatus()).status
MINUTES = HUNG_AFTER.total_seconds()


def silent(name: str = B0, **facts: Any) -> Bookie:
    return bookie(name, phase=None, process_facts={"is_ready": False} | facts)


def seen(*special: Bookie, seconds: float, after: ClusterStatus = SERVED) -> Plan:
    return plan(cluster(), observed(*special, seconds=seconds), after)


def restarted(made: Plan) -> list[tuple[str, str]]:
    found = [a for a in made.actions if isinstance(a, RestartBookie)]
    return [(a.template.bookie_id, a.reason) for a in found]


def told(made: Plan) -> str:
    return made.status.bookies[0].message


def test_d5_a_bookie_that_hangs_is_restarted_when_that_has_lasted() -> None:
    status = SERVED
    for seconds, expected in ((100, []), (99 + MINUTES, []), (100 + MINUTES, [(B0, "Hung")])):
        made = seen(silent(), seconds=seconds, after=status)
        assert restarted(made) == expected
        status = made.status
    assert status.bookies[0].state is BookieState.UNRESPONSIVE
    assert told(made).endswith("since 00:01:40 UTC; it is restarted when that lasts 300 s")


def test_a_restart_of_one_that_hangs_is_not_told_as_one_for_new_settings() -> None:
    status = seen(silent(), seconds=100).status
    made = seen(silent(), seconds=100 + MINUTES, after=status)
    progressing = made.status.condition(ConditionType.PROGRESSING)
    assert progressing is not None and progressing.reason == "Rolling"
    assert progressing.message == "bookies are restarted, one by one"


def test_d5_one_that_serves_others_is_not_restarted_for_the_operators_silence() -> None:
    cut_off = replace(silent(is_ready=True), is_registered=True)
    status = seen(cut_off, seconds=100).status
    made = seen(cut_off, seconds=100 + 2 * MINUTES, after=status)
    assert not restarted(made) and "network policy" in told(made)


def test_one_that_is_read_only_serves_others_too() -> None:
    cut_off = replace(silent(is_ready=True), is_registered=True, is_writable=False)
    status = seen(cut_off, seconds=100).status
    assert not restarted(seen(cut_off, seconds=100 + 2 * MINUTES, after=status))


def test_restarts_are_counted_though_a_pass_sees_no_process_in_between() -> None:
    status = seen(silent(), seconds=100).status
    status = seen(silent(), seconds=100 + MINUTES, after=status).status
    gone = replace(silent(), process=None)
    status = seen(gone, seconds=101 + MINUTES, after=status).status
    status = seen(gone, seconds=102 + MINUTES, after=status).status
    assert status.bookies[0].hung_restarts == 1


def test_d5_of_two_that_hang_one_is_restarted_only_within_the_budget() -> None:
    both = (silent(), silent("bookie-1"))
    status = seen(*both, seconds=100).status
    made = seen(*both, seconds=100 + MINUTES, after=status)
    assert not restarted(made)
    assert {r.predicate for r in made.refusals} == {"LossBudgetExceeded"}


def test_d5_an_answer_begins_the_count_anew() -> None:
    status = seen(silent(), seconds=100).status
    status = seen(seconds=200, after=status).status
    assert status.bookies[0].silent_since is None
    assert not restarted(seen(silent(), seconds=100 + MINUTES, after=status))


def test_d5_restarts_that_do_not_help_come_to_an_end() -> None:
    status, seconds, count = SERVED, 100.0, 0
    for number in range(3 * RESTARTS_MAX):
        hung = silent(instance=f"run-{number}", started_at=at(seconds - 61))
        status = seen(hung, seconds=seconds, after=status).status
        seconds += MINUTES
        made = seen(hung, seconds=seconds, after=status)
        status, count = made.status, count + len(restarted(made))
        seconds += 1
    assert count == RESTARTS_MAX
    assert [r.predicate for r in made.refusals] == ["HungAgain"]
    assert "a person must look" in told(made)
