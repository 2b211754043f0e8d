"""Rolling new settings out: one bookie at a time, halted by the first that fails, and told."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import BookieState, BookieStatus
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask
from bookie_operator.observed import Bookie
from bookie_operator.plan.actions import DrainBookie, RestartBookie, StartBookie, template_of
from bookie_operator.plan.conditions import BLOCKED_AFTER
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.plan.rollouts import STEADY_AFTER
from operator_scenes import at, bookie, cluster, observed, task

NOTHING = ClusterStatus()
B0, B1, B2, B3, B4 = (BookieId(f"bookie-{n}") for n in range(5))
ACK3: dict[str, Any] = {"replicas": 5, "quorum": {"ensemble": 4, "write": 4, "ack": 3}}
ACK1: dict[str, Any] = {"quorum": {"ensemble": 3, "write": 2, "ack": 1}, "journalWriteData": True}
OLD, NEW = cluster(**ACK3), cluster(**ACK3, image="new:1")
LATER = 100.0


def ended(bookie_id: BookieId, times: int) -> ClusterStatus:
    """It has ended so often in a row, as the pass before told."""
    one = BookieStatus(id=bookie_id, state=BookieState.STARTING, failures=times)
    return ClusterStatus(bookies=(one,))


def knew(bookie_id: BookieId, before: ClusterStatus) -> ClusterStatus:
    """That one ran as well."""
    one = BookieStatus(id=bookie_id, state=BookieState.SERVING, boot_epoch=1, tls="Required")
    return before.model_copy(update={"bookies": (*before.bookies, one)})


def rolled(
    *special: Bookie,
    new: BookieCluster = NEW,
    old: BookieCluster = OLD,
    seconds: float = LATER,
    before: ClusterStatus = NOTHING,
    **seen: Any,
) -> Plan:
    """A pass over bookies that still run as `old` says, but for the special ones."""
    fleet = {name: bookie(name, of=old) for name in new.spec.bookie_ids}
    fleet |= {one.id: one for one in special}
    return plan(new, observed(*fleet.values(), of=new, seconds=seconds, **seen), before)


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


# Held back by a partition


def canary(partition: int, **spec: Any) -> BookieCluster:
    return cluster(**ACK3, image="new:1", rollout={"partition": partition}, **spec)


@pytest.mark.parametrize(("partition", "first"), [(0, [B0]), (1, [B1]), (4, ["bookie-4"]), (5, [])])
def test_bookies_below_the_partition_keep_their_settings(partition: int, first: list[str]) -> None:
    assert restarted(rolled(new=canary(partition))) == first


def test_when_the_rest_is_done_the_partition_is_what_is_in_the_way() -> None:
    new = canary(4)
    made = rolled(bookie("bookie-4", of=new), new=new)
    assert not restarted(made) and not made.refusals
    assert progressing(made)[:2] == ("False", "PartitionReached")
    assert progressing(made)[2].endswith("bookie-3 keep their settings: rollout.partition is 4")
    assert made.status.updated_replicas == 1


@pytest.mark.parametrize("many", [1, 2, 3, 5])
@pytest.mark.parametrize("joins", [None, B1, B2])
def test_of_those_whose_processes_have_ended_one_alone_gets_the_new_settings(
    many: int, joins: BookieId | None
) -> None:
    """Also where one that has never run starts between them."""
    down = [bookie(one, of=OLD, running=False, exit_at=0) for one in NEW.spec.bookie_ids[:many]]
    new = [replace(bookie(joins), process=None, health=None)] if joins is not None else []
    starts = [a for a in rolled(*down, *new).actions if isinstance(a, StartBookie)]
    assert [a.template.bookie_id for a in starts if not a.keeps_settings] == [B0]


def test_a_partition_itself_is_no_new_setting() -> None:
    assert restarted(rolled(new=cluster(**ACK3, rollout={"partition": 2}))) == []


def test_one_that_is_held_back_and_ends_is_started_by_the_platform_as_it_was() -> None:
    down = bookie(B0, of=OLD, running=False, exit_at=0)
    assert not [a for a in rolled(down, new=canary(4)).actions if isinstance(a, StartBookie)]
    assert [a for a in rolled(down, new=canary(0)).actions if isinstance(a, StartBookie)]


def test_one_that_is_held_back_and_has_no_process_keeps_what_the_platform_knows() -> None:
    gone = replace(bookie(B0, of=OLD), process=None, health=None)
    [start] = [a for a in rolled(gone, new=canary(4)).actions if isinstance(a, StartBookie)]
    assert start == StartBookie(template_of(canary(4).spec, B0), keeps_settings=True)


# On request


def asked_for(made: Plan) -> list[tuple[str, str, bool]]:
    return [
        (a.template.bookie_id, a.reason, a.keeps_settings)
        for a in made.actions
        if isinstance(a, RestartBookie)
    ]


def on_request(*special: Bookie, wish: BookieTask, new: BookieCluster = OLD) -> Plan:
    fleet = {name: bookie(name, of=OLD) for name in new.spec.bookie_ids}
    fleet |= {one.id: one for one in special}
    return plan(new, observed(*fleet.values(), of=new, seconds=LATER, tasks=[wish]), NOTHING)


WISH = task("restart", bookie=B1)
GOING = WISH.model_copy(update={"status": WISH.status.begun("bookie-1-1", at=at(LATER))})


def test_a_task_restarts_one_bookie_and_keeps_its_settings_in_a_held_rollout() -> None:
    made = on_request(wish=WISH)
    assert asked_for(made) == [(B1, "Requested", False)]
    assert made.tasks["task-1"] == GOING.status
    steady = bookie("bookie-4", of=canary(4))
    assert asked_for(on_request(steady, wish=WISH, new=canary(4))) == [(B1, "Requested", True)]


def test_a_requested_restart_waits_for_whoever_is_out() -> None:
    made = on_request(bookie(B3, of=OLD, phase=None), wish=WISH)
    assert not asked_for(made) and refused(made, B1).startswith("LossBudgetExceeded: ")
    assert not made.tasks


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (bookie(B1, of=OLD), "Running"),
        (bookie(B1, of=OLD, epoch=2, phase=Phase.BOOTING, boot_at=LATER), "Running"),
        (bookie(B1, of=OLD, epoch=2), "Succeeded"),
        (bookie(B1, of=OLD, epoch=2, phase=Phase.REFUSED), "Failed"),
    ],
)
def test_a_requested_restart_is_followed_until_the_bookie_serves_again(
    one: Bookie, expected: str
) -> None:
    made = on_request(one, wish=GOING)
    assert made.tasks.get("task-1", GOING.status).phase == expected


def test_the_process_that_was_restarted_is_not_restarted_again() -> None:
    assert asked_for(on_request(wish=GOING)) == [(B1, "Requested", False)], "it still runs"
    assert asked_for(on_request(bookie(B1, of=OLD, epoch=2), wish=GOING)) == []


def test_a_bookie_that_does_not_run_is_not_restarted_and_the_task_says_so() -> None:
    made = on_request(bookie(B1, of=OLD, running=False, exit_at=0), wish=WISH)
    assert made.tasks["task-1"].phase == "Failed"
    assert "does not run" in made.tasks["task-1"].message


def started(made: Plan) -> dict[str, bool]:
    """Bookies that are started -> whether they keep the settings that they ran with."""
    return {
        one.template.bookie_id: one.keeps_settings
        for one in made.actions
        if isinstance(one, StartBookie)
    }


def test_in_a_halted_rollout_who_ends_comes_up_as_it_was() -> None:
    """OOM, eviction, a restart of the node: the image that fails must not spread by it."""
    looping = bookie(B0, of=NEW, phase=None)
    ends = bookie(B1, of=OLD, running=False, exit_at=LATER - 1)
    gone = replace(bookie(B2, of=OLD), process=None, health=None)
    made = rolled(looping, ends, gone, before=knew(B2, ended(B0, 3)))
    assert started(made) == {B2: True}


def test_of_two_that_ended_one_gets_new_settings_and_the_next_when_that_has_served() -> None:
    two = [bookie(name, of=OLD, running=False, exit_at=LATER - 1) for name in (B0, B1)]
    assert started(rolled(*two)) == {B0: False}
    booting = bookie(B0, of=NEW, phase=Phase.BOOTING)
    assert started(rolled(booting, two[1])) == {}
    assert started(rolled(bookie(B0, of=NEW), two[1])) == {B1: False}


def test_a_fleet_that_is_stuck_with_a_bad_image_gets_the_mended_one_though_one_node_is_lost() -> (
    None
):
    waiting = {"waiting": "ErrImagePull: not found"}
    stuck = [
        bookie(name, of=OLD, running=False, process_facts=waiting)
        for name in NEW.spec.bookie_ids[1:]
    ]
    lost = bookie(B0, of=NEW, running=False, process_facts={"waiting": "Unschedulable: 0/3 nodes"})
    assert started(rolled(lost, *stuck)) == {B1: False}


def test_one_that_is_stuck_is_no_reason_to_spread_what_fails_while_others_serve() -> None:
    looping = bookie(B0, of=NEW, phase=None)
    crashing = bookie(B1, of=OLD, running=False, exit_at=LATER - 1)
    before = ClusterStatus(bookies=(*ended(B0, 3).bookies, *ended(B1, 5).bookies))
    assert started(rolled(looping, crashing, before=before)) == {}


def test_one_that_refuses_to_serve_does_not_get_settings_that_fail() -> None:
    made = rolled(
        bookie(B0, of=NEW, phase=None), bookie(B1, of=OLD, phase=Phase.REFUSED), before=ended(B0, 3)
    )
    assert not restarted(made) and refused(made, B1).startswith("RolloutHalted: ")


# Where new settings must not spread, and where they must not be kept from anybody for ever

NOW = 1000.0
MENDED = cluster(**ACK3, image="mended:1")


def all_knew(**failures: int) -> ClusterStatus:
    """All five have run; `b3=2`: bookie-3 has ended twice in a row."""
    return ClusterStatus(
        bookies=tuple(
            BookieStatus(
                id=f"bookie-{n}",
                state=BookieState.SERVING,
                boot_epoch=1,
                tls="Required",
                failures=failures.get(f"b{n}", 0),
            )
            for n in range(5)
        )
    )


def later_on(*special: Bookie, before: ClusterStatus | None = None, **more: Any) -> Plan:
    """A pass over a fleet that has run for long."""
    return rolled(*special, seconds=NOW, before=before or all_knew(), **more)


def taken_up(made: Plan) -> dict[str, bool]:
    """Bookies that are started or restarted -> whether they keep the settings they ran with."""
    return {
        one.template.bookie_id: one.keeps_settings
        for one in made.actions
        if isinstance(one, StartBookie | RestartBookie)
    }


def without_pod(one: Bookie) -> Bookie:
    return replace(one, process=None, health=None, is_writable=False, is_registered=False)


def test_two_without_a_pod_come_up_as_they_were() -> None:
    """Their sets have the settings that their next pods get."""
    made = later_on(without_pod(bookie(B0, of=OLD)), without_pod(bookie(B1, of=OLD)))
    assert taken_up(made) == {B0: True, B1: True}


def test_while_the_first_is_between_two_pods_one_that_ends_comes_up_as_it_was() -> None:
    """As after every restart of ours: for seconds nobody has the new settings by its process."""
    ends = bookie(B1, of=OLD, running=False, exit_at=NOW - 1)
    first = later_on()
    assert taken_up(first) == {B0: False}
    second = later_on(without_pod(bookie(B0, of=NEW)), ends, before=first.status)
    assert taken_up(second).get(B1) is not False


def test_a_failing_one_whose_pod_is_gone_halts_it_still() -> None:
    looping = bookie(B0, of=NEW, phase=None)
    halted = later_on(looping, before=all_knew(b0=3))
    ends = bookie(B1, of=OLD, running=False, exit_at=NOW - 1)
    made = later_on(without_pod(looping), ends, before=halted.status)
    assert taken_up(made).get(B1) is not False


def test_one_is_restarted_or_another_started_with_new_settings_not_both() -> None:
    looping = bookie(B0, of=OLD, phase=None)
    ends = bookie(B1, of=OLD, running=False, exit_at=NOW - 1)
    made = later_on(looping, ends, before=all_knew(b0=4))
    assert len([one for one, keeps in taken_up(made).items() if not keeps]) == 1


@pytest.mark.parametrize("odd", ["unready", "stale", "booting"])
def test_while_the_first_boots_with_new_settings_no_other_is_restarted(odd: str) -> None:
    """Both are out, and neither is more broken than the other: so the second counts as worst."""
    booting = bookie(B0, of=NEW, phase=Phase.BOOTING, boot_at=NOW - 30)
    serving = bookie(B1, of=OLD)
    other = {
        "unready": bookie(B1, of=OLD, process_facts={"is_ready": False}),
        "stale": replace(serving, health=replace(serving.health, is_fresh=False)),
        "booting": bookie(B1, of=OLD, epoch=2, phase=Phase.BOOTING, boot_at=NOW - 5),
    }[odd]
    assert taken_up(later_on(booting, other)) == {}


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_mended_spec_reaches_those_that_refused_to_boot(count: int) -> None:
    """Ack quorum 2, of 4: they are out already, and have nothing in memory to forget."""
    was, mended = cluster(image="bad:1"), cluster(image="mended:1")
    broken = [bookie(f"bookie-{n}", of=was, phase=Phase.REFUSED) for n in range(count)]
    whole = [bookie(f"bookie-{n}", of=was) for n in range(count, 4)]
    look = observed(*broken, *whole, of=mended, seconds=NOW)
    four = ClusterStatus(bookies=all_knew().bookies[:4])
    assert list(taken_up(plan(mended, look, four))) == [B0]


def test_one_that_ended_waits_as_well_until_the_first_has_run_for_a_while() -> None:
    fresh = bookie(B0, of=NEW, boot_at=NOW - 1)
    ends = bookie(B1, of=OLD, running=False, exit_at=NOW - 1)
    assert taken_up(later_on(fresh, ends)).get(B1) is not False


def test_a_hung_one_does_not_get_settings_that_nobody_has_served_with() -> None:
    booting = bookie(B0, of=NEW, phase=Phase.BOOTING, boot_at=NOW - 30)
    made = later_on(booting, bookie(B1, of=OLD, phase=None))
    assert taken_up(made).get(B1) is not False


def test_a_stuck_one_does_not_get_unproven_settings_while_others_serve_with_the_old() -> None:
    young = bookie(B4, of=NEW, running=False, process_facts={"waiting": "ErrImagePull: no"})
    looping = bookie(B1, of=OLD, running=False, exit_at=NOW - 1)
    before = all_knew(b1=5)
    before = before.model_copy(update={"bookies": before.bookies[:4]})  # bookie-4 is new
    assert taken_up(later_on(young, looping, before=before)).get(B1) is not False


def test_a_stuck_one_waits_for_the_boot_of_the_first_while_others_serve() -> None:
    booting = bookie(B0, of=NEW, phase=Phase.BOOTING, boot_at=NOW - 30)
    looping = bookie(B1, of=OLD, running=False, exit_at=NOW - 1)
    assert taken_up(later_on(booting, looping, before=all_knew(b1=5))).get(B1) is not False


def test_a_leaver_that_fails_with_new_settings_halts_them_as_well() -> None:
    fewer = cluster(**(ACK3 | {"replicas": 4}), image="new:1")
    flapping = bookie(B4, of=NEW, boot_at=NOW - 5)
    ends = bookie(B1, of=OLD, running=False, exit_at=NOW - 1)
    assert taken_up(later_on(flapping, ends, new=fewer, before=all_knew(b4=2))).get(B1) is not False


def test_a_leaver_that_fails_with_new_settings_halts_restarts_as_well() -> None:
    fewer = cluster(**(ACK3 | {"replicas": 4}), image="new:1")
    flapping = bookie(B4, of=NEW, boot_at=NOW - 15)
    assert taken_up(later_on(flapping, new=fewer, before=all_knew(b4=2))) == {}


def test_in_a_halted_rollout_a_hung_one_is_restarted_as_it_was() -> None:
    flapping = bookie(B0, of=NEW, boot_at=NOW - 15)
    hung = bookie(B1, of=OLD, phase=None)
    status = all_knew(b0=1)
    one = status.bookies[1].model_copy(update={"silent_since": at(0), "instance": "bookie-1-1"})
    status = status.model_copy(update={"bookies": (status.bookies[0], one, *status.bookies[2:])})
    assert taken_up(later_on(hung, new=OLD, before=status)) == {B1: False}, "it would be restarted"
    assert taken_up(later_on(flapping, hung, before=status)) == {B1: True}


def test_in_a_halted_rollout_a_person_may_restart_one_as_it_is() -> None:
    flapping = bookie(B0, of=NEW, boot_at=NOW - 15)
    made = later_on(flapping, before=all_knew(b0=1), tasks=[task("restart", bookie=B1)])
    assert taken_up(made) == {B1: True}


LOST_NODE = {"node": "n0", "node_trouble": "is not ready"}


def test_a_pod_on_a_lost_node_that_never_ends_keeps_no_mended_image_from_the_others() -> None:
    waiting = {"waiting": "ErrImagePull: not found"}
    stuck = [bookie(f"bookie-{n}", of=NEW, running=False, process_facts=waiting) for n in range(5)]
    lost = bookie(B0, of=NEW, running=False, process_facts=waiting | LOST_NODE)
    fleet, status = (lost, *stuck[1:]), all_knew()
    for _ in range(3):  # its pod is deleted and stays, as nobody is there to end it
        made = later_on(*fleet, new=MENDED, before=status)
        status = made.status
    assert set(taken_up(made)) - {B0}


def test_a_silent_one_on_a_lost_node_keeps_no_mended_settings_from_the_broken_one() -> None:
    lost = bookie(B0, of=OLD, phase=None, process_facts=LOST_NODE)
    broken, status = bookie(B1, of=NEW, phase=None), all_knew()
    for _ in range(3):
        made = later_on(lost, broken, new=MENDED, before=status)
        status = made.status
    assert B1 in taken_up(made)


def test_a_mended_spec_reaches_the_one_that_refuses_though_another_is_lost_for_good() -> None:
    lost = bookie(B3, of=OLD, running=False, exit_at=0, process_facts=LOST_NODE)
    refused, status = bookie(B0, of=NEW, phase=Phase.REFUSED), all_knew()
    for _ in range(3):
        made = later_on(lost, refused, new=MENDED, before=status)
        status = made.status
    assert B0 in taken_up(made)


def test_one_that_is_stuck_with_old_settings_gets_new_ones_if_nobody_serves_with_the_old() -> None:
    """The others have served with the new ones for a moment only."""
    fresh = [bookie(name, of=NEW, boot_at=LATER - 5) for name in (B1, B2, B3, B4)]
    stuck = bookie(B0, of=OLD, running=False, process_facts={"waiting": "ErrImagePull: gone"})
    assert started(rolled(stuck, *fresh)) == {B0: False}
    assert not started(rolled(stuck, *fresh[1:])), "bookie-1 serves with the old ones"
