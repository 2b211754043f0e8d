"""Run frames: their layout, and the one parser.

A *run* of entries is one frame: the wire message, the log record and the unit of copying. `build`
makes frames, `digests` verifies their entries.

Frame, big-endian: a 48-byte header, then `count` uint32 entry lengths, then the entries verbatim
(BookKeeper's format, see `entry`):

00 magic b00c | version 01 | flags | crc32c of all bytes of the frame but these four 08 ledger id
(int64) | first entry id (int64) 18 LAC (int64) | count (uint32) | pattern size, period (2 x uint16)
28 bytes of all entries (uint32) | reserved (uint32) 30 count x length of an entry (uint32), then
the entries

The checksum covers the flags, because a flipped bit there would let an add through a fence.

The i-th entry of a run has id first + (i // size) * period + i % size : `size` consecutive ids out
of every `period`, so that one bookie's share of a striped fragment is one run. Size and period 0
mean consecutive ids.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from bookie.errors import FrameError
from bookie.frames.crc import Octets
from bookie.frames.entry import ENTRY_HEADER_BYTES, FEW_ENTRIES_MAX, Buffer, parse_header
from bookie.frames.from_fields import from_fields
from bookie.ids import ENTRY_ID_MAX, NO_ENTRY, EntryId, LedgerId

FRAME_HEADER: Final = struct.Struct(">HBBIqqqIHHII")
FRAME_HEADER_BYTES: Final = FRAME_HEADER.size
FRAME_MAGIC: Final = 0xB00C
FRAME_VERSION: Final = 1
FRAME_BYTES_MAX: Final = 5 * 1024 * 1024
RUN_ENTRIES_MAX: Final = 16384
FLAG_RECOVERY: Final = 1
"""A recovery or a repair sends this frame: fence and limbo let it through."""

FRAME_START: Final = struct.Struct(">HBBI")
"""Magic, version, flags, and the checksum of all other bytes of the frame."""
CHECKSUM_AT: Final = 4
SEALED_AT: Final = 8
"""The checksum covers the bytes from here to the end of the frame, and the first four bytes."""
START_CHECKSUMS: Final = tuple(
    crc32c(FRAME_START.pack(FRAME_MAGIC, FRAME_VERSION, flags, 0)[:CHECKSUM_AT])
    for flags in range(256)
)
"""By flags: the checksum of magic, version and flags, from which a frame's checksum is
continued."""
_SINGLE: Final = struct.Struct(">Iqq")
"""The bytes behind the header of a run of one entry: its length, and the entry's own two ids."""
LENGTHS: Final = np.dtype(">u4")
_NUMBERS: Final = np.dtype(">i8")
_IDS: Final = struct.Struct(">qq")


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
        """The index of the entry with this id, None when no entry has it; ignores the
        run's count.
        """
        distance = entry_id - first
        if distance < 0 or self.period == 0:
            return distance if distance >= 0 else None
        group, within = divmod(distance, self.period)
        return group * self.size + within if within < self.size else None


CONSECUTIVE: Final = Pattern()


class RunFrame(NamedTuple):
    """A valid frame over `buffer`, which is not copied; `parse_run` checks it before.

    It is a tuple, since a bookie makes one for every run that arrives (`from_fields`).
    """

    ledger_id: LedgerId
    first_entry_id: EntryId
    lac: EntryId
    """The LAC that the writer knew when it built the frame; -1 = none."""
    count: int  # type: ignore[assignment]  # hides tuple.count, which no code uses
    """How many entries: 1..RUN_ENTRIES_MAX."""
    pattern: Pattern
    flags: int
    """One byte: FLAG_RECOVERY or 0."""
    buffer: memoryview
    """The whole frame and nothing behind it."""

    @classmethod
    def trusted(cls, buffer: Buffer) -> "RunFrame":
        """The frame in `buffer` without any check: this process built or parsed it just now."""
        header = FRAME_HEADER.unpack_from(buffer)
        _m, _v, flags, _crc, ledger, first, lac, count, size, period, _b, _r = header
        pattern = Pattern(size, period) if period else CONSECUTIVE
        return run_frame((ledger, first, lac, count, pattern, flags, memoryview(buffer)))

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
        """Where each entry starts in `buffer`, and where the last one ends: count + 1 offsets."""
        if self.count > FEW_ENTRIES_MAX:
            offsets: list[int] = self.offset_vector().tolist()
            return offsets
        lengths = struct.unpack_from(f">{self.count}I", self.buffer, FRAME_HEADER_BYTES)
        return list(accumulate(lengths, initial=FRAME_HEADER_BYTES + 4 * self.count))

    def offset_vector(self) -> NDArray[np.int64]:
        """`offsets` as an array."""
        lengths = np.frombuffer(self.buffer, LENGTHS, self.count, FRAME_HEADER_BYTES)
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

    def carried_lac(self) -> EntryId:
        """The LAC in the last entry; no earlier entry was written with a higher one."""
        at = FRAME_HEADER_BYTES + 4 * (self.count - 1)
        length = int.from_bytes(self.buffer[at : at + 4], "big")
        return parse_header(self.buffer[len(self.buffer) - length :]).lac


run_frame: Final = from_fields(RunFrame)
"""Makes a RunFrame from a tuple of its fields, without a call of a Python function."""


