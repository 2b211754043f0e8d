"""The checksum of a frame under another header, from the one that it had: its entries are not read.

A crc is affine over GF(2): what a difference ahead adds to the checksum depends on how many bytes
follow, and is found by as many lookups as that number has bits. A checksum that was right stays
right; one that was wrong, or is by now since a byte has changed, stays wrong, where a new one would
have made it right.
"""

from functools import cache
from typing import Final

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from bookie.protocol.entry import Buffer

_POWERS: Final = 23
"""Of two: enough for the bytes of a frame."""
_BYTES: Final = range(0, 32, 8)

_Table = list[list[int]]
"""For each byte of a checksum, least first, and each value of it: what becomes of it."""


def resealed(checksum: int, old: Buffer, new: Buffer, *, behind: int) -> int:
    """The checksum of `new` and so many bytes, given that of `old` and the same bytes."""
    assert len(old) == len(new)
    assert behind >> _POWERS == 0
    shifted = crc32c(old) ^ crc32c(new)
    for power, (first, second, third, fourth) in enumerate(_shifts()):
        if behind >> power & 1:
            shifted = (
                first[shifted & 255]
                ^ second[shifted >> 8 & 255]
                ^ third[shifted >> 16 & 255]
                ^ fourth[shifted >> 24]
            )
    return checksum ^ shifted


@cache
def _shifts() -> list[_Table]:
    """What 1, 2, 4, ... bytes behind a difference make of it."""
    plain = crc32c(b"\0")
    bits = np.array([crc32c(b"\0", 1 << bit) ^ plain for bit in range(32)], np.uint32)
    tables: list[_Table] = []
    for _power in range(_POWERS):
        table = [_all_of(bits[low : low + 8]) for low in _BYTES]
        tables.append([each.tolist() for each in table])
        parts = [each[bits >> low & 255] for each, low in zip(table, _BYTES, strict=True)]
        bits = np.bitwise_xor.reduce(parts)  # the same once more: twice as many bytes
    return tables


def _all_of(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """What becomes of each value of a byte, from what becomes of its bits."""
    found = np.zeros(1, np.uint32)
    for bit in bits:
        found = np.concatenate((found, found ^ bit))
    return found
