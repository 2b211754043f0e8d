"""Disks that fill up are told of while their bookies still take entries."""

from dataclasses import replace

import pytest
from bookie.storage.disk import DiskSpace
from bookie.storage.settings import StorageSettings
from bookie.storage.space import SpaceMarks
from bookie.wire.admin.health import DiskHealth, Phase
from bookie_operator.kubectl.hints import hints
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.plan.space import EARLIER, early_bytes
from operator_scenes import at, bookie, cluster, observed

GIB = 2**30
SETTLED = plan(cluster(), observed(), ClusterStatus()).status


def with_space(free: float, total: float = 100, name: str = "bookie-0") -> Bookie:
    """In GiB, of each of its disks."""
    one = bookie(name)
    assert one.health is not None
    space = {"free_bytes": int(free * GIB), "total_bytes": int(total * GIB)}
    disks = tuple(replace(disk, **space) for disk in one.health.disks)
    return replace(one, health=replace(one.health, disks=disks))


def look(*special: Bookie, before: ClusterStatus = SETTLED) -> Plan:
    return plan(cluster(), observed(*special, seconds=5), before)


def space(made: Plan) -> tuple[str, str, str]:
    found = made.status.condition(ConditionType.SPACE_LOW)
    assert found is not None
    return found.status, found.reason, found.message


def test_a_disk_that_fills_up_is_told_of_before_its_bookie_is_read_only() -> None:
    made = look(with_space(11.9))
    assert space(made)[:2] == ("True", "DiskNearlyFull")
    assert "bookie-0 ledger 1 has less than 12.0 of 100.0 GiB free" in space(made)[2]
    assert "SpaceLow" in [event.reason for event in made.events]
    assert made.status.phase == "Running", "it serves as it should"


def test_there_is_advice() -> None:
    of = cluster().model_copy(update={"status": look(with_space(1)).status})
    assert any("larger volumes" in hint.text for hint in hints(of, now=at(5)))


@pytest.mark.parametrize(("free", "status"), [(12.1, "True"), (14.9, "True"), (15.1, "False")])
def test_it_is_over_when_clearly_more_is_free(free: float, status: str) -> None:
    assert space(look(with_space(free), before=look(with_space(11)).status))[0] == status
    assert space(look(with_space(free)))[0] == "False", "it was not told before"


def test_it_does_not_change_with_every_entry() -> None:
    first = look(with_space(11.5))
    again = look(with_space(11.4), before=first.status)
    assert space(first) == space(again) and not again.events


def test_what_no_bookie_says_is_not_known() -> None:
    assert space(look(with_space(0, total=0)))[0] == "False", "this disk did not say"
    assert space(look(bookie("bookie-0", phase=Phase.BOOTING)))[:2] == (
        "Unknown",
        "BookiesNotBooted",
    )


def test_a_large_fleet_is_told_in_one_sentence() -> None:
    every = [with_space(1, name=name) for name in cluster().spec.bookie_ids]
    assert space(look(*every))[2].endswith("; 7 more")


@pytest.mark.parametrize("total", [0.5, 0.7, 1])
def test_a_small_disk_that_is_empty_is_not_low(total: float) -> None:
    assert space(look(with_space(0.99 * total, total=total)))[0] == "False"
    assert space(look(with_space(0.45 * total, total=total)))[0] == "True"


@pytest.mark.parametrize("total", [10, 100, 4000])
@pytest.mark.parametrize("role", ["journal", "ledger"])
def test_the_marks_are_those_of_the_bookies(role: str, total: int) -> None:
    disk = DiskHealth(role, 0, "", "ok", "", total_bytes=total * GIB)
    kept = {field: StorageSettings.__dataclass_fields__[field].default for field in FILES.values()}
    whole = DiskSpace(free_bytes=0, total_bytes=total * GIB)
    low = SpaceMarks().low_bytes(whole, file_bytes=kept[FILES[role]])
    assert early_bytes(disk) == EARLIER * low


FILES = {"journal": "journal_file_bytes", "ledger": "log_file_bytes"}


@pytest.mark.parametrize(("total", "early"), [(100, 12.0), (10, 1.5), (1, 0.15)])
def test_a_disk_of_a_role_that_is_not_known_yet_is_measured_by_its_size_alone(
    total: int, early: float
) -> None:
    """A bookie may be newer than its operator."""
    disk = DiskHealth("cache", 0, "", "ok", "", total_bytes=total * GIB)
    assert early_bytes(disk) == pytest.approx(early * GIB, abs=8)


def test_a_disk_with_just_what_must_be_free_lacks_nothing() -> None:
    """On a disk of 100 GiB that is 12 GiB, to the byte."""
    for free, status in ((12, "False"), (12 - 1 / GIB, "True")):
        assert space(look(with_space(free)))[0] == status
