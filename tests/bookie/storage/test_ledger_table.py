"""Records in memory: what is listed as limbo is what the records say, however they came."""

from dataclasses import replace
from itertools import permutations

from bookie.ids import LedgerId
from bookie.storage.ledger_table import Ledgers
from bookie.storage.records import Boundary, LedgerRecord

L7, L8 = LedgerId(7), LedgerId(8)


def test_a_mark_is_listed_until_it_is_cleared() -> None:
    ledgers = Ledgers()
    marked = ledgers.mark(L7, 3)
    assert not marked.fenced and ledgers.limbo() == [L7]
    ledgers.merge(replace(marked, limbo=False))
    assert ledgers.limbo() == []


def test_an_older_state_takes_no_ledger_off_the_list() -> None:
    ledgers = Ledgers()
    ledgers.merge(LedgerRecord(L7).marked(3))
    ledgers.merge(LedgerRecord(L7, fenced=True, mark_epoch=2))
    assert ledgers.limbo() == [L7]


def test_a_deleted_ledger_is_in_limbo_no_more() -> None:
    ledgers = Ledgers()
    ledgers.mark(L8, 1)
    ledgers.mark(L7, 1)
    ledgers.bury(L8)
    assert ledgers.limbo() == [L7]


def test_a_later_boundary_covers_what_an_earlier_one_covered() -> None:
    ledgers = Ledgers()
    for boundary in (Boundary(1, L7, frozenset({LedgerId(99)})), Boundary(2, L8)):
        ledgers.cover(boundary, fences_lost=True)
    for both in (ledgers.fence, ledgers.unchecked):
        assert both is not None and both.covers(LedgerId(99)) and both.covers(L8)


def test_the_epochs_of_marks_that_are_gone_are_known() -> None:
    for steps in permutations(
        [
            lambda ledgers, epoch: ledgers.merge(LedgerRecord(L7, checked_epoch=epoch)),
            lambda ledgers, epoch: ledgers.merge(LedgerRecord(L8, mark_epoch=epoch)),
            lambda ledgers, epoch: ledgers.cover(Boundary(epoch, L8), fences_lost=False),
            lambda ledgers, epoch: ledgers.cover(Boundary(epoch, L8), fences_lost=True),
        ]
    ):
        ledgers = Ledgers()
        assert ledgers.marked_epoch == 0
        for epoch, step in enumerate(steps, start=1):
            step(ledgers, epoch)
            assert ledgers.marked_epoch == epoch


def test_no_mark_is_a_fence() -> None:
    ledgers = Ledgers()
    ledgers.merge(LedgerRecord(L7, checked_epoch=3))
    doubted = ledgers.doubt(L7, 3)
    assert doubted.limbo and not doubted.fenced and not LedgerRecord(L7).marked(3).fenced
    assert not ledgers.bury(L7).fenced
