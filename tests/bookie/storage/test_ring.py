"""The ring gives back what was put, whatever wraps."""

from bookie.storage.disk import BLOCK_BYTES
from bookie.storage.ring import Ring
from hypothesis import given, settings
from hypothesis import strategies as st

CAPACITY = 2 * BLOCK_BYTES


def test_a_put_wraps_round_the_end() -> None:
    ring = Ring(CAPACITY)
    ring.put(CAPACITY - 2, b"abcd")
    assert ring.get(CAPACITY - 2, 4) == b"abcd"
    assert [bytes(view) for view in ring.views(CAPACITY - 2, 4)] == [b"ab", b"cd"]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, CAPACITY), max_size=12))
def test_the_last_capacity_bytes_are_those_of_a_plain_stream(lengths: list[int]) -> None:
    ring, stream = Ring(CAPACITY), bytearray()
    for index, length in enumerate(lengths):
        part = bytes([index + 1]) * length
        ring.put(len(stream), part)
        stream += part
    kept = min(len(stream), CAPACITY)
    assert ring.get(len(stream) - kept, kept) == stream[len(stream) - kept :]
