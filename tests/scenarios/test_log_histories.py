"""S45 at large: whatever becomes of the writes of a log's list, in whatever order, the log holds.

At all times: listed ledgers exist, at most the last two are open, nobody deletes what is on the
list or may come onto it. At the end: every acknowledged entry is read back, once, in order, and the
log can be opened. `log_lab` has the owners, the lost and late writes, and the kills.
"""

import asyncio
import random

import pytest
from bookie.metadata.memory import MemoryStore
from hypothesis import given, settings
from hypothesis import strategies as st
from log_lab import LogLab


@settings(max_examples=30, deadline=None)
@given(data=st.data(), owners=st.integers(1, 3))
def test_no_order_of_late_lost_and_cut_off_writes_costs_a_log_anything(
    data: st.DataObject, owners: int
) -> None:
    lab = LogLab(MemoryStore(), owners, lambda count: data.draw(st.integers(0, count - 1)))
    asyncio.run(story(lab, steps=60))


@pytest.mark.parametrize("seed", range(24))
def test_long_stories_of_owners_end_well(seed: int) -> None:
    rng = random.Random(seed)
    lab = LogLab(MemoryStore(), 1 + seed % 3, rng.randrange)
    asyncio.run(story(lab, steps=250))


async def story(lab: LogLab, *, steps: int) -> None:
    await lab.run(steps)
    await lab.read_back()
