"""Streams of frames: versions found, frames cut anywhere, and no bytes that do worse than close."""

import struct

import numpy as np
import pytest
from bookie.errors import FrameError
from bookie.frames.entry import ENTRY_BYTES_MAX, ENTRY_HEADER, Buffer
from bookie.ids import LedgerId
from bookie.protocol.availability import GROUP, HEADER_BYTES, EntrySet
from bookie.protocol.status import Status
from bookie.wire.stock import bookkeeper_protocol_pb2 as proto
from bookie.wire.stock.connection import StockConnection
from bookie.wire.stock.framing import FRAME_BYTES_MAX, FRAME_LENGTH, frame_end
from bookie.wire.stock.messages import (
    Add,
    Auth,
    BatchRead,
    BookieInfo,
    Force,
    ListEntries,
    Outcome,
    Read,
    ReadLac,
    Refused,
    Request,
    StartTls,
    WriteLac,
    outcome_of,
)
from bookie.wire.stock.v2 import V2
from bookie.wire.stock.v3 import V3
from bookie.wire.stock.v3_adds import plain_add
from bookie.wire.stock.wire import Wire
from hypothesis import given
from hypothesis import strategies as st
from stock_client import V3Client
from stock_frames import FRAMES

ASKED = {
    name: frame for name, frame in FRAMES.items() if name.startswith("v") and "_ok" not in name
}
V2_FRAMES = [FRAMES[f"v2_{name}"] for name in ("add", "recovery_add", "read", "batch_read", "auth")]

mutations = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4)
streams = st.lists(st.sampled_from(sorted(ASKED.values())), min_size=1, max_size=4).map(b"".join)


def read_all(stream: Buffer, wire: Wire | StockConnection | None = None) -> list[Request]:
    """Every request up to the end or to the frame that closes the connection."""
    spoken = wire or StockConnection()
    found: list[Request] = []
    view = memoryview(stream)
    try:
        while True:
            *_wire, requests, consumed = spoken.parse_all(view)
            found += requests
            view = view[consumed:]
            if not consumed:
                return found
    except FrameError:
        return found


def mutated(stream: bytes, changes: list[tuple[int, int]]) -> bytes:
    changed = bytearray(stream)
    for at, value in changes:
        changed[at % len(changed)] = value
    return bytes(changed)


def answer(wire: Wire, request: Request) -> bytes:
    """How a failing disk would be told, for whatever request."""
    match request:
        case Add():
            return wire.answer_add(request, Outcome.IO)
        case Read():
            return b"".join(wire.answer_read(request, Outcome.IO))
        case BatchRead():
            return b"".join(wire.answer_batch_read(request, Outcome.IO))
        case ReadLac():
            return b"".join(wire.answer_read_lac(request, Outcome.IO))
        case WriteLac():
            return wire.answer_write_lac(request, Outcome.IO)
        case Force():
            return wire.answer_force(request, Outcome.IO)
        case ListEntries():
            return b"".join(wire.answer_list_entries(request, Outcome.IO))
        case BookieInfo():
            return wire.answer_bookie_info(request, Outcome.IO)
        case Auth():
            return wire.answer_auth(request)
        case StartTls():
            return wire.answer_start_tls(request, Outcome.BAD_REQUEST)
        case Refused():
            return request.answer


def refused(frame: Buffer) -> Refused:
    (request,) = read_all(frame)
    assert isinstance(request, Refused)
    return request


def v2_frame(body: bytes) -> bytes:
    return FRAME_LENGTH.pack(len(body)) + body


def v2_add(ledger: int, entry: int, *, word: int = 0x02010000, payload: int = 0) -> bytes:
    body = ENTRY_HEADER.pack(ledger, entry, -1, 0) + bytes(payload)
    return v2_frame(struct.pack(">I20s", word, b"k" * 20) + body)


@given(st.binary(max_size=300))
def test_random_bytes_do_no_worse_than_close_the_connection(stream: bytes) -> None:
    read_all(stream)
    read_all(v2_frame(stream))
    read_all(v2_frame(stream), V2())


