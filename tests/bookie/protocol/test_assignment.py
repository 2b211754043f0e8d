"""Assigned entries against the write set of every single entry."""

from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.assignment import assigned, entries_max, lacking, refuse_length
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.quorum import write_set
from hypothesis import given, settings
from hypothesis import strategies as st

BOOKIES = tuple(BookieId(f"b{number}") for number in range(8))


@st.composite
def ledgers(draw: st.DrawFn) -> LedgerMetadata:
    write_quorum = draw(st.integers(1, 5))
    size = draw(st.integers(write_quorum, 7))
    starts = [0, *sorted(draw(st.sets(st.integers(1, 40), max_size=3)))]
    fragments = tuple(
        Fragment(EntryId(start), tuple(draw(st.permutations(BOOKIES))[:size])) for start in starts
    )
    closed_at = draw(st.none() | st.integers(starts[-1] - 1, 60))
    return LedgerMetadata(
        ledger_id=LedgerId(1),
        ensemble_size=size,
        write_quorum=write_quorum,
        ack_quorum=1,
        fragments=fragments,
        state=LedgerState.OPEN if closed_at is None else LedgerState.CLOSED,
        last_entry_id=EntryId(-1 if closed_at is None else closed_at),
    )


@given(ledgers(), st.integers(-1, 60))
@settings(deadline=None, max_examples=300)
def test_assigned_entries_are_those_whose_write_set_names_the_bookie(
    metadata: LedgerMetadata, through: int
) -> None:
    end = min(through, metadata.last_entry_id) if metadata.is_closed else through
    for bookie_id in BOOKIES:
        expected = {
            entry
            for entry in map(EntryId, range(end + 1))
            if bookie_id
            in write_set(
                entry,
                ensemble=metadata.fragment_of(entry).ensemble,
                write_quorum=metadata.write_quorum,
            )
        }
        found = assigned(metadata, bookie_id, through=EntryId(through))
        assert {e for a, b in found.ranges() for e in range(a, b + 1)} == expected


@given(ledgers(), st.integers(-1, 60), st.sets(st.integers(0, 70)))
@settings(deadline=None, max_examples=300)
def test_what_a_bookie_lacks_is_what_it_should_hold_and_does_not(
    metadata: LedgerMetadata, through: int, have: set[int]
) -> None:
    held = EntrySet.from_ids(have)
    for bookie_id in BOOKIES:
        end = EntryId(min(through, metadata.last_entry_id) if metadata.is_closed else through)
        expected = assigned(metadata, bookie_id, through=end) - held
        count, first = lacking(metadata, bookie_id, held, through=end)
        assert count == len(expected) and first <= expected
        assert not expected or first.first == expected.first


def test_a_ledger_has_a_last_entry_that_can_be_judged() -> None:
    striped = LedgerMetadata(LedgerId(1), 3, 2, 2, (Fragment(EntryId(0), BOOKIES[:3]),))
    most = entries_max(striped)
    assert refuse_length(striped.closed(EntryId(most - 1), length=0)) == ""
    assert f"names entry {most}" in refuse_length(striped.closed(EntryId(most), length=0))
