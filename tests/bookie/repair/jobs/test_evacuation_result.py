"""What became of a drain or a re-replication, from its parts."""

import pytest
from bookie.exit_codes import Exit
from bookie.ids import BookieId, LedgerId
from bookie.repair.jobs.evacuation import Refusal
from bookie.repair.jobs.evacuation_result import evacuation_result
from bookie.repair.look.audit import Audit
from bookie.repair.mend.outcome import Outcome

REFUSAL = Refusal("LimboPresent", "3 ledgers are in limbo", BookieId("bookie-1"))


@pytest.mark.parametrize("left", [set(), {LedgerId(7)}])
@pytest.mark.parametrize("refusal", [None, REFUSAL])
def test_the_exit_code_says_what_was_refused_and_then_what_is_left(
    left: set[LedgerId], refusal: Refusal | None
) -> None:
    found = evacuation_result([], refusal=refusal, after=Audit(), left=left, silent=())
    code = Exit.UNDECIDED if left else Exit.OK
    assert found["exit_code"] == (Exit.REFUSED if refusal is not None else code)
    assert found["ledgers_left"] == len(left)


@pytest.mark.parametrize("refusal", [None, REFUSAL])
@pytest.mark.parametrize("left", [set(), {7}, {8}, {7, 8}, {9}, {7, 8, 9}])
def test_only_what_nobody_looked_at_came_late(left: set[int], refusal: Refusal | None) -> None:
    """Ledger 7 was blocked, and has its reason; 8 was moved, and is left as it was seen before."""
    blocked, moved = Outcome(LedgerId(7)), Outcome(LedgerId(8), moved=True)
    blocked.block("NotFlushed", "a disk failed")
    found = evacuation_result(
        [blocked, moved], refusal=refusal, after=Audit(), left=set(map(LedgerId, left)), silent=()
    )
    reasons = [(row.get("ledger_id"), row["reason"]) for row in found["blocked"]]
    late = [(9, "CameLate")] if 9 in left and refusal is None else []
    refused = [(None, "LimboPresent")] if refusal is not None else []
    assert reasons == [*refused, (7, "NotFlushed"), *late]
