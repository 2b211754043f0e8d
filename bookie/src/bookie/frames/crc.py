"""Computes checksums from checksums: of joined parts, and of many headers that are nearly alike.

A crc is affine over GF(2): the checksum of `a + b` is crc(b) xor shift(crc(a), len(b)), where
`shift` depends only on the number of bytes that follow (zlib calls this `crc32_combine`). A shift
takes four table lookups for a length whose table is cached, else four for each bit set in the
length; no payload is read. All functions before `header_checksums` are about crc32c.
"""

from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import Final

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

_POWERS: Final = 23
"""How many powers of two are tabulated: enough for the length of a frame."""
_BYTES: Final = range(0, 32, 8)
_FEW: Final = 16
"""Up to so many checksums are joined one by one, which is faster than in pairs."""
_TABLES_MAX: Final = 256
"""How many lengths have a cached table, of 4 KiB each; the cache of the same tables as lists is as
large."""

_Buffer = bytes | bytearray | memoryview
Octets = NDArray[np.uint8]
Checksums = NDArray[np.uint32]
Checksum = Callable[[_Buffer, int], int]
"""`crc32c.crc32c` or `zlib.crc32`: a function of a buffer and the checksum of the bytes before
it."""
_Table = list[list[int]]
"""The shift, by byte of a checksum (least significant first) and by value of that byte."""


# ---- parts, one behind the other ----------------------------------------------------------------


def shifted(checksum: int, behind: int) -> int:
    """Shift a checksum by `behind` bytes; xor the result with the checksum of these bytes to join
    both.
    """
    assert behind >> _POWERS == 0
    for power, table in enumerate(_powers()):
        if behind >> power & 1:
            checksum = _looked_up(table, checksum)
    return checksum


def all_shifted(checksums: Checksums, behind: int) -> Checksums:
    """Shift each of these checksums by `behind` bytes."""
    return _all_looked_up(_table(behind), checksums)


def joined(checksums: Checksums, *, each: int) -> int:
    """The checksum of parts of `each` bytes in a row, from the checksums of the parts."""
    while len(checksums) > _FEW:
        if len(checksums) % 2:  # a checksum 0 in front changes nothing
            checksums = np.concatenate((np.zeros(1, np.uint32), checksums))
        halves = checksums.reshape(-1, 2)
        checksums = all_shifted(np.ascontiguousarray(halves[:, 0]), each) ^ halves[:, 1]
        each *= 2
    table, found = _lists(each), 0
    for checksum in checksums.tolist():
        found = _looked_up(table, found) ^ checksum
    return found


def resealed(checksum: int, old: _Buffer, new: _Buffer, *, behind: int) -> int:
    """The checksum of `new` and `behind` further bytes, from that of `old` and the same further
    bytes.

    If the old checksum does not match the bytes, for instance because a byte has changed since, the
    new one does not match either. A checksum computed afresh would hide the damage.
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
    """The tables that shift a checksum by 1, 2, 4, ... bytes."""
    plain = crc32c(b"\0")
    bits = np.array([crc32c(b"\0", 1 << bit) ^ plain for bit in range(32)], np.uint32)
    tables: list[_Table] = []
    for _power in range(_POWERS):
        table = _table_of(bits)
        tables.append(table.tolist())
        bits = _all_looked_up(table, bits)  # shifting twice shifts by twice as many bytes
    return tables


def _table_of(bits: Checksums) -> Checksums:
    """The table of a shift, from the shift of each single bit."""
    return np.array([_all_of(bits[low : low + 8]) for low in _BYTES])


def _all_of(bits: Checksums) -> Checksums:
    """The shift of each value of one byte, from the shifts of its bits."""
    found = np.zeros(1, np.uint32)
    for bit in bits:
        found = np.concatenate((found, found ^ bit))
    return found


# ---- headers that are nearly alike --------------------------------------------------------------


def header_checksums(headers: Octets, checksum: Checksum) -> Checksums:
    """The checksum of each row of `headers`. The rows may differ anywhere; it is fast if they
    differ little.

    Headers of one run differ in few columns, the low bytes of entry id and length:

        00..07 ledger   00..00 01 2a   00..01 29   00..04 a8 00
        00..07 ledger   00..00 01 2b   00..01 29   00..04 ac 00
                                  ^^                     ^^

    so it computes the first checksum, and derives the others by table lookups for the bytes in
    which they differ.
    """
    first = headers[0]
    differing = headers ^ first
    columns = np.flatnonzero(np.bitwise_or.reduce(differing, axis=0)).tolist()
    return similar_checksums(differing, columns, checksum(first.tobytes(), 0), checksum)


def similar_checksums(
    differing: Octets, columns: Iterable[int], common: int, checksum: Checksum
) -> Checksums:
    """Checksums of the headers that equal one header, whose checksum is `common`, xor the rows of
    `differing`. These rows are zero outside of `columns`.
    """
    width = differing.shape[1]
    found = np.full(len(differing), common, np.uint32)
    for column in columns:
        found ^= _column_table(checksum, column, width)[differing[:, column]]
    return found


@cache
def _column_table(checksum: Checksum, column: int, width: int) -> Checksums:
    """By value of the byte in this column: what to xor to the checksum of a row of
    `width` bytes.
    """
    zeros = bytes(width)
    plain = checksum(zeros, 0)
    ahead, behind = zeros[:column], zeros[column + 1 :]
    added = (checksum(ahead + bytes((octet,)) + behind, 0) ^ plain for octet in range(256))
    return np.fromiter(added, np.uint32, 256)