def frame_bytes(header: Buffer) -> int:
    """Length of the whole frame, from its first 48 bytes; FrameError when these are no header."""
    if len(header) < FRAME_HEADER_BYTES:
        raise _no_header(header)
    magic, version, *_more, count, _size, _period, body, _r = FRAME_HEADER.unpack_from(header)
    total: int = FRAME_HEADER_BYTES + 4 * count + body
    if (
        (magic, version) != (FRAME_MAGIC, FRAME_VERSION)
        or not 0 < count <= RUN_ENTRIES_MAX
        or total > FRAME_BYTES_MAX
    ):
        raise _no_header(header)
    return total


def _no_header(buffer: Buffer) -> FrameError:
    """The error that says why a frame cannot begin like this."""
    if len(buffer) < FRAME_HEADER_BYTES:
        return FrameError(f"a frame header has {FRAME_HEADER_BYTES} bytes, found {len(buffer)}")
    magic, version, *_more, count, _size, _period, body, _r = FRAME_HEADER.unpack_from(buffer)
    if magic != FRAME_MAGIC or version != FRAME_VERSION:
        return FrameError(
            f"not a run frame: magic {magic:#06x} version {version}, "
            f"expected {FRAME_MAGIC:#06x} version {FRAME_VERSION}"
        )
    return FrameError(
        f"a run of {count} entries and {FRAME_HEADER_BYTES + 4 * count + body} bytes exceeds the "
        f"limits of 1..{RUN_ENTRIES_MAX} entries and {FRAME_BYTES_MAX} bytes"
    )


def parse_run(buffer: Buffer) -> RunFrame:
    """Parse and fully check the frame at the start of `buffer`; FrameError says what is wrong.

    It checks the limits, the crc32c, the length column against the body, and that every entry
    carries the ledger id and the entry id that the header claims. With many entries it does no work
    per entry in Python.
    """
    found_bytes = len(buffer)
    if found_bytes < FRAME_HEADER_BYTES:
        raise _no_header(buffer)
    (
        magic, version, flags, crc, ledger, first, lac, count, size, period, body, _r
    ) = FRAME_HEADER.unpack_from(buffer)  # fmt: skip
    total = FRAME_HEADER_BYTES + 4 * count + body
    if (
        magic != FRAME_MAGIC or version != FRAME_VERSION
        or not 0 < count <= RUN_ENTRIES_MAX or total > FRAME_BYTES_MAX
    ):  # fmt: skip
        raise _no_header(buffer)
    if found_bytes < total:
        raise FrameError(f"frame is cut off: {found_bytes} of {total} bytes")
    view = memoryview(buffer)
    if found_bytes > total:
        view = view[:total]
    found = crc32c(view[SEALED_AT:], START_CHECKSUMS[flags])
    if found != crc:
        raise FrameError(f"frame checksum is {found:#010x}, its header says {crc:#010x}")
    if first < 0 or ledger < 0 or lac < NO_ENTRY:
        raise FrameError(f"negative ids: ledger {ledger}, first entry {first}, LAC {lac}")
    pattern = Pattern(size, period) if size or period else CONSECUTIVE
    frame = run_frame((ledger, first, lac, count, pattern, flags, view))
    if count > 1 or body < ENTRY_HEADER_BYTES or first > ENTRY_ID_MAX or (
        _SINGLE.unpack_from(view, FRAME_HEADER_BYTES) != (body, ledger, first)
    ):  # fmt: skip
        _check_entries(frame, body)
    return frame


def _check_entries(frame: RunFrame, body_bytes: int) -> None:
    if frame.last_entry_id > ENTRY_ID_MAX:  # else arrays of ids would overflow
        raise FrameError(
            f"a run from {frame.first_entry_id} on ends at {frame.last_entry_id}: no entry id"
        )
    if frame.count <= FEW_ENTRIES_MAX:
        _check_each(frame, body_bytes)
    else:
        _check_together(frame, body_bytes)


def _check_each(frame: RunFrame, body_bytes: int) -> None:
    offsets = frame.offsets()
    shortest = min(end - start for start, end in pairwise(offsets))
    _check_lengths(offsets[-1] - offsets[0], body_bytes, shortest)
    for start, entry_id in zip(offsets, frame.entry_ids(), strict=False):
        if _IDS.unpack_from(frame.buffer, start) != (frame.ledger_id, entry_id):
            raise _strangers(frame)


def _check_together(frame: RunFrame, body_bytes: int) -> None:
    offsets = frame.offset_vector()
    shortest = int((offsets[1:] - offsets[:-1]).min())
    _check_lengths(int(offsets[-1] - offsets[0]), body_bytes, shortest)
    ids = _ids_said(np.frombuffer(frame.buffer, np.uint8), offsets)
    index = np.arange(frame.count, dtype=np.int64)
    pattern = frame.pattern
    if pattern.period:
        index = (index // pattern.size) * pattern.period + index % pattern.size
    if (ids[:, 0] != frame.ledger_id).any() or (ids[:, 1] != frame.first_entry_id + index).any():
        raise _strangers(frame)


def _ids_said(octets: Octets, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The ledger id and the entry id in the header of each entry."""
    lengths = offsets[1:] - offsets[:-1]
    if (lengths == lengths[0]).all():  # all of one length: no gathering
        rows = octets[offsets[0] : offsets[-1]].reshape(len(lengths), -1)
        return np.ascontiguousarray(rows[:, : _IDS.size]).view(_NUMBERS)
    found: NDArray[np.int64] = octets[offsets[:-1, None] + np.arange(_IDS.size)].view(_NUMBERS)
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
