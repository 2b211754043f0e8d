"""Placement: different writable bookies, those that failed lately last or not at all."""

import random
from collections import Counter

import pytest
from bookie.client.placement import COOL_S, QUARANTINE_S, Placement
from bookie.errors import NotEnoughBookiesError
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import RACK_PROPERTY, RPC_ENDPOINT, RUN_ENDPOINT, BookieInfo, Endpoint

B = [BookieId(f"b{number}") for number in range(9)]
RUN = Endpoint(RUN_ENDPOINT, "host", 3182, RUN_ENDPOINT)
STOCK = Endpoint(RPC_ENDPOINT, "host", 3181, RPC_ENDPOINT)


class Lab:
    def __init__(self) -> None:
        self.now = 100.0
        self.store = MemoryStore()
        self.placement = Placement(self.store, rng=random.Random(1), clock=lambda: self.now)

    async def register(
        self, count: int, *, read_only: tuple[int, ...] = (), racks: int = 1
    ) -> "Lab":
        for number in range(count):
            rack = {RACK_PROPERTY: f"/r{number % racks}"}
            info = BookieInfo(B[number], (STOCK, RUN), rack, read_only=number in read_only)
            await self.store.register(info)
        return self


async def test_an_ensemble_has_different_writable_bookies() -> None:
    lab = await Lab().register(5, read_only=(1, 3))
    for _ in range(20):
        assert set(await lab.placement.choose(3)) == {B[0], B[2], B[4]}


async def test_an_apache_bookie_beside_ours_is_never_chosen() -> None:
    lab = await Lab().register(3)
    await lab.store.register(BookieInfo(B[7], (STOCK,)))
    assert B[7] not in await lab.placement.choose(3)
    with pytest.raises(NotEnoughBookiesError):
        await lab.placement.choose(4)
    assert await lab.placement.replace((B[0], B[1], B[2]), (0,)) == {0: B[0]}


async def test_too_few_bookies_are_named() -> None:
    lab = await Lab().register(2)
    with pytest.raises(NotEnoughBookiesError, match=r"of 3 is asked for, 2 .* \(b0, b1\)"):
        await lab.placement.choose(3)
    with pytest.raises(NotEnoughBookiesError, match="none"):
        await (await Lab().register(0)).placement.choose(1)


async def test_ensembles_spread_over_all_bookies() -> None:
    lab = await Lab().register(9)
    seen = Counter([b for _ in range(300) for b in await lab.placement.choose(3)])
    assert set(seen) == set(B) and min(seen.values()) > 50


async def test_the_same_seed_chooses_the_same() -> None:
    first, second = await Lab().register(9), await Lab().register(9)
    assert await first.placement.choose(9) == await second.placement.choose(9)


async def test_one_that_failed_lately_is_chosen_last() -> None:
    lab = await Lab().register(4)
    lab.placement.note_failure(B[2])
    for _ in range(20):
        assert (await lab.placement.choose(4))[-1] == B[2]
    lab.now += QUARANTINE_S
    assert any([(await lab.placement.choose(4))[-1] != B[2] for _ in range(20)])


async def test_replacements_come_from_outside_the_ensemble() -> None:
    lab = await Lab().register(6)
    for _ in range(20):
        chosen = await lab.placement.replace(B[:4], [0, 2])
        assert set(chosen) == {0, 2} and set(chosen.values()) == {B[4], B[5]}


async def test_one_replacement_for_two_positions_is_given_to_one() -> None:
    lab = await Lab().register(4)
    for bookie_id in B[:2]:
        lab.placement.note_failure(bookie_id)
    assert await lab.placement.replace(B[:3], [0, 1]) == {0: B[3]}


async def test_nobody_who_failed_a_moment_ago_replaces_anybody() -> None:
    lab = await Lab().register(4)
    for bookie_id in B[:4]:
        lab.placement.note_failure(bookie_id)
    assert await lab.placement.replace(B[:3], [0]) == {}
    lab.now += COOL_S
    assert await lab.placement.replace(B[:3], [0]) == {0: B[3]}


async def test_who_refuses_a_ledger_replaces_nobody_in_it() -> None:
    lab = await Lab().register(5)
    for _ in range(20):
        chosen = await lab.placement.replace(B[:3], [0], refusing={B[3]})
        assert chosen == {0: B[4]}
    assert await lab.placement.replace(B[:3], [0], refusing={B[0], B[3], B[4]}) == {}


async def test_a_member_gets_its_own_position_back_only_when_nobody_else_is_there() -> None:
    lab = await Lab().register(4)
    assert await lab.placement.replace(B[:3], [0]) == {0: B[3]}
    await lab.store.unregister(B[3])
    assert await lab.placement.replace(B[:3], [0]) == {0: B[0]}


async def test_a_member_that_is_gone_or_read_only_is_no_replacement_of_itself() -> None:
    lab = await Lab().register(3, read_only=(1,))
    await lab.store.unregister(B[0])
    assert await lab.placement.replace(B[:3], [0, 1]) == {}


async def test_failures_are_forgotten() -> None:
    lab = await Lab().register(1)
    for number in range(100):
        lab.placement.note_failure(BookieId(f"gone-{number}"))
        lab.now += QUARANTINE_S / 10
    assert len(lab.placement._failed_at) <= 11


async def test_write_sets_span_racks_where_bookies_name_them() -> None:
    lab = await Lab().register(9, racks=3)
    for _ in range(30):
        assert len({B.index(b) % 3 for b in await lab.placement.choose(3)}) == 3
        striped = [B.index(b) % 3 for b in await lab.placement.choose(4, write_quorum=2)]
        assert all(striped[n] != striped[(n + 1) % 4] for n in range(4))


async def test_a_replacement_comes_from_the_rack_that_left() -> None:
    lab = await Lab().register(9, racks=3)
    for _ in range(30):
        chosen = await lab.placement.replace(B[:3], [1, 2], write_quorum=3)
        assert {n: B.index(b) % 3 for n, b in chosen.items()} == {1: 1, 2: 2}
        assert not set(chosen.values()) & set(B[:3])


async def test_a_bookie_that_failed_is_no_better_for_its_rack() -> None:
    lab = await Lab().register(6, racks=3)
    lab.placement.note_failure(B[4])
    lab.now += QUARANTINE_S / 2
    assert B[4] not in (await lab.placement.replace(B[:3], [1], write_quorum=3)).values()