@given(streams, mutations)
def test_changed_frames_do_no_worse_than_close_the_connection(
    stream: bytes, changes: list[tuple[int, int]]
) -> None:
    read_all(mutated(stream, changes))


@given(streams, mutations)
def test_whatever_is_read_can_be_answered_in_one_whole_frame(
    stream: bytes, changes: list[tuple[int, int]]
) -> None:
    wire, requests, _consumed = spoken_first(mutated(stream, changes))
    for request in requests:
        told = answer(wire, request)
        assert frame_end(told, 0) == len(told)


def spoken_first(stream: bytes) -> tuple[Wire, list[Request], int]:
    try:
        return StockConnection().parse_all(memoryview(stream))
    except FrameError:
        return V3(), [], 0


@given(st.lists(st.sampled_from(V2_FRAMES), max_size=5).map(b"".join), mutations)
def test_the_fast_loop_of_version_2_finds_what_the_plain_one_finds(
    stream: bytes, changes: list[tuple[int, int]]
) -> None:
    view = memoryview(mutated(stream, changes) if stream else b"")
    try:
        plain = Wire.parse_all(V2(), view)
    except FrameError:
        plain = [], 0
    assert (read_all(view[: plain[1]], V2()), plain[1]) == plain
    assert len(read_all(view, V2())) >= len(plain[0])


def v3_add(ledger: int, entry: int, *, recovery: bool = False, deferred: bool = False) -> bytes:
    return V3Client(None, None).add(ledger, entry, recovery=recovery, deferred=deferred)  # type: ignore[arg-type]


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.booleans(), st.booleans())
def test_what_stock_clients_write_needs_no_protobuf(
    ledger: int, entry: int, recovery: bool, deferred: bool
) -> None:
    frame = memoryview(v3_add(ledger, entry, recovery=recovery, deferred=deferred))
    add = plain_add(frame)
    assert add is not None and add.entry.obj is frame.obj
    assert add[:2] == (ledger, entry)
    assert (add.is_recovery, add.is_deferred_sync, add.tag) == (recovery, deferred, 1)


@given(st.booleans(), mutations)
def test_no_damage_makes_an_add_of_what_protobuf_reads_as_another(
    recovery: bool, changes: list[tuple[int, int]]
) -> None:
    blob = mutated(v3_add(300, 77, recovery=recovery), changes)
    add = plain_add(memoryview(blob))
    if add is None:
        return
    read = proto.Request.FromString(blob)
    part, header = read.addRequest, read.header
    assert (header.version, header.operation, header.txnId) == (3, proto.ADD_ENTRY, add.tag)
    assert (part.ledgerId, part.entryId, part.masterKey, part.body) == add[:4]
    assert (
        part.flag == proto.AddRequest.RECOVERY_ADD and part.HasField("flag"),
        part.writeFlags,
    ) == (add.is_recovery, add.is_deferred_sync)


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("recovery", [False, True])
@pytest.mark.parametrize("is_odd", [False, True], ids=["plain", "odd"])
def test_an_add_means_the_same_whichever_parser_reads_it(
    recovery: bool, deferred: bool, is_odd: bool
) -> None:
    """Also one that a client of another make has written: only the flag lets it through a fence,
    and an absent one reads as the first that there is."""
    frame = v3_add(300, 77, recovery=recovery, deferred=deferred)
    if is_odd:  # the same message, with its parts in another order
        message = proto.Request.FromString(frame)
        header = proto.Request(header=message.header).SerializePartialToString()
        frame = proto.Request(addRequest=message.addRequest).SerializePartialToString() + header
    assert (plain_add(memoryview(frame)) is None) is is_odd
    add = V3().parse(memoryview(frame))
    assert isinstance(add, Add) and add[:2] == (300, 77)
    assert (add.is_recovery, add.is_deferred_sync, add.tag) == (recovery, deferred, 1)


@given(st.lists(st.sampled_from(V2_FRAMES), min_size=1).map(b"".join), st.data())
def test_a_stream_cut_anywhere_is_read_the_same(stream: bytes, data: st.DataObject) -> None:
    connection, cut = StockConnection(), data.draw(st.integers(0, len(stream)))
    _wire, early, consumed = connection.parse_all(memoryview(stream)[:cut])
    _wire, late, rest = connection.parse_all(memoryview(stream)[consumed:])
    assert early + late == read_all(stream)
    assert consumed + rest == len(stream)


