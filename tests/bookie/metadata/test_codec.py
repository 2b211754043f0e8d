"""Ledger metadata in BookKeeper's formats, against bytes assembled by hand from field numbers."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.errors import MetadataFormatError
from bookie.frames.entry import DigestType
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.bookkeeper_pb2 import LedgerMetadataFormat
from bookie.metadata.codec import decode_ledger, encode_ledger
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from hypothesis import given, settings
from hypothesis import strategies as st

L7 = LedgerId(7)
HEADER_V3 = b"BookieMetadataFormatVersion\t3\n"


def varint(value: int) -> bytes:
    value %= 1 << 64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def blob(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def delimited(message: bytes) -> bytes:
    return HEADER_V3 + varint(len(message)) + message


SEGMENT_0 = b"".join((blob(1, b"b0:3181"), blob(1, b"b1:3181"), number(2, 0)))
SEGMENT_1 = b"".join((blob(1, b"b0:3181"), blob(1, b"b2:3181"), number(2, 300)))
CLOSED_V3 = delimited(
    b"".join(
        (
            number(1, 2),  # write quorum
            number(2, 2),  # ensemble size
            number(3, 70_000),  # length
            number(4, 301),  # last entry id
            number(5, 3),  # CLOSED
            blob(6, SEGMENT_0),
            blob(6, SEGMENT_1),
            number(7, 2),  # HMAC
            blob(8, b"pw"),
            number(9, 1),  # ack quorum
            number(10, 1_700_000_000_123),
            blob(11, blob(1, b"component") + blob(2, b"\x00\xff")),
            number(12, 4_611_686_018_427_387_904),
        )
    )
)
CLOSED = LedgerMetadata(
    ledger_id=L7,
    ensemble_size=2,
    write_quorum=2,
    ack_quorum=1,
    fragments=(
        Fragment(EntryId(0), (BookieId("b0:3181"), BookieId("b1:3181"))),
        Fragment(EntryId(300), (BookieId("b0:3181"), BookieId("b2:3181"))),
    ),
    digest_type=DigestType.HMAC,
    password=b"pw",
    state=LedgerState.CLOSED,
    last_entry_id=EntryId(301),
    length=70_000,
    ctime_ms=1_700_000_000_123,
    creation_token=4_611_686_018_427_387_904,
    custom={"component": b"\x00\xff"},
)
TINY = b"".join((number(1, 1), number(2, 1), number(3, 9), number(4, 5), number(5, 1)))
TINY_SEGMENT = blob(6, blob(1, b"b") + number(2, 0))


def test_version_3_matches_the_layout_byte_for_byte() -> None:
    assert encode_ledger(CLOSED) == CLOSED_V3
    assert decode_ledger(CLOSED_V3, ledger_id=L7) == CLOSED


def test_an_open_ledger_is_written_without_an_end() -> None:
    raw = encode_ledger(
        LedgerMetadata(
            ledger_id=L7,
            ensemble_size=1,
            write_quorum=1,
            ack_quorum=1,
            fragments=(Fragment(EntryId(0), (BookieId("b"),)),),
        )
    )
    fields = b"".join((number(1, 1), number(2, 1), number(3, 0), number(4, -1), number(5, 1)))
    rest = b"".join((number(7, 3), blob(8, b""), number(9, 1), number(10, 0), number(12, 0)))
    assert raw == delimited(fields + TINY_SEGMENT + rest)


def test_an_end_without_closed_means_nothing() -> None:
    found = decode_ledger(delimited(TINY + TINY_SEGMENT), ledger_id=L7)
    assert (found.state, found.last_entry_id, found.length) == (LedgerState.OPEN, -1, 0)


def test_what_old_metadata_leaves_out_is_filled_in() -> None:
    found = decode_ledger(delimited(TINY + TINY_SEGMENT), ledger_id=L7, stored_at_ms=55)
    assert (found.ack_quorum, found.ctime_ms, found.creation_token) == (1, 55, 0)
    assert (found.digest_type, found.password, found.custom) == (DigestType.CRC32, b"", {})


@pytest.mark.parametrize(("quorum", "end"), [(2, 2**41), (1, 2**26)])
def test_an_end_beyond_what_can_be_judged_is_none(quorum: int, end: int) -> None:
    """Whoever may write metadata may write any end, and audits and bookies work with it."""
    members = (BookieId("b0"), BookieId("b1"))
    opened = LedgerMetadata(L7, 2, quorum, 1, (Fragment(EntryId(0), members),))
    with pytest.raises(MetadataFormatError, match=f"names entry {end}"):
        decode_ledger(encode_ledger(opened.closed(EntryId(end), length=0)), ledger_id=L7)


@pytest.mark.parametrize(
    "name", ["", "b0\nINFO all is well", "b\x1b[2J", "b 0", "b\u202e", "b" * 256]
)
def test_no_bookie_has_a_name_that_is_more_than_a_name(name: str) -> None:
    opened = LedgerMetadata(L7, 1, 1, 1, (Fragment(EntryId(0), (BookieId(name),)),))
    with pytest.raises(MetadataFormatError, match="a bookie of the id"):
        decode_ledger(encode_ledger(opened), ledger_id=L7)


def test_version_2_is_protobuf_text() -> None:
    raw = (
        b"BookieMetadataFormatVersion\t2\n"
        b"quorumSize: 2\nensembleSize: 2\nlength: 10\nlastEntryId: 4\nstate: CLOSED\n"
        b'segment {\n  ensembleMember: "b0:1"\n  ensembleMember: "b1:1"\n  firstEntryId: 0\n}\n'
        b'digestType: CRC32\npassword: "\\001x"\n'
    )
    found = decode_ledger(raw, ledger_id=L7, stored_at_ms=9)
    assert (found.ack_quorum, found.last_entry_id, found.length) == (2, 4, 10)
    assert (found.password, found.ctime_ms) == (b"\x01x", 9)


@pytest.mark.parametrize(
    ("end", "state", "last", "length"),
    [
        (b"", LedgerState.OPEN, -1, 0),
        (b"-102\tCLOSED", LedgerState.IN_RECOVERY, -1, 0),
        (b"8\tCLOSED\n", LedgerState.CLOSED, 8, 77),
        (b"-1\tCLOSED", LedgerState.CLOSED, -1, 77),
    ],
)
def test_version_1_is_lines(end: bytes, state: LedgerState, last: int, length: int) -> None:
    raw = b"BookieMetadataFormatVersion\t1\n2\n3\n77\n0\ta:1\tb:1\tc:1\n5\ta:1\td:1\tc:1\n" + end
    found = decode_ledger(raw, ledger_id=L7, stored_at_ms=3)
    assert (found.write_quorum, found.ensemble_size, found.ack_quorum) == (2, 3, 2)
    assert (found.state, found.last_entry_id, found.length) == (state, last, length)
    assert [fragment.first_entry_id for fragment in found.fragments] == [0, 5]


NO_PASSWORD = b"BookieMetadataFormatVersion\t1\n1\n1\n%d\n0\ta:1\n5\tb:1\n%s"


@pytest.mark.parametrize(
    ("length", "end"), [(0, b""), (0, b"-102\tCLOSED"), (77, b"8\tCLOSED"), (0, b"-1\tCLOSED")]
)
def test_version_1_stays_version_1(length: int, end: bytes) -> None:
    """Apache's client would refuse its owner's password if one was stored; version 3 without one it
    could not change.
    """
    raw = NO_PASSWORD % (length, end)
    assert encode_ledger(decode_ledger(raw, ledger_id=L7)) == raw


@pytest.mark.parametrize(
    "change",
    [
        {"custom": {"bookie-operator.loss": b"{}"}},
        {"creation_token": 1},
        {"ensemble_size": 2, "write_quorum": 2, "fragments": CLOSED.fragments},
        {"fragments": (Fragment(EntryId(0), (BookieId("CLOSED"),)),)},
    ],
)
def test_what_version_1_cannot_hold_is_written_without_a_password(change: dict[str, Any]) -> None:
    changed = replace(decode_ledger(NO_PASSWORD % (0, b""), ledger_id=L7), **change)
    raw = encode_ledger(changed)
    message = LedgerMetadataFormat.FromString(raw.removeprefix(HEADER_V3)[1:])
    assert not message.HasField("password") and not message.HasField("digestType")
    assert decode_ledger(raw, ledger_id=L7) == changed


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"something else",
        b"BookieMetadataFormatVersion\t4\n",
        b"BookieMetadataFormatVersion\t3",
        b"BookieMetadataFormatVersion\t1\n2\n",
        b"BookieMetadataFormatVersion\t2\nquorumSize: x",
        HEADER_V3,
        HEADER_V3 + b"\xff\xff\xff\xff\xff\xff",
        delimited(TINY),  # no fragment
        delimited(TINY_SEGMENT),  # no quorums
        delimited(TINY + TINY_SEGMENT + blob(8, b"pw") + number(7, 9)),  # unknown digest
        delimited(TINY + TINY_SEGMENT + TINY_SEGMENT),  # a fragment twice
        CLOSED_V3[:-1],
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_the_ledger(raw: bytes) -> None:
    with pytest.raises(MetadataFormatError, match="ledger 7"):
        decode_ledger(raw, ledger_id=L7)


@settings(deadline=None, max_examples=60)
@given(
    ensemble=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6, unique=True),
    starts=st.sets(st.integers(1, 2**40 - 1), max_size=5),
    state=st.sampled_from(LedgerState),
    digest_type=st.sampled_from(DigestType),
    password=st.binary(max_size=40),
    end=st.integers(0, 2**40 - 1),
    token=st.integers(0, 2**63 - 1),
    custom=st.dictionaries(st.text(max_size=5), st.binary(max_size=5), max_size=3),
)
def test_any_ledger_comes_back_as_it_was(
    ensemble: list[str],
    starts: set[int],
    state: LedgerState,
    digest_type: DigestType,
    password: bytes,
    end: int,
    token: int,
    custom: dict[str, bytes],
) -> None:
    members = tuple(BookieId(name) for name in ensemble)
    closed = state is LedgerState.CLOSED
    metadata = LedgerMetadata(
        ledger_id=L7,
        ensemble_size=len(members),
        write_quorum=len(members),
        ack_quorum=1,
        fragments=tuple(Fragment(EntryId(start), members) for start in sorted({0, *starts})),
        digest_type=digest_type,
        password=password,
        state=state,
        last_entry_id=EntryId(end if closed else -1),
        length=token if closed else 0,
        creation_token=token,
        custom=custom,
    )
    assert decode_ledger(encode_ledger(metadata), ledger_id=L7, stored_at_ms=1) == metadata
