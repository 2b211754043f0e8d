"""Parses and answers many adds at once: consecutive frames that differ only in their ids and
entries.

A writer under load sends hundreds of adds of one size. This module treats them as a matrix with a
row for each frame, so that Python does nothing per entry: bytes that must be equal are compared by
columns, ids are read by columns, and answers are made by copying columns of ids into a template.
Frames that do not form such a matrix are no block, and are parsed one by one (`v2`, `v3`).
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bookie.frames.entry import ENTRY_BYTES_MAX, ENTRY_HEADER_BYTES
from bookie.ids import EntryId, LedgerId
from bookie.wire.stock import bookkeeper_protocol_pb2 as proto
from bookie.wire.stock.framing import FRAME_LENGTH, FRAME_LENGTH_BYTES
from bookie.wire.stock.messages import MASTER_KEY_BYTES, Add, Outcome
from bookie.wire.stock.v2 import FLAG_RECOVERY_ADD, OP_ADD, V2, VERSION
from bookie.wire.stock.wire import Wire

Octets = NDArray[np.uint8]
Ids = NDArray[np.int64]

BLOCK_ENTRIES_MIN: Final = 24
"""Fewest adds that make a block; fewer ones are parsed faster one by one."""
BLOCK_ENTRIES_MAX: Final = 8192

_HEAD_BYTES_MAX: Final = 256
"""The entry must begin within so many bytes of its frame."""
_VARINT_BYTES_MAX: Final = 9
"""Most bytes of a varint that is not negative as int64; a frame with a longer one is not taken into
a block."""


class Number(NamedTuple):
    """Where a number lies in a frame: a varint in version 3, an int64 in version 2."""

    at: int
    size: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the parts lie in every frame of a block. Offsets count from the start of the frame, at
    its length field.

    `ids`: the numbers that an answer repeats, in the answer's order. `fixed`: offsets at which
    every frame has, under `mask`, the `expected` bytes.
    """

    frame_bytes: int
    key_at: int
    entry_at: int
    entry_bytes: int
    ids: tuple[Number, ...]
    is_recovery: bool
    is_deferred_sync: bool
    fixed: NDArray[np.intp] = field(repr=False)
    mask: Octets = field(repr=False)
    expected: Octets = field(repr=False)

    @property
    def id_offsets(self) -> NDArray[np.intp]:
        return np.concatenate([np.arange(at, at + size) for at, size in self.ids])


@dataclass(frozen=True, slots=True, eq=False)
class AddBlock:
    """A block of adds, one per row: their ids, LACs, keys, and entries (views of the receive
    buffer), and what the answers need.
    """

    wire: Wire
    layout: Layout
    rows: Octets = field(repr=False)
    ledgers: Ids = field(repr=False)
    entry_ids: Ids = field(repr=False)
    lacs: Ids = field(repr=False)
    ids: Octets = field(repr=False)
    """The bytes of each row's ids. They are a copy, since the receive buffer is reused before the
    answers are made."""

    @property
    def frames_bytes(self) -> int:
        return int(self.rows.size)

    @property
    def entries(self) -> Octets:
        """A row for each entry."""
        layout = self.layout
        return self.rows[:, layout.entry_at : layout.entry_at + layout.entry_bytes]

    @property
    def keys(self) -> Octets:
        """A row for each master key."""
        return self.rows[:, self.layout.key_at : self.layout.key_at + MASTER_KEY_BYTES]

    def answers(self, chosen: "slice | NDArray[np.intp]", outcome: Outcome) -> bytes:
        """The answers to some of the adds, all with the same outcome."""
        ids = self.ids[chosen]
        template, offsets = _template(self.wire, self.layout, ids[0], outcome)
        answers = np.empty((len(ids), len(template)), np.uint8)
        answers[:] = np.frombuffer(template, np.uint8)
        answers[:, offsets] = ids
        return answers.tobytes()


class BlockScan:
    """Finds the blocks of one connection. Keeps the layout of the last one, since the next one is
    likely to be alike.
    """

    def __init__(self) -> None:
        self._layout: Layout | None = None
        """Layout of the last add that was looked at, which the next ones are likely to share; None
        before the first."""

    def find(self, wire: Wire, view: memoryview) -> AddBlock | None:
        """The adds at the start of `view` as a block; None when they are few or differ."""
        if len(view) < FRAME_LENGTH_BYTES:
            return None
        (length,) = FRAME_LENGTH.unpack_from(view)
        if (FRAME_LENGTH_BYTES + length) * BLOCK_ENTRIES_MIN > len(view):
            return None
        layout = self._layout
        block = _block(wire, layout, view) if layout is not None else None
        if block is not None:
            return block
        fresh = layout_of(wire, view)
        if fresh is None:
            return None
        self._layout = fresh
        return _block(wire, fresh, view)


