"""All digests of a run at once: True only of a run of which each is right."""

from collections.abc import Sequence

import pytest
from bookie.frames.build import build_run
from bookie.frames.digests import JOINT_ENTRIES_MIN, _are_right_jointly, _entries_checksum
from bookie.frames.entry import DigestType, EntryCodec
from bookie.frames.frame import RunFrame, parse_run
from bookie.ids import EntryId
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from recovery_lab import LEDGER

COUNT = JOINT_ENTRIES_MIN
SIZE = 20
places = st.tuples(st.integers(0, COUNT - 1), st.integers(16, 35 + SIZE), st.integers(0, 7))
"""An entry, a byte of it, a bit of that; the ids before are the frame's matter."""


def entries_of(kind: DigestType = DigestType.CRC32C, *, count: int = COUNT) -> list[bytearray]:
    codec = EntryCodec(LEDGER, kind, b"")
    return [
        bytearray(codec.encode(EntryId(i), bytes([i % 251]) * SIZE, lac=EntryId(i - 1), length=i))
        for i in range(count)
    ]


def run_of(entries: Sequence[bytearray]) -> RunFrame:
    return parse_run(build_run(LEDGER, EntryId(0), entries, lac=EntryId(-1)))


def are_right(run: RunFrame, kind: DigestType = DigestType.CRC32C) -> bool:
    return _are_right_jointly(run, EntryCodec(LEDGER, kind, b""))


@pytest.mark.parametrize("count", [COUNT, COUNT + 1, 3 * COUNT + 7])
def test_a_run_that_is_right_is_found_right(count: int) -> None:
    assert are_right(run_of(entries_of(count=count)))


@given(st.sets(places, min_size=1, max_size=3))
def test_up_to_three_flipped_bits_are_always_found(flips: set[tuple[int, int, int]]) -> None:
    entries = entries_of()
    for at, place, bit in flips:
        entries[at][place] ^= 1 << bit
    assert not are_right(run_of(entries))


@given(st.data())
def test_entries_that_have_each_others_payloads_are_found(data: st.DataObject) -> None:
    one, other = data.draw(st.lists(st.integers(0, 250), min_size=2, max_size=2, unique=True))
    entries = entries_of()
    entries[one][36:], entries[other][36:] = entries[other][36:], entries[one][36:]
    assert not are_right(run_of(entries))


def test_nothing_is_said_of_other_digests_few_entries_or_several_lengths() -> None:
    assert not are_right(run_of(entries_of(DigestType.CRC32)), DigestType.CRC32)
    assert not are_right(run_of(entries_of(count=COUNT - 1)))
    assert not are_right(run_of([*entries_of(), entries_of(count=COUNT + 1)[-1] + b"x"]))
    assert not are_right(run_of([entry[:35] for entry in entries_of()]))


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=9))
def test_the_checksum_of_all_entries_follows_from_the_frames(bodies: list[bytes]) -> None:
    entries = [LEDGER.to_bytes(8, "big") + i.to_bytes(8, "big") + bytes(16) + body
               for i, body in enumerate(bodies)]  # fmt: skip
    assert _entries_checksum(run_of(list(map(bytearray, entries)))) == crc32c(b"".join(entries))
