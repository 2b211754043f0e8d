"""Gathers the adds of stock clients, which arrive one by one, into runs.

All adds of one read of the socket are taken together. The entries of each ledger go into frames of
rising ids, consecutive or, if the ensemble is striped, in its pattern. The codec has checked each
entry against its request, so the frames need no further check.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bookie.frames.buffers import FrameBuffers
from bookie.frames.build import build_run
from bookie.frames.crc import Octets
from bookie.frames.entry import Buffer
from bookie.frames.frame import (
    CONSECUTIVE,
    FLAG_RECOVERY,
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES,
    RUN_ENTRIES_MAX,
    Pattern,
    RunFrame,
    run_frame,
)
from bookie.ids import ENTRY_ID_MAX, NO_ENTRY, EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.wire.stock.blocks import AddBlock
from bookie.wire.stock.messages import Add, Outcome
from bookie.wire.stock.wire import Wire

ENTRIES_BYTES_MAX: Final = FRAME_BYTES_MAX - FRAME_HEADER_BYTES
"""The most bytes that the entries of one run take, with their fields in the length column."""
_COLUMN_BYTES: Final = 4
_LAC: Final = struct.Struct(">16xq")
_entry_id = attrgetter("entry_id")

Answers = Callable[[Outcome], Buffer]
"""Makes the answers to all adds of a run, which have the same outcome."""
Rows = NDArray[np.intp] | slice


class Run(NamedTuple):
    """One frame to store, and the answers to its adds."""

    frame: RunFrame
    master_key: bytes
    answers: Answers

    @property
    def is_storable(self) -> bool:
        """False when an entry id is too large to exist."""
        return self.frame.last_entry_id <= ENTRY_ID_MAX


class AddGather:
    """Collects the adds of one read of the socket."""

    def __init__(self, wire: Wire, buffers: FrameBuffers) -> None:
        self._wire = wire
        self._buffers = buffers
        self._groups: list[_Group | AddBlock] = []
        """The groups of adds, in order of arrival."""
        self._open: dict[LedgerId, _Group] = {}
        """The last group of each ledger; an add never overtakes another one of its ledger."""

    def add(self, request: Add) -> None:
        group = self._open.get(request.ledger_id)
        if group is None or not group.takes(request):
            group = self._open[request.ledger_id] = _Group(request)
            self._groups.append(group)
            is_taken = group.takes(request)
            assert is_taken, "the codec refuses entries that no frame holds"

    def add_block(self, block: AddBlock) -> None:
        self._open.clear()
        self._groups.append(block)

    def runs(self) -> Iterator[Run]:
        """Make the runs; each ledger's adds stay in order of arrival."""
        for group in self._groups:
            if isinstance(group, AddBlock):
                yield from _block_runs(group, self._buffers)
            else:
                yield from group.runs(self._wire)


# ---- one by one ---------------------------------------------------------------------------------


class _Group:
    """Adds of one ledger with one key, all normal or all of recovery, with rising ids."""

    __slots__ = ("is_recovery", "last", "master_key", "requests", "room")

    def __init__(self, first: Add) -> None:
        self.requests: list[Add] = []
        """The adds by rising entry ids, with or without gaps; empty only until `takes` got
        `first`."""
        self.master_key = first.master_key
        """The master key of every add in it."""
        self.is_recovery = first.is_recovery
        """True when every add is a recovery add, False when none is."""
        self.last = NO_ENTRY
        """The entry id of the last add."""
        self.room = ENTRIES_BYTES_MAX
        """Bytes that still fit, counting entries and their fields in the frame's columns."""

    def takes(self, request: Add) -> bool:
        """Append the add to this group if it fits there; returns whether it did."""
        needed = len(request.entry) + _COLUMN_BYTES
        if (
            request.entry_id <= self.last
            or request.master_key != self.master_key
            or request.is_recovery != self.is_recovery
            or needed > self.room
            or len(self.requests) == RUN_ENTRIES_MAX
        ):
            return False
        self.requests.append(request)
        self.last = request.entry_id
        self.room -= needed
        return True

    def runs(self, wire: Wire) -> Iterator[Run]:
        at = 0
        for first, count, pattern in self._spans():
            yield run_of(self.requests[at : at + count], first, pattern, wire)
            at += count

    def _spans(self) -> Sequence[tuple[EntryId, int, Pattern]]:
        first, count = self.requests[0].entry_id, len(self.requests)
        if self.last - first + 1 == count:
            return [(first, count, CONSECUTIVE)]
        return _spans(np.fromiter(map(_entry_id, self.requests), np.int64, count))


