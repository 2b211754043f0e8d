"""Rows in memory, before and after a checkpoint that failed hands its rows to the next one."""

import random

import pytest
from bookie.ids import EntryId, LedgerId
from bookie.storage.index_rows import RunRow
from bookie.storage.memtable import Memtable

L = LedgerId(7)


def filled(rng: random.Random, *, reach: int) -> Memtable:
    """Some rows, in any order, overlapping or not, with spans up to that."""
    table = Memtable()
    for number in range(rng.randrange(8)):
        first, span = rng.randrange(60), rng.randrange(reach)
        row = RunRow(first, first + span, span + 1, 0, 0, 1, number, 1, 0)
        table.put(L, row, EntryId(rng.randrange(60)))
    return table


@pytest.mark.parametrize("seed", range(100))
def test_what_touches_a_range_is_found_whichever_table_it_was_in(seed: int) -> None:
    rng = random.Random(seed)
    older, newer = filled(rng, reach=rng.choice((1, 40))), filled(rng, reach=rng.choice((1, 40)))
    rows = sorted(older.rows(L) + newer.rows(L))
    older.absorb(newer)
    assert older.rows(L) == rows and older.count == len(rows)
    for first in range(0, 100, 7):
        last = first + rng.randrange(10)
        touching = [row for row in rows if row.first <= last and row.last >= first]
        assert older.overlapping(L, first=first, last=last) == touching


@pytest.mark.parametrize(
    "lacs", [((5,), (7,)), ((7,), (5,)), ((), (3,)), ((3,), ()), ((1, 9), (4,))]
)
def test_what_is_known_of_a_ledger_is_the_highest_of_both_tables(
    lacs: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    older, newer = Memtable(), Memtable()
    for table, known in zip((older, newer), lacs, strict=True):
        for lac in known:
            table.put(L, RunRow(lac + 1, lac + 1, 1, 0, 0, 1, lac, 1, 0), EntryId(lac))
    older.absorb(newer)
    highest = max(lac for known in lacs for lac in known)
    assert (older.ledgers[L].lac, older.ledgers[L].last) == (highest, highest + 1)