def test_a_connection_once_of_version_2_stays_so() -> None:
    connection = StockConnection()
    connection.parse_all(memoryview(FRAMES["v2_read"]))
    assert isinstance(connection.wire, V2)
    with pytest.raises(FrameError, match="version 2"):
        connection.parse_all(memoryview(FRAMES["v3_start_tls"]))


def test_requests_of_version_3_keep_their_wire_when_the_connection_changes() -> None:
    connection = StockConnection()
    stream = memoryview(FRAMES["v3_start_tls"] + FRAMES["v2_read"])
    first, before, consumed = connection.parse_all(stream)
    second, after, _consumed = connection.parse_all(stream[consumed:])
    assert (type(first), type(second)) == (V3, V2)
    assert isinstance(before[0], StartTls) and isinstance(after[0], Read)


def test_what_comes_before_a_bad_frame_is_served() -> None:
    connection, stream = StockConnection(), memoryview(FRAMES["v3_add"] + v2_frame(b"\x02\x09"))
    _wire, requests, consumed = connection.parse_all(stream)
    assert len(requests) == 1
    with pytest.raises(FrameError):
        connection.parse_all(stream[consumed:])


@pytest.mark.parametrize("length", [-1, FRAME_BYTES_MAX - 3, 2**31 - 1])
def test_a_length_that_no_frame_has_is_refused_before_it_is_received(length: int) -> None:
    with pytest.raises(FrameError, match=f"found {length}"):
        StockConnection().parse_all(memoryview(FRAME_LENGTH.pack(length)))


def test_the_largest_frame_has_5_mib_with_its_length() -> None:
    stream = FRAME_LENGTH.pack(FRAME_BYTES_MAX - 4) + bytes(FRAME_BYTES_MAX - 4)
    assert frame_end(stream, 0) == FRAME_BYTES_MAX == 5 * 1024 * 1024
    assert frame_end(stream[:-1], 0) is None


def test_a_message_of_another_version_is_answered_so() -> None:
    frame = bytearray(FRAMES["v3_add"])
    assert frame[4:8] == b"\x0a\x07\x08\x03"
    frame[7] = 2
    assert refused(frame).answer == FRAMES["v3_add_bad_version"]


@pytest.mark.parametrize("operation", [3, 4, 12])
def test_an_operation_that_no_bookie_has_is_a_bad_request(operation: int) -> None:
    frame = bytearray(FRAMES["v3_start_tls"])
    assert frame[8:10] == b"\x10\x09"
    frame[9] = operation
    told = refused(frame)
    assert (told.outcome, told.answer[9:10]) == (Outcome.BAD_REQUEST, bytes([operation]))


def test_a_plugin_name_that_is_no_text_is_a_bad_request() -> None:
    assert refused(FRAMES["v3_auth"].replace(b"Test", b"\xff" * 4)).outcome is Outcome.BAD_REQUEST
    with pytest.raises(FrameError, match="plugin's name"):
        V2().parse(memoryview(FRAMES["v2_auth"].replace(b"Test", b"\xff" * 4))[4:])


@pytest.mark.parametrize("beside", [-24, 0, 24, 48, 72, 96, 1000, 1024, 1048, 4000])
def test_a_list_is_sent_whole_in_a_frame_or_no_part_of_it_is(beside: int) -> None:
    """`beside`: what the longest frame has beside the list, or a few bytes more."""
    count = (FRAME_BYTES_MAX - beside - HEADER_BYTES) // GROUP.itemsize
    starts = np.arange(count) * 5
    many = EntrySet.from_bounds(starts, starts + starts % 2)  # sizes alternate: no two merge
    assert FRAME_BYTES_MAX - beside - len(many.encode()) < GROUP.itemsize
    told = b"".join(V3().answer_list_entries(ListEntries(LedgerId(7), 1), Outcome.OK, many))
    failed = b"".join(V3().answer_list_entries(ListEntries(LedgerId(7), 1), Outcome.IO))
    assert len(told) <= FRAME_BYTES_MAX
    assert many.encode() in told if beside >= 1024 else told == failed


