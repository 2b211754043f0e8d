"""Runs of entries: one frame is the wire message, the log record and the unit of copying.

Frame, big-endian: a 48-byte header, then `count` uint32 entry lengths, then the entries verbatim
(BookKeeper's format, see `entry`). The header: magic, version, flags, crc32c of all the rest of the
frame (flags included: a flipped bit there would let an add through a fence), ledger id, first entry
id, LAC, count, pattern size, pattern period, body bytes, reserved.

The i-th entry of a run has id  first + (i // size) * period + i % size : `size` consecutive ids out
of every `period`, so that one bookie's share of a striped fragment is one run. Size and period 0
mean consecutive ids.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import Final, NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from bookie.errors import FrameError
from bookie.frames.crc_combine import shifted
from bookie.frames.entry import ENTRY_HEADER_BYTES, Buffer
from bookie.frames.frame_buffers import FrameBuffers
from bookie.frames.from_fields import from_fields
from bookie.frames.reseal import resealed
from bookie.ids import ENTRY_ID_MAX, NO_ENTRY, EntryId, LedgerId

Octets = NDArray[np.uint8]

FRAME_HEADER: Final = struct.Struct(">HBBIqqqIHHII")
FRAME_HEADER_BYTES: Final = FRAME_HEADER.size
FRAME_MAGIC: Final = 0xB00C
FRAME_VERSION: Final = 1
FRAME_BYTES_MAX: Final = 5 * 1024 * 1024
RUN_ENTRIES_MAX: Final = 16384
FLAG_RECOVERY: Final = 1
"""Written by recovery or repair: a fence lets it through, limbo accepts it."""

FEW_ENTRIES_MAX: Final = 16
"""Up to here Python looks at each entry: a run of one is parsed in a third of the time so."""
_CRC_START: Final = 4
_CRC_END: Final = 8
_START: Final = struct.Struct(">HBBI")
"""Magic, version, flags and the checksum: of all other bytes of the frame."""
_START_CRCS: Final = tuple(
    crc32c(_START.pack(FRAME_MAGIC, FRAME_VERSION, flags, 0)[:_CRC_START]) for flags in range(256)
)
"""Of what stands before the checksum, by flags."""
_LONE_TAIL: Final = struct.Struct(">qqqIHHIII")
"""The rest of the header of a run of one entry, and the entry's length."""
_LONE_BYTES: Final = _START.size + _LONE_TAIL.size
_LONE_HEAD: Final = struct.Struct(FRAME_HEADER.format + "Iqq")
"""The whole header of such a run, the entry's length, and the ids that the entry says."""
_LENGTHS: Final = np.dtype(">u4")
_IDS: Final = np.dtype(">i8")
_HEAD: Final = struct.Struct(">qq")


