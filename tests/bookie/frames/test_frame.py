"""Run frames: round trips with every pattern, and each way bytes can fail to be a frame."""

import struct
from collections.abc import Sequence

import pytest
from bookie.errors import FrameError
from bookie.frames.build import build_run
from bookie.frames.entry import ENTRY_HEADER, ENTRY_HEADER_BYTES, FEW_ENTRIES_MAX
from bookie.frames.frame import (
    CONSECUTIVE,
    FLAG_RECOVERY,
    FRAME_BYTES_MAX,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    FRAME_VERSION,
    RUN_ENTRIES_MAX,
    Pattern,
    frame_bytes,
    parse_run,
)
from bookie.ids import EntryId, LedgerId
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

LEDGER = LedgerId(7)
COUNTS = pytest.mark.parametrize("count", [2, FEW_ENTRIES_MAX, FEW_ENTRIES_MAX + 1])
"""Few and many entries are checked by different code."""
MAGIC, VERSION, LEDGER_AT, FIRST_AT, LAC_AT, COUNT_AT, SIZE_AT, BODY_AT = (
    0,
    2,
    8,
    16,
    24,
    32,
    36,
    40,
)


def entry(entry_id: int, body: bytes = b"", ledger_id: int = LEDGER) -> bytes:
    return ENTRY_HEADER.pack(ledger_id, entry_id, entry_id - 1, 0) + body


def run_of(ids: Sequence[int], *, pattern: Pattern = CONSECUTIVE, body: bytes = b"x") -> bytes:
    entries = [entry(entry_id, body) for entry_id in ids]
    return build_run(LEDGER, EntryId(ids[0]), entries, lac=EntryId(3), pattern=pattern)


def forged(frame: bytes, at: int, field: bytes) -> bytes:
    """The frame with other bytes there and a checksum that fits: a liar, not a bad wire."""
    changed = bytearray(frame)
    changed[at : at + len(field)] = field
    crc = crc32c(bytes(changed[:4] + changed[8:]))
    changed[4:8] = crc.to_bytes(4, "big")
    return bytes(changed)


patterns = st.one_of(
    st.just(CONSECUTIVE),
    st.tuples(st.integers(1, 6), st.integers(1, 6)).map(lambda p: Pattern(p[0], p[0] + p[1])),
)


@settings(max_examples=150, deadline=None)
@given(
    first=st.integers(0, 2**40),
    bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=30),
    pattern=patterns,
    flags=st.sampled_from([0, FLAG_RECOVERY]),
)
def test_a_parsed_run_says_what_was_built(
    first: int, bodies: list[bytes], pattern: Pattern, flags: int
) -> None:
    ids = [pattern.id_at(first, index) for index in range(len(bodies))]
    entries = [entry(entry_id, body) for entry_id, body in zip(ids, bodies, strict=True)]
    built = build_run(
        LEDGER, EntryId(first), entries, lac=EntryId(-1), pattern=pattern, flags=flags
    )
    run = parse_run(bytes(built) + b"what follows on the wire")
    assert (run.ledger_id, run.lac, run.count, run.pattern) == (LEDGER, -1, len(ids), pattern)
    assert list(run.entry_ids()) == ids and run.last_entry_id == ids[-1]
    assert [bytes(one) for one in run.entries()] == entries
    assert run.is_recovery == bool(flags)
    assert bytes(run.buffer) == built


@given(first=st.integers(0, 100), pattern=patterns, count=st.integers(1, 20))
def test_a_run_finds_each_of_its_entries_and_no_other(
    first: int, pattern: Pattern, count: int
) -> None:
    ids = [pattern.id_at(first, index) for index in range(count)]
    run = parse_run(run_of(ids, pattern=pattern))
    for entry_id in range(first - 3, ids[-1] + 15):
        found = run.entry(EntryId(entry_id))
        assert (found is None) == (entry_id not in ids)
        assert found is None or bytes(found) == entry(entry_id, b"x")


def test_a_pattern_holds_the_ids_of_a_striped_share() -> None:
    assert [Pattern(2, 3).id_at(4, index) for index in range(6)] == [4, 5, 7, 8, 10, 11]


@pytest.mark.parametrize("size, period", [(0, 3), (3, 0), (3, 3), (4, 3), (-1, 3)])
def test_a_pattern_that_makes_no_sense_is_refused(size: int, period: int) -> None:
    with pytest.raises(FrameError, match="0 < size < period"):
        Pattern(size, period)


def test_any_flipped_bit_of_a_frame_is_found() -> None:
    frame = run_of([0, 1])
    for bit in range(len(frame) * 8):
        damaged = bytearray(frame)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameError):
            parse_run(damaged)


def test_a_frame_cut_anywhere_is_refused() -> None:
    frame = run_of([0, 1])
    for size in range(len(frame)):
        with pytest.raises(FrameError):
            parse_run(frame[:size])


