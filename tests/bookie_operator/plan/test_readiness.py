"""Ready and Stalled, and what a program that knows only kstatus makes of them."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import BookieState, BookieStatus
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import Blocked, ClusterStatus
from bookie_operator.observed import Bookie, MetadataView
from bookie_operator.plan.invalid import invalid_status
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import at, bookie, cluster, fix_request, observed

B0, B1, B2, B3 = (BookieId(f"bookie-{n}") for n in range(4))
NOTHING = ClusterStatus()
OLD, NEW = cluster(), cluster(image="new:1")
CANARY = cluster(image="new:1", rollout={"partition": 3})


def made(
    *special: Bookie, of: BookieCluster = NEW, before: ClusterStatus = NOTHING, at_s: float = 100
) -> Plan:
    """A pass over bookies of the new image, but for the special ones, a while after their start."""
    return plan(of, observed(*special, of=of, seconds=at_s), before)


def lasting(
    *special: Bookie, of: BookieCluster = NEW, before: ClusterStatus = NOTHING, seconds: float = 60
) -> ClusterStatus:
    """The status when all stays so for so many seconds more."""
    first = made(*special, of=of, before=before).status
    failures = {one.id: one.failures for one in before.bookies}
    kept = [
        one.model_copy(update={"failures": failures.get(one.id, one.failures)})
        for one in first.bookies
    ]
    before = first.model_copy(update={"bookies": tuple(kept)})
    return made(*special, of=of, before=before, at_s=100 + seconds).status


def old(*names: BookieId) -> list[Bookie]:
    return [bookie(name, of=OLD) for name in names]


def sized(size: str) -> Bookie:
    """One whose journal's volume has that size; 10Gi are wanted."""
    one = bookie(B1, of=NEW)
    journal = replace(one.volumes["journal"], size=size)
    return replace(one, volumes={**one.volumes, "journal": journal})


def verdict(status: ClusterStatus, kind: ConditionType) -> str:
    found = status.condition(kind)
    assert found is not None
    return f"{found.status} {found.reason}"


def kstatus(document: dict[str, Any], generation: int) -> str:
    """What kstatus computes of a custom resource, by its own page: sigs.k8s.io/cli-utils."""
    status = document["status"]
    if status["observedGeneration"] != generation:
        return "InProgress"
    said = {one["type"]: one["status"] for one in status["conditions"]}
    if said.get("Reconciling") == "True":
        return "InProgress"
    if said.get("Stalled") == "True":
        return "Failed"
    return "Current" if said.get("Ready", "True") == "True" else "InProgress"


@pytest.mark.parametrize(
    ("special", "of", "expected"),
    [
        ([], NEW, "True AsWanted"),
        ([bookie(B1, of=NEW, limbo=3)], NEW, "True AsWanted"),
        ([bookie(B1, of=NEW, phase=Phase.BOOTING)], NEW, "False BookiesNotServing"),
        ([bookie(B1, of=NEW, phase=Phase.REFUSED)], NEW, "False BookiesNotServing"),
        (old(B3), NEW, "False RollingOut"),
        (old(B0, B1, B2), CANARY, "True AsWanted"),
        (old(B0, B1, B2, B3), CANARY, "False RollingOut"),
        ([bookie(BookieId("bookie-4"), of=NEW)], NEW, "False ScalingDown"),
        ([sized("5Gi")], NEW, "False VolumesGrowing"),
        ([sized("5Gi")], cluster(image="new:1", paused=True), "False VolumesGrowing"),
        ([sized("10Gi")], NEW, "True AsWanted"),
        ([sized("")], NEW, "True AsWanted"),
    ],
)
def test_ready_is_true_once_the_spec_is_carried_out(
    special: list[Bookie], of: BookieCluster, expected: str
) -> None:
    assert verdict(made(*special, of=of).status, ConditionType.READY) == expected


def test_a_store_that_does_not_answer_is_not_ready() -> None:
    seen = observed(of=NEW, metadata=MetadataView(message="no answer"))
    status = plan(NEW, seen, NOTHING).status
    assert verdict(status, ConditionType.READY) == "False MetadataUnreachable"
    assert verdict(status, ConditionType.STALLED) == "False NotStalled"


