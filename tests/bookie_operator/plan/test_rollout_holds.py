"""Where new settings must not spread, and where they must not be kept from anybody for ever."""

from dataclasses import replace

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.status import BookieState, BookieStatus, ClusterStatus
from bookie_operator.observed import Bookie
from bookie_operator.plan.actions import RestartBookie, StartBookie
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import at, bookie, cluster, observed, task

ACK3 = {"replicas": 5, "quorum": {"ensemble": 4, "write": 4, "ack": 3}}
OLD, NEW, MENDED = (cluster(**ACK3, image=f"{one}:1") for one in ("old", "new", "mended"))
B0, B1, B2, B3, B4 = (BookieId(f"bookie-{n}") for n in range(5))
LATER = 1000.0


def known(**failures: int) -> ClusterStatus:
    return ClusterStatus(
        bookies=tuple(
            BookieStatus(
                id=f"bookie-{n}", state=BookieState.SERVING, boot_epoch=1,
                failures=failures.get(f"b{n}", 0),
            )
            for n in range(5)
        )
    )  # fmt: skip


def rolled(*special: Bookie, new=NEW, before: ClusterStatus | None = None, tasks=()) -> Plan:
    fleet = {name: bookie(name, of=OLD) for name in OLD.spec.bookie_ids}
    fleet |= {one.id: one for one in special}
    look = observed(*fleet.values(), of=new, seconds=LATER, tasks=tasks)
    return plan(new, look, before or known())


def got(made: Plan) -> dict[str, bool]:
    return {
        a.template.bookie_id: a.keeps_settings
        for a in made.actions
        if isinstance(a, (StartBookie, RestartBookie))
    }


def gone(one: Bookie) -> Bookie:
    return replace(one, process=None, health=None, is_writable=False, is_registered=False)


def test_two_without_a_pod_come_up_as_they_were() -> None:
    """Their sets have the settings that their next pods get."""
    made = rolled(gone(bookie(B0, of=OLD)), gone(bookie(B1, of=OLD)))
    assert got(made) == {B0: True, B1: True}


def test_while_the_first_is_between_two_pods_one_that_ends_comes_up_as_it_was() -> None:
    """As after every restart of ours: for seconds nobody has the new settings by its process."""
    ends = bookie(B1, of=OLD, running=False, exit_at=LATER - 1)
    first = rolled()
    assert got(first) == {B0: False}
    second = rolled(gone(bookie(B0, of=NEW)), ends, before=first.status)
    assert got(second).get(B1) is not False


def test_a_failing_one_whose_pod_is_gone_halts_it_still() -> None:
    looping = bookie(B0, of=NEW, phase=None)
    halted = rolled(looping, before=known(b0=3))
    ends = bookie(B1, of=OLD, running=False, exit_at=LATER - 1)
    made = rolled(gone(looping), ends, before=halted.status)
    assert got(made).get(B1) is not False


def test_one_is_restarted_or_another_started_with_new_settings_not_both() -> None:
    looping = bookie(B0, of=OLD, phase=None)
    ends = bookie(B1, of=OLD, running=False, exit_at=LATER - 1)
    made = rolled(looping, ends, before=known(b0=4))
    assert len([one for one, keeps in got(made).items() if not keeps]) == 1


@pytest.mark.parametrize("odd", ["unready", "stale", "booting"])
def test_while_the_first_boots_with_new_settings_no_other_is_restarted(odd: str) -> None:
    """Both are out, and neither is more broken than the other: so the second counts as worst."""
    booting = bookie(B0, of=NEW, phase=Phase.BOOTING, boot_at=LATER - 30)
    serving = bookie(B1, of=OLD)
    other = {
        "unready": bookie(B1, of=OLD, process_facts={"is_ready": False}),
        "stale": replace(serving, health=replace(serving.health, is_fresh=False)),
        "booting": bookie(B1, of=OLD, epoch=2, phase=Phase.BOOTING, boot_at=LATER - 5),
    }[odd]
    assert got(rolled(booting, other)) == {}


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_mended_spec_reaches_those_that_refused_to_boot(count: int) -> None:
    """Ack quorum 2, of 4: they are out already, and have nothing in memory to forget."""
    was, mended = cluster(image="bad:1"), cluster(image="mended:1")
    broken = [bookie(f"bookie-{n}", of=was, phase=Phase.REFUSED) for n in range(count)]
    whole = [bookie(f"bookie-{n}", of=was) for n in range(count, 4)]
    look = observed(*broken, *whole, of=mended, seconds=LATER)
    four = ClusterStatus(bookies=known().bookies[:4])
    assert list(got(plan(mended, look, four))) == [B0]