def run_of(requests: Sequence[Add], first: EntryId, pattern: Pattern, wire: Wire) -> Run:
    """Make the run of adds of one ledger and one key, all normal or all of recovery, whose ids
    follow the pattern.
    """
    ledger_id, _first, master_key, entry, is_recovery, _deferred, _tag = requests[0]
    entries = [entry] if len(requests) == 1 else [request.entry for request in requests]
    # The highest of all: the newest entry of a resent run may carry a lower LAC than an earlier
    # entry.
    lac = EntryId(max(NO_ENTRY, *[_LAC.unpack_from(entry)[0] for entry in entries]))
    flags = FLAG_RECOVERY if is_recovery else 0
    frame = _built(ledger_id, first, entries, lac, pattern, flags, None)
    return Run(frame, master_key, partial(wire.answer_adds, requests))


def _spans(ids: NDArray[np.int64]) -> Sequence[tuple[EntryId, int, Pattern]]:
    """First id, count and pattern of each run that these rising ids make, in order."""
    first, last, count = EntryId(int(ids[0])), int(ids[-1]), len(ids)
    if last - first + 1 == count:
        return [(first, count, CONSECUTIVE)]
    if last > ENTRY_ID_MAX:  # they will be refused
        return [(EntryId(int(each)), 1, CONSECUTIVE) for each in ids]
    return EntrySet.from_bounds(ids, ids).runs()


# ---- by blocks ----------------------------------------------------------------------------------


def _block_runs(block: AddBlock, buffers: FrameBuffers) -> Iterator[Run]:
    for rows in _by_ledger(block.ledgers):
        for part in _rising(block, rows):
            at = 0
            for first, count, pattern in _spans(block.entry_ids[part]):
                yield _block_run(block, _stepped(part[at : at + count]), first, pattern, buffers)
                at += count


def _by_ledger(ledgers: NDArray[np.int64]) -> Iterator[NDArray[np.intp]]:
    """The row numbers of each ledger, in order of arrival."""
    if (ledgers == ledgers[0]).all():
        yield np.arange(len(ledgers))
        return
    order = np.argsort(ledgers, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(ledgers[order])) + 1)


def _rising(block: AddBlock, rows: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """Cut the rows of one ledger where ids do not rise, the key changes, or a frame would be too
    long.
    """
    ids, keys = block.entry_ids[rows], block.keys[rows]
    is_cut = (np.diff(ids) <= 0) | (keys[1:] != keys[:-1]).any(axis=1)
    rows_max = ENTRIES_BYTES_MAX // (block.layout.entry_bytes + _COLUMN_BYTES)
    for part in np.split(rows, np.flatnonzero(is_cut) + 1) if is_cut.any() else (rows,):
        for at in range(0, len(part), rows_max):
            yield part[at : at + rows_max]


def _stepped(rows: NDArray[np.intp]) -> Rows:
    """The rows as a slice if they are at equal distances: then numpy makes no extra copy."""
    first, last, count = int(rows[0]), int(rows[-1]), len(rows)
    step = (last - first) // (count - 1) if count > 1 else 1
    is_even = count < 3 or bool((np.diff(rows) == step).all())
    return slice(first, last + 1, step) if is_even else rows


def _block_run(
    block: AddBlock, rows: Rows, first: EntryId, pattern: Pattern, buffers: FrameBuffers
) -> Run:
    frame = _built(
        LedgerId(int(block.ledgers[rows][0])),
        first,
        block.entries[rows],
        EntryId(max(NO_ENTRY, int(block.lacs[rows].max()))),
        pattern,
        FLAG_RECOVERY if block.layout.is_recovery else 0,
        buffers,
    )
    return Run(frame, block.keys[rows][0].tobytes(), partial(block.answers, rows))


def _built(
    ledger_id: LedgerId,
    first: EntryId,
    entries: Sequence[Buffer] | Octets,
    lac: EntryId,
    pattern: Pattern,
    flags: int,
    buffers: FrameBuffers | None,
) -> RunFrame:
    frame = build_run(
        ledger_id, first, entries, lac=lac, pattern=pattern, flags=flags, buffers=buffers
    )
    fields = ledger_id, first, lac, len(entries), pattern, flags, memoryview(frame)
    return run_frame(fields)
