"""What a person can do about a metadata store that lost something, and about who leaves."""

import pytest
from bookie.wire.admin.health import Phase
from bookie_operator.kubectl.hints import Hint, hints
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.drain_status import DrainPhase, DrainStatus
from bookie_operator.model.status import NOT_REREPLICATED, Blocked, ClusterStatus
from bookie_operator.observed import Bookie
from bookie_operator.plan.planner import plan
from operator_scenes import at, bookie, cluster, observed


def commands(of: BookieCluster, status: ClusterStatus) -> list[str]:
    told = hints(of.model_copy(update={"status": status}), now=at(0))
    return [" ".join(one.command) for one in told]


def held(of: BookieCluster, name: str, predicate: str = "LimboPresent") -> list[str]:
    """Commands while this bookie is to leave and cannot."""
    drain = DrainStatus(bookie=name, phase=DrainPhase.HELD, started_at=at(0))
    blocked = Blocked(bookie=name, action="ScaleDown", predicate=predicate, since=at(0))
    status = plan(of, observed(of=of), ClusterStatus()).status
    return commands(of, status.model_copy(update={"drain": drain, "blocked": (blocked,)}))


def test_one_that_is_to_leave_can_be_kept_by_what_asked_for_it() -> None:
    assert "scale bookiecluster demo --replicas 5" in held(cluster(), "bookie-4")
    gaps = cluster(replicas=3, excludedOrdinals=[0, 1])
    assert "scale bookiecluster demo --replicas 4" in held(gaps, "bookie-5")
    patch = """patch bookiecluster demo --type merge -p {"spec": {"excludedOrdinals": [0]}}"""
    assert patch in held(gaps, "bookie-1")
    more = """-p {"spec": {"excludedOrdinals": [0], "replicas": 9}}"""
    assert held(cluster(excludedOrdinals=[0, 9]), "bookie-9")[-1].endswith(more)


def test_one_that_is_away_and_to_leave_can_be_given_up_sooner() -> None:
    again = "bookie rereplicate bookie-1 --cluster demo"
    excluding = cluster(excludedOrdinals=[1])
    assert again in held(excluding, "bookie-1", NOT_REREPLICATED)
    assert again not in held(excluding, "bookie-1")


def test_one_whose_copies_others_hold_can_be_done_without() -> None:
    of = cluster(excludedOrdinals=[7])
    status = plan(of, observed(of=of), ClusterStatus()).status
    gone = status.bookies[1].model_copy(update={"rereplicated_at": at(0)})
    status = status.model_copy(update={"bookies": (status.bookies[0], gone)})
    assert commands(of, status)[-1].endswith("""-p {"spec": {"excludedOrdinals": [1, 7]}}""")


def hints_for(*special: Bookie) -> list[Hint]:
    of = cluster()
    status = plan(of, observed(*special), ClusterStatus()).status
    return hints(of.model_copy(update={"status": status}), now=at(0))


def test_a5_a_store_that_went_back_is_to_be_mended_before_anything_else_happens() -> None:
    told = hints_for(bookie("bookie-0", metadata_rolled_back="older"))[0]
    assert "looks rolled back" in told.text and told.command == (
        "bookie",
        "pause",
        "--cluster",
        "demo",
    )


def test_a5_a_held_collection_names_the_bookie_and_the_command_of_its_approval() -> None:
    why = "90 of 100 ledgers; approve plan f00d if they were deleted on purpose"
    held = {"collection_held": why, "collection_plan_id": "f00d"}
    told = [
        " ".join(hint.command)
        for hint in hints_for(bookie("bookie-2", **held), bookie("bookie-3", **held))
        if "deleted on purpose" in hint.text
    ]
    words = "bookie approve-collection {} --cluster demo --plan f00d"
    assert told == [words.format("bookie-2"), words.format("bookie-3")]


def test_d4_what_to_do_about_a_bookie_that_takes_no_entries() -> None:
    [told] = hints_for(bookie("bookie-1", phase=Phase.READ_ONLY, message="too little space: x"))[:1]
    assert "too little space: x" in told.text and "larger volumes" in told.text
    assert " ".join(told.command) == "exec demo-bookie-1-0 -c bookie -- df -h"


def refusing(message: str, **verdicts: str) -> str:
    """The command for a bookie that refuses to boot with these words."""
    disks = {name.replace("_", "-"): verdict for name, verdict in verdicts.items()}
    one = bookie("bookie-1", phase=Phase.REFUSED, message=message, verdicts=disks)
    return " ".join(hints_for(one)[0].command)


@pytest.mark.parametrize(
    ("message", "command"),
    [
        (
            "/data/ledger-1/index.sqlite is missing: run `bookie index rebuild` for /data/ledger-1",
            "bookie index-rebuild bookie-1 ledger-1 --cluster demo",
        ),
        (
            "a fact of the index is unreadable: x; run `bookie index rebuild`",
            "bookie index-rebuild bookie-1 --cluster demo",
        ),
        (
            "/data/ledger-0: log file 3 is missing; treat the directory as lost",
            "bookie replace-disk bookie-1 ledger-0 --cluster demo",
        ),
        (
            "the metadata store has no cookie of bookie-1",
            "exec demo-bookie-1-0 -c bookie -- bookie cookie show",
        ),
        ("bookie bookie-1 is registered and alive at x:1", "delete pod demo-bookie-1-0"),
        ("something new", "logs demo-bookie-1-0 -c bookie"),
    ],
)
def test_d5_a_refused_boot_has_the_command_that_mends_it(message: str, command: str) -> None:
    assert refusing(message) == command


def test_d5_a_disk_of_others_is_bound_again_by_its_claim() -> None:
    assert refusing("is another bookie's volume", ledger_0="foreign").startswith("get pvc -l")


def test_d5_a_stamp_that_cannot_be_read_is_of_the_disk_that_has_it() -> None:
    assert "replace-disk bookie-1 ledger-1" in refusing("STAMP is no stamp", ledger_1="torn")
