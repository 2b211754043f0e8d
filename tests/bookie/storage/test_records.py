"""Ledger records and boundaries: merging in any order, and their bytes."""

import itertools
import struct
from dataclasses import replace
from functools import reduce

import pytest
from bookie.errors import CorruptError
from bookie.ids import EntryId, LedgerId
from bookie.storage.records import (
    LAC_BODY_BYTES_MAX,
    MASTER_KEY_BYTES_MAX,
    RETURNS_MAX,
    Boundary,
    LedgerRecord,
    union,
)
from bookie.wire import native
from bookie.wire.stock import messages
from hypothesis import given, settings
from hypothesis import strategies as st


def lac_body(lac: int, digest: bytes = b"sign") -> bytes:
    return struct.pack(">qq", 7, lac) + digest


records = st.builds(
    LedgerRecord,
    st.just(LedgerId(7)),
    master_key=st.sampled_from([None, b"k" * 20]),
    fenced=st.booleans(),
    limbo=st.booleans(),
    mark_epoch=st.integers(0, 3),
    checked_epoch=st.integers(0, 3),
    explicit_lac=st.integers(-1, 3).map(EntryId),
    deleted=st.booleans(),
    returns=st.integers(0, 2),
    lac_body=st.sampled_from([b"", lac_body(2), lac_body(2, b"else"), lac_body(3)]),
)
ledger_ids = st.integers(0, 30).map(LedgerId)
boundaries = st.builds(Boundary, st.integers(1, 4), ledger_ids, st.frozensets(ledger_ids))


@settings(deadline=None, max_examples=100)
@given(st.lists(records, min_size=1, max_size=3))
def test_states_merge_to_the_same_in_every_order_and_twice(states: list[LedgerRecord]) -> None:
    merged = {
        reduce(LedgerRecord.merged, order + order) for order in itertools.permutations(states)
    }
    assert len(merged) == 1


@settings(deadline=None, max_examples=100)
@given(records)
def test_a_record_survives_its_encoding(record: LedgerRecord) -> None:
    assert LedgerRecord.decode(record.encode()) == record


def test_an_old_state_takes_back_no_fence_no_tombstone_and_no_newer_mark() -> None:
    old = LedgerRecord(LedgerId(7))
    new = replace(old.marked(3), deleted=True, explicit_lac=EntryId(9))
    assert new.merged(old) == old.merged(new) == new


def test_a_cleared_mark_stays_cleared_until_a_later_boot_marks_again() -> None:
    marked = LedgerRecord(LedgerId(7)).marked(3)
    cleared = replace(marked, limbo=False)
    assert not cleared.merged(marked).limbo
    assert cleared.merged(marked.marked(4)).limbo


def test_a5_a_tombstone_gives_way_to_a_mark_and_no_older_state_brings_it_back() -> None:
    held = LedgerRecord(LedgerId(7), b"k", fenced=True, mark_epoch=3, lac_body=lac_body(2))
    buried = replace(held, deleted=True, lac_body=b"")
    back = buried.marked(3)
    assert back.limbo and back.fenced and not back.deleted and back.returns == 1
    for older in (held, buried, held.marked(4), replace(buried, mark_epoch=4)):
        assert older.merged(back).limbo and not older.merged(back).deleted
    again = replace(back, deleted=True, limbo=False)
    assert back.merged(again) == again == again.merged(buried)


def test_a5_after_many_returns_a_tombstone_stays() -> None:
    buried = LedgerRecord(LedgerId(7), fenced=True, deleted=True, returns=RETURNS_MAX)
    assert buried.marked(9) == buried == LedgerRecord.decode(buried.encode())


def test_a_boot_that_marked_twice_waits_for_what_it_saw_being_recovered_in_either_look() -> None:
    looks = [Boundary(2, LedgerId(n), recovering=frozenset({LedgerId(n)})) for n in (5, 6)]
    both = Boundary(2, LedgerId(6), recovering=frozenset({LedgerId(5), LedgerId(6)}))
    assert looks[0].merged(looks[1]) == looks[1].merged(looks[0]) == both


