"""Long polls: each is answered once, by an advance or by its time, which has an end."""

import asyncio
import random

import pytest
from bookie.ids import EntryId, LedgerId
from bookie.server import waits as bounds
from bookie.server.state import Traffic
from bookie.server.waits import TIMEOUT_MS_MAX, LacWaits
from bookie.wire.native import LacRequest
from virtual_time import clock, in_virtual_time

KEY = b"k" * 20


def poll(ledger_id: int, lac: int, timeout_ms: int = 1000) -> LacRequest:
    return LacRequest(LedgerId(ledger_id), KEY, EntryId(lac), timeout_ms)


@pytest.mark.parametrize(
    "timeout_ms", [0, 1, 2, TIMEOUT_MS_MAX - 1, TIMEOUT_MS_MAX, TIMEOUT_MS_MAX + 1, 2**32 - 1]
)
@in_virtual_time
async def test_a_poll_is_answered_in_its_time_and_never_holds_its_place_for_longer(
    timeout_ms: int,
) -> None:
    waits, began, answers = LacWaits(Traffic()), clock(), list[float]()
    assert waits.add(object(), poll(7, 0, timeout_ms), lambda: answers.append(clock() - began))
    await asyncio.sleep(2 * TIMEOUT_MS_MAX / 1000)
    assert answers == [pytest.approx(max(1, min(timeout_ms, TIMEOUT_MS_MAX)) / 1000)]
    waits._check()


@pytest.mark.parametrize("seed", range(20))
@in_virtual_time
async def test_each_poll_is_answered_once_by_what_comes_first(seed: int) -> None:
    rng, waits, count = random.Random(seed), LacWaits(Traffic()), 60
    answered, expected, open_ = list[int](), set[int](), dict[int, tuple[object, int, int]]()
    for number in range(count):
        asker, ledger_id, lac = rng.randrange(4), rng.randrange(3), rng.randrange(6)
        open_[number] = asker, ledger_id, lac
        waits.add(asker, poll(ledger_id, lac), lambda number=number: answered.append(number))  # type: ignore[misc]
        if rng.random() < 0.3:
            waits.lac_moved(LedgerId(ledger_id), EntryId(reached := rng.randrange(7)))
            moved = {n for n, (_a, of, has) in open_.items() if of == ledger_id and has < reached}
            expected |= moved
            open_ = {n: one for n, one in open_.items() if n not in moved}
        if rng.random() < 0.1:
            waits.forget(asker)
            open_ = {n: one for n, one in open_.items() if one[0] != asker}
        waits._check()
        assert (set(answered), len(answered)) == (expected, len(expected))
    await asyncio.sleep(1)
    assert sorted(answered) == sorted(expected | open_.keys())
    waits._check()


@in_virtual_time
async def test_polls_are_bounded_and_each_that_ends_makes_room() -> None:
    traffic = Traffic()
    waits = LacWaits(traffic)
    for _ in range(bounds.WAITS_MAX):
        assert waits.add(traffic, poll(7, 0), lambda: None)
    assert not waits.add(object(), poll(8, 0), lambda: None)
    waits.forget(traffic)
    assert waits.add(object(), poll(8, 0), lambda: None) and traffic.long_polls == 1
    waits.lac_moved(LedgerId(8), EntryId(1))
    assert traffic.long_polls == 0
    waits._check()
