"""What the result of a repair counts, from every mix of what bookies answered."""

from itertools import product

import pytest
from bookie.ids import BookieId, LedgerId
from bookie.protocol.clearing import ClearReason
from bookie.protocol.status import Status
from bookie.repair.jobs.repair_result import repair_result, undecided_json
from bookie.repair.look.audit import Audit
from bookie.repair.look.bookie_control import Marks
from bookie.repair.mend.outcome import Outcome
from bookie.wire.admin.limbo_marks import Cleared, Mark

BOOKIES = tuple(BookieId(f"bookie-{n}") for n in range(3))
ONE, OTHER = LedgerId(1), LedgerId(2)
ANSWERS = {
    "cleared": Cleared(ONE, True, ""),
    "never marked": Cleared(ONE, False, ClearReason.NOT_MARKED.value),
    "kept": Cleared(ONE, False, "EntriesMissing", "entry 3"),
}


@pytest.mark.parametrize("answers", list(product(ANSWERS, repeat=len(BOOKIES))))
def test_a_ledger_is_cleared_once_no_bookie_keeps_a_mark_of_it(answers: tuple[str, ...]) -> None:
    """Whoever answers last; another ledger that is cleared everywhere counts for itself."""
    asked = [(bookie_id, ANSWERS[word]) for bookie_id, word in zip(BOOKIES, answers, strict=True)]
    other = [(bookie_id, Cleared(OTHER, True, "")) for bookie_id in BOOKIES]
    marks = [Marks(one, Status.OK, (Mark(ONE, True), Mark(OTHER, False))) for one in BOOKIES]
    cleared = [*asked, *other]
    found = repair_result([], marks=marks, after=Audit(), losses=[], cleared=cleared, unflushed={})
    kept = answers.count("kept")
    assert found["ledgers"]["cleared"] == (1 if kept else 2)
    assert (found["ledgers"]["blocked"], len(found["blocked"])) == (min(kept, 1), kept)
    assert [row["marks_cleared"] for row in found["bookies"]] == [
        1 if word == "kept" else 2 for word in answers
    ]


def test_a_ledger_of_which_every_entry_may_be_lost_waits_for_a_person() -> None:
    first = Outcome(ONE, reason="Undecidable", possible_loss_from=0)
    told = undecided_json([first, Outcome(OTHER)])
    assert (told["ledgers"], told["through"], told["first"][0]["entry"]) == (1, ONE, 0)
