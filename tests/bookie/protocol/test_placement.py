"""Racks of write sets, judged and chosen, against plain sets."""

import random
from itertools import product

import pytest
from bookie.ids import BookieId
from bookie.protocol.placement import Adherence, Racks, adherence, choose, spread

BOOKIES = tuple(BookieId(f"b{n}") for n in range(9))
RACKS = {bookie_id: f"/r{n % 3}" for n, bookie_id in enumerate(BOOKIES)}
THREE = Racks(RACKS, min_racks=3)
TWO = Racks(RACKS)


def ensemble(*numbers: int) -> list[BookieId]:
    return [BOOKIES[n] for n in numbers]


def oracle(members: list[BookieId], quorum: int, racks: Racks) -> Adherence:
    """By looking at each write set; bookies that nobody knows are where they do best."""
    levels = []
    for start in range(len(members)):
        copies = [members[(start + n) % len(members)] for n in range(quorum)]
        known = {racks.of[b] for b in copies if b in racks.of}
        reach = len(known) + sum(b not in racks.of for b in copies)
        wanted = min(quorum, racks.min_racks, len(set(racks.of.values())))
        soft = reach >= min(2, wanted)
        levels.append(5 if reach >= wanted else 3 if soft else 1)
    return Adherence(min(levels))


@pytest.mark.parametrize(("quorum", "min_racks"), list(product((1, 2, 3, 4), (1, 2, 3, 4))))
def test_adherence_is_that_of_plain_sets(quorum: int, min_racks: int) -> None:
    rng = random.Random(quorum * 10 + min_racks)
    known = {b: rack for b, rack in RACKS.items() if b not in (BOOKIES[7], BOOKIES[8])}
    racks = Racks(known, min_racks=min_racks)
    for _ in range(300):
        members = rng.sample(BOOKIES, rng.randint(quorum, 7))
        found = adherence(members, write_quorum=quorum, racks=racks)
        assert found is oracle(members, quorum, racks)


@pytest.mark.parametrize(("quorum", "min_racks"), list(product((2, 3, 4), (2, 3))))
def test_the_best_place_is_that_of_the_worst_write_set_and_then_of_all(
    quorum: int, min_racks: int
) -> None:
    rng = random.Random(quorum * 10 + min_racks)
    racks = Racks(RACKS, min_racks=min_racks)
    for _ in range(300):
        members = rng.sample(BOOKIES, rng.randint(quorum, 6))
        outside = [b for b in rng.sample(BOOKIES, len(BOOKIES)) if b not in members]
        ranked = []
        for candidate in outside:
            changed = [candidate, *members[1:]]
            sets = [
                {RACKS[changed[(start + n) % len(changed)]] for n in range(quorum)}
                for start in range(len(changed))
            ]
            worst = min(min(map(len, sets)), min_racks, quorum)
            ranked.append((worst, sum(map(len, sets))))
        best = outside[ranked.index(max(ranked))]
        assert choose(members, 0, outside, write_quorum=quorum, racks=racks) == best


def test_an_ensemble_that_spans_racks_may_still_have_write_sets_that_do_not() -> None:
    striped = ensemble(0, 3, 1, 4)
    assert adherence(striped, write_quorum=2, racks=TWO) is Adherence.FAIL
    assert adherence(ensemble(0, 1, 3, 4), write_quorum=2, racks=TWO) is Adherence.MEETS_STRICT


def test_two_racks_of_three_are_the_soft_rule() -> None:
    assert adherence(ensemble(0, 1, 3), write_quorum=3, racks=THREE) is Adherence.MEETS_SOFT


def test_one_rack_alone_is_no_fault() -> None:
    assert adherence(BOOKIES[:3], write_quorum=3, racks=Racks()) is Adherence.MEETS_STRICT
    one = Racks(dict.fromkeys(BOOKIES, "/r"), min_racks=3)
    assert adherence(BOOKIES[:3], write_quorum=3, racks=one) is Adherence.MEETS_STRICT


def test_a_bookie_that_nobody_knows_is_never_a_fault() -> None:
    unknown = [BOOKIES[0], BookieId("new"), BOOKIES[3]]
    assert adherence(unknown, write_quorum=3, racks=TWO) is Adherence.MEETS_STRICT


def test_a_replacement_keeps_racks_apart_whoever_is_preferred() -> None:
    members = ensemble(0, 1, 2)
    candidates = ensemble(3, 4, 5)
    found = choose(members, 1, candidates, write_quorum=3, racks=THREE)
    assert found == BOOKIES[4], "of the rack that leaves"
    assert choose(members, 1, candidates, write_quorum=3, racks=Racks()) == BOOKIES[3]
    assert choose(members, 1, members, write_quorum=3, racks=TWO) is None


def test_no_candidate_would_have_kept_the_rule_better() -> None:
    rng = random.Random(5)
    for _ in range(200):
        members, quorum = rng.sample(BOOKIES, rng.randint(3, 6)), rng.randint(2, 3)
        position = rng.randrange(len(members))
        found = choose(members, position, BOOKIES, write_quorum=quorum, racks=THREE)
        kept = {
            b: oracle([*members[:position], b, *members[position + 1 :]], quorum, THREE)
            for b in BOOKIES
            if b not in members
        }
        assert found is not None and kept[found] == max(kept.values())


@pytest.mark.parametrize(("size", "quorum"), [(3, 3), (3, 2), (6, 3), (5, 2), (6, 2), (9, 3)])
def test_an_ensemble_is_spread_where_it_can_be(size: int, quorum: int) -> None:
    for seed in range(50):
        candidates = random.Random(seed).sample(BOOKIES, 9)
        found = spread(candidates, size=size, write_quorum=quorum, racks=TWO)
        assert len(set(found)) == size
        assert adherence(found, write_quorum=quorum, racks=TWO) is Adherence.MEETS_STRICT


def test_without_racks_an_ensemble_is_the_first_candidates() -> None:
    assert spread(BOOKIES, size=4, write_quorum=3, racks=TWO)[:3] == BOOKIES[:3]
    one = Racks(dict.fromkeys(BOOKIES, "/r"))
    assert spread(BOOKIES, size=4, write_quorum=3, racks=one) == BOOKIES[:4]
