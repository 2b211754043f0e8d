"""BookKeeper's entry format: a client builds these bytes, and bookies send, log, copy and serve
them unchanged.

Layout, big-endian: ledger id, entry id, LAC, length (four int64: `length` is the sum of payload
bytes of the ledger up to and including this entry), digest over those 32 bytes and the payload,
payload. Digest sizes: CRC32 8, CRC32C 4, HMAC 20 (SHA-1), DUMMY 0. Source:
bookkeeper-as-implemented 3.1.
"""

import hashlib
import hmac
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from itertools import accumulate, chain, repeat
from operator import add
from typing import Any, Final, NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from bookie.errors import DigestError, FrameError
from bookie.frames.crc import Checksum, Octets, similar_checksums
from bookie.ids import EntryId, LedgerId

ENTRY_HEADER: Final = struct.Struct(">qqqq")
ENTRY_HEADER_BYTES: Final = ENTRY_HEADER.size
ENTRY_BYTES_MAX: Final = 5 * 1024 * 1024 - 64 * 1024
"""The largest entry that fits BookKeeper's frame limit of 5 MiB."""

FEW_ENTRIES_MAX: Final = 16
"""Up to so many entries are processed one by one, more of them as columns of an array."""

_CRC32C: Final = struct.Struct(">I")
_IDS: Final = slice(8, 16)
_LENGTHS: Final = slice(24, 32)
_NUMBER: Final = np.dtype(">i8")

Buffer = bytes | bytearray | memoryview
Heads = Sequence[bytes] | Octets
"""For each entry the bytes before its payload: header and digest."""


