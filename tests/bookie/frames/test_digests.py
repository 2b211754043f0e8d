"""Digests of whole runs: as strict as looking at one entry after the other."""

import pytest
from bookie.frames.build import build_run
from bookie.frames.digests import VerifiedRun, verify_run
from bookie.frames.entry import DIGEST_BYTES, ENTRY_HEADER_BYTES, DigestType, EntryCodec
from bookie.frames.frame import CONSECUTIVE, Pattern, parse_run
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from hypothesis import given
from hypothesis import strategies as st
from recovery_lab import CODEC, LEDGER

FIRST = EntryId(5)
LAST = 10**6


def payloads(count: int) -> list[bytes]:
    return [b"p" * (number % 3) + bytes([number]) for number in range(count)]


def entries(codec: EntryCodec, count: int, pattern: Pattern = CONSECUTIVE) -> list[bytes]:
    return [
        codec.encode(EntryId(pattern.id_at(FIRST, i)), payload, lac=NO_ENTRY, length=1)
        for i, payload in enumerate(payloads(count))
    ]


def verified(
    bodies: list[bytes],
    codec: EntryCodec = CODEC,
    *,
    first: int = 0,
    last: int = LAST,
    pattern: Pattern = CONSECUTIVE,
    ledger_id: LedgerId = LEDGER,
) -> VerifiedRun:
    frame = build_run(ledger_id, FIRST, bodies, lac=NO_ENTRY, pattern=pattern)
    return verify_run(parse_run(frame), codec, first=first, last=last)


@pytest.mark.parametrize("kind", DigestType)
@pytest.mark.parametrize("count", [1, 3, 40])
def test_right_entries_come_as_they_were_written(kind: DigestType, count: int) -> None:
    codec = EntryCodec(LEDGER, kind, b"secret")
    bodies = entries(codec, count)
    run = verified(bodies, codec)
    assert (list(run.ids), list(run.payloads())) == (list(range(5, 5 + count)), payloads(count))
    assert list(map(bytes, run.entries())) == bodies and not run.corrupt


@pytest.mark.parametrize("kind", [kind for kind in DigestType if DIGEST_BYTES[kind]])
@given(at=st.integers(0, 39), place=st.integers(16, 10**6), bit=st.integers(0, 7))
def test_any_flipped_bit_is_found_and_spoils_its_entry_only(
    kind: DigestType, at: int, place: int, bit: int
) -> None:
    codec = EntryCodec(LEDGER, kind, b"secret")
    bodies = entries(codec, 40)
    bad = bytearray(bodies[at])
    bad[16 + (place - 16) % (len(bad) - 16)] ^= 1 << bit  # the ids before are the frame's matter
    run = verified([*bodies[:at], bytes(bad), *bodies[at + 1 :]], codec)
    assert list(run.corrupt) == [5 + at] and 5 + at not in run.ids
    assert list(map(bytes, run.entries())) == bodies[:at] + bodies[at + 1 :]


def spoilt_if(is_spoilt: bool, entry_id: EntryId, payload: bytes) -> bytes:
    """An entry that says another length than its digest was made of, or the same."""
    body = CODEC.encode(entry_id, payload, lac=NO_ENTRY, length=1 + is_spoilt)
    return body[: ENTRY_HEADER_BYTES - 1] + b"\1" + body[ENTRY_HEADER_BYTES:]


@given(
    sizes=st.one_of(
        st.lists(st.integers(0, 2), min_size=1, max_size=40),
        st.integers(1, 40).map(lambda count: [2] * count),
    ),
    spoilt=st.sets(st.integers(0, 39), max_size=4),
    pattern=st.sampled_from([CONSECUTIVE, Pattern(1, 3), Pattern(2, 3)]),
    first=st.integers(0, 40),
    last=st.integers(0, 70),
)
def test_a_run_says_of_its_entries_what_each_of_them_says_by_itself(
    sizes: list[int], spoilt: set[int], pattern: Pattern, first: int, last: int
) -> None:
    ids = [EntryId(pattern.id_at(FIRST, at)) for at in range(len(sizes))]
    bodies = [spoilt_if(at in spoilt, ids[at], bytes([at]) * size) for at, size in enumerate(sizes)]
    run = verified(bodies, pattern=pattern, first=first, last=last)
    asked = [at for at, entry_id in enumerate(ids) if first <= entry_id <= last]
    right = [at for at in asked if at not in spoilt]
    assert list(run.corrupt) == [ids[at] for at in asked if at in spoilt]
    assert list(run.ids) == [ids[at] for at in right]
    assert list(map(bytes, run.entries())) == [bodies[at] for at in right]
    assert list(run.payloads()) == [bytes([at]) * sizes[at] for at in right]


def test_an_entry_too_short_for_its_digest_is_corrupt() -> None:
    bodies = entries(CODEC, 3)
    bodies[1] = bodies[1][: ENTRY_HEADER_BYTES + 1]
    run = verified(bodies)
    assert (list(run.ids), run.corrupt) == ([5, 7], [6])


def test_a_run_of_another_ledger_holds_nothing_right() -> None:
    other = EntryCodec(LedgerId(8), DigestType.CRC32C, b"")
    run = verified(entries(other, 2), ledger_id=LedgerId(8))
    assert not run.ids and list(run.corrupt) == [5, 6] and not run.entries()


def test_only_ids_within_the_range_are_looked_at() -> None:
    bodies = entries(CODEC, 5)
    bodies[0] = bodies[0][:-1] + b"?"
    run = verified(bodies, first=6, last=8)
    assert list(run.ids) == [6, 7, 8] and not run.corrupt
    assert not verified(bodies, first=20).ids


def test_a_striped_run_is_cut_at_its_own_ids() -> None:
    pattern = Pattern(2, 3)  # 5 6, 8 9, 11
    run = verified(entries(CODEC, 5, pattern), pattern=pattern, first=6, last=9)
    assert (list(run.ids), list(run.payloads())) == ([6, 8, 9], payloads(5)[1:4])
