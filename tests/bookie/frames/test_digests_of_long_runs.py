"""Digests of whole runs, nothing cut: the same word on each entry as `verify_run` gives."""

from collections.abc import Sequence

import pytest
from bookie.frames.build import build_run
from bookie.frames.digests import verify_run
from bookie.frames.entry import DIGEST_BYTES, ENTRY_HEADER_BYTES, DigestType, EntryCodec
from bookie.frames.frame import CONSECUTIVE, Pattern, RunFrame, parse_run
from bookie.ids import EntryId, LedgerId
from hypothesis import given
from hypothesis import strategies as st
from recovery_lab import LEDGER

COUNT = 260
SIZES = ([300] * COUNT, [0] + [250 + number for number in range(COUNT - 1)])
"""Of payloads: all alike, and all different."""


def codec_of(kind: DigestType) -> EntryCodec:
    return EntryCodec(LEDGER, kind, b"secret")


def bodies_of(
    codec: EntryCodec, sizes: Sequence[int], pattern: Pattern = CONSECUTIVE
) -> list[bytes]:
    """Their headers differ in every place that may differ in a ledger."""
    return [
        codec.encode(
            EntryId(pattern.id_at(2**33, i)),
            bytes([i % 251]) * size,
            lac=EntryId(i * 3**28),
            length=(i + 1) * 5**21,
        )
        for i, size in enumerate(sizes)
    ]


def run_of(bodies: Sequence[bytes], pattern: Pattern = CONSECUTIVE) -> RunFrame:
    frame = build_run(LEDGER, EntryId(2**33), bodies, lac=EntryId(-1), pattern=pattern)
    assert len(frame) >= 64 * 1024
    return parse_run(frame)


@pytest.mark.parametrize("kind", DigestType)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("pattern", [CONSECUTIVE, Pattern(2, 3)])
def test_a_run_that_is_right_is_found_right(
    kind: DigestType, sizes: list[int], pattern: Pattern
) -> None:
    run = run_of(bodies_of(codec_of(kind), sizes, pattern), pattern)
    found = verify_run(run, codec_of(kind), first=0, last=2**40)
    assert list(found.ids) == list(run.entry_ids()) and not found.corrupt


@pytest.mark.parametrize("kind", [kind for kind in DigestType if DIGEST_BYTES[kind]])
@pytest.mark.parametrize("sizes", SIZES)
@given(at=st.integers(0, COUNT - 1), place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_any_flipped_bit_is_found_and_spoils_its_entry_only(
    kind: DigestType, sizes: list[int], at: int, place: int, bit: int
) -> None:
    bodies = bodies_of(codec_of(kind), sizes)
    bad = bytearray(bodies[at])
    bad[16 + place % (len(bad) - 16)] ^= 1 << bit  # the ids before are the frame's matter
    run = run_of([*bodies[:at], bytes(bad), *bodies[at + 1 :]])
    found = verify_run(run, codec_of(kind), first=0, last=2**40)
    assert list(found.corrupt) == [2**33 + at] and len(found.ids) == COUNT - 1


def test_an_entry_too_short_for_its_digest_is_corrupt() -> None:
    bodies = bodies_of(codec_of(DigestType.CRC32C), SIZES[0])
    bodies[1] = bodies[1][: ENTRY_HEADER_BYTES + 1]
    found = verify_run(run_of(bodies), codec_of(DigestType.CRC32C), first=0, last=2**40)
    assert list(found.corrupt) == [2**33 + 1]


def test_another_password_or_another_ledger_makes_no_entry_right() -> None:
    run = run_of(bodies_of(codec_of(DigestType.HMAC), SIZES[0]))
    stranger = EntryCodec(LEDGER, DigestType.HMAC, b"other")
    assert len(verify_run(run, stranger, first=0, last=2**40).corrupt) == COUNT
    run = run_of(bodies_of(codec_of(DigestType.CRC32C), SIZES[0]))
    stranger = EntryCodec(LedgerId(LEDGER + 1), DigestType.CRC32C, b"")
    assert len(verify_run(run, stranger, first=0, last=2**40).corrupt) == COUNT


def test_only_ids_within_the_range_are_looked_at() -> None:
    bodies = bodies_of(codec_of(DigestType.CRC32C), SIZES[0])
    bodies[0] = bodies[0][:-1] + b"?"
    found = verify_run(run_of(bodies), codec_of(DigestType.CRC32C), first=2**33 + 1, last=2**33 + 9)
    assert list(found.ids) == list(range(2**33 + 1, 2**33 + 10)) and not found.corrupt


@pytest.mark.parametrize("count", [1, COUNT])
def test_the_lac_of_a_run_is_what_its_last_entry_carries(count: int) -> None:
    bodies = bodies_of(codec_of(DigestType.CRC32C), SIZES[1])[-count:]
    run = parse_run(build_run(LEDGER, EntryId(2**33 + COUNT - count), bodies, lac=EntryId(2**50)))
    assert run.carried_lac() == (COUNT - 1) * 3**28
