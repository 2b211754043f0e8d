"""Builds run frames, and changes the header of copied ones. The layout is in `frame`."""

import struct
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import numpy as np
from crc32c import crc32c

from bookie.errors import FrameError
from bookie.frames.buffers import FrameBuffers
from bookie.frames.crc import Octets, resealed
from bookie.frames.entry import FEW_ENTRIES_MAX, Buffer, Heads
from bookie.frames.frame import (
    CHECKSUM_AT,
    CONSECUTIVE,
    FLAG_RECOVERY,
    FRAME_BYTES_MAX,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    FRAME_START,
    FRAME_VERSION,
    LENGTHS,
    RUN_ENTRIES_MAX,
    SEALED_AT,
    START_CHECKSUMS,
    Pattern,
    RunFrame,
)
from bookie.ids import EntryId, LedgerId

_SINGLE_TAIL: Final = struct.Struct(">qqqIHHIII")
"""The header behind the checksum, and the entry's length, of a run of one entry."""
_SINGLE_ENTRY_AT: Final = FRAME_START.size + _SINGLE_TAIL.size
_PART_BYTES_MIN: Final = 4096
"""Parts that are longer on average are copied into the frame one by one: joining them first would
copy them twice."""


def build_run(
    ledger_id: LedgerId,
    first_entry_id: EntryId,
    entries: Sequence[Buffer] | Octets,
    *,
    heads: Heads | None = None,
    lac: EntryId,
    pattern: Pattern = CONSECUTIVE,
    flags: int = 0,
    buffers: FrameBuffers | None = None,
) -> Buffer:
    """Build the frame of these entries, whose ids follow `pattern` from `first_entry_id` on.

    `entries`: the entries verbatim, as buffers or as rows of an array; with `heads` (all of one
    width) only the payloads that follow the heads. `buffers`: the pool from which the frame's
    memory comes. FrameError when the frame would be too long.
    """
    count = len(entries)
    if count == 1:
        # A client that waits for the ack of each entry sends only such frames, so this path makes
        # no column of lengths.
        head = b"" if heads is None else bytes(heads[0])
        entry = entries[0].tobytes() if isinstance(entries, np.ndarray) else entries[0]
        size = len(head) + len(entry)
        if _SINGLE_ENTRY_AT + size > FRAME_BYTES_MAX:
            raise _too_long(_SINGLE_ENTRY_AT + size)
        tail = _SINGLE_TAIL.pack(
            ledger_id, first_entry_id, lac, 1, pattern.size, pattern.period, size, 0, size
        )
        found = crc32c(entry, crc32c(head, crc32c(tail, START_CHECKSUMS[flags])))
        start = FRAME_START.pack(FRAME_MAGIC, FRAME_VERSION, flags, found)
        return b"".join((start, tail, head, entry))
    width = 0 if heads is None else len(heads[0])
    column, body_bytes, is_even = _column(entries, width)
    header = _header(ledger_id, first_entry_id, count, body_bytes, lac, pattern, flags)
    body_at = FRAME_HEADER_BYTES + len(column)
    if buffers is None:
        frame = memoryview(bytearray(body_at + body_bytes))
    else:
        frame = buffers.take(body_at + body_bytes)
    frame[:FRAME_HEADER_BYTES] = header
    frame[FRAME_HEADER_BYTES:body_at] = column
    _fill(frame[body_at:], entries, heads, is_even=is_even)
    found = crc32c(frame[SEALED_AT:], START_CHECKSUMS[flags])
    frame[CHECKSUM_AT:SEALED_AT] = found.to_bytes(4, "big")
    return frame


def recovery_add(run: RunFrame, *, lac: EntryId) -> memoryview:
    """Turn a frame into a recovery add of the same entries; the new checksum is derived from the
    old one.

    It changes the frame in place if the memory is writable: copying a MiB takes long, and a client
    that asked a bookie for a frame is its only user. Do not use `run` afterwards.
    """
    return _under_header(run, lac=lac, flags=FLAG_RECOVERY)


def plain_copy(run: RunFrame) -> memoryview:
    """Turn a frame into a plain add, without the recovery flag: a bookie does not replace a copy
    with it.

    It changes the frame in place if the memory is writable. Do not use `run` afterwards.
    """
    return _under_header(run, lac=run.lac, flags=run.flags & ~FLAG_RECOVERY)


