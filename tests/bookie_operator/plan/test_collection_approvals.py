"""A person approves a collection by a task: that very plan, and only what was taken counts."""

from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import PersonDecision, Phase
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask, TaskStatus
from bookie_operator.observed import Bookie
from bookie_operator.plan.actions import ApproveCollection
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import bookie, cluster, observed, task

B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")
WHY = "90 of 100 ledgers here are gone; approve plan plan-1 (`x`); if not, bring it back"
HOLDING: dict[str, Any] = {"collection_held": WHY, "collection_plan_id": "plan-1"}
HELD = bookie(B1, **HOLDING)
WISH = task("approve-collection", bookie=B1, planId="plan-1", approvedBy="ann")
TAKEN = PersonDecision(
    0, "CollectionApproved", "ann (operator prod says so)", f"plan plan-1: {WHY}"
)


def look(
    *special: Bookie, of: BookieCluster | None = None, tasks: tuple[BookieTask, ...] = (WISH,)
) -> Plan:
    return plan(of or cluster(), observed(*special, of=of, tasks=tasks), ClusterStatus())


def running() -> BookieTask:
    """Its approval was handed on in the pass before."""
    status = look(HELD).tasks["task-1"]
    return WISH.model_copy(update={"status": status})


def approved(made: Plan) -> list[ApproveCollection]:
    return [one for one in made.actions if isinstance(one, ApproveCollection)]


def refused(made: Plan) -> list[tuple[str, str, str]]:
    mine = [one for one in made.status.blocked if one.action == "Collect"]
    return [(one.bookie, one.predicate, one.message) for one in mine]


def end(made: Plan) -> TaskStatus:
    return made.tasks["task-1"]


def test_a_plan_that_waits_is_told_with_its_id_bookie_by_bookie() -> None:
    made = look(HELD, bookie(B0, **HOLDING), tasks=())
    assert not approved(made)
    told = ("AwaitingApproval", WHY)
    assert refused(made) == [(B0, *told), (B1, *told)]
    assert made.status.is_true(ConditionType.COLLECTION_HELD)


def test_the_approval_is_handed_on_in_the_persons_name() -> None:
    made = look(HELD)
    assert approved(made) == [ApproveCollection(B1, "plan-1", "ann")] and not refused(made)
    assert (end(made).phase, end(made).target) == ("Running", "plan-1")


@pytest.mark.parametrize("change", [{"bookie": B0}, {"planId": "plan-0"}])
def test_it_is_of_this_bookie_and_of_this_very_plan(change: dict[str, str]) -> None:
    words = {"bookie": B1, "planId": "plan-1", "approvedBy": "ann"} | change
    made = look(HELD, tasks=(task("approve-collection", **words),))
    assert not approved(made) and end(made).phase == "Failed"
    assert end(made).message.endswith("; look again")


def test_it_goes_on_until_the_bookie_shows_the_decision() -> None:
    assert approved(look(HELD, tasks=(running(),)))
    made = look(bookie(B1, decisions=(TAKEN,)), tasks=(running(),))
    assert not approved(made) and end(made).phase == "Succeeded"
    assert "approved by ann (operator prod says so)" in end(made).message


def test_one_that_was_taken_before_its_status_was_written_has_succeeded() -> None:
    assert end(look(bookie(B1, decisions=(TAKEN,)))).phase == "Succeeded"


@pytest.mark.parametrize("kind", ["CookieFixApproved", "CollectionApproved"])
def test_a_plan_that_went_away_was_not_approved(kind: str) -> None:
    other = PersonDecision(0, kind, "ann", "plan plan-10: 3 of 3")
    made = look(bookie(B1, decisions=(other,)), tasks=(running(),))
    assert (end(made).phase, end(made).message) == (
        "Failed", "no collection waits on this bookie; look again",
    )  # fmt: skip


def test_another_plan_that_waits_now_is_named() -> None:
    newer = bookie(B1, collection_held=WHY, collection_plan_id="plan-2")
    assert "another plan waits: plan-2" in end(look(newer, tasks=(running(),))).message


@pytest.mark.parametrize("one", [bookie(B1, phase=None), bookie(B1, phase=Phase.BOOTING)])
def test_nothing_is_concluded_from_a_bookie_that_does_not_say(one: Bookie) -> None:
    made = look(one, tasks=(running(),))
    assert not approved(made) and "task-1" not in made.tasks


def test_what_a_bookie_said_in_an_earlier_pass_is_not_approved_now() -> None:
    made = look(bookie(B1, **HOLDING, is_fresh=False))
    assert not approved(made) and "task-1" not in made.tasks
    assert [predicate for _bookie, predicate, _why in refused(made)] == ["AwaitingApproval"]


def test_nobody_approves_while_the_cluster_is_paused_or_the_store_was_put_back() -> None:
    paused = cluster(paused=True)
    made = look(bookie(B1, of=paused, **HOLDING), of=paused)
    assert not approved(made) and "task-1" not in made.tasks
    assert [predicate for _bookie, predicate, _why in refused(made)] == ["Paused"]
    made = look(HELD, bookie(B0, metadata_rolled_back="older"))
    assert not approved(made)
    assert [predicate for _bookie, predicate, _why in refused(made)] == ["MetadataRolledBack"]


@pytest.mark.parametrize("decisions", [(), (TAKEN,)])
@pytest.mark.parametrize("pending", ["", "plan-2"])
def test_an_answer_of_before_ends_no_task(
    decisions: tuple[PersonDecision, ...], pending: str
) -> None:
    """What a bookie said before the approval was handed on says nothing of it."""
    old = bookie(B1, decisions=decisions, collection_plan_id=pending, is_fresh=False)
    assert "task-1" not in look(old, tasks=(running(),)).tasks
    fresh = bookie(B1, decisions=decisions, collection_plan_id=pending)
    assert end(look(fresh, tasks=(running(),))).phase.is_final
