"""The gentler rule for open ledgers: what it is for, that small models hold, what it hangs on."""

import pytest
from model_gentle import CONDITIONS, GENTLE, LIVES_ON, QUICK
from model_ledger import LedgerModel
from model_mutants import Case, Mutant
from model_published import replay
from model_rules import Bounds, Rules
from model_runs import check_case, plant, replay_gentle

BOUNDS = Bounds(entries=2, spares=1, writer_changes=1)
SMALL_NAMES = [f"gentle, {name}" for name in ("one spare", "deleted (S40)", "S24", "S46")]
SMALL = [case for case in QUICK if case.name in SMALL_NAMES]


def test_a_writer_lives_on_and_the_bookie_leaves_limbo_without_a_close() -> None:
    end = replay(LedgerModel(BOUNDS, GENTLE), LIVES_ON)
    assert not end.stopped_at and not end.violation


def test_today_the_same_writer_is_fenced() -> None:
    end = replay(LedgerModel(BOUNDS, Rules()), LIVES_ON)
    assert "cannot_write B0" in end.stopped_at
    assert replay_gentle().is_right


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_it_holds_in_small_models(case: Case) -> None:
    assert check_case(case).is_right


@pytest.mark.parametrize("condition", CONDITIONS[:1] + CONDITIONS[2:5], ids=lambda m: m.name)
def test_it_hangs_on_each_of_its_conditions(condition: Mutant) -> None:
    assert plant(condition).is_right
