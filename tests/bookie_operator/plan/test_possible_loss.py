"""Whether entries may be gone: how many the sentence counts, and when it is taken back."""

import pytest
from bookie_operator.model.audit_status import AuditStatus
from bookie_operator.model.condition_types import Condition
from bookie_operator.model.incidents import Incident, IncidentOutcome
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.findings import Verdict
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.possible_loss import possible_data_loss
from operator_scenes import at, cluster, observed


def judged(before: ClusterStatus, *incidents: Incident) -> Verdict:
    return possible_data_loss(
        Pass.of(cluster(), observed(seconds=99), before), incidents=incidents, certain=2
    )


@pytest.mark.parametrize("no_copy", [0, 1])
@pytest.mark.parametrize("lost", [0, 2])
def test_entries_without_a_copy_are_counted_recorded_or_not(no_copy: int, lost: int) -> None:
    loss = judged(ClusterStatus(audit=AuditStatus(no_copy=no_copy, lost=lost)))
    assert loss.status == ("True" if no_copy + lost else "False")
    assert not loss.message or f"found {no_copy + lost} entries" in loss.message


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("clean", [True, False, None])
@pytest.mark.parametrize("began", [5, 12, 15, 16])
def test_an_overlap_is_over_once_all_is_cleared_and_a_younger_audit_is_clean(
    is_open: bool, clean: bool | None, began: int
) -> None:
    """One bookie of the two is seen here; it was detected at 10 and, if at all, cleared at 15."""
    one = Incident(
        kind="UncleanShutdown", bookie="bookie-0", ledgers_in_limbo=3, detected_at=at(10)
    )
    if not is_open:
        ended = {"outcome": IncidentOutcome.CLEARED, "cleared_at": at(15)}
        one = one.model_copy(update=ended)
    said = Condition(
        type="PossibleDataLoss", status="True", reason="OverlappingUnclean", message="both",
        last_transition_time=at(10),
    )  # fmt: skip
    audit = AuditStatus(clean=clean, started_at=at(began), finished_at=at(began + 1))
    loss = judged(ClusterStatus(conditions=(said,), audit=audit), one)
    is_over = clean is True and not is_open and began > 15
    assert loss.status == ("False" if is_over else "True")
    assert is_over or (loss.reason, loss.message) == ("OverlappingUnclean", "both")
