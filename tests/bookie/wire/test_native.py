"""Native messages: round trips, and bodies that are cut, oversize or make no sense."""

from collections.abc import Callable

import pytest
from bookie.errors import FrameError
from bookie.frames.build import build_run
from bookie.frames.entry import ENTRY_HEADER, Buffer
from bookie.frames.frame import CONSECUTIVE
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.protocol.status import Status
from bookie.testing.native_messages import message_bytes, parse_envelope
from bookie.wire.native import (
    ENVELOPE,
    ENVELOPE_BYTES,
    MESSAGE_BYTES_MAX,
    UNKNOWN_RANGES_MAX,
    LacReply,
    LacRequest,
    Op,
    ReadReply,
    ReadRequest,
    envelope_header,
    next_message,
    parse_add,
    total_bytes,
)
from hypothesis import given
from hypothesis import strategies as st

KEY = bytes(range(20))
ids = st.integers(0, 2**63 - 1)
ids_or_none = st.integers(-1, 2**63 - 1)


def run_of(first: int, count: int = 1) -> bytes:
    entries = [ENTRY_HEADER.pack(1, first + index, -1, 0) for index in range(count)]
    return bytes(build_run(LedgerId(1), EntryId(first), entries, lac=NO_ENTRY))


def joined(buffers: list[Buffer]) -> memoryview:
    return memoryview(b"".join(buffers))


@given(op=st.sampled_from(Op), code=st.integers(0, 255), request_id=st.integers(0, 2**64 - 1))
def test_an_envelope_comes_back(op: Op, code: int, request_id: int) -> None:
    message = envelope_header(op, code, request_id, 3) + b"abc"
    assert message_bytes(message[:ENVELOPE_BYTES]) == len(message) == 19
    found = parse_envelope(message)
    assert (found.op, found.code, found.request_id, bytes(found.body)) == (
        op,
        code,
        request_id,
        b"abc",
    )


def test_an_oversize_message_is_refused_before_it_is_read() -> None:
    longest, oversize = (
        memoryview(ENVELOPE.pack(MESSAGE_BYTES_MAX + more, 1, 0, 0, 1)) for more in (0, 1)
    )
    assert next_message(longest, 0, len(longest)) == (MESSAGE_BYTES_MAX + 16, None)
    with pytest.raises(FrameError, match="exceeds"):
        next_message(oversize, 0, len(oversize))


@pytest.mark.parametrize("op", [0, 99, 255])
def test_an_unknown_operation_is_refused(op: int) -> None:
    with pytest.raises(FrameError, match=f"unknown operation {op}"):
        parse_envelope(ENVELOPE.pack(0, op, 0, 0, 1))


def test_numbers_of_operations_do_not_drift() -> None:
    assert [(op.name, op.value) for op in Op] == [
        ("ADD_RUN", 1),
        ("READ", 2),
        ("READ_LAC", 3),
        ("WRITE_LAC", 4),
        ("WAIT_LAC", 5),
        ("FORCE", 6),
        ("HELLO", 7),
    ]


def test_an_add_is_key_and_run() -> None:
    key, run = parse_add(memoryview(KEY + run_of(4, 2)))
    assert (key, run.first_entry_id, run.count) == (KEY, 4, 2)


@pytest.mark.parametrize("size", [0, 19, 20, 67, 99])
def test_a_cut_add_is_refused(size: int) -> None:
    with pytest.raises(FrameError):
        parse_add(memoryview(KEY + run_of(4))[:size])


def add_of(run: bytes, *, op: Op = Op.ADD_RUN) -> bytes:
    return envelope_header(op, 0, 9, len(KEY) + len(run)) + KEY + run


@pytest.mark.parametrize("count", [1, 2])
def test_an_add_is_its_key_and_its_checked_run(count: int) -> None:
    key, run = parse_add(parse_envelope(add_of(run_of(4, count))).body)
    assert key == KEY and run[:-1] == (1, 4, NO_ENTRY, count, CONSECUTIVE, 0)
    assert run.buffer == run_of(4, count)


@pytest.mark.parametrize("run", [run_of(4)[:-1], run_of(4)[:-1] + b"x", b""])
def test_an_add_of_no_good_run_is_refused(run: bytes) -> None:
    with pytest.raises(FrameError):
        parse_add(parse_envelope(add_of(run)).body)


@given(ledger=ids, first=ids, more=st.integers(0, 1000), bytes_max=st.integers(0, 2**32 - 1))
def test_a_read_request_comes_back(ledger: int, first: int, more: int, bytes_max: int) -> None:
    last = min(first + more, 2**63 - 1)
    request = ReadRequest(LedgerId(ledger), EntryId(first), EntryId(last), bytes_max, KEY)
    assert ReadRequest.decode(request.encode()) == request


