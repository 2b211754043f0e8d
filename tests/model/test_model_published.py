"""BP-46's two scenarios, in the published order and as the search finds them."""

from dataclasses import replace

import pytest
from model_ledger import TRUNCATED, LedgerModel
from model_published import SCENARIO_1, SCENARIO_2, Stage, replay
from model_rules import BootFence, Bounds, Rules
from model_search import Search
from model_story import summary, tell, walk

IN_MEMORY = Rules(boot_fence=BootFence.NONE, fence_durable=False, marks_refuse=False)
NOT_CLOSED = replace(IN_MEMORY, boot_fence=BootFence.NOT_CLOSED)
NO_LIMBO = Rules(limbo=False)


@pytest.mark.parametrize("rules", [IN_MEMORY, NOT_CLOSED])
def test_scenario_1_ends_with_an_add_acked_after_the_close(rules: Rules) -> None:
    model = LedgerModel(Bounds(entries=2), rules)
    end = replay(model, SCENARIO_1)
    assert end.violation == TRUNCATED
    assert summary(model, end.state).startswith("ledger CLOSED at e0, acknowledged at e1")


def test_scenario_2_ends_with_an_acked_entry_cut_off() -> None:
    model = LedgerModel(Bounds(), NO_LIMBO)
    end = replay(model, SCENARIO_2)
    assert end.violation == TRUNCATED
    assert summary(model, end.state).startswith("ledger CLOSED empty, acknowledged at e0")


@pytest.mark.parametrize(
    "stages, refused", [(SCENARIO_1, "stores B1"), (SCENARIO_2, "fences B0")], ids=["1", "2"]
)
def test_with_the_products_rules_the_published_order_is_no_path(
    stages: tuple[Stage, ...], refused: str
) -> None:
    end = replay(LedgerModel(Bounds(entries=2), Rules()), stages)
    assert refused in end.stopped_at and not end.violation


@pytest.mark.parametrize("rules", [IN_MEMORY, NOT_CLOSED, NO_LIMBO])
def test_the_search_finds_each_by_itself_in_16_steps(rules: Rules) -> None:
    found = Search(LedgerModel(Bounds(), rules), properties=[TRUNCATED], liveness=False).run()
    assert found.violation == TRUNCATED and found.steps == 16


def test_a_counterexample_is_told_with_each_bookie_in_its_place() -> None:
    model = LedgerModel(Bounds(), NO_LIMBO)
    found = Search(model, properties=[TRUNCATED], liveness=False).run()
    story = tell(model, found.path)
    assert story[0] == "1. W adds e0 to B0, B1, B2"
    assert story[-1] == "16. R closes the ledger empty"
    assert [model.canonical(state) for _step, state in walk(model, found.path)] == found.path[1:]