def test_a_newer_version_of_fixed_fields_is_answered_so() -> None:
    told = refused(v2_add(7, 8, word=0x03010000))
    assert told.outcome is Outcome.BAD_VERSION
    assert told.answer == struct.pack(">iIiqq", 24, 0x03010000, 103, 7, 8)


def test_version_0_has_no_flags_and_is_answered_in_kind() -> None:
    wire = V2()
    (add,) = read_all(v2_add(7, 8, word=1), wire)
    assert isinstance(add, Add) and not add.is_recovery
    assert wire.answer_add(add, Outcome.OK) == struct.pack(">iIiqq", 24, 1, 0, 7, 8)


@pytest.mark.parametrize("ids", [(-1, 0), (0, -1), (-5, -5)])
def test_ids_below_zero_are_no_add(ids: tuple[int, int]) -> None:
    assert refused(v2_add(*ids)).outcome is Outcome.BAD_REQUEST


BATCH_READ = struct.Struct(">Iqqqiq")


@pytest.mark.parametrize("key", [b"", bytes(20)], ids=["plain", "fencing"])
@pytest.mark.parametrize("ids", [(-1, 0), (0, -1), (0, -2), (-1, -1), (0, -(2**63))])
def test_a_batch_that_begins_nowhere_is_a_bad_request(ids: tuple[int, int], key: bytes) -> None:
    """-1 means the last entry to a single read alone."""
    word = 0x02070000 | bool(key)
    found = refused(v2_frame(BATCH_READ.pack(word, *ids, 9, 4, 1000) + key))
    assert found.outcome is Outcome.BAD_REQUEST
    assert struct.unpack_from(">qqq", found.answer, 12) == (*ids, 9)


def test_the_largest_entry_is_taken_and_a_larger_one_answered() -> None:
    largest = ENTRY_BYTES_MAX - ENTRY_HEADER.size
    (request,) = read_all(v2_add(7, 8, payload=largest))
    assert isinstance(request, Add)
    assert "bytes, found" in refused(v2_add(7, 8, payload=largest + 1)).why


def test_an_entry_that_says_it_is_another_is_not_stored() -> None:
    frame = FRAMES["v3_add"].replace(FRAMES["entry"][:16], struct.pack(">qq", 77777, 301))
    told = refused(frame)
    assert told.outcome is Outcome.BAD_REQUEST
    assert "77777:301, its request 77777:300" in told.why


def test_a_fence_without_the_key_is_unauthorized() -> None:
    assert refused(v2_frame(struct.pack(">Iqq", 0x01020001, 7, -1))).outcome is Outcome.UNAUTHORIZED
    start, key = FRAMES["v3_read_last_fencing"], b"\x1a\x14" + FRAMES["key"]
    frame = start.replace(key, b"").replace(b"\xa2\x06\x28", b"\xa2\x06\x12")
    assert refused(v2_frame(frame[4:])).outcome is Outcome.UNAUTHORIZED


@pytest.mark.parametrize("name", ["v2_read", "v2_batch_read", "v2_add", "v2_read_last_fencing"])
def test_a_frame_of_fixed_fields_that_lacks_some_closes_the_connection(name: str) -> None:
    with pytest.raises(FrameError, match="bytes or more, found"):
        V2().parse(memoryview(FRAMES[name])[4:20])


def test_only_two_outcomes_deny_as_only_two_statuses_do() -> None:
    denials = {outcome_of(status) for status in Status if status.is_denial}
    assert denials == {Outcome.NO_LEDGER, Outcome.NO_ENTRY}
    others = {outcome_of(status) for status in Status if not status.is_denial}
    assert not denials & others


def test_every_status_but_ok_is_told_as_a_failure() -> None:
    assert [status for status in Status if outcome_of(status) is Outcome.OK] == [Status.OK]


def test_what_may_be_forgotten_has_apaches_numbers() -> None:
    outcome = outcome_of(Status.UNKNOWN)
    assert (outcome.v3, outcome.v2) == (507, 101)
