"""Small models under the product's rules: everything holds, and the bounds change what they say."""

import pytest
from model_ledger import LedgerModel
from model_rules import Bounds, Rules
from model_runs import described
from model_search import Found, Search


def explored(bounds: Bounds, rules: Rules | None = None) -> Found:
    return Search(LedgerModel(bounds, rules or Rules())).run()


@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(crashes=0),
        Bounds(write_quorum=2, crashes=2),
        Bounds(write_quorum=2, crashes=1, spares=1, recovery_changes=1),
        Bounds(write_quorum=2, crashes=1, spares=1, writer_changes=1),
        Bounds(write_quorum=2, crashes=1, disk_loss=True, partial_loss=True),
        Bounds(write_quorum=2, crashes=1, slow_boot=True),
        Bounds(write_quorum=2, crashes=1, delete=True),
        Bounds(write_quorum=2, crashes=0, entries=2),
        Bounds(write_quorum=2, crashes=0, recoverers=2),
    ],
    ids=described,
)
def test_nothing_is_violated_and_a_close_stays_within_reach(bounds: Bounds) -> None:
    assert explored(bounds).is_right


def test_beyond_the_budget_some_ledgers_can_only_be_reported() -> None:
    found = explored(Bounds(write_quorum=2, crashes=2))
    assert found.waiting and not found.stuck and not found.unreported


def test_a_person_who_accepts_the_loss_ends_the_waiting() -> None:
    found = explored(Bounds(write_quorum=2, crashes=2, accept_loss=True))
    assert found.is_right and not found.waiting


def test_a_search_that_was_cut_short_is_not_called_right() -> None:
    found = Search(LedgerModel(Bounds(), Rules()), states_max=100).run()
    assert not found.is_complete and not found.is_right


def test_the_same_model_has_the_same_states_every_time() -> None:
    first, second = (explored(Bounds(write_quorum=2)) for _ in range(2))
    assert (first.states, first.edges, first.depth) == (second.states, second.edges, second.depth)


@pytest.mark.parametrize("spares", [0, 1])
def test_the_short_way_of_the_search_leads_where_the_moves_lead(spares: int) -> None:
    bounds = Bounds(write_quorum=2, spares=spares, writer_changes=spares, recovery_changes=spares)
    model = LedgerModel(bounds, Rules())
    search = Search(model)
    search.run()
    for state in search.states[::7]:
        told = {model.canonical(after) for _step, after in model.moves(state, every=True)}
        assert set(model.successors(state)) == told
