"""Ends of a bookie's process from pass to pass: which of them make a crash loop, which do not."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import BookieState, BookieStatus
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Exit, Process
from bookie_operator.plan.actions import Event
from bookie_operator.plan.ends import is_moved, is_rebooted
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import at, bookie, cluster, observed

B0 = BookieId("bookie-0")


@dataclass
class Life:
    """bookie-0, pass by pass."""

    status: ClusterStatus = field(
        default_factory=lambda: plan(cluster(), observed(), ClusterStatus()).status
    )
    ends: int = 0

    def seen(self, seconds: float, *, phase: Phase | None = None, **process: Any) -> Plan:
        one = bookie(B0, phase=phase, process_facts={"started_at": at(seconds)} | process)
        made = plan(cluster(), observed(one, seconds=seconds), self.status)
        self.status = made.status
        return made

    def ended(
        self,
        seconds: float,
        *,
        code: int = 1,
        ran: float = 2,
        is_planned: bool = False,
        **process: Any,
    ) -> Plan:
        end = Exit(at(seconds), code, f"exit code {code}", timedelta(seconds=ran), is_planned)
        self.ends += 1
        return self.seen(seconds, running=False, last_exit=end, restarts=self.ends, **process)

    @property
    def one(self) -> BookieStatus:
        return self.status.bookies[0]


def warnings(made: Plan) -> list[str]:
    return [event.reason for event in made.events if event.reason == "BookieCrashLoop"]


@pytest.mark.parametrize(("code", "kind"), [(0, "Normal"), (1, "Warning"), (-9, "Warning")])
def test_each_end_is_told_with_its_bookie_and_a_graceful_one_is_no_warning(
    code: int, kind: Literal["Normal", "Warning"]
) -> None:
    told = [one for one in Life().ended(10, code=code).events if one.reason == "BookieRestarted"]
    assert told == [Event("BookieRestarted", f"exit code {code}", B0, kind)]


def test_d7_three_short_runs_in_a_row_are_a_crash_loop() -> None:
    life = Life()
    life.ended(10)
    life.ended(20)
    assert life.one.state is BookieState.DOWN
    assert warnings(life.ended(30)) == ["BookieCrashLoop"]
    assert (life.one.state, life.one.failures) == (BookieState.CRASH_LOOP, 3)
    assert life.one.message == "3 ends in a row: exit code 1"


def test_d7_kills_with_minutes_of_service_between_are_no_crash_loop() -> None:
    life = Life()
    for seconds in (200, 400, 600, 800):
        assert not warnings(life.ended(seconds, code=-9, ran=190))
        assert life.one.failures == 1


def test_d7_a_steady_run_ends_the_row_while_it_goes_on() -> None:
    life = Life()
    for seconds in (10, 20, 30):
        life.ended(seconds)
    life.seen(95, phase=Phase.SERVING, started_at=at(35), last_exit=Exit(at(30), 1, "x"))
    assert life.one.failures == 0
    life.ended(100, ran=65)
    assert life.one.failures == 1


def test_d7_a_planned_rolling_restart_never_warns() -> None:
    life = Life()
    for seconds in (10, 20):
        life.ended(seconds)
    assert not warnings(life.ended(30, code=0)), "it was told to stop, and did"
    assert life.one.failures == 0


def test_d7_an_end_that_was_asked_for_is_planned_whatever_its_code() -> None:
    life = Life()
    for seconds in (10, 20):
        life.ended(seconds)
    assert not warnings(life.ended(30, code=-9, is_planned=True)), "not in time, and yet asked to"
    assert life.one.failures == 0


def test_d7_another_pod_begins_another_row() -> None:
    life = Life()
    for seconds in (10, 20):
        life.ended(seconds, pod="pod-1")
    life.seen(25, pod="pod-2")
    assert not warnings(life.ended(30, pod="pod-2"))
    assert life.one.failures == 1


def test_d7_an_end_is_counted_once_however_often_it_is_seen() -> None:
    life = Life()
    life.ended(10)
    for seconds in (11, 12, 13):
        life.seen(seconds, running=False, last_exit=Exit(at(10), 1, "exit code 1"))
    assert life.one.failures == 1


def test_d7_a_boot_that_answers_is_believed_whatever_ended_before() -> None:
    life = Life()
    for seconds in (10, 20, 30):
        life.ended(seconds)
    life.seen(33, phase=Phase.BOOTING, last_exit=Exit(at(30), 1, "exit code 1"))
    assert (life.one.state, life.one.failures) == (BookieState.BOOTING, 3)


@pytest.mark.parametrize(
    ("pod", "node", "boot", "moved", "rebooted"),
    [
        ("p1", "n1", "b1", False, False),
        ("p2", "n1", "b1", True, False),
        ("", "n1", "b1", False, False),
        ("p1", "n1", "b2", False, True),
        ("p1", "n1", "", False, False),
        ("p1", "n2", "b2", False, False),
    ],
    ids=["the same", "another pod", "unknown pod", "rebooted", "unknown boot", "another node"],
)
def test_a_process_is_moved_with_its_pod_and_rebooted_with_the_node_where_it_was(
    pod: str, node: str, boot: str, moved: bool, rebooted: bool
) -> None:
    facts = {"pod": "p1", "node": "n1", "node_boot_id": "b1"}
    before = BookieStatus(id=B0, state=BookieState.SERVING, **facts)
    now = Process("i", True, "r", pod=pod, node=node, node_boot_id=boot)
    assert (is_moved(now, before), is_rebooted(now, before)) == (moved, rebooted)


@pytest.mark.parametrize("waited", [5, 59, 61, 600])
def test_a_crash_loop_lasts_however_long_the_next_run_is_waited_for(waited: float) -> None:
    """Its pod is as old as ever: that is no steady run."""
    life = Life()
    for seconds in (10, 20, 30):
        life.ended(seconds, started_at=at(0))
    end = Exit(at(30), 1, "exit code 1")
    life.seen(30 + waited, running=False, last_exit=end, restarts=3, started_at=at(0))
    assert (life.one.state, life.one.failures) == (BookieState.CRASH_LOOP, 3)
