"""EntrySet against plain sets, and its blob against the published examples."""

import struct
from collections.abc import Iterable
from itertools import pairwise

import pytest
from bookie.errors import FrameError
from bookie.frames.frame import CONSECUTIVE, Pattern
from bookie.protocol.availability import (
    EMPTY,
    ENTRY_ID_MAX,
    PATTERN_MAX,
    SEQUENCES_MAX,
    EntrySet,
)
from hypothesis import given, settings
from hypothesis import strategies as st

plain_sets = st.frozensets(st.integers(0, 60), max_size=40)
fast = settings(deadline=None, max_examples=200)


def entries(ids: Iterable[int]) -> EntrySet:
    return EntrySet.from_ranges((entry_id, entry_id) for entry_id in ids)


def plain(found: EntrySet) -> set[int]:
    found._check()
    return {entry_id for first, last in found.ranges() for entry_id in range(first, last + 1)}


def groups(blob: bytes) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack(">qqii", blob[64:]))


def blob_of(*rows: tuple[int, int, int, int], version: int = 0, count: int | None = None) -> bytes:
    header = struct.pack(">ii56x", version, len(rows) if count is None else count)
    return header + b"".join(struct.pack(">qqii", *row) for row in rows)


def test_sequences_without_gaps_are_one_interval_however_many() -> None:
    last = 3 * SEQUENCES_MAX * 2
    whole = EntrySet.decode(blob_of((0, last, 3, 3)))
    assert whole == EntrySet.from_ranges([(0, last + 2)])


@given(plain_sets, plain_sets)
@fast
def test_operators_agree_with_plain_sets(a: frozenset[int], b: frozenset[int]) -> None:
    left, right = entries(a), entries(b)
    assert plain(left | right) == a | b
    assert plain(left & right) == a & b
    assert plain(left - right) == a - b
    assert (left <= right) == (a <= b)
    assert (left == right) == (a == b)


@given(plain_sets, st.integers(-3, 65), st.integers(-3, 65))
@fast
def test_lookup_length_and_clip_agree_with_plain_sets(
    a: frozenset[int], first: int, last: int
) -> None:
    found = entries(a)
    assert len(found) == len(a) and bool(found) is bool(a) and found.is_empty is (not a)
    assert [e for e in range(-2, 65) if e in found] == sorted(a)
    assert plain(found.clip(first, last)) == {e for e in a if first <= e <= last}


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=12))
@fast
def test_overlapping_ranges_are_merged(spans: list[tuple[int, int]]) -> None:
    found = EntrySet.from_ranges((first, first + more) for first, more in spans)
    assert plain(found) == {e for first, more in spans for e in range(first, first + more + 1)}
    ranges = found.ranges()
    assert all(b[0] > a[1] + 1 for a, b in pairwise(ranges))


@given(plain_sets)
@fast
def test_a_blob_decodes_to_the_same_set(a: frozenset[int]) -> None:
    assert plain(EntrySet.decode(entries(a).encode())) == a


@given(plain_sets)
@fast
def test_an_uncondensed_foreign_blob_is_read(a: frozenset[int]) -> None:
    blob = blob_of(*((e, e, 1, 0) for e in sorted(a, reverse=True)))
    assert EntrySet.decode(blob) == entries(a)


patterns = st.one_of(
    st.just(CONSECUTIVE),
    st.tuples(st.integers(1, 4), st.integers(1, 4)).map(lambda p: Pattern(p[0], p[0] + p[1])),
)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), patterns), max_size=5))
@fast
def test_runs_hold_the_ids_of_their_pattern(runs: list[tuple[int, int, Pattern]]) -> None:
    expected = {p.id_at(first, i) for first, count, p in runs for i in range(count)}
    assert plain(EntrySet.from_runs(runs)) == expected


@given(plain_sets)
@fast
def test_a_set_cut_into_runs_is_the_same_set(a: frozenset[int]) -> None:
    runs = entries(a).runs()
    assert EntrySet.from_runs(runs) == entries(a)
    assert sum(count for _first, count, _pattern in runs) == len(a)


