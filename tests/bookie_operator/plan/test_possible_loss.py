"""Whether entries may be gone: how many the sentence counts, and when it is taken back."""

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.audit_status import AuditStatus, Holders, LastCopies
from bookie_operator.model.condition_types import Condition, ConditionType
from bookie_operator.model.incidents import Incident, IncidentOutcome
from bookie_operator.model.reports import AuditReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.findings import Verdict
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.planner import plan
from bookie_operator.plan.possible_loss import possible_data_loss
from operator_scenes import at, audited, bookie, cluster, observed

B0 = BookieId("bookie-0")


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


@pytest.mark.parametrize("phase", [None, *Phase])
def test_records_of_losses_are_kept_until_a_boot_has_read_them(phase: Phase | None) -> None:
    """Before that a bookie says 0, and one whose boot is refused goes on to."""
    before = plan(cluster(), observed(bookie(B0, losses_recorded=2)), ClusterStatus()).status
    now = bookie(B0, phase=phase, losses_recorded=1 if phase and phase.is_booted else 0)
    found = plan(cluster(), observed(now, seconds=30), before).status
    one, loss = found.bookie(B0), found.condition(ConditionType.POSSIBLE_DATA_LOSS)
    assert one is not None and one.losses_recorded == (1 if phase and phase.is_booted else 2)
    assert loss is not None and (loss.status, loss.reason) == ("True", "LossRecorded")


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


MAYBE = LastCopies(groups=1, held_by=(Holders(perhaps=("bookie-1",)),))
"""Two copies are missing, and of the third nobody knows."""


@pytest.mark.parametrize(
    "blind",
    [
        AuditStatus(clean=False, unknown=1),
        AuditStatus(clean=False, underreplicated_skipped=1),
        AuditStatus(clean=False, missing=1, last_copies=MAYBE),
    ],
)
def test_an_audit_that_could_not_look_at_missing_entries_does_not_end_their_loss(
    blind: AuditStatus,
) -> None:
    said = Condition(
        type="PossibleDataLoss", status="True", reason="AuditMissing", message="1 entry",
        last_transition_time=at(10),
    )  # fmt: skip
    sees = AuditStatus(clean=False, missing=1, last_copies=LastCopies())
    loss = judged(ClusterStatus(conditions=(said,), audit=blind))
    assert (loss.status, loss.message) == ("True", "1 entry")
    assert judged(ClusterStatus(conditions=(said,), audit=sees)).status == "False"


def test_an_overlap_is_over_by_no_audit_that_left_a_ledger_out() -> None:
    report = AuditReport(ok=9, underreplicated_skipped=1, exit_code=4)
    said = Condition(
        type="PossibleDataLoss", status="True", reason="OverlappingUnclean", message="both",
        last_transition_time=at(10),
    )  # fmt: skip
    status = ClusterStatus(conditions=(said,))
    for second in (100, 110):
        look = observed(seconds=second, jobs=(audited(report, began=50),))
        status = plan(cluster(), look, status).status
    loss = status.condition(ConditionType.POSSIBLE_DATA_LOSS)
    verified = status.condition(ConditionType.DURABILITY_VERIFIED)
    assert loss is not None and (loss.status, status.disruptions_allowed) == ("True", 0)
    assert verified is not None and (verified.status, verified.reason) == ("False", "AuditFindings")


@pytest.mark.parametrize("limbo", [0, 1])
@pytest.mark.parametrize("unchecked", [0, 1])
def test_who_forgot_at_once_counts_whatever_marks_tell_of_it(limbo: int, unchecked: int) -> None:
    facts = {"kind": "UncleanShutdown", "detected_at": at(10)}
    one = Incident(bookie="bookie-0", ledgers_in_limbo=1, **facts)
    other = Incident(
        bookie="bookie-1", ledgers_in_limbo=limbo, ledgers_unchecked=unchecked, **facts
    )
    loss = judged(ClusterStatus(), one, other)
    assert loss.status == ("True" if limbo or unchecked else "False")