@dataclass(frozen=True, slots=True)
class Pattern:
    """Which ids a run holds: `size` of every `period`; (0, 0) = consecutive."""

    size: int = 0
    period: int = 0

    def __post_init__(self) -> None:
        if (self.size, self.period) != (0, 0) and not 0 < self.size < self.period:
            raise FrameError(f"pattern needs 0 < size < period, found {self.size}/{self.period}")

    def id_at(self, first: int, index: int) -> int:
        """The id of the index-th entry of a run that starts at `first`."""
        if self.period == 0:
            return first + index
        return first + (index // self.size) * self.period + index % self.size

    def index_of(self, first: int, entry_id: int) -> int | None:
        """Which entry of the run has this id (its count not considered), None when none has."""
        distance = entry_id - first
        if distance < 0 or self.period == 0:
            return distance if distance >= 0 else None
        group, within = divmod(distance, self.period)
        return group * self.size + within if within < self.size else None


CONSECUTIVE: Final = Pattern()


@dataclass(slots=True)
class RunFrame:
    """A verified frame over `buffer`, which it does not copy. Not frozen, which would make it
    dear: one is made for every run that comes. Nobody changes it.
    """

    ledger_id: LedgerId
    first_entry_id: EntryId
    lac: EntryId
    count: int
    pattern: Pattern
    flags: int
    buffer: memoryview = field(repr=False)

    @property
    def last_entry_id(self) -> EntryId:
        if self.count == 1:
            return self.first_entry_id
        if self.pattern is CONSECUTIVE:
            return EntryId(self.first_entry_id + self.count - 1)
        return EntryId(self.pattern.id_at(self.first_entry_id, self.count - 1))

    @property
    def is_recovery(self) -> bool:
        return bool(self.flags & FLAG_RECOVERY)

    def entry_ids(self) -> Iterator[EntryId]:
        for index in range(self.count):
            yield EntryId(self.pattern.id_at(self.first_entry_id, index))

    def offsets(self) -> list[int]:
        """Where each entry starts in `buffer`, and the end of the last: count + 1 offsets."""
        if self.count > FEW_ENTRIES_MAX:
            offsets: list[int] = self.offset_vector().tolist()
            return offsets
        lengths = struct.unpack_from(f">{self.count}I", self.buffer, FRAME_HEADER_BYTES)
        return list(accumulate(lengths, initial=FRAME_HEADER_BYTES + 4 * self.count))

    def offset_vector(self) -> NDArray[np.int64]:
        """The same for vectors."""
        lengths = np.frombuffer(self.buffer, _LENGTHS, self.count, FRAME_HEADER_BYTES)
        starts = np.empty(self.count + 1, np.int64)
        starts[0] = FRAME_HEADER_BYTES + 4 * self.count
        np.cumsum(lengths, out=starts[1:])
        starts[1:] += starts[0]
        return starts

    def entries(self) -> Iterator[memoryview]:
        """The entries verbatim, in order."""
        for start, end in pairwise(self.offsets()):
            yield self.buffer[start:end]

    def entry(self, entry_id: EntryId) -> memoryview | None:
        """One entry verbatim, None when the run does not hold it."""
        index = self.pattern.index_of(self.first_entry_id, entry_id)
        if index is None or index >= self.count:
            return None
        offsets = self.offsets()
        return self.buffer[offsets[index] : offsets[index + 1]]


class LoneRun(NamedTuple):
    """A verified frame of one entry over `frame`, which it does not copy."""

    ledger_id: LedgerId
    entry_id: EntryId
    lac: EntryId
    flags: int
    frame: memoryview

    def as_frame(self) -> RunFrame:
        """The same as every other run."""
        return RunFrame(
            self.ledger_id, self.entry_id, self.lac, 1, CONSECUTIVE, self.flags, self.frame
        )


_lone_run: Final = from_fields(LoneRun)


def build_run(
    ledger_id: LedgerId,
    first_entry_id: EntryId,
    entries: Sequence[Buffer],
    *,
    lac: EntryId,
    pattern: Pattern = CONSECUTIVE,
    flags: int = 0,
) -> bytearray:
    """The frame of these entries, whose ids follow `pattern` from `first_entry_id`."""
    header = _header(
        ledger_id, first_entry_id, len(entries), sum(map(len, entries)), lac, pattern, flags
    )
    column = struct.pack(f">{len(entries)}I", *map(len, entries))
    frame = bytearray().join((header, column, *entries))
    _seal(memoryview(frame))
    return frame


def lone_run(
    ledger_id: LedgerId,
    entry_id: EntryId,
    head: bytes,
    payload: Buffer,
    *,
    lac: EntryId,
    flags: int = 0,
) -> bytes:
    """The frame of one entry, `head` being what stands before its payload.

    Whoever appends entry by entry sends one of these for each: nothing is made for a column of one.
    """
    size = len(head) + len(payload)
    tail = _LONE_TAIL.pack(ledger_id, entry_id, lac, 1, 0, 0, size, 0, size)
    found = crc32c(payload, crc32c(head, crc32c(tail, _START_CRCS[flags])))
    start = _START.pack(FRAME_MAGIC, FRAME_VERSION, flags, found)
    return b"".join((start, tail, head, payload))


def join_run(
    ledger_id: LedgerId,
    first_entry_id: EntryId,
    heads: Sequence[bytes],
    payloads: Sequence[bytes],
    *,
    lac: EntryId,
    pattern: Pattern = CONSECUTIVE,
    buffers: FrameBuffers,
) -> memoryview:
    """The same of a few entries: what stands before each payload, and the payloads."""
    lengths = [len(head) + len(payload) for head, payload in zip(heads, payloads, strict=True)]
    count = len(lengths)
    header = _header(ledger_id, first_entry_id, count, sum(lengths), lac, pattern, 0)
    column = struct.pack(f">{count}I", *lengths)
    frame = buffers.take(len(header) + len(column) + sum(lengths))
    at = 0
    for part in chain((header, column), chain.from_iterable(zip(heads, payloads, strict=True))):
        frame[at : at + len(part)] = part
        at += len(part)
    _seal(frame)
    return frame


def fill_run(
    ledger_id: LedgerId,
    first_entry_id: EntryId,
    heads: Octets,
    payloads: Sequence[bytes],
    lengths: NDArray[np.int64],
    *,
    lac: EntryId,
    pattern: Pattern = CONSECUTIVE,
    buffers: FrameBuffers,
) -> memoryview:
    """The same of many entries: a row of `heads` for each, and how long each payload is."""
    count, width = heads.shape
    sizes = lengths + width
    body_bytes = int(sizes.sum())
    start = FRAME_HEADER_BYTES + 4 * count
    header = _header(ledger_id, first_entry_id, count, body_bytes, lac, pattern, 0)
    frame = buffers.take(start + body_bytes)
    frame[:FRAME_HEADER_BYTES] = header
    frame[FRAME_HEADER_BYTES:start] = sizes.astype(_LENGTHS).tobytes()
    _fill_body(frame[start:], heads, payloads, lengths)
    _seal(frame)
    return frame


def gather_run(
    ledger_id: LedgerId,
    first_entry_id: EntryId,
    entries: Octets,
    *,
    lac: EntryId,
    pattern: Pattern = CONSECUTIVE,
    flags: int = 0,
    buffers: FrameBuffers,
) -> RunFrame:
    """The frame of entries of one length, a row of `entries` each, that lie apart in a buffer."""
    count, length = entries.shape
    start = FRAME_HEADER_BYTES + 4 * count
    frame = buffers.take(start + entries.size)
    frame[:FRAME_HEADER_BYTES] = _header(
        ledger_id, first_entry_id, count, entries.size, lac, pattern, flags
    )
    frame[FRAME_HEADER_BYTES:start] = length.to_bytes(4, "big") * count
    np.frombuffer(frame[start:], np.uint8).reshape(count, length)[:] = entries
    _seal(frame)
    return RunFrame(ledger_id, first_entry_id, lac, count, pattern, flags, frame)


def recovery_add(run: RunFrame, *, lac: EntryId) -> memoryview:
    """The same entries under a header that says so; its checksum follows from the one it had.

    In the frame's own memory where that can be written: a MiB is dear to copy, and whoever asked a
    bookie for a frame has it to themselves. `run` is not to be used any more.
    """
    frame = memoryview(bytearray(run.buffer)) if run.buffer.readonly else run.buffer
    old, entries_at = bytes(frame[:FRAME_HEADER_BYTES]), FRAME_HEADER_BYTES + 4 * run.count
    new = _header(
        run.ledger_id, run.first_entry_id, run.count, len(frame) - entries_at, lac, run.pattern,
        FLAG_RECOVERY,
    )  # fmt: skip
    found = resealed(
        int.from_bytes(old[_CRC_START:_CRC_END], "big"),
        old[:_CRC_START] + old[_CRC_END:],
        new[:_CRC_START] + new[_CRC_END:],
        behind=len(frame) - FRAME_HEADER_BYTES,
    )
    frame[:FRAME_HEADER_BYTES] = new
    frame[_CRC_START:_CRC_END] = found.to_bytes(4, "big")
    return frame


def _fill_body(
    body: memoryview, heads: Octets, payloads: Sequence[bytes], lengths: NDArray[np.int64]
) -> None:
    count, width = heads.shape
    if (lengths == lengths[0]).all() and lengths[0]:  # two copies of a rectangle
        rows = np.frombuffer(body, np.uint8).reshape(count, -1)
        rows[:, :width] = heads
        rows[:, width:] = np.frombuffer(b"".join(payloads), np.uint8).reshape(count, -1)
        return
    each_head = chain.from_iterable(struct.iter_unpack(f"{width}s", heads.tobytes()))
    body[:] = b"".join(chain.from_iterable(zip(each_head, payloads, strict=True)))


def _header(
    ledger_id: LedgerId,
    first_entry_id: EntryId,
    count: int,
    body_bytes: int,
    lac: EntryId,
    pattern: Pattern,
    flags: int,
) -> bytes:
    """Without the checksum; FrameError when the frame would be too long."""
    assert 0 < count <= RUN_ENTRIES_MAX
    total = FRAME_HEADER_BYTES + 4 * count + body_bytes
    if total > FRAME_BYTES_MAX:
        raise FrameError(f"a run of {total} bytes exceeds {FRAME_BYTES_MAX}")
    return FRAME_HEADER.pack(
        FRAME_MAGIC, FRAME_VERSION, flags, 0, ledger_id, first_entry_id, lac,
        count, pattern.size, pattern.period, body_bytes, 0,
    )  # fmt: skip


def _seal(frame: memoryview) -> None:
    found = _checksum(frame[:_CRC_START], frame[_CRC_END:])
    frame[_CRC_START:_CRC_END] = found.to_bytes(4, "big")


def _checksum(start: Buffer, tail: Buffer) -> int:
    """Of all bytes of a frame but the checksum's own four."""
    return crc32c(tail, crc32c(start))


def entries_checksum(run: RunFrame) -> int:
    """That of all entries together, from the frame's own: they are not read."""
    entries_at = FRAME_HEADER_BYTES + 4 * run.count
    ahead = _checksum(run.buffer[:_CRC_START], run.buffer[_CRC_END:entries_at])
    whole = int.from_bytes(run.buffer[_CRC_START:_CRC_END], "big")
    return whole ^ shifted(ahead, len(run.buffer) - entries_at)


def frame_bytes(header: Buffer) -> int:
    """Length of the whole frame, from its first 48 bytes; FrameError when they are no header."""
    return _total_bytes(_header_of(header))


def _header_of(buffer: Buffer) -> tuple[int, ...]:
    if len(buffer) < FRAME_HEADER_BYTES:
        raise FrameError(f"a frame header has {FRAME_HEADER_BYTES} bytes, found {len(buffer)}")
    return FRAME_HEADER.unpack_from(buffer)


def _total_bytes(header: tuple[int, ...]) -> int:
    magic, version, _flags, _crc, _ledger, _first, _lac, count, _s, _p, body, _r = header
    if magic != FRAME_MAGIC or version != FRAME_VERSION:
        raise FrameError(
            f"not a run frame: magic {magic:#06x} version {version}, "
            f"expected {FRAME_MAGIC:#06x} version {FRAME_VERSION}"
        )
    total = FRAME_HEADER_BYTES + 4 * count + body
    if not 0 < count <= RUN_ENTRIES_MAX or total > FRAME_BYTES_MAX:
        raise FrameError(
            f"a run of {count} entries and {total} bytes exceeds the limits "
            f"of 1..{RUN_ENTRIES_MAX} entries and {FRAME_BYTES_MAX} bytes"
        )
    return total


def parse_run(buffer: Buffer) -> RunFrame:
    """The frame at the start of `buffer`, fully checked; FrameError says what is wrong.

    Checks: limits, crc32c, the length column against the body, and that every entry says the ledger
    and entry id that the header claims for it. No work per entry in Python where there are many.
    """
    if (lone := parse_lone_run(buffer)) is not None:
        return lone.as_frame()
    header = _header_of(buffer)
    total = _total_bytes(header)
    if len(buffer) < total:
        raise FrameError(f"frame is cut off: {len(buffer)} of {total} bytes")
    view = memoryview(buffer)[:total]
    _m, _v, flags, crc, ledger, first, lac, count, size, period, body, _r = header
    found = _checksum(view[:_CRC_START], view[_CRC_END:])
    if found != crc:
        raise FrameError(f"frame checksum is {found:#010x}, its header says {crc:#010x}")
    if first < 0 or ledger < 0 or lac < NO_ENTRY:
        raise FrameError(f"negative ids: ledger {ledger}, first entry {first}, LAC {lac}")
    pattern = Pattern(size, period) if size or period else CONSECUTIVE
    frame = RunFrame(LedgerId(ledger), EntryId(first), EntryId(lac), count, pattern, flags, view)
    if frame.last_entry_id > ENTRY_ID_MAX:  # beyond it, vectors of ids would wrap round
        raise FrameError(f"a run from {first} on ends at {frame.last_entry_id}: no entry id")
    _check_entries(frame, body)
    return frame


def parse_lone_run(buffer: Buffer) -> LoneRun | None:
    """A run of one entry if that is what comes first and all is right with it, by one look.

    None of anything else, good or not: `parse_run` finds what it is, or what is wrong.
    """
    if len(buffer) < _LONE_HEAD.size:
        return None
    (
        magic, version, flags, crc, ledger, first, lac, count, size, period, body, _r,
        length, own_ledger, own_entry,
    ) = _LONE_HEAD.unpack_from(buffer)  # fmt: skip
    total = _LONE_BYTES + body
    if (
        count != 1 or magic != FRAME_MAGIC or version != FRAME_VERSION or size or period
        or length != body or body < ENTRY_HEADER_BYTES or total > FRAME_BYTES_MAX
        or total > len(buffer) or own_ledger != ledger or own_entry != first
        or ledger < 0 or first < 0 or lac < NO_ENTRY
    ):  # fmt: skip
        return None
    view = memoryview(buffer)
    if total < len(buffer):
        view = view[:total]
    if crc32c(view[_CRC_END:], _START_CRCS[flags]) != crc:
        return None
    return _lone_run((ledger, first, lac, flags, view))


def checked_run(buffer: Buffer) -> RunFrame:
    """The same of a frame that is known to be good: made or checked by this process just now."""
    _m, _v, flags, _crc, ledger, first, lac, count, size, period, _b, _r = _header_of(buffer)
    pattern = Pattern(size, period) if period else CONSECUTIVE
    ids = LedgerId(ledger), EntryId(first), EntryId(lac)
    return RunFrame(*ids, count, pattern, flags, memoryview(buffer))


def _check_entries(frame: RunFrame, body_bytes: int) -> None:
    if frame.count <= FEW_ENTRIES_MAX:
        _check_each(frame, body_bytes)
    else:
        _check_together(frame, body_bytes)


def _check_each(frame: RunFrame, body_bytes: int) -> None:
    offsets = frame.offsets()
    shortest = min(end - start for start, end in pairwise(offsets))
    _check_lengths(offsets[-1] - offsets[0], body_bytes, shortest)
    for start, entry_id in zip(offsets, frame.entry_ids(), strict=False):
        if _HEAD.unpack_from(frame.buffer, start) != (frame.ledger_id, entry_id):
            raise _strangers(frame)


def _check_together(frame: RunFrame, body_bytes: int) -> None:
    offsets = frame.offset_vector()
    shortest = int((offsets[1:] - offsets[:-1]).min())
    _check_lengths(int(offsets[-1] - offsets[0]), body_bytes, shortest)
    heads = _heads(np.frombuffer(frame.buffer, np.uint8), offsets)
    index = np.arange(frame.count, dtype=np.int64)
    pattern = frame.pattern
    if pattern.period:
        index = (index // pattern.size) * pattern.period + index % pattern.size
    if (heads[:, 0] != frame.ledger_id).any() or (
        heads[:, 1] != frame.first_entry_id + index
    ).any():
        raise _strangers(frame)


def _heads(octets: Octets, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ledger id and entry id that each entry says."""
    lengths = offsets[1:] - offsets[:-1]
    if (lengths == lengths[0]).all():  # a rectangle: nothing to gather
        rows = octets[offsets[0] : offsets[-1]].reshape(len(lengths), -1)
        return np.ascontiguousarray(rows[:, : _HEAD.size]).view(_IDS)
    found: NDArray[np.int64] = octets[offsets[:-1, None] + np.arange(_HEAD.size)].view(_IDS)
    return found


def _check_lengths(found_bytes: int, body_bytes: int, shortest: int) -> None:
    if found_bytes != body_bytes:
        raise FrameError(f"entry lengths add up to {found_bytes}, the header says {body_bytes}")
    if shortest < ENTRY_HEADER_BYTES:
        raise FrameError(f"an entry of the run is shorter than its header of {ENTRY_HEADER_BYTES}")


def _strangers(frame: RunFrame) -> FrameError:
    return FrameError(
        f"entries of the run do not carry ledger {frame.ledger_id} and the ids "
        f"from {frame.first_entry_id} that the frame claims"
    )
