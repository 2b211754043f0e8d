"""Tasks as people write them: what is accepted, and the sentence for what is not."""

from typing import Any

import pytest
from bookie_operator.errors import ManifestError
from bookie_operator.model.manifest import parse
from bookie_operator.model.task import BookieTask, TaskType

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
        ({"leger": 7}, "spec.leger: unknown field; did you mean ledger?"),
    ],
)
def test_a_decision_is_complete(change: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(**(LOSS | change))


def test_decommission_is_told_what_to_do_instead() -> None:
    told = refusal(type="decommission", bookie="bookie-0")
    assert "spec.type: found 'decommission', which is no task: lower spec.replicas" in told
    assert "repair, audit, scrub, approve-cookie-fix, replace-disk, accept-loss" in told


def test_another_type_is_told_what_there_is() -> None:
    assert "spec.type: found 'dance', expected 'repair'" in refusal(type="dance")