@pytest.mark.parametrize("ledger, first, last", [(-1, 0, 0), (1, -1, 0), (1, 5, 4), (1, 0, -1)])
def test_a_read_of_a_senseless_range_is_refused(ledger: int, first: int, last: int) -> None:
    request = ReadRequest(LedgerId(ledger), EntryId(first), EntryId(last), 1, KEY)
    with pytest.raises(FrameError):
        ReadRequest.decode(request.encode())


@given(
    lacs=st.tuples(ids_or_none, ids_or_none, ids_or_none),
    absent=st.sampled_from(Status),
    unknown=st.lists(st.tuples(ids, ids), max_size=4),
    counts=st.lists(st.integers(1, 5), max_size=4),
)
def test_a_read_reply_comes_back(
    lacs: tuple[int, int, int],
    absent: Status,
    unknown: list[tuple[int, int]],
    counts: list[int],
) -> None:
    runs = tuple(run_of(index * 10, count) for index, count in enumerate(counts))
    lac, last, through = map(EntryId, lacs)
    reply = ReadReply(lac, last, through, absent, tuple(unknown), runs)
    found = ReadReply.decode(joined(reply.encode()))
    assert tuple(map(bytes, found.runs)) == runs
    assert (found.lac, found.last_entry_id, found.answered_through) == lacs
    assert (found.absent, found.unknown) == (absent, tuple(unknown))
    assert total_bytes(reply.encode()) == len(joined(reply.encode()))


def a_reply() -> memoryview:
    two = (run_of(0), run_of(5, 2))
    return joined(
        ReadReply(NO_ENTRY, NO_ENTRY, EntryId(9), Status.UNKNOWN, ((1, 4),), two).encode()
    )


def test_very_many_unknown_ranges_are_told_as_fewer_that_hold_them_all() -> None:
    spans = tuple((10 * number, 10 * number + 1) for number in range(100_000))
    reply = ReadReply(NO_ENTRY, NO_ENTRY, EntryId(10**6), Status.NO_SUCH_ENTRY, spans, ())
    found = ReadReply.decode(joined(reply.encode())).unknown
    assert len(found) == UNKNOWN_RANGES_MAX and found[:2] == spans[:2]
    assert found[-1] == (spans[UNKNOWN_RANGES_MAX - 1][0], spans[-1][1])


def test_a_read_reply_cut_anywhere_never_passes_for_a_shorter_one() -> None:
    whole = a_reply()
    for size in range(len(whole)):
        with pytest.raises(FrameError):
            ReadReply.decode(whole[:size])


def test_a_read_reply_with_bytes_left_over_is_refused() -> None:
    with pytest.raises(FrameError, match="announces"):
        ReadReply.decode(memoryview(bytes(a_reply()) + b"x"))


def test_a_status_nobody_knows_is_refused() -> None:
    damaged = bytearray(a_reply())
    damaged[24] = 200
    with pytest.raises(FrameError):
        ReadReply.decode(memoryview(damaged))


@given(ledger=ids, lac=ids_or_none, timeout_ms=st.integers(0, 60_000))
def test_a_lac_request_comes_back(ledger: int, lac: int, timeout_ms: int) -> None:
    request = LacRequest(LedgerId(ledger), KEY, EntryId(lac), timeout_ms)
    assert LacRequest.decode(request.encode()) == request


@pytest.mark.parametrize("ledger, lac", [(-1, 0), (1, -2)])
def test_a_senseless_lac_request_is_refused(ledger: int, lac: int) -> None:
    with pytest.raises(FrameError):
        LacRequest.decode(LacRequest(LedgerId(ledger), KEY, EntryId(lac)).encode())


@given(lac=ids_or_none, last=ids_or_none)
def test_a_lac_reply_comes_back(lac: int, last: int) -> None:
    reply = LacReply(EntryId(lac), EntryId(last))
    assert LacReply.decode(reply.encode()) == reply


@pytest.mark.parametrize(
    "decode, body",
    [
        (ReadRequest.decode, ReadRequest(LedgerId(1), EntryId(0), EntryId(0), 1, KEY).encode()),
        (LacRequest.decode, LacRequest(LedgerId(1), KEY).encode()),
        (LacReply.decode, LacReply(NO_ENTRY, NO_ENTRY).encode()),
    ],
    ids=["read", "LAC request", "LAC reply"],
)
def test_a_cut_body_says_what_it_should_be(decode: Callable[[bytes], object], body: bytes) -> None:
    for size in range(len(body)):
        with pytest.raises(FrameError, match=f"has {len(body)} bytes, found {size}"):
            decode(body[:size])


@pytest.mark.parametrize("status", Status)
def test_only_the_two_no_such_answers_deny(status: Status) -> None:
    assert status.is_denial == (status.name in ("NO_SUCH_LEDGER", "NO_SUCH_ENTRY"))
    assert status.is_known == (status.is_denial or status is Status.OK)
