"""BookKeeper's entry format: each digest against an independent computation, and bad copies."""

import hashlib

import pytest
from bookie.errors import DigestError, FrameError
from bookie.frames.entry import (
    DIGEST_BYTES,
    ENTRY_HEADER_BYTES,
    DigestType,
    EntryCodec,
    digest_function,
    master_key,
    parse_header,
)
from bookie.ids import EntryId, LedgerId
from hypothesis import given
from hypothesis import strategies as st

LEDGER = LedgerId(7)
HEADER = b"".join(number.to_bytes(8, "big") for number in (7, 5, 4, 42))
PAYLOAD = b"hello"
CRC32C_POLYNOMIAL, CRC32_POLYNOMIAL = 0x82F63B78, 0xEDB88320


def bitwise_crc(message: bytes, polynomial: int) -> int:
    """The textbook loop, one bit at a time."""
    crc = 0xFFFFFFFF
    for byte in message:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (polynomial if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def textbook_hmac_sha1(key: bytes, message: bytes) -> bytes:
    block = key.ljust(64, b"\0")
    inner = hashlib.sha1(bytes(b ^ 0x36 for b in block) + message).digest()
    return hashlib.sha1(bytes(b ^ 0x5C for b in block) + inner).digest()


DIGESTS = {
    DigestType.CRC32: bytes(4) + bitwise_crc(HEADER + PAYLOAD, CRC32_POLYNOMIAL).to_bytes(4, "big"),
    DigestType.CRC32C: bitwise_crc(HEADER + PAYLOAD, CRC32C_POLYNOMIAL).to_bytes(4, "big"),
    DigestType.HMAC: textbook_hmac_sha1(hashlib.sha1(b"macsecret").digest(), HEADER + PAYLOAD),
    DigestType.DUMMY: b"",
}
each_digest = pytest.mark.parametrize("kind", DigestType, ids=lambda kind: kind.name)


def codec(kind: DigestType = DigestType.CRC32C, password: bytes = b"secret") -> EntryCodec:
    return EntryCodec(LEDGER, kind, password)


def encoded(kind: DigestType = DigestType.CRC32C) -> bytes:
    return codec(kind).encode(EntryId(5), PAYLOAD, lac=EntryId(4), length=42)


def test_crcs_match_their_published_check_values() -> None:
    crc32 = digest_function(DigestType.CRC32, b"")
    crc32c = digest_function(DigestType.CRC32C, b"")
    assert crc32(b"1234", b"56789") == bytes.fromhex("00000000cbf43926")
    assert crc32c(b"1234", b"56789") == bytes.fromhex("e3069283")


@each_digest
def test_an_entry_is_header_digest_payload(kind: DigestType) -> None:
    assert encoded(kind) == HEADER + DIGESTS[kind] + PAYLOAD
    assert len(DIGESTS[kind]) == DIGEST_BYTES[kind]


@each_digest
@given(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=40), first=st.integers(0, 2**62))
def test_heads_of_a_batch_are_those_of_its_entries(
    kind: DigestType, sizes: list[int], first: int
) -> None:
    payloads, lac = [bytes([size % 251]) * size for size in sizes], EntryId(first - 1)
    heads = codec(kind).heads(EntryId(first), payloads, lac=lac, length_before=2**40)
    for number, (head, payload) in enumerate(zip(heads, payloads, strict=True)):
        length = 2**40 + sum(sizes[: number + 1])
        alone = codec(kind).encode(EntryId(first + number), payload, lac=lac, length=length)
        assert bytes(head) + payload == alone


@each_digest
@given(payload=st.binary(max_size=200), entry_id=st.integers(0, 2**63 - 1))
def test_decode_returns_what_was_encoded(kind: DigestType, payload: bytes, entry_id: int) -> None:
    entry = codec(kind).encode(EntryId(entry_id), payload, lac=EntryId(entry_id - 1), length=9)
    header, found = codec(kind).decode(memoryview(entry), entry_id=EntryId(entry_id))
    assert (header.ledger_id, header.entry_id, header.length) == (LEDGER, entry_id, 9)
    assert (header.lac, found) == (entry_id - 1, payload)


@pytest.mark.parametrize("kind", [DigestType.CRC32, DigestType.HMAC, DigestType.CRC32C])
def test_any_flipped_bit_is_found(kind: DigestType) -> None:
    entry = encoded(kind)
    for bit in range(len(entry) * 8):
        damaged = bytearray(entry)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DigestError):
            codec(kind).decode(damaged)


@each_digest
def test_a_copy_of_another_entry_is_refused_even_when_intact(kind: DigestType) -> None:
    with pytest.raises(DigestError, match="asked for ledger 7 entry 6, found ledger 7 entry 5"):
        codec(kind).decode(encoded(kind), entry_id=EntryId(6))
    with pytest.raises(DigestError):
        EntryCodec(LedgerId(8), kind, b"secret").decode(encoded(kind), entry_id=EntryId(5))


def test_another_password_fails_the_hmac() -> None:
    with pytest.raises(DigestError, match="HMAC digest"):
        codec(DigestType.HMAC, b"wrong").decode(encoded(DigestType.HMAC))


@pytest.mark.parametrize("size", [0, 1, ENTRY_HEADER_BYTES - 1])
def test_less_than_a_header_is_no_entry(size: int) -> None:
    with pytest.raises(FrameError, match=f"found {size}"):
        parse_header(bytes(size))


@pytest.mark.parametrize("kind", [DigestType.CRC32, DigestType.HMAC, DigestType.CRC32C])
def test_an_entry_cut_within_its_digest_is_refused(kind: DigestType) -> None:
    for size in range(ENTRY_HEADER_BYTES, ENTRY_HEADER_BYTES + DIGEST_BYTES[kind]):
        with pytest.raises(DigestError):
            codec(kind).decode(encoded(kind)[:size])


def test_the_master_key_is_known_for_the_empty_password_too() -> None:
    assert master_key(b"").hex() == "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"
    assert master_key(b"secret").hex() == "e793cbc379107648537183605cd361d3bb789a39"


def test_the_password_does_not_show_in_a_trace() -> None:
    assert "secret" not in repr(codec())
