"""Buffers of frames: used again only when nobody looks at them, and never too many kept."""

import random

import pytest
from bookie.frames.buffers import KEPT_FRAME_BYTES_MIN, STEP_BYTES, FrameBuffers

BIG = 2 * STEP_BYTES


def test_what_nobody_looks_at_is_used_again() -> None:
    buffers = FrameBuffers()
    first = buffers.take(BIG)
    kept = first.obj
    del first
    assert buffers.take(BIG - 1).obj is kept


def test_a_frame_that_is_looked_at_keeps_its_bytes() -> None:
    buffers = FrameBuffers()
    frame = buffers.take(BIG)
    frame[:] = b"a" * BIG
    part = frame[10:20]  # as a socket holds what it has not taken yet
    del frame
    buffers.take(BIG)[:] = b"b" * BIG
    assert part == b"a" * 10


def test_a_frame_has_the_length_asked_for() -> None:
    buffers = FrameBuffers()
    sizes = (1, KEPT_FRAME_BYTES_MIN, BIG, BIG + 1, STEP_BYTES - 1)
    assert [len(buffers.take(size)) for size in sizes] == list(sizes)


def test_a_longer_frame_than_any_kept_is_made_anew() -> None:
    buffers = FrameBuffers()
    buffers.take(BIG)
    assert len(buffers.take(2 * BIG)) == 2 * BIG


def test_small_frames_are_not_kept() -> None:
    buffers = FrameBuffers()
    buffers.take(KEPT_FRAME_BYTES_MIN - 1)
    assert buffers.kept_bytes == 0


def test_no_more_is_kept_than_the_bound() -> None:
    buffers = FrameBuffers(bytes_max=3 * BIG)
    held = [buffers.take(BIG) for _ in range(5)]
    assert len(held) == 5 and buffers.kept_bytes == 3 * BIG


@pytest.mark.parametrize("seed", range(50))
def test_what_is_kept_is_counted_in_full_and_never_exceeds_the_bound(seed: int) -> None:
    rng, held = random.Random(seed), list[memoryview]()
    buffers = FrameBuffers(bytes_max=4 * BIG)
    for _ in range(40):
        held.append(buffers.take(rng.choice((1, KEPT_FRAME_BYTES_MIN, STEP_BYTES + 1, BIG))))
        del held[: rng.randrange(3)]
        assert len({id(frame.obj) for frame in held}) == len(held), "two frames in one memory"
        assert sum(map(len, buffers._kept)) == buffers.kept_bytes <= 4 * BIG
