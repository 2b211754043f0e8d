"""Records in memory: what is listed as limbo is what the records say, however they came."""

from dataclasses import replace

from bookie.ids import LedgerId
from bookie.storage.ledger_table import Ledgers
from bookie.storage.records import LedgerRecord

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


def test_a_ledger_that_is_doubted_again_is_fenced_as_no_boundary_need_cover_it() -> None:
    ledgers = Ledgers()
    ledgers.merge(LedgerRecord(L7, checked_epoch=3))
    doubted = ledgers.doubt(L7, 3)
    assert doubted.limbo and doubted.fenced and not LedgerRecord(L7).marked(3).fenced
