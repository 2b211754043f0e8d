"""What waits for a person, read out of sentences: held against the code that writes them."""

from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import RepairStatus
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.undecided import UndecidedLedger, UndecidedStatus
from bookie_operator.plan.planner import plan
from bookie_operator.status_tree.pending import (
    held_collections,
    pending_fixes,
    undecided,
)
from kubectl_lab import cluster_of
from operator_scenes import bookie, cluster, fix_request, observed

WAITING = Phase.AWAITING_APPROVAL


def status_of(*bookies: object, **spec: object) -> ClusterStatus:
    return plan(cluster(**spec), observed(*bookies), ClusterStatus()).status  # type: ignore[arg-type]


def test_a_fix_that_the_policy_leaves_to_a_person_is_found() -> None:
    waiting = bookie("bookie-1", phase=WAITING, fix=fix_request("f00d"))
    [fix] = pending_fixes(status_of(waiting, cookieFix={"policy": "Approve"}))
    assert (fix.bookie, fix.plan_id, fix.predicate) == ("bookie-1", "f00d", "AwaitingApproval")
    assert "policy Approve; " in fix.message


def test_a_fix_of_a_stale_disk_names_the_disk() -> None:
    verdicts = {"ledger-1": "stale"}
    waiting = bookie("bookie-1", phase=WAITING, fix=fix_request(), verdicts=verdicts)
    [fix] = pending_fixes(status_of(waiting))
    assert [disk.name for disk in fix.disks] == ["ledger-1"] and fix.predicate == "SuspectDisk"


def test_fixes_of_several_bookies_at_once_are_all_found() -> None:
    both = [bookie(f"bookie-{n}", phase=WAITING, fix=fix_request(f"p{n}")) for n in (0, 2)]
    assert [fix.plan_id for fix in pending_fixes(status_of(*both))] == ["p0", "p2"]


def test_a_fix_that_waits_for_the_budget_is_found() -> None:
    waiting = bookie("bookie-1", phase=WAITING, fix=fix_request("f00d"))
    down = bookie("bookie-2", phase=None, running=False)
    [fix] = pending_fixes(status_of(waiting, down))
    assert (fix.plan_id, fix.predicate) == ("f00d", "LossBudgetExceeded")


def test_a_fix_that_the_operator_approves_by_itself_waits_for_nobody() -> None:
    assert not pending_fixes(status_of(bookie("bookie-1", phase=WAITING, fix=fix_request())))


def test_a_collection_is_found_by_its_plan_and_no_fix_is_taken_for_one() -> None:
    held = bookie("bookie-1", collection_held="x; approve plan f00d (y)", collection_plan_id="f00d")
    waiting = bookie("bookie-2", phase=WAITING, fix=fix_request("beef"))
    status = status_of(held, waiting, cookieFix={"policy": "Approve"})
    assert [(one.bookie, one.plan_id) for one in held_collections(status)] == [("bookie-1", "f00d")]
    assert [one.plan_id for one in pending_fixes(status)] == ["beef"]


def test_a_collection_without_a_plan_is_nothing_to_approve() -> None:
    held = bookie("bookie-1", collection_held="it has seen a newer store")
    assert held_collections(status_of(held)) == []


def test_only_what_waits_for_a_person_is_found() -> None:
    status = cluster_of("limbo").status
    row = UndecidedLedger(ledger=5, entry=10)
    found = [UndecidedStatus(ledgers=1, through=5, first=(row,)), UndecidedStatus(waiting=3)]
    stuck = tuple(
        status.bookies[1].model_copy(
            update={"repair": RepairStatus(episode="x-2", state="Failed", undecided=one)}
        )
        for one in found
    )
    assert undecided(status.model_copy(update={"bookies": stuck})) == found[:1]
