"""Parses adds of version 3 as stock clients write them, by the order of their fields and without
protobuf.

Protobuf's parser copies the frame, the message, and the entry when the entry is read. This parser
copies only the master key. It knows only what a stock client writes, field by field in the order of
their numbers. For all other frames, and for invalid ones, it returns None, and `v3` has protobuf
parse them.
"""

import re
import struct
from typing import Final

from bookie.frames.entry import ENTRY_BYTES_MAX, ENTRY_HEADER_BYTES
from bookie.wire.stock import bookkeeper_protocol_pb2 as proto
from bookie.wire.stock.messages import MASTER_KEY_BYTES, Add

VERSION: Final = 3

_NUMBER: Final = rb"([\x80-\xff]{0,8}[\x00-\x7f])"
"""A varint that is not negative as int64."""
_HEAD: Final = re.compile(
    b"".join((
        rb"\x0a(.)(\x08", bytes((VERSION,)), rb"\x10", bytes((proto.ADD_ENTRY,)), rb"\x18", _NUMBER,
        rb"(?:\x20[\x80-\xff]{0,8}[\x00-\x7f])?)",  # the priority
        rb"\xaa\x06", _NUMBER, rb"()\x08", _NUMBER, rb"\x10", _NUMBER,
        rb"\x1a", bytes((MASTER_KEY_BYTES,)), rb"(.{%d})\x22" % MASTER_KEY_BYTES, _NUMBER,
    )),
    re.DOTALL,
)  # fmt: skip
"""All that comes before the entry: the header, then the part of an add. This expression exists
because protobuf's parser takes more than twice as long for such an add. An example, ledger 7, entry
8, of 40 bytes, in transaction 300, behind the frame's length; `..` are bytes of the key and the
entry:

    0a 07                       Request.header, 7 bytes
       08 03                      version: 3
       10 01                      operation: ADD_ENTRY
       18 ac 02                   txnId: 300
    aa 06 44                    Request.addRequest, 68 bytes
       08 07                      ledgerId: 7
       10 08                      entryId: 8
       1a 14 ..                   masterKey, 20 bytes
       22 28 ..                   body, 40 bytes: the entry, where this expression ends
"""
_HEADER_SIZE, _HEADER, _TXN, _PART_SIZE, _PART, _LEDGER, _ENTRY, _KEY, _BODY_SIZE = range(1, 10)
_TAILS: Final = {
    write_flags + flag: (flag != b"", write_flags == b"\x28\x01")
    for write_flags in (b"", b"\x28\x00", b"\x28\x01")
    for flag in (b"", b"\xa0\x06\x01")
}
"""What may follow the entry, and what it means: whether the add is a recovery's write-back, and
whether its sync is deferred."""
_TAIL_BYTES_MAX: Final = max(map(len, _TAILS))
_IDS: Final = struct.Struct(">qq")


def plain_add(frame: memoryview) -> Add | None:
    """Parse this frame (without its length) as an add, whose entry is a view of the frame; None as
    the module says.
    """
    head = _HEAD.match(frame)
    if head is None:
        return None
    size, (sized, _h, txn, part, _p, ledger, entry, key, body) = len(frame), head.groups()
    at = head.end()
    end = at + _number(body)
    if (
        sized[0] != head.end(_HEADER) - head.start(_HEADER)
        or _number(part) != size - head.end(_PART)
        or not ENTRY_HEADER_BYTES <= end - at <= ENTRY_BYTES_MAX
        or not end <= size <= end + _TAIL_BYTES_MAX
    ):
        return None
    tail = _TAILS.get(bytes(frame[end:]))
    ids = _IDS.unpack_from(frame, at)
    if tail is None or ids != (_number(ledger), _number(entry)):
        return None
    return _add((*ids, key, frame[at:end], *tail, _number(txn)))


_add = Add._make


def _number(octets: bytes) -> int:
    """The value of a varint."""
    if len(octets) == 1:
        return octets[0]
    value = 0
    for octet in octets[::-1]:
        value = value << 7 | octet & 0x7F
    return value
