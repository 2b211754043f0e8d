"""The text with which a person names ledgers: what it means, and what is refused."""

import re

import pytest
from bookie.errors import BadRequestError
from bookie.ids import LEDGER_ID_MAX
from bookie.ledger_selector import PATTERN, TEXT_MAX, LedgerSelector, parse_selector


@pytest.mark.parametrize("text", ["4", "4@0", "9-12", "4,9-12,40@7", f"0,{LEDGER_ID_MAX}"])
def test_what_is_parsed_is_written_the_same_way(text: str) -> None:
    assert str(parse_selector(text)) == text
    assert re.fullmatch(PATTERN, text)


def test_parts_come_in_rising_order() -> None:
    assert str(parse_selector("40@7,4,12-13")) == "4,12-13,40@7"


@pytest.mark.parametrize("text", ["", "4,", "a", "4-3", "4@", "-1", "9-12@3", "4 ,5", "4@5@6"])
def test_what_is_no_selector_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadRequestError, match="expected ledgers such as 4, 9-12 or 40@7"):
        parse_selector(text)


@pytest.mark.parametrize("number", [f"{LEDGER_ID_MAX + 1}", f"4@{LEDGER_ID_MAX}"])
def test_an_id_that_no_ledger_has_is_refused(number: str) -> None:
    with pytest.raises(BadRequestError, match="expected ledgers such as"):
        parse_selector(number)


@pytest.mark.parametrize("text", ["4,4", "4,3-5", "1-4,4-9", "4@1,4@2"])
def test_a_ledger_that_is_named_twice_is_refused(text: str) -> None:
    with pytest.raises(BadRequestError, match="twice"):
        parse_selector(text)


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(BadRequestError, match="expected at most 4096"):
        parse_selector("1," * TEXT_MAX + "1")


def test_what_the_status_proposes_names_each_ledger_with_its_entry() -> None:
    assert str(LedgerSelector.of([(9, 0), (4, 10)])) == "4@10,9@0"


@pytest.mark.parametrize(("text", "single"), [("4", True), ("4@1", True), ("4-5", False)])
def test_a_range_is_several_ledgers(text: str, single: bool) -> None:
    assert (parse_selector(text).single is not None) is single
