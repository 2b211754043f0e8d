"""Checksums from checksums: of joined parts, and of many headers that are nearly alike.

A crc is affine over GF(2): the checksum of `a + b` is that of `b` xor what becomes of the checksum
of `a` when as many bytes as `b` has follow, whatever is in them (zlib calls it `crc32_combine`).
That is four table lookups for each length that is asked for often, or as many as the length has
bits; no payload is read. Everything up to `header_checksums` is about crc32c.
"""

from collections.abc import Callable, Iterable
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

_Buffer = bytes | bytearray | memoryview
Octets = NDArray[np.uint8]
Checksums = NDArray[np.uint32]
Checksum = Callable[[_Buffer, int], int]
"""`crc32c.crc32c` or `zlib.crc32`: of a buffer, begun with the checksum of what is before it."""
_Table = list[list[int]]
"""For each byte of a checksum, least first, and each value of it: what becomes of it."""


# ---- parts, one behind the other ----------------------------------------------------------------


def shifted(checksum: int, behind: int) -> int:
    """What becomes of a checksum when `behind` bytes follow: xor it with that of these bytes."""
    assert behind >> _POWERS == 0
    for power, table in enumerate(_powers()):
        if behind >> power & 1:
            checksum = _looked_up(table, checksum)
    return checksum


def all_shifted(checksums: Checksums, behind: int) -> Checksums:
    """What becomes of each of these checksums when `behind` bytes follow."""
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


def resealed(checksum: int, old: _Buffer, new: _Buffer, *, behind: int) -> int:
    """The checksum of `new` and `behind` bytes, given that of `old` and the same bytes.

    A checksum that was wrong, or is by now since a byte has changed, stays wrong, where one that
    is computed from the bytes would make it right.
    """
    assert len(old) == len(new)
    return checksum ^ shifted(crc32c(old) ^ crc32c(new), behind)


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
        bits = _all_looked_up(table, bits)  # once more: twice as many bytes
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


# ---- headers that are nearly alike --------------------------------------------------------------


def header_checksums(headers: Octets, checksum: Checksum) -> Checksums:
    """The checksum of each row of `headers`, whatever is in them.

    Headers of one run differ in few columns, the low bytes of entry id and length:

        00..07 ledger   00..00 01 2a   00..01 29   00..04 a8 00
        00..07 ledger   00..00 01 2b   00..01 29   00..04 ac 00
                                  ^^                     ^^

    so the first one is computed and the others are looked up by the bytes in which they differ.
    """
    first = headers[0]
    differing = headers ^ first
    columns = np.flatnonzero(np.bitwise_or.reduce(differing, axis=0)).tolist()
    return similar_checksums(differing, columns, checksum(first.tobytes(), 0), checksum)


def similar_checksums(
    differing: Octets, columns: Iterable[int], common: int, checksum: Checksum
) -> Checksums:
    """Checksums of headers that equal one header (whose checksum is `common`) xor `differing`,
    which is zero outside of these columns."""
    width = differing.shape[1]
    found = np.full(len(differing), common, np.uint32)
    for column in columns:
        found ^= _column_table(checksum, column, width)[differing[:, column]]
    return found


@cache
def _column_table(checksum: Checksum, column: int, width: int) -> Checksums:
    """What each value of a byte in this column adds to the checksum of `width` zeros."""
    zeros = bytes(width)
    plain = checksum(zeros, 0)
    ahead, behind = zeros[:column], zeros[column + 1 :]
    added = (checksum(ahead + bytes((octet,)) + behind, 0) ^ plain for octet in range(256))
    return np.fromiter(added, np.uint32, 256)
