"""Batches: cut as the limits say, and the same bytes whichever way they were put together."""

from itertools import accumulate

import pytest
from bookie.errors import BadRequestError
from bookie.frames.entry import DigestType, EntryCodec
from bookie.frames.frame import FRAME_BYTES_MAX, FRAME_HEADER_BYTES, LENGTHS, parse_run
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.batches import QUEUE_LIST_MAX, Batch, BatchQueue
from bookie.protocol.ledger import Fragment, LedgerMetadata
from hypothesis import given
from hypothesis import strategies as st

LEDGER = LedgerId(7)
LAC = EntryId(-1)
LENGTH_BYTES = LENGTHS.itemsize
"""Of an entry in the frame's column of lengths."""
each_digest = pytest.mark.parametrize("kind", DigestType, ids=lambda kind: kind.name)
payload_lists = st.one_of(
    st.lists(st.binary(max_size=40), min_size=1, max_size=80),
    st.builds(lambda size, count: [bytes(size)] * count, st.integers(0, 30), st.integers(1, 600)),
)


def gatherer(
    kind: DigestType = DigestType.CRC32C, *, size: int = 3, batch_bytes: int = 2**20
) -> BatchQueue:
    ensemble = tuple(BookieId(f"bookie-{n}") for n in range(size))
    fragments = (Fragment(EntryId(0), ensemble),)
    metadata = LedgerMetadata(LEDGER, size, 3, 2, fragments, digest_type=kind, password=b"secret")
    return BatchQueue(metadata, batch_bytes=batch_bytes)


def batches_of(made: BatchQueue) -> list[Batch]:
    found = []
    while made.queued:
        found.append(made.take(lac=LAC))
        made._check()
    return found


def entries_of(batches: list[Batch]) -> dict[int, bytes]:
    runs = [parse_run(run.frame) for batch in batches for run in batch.runs]
    return {
        i: bytes(e) for run in runs for i, e in zip(run.entry_ids(), run.entries(), strict=True)
    }


def plainly(kind: DigestType, payloads: list[bytes]) -> dict[int, bytes]:
    codec, lengths = EntryCodec(LEDGER, kind, b"secret"), accumulate(map(len, payloads))
    return {
        i: codec.encode(EntryId(i), payload, lac=LAC, length=length)
        for i, (payload, length) in enumerate(zip(payloads, lengths, strict=True))
    }


@each_digest
@pytest.mark.parametrize("size", [3, 5])
@given(payloads=payload_lists)
def test_a_batch_holds_each_entry_as_if_made_alone(
    kind: DigestType, size: int, payloads: list[bytes]
) -> None:
    made = gatherer(kind, size=size)
    made.append(payloads)
    assert entries_of(batches_of(made)) == plainly(kind, payloads)


@given(payloads=payload_lists, batch_bytes=st.integers(1, 900))
def test_lengths_and_ids_go_on_from_batch_to_batch(payloads: list[bytes], batch_bytes: int) -> None:
    made = gatherer(batch_bytes=batch_bytes)
    made.append(payloads)
    batches = batches_of(made)
    assert entries_of(batches) == plainly(DigestType.CRC32C, payloads)
    assert batches[-1].last == made.last_appended == len(payloads) - 1
    assert batches[-1].length == sum(map(len, payloads)) and made.queued_bytes == 0


@pytest.mark.parametrize("size", [3, 5])
@given(payloads=payload_lists, batch_bytes=st.integers(1, 900))
def test_a_batch_says_which_entries_it_has_and_how_long_the_ledger_is_with_them(
    size: int, payloads: list[bytes], batch_bytes: int
) -> None:
    made = gatherer(size=size, batch_bytes=batch_bytes)
    made.append(payloads)
    first = 0
    for batch in batches_of(made):
        assert sorted(entries_of([batch])) == list(range(first, batch.last + 1))
        assert batch.count == batch.last + 1 - first >= 1
        first += batch.count
        assert batch.length == sum(map(len, payloads[:first]))


