"""Copies in frames: one good one outweighs any wrong one, and what is garbled says nothing."""

from bookie.frames.build import build_run
from bookie.frames.entry import Buffer, DigestType, EntryCodec
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.copies import verified_copies

CODEC = EntryCodec(LedgerId(1), DigestType.CRC32C, b"secret")


def frame(*, wrong: int | None = None) -> Buffer:
    """Of entries 0 to 3."""
    bodies = [
        bytearray(CODEC.encode(EntryId(i), b"payload", lac=NO_ENTRY, length=7)) for i in range(4)
    ]
    if wrong is not None:
        bodies[wrong][-1] ^= 1
    return build_run(LedgerId(1), EntryId(0), bodies, lac=NO_ENTRY)


def ids(*entries: int) -> EntrySet:
    return EntrySet.from_ids(entries)


def test_a_wrong_digest_is_told_from_right_ones_within_the_range_asked_for() -> None:
    assert verified_copies([frame(wrong=2)], CODEC, first=1, last=3) == (ids(1, 3), ids(2))


def test_an_entry_with_a_right_copy_as_well_is_right() -> None:
    both = [frame(wrong=2), frame(wrong=0)]
    assert verified_copies(both, CODEC, first=0, last=3) == (ids(0, 1, 2, 3), EMPTY)


def test_a_garbled_frame_says_nothing() -> None:
    cut = bytearray(frame())
    cut[-1] ^= 1
    assert verified_copies([cut], CODEC, first=0, last=3) == (EMPTY, EMPTY)
