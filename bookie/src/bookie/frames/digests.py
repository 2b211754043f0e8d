"""Verifies the digests of a parsed run: which entries are right, and which are corrupt (R8).

`parse_run` has checked that every entry carries the ledger id and the entry id that its frame
claims. Two checks remain: the frame belongs to the ledger asked for, and each digest is right.
There are three ways to check the digests:

1. A whole run of many entries of one length with crc32c digests: one checksum, no payload is read.
2. Any other run: all digests are computed and compared at once; loops over entries run in C.
3. When one of these finds a difference: entry by entry, to learn which entries are wrong.
"""

import hmac
import operator
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from crc32c import crc32c

from bookie.errors import DigestError
from bookie.frames.crc import all_shifted, header_checksums, joined, shifted
from bookie.frames.entry import ENTRY_HEADER_BYTES, DigestType, EntryCodec
from bookie.frames.frame import (
    CHECKSUM_AT,
    FRAME_HEADER_BYTES,
    SEALED_AT,
    START_CHECKSUMS,
    RunFrame,
)
from bookie.ids import EntryId

JOINT_ENTRIES_MIN: Final = 256
"""With fewer entries the second way is faster, and the first needs tables for each length of
entry."""
_CRC32C: Final = DigestType.CRC32C


@dataclass(frozen=True, slots=True)
class VerifiedRun:
    """Which entries of a run, within a range of ids, are right and which are corrupt."""

    ids: Sequence[int]
    """Ids of the entries whose digest is right, rising."""
    corrupt: Sequence[int]
    """Ids of the other entries, rising."""
    _run: RunFrame = field(repr=False)
    _places: Sequence[int] = field(repr=False)
    """The index in the run of each entry in `ids`."""
    _head_bytes: int = field(repr=False)

    def entries(self) -> Sequence[memoryview]:
        """The right entries verbatim, as views of the frame's buffer."""
        offsets = self._run.offsets()
        starts, ends = self._bounds(offsets)
        return list(map(self._run.buffer.__getitem__, map(slice, starts, ends)))

    def payloads(self) -> Sequence[bytes]:
        """Copies of the payloads of the right entries."""
        starts, ends = self._bounds(self._run.offsets())
        head, buffer = self._head_bytes, self._run.buffer
        sizes = set(map(operator.sub, ends, starts))
        if len(sizes) == 1 and isinstance(self._places, range):  # one call cuts them all
            return struct.unpack_from(
                f"{head}x{sizes.pop() - head}s" * len(ends), buffer, starts[0]
            )
        return [bytes(buffer[start + head : end]) for start, end in zip(starts, ends, strict=True)]

    def _bounds(self, offsets: list[int]) -> tuple[Sequence[int], Sequence[int]]:
        places = self._places
        if isinstance(places, range):
            low, high = places.start, places.stop
            return offsets[low:high], offsets[low + 1 : high + 1]
        return [offsets[place] for place in places], [offsets[place + 1] for place in places]


def verify_run(run: RunFrame, codec: EntryCodec, *, first: int, last: int) -> VerifiedRun:
    """Verify the digests of the run's entries with ids `first`..`last`."""
    ids = _ids_of(run)
    low, high = bisect_left(ids, first), bisect_right(ids, last)
    ids = ids[low:high]
    places, head_bytes = range(low, high), codec.head_bytes
    if not ids or run.ledger_id != codec.ledger_id:
        return VerifiedRun((), ids, run, range(0), head_bytes)
    if (len(ids) == run.count and _are_right_jointly(run, codec)) or _are_right(run, codec, places):
        return VerifiedRun(ids, (), run, places, head_bytes)
    corrupt = _wrong(run, codec, ids, places)
    right = [(i, place) for i, place in zip(ids, places, strict=True) if i not in corrupt]
    return VerifiedRun(
        [i for i, _place in right], sorted(corrupt), run, [place for _i, place in right], head_bytes
    )


def _ids_of(run: RunFrame) -> Sequence[int]:
    """All ids of a run, rising."""
    first = run.first_entry_id
    return list(run.entry_ids()) if run.pattern.period else range(first, first + run.count)