@pytest.mark.parametrize(("size", "period"), [(1, 2), (2, 3), (1, PATTERN_MAX), (3, PATTERN_MAX)])
def test_a_striped_share_is_one_run(size: int, period: int) -> None:
    share = entries(at * period + i for at in range(4) for i in range(size))
    assert share.runs() == [(0, 4 * size, Pattern(size, period))]


def test_sequences_too_far_apart_for_a_frame_are_consecutive_runs() -> None:
    far = EntrySet.from_ranges([(0, 1), (70_000, 70_001), (140_000, 140_001)])
    assert [pattern for _f, _c, pattern in far.runs()] == [CONSECUTIVE] * 3


def test_published_example_1_is_one_group() -> None:
    assert groups(entries([1, 2, 4, 5, 7, 8, 10, 11]).encode()) == [(1, 10, 2, 3)]


def test_published_example_2_is_four_groups() -> None:
    blob = entries([1, 2, 3, 6, 7, 8, 11, 13, 16, 17, 18, 21, 22]).encode()
    assert groups(blob) == [(1, 6, 3, 5), (11, 13, 1, 2), (16, 16, 3, 0), (21, 21, 2, 0)]
    assert len(blob) == 64 + 4 * 24


def test_a_striped_replica_stays_small() -> None:
    striped = EntrySet.from_runs([(1, 6667, Pattern(2, 3))])
    assert len(striped.encode()) <= 64 + 2 * 24


def test_header_is_version_0_and_the_number_of_groups() -> None:
    assert entries([5]).encode()[:64] == struct.pack(">ii56x", 0, 1)
    assert EntrySet.decode(EMPTY.encode()) == EMPTY


def test_an_interval_longer_than_int32_survives_the_codec() -> None:
    huge = EntrySet.from_ranges([(3, 2**33), (2**40, 2**40 + 1)])
    assert EntrySet.decode(huge.encode()) == huge


def test_a_gap_longer_than_int32_survives_the_codec() -> None:
    far = EntrySet.from_ranges([(0, 0), (2**35, 2**35), (2**36, 2**36)])
    assert EntrySet.decode(far.encode()) == far


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\0" * 63,
        blob_of((1, 1, 1, 0), version=1),
        blob_of((1, 1, 1, 0), count=2),
        blob_of((1, 1, 1, 0), count=-1),
        blob_of((5, 1, 1, 1)),
        blob_of((1, 5, 1, 0)),
        blob_of((1, 6, 1, 2)),
        blob_of((1, 1, 0, 0)),
        blob_of((-4, 1, 1, 5)),
        blob_of((0, 2**62, 1, 2)),
        blob_of((2**63 - 2, 2**63 - 2, 9, 0)),
    ],
    ids=range(12),
)
def test_bytes_that_are_no_blob_are_refused(blob: bytes) -> None:
    with pytest.raises(FrameError):
        EntrySet.decode(blob)


@pytest.mark.parametrize("groups", range(1, 18))
def test_no_number_of_endless_groups_adds_up_to_a_set(groups: int) -> None:
    """Sums of 64 bits wrap round: of 4 of these to below 0, of 8 to 0, of 9 to one of them."""
    endless = (0, 2**62 - 2, 1, 2)
    with pytest.raises(FrameError, match="more than"):
        EntrySet.decode(blob_of(*[endless] * groups))


@pytest.mark.parametrize("bad", [(-1, 2), (5, 4), (0, ENTRY_ID_MAX + 1)])
def test_impossible_ranges_are_refused(bad: tuple[int, int]) -> None:
    with pytest.raises(FrameError):
        EntrySet.from_ranges([bad])


def test_a_set_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        entries([1, 2]).starts[0] = 0


def test_equal_sets_hash_alike_and_show_their_ranges() -> None:
    assert hash(entries([1, 2])) == hash(EntrySet.from_ranges([(1, 2)]))
    assert repr(entries([1, 2, 9])) == "EntrySet(1-2, 9-9)"
    assert entries([4, 9]).first == 4 and entries([4, 9]).last == 9
