"""What the work on a ledger did: the first obstacle counts, and a retry adds nothing twice."""

import pytest
from bookie.ids import BookieId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.repair.mend.copy import Copied
from bookie.repair.mend.outcome import Outcome


def test_the_first_thing_in_the_way_counts() -> None:
    outcome = Outcome(LedgerId(1))
    outcome.block("NotFlushed", "first")
    outcome.block("CopyIncomplete", "second")
    assert (outcome.reason, outcome.message) == ("NotFlushed", "first")


def test_who_got_entries_must_sync_and_what_is_left_is_in_the_way() -> None:
    outcome, copied = Outcome(LedgerId(1)), EntrySet.from_ranges([(0, 4)])
    outcome.add_copied(BookieId("b"), Copied(copied, 50))
    outcome.add_copied(BookieId("a"), Copied(left=copied, why="nobody holds them"))
    assert (outcome.entries_copied, outcome.bytes_copied, outcome.touched) == (5, 50, ("b",))
    assert outcome.message == "5 entries could not be copied to a: nobody holds them"


def test_an_outcome_becomes_what_came_of_the_same_ledger_elsewhere() -> None:
    outcome, found = Outcome(LedgerId(1)), Outcome(LedgerId(1), "CLOSED", moved=True)
    outcome.take(found)
    assert outcome == found and outcome is not found


def test_an_outcome_is_never_taken_from_another_ledger() -> None:
    with pytest.raises(AssertionError):
        Outcome(LedgerId(1)).take(Outcome(LedgerId(2)))
