"""What strikes a fleet on Kubernetes in a chaos run: no more than the product promises to bear."""

from itertools import islice

import pytest
from chaos_plan import DISK_OF, LOSSES, ROLLS, SHAPES, Kind, Round, rounds

SEEDS = range(5)


def drawn(seed: int) -> list[Round]:
    return list(islice(rounds(seed), 200))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_plan_is_a_function_of_the_seed(seed: int) -> None:
    assert drawn(seed) == drawn(seed) != drawn(seed + 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_bookie_forgets_at_a_time(seed: int) -> None:
    assert max(len(one.losses) for one in drawn(seed)) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_is_struck_twice_in_a_round(seed: int) -> None:
    for one in drawn(seed):
        struck = [strike.bookie for strike in one.strikes if strike.bookie]
        assert len(struck) == len(set(struck)), one


@pytest.mark.parametrize("seed", SEEDS)
def test_strikes_come_in_pairs_and_triples_and_of_every_kind(seed: int) -> None:
    found = drawn(seed)
    assert {len(one.strikes) for one in found} == {sum(shape) for shape in SHAPES} == {2, 3}
    assert {strike.kind for one in found for strike in one.strikes} == set(Kind)


@pytest.mark.parametrize("seed", SEEDS)
def test_bookies_are_stopped_in_one_way_at_a_time(seed: int) -> None:
    for one in drawn(seed):
        assert sum(strike.kind in ROLLS for strike in one.strikes) <= 1, one


@pytest.mark.parametrize("seed", SEEDS)
def test_disks_are_replaced_of_one_bookie(seed: int) -> None:
    struck = {s.bookie for one in drawn(seed) for s in one.strikes if s.kind is Kind.DISK}
    assert struck == {f"bookie-{DISK_OF}"}
    assert Kind.DISK in LOSSES
