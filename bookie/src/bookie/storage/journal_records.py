"""Records of the journal: their codec, and reading them from one file.

A record, big-endian: magic, kind, traits, payload length, sequence number, the highest sequence
number that was known to be durable when this record was appended, crc32c; then the payload. The
checksum starts with the file's nonce and the record's offset, so that a copy of a record at another
place (an entry may hold any bytes) is not taken for a record.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from crc32c import crc32c

from bookie.errors import StorageError
from bookie.frames.entry import Buffer
from bookie.frames.frame import FRAME_BYTES_MAX
from bookie.storage.disk import DiskFile

RECORD_MAGIC: Final = b"\xb0\x0cJ\x01"
PAYLOAD_BYTES_MAX: Final = FRAME_BYTES_MAX + 4096

NOTED: Final = 1
"""A trait of a record of a ledger: the ledger may have unsynced entries (`LedgerRecord.noted`)."""

# 0.1.0 wrote zeros where the traits are, and passes over what it reads there:
# b0 0c 4a 01 | kind | traits | 00 00 | length (4) | sequence (8) | synced (8)
_RECORD: Final = struct.Struct(">4sBB2xIQQ")
_CRC: Final = struct.Struct(">I")
_SEED: Final = struct.Struct(">QQ")
RECORD_HEADER_BYTES: Final = _RECORD.size + _CRC.size
_WINDOW_BYTES: Final = 2 * PAYLOAD_BYTES_MAX


class RecordKind(IntEnum):
    """The kind of a record's payload. The journal itself reads only the payloads of
    its own kinds.
    """

    RUN = 1
    LEDGER = 2
    # 3 to 6 had names once; no version ever wrote them.
    TRIM = 100
    """The journal's own kind: files before the one named here are no longer needed."""
    END = 101
    """The journal's own kind: it was closed in order, and all records before are durable."""

    @property
    def is_internal(self) -> bool:
        return self >= RecordKind.TRIM


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One record as it was appended; the payload is a view of the bytes read."""

    sequence: int
    kind: RecordKind
    payload: memoryview = field(repr=False)
    traits: int
    """Bits about the payload; see `NOTED`."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record with a right checksum, and its place in a file."""

    offset: int
    kind: int
    sequence: int
    synced: int
    payload: memoryview = field(repr=False)
    traits: int = 0

    @property
    def end(self) -> int:
        return self.offset + RECORD_HEADER_BYTES + len(self.payload)

    def record(self) -> JournalRecord:
        try:
            kind = RecordKind(self.kind)
        except ValueError:
            raise StorageError(
                f"journal record {self.sequence} is of the unknown kind {self.kind}: it was "
                "written by a newer version; start that one"
            ) from None
        return JournalRecord(self.sequence, kind, self.payload, self.traits)


def encode_record(
    kind: RecordKind,
    payload: Sequence[Buffer],
    *,
    sequence: int,
    synced: int,
    seed: bytes,
    traits: int = 0,
) -> list[Buffer]:
    """Encode a record as buffers to write one after the other; `seed`: see `seed_of`."""
    length = sum(map(len, payload))
    head = _RECORD.pack(RECORD_MAGIC, kind, traits, length, sequence, synced)
    crc = crc32c(seed + head)
    for part in payload:
        crc = crc32c(part, crc)
    return [head + _CRC.pack(crc), *payload]


def seed_of(nonce: int, offset: int) -> bytes:
    """The bytes from which the checksum of a record at this place starts."""
    return _SEED.pack(nonce, offset)


def record_at(window: memoryview, *, nonce: int, offset: int) -> RawRecord | None:
    """Parse the record at the start of `window`, which lies at `offset`; None when it
    is not good.
    """
    if len(window) < RECORD_HEADER_BYTES:
        return None
    magic, kind, traits, length, sequence, synced = _RECORD.unpack_from(window)
    end = RECORD_HEADER_BYTES + length
    if magic != RECORD_MAGIC or length > PAYLOAD_BYTES_MAX or end > len(window):
        return None
    (crc,) = _CRC.unpack_from(window, _RECORD.size)
    payload = window[RECORD_HEADER_BYTES:end]
    if crc32c(payload, crc32c(seed_of(nonce, offset) + bytes(window[: _RECORD.size]))) != crc:
        return None
    return RawRecord(offset, kind, sequence, synced, payload, traits)


def read_records(
    file: DiskFile, *, nonce: int, start: int, limit: int | None = None
) -> Iterator[RawRecord]:
    """Yield good records from `start` on, up to `limit` or to the first bad one."""
    offset = start
    while limit is None or offset < limit:
        length = _WINDOW_BYTES if limit is None else min(_WINDOW_BYTES, limit - offset)
        window = memoryview(file.pread(length, offset))
        used = 0
        while (raw := record_at(window[used:], nonce=nonce, offset=offset + used)) is not None:
            yield raw
            used = raw.end - offset
        if used == 0:
            return
        offset += used


def find_records(file: DiskFile, *, nonce: int, start: int) -> Iterator[RawRecord]:
    """Yield good records anywhere behind `start`, aligned or not: those behind a hole.

    It reads the rest of the file at once; only called if the file does not end in zeros.
    """
    rest = file.pread(file.size() - start, start)
    view = memoryview(rest)
    found = rest.find(RECORD_MAGIC)
    while found >= 0:
        raw = record_at(view[found:], nonce=nonce, offset=start + found)
        if raw is not None:
            yield raw
            found = rest.find(RECORD_MAGIC, raw.end - start)
        else:
            found = rest.find(RECORD_MAGIC, found + 1)