@COUNTS
@pytest.mark.parametrize(
    "at, field, complaint",
    [
        (MAGIC, b"\0\0", "not a run frame: magic 0x0000"),
        (VERSION, b"\x63", "version 99"),
        (COUNT_AT, bytes(4), "a run of 0 entries"),
        (COUNT_AT, struct.pack(">I", RUN_ENTRIES_MAX + 1), "exceeds the limits"),
        (BODY_AT, struct.pack(">I", FRAME_BYTES_MAX), "exceeds the limits"),
        (BODY_AT, b"\xff\xff\xff\xff", "exceeds the limits"),
        (LEDGER_AT, b"\xff" * 8, "negative ids: ledger -1"),
        (FIRST_AT, b"\xff" * 8, "first entry -1"),
        (LAC_AT, struct.pack(">q", -2), "LAC -2"),
        (LEDGER_AT, struct.pack(">q", 8), "do not carry ledger 8"),
        (FIRST_AT, struct.pack(">q", 1), "ids from 1 that the frame claims"),
        (SIZE_AT, struct.pack(">HH", 1, 2), "do not carry ledger 7"),
        (SIZE_AT, struct.pack(">HH", 2, 2), "0 < size < period"),
        (FRAME_HEADER_BYTES, struct.pack(">I", 34), "entry lengths add up to"),
        (FRAME_HEADER_BYTES, struct.pack(">I", 2**32 - 1), "entry lengths add up to"),
        (FRAME_HEADER_BYTES, struct.pack(">II", 31, 35), "shorter than its header"),
    ],
)
def test_a_forged_header_is_refused(count: int, at: int, field: bytes, complaint: str) -> None:
    with pytest.raises(FrameError, match=complaint):
        parse_run(forged(run_of(range(count)), at, field))


def test_a_run_beyond_the_last_possible_id_is_refused() -> None:
    wrapped = [entry(2**63 - 1), ENTRY_HEADER.pack(LEDGER, -(2**63), -1, 0)]
    frame = build_run(LEDGER, EntryId(2**63 - 1), wrapped, lac=EntryId(-1))
    with pytest.raises(FrameError, match="no entry id"):
        parse_run(frame)


@COUNTS
def test_an_entry_of_another_ledger_within_the_run_is_refused(count: int) -> None:
    strangers = [*map(entry, range(count - 1)), entry(count - 1, ledger_id=8)]
    frame = build_run(LEDGER, EntryId(0), strangers, lac=EntryId(-1))
    with pytest.raises(FrameError, match="do not carry ledger 7"):
        parse_run(frame)


@COUNTS
def test_a_gap_in_a_consecutive_run_is_refused(count: int) -> None:
    gapped = [*map(entry, range(count - 1)), entry(count)]
    frame = build_run(LEDGER, EntryId(0), gapped, lac=EntryId(-1))
    with pytest.raises(FrameError, match="ids from 0"):
        parse_run(frame)


def test_a_run_beyond_the_frame_limit_is_not_built() -> None:
    with pytest.raises(FrameError, match="exceeds"):
        build_run(LEDGER, EntryId(0), [entry(0, bytes(FRAME_BYTES_MAX))], lac=EntryId(-1))


def test_a_run_of_exactly_the_frame_limit_is_fine() -> None:
    body = bytes(FRAME_BYTES_MAX - FRAME_HEADER_BYTES - 4 - ENTRY_HEADER_BYTES)
    frame = run_of([0], body=body)
    assert len(frame) == frame_bytes(frame) == FRAME_BYTES_MAX
    assert parse_run(frame).count == 1


def test_a_run_of_the_most_entries_is_fine() -> None:
    frame = run_of(range(RUN_ENTRIES_MAX), body=b"")
    assert parse_run(frame).last_entry_id == RUN_ENTRIES_MAX - 1


@pytest.mark.parametrize("payload", [b"", b"x", bytes(70_000)])
def test_a_run_of_one_entry_is_the_same_bytes_as_any_other(payload: bytes) -> None:
    head = ENTRY_HEADER.pack(7, 9, 5, 1000) + b"sum."
    apart = build_run(LedgerId(7), EntryId(9), [payload], heads=[head], lac=EntryId(5))
    assert apart == build_run(LedgerId(7), EntryId(9), [head + payload], lac=EntryId(5))


def test_the_layout_of_the_header_does_not_drift() -> None:
    magic, version, flags, _crc, ledger, first, lac, count, size, period, body, reserved = (
        FRAME_HEADER.unpack_from(run_of([4, 5, 7], pattern=Pattern(2, 3)))
    )
    assert (magic, version, flags, ledger, first) == (FRAME_MAGIC, FRAME_VERSION, 0, 7, 4)
    assert (lac, count, size, period, body, reserved) == (3, 3, 2, 3, 3 * 33, 0)