@pytest.mark.parametrize(
    ("special", "of", "expected"),
    [
        ([], NEW, "False NotStalled"),
        ([bookie(B1, of=NEW, limbo=3)], NEW, "False NotStalled"),
        ([bookie(B1, of=NEW, phase=Phase.REFUSED)], NEW, "True RefusedBoot"),
        ([bookie(B3, of=NEW, phase=None), *old(B0, B1, B2)], NEW, "True RolloutHalted"),
        (
            [bookie(B1, phase=Phase.AWAITING_APPROVAL, fix=fix_request())],
            cluster(cookieFix={"policy": "Approve"}),
            "True AwaitingApproval",
        ),
    ],
)
def test_stalled_is_true_when_only_a_person_helps(
    special: list[Bookie], of: BookieCluster, expected: str
) -> None:
    failed = BookieStatus(id=B3, state=BookieState.STARTING, failures=3)
    before = ClusterStatus(bookies=(failed,))
    status = lasting(*special, of=of, before=before)
    assert verdict(status, ConditionType.STALLED) == expected


@pytest.mark.parametrize(
    "special",
    [
        [bookie(B1, of=NEW, phase=Phase.REFUSED)],
        [bookie(B3, of=NEW, phase=None), *old(B0, B1, B2)],
    ],
)
def test_what_may_pass_by_itself_is_stalled_only_after_a_minute(special: list[Bookie]) -> None:
    for seconds, expected in ((0, "False"), (59, "False"), (60, "True")):
        status = lasting(*special, seconds=seconds)
        assert verdict(status, ConditionType.STALLED).split()[0] == expected


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        ((40,), "True"),
        ((41,), "False"),
        ((40, 99), "True"),
        ((99, 40), "True"),
        ((41, 99), "False"),
    ],
)
def test_a_rollout_is_stalled_by_its_oldest_halt(since: tuple[int, ...], expected: str) -> None:
    """One more bookie that is held up does not begin the minute again."""
    halts = tuple(
        Blocked(action="Restart", predicate="RolloutHalted", bookie=name, since=at(seconds))
        for name, seconds in zip((B0, B1), since, strict=False)
    )
    other = Blocked(action="Restart", predicate="LimboPresent", bookie=B2, since=at(1))
    failing = bookie(B3, of=NEW, phase=None)
    known = BookieStatus(id=B3, state=BookieState.STARTING, failures=3)
    before = ClusterStatus(blocked=(*halts, other), bookies=(known,))
    status = made(failing, *old(B0, B1, B2), before=before).status
    assert verdict(status, ConditionType.PROGRESSING) == "False RolloutHalted"
    assert verdict(status, ConditionType.STALLED).split()[0] == expected


def test_an_image_that_cannot_be_had_is_stalled_also_on_the_last_bookie() -> None:
    facts = {"waiting": "ImagePullBackOff: no such tag"}
    waiting = bookie(B0, of=NEW, running=False, process_facts=facts)
    status = lasting(waiting)
    assert verdict(status, ConditionType.STALLED) == "True ImageUnavailable"
    found = status.condition(ConditionType.STALLED)
    assert found is not None and "no such tag" in found.message


@pytest.mark.parametrize(
    ("status", "generation", "expected"),
    [
        (made().status, 1, "Current"),
        (made().status, 2, "InProgress"),
        (made(*old(B3)).status, 1, "InProgress"),
        (lasting(bookie(B1, of=NEW, phase=Phase.REFUSED)), 1, "Failed"),
        (invalid_status(made().status, 2, "replicas: found 1", at(9)), 2, "Failed"),
    ],
)
def test_kstatus_reads_what_is_meant(status: ClusterStatus, generation: int, expected: str) -> None:
    assert kstatus({"status": status.as_dict()}, generation) == expected


def test_each_bookie_says_whether_it_is_updated_and_which_version_it_is() -> None:
    mine = bookie(B1, of=NEW, version="0.2.0")
    status = made(mine, *old(B3)).status
    assert [status.bookie(name).is_updated for name in (B0, B1, B2, B3)] == [True] * 3 + [False]  # type: ignore[union-attr]
    assert status.updated_replicas == 3 and status.ready_replicas == 4
    one = status.bookie(B1)
    assert one is not None and one.version == "0.2.0"
    assert mine.process is not None and one.revision == mine.process.revision


def test_a_version_is_kept_while_its_bookie_is_silent() -> None:
    before = made(bookie(B1, of=NEW, version="0.2.0")).status
    silent = replace(bookie(B1, of=NEW), health=None)
    one = made(silent, before=before).status.bookie(B1)
    assert one is not None and one.version == "0.2.0"