def _are_right_jointly(run: RunFrame, codec: EntryCodec) -> bool:
    """True when the digest of every entry of the run is right; False decides nothing.

    If the digest of an entry is right, the checksum of the whole entry follows from digest and
    header. Joined, these give the checksum of all entries, which also follows from the frame's own
    checksum, and the two must be equal. One wrong digest always makes a difference. Several wrong
    digests cancel out only by chance, once in 2^32, just as a single wrong digest may match. An
    entry of 32 + 4 + n bytes in the frame:

    ledger, id, LAC, length | digest | payload `begun`: crc32c of these | `said` | `heads`: crc32c
    of these 36 bytes | `entries`: crc32c of all, if `said` is that of header and payload

    It returns True only for runs of many entries of one length with crc32c digests.
    """
    if codec.digest_type is not _CRC32C or run.count < JOINT_ENTRIES_MIN:
        return False
    head_bytes, offsets = codec.head_bytes, run.offset_vector()
    lengths = offsets[1:] - offsets[:-1]
    each = int(lengths[0])
    if each < head_bytes or (lengths != each).any():
        return False
    rows = np.frombuffer(run.buffer, np.uint8, offset=int(offsets[0])).reshape(run.count, each)
    begun = header_checksums(rows[:, :ENTRY_HEADER_BYTES], crc32c)
    digests = np.ascontiguousarray(rows[:, ENTRY_HEADER_BYTES:head_bytes])
    # Continuing a crc over four bytes equals xoring these bytes into it and continuing over zeros.
    heads = ~all_shifted(~begun ^ digests.view("<u4")[:, 0], len(digests[0]))
    said = digests.view(">u4")[:, 0].astype(np.uint32)
    entries = said ^ all_shifted(begun ^ heads, each - head_bytes)
    return joined(entries, each=each) == _entries_checksum(run)


def _entries_checksum(run: RunFrame) -> int:
    """The checksum of all entries together, derived from that of the frame without reading them."""
    entries_at = FRAME_HEADER_BYTES + 4 * run.count
    ahead = crc32c(run.buffer[SEALED_AT:entries_at], START_CHECKSUMS[run.flags])
    whole = int.from_bytes(run.buffer[CHECKSUM_AT:SEALED_AT], "big")
    return whole ^ shifted(ahead, len(run.buffer) - entries_at)


def _are_right(run: RunFrame, codec: EntryCodec, places: range) -> bool:
    """True when the digest of each entry at these indexes is right; False does not say which one is
    wrong.
    """
    buffer, head_bytes = run.buffer, codec.head_bytes
    bounds = run.offsets()[places.start : places.stop + 1]
    sizes = list(map(operator.sub, bounds[1:], bounds))
    shortest = min(sizes)
    if shortest < head_bytes:
        return False
    # One call to unpack cuts out the header and the digest of each entry, and skips the payloads.
    each = f"{ENTRY_HEADER_BYTES}s{head_bytes - ENTRY_HEADER_BYTES}s%dx"
    if shortest == max(sizes):
        shape = each % (shortest - head_bytes) * len(sizes)
    else:
        shape = "".join([each % (size - head_bytes) for size in sizes])
    heads = struct.unpack_from(shape, buffer, bounds[0])
    payloads_at = map(head_bytes.__add__, bounds)
    payloads = map(buffer.__getitem__, map(slice, payloads_at, bounds[1:]))
    found, expected = b"".join(heads[1::2]), b"".join(codec.digests(heads[0::2], payloads))
    return hmac.compare_digest(found, expected)


def _wrong(run: RunFrame, codec: EntryCodec, ids: Sequence[int], places: range) -> set[int]:
    """The ids among these whose digest is wrong."""
    corrupt: set[int] = set()
    bounds = run.offsets()[places.start : places.stop + 1]
    for entry_id, (start, end) in zip(ids, pairwise(bounds), strict=True):
        try:
            codec.decode(run.buffer[start:end], entry_id=EntryId(entry_id))
        except DigestError:
            corrupt.add(entry_id)
    return corrupt
