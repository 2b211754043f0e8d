"""The gentler rule for open ledgers: what it is for, that small models hold, what it hangs on."""

from dataclasses import replace

import pytest
from model_gentle import CONDITIONS, ENDS_WRITERS, GENTLE, LIVES_ON, PAIR, WHOLE_BOUNDARY, quick
from model_ledger import LedgerModel
from model_mutants import Case, begin, each
from model_published import replay
from model_rules import Bounds, Rules
from model_runs import check_case, plant, replay_gentle
from model_state import Bookie, Fence, Mark
from model_story import Move

BOUNDS = Bounds(entries=2, spares=1, writer_changes=1)
SMALL = quick(
    "one spare",
    "deleted (S40)",
    "S24",
    "S46",
    "striped, two entries, recoverer replaces",
    "explicit LACs",
    "a drain moves what came before",
)
SEEN = (
    "clears-while-named",
    "clears-without-copies",
    "writer-keeps-replaced-acks",
    "change-ignores-version",
    "denied-by-who-does-not-store-it",
    "fence-covers-one-write-set",
    "moved-without-copies",
    "moved-before-synced",
    "tells-more-than-acknowledged",
)


def moved(rules: Rules, *moves: Move, at: int = 0) -> Bookie:
    """What these moves make of one bookie."""
    start = begin(replace(PAIR, delete=True), rules, moves)
    assert start is not None
    return start[1][at]


def test_a_writer_lives_on_and_the_bookie_leaves_limbo_without_a_close() -> None:
    end = replay(LedgerModel(BOUNDS, GENTLE), LIVES_ON)
    assert not end.stopped_at and not end.violation


def test_by_the_rules_of_before_the_same_writer_is_fenced() -> None:
    end = replay(LedgerModel(BOUNDS, ENDS_WRITERS), LIVES_ON)
    assert "cannot_write B0" in end.stopped_at
    assert replay_gentle().is_right


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_it_holds_in_small_models(case: Case) -> None:
    assert check_case(case).is_right


@pytest.mark.parametrize("name", SEEN)
def test_it_hangs_on_each_of_its_conditions(name: str) -> None:
    condition = next(mutant for mutant in CONDITIONS if mutant.name == name)
    assert plant(condition).is_right


@pytest.mark.parametrize(
    "rules, fence",
    [(WHOLE_BOUNDARY, Fence.BOUNDARY), (GENTLE, Fence.NONE)],
    ids=["both", "limbo"],
)
def test_who_is_in_limbo_and_not_fenced_says_not_writable(rules: Rules, fence: Fence) -> None:
    after = moved(rules, ("adds", -1, 0), ("stops", 0, -1), ("cannot_write", 0, 0))
    assert after.fence is fence and after.mark is Mark.LIMBO


@pytest.mark.parametrize("rules", [WHOLE_BOUNDARY, GENTLE], ids=["both", "limbo"])
def test_whom_a_recoverer_fenced_says_so_after_the_crash_too(rules: Rules) -> None:
    fenced = (("adds", -1, 0), ("starts", -1, -1), ("fences", 0, -1), ("stops", 0, -1))
    assert moved(rules, *fenced, ("refuses", 0, 0)).fence is Fence.FENCED


def test_a_tombstone_says_fenced_whatever_a_boot_left() -> None:
    acked = (("adds", -1, 0), *each("stores", 0, 1), *each("hears_ok", 0, 1), ("stops", 0, -1))
    repaired = (("closes_own", -1, 0), ("copied", 0, 0), ("clears", 0, -1))
    assert moved(WHOLE_BOUNDARY, *acked, *repaired).fence is Fence.BOUNDARY
    gone = (("deletes", -1, -1), ("collects", 0, -1))
    assert moved(WHOLE_BOUNDARY, *acked, *repaired, *gone).fence is Fence.FENCED
