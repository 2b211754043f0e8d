"""Blocks of adds against the codec that parses them one by one."""

import struct
from typing import Any

import pytest
from bookie.wire.stock.blocks import BLOCK_ENTRIES_MIN, BlockScan
from bookie.wire.stock.messages import Add, Outcome
from bookie.wire.stock.v2 import V2
from bookie.wire.stock.v3 import V3
from bookie.wire.stock.wire import Wire
from hypothesis import given, settings
from hypothesis import strategies as st
from stock_client import V2Client, V3Client

both = pytest.mark.parametrize(("kind", "make"), [(V2Client, V2), (V3Client, V3)], ids=["v2", "v3"])


def stream(kind: Any, ids: list[tuple[int, int]], **more: Any) -> bytearray:
    client = kind(None, None)
    frames = [client.add(*each, payload=b"some bytes", **more) for each in ids]
    return bytearray(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))


def agree(wire: Wire, view: memoryview) -> int:
    """How many adds the block has; each must be what the codec finds there."""
    block = BlockScan().find(wire, view)
    if block is None:
        return 0
    requests, consumed = wire.parse_all(view[: block.frames_bytes])
    adds = [each for each in requests if isinstance(each, Add)]
    assert consumed == block.frames_bytes and len(adds) == len(requests)
    assert block.ledgers.tolist() == [add.ledger_id for add in adds]
    assert block.entry_ids.tolist() == [add.entry_id for add in adds]
    assert [row.tobytes() for row in block.entries] == [add.entry for add in adds]
    assert [row.tobytes() for row in block.keys] == [add.master_key for add in adds]
    assert {add.is_recovery for add in adds} == {block.layout.is_recovery}
    for outcome in (Outcome.OK, Outcome.FENCED):
        assert block.answers(slice(None), outcome) == wire.answer_adds(adds, outcome)
    return len(adds)


@both
@pytest.mark.parametrize("recovery", [False, True])
@pytest.mark.parametrize("first", [0, 5, 2**31, 2**62])
def test_a_block_is_what_the_codec_finds_one_by_one(
    kind: Any, make: Any, first: int, recovery: bool
) -> None:
    ids = [(first + n % 3, first + n // 3) for n in range(90)]
    assert agree(make(), memoryview(stream(kind, ids, recovery=recovery))) >= BLOCK_ENTRIES_MIN


@both
def test_a_block_ends_in_front_of_the_first_frame_that_differs(kind: Any, make: Any) -> None:
    data = stream(kind, [(7, n) for n in range(60)])
    stranger = stream(kind, [(7, 61)], recovery=True)
    assert agree(make(), memoryview(data + stranger + data)) == 60


@both
def test_few_adds_make_no_block(kind: Any, make: Any) -> None:
    assert agree(make(), memoryview(stream(kind, [(7, 0)] * (BLOCK_ENTRIES_MIN - 1)))) == 0


@both
@settings(deadline=None, max_examples=150)
@given(
    at=st.integers(0, 120 * 30),
    octet=st.integers(0, 255),
    ids=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 2**40)), min_size=30, max_size=40),
)
def test_no_damage_makes_a_block_of_what_the_codec_refuses(
    kind: Any, make: Any, at: int, octet: int, ids: list[tuple[int, int]]
) -> None:
    data = stream(kind, ids)
    data[at % len(data)] = octet
    agree(make(), memoryview(data))


@both
def test_whatever_bit_of_a_frame_is_flipped_no_block_says_else_than_the_codec(
    kind: Any, make: Any
) -> None:
    """Of frames that are alike: with ids of any sizes there is hardly ever a block to damage."""
    data = stream(kind, [(7, 200 + n) for n in range(3 * BLOCK_ENTRIES_MIN)])
    size = len(data) // (3 * BLOCK_ENTRIES_MIN)
    middle = range((BLOCK_ENTRIES_MIN + 5) * size, (BLOCK_ENTRIES_MIN + 6) * size)
    for at in middle:
        for bit in range(8):
            data[at] ^= 1 << bit
            agree(make(), memoryview(data))
            data[at] ^= 1 << bit
    assert agree(make(), memoryview(data)) == 3 * BLOCK_ENTRIES_MIN


def test_deferred_sync_is_part_of_the_layout() -> None:
    data = stream(V3Client, [(7, n) for n in range(40)], deferred=True)
    block = BlockScan().find(V3(), memoryview(data))
    assert block is not None and block.layout.is_deferred_sync
