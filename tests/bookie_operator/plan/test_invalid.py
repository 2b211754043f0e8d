"""What is shown when a pass could not be planned at all."""

from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.actions import Event
from bookie_operator.plan.invalid import forbidden_status, hindrance_event, invalid_status
from bookie_operator.plan.planner import plan
from operator_scenes import at, cluster, observed

RUNNING = plan(cluster(), observed(), ClusterStatus()).status


def test_a_wrong_spec_degrades_and_leaves_the_rest_as_it_was() -> None:
    status = invalid_status(RUNNING, 7, "replicas: found 2", at(9))
    degraded = status.condition(ConditionType.DEGRADED)
    assert degraded is not None and degraded.reason == "InvalidSpec"
    assert degraded.observed_generation == status.observed_generation == 7
    assert status.condition(ConditionType.AVAILABLE) == RUNNING.condition(ConditionType.AVAILABLE)
    assert status.bookies == RUNNING.bookies


def test_a_wrong_spec_from_the_start_is_not_available() -> None:
    status = invalid_status(ClusterStatus(), 1, "replicas: found 2", at(9))
    assert [(c.type, c.status) for c in status.conditions] == [
        ("Available", "False"),
        ("Ready", "False"),
        ("Stalled", "True"),
        ("Degraded", "True"),
    ]


def test_a_wrong_spec_of_a_cluster_that_was_ready_is_not_ready() -> None:
    was = RUNNING.condition(ConditionType.READY)
    assert was is not None and was.status == "True"
    status = invalid_status(RUNNING, 7, "replicas: found 2", at(9))
    now = status.condition(ConditionType.READY)
    assert now is not None and (now.status, now.reason) == ("False", "InvalidSpec")
    assert now.last_transition_time == at(9) and status.is_true(ConditionType.STALLED)


def test_what_hinders_is_told_once() -> None:
    first = forbidden_status(RUNNING, 1, "pods is forbidden", at(9))
    again = forbidden_status(first, 1, "pods is forbidden", at(10))
    assert again == first
    assert hindrance_event(first, RUNNING) is not None
    assert hindrance_event(again, first) is None


def test_a_cluster_that_was_never_planned_is_told_what_hinders_it() -> None:
    """Its first status is this one: nothing was said before."""
    for made, reason in ((invalid_status, "InvalidSpec"), (forbidden_status, "Forbidden")):
        status = made(ClusterStatus(), 1, "why", at(9))
        event = hindrance_event(status, ClusterStatus())
        assert event == Event(reason, "why", type="Warning")


def test_another_hindrance_is_told_as_well() -> None:
    first = invalid_status(RUNNING, 7, "replicas: found 2", at(9))
    for other in (
        invalid_status(first, 8, "quorum: found 2", at(10)),
        forbidden_status(first, 7, "replicas: found 2", at(10)),
    ):
        assert hindrance_event(other, first) is not None