class DigestType(IntEnum):
    """The kind of digest in a ledger's entries; the numbers are those of LedgerMetadataFormat."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


DIGEST_BYTES: Final = {
    DigestType.CRC32: 8,
    DigestType.HMAC: 20,
    DigestType.CRC32C: 4,
    DigestType.DUMMY: 0,
}


CHECKSUMS: Final[dict[DigestType, Checksum]] = {
    DigestType.CRC32C: crc32c,
    DigestType.CRC32: zlib.crc32,
}
"""The digests that are checksums: the checksum of the payload, continued from that of the
header."""
STORED: Final[dict[DigestType, np.dtype[Any]]] = {
    DigestType.CRC32C: np.dtype(">u4"),
    DigestType.CRC32: np.dtype(">i8"),
}
"""The type in which an entry stores such a digest."""


def master_key(password: bytes) -> bytes:
    """The 20 bytes that a bookie stores and compares for a ledger with this password."""
    return hashlib.sha1(b"ledger" + password, usedforsecurity=False).digest()


@lru_cache(maxsize=1024)
def _mac_key(password: bytes) -> bytes:
    return hashlib.sha1(b"mac" + password, usedforsecurity=False).digest()


def _crc32(header: bytes, payload: Buffer) -> bytes:
    return struct.pack(">q", zlib.crc32(payload, zlib.crc32(header)))


def _crc32c(header: bytes, payload: Buffer) -> bytes:
    return _CRC32C.pack(crc32c(payload, crc32c(header)))


def digest_function(kind: DigestType, password: bytes) -> Callable[[bytes, Buffer], bytes]:
    """A function of (header, payload) that returns the digest bytes."""
    if kind is DigestType.CRC32:
        return _crc32
    if kind is DigestType.CRC32C:
        return _crc32c
    if kind is DigestType.HMAC:
        key = _mac_key(password)
        return lambda header, payload: hmac.digest(key, header + bytes(payload), "sha1")
    return lambda _header, _payload: b""  # DUMMY


class EntryHeader(NamedTuple):
    """The four numbers at the start of every entry. `lac` < `entry_id`; `length` counts payload
    bytes.
    """

    ledger_id: LedgerId
    entry_id: EntryId
    lac: EntryId
    length: int


def parse_header(entry: Buffer) -> EntryHeader:
    """The header of an entry; FrameError when it has fewer than 32 bytes."""
    if len(entry) < ENTRY_HEADER_BYTES:
        raise FrameError(f"an entry needs at least {ENTRY_HEADER_BYTES} bytes, found {len(entry)}")
    return EntryHeader._make(ENTRY_HEADER.unpack_from(entry))


@dataclass(frozen=True, slots=True)
class EntryCodec:
    """Builds and verifies the entries of one ledger."""

    ledger_id: LedgerId
    digest_type: DigestType
    password: bytes = field(repr=False)
    _digest: Callable[[bytes, Buffer], bytes] = field(init=False, repr=False, compare=False)
    """A function of header and payload; made once, since deriving an HMAC's key costs a hash."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_digest", digest_function(self.digest_type, self.password))

    @property
    def head_bytes(self) -> int:
        """How many bytes are before a payload: the header and the digest."""
        return ENTRY_HEADER_BYTES + DIGEST_BYTES[self.digest_type]

    def encode(self, entry_id: EntryId, payload: bytes, *, lac: EntryId, length: int) -> bytes:
        """Build one entry; `length` is the ledger's payload bytes including this payload."""
        return self._head(entry_id, payload, lac, length) + payload

    def heads(
        self, first: EntryId, payloads: Sequence[bytes], *, lac: EntryId, length_before: int
    ) -> Heads:
        """Build the heads (header and digest) of entries with consecutive ids from `first` on, all
        with this LAC. `length_before`: the ledger's payload bytes before `first`.

        Hot for writers: loops over entries run in C, and no entry makes an object that the garbage
        collector tracks.
        """
        count = len(payloads)
        if count == 1:
            length = length_before + len(payloads[0])
            return [self._head(first, payloads[0], lac, length)]
        if count > FEW_ENTRIES_MAX:
            return self._head_rows(first, payloads, lac, length_before)
        lengths = accumulate(map(len, payloads), initial=length_before)
        next(lengths)  # the length before the first entry
        ids = range(first, first + count)
        headers = list(map(ENTRY_HEADER.pack, repeat(self.ledger_id), ids, repeat(lac), lengths))
        return list(map(add, headers, self.digests(headers, payloads)))

    def _head(self, entry_id: EntryId, payload: bytes, lac: EntryId, length: int) -> bytes:
        header = ENTRY_HEADER.pack(self.ledger_id, entry_id, lac, length)
        return header + self._digest(header, payload)

    def _head_rows(
        self, first: EntryId, payloads: Sequence[bytes], lac: EntryId, length_before: int
    ) -> Octets:
        """Build the heads of many entries as rows of an array. The checksums are derived by table
        lookups for only those bytes of the headers that differ within the batch.
        """
        count = len(payloads)
        rows = np.empty((count, self.head_bytes), np.uint8)
        headers = rows[:, :ENTRY_HEADER_BYTES]
        ids = np.arange(first, first + count, dtype=_NUMBER)
        lengths = np.cumsum(np.fromiter(map(len, payloads), np.int64, count)) + length_before
        common = ENTRY_HEADER.pack(self.ledger_id, 0, lac, 0)
        headers[:] = np.frombuffer(common, np.uint8)
        headers[:, _IDS] = _octets(ids)
        headers[:, _LENGTHS] = _octets(lengths.astype(_NUMBER))
        checksum = CHECKSUMS.get(self.digest_type)
        if checksum is not None:
            columns = chain(_differing(headers, _IDS), _differing(headers, _LENGTHS))
            begun = similar_checksums(headers, columns, checksum(common, 0), checksum)
            found = np.fromiter(map(checksum, payloads, begun.tolist()), np.uint32, count)
            rows[:, ENTRY_HEADER_BYTES:] = _octets(found.astype(STORED[self.digest_type]))
        elif self.digest_type is not DigestType.DUMMY:
            joined = b"".join(self.digests(list(map(bytes, headers)), payloads))
            rows[:, ENTRY_HEADER_BYTES:] = np.frombuffer(joined, np.uint8).reshape(count, -1)
        return rows

    def digests(self, headers: Sequence[bytes], payloads: Iterable[Buffer]) -> Iterator[bytes]:
        """The digest of each header and payload."""
        if self.digest_type is DigestType.CRC32C:
            return map(_CRC32C.pack, map(crc32c, payloads, map(crc32c, headers)))
        return map(self._digest, headers, payloads)

    def decode(
        self, entry: Buffer, *, entry_id: EntryId | None = None
    ) -> tuple[EntryHeader, bytes]:
        """Verify an entry and return its header and payload.

        Raises DigestError when the digest is wrong or the entry is not the one asked for: such a
        copy is neither OK nor a denial (R8).
        """
        header = parse_header(entry)
        if header.ledger_id != self.ledger_id or entry_id not in (None, header.entry_id):
            raise DigestError(
                f"asked for ledger {self.ledger_id} entry {entry_id}, "
                f"found ledger {header.ledger_id} entry {header.entry_id}"
            )
        digest_end = ENTRY_HEADER_BYTES + DIGEST_BYTES[self.digest_type]
        head = bytes(entry[:digest_end])
        payload = bytes(entry[digest_end:])
        found = head[ENTRY_HEADER_BYTES:]
        expected = self._digest(head[:ENTRY_HEADER_BYTES], payload)
        if not hmac.compare_digest(found, expected):
            raise DigestError(
                f"ledger {self.ledger_id} entry {header.entry_id}: {self.digest_type.name} digest "
                f"is {found.hex()}, expected {expected.hex()}"
            )
        return header, payload


def _octets(numbers: NDArray[np.generic]) -> Octets:
    """The bytes of each number as a row, in their order in memory."""
    return numbers.view(np.uint8).reshape(len(numbers), numbers.dtype.itemsize)


def _differing(headers: Octets, numbers: slice) -> Iterator[int]:
    """The columns of a rising number that are not zero in every row; the last row, the largest,
    shows them.
    """
    zeros = next((at for at, octet in enumerate(headers[-1, numbers].tolist()) if octet), None)
    return iter(()) if zeros is None else iter(range(numbers.start + zeros, numbers.stop))
