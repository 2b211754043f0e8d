"""What bytes behind them make of crc32c checksums, by lookups: the bytes are not read.

A crc is affine over GF(2): crc32c(a + b) is crc32c(b) xor what crc32c(a) becomes behind as many
bytes as b has, whatever is in them. That is four lookups for each number of bytes that is asked for
often, or as many as the number has bits. `reseal` and `joint_digests` ask.
"""

from functools import cache, lru_cache
from typing import Final

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

_POWERS: Final = 23
"""Of two: enough for the bytes of a frame."""
_BYTES: Final = range(0, 32, 8)
_FEW: Final = 16
"""So many are joined sooner one by one."""
_TABLES_MAX: Final = 256
"""Of 4 KiB, and as many again as lists."""

Checksums = NDArray[np.uint32]
_Table = list[list[int]]
"""For each byte of a checksum, least first, and each value of it: what becomes of it."""


def shifted(checksum: int, behind: int) -> int:
    """What becomes of a checksum when so many bytes follow: xor that of these bytes alone."""
    assert behind >> _POWERS == 0
    for power, table in enumerate(_powers()):
        if behind >> power & 1:
            checksum = _looked_up(table, checksum)
    return checksum


def all_shifted(checksums: Checksums, behind: int) -> Checksums:
    """The same of each of these."""
    return _all_looked_up(_table(behind), checksums)


def joined(checksums: Checksums, *, each: int) -> int:
    """The checksum of parts of `each` bytes, one behind the other, given that of each part."""
    while len(checksums) > _FEW:
        if len(checksums) % 2:  # nothing ahead of all changes nothing
            checksums = np.concatenate((np.zeros(1, np.uint32), checksums))
        halves = checksums.reshape(-1, 2)
        checksums = all_shifted(np.ascontiguousarray(halves[:, 0]), each) ^ halves[:, 1]
        each *= 2
    table, found = _lists(each), 0
    for checksum in checksums.tolist():
        found = _looked_up(table, found) ^ checksum
    return found


def _looked_up(table: _Table, checksum: int) -> int:
    first, second, third, fourth = table
    return (
        first[checksum & 255]
        ^ second[checksum >> 8 & 255]
        ^ third[checksum >> 16 & 255]
        ^ fourth[checksum >> 24]
    )


def _all_looked_up(table: Checksums, checksums: Checksums) -> Checksums:
    octets = checksums.astype("<u4", copy=False).view(np.uint8)
    found: Checksums = table[0].take(octets[0::4])
    for place in (1, 2, 3):
        found ^= table[place].take(octets[place::4])
    return found


@lru_cache(_TABLES_MAX)
def _lists(behind: int) -> _Table:
    lists: _Table = _table(behind).tolist()
    return lists


@lru_cache(_TABLES_MAX)
def _table(behind: int) -> Checksums:
    bits = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))
    return _table_of(np.array([shifted(bit, behind) for bit in bits.tolist()], np.uint32))


@cache
def _powers() -> list[_Table]:
    """What 1, 2, 4, ... bytes behind a checksum make of it."""
    plain = crc32c(b"\0")
    bits = np.array([crc32c(b"\0", 1 << bit) ^ plain for bit in range(32)], np.uint32)
    tables: list[_Table] = []
    for _power in range(_POWERS):
        table = _table_of(bits)
        tables.append(table.tolist())
        bits = _all_looked_up(table, bits)  # the same once more: twice as many bytes
    return tables


def _table_of(bits: Checksums) -> Checksums:
    """For each byte of a checksum and each value of it, from what becomes of each bit."""
    return np.array([_all_of(bits[low : low + 8]) for low in _BYTES])


def _all_of(bits: Checksums) -> Checksums:
    """What becomes of each value of a byte, from what becomes of its bits."""
    found = np.zeros(1, np.uint32)
    for bit in bits:
        found = np.concatenate((found, found ^ bit))
    return found
