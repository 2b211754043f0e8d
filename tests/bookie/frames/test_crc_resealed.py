"""Checksums under another header: as if all had been read again, and no wrong one made right."""

from bookie.frames.crc import resealed
from bookie.frames.frame import FRAME_BYTES_MAX
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

headers = st.binary(min_size=44, max_size=44)


@given(headers, headers, st.binary(max_size=300))
def test_a_checksum_follows_its_header(old: bytes, new: bytes, rest: bytes) -> None:
    assert resealed(crc32c(old + rest), old, new, behind=len(rest)) == crc32c(new + rest)


@given(headers, headers, st.integers(0, FRAME_BYTES_MAX))
def test_it_follows_through_frames_of_every_length(old: bytes, new: bytes, behind: int) -> None:
    rest = bytes(behind)
    assert resealed(crc32c(old + rest), old, new, behind=behind) == crc32c(new + rest)


@given(headers, headers, st.binary(min_size=1, max_size=300), st.integers(1, 2**32 - 1))
def test_a_checksum_that_was_wrong_stays_wrong(
    old: bytes, new: bytes, rest: bytes, error: int
) -> None:
    found = resealed(crc32c(old + rest) ^ error, old, new, behind=len(rest))
    assert found == crc32c(new + rest) ^ error
