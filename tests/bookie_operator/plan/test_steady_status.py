"""What a person sees of a fleet while a bookie comes and goes: nothing flickers, nothing hides."""

import inspect
from dataclasses import dataclass, field, replace

import pytest
from bookie.boot import boot, takeover
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import BookieState, BookieStatus
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, Exit
from bookie_operator.plan.conditions import LEASE_WAIT
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import at, audited, bookie, cluster, observed

B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")
AUDITED = audited()


@dataclass
class Fleet:
    """One fleet, pass by pass."""

    status: ClusterStatus = field(
        default_factory=lambda: plan(cluster(), observed(jobs=[AUDITED]), ClusterStatus()).status
    )

    def seen(self, seconds: float, *special: Bookie, **spec: object) -> Plan:
        look = observed(*special, seconds=seconds, jobs=[AUDITED])
        made = plan(cluster(**spec), look, self.status)
        self.status = made.status
        return made

    @property
    def one(self) -> BookieStatus:
        return self.status.bookies[0]

    def progressing(self) -> str:
        found = self.status.condition(ConditionType.PROGRESSING)
        return f"{found.reason}: {found.message}" if found is not None else ""


def without_pod() -> Bookie:
    return replace(bookie(B0), process=None, health=None, is_writable=False)


def told_to_stop(seconds: float, *, code: int = 0) -> Bookie:
    end = Exit(at(seconds), code, f"exit code {code}", is_planned=code != 0)
    return bookie(B0, running=False, process_facts={"last_exit": end})


def booting(message: str = "replaying the journal") -> Bookie:
    return bookie(B0, phase=Phase.BOOTING, epoch=2, message=message)


def test_d11_a_fleet_keeps_its_replicas_while_a_pod_is_away() -> None:
    fleet = Fleet()
    fleet.seen(5, without_pod())
    assert (fleet.status.replicas, fleet.status.ready_replicas) == (4, 3)


def test_d11_a_pod_that_is_away_for_a_moment_is_not_down() -> None:
    fleet = Fleet()
    made = fleet.seen(5, without_pod())
    assert (fleet.one.state, fleet.one.state_since) == (BookieState.STARTING, at(5))
    assert fleet.status.phase == "Starting" and not made.events


def test_d11_a_pod_that_stays_away_is_down() -> None:
    fleet = Fleet()
    for seconds in (5, 60, 66):
        fleet.seen(seconds, without_pod())
    assert fleet.one.state is BookieState.DOWN and fleet.status.phase == "Degraded"
    fleet.seen(70, without_pod())
    assert (fleet.one.state, fleet.one.state_since) == (BookieState.DOWN, at(66))


@pytest.mark.parametrize("code", [0, 3, -9])
def test_d7_a_planned_stop_is_not_told_as_down(code: int) -> None:
    fleet = Fleet()
    made = fleet.seen(5, told_to_stop(5, code=code))
    assert fleet.one.state is BookieState.STARTING and "exit code" in fleet.one.message
    assert not made.events and not fleet.status.is_true(ConditionType.DEGRADED)


def test_d7_a_stop_after_which_nothing_comes_is_told() -> None:
    fleet = Fleet()
    fleet.seen(66, told_to_stop(5))
    assert fleet.one.state is BookieState.DOWN


def test_d11_a_bookie_that_boots_is_in_the_phase_and_says_what_it_does() -> None:
    fleet = Fleet()
    fleet.seen(5, booting())
    assert fleet.status.phase == "Starting"
    assert fleet.progressing() == "BookiesStarting: bookie-0 (Booting: replaying the journal)"


def test_d11_a_wait_for_a_former_process_is_in_the_phase() -> None:
    fleet = Fleet()
    fleet.seen(5, booting("waiting until a former process can no longer answer"))
    assert fleet.status.phase == "WaitingForLease"
    assert fleet.progressing().startswith("WaitingForLease: bookie-0 (Booting: waiting until")


def test_d11_the_words_of_such_a_wait_are_the_bookies() -> None:
    steps = [inspect.getsource(module).count(LEASE_WAIT) for module in (takeover, boot)]
    assert all(steps)


def test_d11_a_rollout_is_one_phase_from_the_first_restart_to_the_last() -> None:
    fleet = Fleet()
    settings = {"journalWriteData": True}
    fleet.seen(5, **settings)
    assert fleet.status.phase == "Rolling"
    fleet.seen(6, booting(), **settings)
    assert fleet.status.phase == "Rolling", "others wait until this one serves"


def test_d11_a_bookie_that_never_ran_is_not_counted_yet() -> None:
    fleet = Fleet(plan(cluster(), observed(without_pod()), ClusterStatus()).status)
    assert (fleet.one.state, fleet.status.replicas) == (BookieState.PENDING, 3)