def test_one_that_ended_waits_as_well_until_the_first_has_run_for_a_while() -> None:
    fresh = bookie(B0, of=NEW, boot_at=LATER - 1)
    ends = bookie(B1, of=OLD, running=False, exit_at=LATER - 1)
    assert got(rolled(fresh, ends)).get(B1) is not False


def test_a_hung_one_does_not_get_settings_that_nobody_has_served_with() -> None:
    booting = bookie(B0, of=NEW, phase=Phase.BOOTING, boot_at=LATER - 30)
    made = rolled(booting, bookie(B1, of=OLD, phase=None))
    assert got(made).get(B1) is not False


def test_a_stuck_one_does_not_get_unproven_settings_while_others_serve_with_the_old() -> None:
    young = bookie(B4, of=NEW, running=False, process_facts={"waiting": "ErrImagePull: no"})
    looping = bookie(B1, of=OLD, running=False, exit_at=LATER - 1)
    before = known(b1=5)
    before = before.model_copy(update={"bookies": before.bookies[:4]})  # bookie-4 is new
    assert got(rolled(young, looping, before=before)).get(B1) is not False


def test_a_stuck_one_waits_for_the_boot_of_the_first_while_others_serve() -> None:
    booting = bookie(B0, of=NEW, phase=Phase.BOOTING, boot_at=LATER - 30)
    looping = bookie(B1, of=OLD, running=False, exit_at=LATER - 1)
    assert got(rolled(booting, looping, before=known(b1=5))).get(B1) is not False


def test_a_leaver_that_fails_with_new_settings_halts_them_as_well() -> None:
    fewer = cluster(**(ACK3 | {"replicas": 4}), image="new:1")
    flapping = bookie(B4, of=NEW, boot_at=LATER - 5)
    ends = bookie(B1, of=OLD, running=False, exit_at=LATER - 1)
    assert got(rolled(flapping, ends, new=fewer, before=known(b4=2))).get(B1) is not False


def test_a_leaver_that_fails_with_new_settings_halts_restarts_as_well() -> None:
    fewer = cluster(**(ACK3 | {"replicas": 4}), image="new:1")
    flapping = bookie(B4, of=NEW, boot_at=LATER - 15)
    assert got(rolled(flapping, new=fewer, before=known(b4=2))) == {}


def test_in_a_halted_rollout_a_hung_one_is_restarted_as_it_was() -> None:
    flapping = bookie(B0, of=NEW, boot_at=LATER - 15)
    hung = bookie(B1, of=OLD, phase=None)
    status = known(b0=1)
    one = status.bookies[1].model_copy(update={"silent_since": at(0), "instance": "bookie-1-1"})
    status = status.model_copy(update={"bookies": (status.bookies[0], one, *status.bookies[2:])})
    assert got(rolled(hung, new=OLD, before=status)) == {B1: False}, "it would be restarted"
    assert got(rolled(flapping, hung, before=status)) == {B1: True}


def test_in_a_halted_rollout_a_person_may_restart_one_as_it_is() -> None:
    flapping = bookie(B0, of=NEW, boot_at=LATER - 15)
    made = rolled(flapping, before=known(b0=1), tasks=[task("restart", bookie=B1)])
    assert got(made) == {B1: True}


LOST_NODE = {"node": "n0", "node_trouble": "is not ready"}


def test_a_pod_on_a_lost_node_that_never_ends_keeps_no_mended_image_from_the_others() -> None:
    waiting = {"waiting": "ErrImagePull: not found"}
    stuck = [bookie(f"bookie-{n}", of=NEW, running=False, process_facts=waiting) for n in range(5)]
    lost = bookie(B0, of=NEW, running=False, process_facts=waiting | LOST_NODE)
    fleet, status = (lost, *stuck[1:]), known()
    for _ in range(3):  # its pod is deleted and stays, as nobody is there to end it
        made = rolled(*fleet, new=MENDED, before=status)
        status = made.status
    assert set(got(made)) - {B0}


def test_a_silent_one_on_a_lost_node_keeps_no_mended_settings_from_the_broken_one() -> None:
    lost = bookie(B0, of=OLD, phase=None, process_facts=LOST_NODE)
    broken, status = bookie(B1, of=NEW, phase=None), known()
    for _ in range(3):
        made = rolled(lost, broken, new=MENDED, before=status)
        status = made.status
    assert B1 in got(made)


def test_a_mended_spec_reaches_the_one_that_refuses_though_another_is_lost_for_good() -> None:
    lost = bookie(B3, of=OLD, running=False, exit_at=0, process_facts=LOST_NODE)
    refused, status = bookie(B0, of=NEW, phase=Phase.REFUSED), known()
    for _ in range(3):
        made = rolled(lost, refused, new=MENDED, before=status)
        status = made.status
    assert B0 in got(made)
