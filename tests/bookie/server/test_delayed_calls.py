"""Calls that are put off are made once: at their time, or when the end comes first."""

import asyncio

from bookie.server.delayed_calls import DelayedCalls
from virtual_time import in_virtual_time


@in_virtual_time
async def test_a_call_is_made_at_its_time() -> None:
    loop, made = asyncio.get_running_loop(), list[float]()
    began = loop.time()
    DelayedCalls().call(5.0, lambda: made.append(loop.time() - began))
    await asyncio.sleep(60)
    assert made == [5.0]


@in_virtual_time
async def test_without_a_delay_the_call_is_made_at_once() -> None:
    made = list[int]()
    DelayedCalls().call(0.0, lambda: made.append(1))
    assert made == [1]


@in_virtual_time
async def test_the_end_makes_what_still_waits_and_only_once() -> None:
    delayed, made = DelayedCalls(), list[int]()
    delayed.call(1.0, lambda: made.append(1))
    await asyncio.sleep(2)
    delayed.call(1.0, lambda: made.append(2))
    delayed.end()
    assert made == [1, 2]
    await asyncio.sleep(60)
    assert made == [1, 2]


@in_virtual_time
async def test_after_the_end_nothing_waits() -> None:
    delayed, made = DelayedCalls(), list[int]()
    delayed.end()
    delayed.call(1.0, lambda: made.append(1))
    assert made == [1]
