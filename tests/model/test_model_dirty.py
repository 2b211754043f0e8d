"""Dirty notes: small models hold, each lie of a note is seen, an idle ledger is never in doubt."""

import pytest
from model_dirty import E0_STORED, IDLE, LIES, QUICK, TWO_CRASHES, noted
from model_mutants import Case, Mutant
from model_rules import Rules
from model_runs import check_case, plant

SMALL = [case for case in QUICK if case.name in ("notes, one crash", "notes, deleted (S40)")]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_it_holds_in_small_models(case: Case) -> None:
    assert check_case(case).is_right


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name)
def test_each_way_in_which_a_note_can_lie_is_seen(lie: Mutant) -> None:
    assert plant(lie).is_right


def test_after_a_crash_of_all_members_an_idle_ledger_can_be_decided() -> None:
    outcome = check_case(noted("idle", TWO_CRASHES, Rules(), start=IDLE))
    assert outcome.is_right and outcome.row["waiting_beyond_budget"] == 0


def test_one_that_was_just_written_still_waits_for_a_person() -> None:
    outcome = check_case(noted("busy", TWO_CRASHES, Rules(), start=E0_STORED))
    assert outcome.is_right and outcome.row["waiting_beyond_budget"] > 0