def layout_of(wire: Wire, view: memoryview) -> Layout | None:
    """The layout of the add at the start of `view`; None when there is no valid add, or not enough
    bytes for a block.
    """
    if len(view) < FRAME_LENGTH_BYTES + ENTRY_HEADER_BYTES:
        return None
    (length,) = FRAME_LENGTH.unpack_from(view)
    size = FRAME_LENGTH_BYTES + length
    if size * BLOCK_ENTRIES_MIN > len(view) or length < ENTRY_HEADER_BYTES:
        return None
    return _layout_v2(view, size) if isinstance(wire, V2) else _layout_v3(view, size)


def _block(wire: Wire, layout: Layout, view: memoryview) -> AddBlock | None:
    stride = layout.frame_bytes
    count = min(len(view) // stride, BLOCK_ENTRIES_MAX)
    if count < BLOCK_ENTRIES_MIN:
        return None
    rows = np.frombuffer(view, np.uint8, count * stride).reshape(count, stride)
    agrees = ((rows[:, layout.fixed] & layout.mask) == layout.expected).all(axis=1)
    if not agrees.all():
        count = int(agrees.argmin())
        if count < BLOCK_ENTRIES_MIN:
            return None
        rows = rows[:count]
    heads = [_column(view, count, layout.entry_at + at, stride) for at in (0, 8, 16)]
    ledgers, entry_ids, lacs = (head.astype(np.int64) for head in heads)
    if int((ledgers | entry_ids).min()) < 0 or not _match(rows, layout, ledgers, entry_ids):
        return None
    return AddBlock(wire, layout, rows, ledgers, entry_ids, lacs, rows[:, layout.id_offsets])


def _column(view: memoryview, count: int, at: int, stride: int) -> NDArray[np.void]:
    """One int64 of every frame, at offset `at`."""
    return np.ndarray((count,), ">i8", view, at, (stride,))


def _match(rows: Octets, layout: Layout, ledgers: Ids, entry_ids: Ids) -> bool:
    """True when the ids in the requests are those in their entries."""
    if len(layout.ids) == 2:  # version 2 takes the ids from the entries
        return True
    _txn, ledger, entry = layout.ids
    is_same = np.array_equal(_varints(rows, ledger), ledgers)
    return is_same and np.array_equal(_varints(rows, entry), entry_ids)


def _varints(rows: Octets, number: Number) -> Ids:
    found = np.zeros(len(rows), np.int64)
    for place in range(number.size):
        found |= (rows[:, number.at + place] & 0x7F).astype(np.int64) << (7 * place)
    return found


# ---- version 2 ----------------------------------------------------------------------------------

_WORD_AT: Final = FRAME_LENGTH_BYTES
_KEY_AT: Final = _WORD_AT + 4
_ENTRY_AT: Final = _KEY_AT + MASTER_KEY_BYTES
_V2_ANSWER_IDS_AT: Final = 12


def _layout_v2(view: memoryview, size: int) -> Layout | None:
    version, operation = view[_WORD_AT], view[_WORD_AT + 1]
    entry_bytes = size - _ENTRY_AT
    if (version, operation) != (VERSION, OP_ADD) or not _is_entry(entry_bytes):
        return None
    fixed = np.arange(_KEY_AT)
    return Layout(
        size, _KEY_AT, _ENTRY_AT, entry_bytes,
        ids=(Number(_ENTRY_AT, 8), Number(_ENTRY_AT + 8, 8)),
        is_recovery=view[_KEY_AT - 1] & FLAG_RECOVERY_ADD != 0,
        is_deferred_sync=False,
        fixed=fixed,
        mask=np.full(len(fixed), 0xFF, np.uint8),
        expected=np.array(view[:_KEY_AT], np.uint8),
    )  # fmt: skip


def _is_entry(size: int) -> bool:
    return ENTRY_HEADER_BYTES <= size <= ENTRY_BYTES_MAX


# ---- version 3 ----------------------------------------------------------------------------------

_HEADER: Final = b"\x0a"
"""Field 1 of Request and Response, length-delimited."""
_ADD_REQUEST: Final = b"\xaa\x06"
"""Field 101 of Request and Response, length-delimited."""
_VERSION_AND_ADD: Final = bytes((0x08, 3, 0x10, proto.ADD_ENTRY))
_TXN, _PRIORITY = 0x18, 0x20
_LEDGER, _ENTRY, _KEY, _BODY, _WRITE_FLAGS = 0x08, 0x10, 0x1A, 0x22, 0x28
_FLAG: Final = b"\xa0\x06\x01"
"""Field 100 of AddRequest: RECOVERY_ADD."""


class _Scan:
    """Reads one frame as stock clients write it, field by field in the order of their numbers."""

    def __init__(self, view: memoryview, size: int) -> None:
        self.head = bytes(view[: min(size, _HEAD_BYTES_MAX)])
        self.size = size
        self.at = FRAME_LENGTH_BYTES
        """Offset in `head` up to which it has been read."""

    def takes(self, expected: bytes) -> bool:
        if self.head[self.at : self.at + len(expected)] != expected:
            return False
        self.at += len(expected)
        return True

    def number(self) -> tuple[Number, int] | None:
        """The varint that comes next."""
        value, start = 0, self.at
        for octet in self.head[start : start + _VARINT_BYTES_MAX]:
            value |= (octet & 0x7F) << (7 * (self.at - start))
            self.at += 1
            if octet < 0x80:
                return Number(start, self.at - start), value
        return None


def _layout_v3(view: memoryview, size: int) -> Layout | None:
    scan = _Scan(view, size)
    if not scan.takes(_HEADER) or (header := scan.number()) is None:
        return None
    header_end = scan.at + header[1]
    if not scan.takes(_VERSION_AND_ADD + bytes((_TXN,))) or (txn := scan.number()) is None:
        return None
    if scan.at != header_end and scan.takes(bytes((_PRIORITY,))):
        scan.number()
    if scan.at != header_end:
        return None
    return _add_request_v3(scan, view, txn[0])


def _add_request_v3(scan: _Scan, view: memoryview, txn: Number) -> Layout | None:
    if not scan.takes(_ADD_REQUEST) or (part := scan.number()) is None:
        return None
    if scan.at + part[1] != scan.size or not scan.takes(bytes((_LEDGER,))):
        return None
    ledger = scan.number()
    entry = scan.number() if ledger is not None and scan.takes(bytes((_ENTRY,))) else None
    if ledger is None or entry is None or not scan.takes(bytes((_KEY, MASTER_KEY_BYTES))):
        return None
    key_at = scan.at
    scan.at += MASTER_KEY_BYTES
    body = scan.number() if scan.takes(bytes((_BODY,))) else None
    if body is None or not _is_entry(body[1]) or scan.at + body[1] > scan.size:
        return None
    entry_at, entry_end = scan.at, scan.at + body[1]
    rest = bytes(view[entry_end : scan.size])
    return _made_v3(rest, scan, (txn, ledger[0], entry[0]), key_at, entry_at, entry_end)


def _made_v3(
    rest: bytes, scan: _Scan, ids: tuple[Number, ...], key_at: int, entry_at: int, entry_end: int
) -> Layout | None:
    """The layout of an add whose frame ends with `rest`: what follows the entry, which is write
    flags and the flag of a recovery.
    """
    is_recovery = rest.endswith(_FLAG)
    flags = rest.removesuffix(_FLAG)
    if flags and (len(flags) != 2 or flags[0] != _WRITE_FLAGS or flags[1] > 1):
        return None
    key = range(key_at, key_at + MASTER_KEY_BYTES)
    head = [at for at in range(entry_at) if at not in key]
    fixed = np.array([*head, *range(entry_end, scan.size)])
    mask = np.full(len(fixed), 0xFF, np.uint8)
    for at, size in ids:
        mask[(fixed >= at) & (fixed < at + size)] = 0x80
    frame = np.frombuffer(scan.head[:entry_at] + rest, np.uint8)
    expected = frame[np.where(fixed < entry_at, fixed, fixed - entry_end + entry_at)] & mask
    return Layout(
        scan.size, key_at, entry_at, entry_end - entry_at,
        ids=ids, is_recovery=is_recovery, is_deferred_sync=flags[1:] == b"\x01",
        fixed=fixed, mask=mask, expected=expected,
    )  # fmt: skip


# ---- answers ------------------------------------------------------------------------------------


def _template(
    wire: Wire, layout: Layout, ids: Octets, outcome: Outcome
) -> tuple[bytes, NDArray[np.intp]]:
    """The answer to the add with these ids, and where the bytes of its ids lie."""
    if len(layout.ids) == 2:
        ledger, entry = np.frombuffer(ids.tobytes(), ">i8").tolist()
        tag = VERSION << 24 | OP_ADD << 16
        answer = wire.answer_add(_add(ledger, entry, tag), outcome)
        return answer, np.arange(_V2_ANSWER_IDS_AT, _V2_ANSWER_IDS_AT + len(ids))
    values, at = [], 0
    for _at, size in layout.ids:
        octets = ids[at : at + size].tolist()
        values.append(sum((octet & 0x7F) << (7 * place) for place, octet in enumerate(octets)))
        at += size
    txn, ledger, entry = values
    answer = wire.answer_add(_add(ledger, entry, txn), outcome)
    return answer, _id_offsets_v3(answer, layout)


def _add(ledger: int, entry: int, tag: int) -> Add:
    return Add(LedgerId(ledger), EntryId(entry), b"", memoryview(b""), False, False, tag)


def _id_offsets_v3(answer: bytes, layout: Layout) -> NDArray[np.intp]:
    """Offsets of the ids in a Response: a header that ends with the transaction id, a status, and a
    part that ends with the ids of ledger and entry.
    """
    txn, ledger, entry = (size for _at, size in layout.ids)
    header_at = FRAME_LENGTH_BYTES + 2
    txn_at = header_at + answer[header_at - 1] - txn
    entry_at = len(answer) - entry
    ledger_at = entry_at - 1 - ledger
    spans = ((txn_at, txn), (ledger_at, ledger), (entry_at, entry))
    return np.concatenate([np.arange(at, at + size) for at, size in spans])
