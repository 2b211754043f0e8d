"""The checksums of many entry headers at once: looked up in tables instead of computed.

A crc is affine: over GF(2) the checksum of 32 bytes is that of 32 zeros xor one table entry for
each byte. Headers of one run are nearly alike, so only the few places where they differ are looked
at. `heads` makes digests of these, `checked` compares digests with them.
"""

import zlib
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from bookie.frames.entry import ENTRY_HEADER_BYTES, Buffer, DigestType

Octets = NDArray[np.uint8]
Checksum = Callable[[Buffer, int], int]

CHECKSUMS: Final[dict[DigestType, Checksum]] = {
    DigestType.CRC32C: crc32c,
    DigestType.CRC32: zlib.crc32,
}
"""The digests that are checksums: of the payload, begun with that of the header."""
STORED: Final[dict[DigestType, np.dtype[Any]]] = {
    DigestType.CRC32C: np.dtype(">u4"),
    DigestType.CRC32: np.dtype(">i8"),
}
"""How an entry holds them."""


def of_headers(headers: Octets, checksum: Checksum) -> NDArray[np.uint32]:
    """The checksum of each row of 32 bytes, whatever is in them."""
    first = headers[0]
    differing = headers ^ first
    places = np.flatnonzero(np.bitwise_or.reduce(differing, axis=0)).tolist()
    return of_similar(differing, places, checksum(first.tobytes(), 0), checksum)


def of_similar(
    differing: Octets, places: Iterable[int], common: int, checksum: Checksum
) -> NDArray[np.uint32]:
    """The same of headers that differ by these bytes, at these places, from one of `common`."""
    found = np.full(len(differing), common, np.uint32)
    for place in places:
        found ^= _table(checksum, place)[differing[:, place]]
    return found


@cache
def _table(checksum: Checksum, place: int) -> NDArray[np.uint32]:
    """What a byte at this place adds to the checksum of zeros."""
    zeros = bytes(ENTRY_HEADER_BYTES)
    plain = checksum(zeros, 0)
    ahead, behind = zeros[:place], zeros[place + 1 :]
    added = (checksum(ahead + bytes((octet,)) + behind, 0) ^ plain for octet in range(256))
    return np.fromiter(added, np.uint32, 256)
