"""The verdict on one ledger, rule by rule; `test_oracle` holds it against plain sets."""

from dataclasses import replace

import pytest
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.assignment import entries_max
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.status import Status
from bookie.repair.judge.expect import (
    Holding,
    Verdict,
    at_least,
    judge,
    known_lac,
    must_exist_through,
    no_answer,
)

BOOKIES = tuple(BookieId(f"b{number}") for number in range(9))
LEDGER = LedgerId(7)


def ledger_of_three(*, last: int = 9, state: LedgerState = LedgerState.CLOSED) -> LedgerMetadata:
    return LedgerMetadata(
        ledger_id=LEDGER,
        ensemble_size=3,
        write_quorum=3,
        ack_quorum=2,
        fragments=(Fragment(EntryId(0), BOOKIES[:3]),),
        state=state,
        last_entry_id=EntryId(last),
    )


def judged(metadata: LedgerMetadata, *holdings: Holding) -> Verdict:
    by_bookie = {holding.bookie_id: holding for holding in holdings}
    through = must_exist_through(metadata, lac=known_lac(holdings))
    return judge(metadata, by_bookie, through=through)


def held(number: int, *ranges: tuple[int, int], limbo: bool = False, lac: int = -1) -> Holding:
    found = EntrySet.from_ranges(ranges)
    return Holding(BOOKIES[number], LEDGER, Status.OK, found, limbo=limbo, lac=EntryId(lac))


def test_s42_absence_in_limbo_is_unknown_never_missing() -> None:
    verdict = judged(ledger_of_three(), held(0, (0, 9)), held(1, (0, 9)), held(2, limbo=True))
    assert not verdict.missing and len(verdict.unknown) == 10
    assert len(verdict.shares[BOOKIES[2]].lacking) == 10


def test_an_unreachable_bookie_lacks_nothing_and_denies_nothing() -> None:
    silent = no_answer(BOOKIES[2], LEDGER, Status.UNREACHABLE)
    verdict = judged(ledger_of_three(), held(0, (0, 9)), held(1, (0, 9)), silent)
    assert not verdict.missing and len(verdict.unknown) == 10
    assert not verdict.shares[BOOKIES[2]].lacking


def test_a_lac_that_no_ledger_can_have_reached_says_nothing() -> None:
    """A client may have written it, into an entry of its own."""
    metadata = ledger_of_three(state=LedgerState.OPEN)
    assert must_exist_through(metadata, lac=EntryId(2**62)) == -1
    most = entries_max(metadata)
    assert must_exist_through(metadata, lac=EntryId(most)) == -1
    assert must_exist_through(metadata, lac=EntryId(most - 1)) == most - 1


def test_entries_too_many_elsewhere_do_not_hide_a_hole() -> None:
    verdict = judged(ledger_of_three(), held(0, (0, 99)), held(1, (0, 99)), held(2, (0, 4), (6, 9)))
    assert verdict.missing == EntrySet.from_ranges([(5, 5)])


def test_s35_an_entry_within_the_end_that_nobody_has_is_gone() -> None:
    verdict = judged(
        ledger_of_three(), held(0, (0, 8)), held(1, (0, 8), limbo=True), held(2, (0, 8))
    )
    assert verdict.gone == EntrySet.from_ranges([(9, 9)])
    assert not verdict.no_copy, "a bookie in limbo denies nothing"


@pytest.mark.parametrize("limbo", [False, True])
def test_what_only_a_bookie_holds_that_does_not_owe_it_is_not_gone(limbo: bool) -> None:
    """A former member may have the last copies: a loss record would end them."""
    nobody = [held(number, limbo=limbo) for number in range(3)]
    verdict = judged(ledger_of_three(), *nobody, held(3, (4, 5)))
    assert verdict.gone == verdict.unrecorded == EntrySet.from_ranges([(0, 3), (6, 9)])
    assert verdict.no_copy == (EMPTY if limbo else verdict.gone)


def test_an_open_ledger_owes_what_its_known_lac_covers() -> None:
    metadata = ledger_of_three(last=-1, state=LedgerState.OPEN)
    verdict = judged(metadata, held(0, (0, 9), lac=5), held(1, (0, 5)), held(2, (0, 3)))
    assert verdict.entries == 6
    assert verdict.missing == EntrySet.from_ranges([(4, 5)])


def test_an_open_ledger_without_a_known_lac_owes_nothing() -> None:
    metadata = ledger_of_three(last=-1, state=LedgerState.OPEN)
    assert judged(metadata, held(0), held(1), held(2)).entries == 0


def test_an_empty_last_fragment_owes_nothing() -> None:
    verdict = judged(ledger_of_three(last=-1), held(0), held(1), held(2))
    assert verdict.is_ok and verdict.entries == 0


def test_a_recorded_loss_is_lost_until_a_copy_turns_up() -> None:
    lost = Holding(BOOKIES[0], LEDGER, Status.OK, lost=EntrySet.from_ranges([(0, 0)]))
    empty = ledger_of_three(last=0)
    assert len(judged(empty, lost, held(1), held(2)).lost) == 1
    found = judged(empty, lost, held(1, (0, 0)), held(2))
    assert not found.lost and len(found.missing) == 1


def test_a_loss_that_one_bookie_has_not_recorded_is_not_recorded_yet() -> None:
    entry = EntrySet.from_ranges([(0, 0)])
    first, second, third = (Holding(b, LEDGER, Status.OK, lost=entry) for b in BOOKIES[:3])
    ledger = ledger_of_three(last=0)
    assert not judged(ledger, first, second, third).unrecorded
    unmarked = replace(second, lost=EMPTY, status=Status.UNKNOWN, unchecked=True)
    assert judged(ledger, first, unmarked, third).unrecorded == entry
    assert not judged(ledger, first, held(1, (0, 0)), third).unrecorded, "it is there after all"


def test_at_least_counts_sets() -> None:
    sets = [EntrySet.from_ranges([r]) for r in ((0, 9), (5, 14), (9, 9))]
    assert at_least(2, sets).ranges() == [(5, 9)]
    assert at_least(3, sets).ranges() == [(9, 9)]
    assert at_least(4, sets).is_empty
