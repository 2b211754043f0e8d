"""What a person is told to do about the metadata store and what it lost."""

from bookie_operator.kubectl.hints import Hint, hints
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, Phase
from bookie_operator.plan import plan
from operator_scenes import bookie, cluster, observed


def hints_for(*special: Bookie) -> list[Hint]:
    of = cluster()
    status = plan(of, observed(*special), ClusterStatus()).status
    return hints(of.model_copy(update={"status": status}))


def test_a5_a_store_that_went_back_is_to_be_mended_before_anything_else_happens() -> None:
    told = hints_for(bookie("bookie-0", metadata_rolled_back="older"))[0]
    assert "looks rolled back" in told.text and told.command == ("bookie", "pause", "demo")


def test_a5_a_held_collection_names_the_bookie_and_the_command_of_its_approval() -> None:
    told = hints_for(bookie("bookie-2", collection_held="90 of 100 ledgers"))[0]
    assert "deleted on purpose" in told.text
    assert " ".join(told.command) == (
        "exec -it demo-bookie-2-0 -c bookie -- "
        "bookie collect approve bookie-2 --metadata zk://here:2181/ledgers"
    )


def test_d4_what_to_do_about_a_bookie_that_takes_no_entries() -> None:
    [told] = hints_for(bookie("bookie-1", phase=Phase.READ_ONLY, message="too little space: x"))[:1]
    assert "too little space: x" in told.text and "larger volumes" in told.text
    assert " ".join(told.command) == "exec demo-bookie-1-0 -c bookie -- df -h"
