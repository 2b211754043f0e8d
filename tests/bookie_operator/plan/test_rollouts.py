"""Rolling new settings out: one bookie at a time, halted by the first that fails, and told."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import BookieState, BookieStatus, ClusterStatus, ConditionType
from bookie_operator.observed import Bookie
from bookie_operator.plan.actions import DrainBookie, RestartBookie
from bookie_operator.plan.conditions import BLOCKED_AFTER
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.plan.restarts import STEADY_AFTER
from operator_scenes import bookie, cluster, observed

NOTHING = ClusterStatus()
B0, B1, B2, B3 = (BookieId(f"bookie-{n}") for n in range(4))
ACK3: dict[str, Any] = {"replicas": 5, "quorum": {"ensemble": 4, "write": 4, "ack": 3}}
ACK1: dict[str, Any] = {"quorum": {"ensemble": 3, "write": 2, "ack": 1}, "journalWriteData": True}
OLD, NEW = cluster(**ACK3), cluster(**ACK3, image="new:1")
LATER = 100.0


def ended(bookie_id: BookieId, times: int) -> ClusterStatus:
    """It has ended so often in a row, as the pass before told."""
    one = BookieStatus(id=bookie_id, state=BookieState.STARTING, failures=times)
    return ClusterStatus(bookies=(one,))


def rolled(
    *special: Bookie,
    new: BookieCluster = NEW,
    old: BookieCluster = OLD,
    seconds: float = LATER,
    before: ClusterStatus = NOTHING,
) -> Plan:
    """A pass over bookies that still run as `old` says, but for the special ones."""
    fleet = {name: bookie(name, of=old) for name in new.spec.bookie_ids}
    fleet |= {one.id: one for one in special}
    return plan(new, observed(*fleet.values(), of=new, seconds=seconds), before)


def restarted(made: Plan) -> list[str]:
    return [a.template.bookie_id for a in made.actions if isinstance(a, RestartBookie)]


def progressing(made: Plan) -> tuple[str, str, str]:
    found = made.status.condition(ConditionType.PROGRESSING)
    assert found is not None
    return found.status, found.reason, found.message


def refused(made: Plan, name: str) -> str:
    return next(f"{r.predicate}: {r.message}" for r in made.refusals if r.bookie == name)


def test_d4_a_rollout_halts_at_the_first_bookie_that_fails_and_says_so() -> None:
    looping = bookie(B0, of=NEW, phase=None)
    made = rolled(looping, before=ended(B0, 3))
    assert not restarted(made)
    assert refused(made, B1).startswith("RolloutHalted: bookie-0 fails with the new settings")
    status, reason, message = progressing(made)
    assert (status, reason) == ("False", "RolloutHalted") and "bookie-0" in message


def test_d4_one_that_serves_between_its_crashes_halts_it_as_well() -> None:
    # It is up right now, so that nobody is out: the next one would go, and then both are.
    flapping = bookie(B0, of=NEW, boot_at=LATER - 15)
    made = rolled(flapping, before=ended(B0, 1))
    assert not restarted(made) and progressing(made)[:2] == ("False", "RolloutHalted")


def test_d4_the_next_one_waits_until_the_last_has_run_for_a_while() -> None:
    fresh = bookie(B0, of=NEW, boot_at=LATER - STEADY_AFTER.total_seconds() / 2)
    made = rolled(fresh)
    assert not restarted(made) and refused(made, B1).startswith("OneActionAtATime: ")
    steady = bookie(B0, of=NEW, boot_at=LATER - STEADY_AFTER.total_seconds())
    assert restarted(rolled(steady)) == [B1]


@pytest.mark.parametrize("odd", ["stale", "unready", "unregistered"])
def test_a_missed_answer_rolls_nobody_over_a_halt(odd: str) -> None:
    crashed = bookie(B3, of=NEW, epoch=2, boot_at=LATER - 5)
    serving = bookie(B0, of=OLD)
    assert serving.health is not None and serving.process is not None
    one = {
        "stale": replace(serving, health=replace(serving.health, is_fresh=False)),
        "unready": replace(serving, process=replace(serving.process, is_ready=False)),
        "unregistered": replace(serving, is_writable=False),
    }[odd]
    assert not restarted(rolled(crashed, one, before=ended(B3, 1)))


def test_a_start_in_the_future_of_another_clock_holds_no_rollout_up() -> None:
    assert restarted(rolled(bookie(B0, of=NEW, boot_at=LATER + 3600))) == [B1]


def test_d4_settings_that_are_mended_go_to_the_broken_bookie_first() -> None:
    mended = cluster(**ACK3, image="mended:1")
    broken = bookie(B1, of=NEW, phase=None)
    made = rolled(broken, new=mended, before=ended(B1, 3))
    assert restarted(made) == [B1]


def test_d4_of_two_that_are_out_only_the_most_broken_is_restarted() -> None:
    unready = bookie(B1, of=OLD, process_facts={"is_ready": False})
    down = bookie(B0, of=OLD, running=False, exit_at=0)
    made = rolled(down, unready)
    assert not restarted(made), "bookie-0 has no process: it is started, not restarted"
    assert "bookie-0 (Down)" in refused(made, B1)
    silent = bookie(B0, of=OLD, phase=None)
    assert restarted(rolled(silent, unready)) == [B0]


def test_d4_no_bookie_drains_while_another_is_out() -> None:
    fewer = cluster(**(ACK3 | {"replicas": 4}))
    down = bookie(B0, of=OLD, running=False, exit_at=0)
    special = [down, *(bookie(f"bookie-{n}", of=OLD) for n in range(1, 5))]
    made = plan(fewer, observed(*special, of=fewer), NOTHING)
    assert not [action for action in made.actions if isinstance(action, DrainBookie)]


def test_d3_a_rollout_that_is_refused_is_not_idle() -> None:
    old, new = cluster(**ACK1), cluster(**ACK1, image="new:1")  # they acknowledge from memory
    made = rolled(old=old, new=new)
    assert not restarted(made)
    status, reason, message = progressing(made)
    assert (status, reason) == ("True", "Waiting")
    assert message.startswith("bookie-0: Restart LossBudgetExceeded, 1 bookie would be out")


def test_d3_a_rollout_that_stays_refused_is_blocked_and_the_phase_says_so() -> None:
    old, new = cluster(**ACK1), cluster(**ACK1, image="new:1")
    first = rolled(old=old, new=new)
    fleet = [bookie(name, of=old) for name in new.spec.bookie_ids]
    seconds = LATER + BLOCKED_AFTER.total_seconds()
    made = plan(new, observed(*fleet, of=new, seconds=seconds), first.status)
    assert progressing(made)[:2] == ("False", "Blocked") and made.status.phase == "Blocked"


@pytest.mark.parametrize("mode", ["journal", "sync"])
def test_d3_a_cluster_of_ack_quorum_1_is_drained(mode: str) -> None:
    one = cluster(**ACK1, replicas=4)
    fewer = cluster(**ACK1, replicas=3)
    fleet = [durable(bookie(name, of=one), mode) for name in one.spec.bookie_ids]
    made = plan(fewer, observed(*fleet, of=fewer), NOTHING)
    assert [a for a in made.actions if isinstance(a, DrainBookie)] == [DrainBookie(B3)]


def durable(one: Bookie, mode: str) -> Bookie:
    assert one.health is not None and one.health.boot is not None
    return replace(one, health=replace(one.health, boot=replace(one.health.boot, mode=mode)))


def test_a_bookie_that_boots_with_new_settings_is_a_rollout_under_way() -> None:
    booting = bookie(B0, of=NEW, phase=Phase.BOOTING)
    assert progressing(rolled(booting))[:2] == ("True", "Rolling")
    assert progressing(rolled(booting, old=NEW))[:2] == ("True", "BookiesStarting")