def _under_header(run: RunFrame, *, lac: EntryId, flags: int) -> memoryview:
    """The frame with the entries verbatim and a header with this LAC and these flags."""
    frame = memoryview(bytearray(run.buffer)) if run.buffer.readonly else run.buffer
    old, entries_at = bytes(frame[:FRAME_HEADER_BYTES]), FRAME_HEADER_BYTES + 4 * run.count
    new = _header(
        run.ledger_id, run.first_entry_id, run.count, len(frame) - entries_at, lac, run.pattern,
        flags,
    )  # fmt: skip
    found = resealed(
        int.from_bytes(old[CHECKSUM_AT:SEALED_AT], "big"),
        old[:CHECKSUM_AT] + old[SEALED_AT:],
        new[:CHECKSUM_AT] + new[SEALED_AT:],
        behind=len(frame) - FRAME_HEADER_BYTES,
    )
    frame[:FRAME_HEADER_BYTES] = new
    frame[CHECKSUM_AT:SEALED_AT] = found.to_bytes(4, "big")
    return frame


def _column(entries: Sequence[Buffer] | Octets, width: int) -> tuple[bytes, int, bool]:
    """The column of entry lengths, their sum, and whether all are equal. `width`: length of each
    head.
    """
    count = len(entries)
    if isinstance(entries, np.ndarray):
        length = entries.shape[1] + width
        return length.to_bytes(4, "big") * count, length * count, True
    if count > FEW_ENTRIES_MAX:
        lengths = np.fromiter(map(len, entries), np.int64, count) + width
        # If the payloads are empty, no array can be made of them.
        is_even = bool(lengths[0] > width and (lengths == lengths[0]).all())
        return lengths.astype(LENGTHS).tobytes(), int(lengths.sum()), is_even
    few = [width + len(entry) for entry in entries]
    return struct.pack(f">{count}I", *few), sum(few), False


def _fill(
    body: memoryview, entries: Sequence[Buffer] | Octets, heads: Heads | None, *, is_even: bool
) -> None:
    """Copy the entries into `body` one after the other, each behind its head."""
    if is_even and (heads is not None or isinstance(entries, np.ndarray)):
        # All entries have one length: they form a rectangle, whose columns are copied as a whole.
        rows = np.frombuffer(body, np.uint8).reshape(len(entries), -1)
        width = 0
        if heads is not None:
            width = len(heads[0])
            rows[:, :width] = heads
        if not isinstance(entries, np.ndarray):
            entries = np.frombuffer(b"".join(entries), np.uint8).reshape(len(entries), -1)
        rows[:, width:] = entries
        return
    assert not isinstance(entries, np.ndarray)
    parts: Iterable[Buffer] = entries
    if heads is not None:
        each = map(bytes, heads) if isinstance(heads, np.ndarray) else heads
        parts = chain.from_iterable(zip(each, entries, strict=True))
    if len(body) < _PART_BYTES_MIN * len(entries):
        body[:] = b"".join(parts)
        return
    at = 0
    for part in parts:
        body[at : at + len(part)] = part
        at += len(part)


def _header(
    ledger_id: LedgerId,
    first_entry_id: EntryId,
    count: int,
    body_bytes: int,
    lac: EntryId,
    pattern: Pattern,
    flags: int,
) -> bytes:
    """A frame header whose checksum is still 0; FrameError when the frame would be too long."""
    assert 0 < count <= RUN_ENTRIES_MAX
    frame_bytes = FRAME_HEADER_BYTES + 4 * count + body_bytes
    if frame_bytes > FRAME_BYTES_MAX:
        raise _too_long(frame_bytes)
    return FRAME_HEADER.pack(
        FRAME_MAGIC, FRAME_VERSION, flags, 0, ledger_id, first_entry_id, lac,
        count, pattern.size, pattern.period, body_bytes, 0,
    )  # fmt: skip


def _too_long(frame_bytes: int) -> FrameError:
    return FrameError(f"a run of {frame_bytes} bytes exceeds {FRAME_BYTES_MAX}")
