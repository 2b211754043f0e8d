"""Striping: the write sets are the product's, small models hold, and who is asked matters."""

from dataclasses import replace
from itertools import chain, combinations

import pytest
from bookie.ids import EntryId
from bookie.protocol.quorum import fence_covers, write_set_positions
from model_ledger import LedgerModel
from model_mutants import Case, each
from model_rules import Bounds, Rules
from model_runs import check_case, described
from model_search import Search
from model_write_sets import WriteSets

STRIPED = Bounds(write_quorum=2, ensemble=3)
SIZES = [STRIPED, Bounds(ensemble=4), Bounds(write_quorum=2, ensemble=5), Bounds()]
BOTH_FORGET = (
    ("adds", -1, 0),
    *each("stores", 0, 1, entry=0),
    *each("hears_ok", 0, 1, entry=0),
    ("adds", -1, 1),
    *each("stores", 1, 2, entry=1),
    *each("stops", 0, 1),
)
"""e0 was acknowledged and is nowhere now; that it was is proven by e1, which is on B2 alone."""


@pytest.mark.parametrize("bounds", SIZES, ids=described)
def test_write_sets_are_those_of_the_product(bounds: Bounds) -> None:
    sets, size, quorum = WriteSets(bounds), bounds.ensemble_size, bounds.write_quorum
    for entry in range(2 * size):
        has = {at for at in range(size) if sets.has(sets.places[at], entry)}
        assert has == set(
            write_set_positions(EntryId(entry), ensemble_size=size, write_quorum=quorum)
        )


@pytest.mark.parametrize("bounds", SIZES, ids=described)
def test_a_fence_covers_when_the_products_does(bounds: Bounds) -> None:
    sets, size = WriteSets(bounds), bounds.ensemble_size
    shape = {"ensemble_size": size, "write_quorum": bounds.write_quorum}
    for known in chain.from_iterable(combinations(range(size), n) for n in range(size + 1)):
        covers = sets.cover([sets.places[at] for at in known], bounds.coverage)
        assert covers == fence_covers(known, **shape, ack_quorum=bounds.ack_quorum)


def test_nothing_is_violated_with_striping() -> None:
    assert Search(LedgerModel(STRIPED, Rules())).run().is_right


def test_the_short_way_of_the_search_leads_where_the_moves_lead() -> None:
    model = LedgerModel(replace(STRIPED, crashes=0, spares=1, writer_changes=1), Rules())
    search = Search(model)
    search.run()
    for state in search.states[::29]:
        told = {model.canonical(after) for _step, after in model.moves(state, every=True)}
        assert set(model.successors(state)) == told


@pytest.mark.parametrize("asks, waits", [(True, False), (False, True)])
def test_who_asks_the_others_leaves_fewer_ledgers_to_a_person(asks: bool, waits: bool) -> None:
    bounds = replace(STRIPED, entries=2, crashes=2)
    case = Case("both forget", bounds, Rules(asks_others=asks), BOTH_FORGET)
    outcome = check_case(case)
    assert outcome.is_right and bool(outcome.row["waiting_beyond_budget"]) is waits
