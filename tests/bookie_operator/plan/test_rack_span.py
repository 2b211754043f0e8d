"""Racks: a rollout finishes one before the next, and who leaves is said to take one along."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie
from bookie_operator.plan.actions import DrainBookie, RestartBookie
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.plan.states import Impairment
from operator_scenes import at, bookie, cluster, observed

SIX: dict[str, Any] = {"replicas": 6, "audit": {"schedule": "@never"}}
OLD, NEW = cluster(**SIX), cluster(**SIX, image="new:1")
ZONES = dict(enumerate(("/a", "/b", "/c", "/a", "/b", "/c")))
ONES = {0: "/a", 1: "/b", 2: "/a", 3: "/a", 4: "/a"}
"""One bookie alone in its rack."""
LATER = 1000.0


def number(bookie_id: str) -> int:
    return int(bookie_id.rpartition("-")[2])


def placed(one: Bookie, racks: Mapping[int, str]) -> Bookie:
    assert one.process is not None
    return replace(one, process=replace(one.process, rack=racks.get(number(one.id), "")))


def look(
    *special: Bookie, of: BookieCluster = NEW, racks: Mapping[int, str] = ZONES,
    before: ClusterStatus | None = None, new: tuple[int, ...] = (),
) -> Plan:  # fmt: skip
    """All bookies run as OLD says, but for `new` ones and the special ones."""
    fleet = {
        name: bookie(name, of=of if number(name) in new else OLD) for name in of.spec.bookie_ids
    }
    fleet |= {one.id: one for one in special}
    seen = [placed(one, racks) for one in fleet.values()]
    return plan(of, observed(*seen, of=of, seconds=LATER), before or ClusterStatus())


def restarted(made: Plan) -> list[int]:
    return [number(a.template.bookie_id) for a in made.actions if isinstance(a, RestartBookie)]


def rolled(racks: Mapping[int, str], of: BookieCluster = NEW) -> list[int]:
    """The whole order of a rollout."""
    order: list[int] = []
    while some := restarted(look(of=of, racks=racks, new=tuple(order))):
        order += some
    return order


@pytest.mark.parametrize("key", ["zone", ""])
def test_a_status_keeps_the_rack_of_one_that_names_none_now_unless_there_are_to_be_none(
    key: str,
) -> None:
    before = look(of=OLD).status
    after = look(of=cluster(**SIX, rackTopologyKey=key), racks={}, before=before).status
    assert [one.rack for one in after.bookies] == [ZONES[n] if key else "" for n in range(6)]


@pytest.mark.parametrize(
    ("racks", "order"),
    [
        (ZONES, [0, 3, 1, 4, 2, 5]),
        ({}, [0, 1, 2, 3, 4, 5]),
        ({0: "/a", 1: "/b", 4: "/b"}, [0, 1, 4, 2, 3, 5]),
        ({0: "/z", 1: "/y", 2: "/x", 3: "/z", 4: "/y", 5: "/x"}, [0, 3, 1, 4, 2, 5]),
    ],
)
def test_a_rollout_finishes_the_bookies_of_one_rack_before_the_next(
    racks: dict[int, str], order: list[int]
) -> None:
    assert rolled(racks) == order


def test_after_a_canary_its_rack_is_finished_first() -> None:
    canary = cluster(**SIX, image="new:1", rollout={"partition": 5})
    assert rolled(ZONES, of=canary) == [5]
    assert restarted(look(new=(5,))) == [2]


def test_a_bookie_that_is_between_two_pods_stays_in_its_rack() -> None:
    before = look(new=(0,)).status
    bare = replace(bookie("bookie-3", of=OLD), process=None, health=None)
    fleet = [placed(bookie(name, of=OLD), ZONES) for name in OLD.spec.bookie_ids if name != bare.id]
    made = plan(NEW, observed(bare, *fleet, of=NEW, seconds=LATER), before)
    assert made.status.bookies[3].rack == "/a"


@pytest.mark.parametrize(
    "out",
    [
        bookie("bookie-0", of=NEW, running=False),
        bookie("bookie-0", of=OLD, phase=Phase.BOOTING),
        bookie("bookie-0", of=OLD, process_facts={"is_ready": False}),
        bookie("bookie-0", of=OLD, phase=Phase.AWAITING_APPROVAL),
        bookie("bookie-0", of=OLD, limbo=1, reason="UncleanShutdown", epoch=2),
        replace(bookie("bookie-0", of=OLD), is_writable=False),
    ],
)
def test_while_one_is_out_for_whatever_reason_none_of_another_rack_is_restarted(
    out: Bookie,
) -> None:
    three = {"quorum": {"ensemble": 4, "write": 4, "ack": 3}}
    for racks in (ZONES, {}):
        made = look(out, of=cluster(**SIX, **three, image="new:1"), racks=racks)
        assert set(restarted(made)) <= {0}


def test_while_one_is_out_nobody_may_be_evicted_from_any_rack() -> None:
    """What is out in one rack is no room for an eviction in the same one."""
    three = cluster(**SIX, quorum={"ensemble": 4, "write": 4, "ack": 3})
    assert look(of=three, new=tuple(range(6))).status.disruptions_allowed == 1
    down = bookie("bookie-0", of=three, running=False)
    assert look(down, of=three, new=tuple(range(6))).status.disruptions_allowed == 0


# Who leaves


def leaving(
    racks: Mapping[int, str], *, ordinal: int = 1, before: ClusterStatus | None = None, **spec: Any
) -> Plan:
    wanted: dict[str, Any] = {"replicas": 4, "audit": {"schedule": "@never"}} | spec
    of = cluster(**wanted, excludedOrdinals=[ordinal])
    return look(bookie(f"bookie-{ordinal}", of=of), of=of, racks=racks, before=before)


def words(made: Plan) -> str:
    assert made.status.drain is not None
    return made.status.drain.racks


def test_who_leaves_with_the_last_bookie_of_a_rack_is_drained_and_status_says_what_it_means() -> (
    None
):
    made = leaving(ONES)
    assert DrainBookie(BookieId("bookie-1")) in made.actions, "the spec's choice"
    assert words(made) == (
        "once bookie-1 has left, copies of an entry are in 1 rack, not 2, as bookies are left "
        "4 in /a; audit.minRacks is 2"
    )
    for kind in (ConditionType.PROGRESSING, ConditionType.SCALE_DOWN_BLOCKED):
        found = made.status.condition(kind)
        assert found is not None and words(made) in found.message


def test_it_is_an_event_once() -> None:
    first = leaving(ONES)
    again = leaving(ONES, before=first.status)
    told = [[e.bookie for e in made.events if e.reason == "RacksLost"] for made in (first, again)]
    assert told == [["bookie-1"], []]


def test_it_is_said_while_the_drain_has_to_wait_as_well() -> None:
    of = cluster(replicas=4, excludedOrdinals=[1])
    young = bookie("bookie-4", of=of, phase=Phase.BOOTING)
    made = look(bookie("bookie-1", of=of), young, of=of, racks=ONES)
    assert DrainBookie(BookieId("bookie-1")) not in made.actions and "in 1 rack" in words(made)


@pytest.mark.parametrize(
    "racks",
    [
        ONES | {4: "/b"},  # the one that joins is in the same rack
        ONES | {1: "/a"},  # there was one rack before
        ONES | {3: ""},  # one may be anywhere
        {},
    ],
)
def test_nothing_is_said_where_no_rack_is_lost(racks: dict[int, str]) -> None:
    assert words(leaving(racks)) == ""


def test_more_racks_than_are_asked_for_may_be_lost_in_silence() -> None:
    three = {0: "/a", 1: "/b", 2: "/c", 3: "/a", 4: "/a"}
    assert words(leaving(three)) == ""
    strict = leaving(three, audit={"minRacks": 3, "schedule": "@never"})
    assert "in 2 racks, not 3" in words(strict)


def test_a_rack_that_is_left_with_too_few_for_every_write_set_is_said() -> None:
    """Two racks stay, and yet one write set of four in stripes of two lies in one of them."""
    striped = {"ensemble": 4, "write": 2, "ack": 2}
    racks = {0: "/a", 1: "/b", 2: "/a", 3: "/b", 4: "/a"}
    made = leaving(racks, quorum=striped)
    assert "in 1 rack, not 2, as bookies are left 3 in /a, 1 in /b" in words(made)


def test_one_that_is_out_is_the_reason_and_not_its_rack() -> None:
    of = cluster(replicas=4, excludedOrdinals=[1])
    deaf = replace(bookie("bookie-0", of=of), is_writable=False)
    made = look(bookie("bookie-1", of=of), deaf, of=of, racks=ONES)
    [why] = [one.message for one in made.refusals if one.action == "ScaleDown"]
    assert f"bookie-0 ({Impairment.NOT_REGISTERED})" in why
    assert made.status.drain is not None and made.status.drain.started_at == at(LATER)
