"""Tasks as people write them: what is accepted, and the sentence for what is not."""

from typing import Any

import pytest
from bookie_operator.errors import ManifestError
from bookie_operator.model.manifest import parse
from bookie_operator.model.task import BookieTask, TaskPhase, TaskStatus, TaskType
from operator_scenes import at

LOSS = {"type": "accept-loss", "ledger": 7, "reason": "power cut", "approvedBy": "ann"}


def tree(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "task-1"}, "spec": {"cluster": "demo"} | spec}


def refusal(**spec: Any) -> str:
    with pytest.raises(ManifestError) as caught:
        parse(BookieTask, tree(**spec), source="task.yaml")
    return str(caught.value)


def test_a_loss_is_accepted_for_the_cluster_not_for_a_bookie() -> None:
    spec = parse(BookieTask, tree(**LOSS), source="task.yaml").spec
    assert (spec.type, spec.ledger, spec.entry) == (TaskType.ACCEPT_LOSS, 7, None)
    assert (spec.reason, spec.approved_by, spec.bookie) == ("power cut", "ann", "")


def test_ledger_and_entry_zero_are_values() -> None:
    spec = parse(BookieTask, tree(**(LOSS | {"ledger": 0, "entry": 0})), source="x").spec
    assert (spec.ledger, spec.entry) == (0, 0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"ledger": None}, "ledger: found nothing, expected the id of the ledger"),
        ({"reason": " "}, "reason: found nothing, expected why"),
        ({"approvedBy": ""}, "approvedBy: found nothing, expected the person"),
        ({"ledger": -1}, "spec.ledger: found -1"),
        ({"entry": 2**63}, "spec.entry: found 9223372036854775808, expected at most"),
        ({"leger": 7}, "spec.leger: unknown field; did you mean ledger"),
        ({"ledgers": "8"}, "ledgers: found 8 beside ledger or entry"),
        ({"ledger": None, "ledgers": "8", "entry": 1}, "ledgers: found 8 beside ledger or entry"),
        ({"ledger": None, "ledgers": "9-8"}, "expected ledgers such as 4, 9-12 or 40@7"),
        ({"type": "retract-loss", "dryRun": True}, "dryRun: found it without ledgers"),
        ({"dryRun": True}, "dryRun: found it without ledgers, expected ledgers, not ledger"),
        ({"type": "audit", "ledger": None, "ledgers": "8"}, "ledgers and dryRun: found one"),
    ],
)
def test_a_decision_is_complete(change: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(**(LOSS | change))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"ledger": None}, "ledger: found nothing, expected the id of the ledger"),
        ({"reason": ""}, "reason: found nothing, expected why the record is wrong"),
        ({"approvedBy": ""}, "approvedBy: found nothing, expected the person"),
        ({"entry": 5}, "entry: found 5, expected nothing: all that is recorded"),
    ],
)
def test_a_retraction_is_of_a_whole_ledger_and_complete(
    change: dict[str, Any], sentence: str
) -> None:
    assert parse(BookieTask, tree(**(LOSS | {"type": "retract-loss"})), source="x").spec.ledger == 7
    assert sentence in refusal(**(LOSS | {"type": "retract-loss"} | change))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"bookie": ""}, "bookie: found nothing, expected the bookie to approve-collection"),
        ({"planId": ""}, "planId: found nothing, expected the id of the plan"),
        ({"approvedBy": " "}, "approvedBy: found nothing, expected the person"),
    ],
)
def test_an_approval_of_a_collection_says_what_and_who(
    change: dict[str, str], sentence: str
) -> None:
    words = {"bookie": "bookie-1", "planId": "f00d", "approvedBy": "ann"} | change
    assert sentence in refusal(type="approve-collection", **words)


@pytest.mark.parametrize("bookie", ["", "bookie-7", "10.0.0.7:3181", "Zk_host.a:3181"])
def test_a_re_replication_may_name_any_bookie_or_none(bookie: str) -> None:
    spec = parse(BookieTask, tree(type="rereplicate", bookie=bookie), source="task.yaml").spec
    assert (spec.type, spec.bookie) == (TaskType.REREPLICATE, bookie)


def test_what_no_bookie_can_be_called_is_refused() -> None:
    assert "spec.bookie: found 'a b'" in refusal(type="rereplicate", bookie="a b")


def test_decommission_is_told_what_to_do_instead() -> None:
    told = refusal(type="decommission", bookie="bookie-0")
    assert "spec.type: found 'decommission', which is no task: lower spec.replicas" in told
    assert "repair, audit, scrub, rereplicate, approve-cookie-fix, approve-collection" in told


def test_another_type_is_told_what_there_is() -> None:
    assert "spec.type: found 'dance', expected 'repair'" in refusal(type="dance")


def test_a_task_that_runs_has_begun_once_whatever_it_acts_on_next() -> None:
    begun = TaskStatus().begun("uid-1", at=at(1))
    assert (begun.phase, begun.started_at, begun.target) == (TaskPhase.RUNNING, at(1), "uid-1")
    assert begun.begun("uid-1", at=at(9)) is begun
    again = begun.begun("uid-2", at=at(9))
    assert (again.phase, again.started_at, again.target) == (TaskPhase.RUNNING, at(1), "uid-2")
