"""Ledger metadata: what it accepts, where an entry lives, and its legal transitions."""

from collections.abc import Mapping
from typing import Any

import pytest
from bookie.errors import BadRequestError
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState, changed_ensemble
from hypothesis import given
from hypothesis import strategies as st


def fragment(first: int, *bookies: str) -> Fragment:
    return Fragment(EntryId(first), tuple(map(BookieId, bookies)))


def ledger(*fragments: Fragment, **changes: Any) -> LedgerMetadata:
    return LedgerMetadata(LedgerId(1), 2, 2, 1, fragments or (fragment(0, "a", "b"),), **changes)


@pytest.mark.parametrize("quorums", [(2, 3, 1), (3, 2, 3), (3, 3, 0), (0, 0, 0), (3, 2, -1)])
def test_quorums_that_make_no_sense_are_refused(quorums: tuple[int, int, int]) -> None:
    with pytest.raises(BadRequestError, match="ensemble >= write >= ack >= 1"):
        LedgerMetadata(LedgerId(1), *quorums, (fragment(0, "a", "b"),))


@pytest.mark.parametrize("starts", [(), (1,), (0, 0), (0, 5, 3), (0, 5, 5)])
def test_fragments_start_at_zero_and_rise(starts: tuple[int, ...]) -> None:
    with pytest.raises(BadRequestError, match="expected 0 and rising"):
        LedgerMetadata(LedgerId(1), 2, 2, 1, tuple(fragment(one, "a", "b") for one in starts))


def test_an_ensemble_of_another_size_is_refused() -> None:
    with pytest.raises(BadRequestError, match="has not 2 bookies"):
        ledger(fragment(0, "a", "b", "c"))
    with pytest.raises(BadRequestError, match="has not 2 bookies"):
        ledger(fragment(0, "a", "b"), fragment(3, "a"))


@given(starts=st.sets(st.integers(1, 50), max_size=5), entry_id=st.integers(0, 60))
def test_an_entry_lives_in_the_last_fragment_that_starts_at_or_below_it(
    starts: set[int], entry_id: int
) -> None:
    value = ledger(*[fragment(start, "a", "b") for start in sorted({0, *starts})])
    expected = max(start for start in {0, *starts} if start <= entry_id)
    assert value.fragment_of(EntryId(entry_id)).first_entry_id == expected


def test_names_every_bookie_of_any_fragment() -> None:
    value = ledger(fragment(0, "a", "b"), fragment(4, "c", "b"))
    assert [name for name in "abcd" if value.names(BookieId(name))] == ["a", "b", "c"]


def test_a_ledger_goes_from_open_through_recovery_to_closed() -> None:
    recovering = ledger().in_recovery()
    closed = recovering.closed(EntryId(4), length=9)
    assert [value.state for value in (ledger(), recovering, closed)] == list(LedgerState)
    assert (closed.last_entry_id, closed.length, closed.is_closed) == (4, 9, True)


def test_recovery_can_start_again_and_an_empty_ledger_can_close() -> None:
    assert ledger().in_recovery().in_recovery().state is LedgerState.IN_RECOVERY
    assert ledger().closed(NO_ENTRY, length=0).last_entry_id == NO_ENTRY


def test_closed_is_terminal() -> None:
    closed = ledger().closed(EntryId(4), length=9)
    with pytest.raises(AssertionError):
        closed.in_recovery()
    with pytest.raises(AssertionError):
        closed.closed(EntryId(3), length=8)


def test_closing_keeps_the_fragments_unless_recovery_brings_its_own() -> None:
    value, found = ledger(), (fragment(0, "a", "b"), fragment(3, "a", "c"))
    assert value.closed(EntryId(4), length=9).fragments == value.fragments
    assert value.closed(EntryId(4), length=9, fragments=found).fragments == found


def test_a_ledger_moves_to_other_fragments_and_stays_what_it_is() -> None:
    closed = ledger().closed(EntryId(4), length=9)
    moved = closed.with_fragments([fragment(0, "a", "c")])
    assert moved.fragments == (fragment(0, "a", "c"),)
    assert moved.with_fragments(closed.fragments) == closed


@pytest.mark.parametrize(
    "start, replacements, expected",
    [
        (7, {0: "c"}, ((0, "a", "b"), (5, "a", "d"), (7, "c", "d"))),
        (5, {1: "c"}, ((0, "a", "b"), (5, "a", "c"))),
        (6, {0: "x", 1: "y"}, ((0, "a", "b"), (5, "a", "d"), (6, "x", "y"))),
    ],
)
def test_a_change_adds_a_fragment_or_replaces_one_that_holds_no_acked_entry(
    start: int, replacements: Mapping[int, str], expected: tuple[tuple[int, str, str], ...]
) -> None:
    changed = changed_ensemble(
        (fragment(0, "a", "b"), fragment(5, "a", "d")),
        first_entry_id=EntryId(start),
        replacements={position: BookieId(name) for position, name in replacements.items()},
    )
    assert changed == tuple(fragment(*one) for one in expected)


def test_a_change_below_the_last_fragment_is_a_defect() -> None:
    with pytest.raises(AssertionError):
        changed_ensemble(
            (fragment(0, "a", "b"), fragment(5, "a", "d")),
            first_entry_id=EntryId(4),
            replacements={0: BookieId("c")},
        )


def test_the_password_does_not_show_in_a_trace() -> None:
    assert "secret" not in repr(ledger(password=b"secret"))
