"""Which recoveries hold an unchecked mark: too few lose copies, too many wait for each other."""

from dataclasses import replace

import pytest
from model_ledger import TOO_FEW_COPIES, LedgerModel
from model_mutants import CHOOSES_UNCLEAN, CHOSEN_AFTER_ITS_BOOT, begin
from model_rules import Bounds, HeldBy, Rules
from model_search import Found, Search
from model_state import Run
from model_story import follow, tell

RESTARTED = replace(CHOOSES_UNCLEAN, restarts=1)
CHOSEN_BY_RECOVERER = Bounds(write_quorum=2, spares=1, recovery_changes=1)


def model_of(bounds: Bounds, held_by: HeldBy) -> LedgerModel:
    rules = Rules(unchecked_held_by=held_by)
    return LedgerModel(bounds, rules, begin(bounds, rules, CHOSEN_AFTER_ITS_BOOT))


def explored(bounds: Bounds, held_by: HeldBy) -> Found:
    return Search(model_of(bounds, held_by)).run()


def test_a_recovery_that_began_after_the_boot_is_told_what_is_not_there() -> None:
    assert explored(CHOOSES_UNCLEAN, Rules().unchecked_held_by).is_right


def test_a_mark_that_waits_for_every_recovery_waits_for_one_that_waits_for_it() -> None:
    found = explored(CHOOSES_UNCLEAN, HeldBy.EVERY)
    assert found.is_complete and not found.violation and found.stuck == found.states


@pytest.mark.parametrize("held_by", [HeldBy.LAST_BOOT, HeldBy.UNCLEAN_BOOT])
def test_a_replacement_that_forgot_a_write_back_is_not_vouched_for(held_by: HeldBy) -> None:
    bounds = replace(CHOSEN_BY_RECOVERER, slow_boot=True, slow_clear=True)
    assert Search(LedgerModel(bounds, Rules(unchecked_held_by=held_by))).run().is_right


def test_it_would_be_if_no_recovery_held_the_boundary() -> None:
    rules = Rules(unchecked_held_by=HeldBy.NONE)
    assert Search(LedgerModel(CHOSEN_BY_RECOVERER, rules)).run().violation == TOO_FEW_COPIES


def test_a_clean_boot_that_looked_again_would_hold_a_recovery_that_waits_for_it() -> None:
    found = explored(RESTARTED, HeldBy.LAST_BOOT)
    story = tell(model_of(RESTARTED, HeldBy.LAST_BOOT), found.path)
    assert found.stuck and story == ["1. B2 stops cleanly and boots"]


def test_what_the_unclean_boot_saw_holds_it_no_longer_than_needed() -> None:
    assert explored(RESTARTED, Rules().unchecked_held_by).is_right


def test_a_slow_boot_serves_nobody_between_its_look_and_its_end() -> None:
    model = LedgerModel(Bounds(slow_boot=True), Rules())
    here = model.initial()
    for verb, run in (("stops", Run.DOWN), ("looks", Run.MARKED), ("boots", Run.UP)):
        after = follow(model, here, (verb, 0, -1))
        assert after is not None
        bookie = model.look(after)[1][0]
        assert bookie.run is run and bookie.serves is (run is Run.UP)
        here = after
