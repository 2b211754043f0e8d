"""Permits to add without a ruling: gone as soon as anything changes that the ruling looked at."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import EntryId, LedgerId
from bookie.storage.ledger_table import Ledgers
from bookie.storage.permits import PERMITS_MAX, AddPermits
from bookie.storage.records import Boundary, LedgerRecord

L7, L8 = LedgerId(7), LedgerId(8)
KEY = b"k" * 20
KNOWN = LedgerRecord(L7, master_key=KEY, noted=True)
CHANGES: dict[str, Callable[[Ledgers], object]] = {
    "merge": lambda ledgers: ledgers.merge(replace(KNOWN, fenced=True)),
    "mark": lambda ledgers: ledgers.mark(L7, 3),
    "cover": lambda ledgers: ledgers.cover(Boundary(3, L7), fences_lost=False),
    "unchecked": lambda ledgers: setattr(ledgers, "unchecked", Boundary(3, L7)),
    "fence": lambda ledgers: setattr(ledgers, "fence", Boundary(3, L7)),
    "bury": lambda ledgers: ledgers.bury(L7),
    "doubt": lambda ledgers: ledgers.doubt(L7, 3),
    "take_back_note": lambda ledgers: ledgers.take_back_note(L7),
}
"""All that changes what the ruling on an add looks at."""
OTHERS = {
    "revived": "asks",
    "finish_unchecked": "of what is refused, which has no permit",
    "note_losses": "no ruling on an add looks at it",
    "note_decisions": "no ruling on an add looks at it",
    "forget_losses": "no ruling on an add looks at it",
    "retract": "no ruling on an add looks at it",
    "take_dirty": "of what no index has",
    "give_back": "of what no index has",
    "is_deleted": "asks", "deleted": "asks", "limbo": "asks", "noted": "asks",
    "is_unchecked": "asks",
}  # fmt: skip


def permitted() -> Ledgers:
    ledgers = Ledgers()
    ledgers.merge(KNOWN)
    for ledger_id in (L7, L8):
        ledgers.permits.grant(ledger_id, KEY, as_of=ledgers.permits.version)
    return ledgers


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_whoever_changes_what_a_ruling_looks_at_drops_the_permit(
    change: Callable[[Ledgers], object],
) -> None:
    ledgers = permitted()
    as_of = ledgers.permits.version
    change(ledgers)
    assert L7 not in ledgers.permits.keys
    ledgers.permits.grant(L7, KEY, as_of=as_of)  # ruled before the change, granted after it
    assert L7 not in ledgers.permits.keys


def test_every_method_of_the_records_is_among_them_or_changes_nothing_of_it() -> None:
    methods = {
        name
        for name, _method in inspect.getmembers(Ledgers, inspect.isfunction)
        if not name.startswith("_")
    }
    assert methods | {"fence", "unchecked"} == CHANGES.keys() | OTHERS.keys()


def test_records_cannot_be_put_past_the_permits() -> None:
    records: Any = Ledgers().records
    with pytest.raises(TypeError):
        records[L7] = KNOWN


def test_another_ledgers_record_leaves_a_permit() -> None:
    ledgers = permitted()
    ledgers.merge(LedgerRecord(L8, explicit_lac=EntryId(3)))
    assert ledgers.permits.keys == {L7: KEY}


def test_what_says_nothing_new_leaves_it_too() -> None:
    ledgers = permitted()
    ledgers.merge(KNOWN)
    assert L7 in ledgers.permits.keys


def test_a_grant_as_of_before_a_change_does_nothing() -> None:
    permits = AddPermits()
    as_of = permits.version
    permits.drop(L8)
    permits.grant(L7, KEY, as_of=as_of)
    assert not permits.keys
    permits.grant(L7, KEY, as_of=permits.version)
    permits.drop_all()
    assert not permits.keys


def test_there_are_never_more_than_so_many() -> None:
    permits = AddPermits()
    for number in range(PERMITS_MAX + 1):
        permits.grant(LedgerId(number), KEY, as_of=0)
    assert list(permits.keys) == [PERMITS_MAX]