@given(
    lists=st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=9), min_size=1, max_size=9),
    batch_bytes=st.integers(1, 120),
)
def test_a_batch_ends_with_the_payload_that_fills_it(
    lists: list[list[int]], batch_bytes: int
) -> None:
    made = gatherer(batch_bytes=batch_bytes)
    for sizes in lists:
        made.append([bytes(size) for size in sizes])
    left, cuts = [size for sizes in lists for size in sizes], []
    while left:
        count = next((n for n in range(1, len(left)) if sum(left[:n]) >= batch_bytes), len(left))
        cuts.append((cuts[-1] if cuts else -1) + count)
        left = left[count:]
    assert [batch.last for batch in batches_of(made)] == cuts


def test_single_payloads_and_lists_keep_their_order() -> None:
    made = gatherer()
    payloads = [b"%d" % n for n in range(2 * QUEUE_LIST_MAX + 7)]
    made.append_one(payloads[0])
    made.append(payloads[1 : QUEUE_LIST_MAX + 5])
    for payload in payloads[QUEUE_LIST_MAX + 5 :]:
        made.append_one(payload)
    assert entries_of(batches_of(made)) == plainly(DigestType.CRC32C, payloads)


def test_what_does_not_fit_the_frame_waits_for_the_next_batch() -> None:
    made = gatherer(batch_bytes=FRAME_BYTES_MAX)
    made.append([bytes(2_000_000)] * 5)
    assert [batch.last for batch in batches_of(made)] == [1, 3, 4]


@each_digest
@pytest.mark.parametrize("count", [2, 17, 300])
@pytest.mark.parametrize("over", [0, 1, 7])
def test_a_frame_is_filled_to_its_last_byte_and_no_further(
    kind: DigestType, count: int, over: int
) -> None:
    head_bytes = EntryCodec(LEDGER, kind, b"secret").head_bytes
    room = FRAME_BYTES_MAX - FRAME_HEADER_BYTES - count * (head_bytes + LENGTH_BYTES)
    share = room // count
    made = gatherer(kind, batch_bytes=2 * FRAME_BYTES_MAX)
    made.append([bytes(share)] * (count - 1) + [bytes(room - share * (count - 1) + over)])
    first, *others = [len(run.frame) for batch in batches_of(made) for run in batch.runs]
    assert first <= FRAME_BYTES_MAX and len(others) == (over > 0)
    assert over or first == FRAME_BYTES_MAX


def test_a_list_may_be_changed_by_its_owner_after_the_append() -> None:
    made, payloads = gatherer(), [b"one", b"two"]
    made.append(payloads)
    payloads.clear()
    assert made.take(lac=NO_ENTRY).last == 1


def test_the_heads_of_a_ledger_far_along_are_right() -> None:
    made = gatherer()
    made.last_pushed, made.length_pushed = EntryId(2**40 - 29), 2**50 - 3
    made.append([bytes(3)] * 20)
    run = parse_run(made.take(lac=LAC).runs[0].frame)
    codec = EntryCodec(LEDGER, DigestType.CRC32C, b"secret")
    heads = [codec.decode(entry)[0] for entry in run.entries()]
    assert [head.length for head in heads] == [2**50 + 3 * n for n in range(20)]
    assert [head.entry_id for head in heads] == [2**40 - 28 + n for n in range(20)]


@pytest.mark.parametrize("size", [3, 4])
def test_a_ledger_takes_no_entry_whose_metadata_nobody_would_read(size: int) -> None:
    made = gatherer(size=size)
    end = 2**40 if size == 3 else 4 * 2**24
    made.last_pushed = EntryId(end - 3)
    assert made.append_one(b"last") == end - 2
    for add in (made.append_one, lambda payload: made.append([payload])):
        with pytest.raises(BadRequestError, match=f"expected {end - 2} at most.*another ledger"):
            add(b"more")
    assert made.queued == 1
