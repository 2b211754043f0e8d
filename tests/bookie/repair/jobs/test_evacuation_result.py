"""What became of a drain or a re-replication, from its parts."""

import pytest
from bookie.exit_codes import Exit
from bookie.ids import BookieId, LedgerId
from bookie.repair.jobs.evacuation import Refusal
from bookie.repair.jobs.evacuation_result import evacuation_result
from bookie.repair.look.audit import Audit

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
