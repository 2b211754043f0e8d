"""Checksums of what was put together, from those of its parts."""

import numpy as np
import pytest
from bookie.frames.crc import all_shifted, joined, shifted
from bookie.frames.frame import FRAME_BYTES_MAX
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

checksums = st.integers(0, 2**32 - 1)


@given(st.binary(max_size=100), st.binary(max_size=300))
def test_what_follows_shifts_what_was_before(ahead: bytes, behind: bytes) -> None:
    assert shifted(crc32c(ahead), len(behind)) ^ crc32c(behind) == crc32c(ahead + behind)


@given(st.lists(checksums), st.integers(0, FRAME_BYTES_MAX))
def test_many_are_shifted_as_each_one_is(many: list[int], behind: int) -> None:
    found = all_shifted(np.array(many, np.uint32), behind)
    assert found.tolist() == [shifted(one, behind) for one in many]


@pytest.mark.parametrize("count", [0, 1, 2, 16, 17, 255, 1000])
@pytest.mark.parametrize("each", [1, 36, 1060])
def test_parts_are_joined_in_their_order(count: int, each: int) -> None:
    parts = [bytes([i % 251]) * each for i in range(count)]
    found = joined(np.array([crc32c(part) for part in parts], np.uint32), each=each)
    assert found == crc32c(b"".join(parts))
