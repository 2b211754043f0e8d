"""All digests of a run at once, against the checksum of its frame: no payload is read.

The digest of an entry, a crc32c, and its header tell the checksum of the entry if that digest is
right; joined, these tell that of all entries, which the frame's own tells as well. One wrong digest
always makes a difference. Several wrong ones make up for each other only as one wrong digest passes
for right: by chance, once in 2^32.
"""

from typing import Final

import numpy as np

from bookie.frames.crc_combine import all_shifted, joined
from bookie.frames.entry import DIGEST_BYTES, ENTRY_HEADER_BYTES, DigestType, EntryCodec
from bookie.frames.header_checksums import CHECKSUMS, of_headers
from bookie.frames.runs import RunFrame, entries_checksum

MANY_ENTRIES_MIN: Final = 256
"""Fewer are sooner looked at one by one, and each length of entry has tables of its own."""
_CRC32C: Final = DigestType.CRC32C
_HEAD_BYTES: Final = ENTRY_HEADER_BYTES + DIGEST_BYTES[_CRC32C]


def are_all_right(run: RunFrame, codec: EntryCodec) -> bool:
    """True when each entry of a parsed run has the digest that it says; False tells nothing.

    Only of many entries of one length, with this kind of digest, it says True.
    """
    if codec.digest_type is not _CRC32C or run.count < MANY_ENTRIES_MIN:
        return False
    offsets = run.offset_vector()
    lengths = offsets[1:] - offsets[:-1]
    each = int(lengths[0])
    if each < _HEAD_BYTES or (lengths != each).any():
        return False
    rows = np.frombuffer(run.buffer, np.uint8, offset=int(offsets[0])).reshape(run.count, each)
    begun = of_headers(rows[:, :ENTRY_HEADER_BYTES], CHECKSUMS[_CRC32C])
    digests = np.ascontiguousarray(rows[:, ENTRY_HEADER_BYTES:_HEAD_BYTES])
    # A checksum goes on over four bytes as over zeros, with these bytes in it beforehand.
    heads = ~all_shifted(~begun ^ digests.view("<u4")[:, 0], len(digests[0]))
    told = digests.view(">u4")[:, 0].astype(np.uint32)
    entries = told ^ all_shifted(begun ^ heads, each - _HEAD_BYTES)
    return joined(entries, each=each) == entries_checksum(run)