def test_of_two_boots_the_later_says_what_was_being_recovered() -> None:
    earlier = Boundary(1, LedgerId(5), recovering=frozenset({LedgerId(5)}))
    later = Boundary(2, LedgerId(5), recovering=frozenset({LedgerId(4)}))
    assert earlier.merged(later) == later.merged(earlier) == later


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x07" + bytes(60)])
def test_bytes_that_are_no_record_are_refused(payload: bytes) -> None:
    with pytest.raises(CorruptError):
        LedgerRecord.decode(payload)


def test_a_cut_off_master_key_is_refused() -> None:
    payload = LedgerRecord(LedgerId(7), master_key=b"k" * 20).encode()
    with pytest.raises(CorruptError, match="record of ledger 7: 19 bytes follow, its key has 20"):
        LedgerRecord.decode(payload[:-1])


def test_a_record_of_an_older_version_is_read_and_one_without_a_lac_body_is_written_as_one() -> (
    None
):
    old = bytes.fromhex("01 03 02 0000000000000007 0000000000000003 0000000000000000"
                        "0000000000000009 6b6b")  # fmt: skip
    record = LedgerRecord(
        LedgerId(7), b"kk", fenced=True, limbo=True, mark_epoch=3, explicit_lac=EntryId(9)
    )
    assert LedgerRecord.decode(old) == record and record.encode() == old


def test_the_higher_signed_lac_stays_whatever_a_native_client_told() -> None:
    signed = LedgerRecord(LedgerId(7), explicit_lac=EntryId(9), lac_body=lac_body(9))
    told = LedgerRecord(LedgerId(7), explicit_lac=EntryId(12))
    older = LedgerRecord(LedgerId(7), explicit_lac=EntryId(8), lac_body=lac_body(8))
    assert older.merged(told).merged(signed).lac_body == lac_body(9)


@pytest.mark.parametrize("digest", [b"", b"s", b"sign"])
@pytest.mark.parametrize(("lower", "higher"), [(-1, 0), (8, 9), (255, 256)])
def test_the_higher_signed_lac_wins_whatever_it_is_signed_with(
    lower: int, higher: int, digest: bytes
) -> None:
    old = LedgerRecord(LedgerId(7), lac_body=lac_body(lower, b"more"))
    new = LedgerRecord(LedgerId(7), lac_body=lac_body(higher, digest))
    assert old.merged(new).lac_body == new.merged(old).lac_body == lac_body(higher, digest)


@settings(deadline=None, max_examples=100)
@given(st.lists(boundaries, max_size=3), ledger_ids)
def test_a_union_of_boundaries_covers_what_any_covers(
    parts: list[Boundary], ledger_id: LedgerId
) -> None:
    whole = union(parts)
    assert (whole is not None and whole.covers(ledger_id)) == any(
        part.covers(ledger_id) for part in parts
    )


@settings(deadline=None, max_examples=100)
@given(boundaries)
def test_a_boundary_survives_its_encoding(boundary: Boundary) -> None:
    assert Boundary.decode(boundary.encode()) == boundary


@pytest.mark.parametrize("payload", [b"", b"\x02" * 40, Boundary(1, LedgerId(1)).encode() + b"x"])
def test_bytes_that_are_no_boundary_are_refused(payload: bytes) -> None:
    with pytest.raises(CorruptError):
        Boundary.decode(payload)


def test_the_longest_key_and_lac_body_come_back() -> None:
    body = lac_body(3, bytes(LAC_BODY_BYTES_MAX - 16))
    longest = LedgerRecord(LedgerId(7), master_key=b"k" * MASTER_KEY_BYTES_MAX, lac_body=body)
    assert LedgerRecord.decode(longest.encode()) == longest


def test_a_record_takes_whatever_key_and_lac_body_a_wire_takes() -> None:
    assert messages.LAC_BODY_BYTES_MAX <= LAC_BODY_BYTES_MAX
    assert max(messages.MASTER_KEY_BYTES, native.MASTER_KEY_BYTES) <= MASTER_KEY_BYTES_MAX
