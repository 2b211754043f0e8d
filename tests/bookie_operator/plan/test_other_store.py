"""Another metadata store than before answers: its word counts for nothing that takes away."""

from dataclasses import replace
from typing import Any

import pytest
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.drain_status import DrainPhase
from bookie_operator.model.reports import RereplicationReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Job, JobKind, MetadataView
from bookie_operator.plan.actions import RemoveBookie, StartJob
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import HEALTHY, at, audited, bookie, cluster, observed, task

OWN = replace(HEALTHY, url="zk://here:2181/ledgers")
OTHER = replace(OWN, instance_id="of others")
EMPTY = replace(OWN, instance_id=None)
GONE = replace(OWN, reachable=False, message="nobody answers")
LESS = cluster(excludedOrdinals=[1])
LEAVES = bookie("bookie-1", running=False)
PLAIN = cluster(tls={"mode": "Off"})
DONE = RereplicationReport(ledgers_moved=7)
HOUR = 3600


def look(seconds: float, before: ClusterStatus, *jobs: Job, **seen: Any) -> Plan:
    """Of a cluster that gives up one that is away."""
    facts = observed(LEAVES, of=LESS, seconds=seconds, jobs=(audited(), *jobs), **seen)
    return plan(LESS, facts, before)


def about_to_leave() -> tuple[ClusterStatus, tuple[Job, ...]]:
    """All that it held has other members, and one more look removes it."""
    before = plan(cluster(), observed(jobs=[audited()], seconds=2), ClusterStatus()).status
    before = look(10, before).status
    moved = Job(
        "demo-rereplicate-1", JobKind.REREPLICATE, 1, running=False, bookie=LEAVES.id,
        started_at=at(HOUR + 10), ended_at=at(HOUR + 20), report=DONE,
    )  # fmt: skip
    jobs = (moved, audited(attempt=2, began=HOUR + 30))
    made = look(HOUR + 40, before, *jobs)
    assert made.status.drain is not None and made.status.drain.phase is DrainPhase.EMPTIED
    return made.status, jobs


@pytest.mark.parametrize(
    ("store", "reason"),
    [(OTHER, "LineageMismatch"), (EMPTY, "LineageMismatch"), (GONE, "MetadataUnreachable")],
)
def test_nobody_is_removed_by_the_word_of_another_store(store: MetadataView, reason: str) -> None:
    before, jobs = about_to_leave()
    made = look(HOUR + 50, before, *jobs, metadata=store)
    assert not [one for one in made.actions if isinstance(one, RemoveBookie)]
    assert ("ScaleDown", reason) in {(one.action, one.predicate) for one in made.refusals}
    right = look(HOUR + 50, before, *jobs)
    assert [one for one in right.actions if isinstance(one, RemoveBookie)]


DECISIONS: dict[str, dict[str, Any]] = {
    "accept-loss": {"ledger": 7, "reason": "gone", "approvedBy": "ann"},
    "retract-loss": {"ledger": 7, "reason": "found", "approvedBy": "ann"},
}
TASKS = DECISIONS | {
    "audit": {}, "repair": {}, "scrub": {}, "rereplicate": {"bookie": "10.0.0.7:3181"},
}  # fmt: skip


@pytest.mark.parametrize("kind", TASKS)
def test_no_task_begins_on_the_ledgers_of_another_store(kind: str) -> None:
    asked = [task(kind, **TASKS[kind])]
    known = plan(
        PLAIN, observed(of=PLAIN, metadata=OWN, seconds=2), ClusterStatus()
    ).status.metadata
    before = ClusterStatus(metadata=known)
    seen = observed(of=PLAIN, jobs=[audited()], seconds=30, tasks=asked, metadata=OWN)
    for store in (OTHER, EMPTY):
        made = plan(PLAIN, replace(seen, metadata=store), before)
        assert not [one for one in made.actions if isinstance(one, StartJob)]
    right = plan(PLAIN, seen, before)
    assert [one for one in right.actions if isinstance(one, StartJob)]


def test_a_cluster_that_has_another_store_is_not_available_and_nothing_is_evicted() -> None:
    before = plan(cluster(), observed(jobs=[audited()], seconds=2), ClusterStatus()).status
    made = plan(cluster(), observed(jobs=[audited()], seconds=9, metadata=OTHER), before).status
    found = made.condition(ConditionType.AVAILABLE)
    assert found is not None and (found.status, found.reason) == ("False", "LineageMismatch")
    assert "of others, the cluster's was instance-1" in found.message
    assert made.disruptions_allowed == 0


def test_durability_is_not_known_while_another_store_answers() -> None:
    before = plan(cluster(), observed(jobs=[audited()], seconds=2), ClusterStatus()).status
    verified = [
        plan(cluster(), observed(jobs=[audited()], seconds=9, metadata=store), before)
        .status.condition(ConditionType.DURABILITY_VERIFIED)
        for store in (HEALTHY, OTHER)
    ]  # fmt: skip
    assert [(one.status, one.reason) for one in verified if one is not None] == [
        ("True", "AuditClean"), ("Unknown", "LineageMismatch"),
    ]  # fmt: skip
