"""The bugs that users of a fleet must turn red fit the product, and what counts as red."""

import pytest
from mutant import Mutant
from mutant_overlay import check_fit
from pulsar_claims import Claim, Outcome
from pulsar_planted import Plant, chosen, is_caught
from pulsar_plants import FORGETS, MUTANTS

PLANT = Plant(FORGETS, ("topics",), "every acknowledged message is read")
GREEN = Claim("plain: every acknowledged message is read", True)
RED = Claim("plain: every acknowledged message is read", False, "k1 lost: 1")
OTHER = Claim("faults goes to its end", False, "the broker ended")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_that_a_planted_bug_replaces_is_found(mutant: Mutant) -> None:
    check_fit(mutant)


def test_a_planted_bug_is_caught_by_the_claim_that_it_breaks() -> None:
    assert is_caught(PLANT, Outcome((RED,)))


@pytest.mark.parametrize("outcome", [Outcome((GREEN,)), Outcome((GREEN, OTHER)), Outcome()])
def test_no_other_failure_counts_as_catching_it(outcome: Outcome) -> None:
    assert not is_caught(PLANT, outcome)


@pytest.mark.parametrize("outcome", [Outcome((RED,)), Outcome(), Outcome((GREEN,), error="why")])
def test_the_run_without_a_bug_is_whole_or_proves_nothing(outcome: Outcome) -> None:
    control = Plant(None, ("topics",))
    assert is_caught(control, Outcome((GREEN,))) and not is_caught(control, outcome)


def test_named_stories_choose_the_bugs_that_they_see() -> None:
    control, other = Plant(None, ("topics", "faults")), Plant(FORGETS, ("faults",))
    plants = [control, PLANT, other]
    assert chosen(plants, ()) == plants
    assert chosen(plants, ("topics",)) == [Plant(None, ("topics",)), PLANT]
