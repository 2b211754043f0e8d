"""A5: while the metadata store looks rolled back nothing is taken away; people are told why."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask
from bookie_operator.observed import Bookie, Job, JobKind, MetadataView
from bookie_operator.plan.actions import (
    ApproveCollection,
    Destructive,
    PauseCollection,
    StartJob,
    StopJob,
)
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import HEALTHY, at, bookie, cluster, fix_request, observed, task

B0, B1, B3 = BookieId("bookie-0"), BookieId("bookie-1"), BookieId("bookie-3")
WHY = "its boot 7 is not known there"
SEER = bookie(B0, metadata_rolled_back=WHY)
GONE = replace(bookie(B0), process=None, health=None)


def look(
    *special: Bookie,
    of: BookieCluster | None = None,
    tasks: Sequence[BookieTask] = (),
    jobs: Sequence[Job] = (),
) -> Plan:
    seen = observed(*special, of=of, tasks=tasks, jobs=jobs, seconds=100)
    return plan(of or cluster(), seen, ClusterStatus())


def verdict(made: Plan, kind: ConditionType) -> tuple[str, str]:
    found = made.status.condition(kind)
    assert found is not None
    return found.status, found.message


def test_a5_one_bookies_word_that_the_store_went_back_is_enough() -> None:
    told = verdict(look(SEER), ConditionType.METADATA_ROLLED_BACK)
    assert told == ("True", f"bookie-0: {WHY}")
    assert "MetadataRolledBack" in [event.reason for event in look(SEER).events]
    calm = look()
    assert verdict(calm, ConditionType.METADATA_ROLLED_BACK) == ("False", "")
    silent = look(*(bookie(f"bookie-{n}", phase=Phase.BOOTING) for n in range(4)))
    assert verdict(silent, ConditionType.METADATA_ROLLED_BACK)[0] == "Unknown"


@pytest.mark.parametrize("one", [bookie(B0), bookie(B0, phase=Phase.BOOTING), GONE])
def test_a5_its_record_in_the_store_says_so_while_it_is_silent(one: Bookie) -> None:
    """Until a person has decided, or a newer state is back: both change the record."""
    recorded = replace(HEALTHY, rolled_back={B0: WHY})
    seen = observed(
        one, metadata=recorded, tasks=[task("replace-disk", bookie=B1, disk="ledger-0")]
    )
    made = plan(cluster(), seen, ClusterStatus())
    told = verdict(made, ConditionType.METADATA_ROLLED_BACK)
    assert told == ("True", f"bookie-0: {WHY}")
    assert not any(isinstance(action, Destructive) for action in made.actions)


@pytest.mark.parametrize(("one", "never"), [(bookie(B0), "False"), (GONE, "Unknown")])
def test_a5_a_store_that_does_not_answer_takes_nothing_back(one: Bookie, never: str) -> None:
    dark = observed(one, metadata=MetadataView(url=HEALTHY.url, message="no answer"), seconds=200)
    told = verdict(plan(cluster(), dark, look(SEER).status), ConditionType.METADATA_ROLLED_BACK)
    assert told == ("True", f"bookie-0: {WHY}")
    told = verdict(plan(cluster(), dark, ClusterStatus()), ConditionType.METADATA_ROLLED_BACK)
    assert told[0] == never, "nothing was seen before"


@pytest.mark.parametrize(
    ("special", "reason"),
    [(SEER, "MetadataRolledBack"), (bookie(B1, collection_held="90 of 100"), "CollectionHeld")],
)
def test_a5_what_waits_for_a_person_is_seen_in_the_one_word_of_kubectl_get(
    special: Bookie, reason: str
) -> None:
    made = look(special)
    degraded = made.status.condition(ConditionType.DEGRADED)
    assert degraded is not None and degraded.reason == reason
    assert made.status.phase == "Degraded"
    assert [event.reason for event in made.events].count(reason) == 1


def test_a5_collection_that_waits_for_a_person_is_told_with_its_numbers() -> None:
    why = "90 of 100 ledgers here are gone from the metadata store"
    made = look(bookie(B1, collection_held=why))
    assert verdict(made, ConditionType.COLLECTION_HELD) == ("True", f"bookie-1: {why}")
    assert verdict(look(), ConditionType.COLLECTION_HELD)[0] == "False"
    silent = look(bookie(B1, phase=None))
    assert verdict(silent, ConditionType.COLLECTION_HELD)[0] == "Unknown"


@pytest.mark.parametrize(
    ("special", "tasks", "of"),
    [
        ((), [task("replace-disk", bookie="bookie-1", disk="ledger-0")], cluster()),
        (
            (bookie(B1, phase=Phase.AWAITING_APPROVAL, fix=fix_request()),),
            [task("approve-cookie-fix", bookie="bookie-1", planId="plan-1")],
            cluster(cookieFix={"policy": "Approve"}),
        ),
        ((bookie(B1, phase=Phase.AWAITING_APPROVAL, fix=fix_request()),), [], cluster()),
        (
            (bookie(B3, phase=Phase.DRAINING, draining=True, ledgers_naming_it=0),),
            [],
            cluster(replicas=3),
        ),
        ((bookie(B3),), [], cluster(replicas=3)),
        ((), [task("accept-loss", ledger=7, entry=5, reason="r", approvedBy="ann")], cluster()),
        (
            (bookie(B1, collection_held="90 of 100", collection_plan_id="plan-1"),),
            [task("approve-collection", bookie=B1, planId="plan-1", approvedBy="ann")],
            cluster(),
        ),
        ((bookie(B1, epoch=2, reason="UncleanShutdown", limbo=3),), [], cluster()),
        ((), [], cluster(flushIntervalSeconds=77)),
    ],
    ids=[
        "disk",
        "persons-fix",
        "fix",
        "removal",
        "drain",
        "loss",
        "collection",
        "repair",
        "restart",
    ],
)
def test_a5_nothing_is_taken_away_while_the_store_looks_rolled_back(
    special: tuple[Bookie, ...], tasks: list[BookieTask], of: BookieCluster
) -> None:
    # The fleet runs with the settings of before, so that a change of settings wants a restart.
    fleet = [SEER, *special]
    if of.spec.flush_interval_seconds == 77:
        fleet.append(bookie(B1, of=cluster()))
    made = look(*fleet, of=of, tasks=tasks)
    jobs = [a for a in made.actions if isinstance(a, StartJob) and a.kind is not JobKind.AUDIT]
    taking = Destructive | ApproveCollection
    assert not jobs and not any(isinstance(action, taking) for action in made.actions)
    refused = [refusal for refusal in made.refusals if refusal.predicate == "MetadataRolledBack"]
    assert refused and WHY in refused[0].message
    assert made.status.disruptions_allowed == 0


def test_a5_a_drains_job_stops_when_the_store_looks_rolled_back() -> None:
    running = Job("demo-drain-bookie-3-1", JobKind.DRAIN, 1, True, at(50), bookie=B3)
    leaving = bookie(B3, phase=Phase.DRAINING, draining=True, ledgers_naming_it=4)
    made = look(SEER, leaving, of=cluster(replicas=3), jobs=[running])
    assert StopJob(running.name, "MetadataRolledBack") in made.actions


@pytest.mark.parametrize("paused", [False, True])
def test_a5_bookies_are_told_that_the_cluster_is_paused_and_that_it_is_not(paused: bool) -> None:
    of = cluster(paused=paused)
    for said, wanted in ((not paused, [PauseCollection(paused)]), (paused, []), (None, [])):
        seen = observed(of=of, metadata=replace(HEALTHY, is_paused=said))
        actions = plan(of, seen, ClusterStatus()).actions
        assert [a for a in actions if isinstance(a, PauseCollection)] == wanted


def test_a5_a_store_of_another_cluster_is_told_nothing() -> None:
    of = cluster(paused=True)
    before = plan(of, observed(of=of), ClusterStatus()).status
    other = replace(HEALTHY, instance_id="another", is_paused=False)
    assert not plan(of, observed(of=of, metadata=other), before).actions


def test_a5_a_ledger_that_is_back_is_repaired_though_the_bookie_never_crashed() -> None:
    made = look(bookie(B1, limbo=1))
    jobs = [a for a in made.actions if isinstance(a, StartJob)]
    assert [(job.kind, job.bookie_id) for job in jobs] == [(JobKind.REPAIR, B1)]
