"""Ledgers that wait for a person: counted once, told in a sentence, selected for one decision."""

import pytest
from bookie_operator.model.undecided import (
    UndecidedLedger,
    UndecidedStatus,
    how_many,
    in_words,
    named,
    selector,
)


def found(*rows: tuple[int, int], more: int = 0, through: int | None = None) -> UndecidedStatus:
    first = tuple(UndecidedLedger(ledger=ledger, entry=entry) for ledger, entry in rows)
    last = through if through is not None else rows[-1][0]
    return UndecidedStatus(ledgers=len(rows) + more, through=last, first=first)


def test_a_ledger_that_two_repairs_found_is_one() -> None:
    both = [found((4, 10), (7, 0)), None, found((4, 10))]
    assert [row.ledger for row in named(both)] == [4, 7]
    assert how_many(both) == 2
    assert str(selector(both)) == "4@10,7@0"


def test_where_not_all_are_named_the_range_that_has_them_all_is_selected() -> None:
    both = [found((4, 10), more=30, through=90), found((2, 1), (99, 0))]
    assert how_many(both) == 31
    assert str(selector(both)) == "2-99"


def test_a_range_goes_on_to_the_last_that_is_not_named() -> None:
    assert str(selector([found((4, 10), more=1, through=90)])) == "4-90"


@pytest.mark.parametrize("nothing", [[], [None], [UndecidedStatus(waiting=3)]])
def test_what_only_waits_for_bookies_is_nobodys_decision(nothing: list[UndecidedStatus]) -> None:
    assert selector(nothing) is None and named(nothing) == []


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            UndecidedLedger(ledger=4, entry=10, last_confirmed=9, forgotten_by=("b-0", "b-1")),
            "ledger 4 from entry 10 on (to 9 acknowledged; forgotten by b-0, b-1)",
        ),
        (UndecidedLedger(ledger=4, entry=0), "ledger 4 from entry 0 on"),
    ],
)
def test_what_is_known_of_one_is_a_sentence(row: UndecidedLedger, text: str) -> None:
    assert row.text == text


def test_a_selector_that_no_program_would_take_becomes_a_range() -> None:
    ids = range(2**62, 2**62 + 480, 4)
    both = [found(*((i, 2**62) for i in ids[n : n + 20])) for n in range(0, 120, 20)]
    assert str(selector(both)) == f"{ids[0]}-{ids[-1]}"


def test_ledgers_whose_rows_were_cut_off_are_selected_all_the_same() -> None:
    cut = [UndecidedStatus(ledgers=3, through=90)]
    assert str(selector(cut)) == "0-90"
    assert in_words(cut) == "3 ledgers wait for a person"


def test_of_two_entries_of_one_ledger_the_lower_one_is_asked_about() -> None:
    assert str(selector([found((4, 2)), found((4, 9))])) == "4@2"
    assert str(selector([found((4, 9)), found((4, 2))])) == "4@2"


def test_entry_0_was_acknowledged_is_said() -> None:
    row = UndecidedLedger(ledger=4, entry=1, last_confirmed=0)
    assert row.text == "ledger 4 from entry 1 on (to 0 acknowledged)"
