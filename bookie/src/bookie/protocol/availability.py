"""`EntrySet`: a set of entry ids as merged intervals, and its BP-34 encoding.

Bookies answer with it (GetAvailability), the audit computes with it, and a repair uses it to name
the entries to copy. The arithmetic is numpy over sorted interval bounds: no work per entry. The
encoding is big-endian: a 64-byte header (version 0, number of groups, zeros), then groups of 24
bytes (first sequence start, last sequence start, sequence size, period). `encode` writes the
canonical form, with as few groups as merging from the left gives; `decode` reads any form, also the
unmerged one that other bookies send.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bookie.errors import FrameError
from bookie.frames.entry import Buffer
from bookie.frames.frame import CONSECUTIVE, Pattern
from bookie.ids import ENTRY_ID_MAX, EntryId

Ids = NDArray[np.int64]


HEADER_BYTES: Final = 64
SEQUENCES_MAX: Final = 1 << 26
"""`decode` refuses a blob that would expand to more intervals: no honest answer needs 1 GiB of
bounds."""

PATTERN_MAX: Final = 2**16 - 1
"""The longest period that the header of a run frame can hold."""

VERSION: Final = 0
_INT32_MAX: Final = 2**31 - 1
_HEAD: Final = struct.Struct(">ii")
_ONE_GROUP: Final = struct.Struct(">qqii")
_HEADER: Final = np.dtype([("version", ">i4"), ("groups", ">i4")])
GROUP: Final = np.dtype([("first", ">i8"), ("last", ">i8"), ("size", ">i4"), ("period", ">i4")])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EntrySet:
    """An immutable set of entry ids: `starts[i]`..`ends[i]` inclusive, sorted, never touching.

    Build it with `from_ranges`, `from_bounds`, `from_ids`, `from_runs` or `decode`.
    """

    starts: Ids = field(default_factory=lambda: np.empty(0, np.int64))
    """First id of each interval, >= 0, rising; `starts[i + 1] > ends[i] + 1`."""
    ends: Ids = field(default_factory=lambda: np.empty(0, np.int64))
    """Last id of each interval, `starts[i] <= ends[i] <= ENTRY_ID_MAX`; neither array is written
    to once it is here."""

    def __post_init__(self) -> None:
        assert self.starts.shape == self.ends.shape
        self.starts.flags.writeable = False
        self.ends.flags.writeable = False

    def _check(self) -> None:
        """Assert the invariants. Only tests call it: audits make millions of sets."""
        assert (self.starts >= 0).all() and (self.ends <= ENTRY_ID_MAX).all()
        assert (self.starts <= self.ends).all()
        assert (self.starts[1:] > self.ends[:-1] + 1).all()

    @classmethod
    def from_ranges(cls, ranges: Iterable[tuple[int, int]]) -> "EntrySet":
        """The union of inclusive ranges, in any order, overlapping or not."""
        bounds = np.array(list(ranges), np.int64).reshape(-1, 2)
        return cls.from_bounds(bounds[:, 0], bounds[:, 1])

    @classmethod
    def from_bounds(cls, starts: Ids, ends: Ids) -> "EntrySet":
        """The union of the inclusive ranges `starts[i]`..`ends[i]`, in any order."""
        if len(starts) == 0:
            return EMPTY
        if (starts < 0).any() or (ends < starts).any() or (ends > ENTRY_ID_MAX).any():
            raise FrameError(f"entry ranges need 0 <= first <= last <= {ENTRY_ID_MAX}")
        if (starts[1:] > ends[:-1] + 1).all():  # the usual case: nothing to sort or merge
            return cls(starts.astype(np.int64), ends.astype(np.int64))
        order = np.argsort(starts, kind="stable")
        starts = starts[order].astype(np.int64, copy=False)
        reach = np.maximum.accumulate(ends[order].astype(np.int64, copy=False))
        gap = starts[1:] > reach[:-1] + 1
        opens = np.concatenate(([True], gap))
        closes = np.concatenate((gap, [True]))
        return cls(starts[opens], reach[closes])

    @classmethod
    def from_ids(cls, ids: Iterable[int]) -> "EntrySet":
        """The set of these ids, given in any order."""
        bounds = np.array(list(ids), np.int64)
        return cls.from_bounds(bounds, bounds)

    @classmethod
    def from_runs(cls, runs: Iterable[tuple[int, int, Pattern]]) -> "EntrySet":
        """The union of runs, each (first entry id, count of entries, pattern)."""
        starts: list[Ids] = []
        ends: list[Ids] = []
        for first, count, pattern in runs:
            size, period = (pattern.size, pattern.period) if pattern.period else (count, count)
            if count <= 0:
                continue
            heads = first + period * np.arange(-(-count // size), dtype=np.int64)
            tails = heads + (size - 1)
            tails[-1] = pattern.id_at(first, count - 1)
            starts.append(heads)
            ends.append(tails)
        if not starts:
            return EMPTY
        return cls.from_bounds(np.concatenate(starts), np.concatenate(ends))

    def __contains__(self, entry_id: int) -> bool:
        at = int(np.searchsorted(self.ends, entry_id))
        return at < len(self.starts) and int(self.starts[at]) <= entry_id

    def __len__(self) -> int:
        return int((self.ends - self.starts).sum()) + len(self.starts)

    def __bool__(self) -> bool:
        return len(self.starts) > 0

    @property
    def is_empty(self) -> bool:
        return len(self.starts) == 0

    @property
    def first(self) -> EntryId:
        """The lowest id; the set must not be empty."""
        assert self
        return EntryId(int(self.starts[0]))

    @property
    def last(self) -> EntryId:
        """The highest id; the set must not be empty."""
        assert self
        return EntryId(int(self.ends[-1]))

    def ranges(self) -> list[tuple[EntryId, EntryId]]:
        """The inclusive intervals, rising; no two touch."""
        return [
            (EntryId(first), EntryId(last))
            for first, last in zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        ]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EntrySet):
            return NotImplemented
        return np.array_equal(self.starts, other.starts) and np.array_equal(self.ends, other.ends)

    def __hash__(self) -> int:
        return hash((self.starts.tobytes(), self.ends.tobytes()))

    def __repr__(self) -> str:
        shown = [f"{first}-{last}" for first, last in self.ranges()[:8]]
        more = f", ... {len(self.starts)} ranges" if len(self.starts) > 8 else ""
        return f"EntrySet({', '.join(shown)}{more})"

    def covers(self, first: int, last: int) -> bool:
        """True when every id of `first`..`last` is in the set; looks at one interval only."""
        at = int(np.searchsorted(self.ends, last))
        return at < len(self.starts) and int(self.starts[at]) <= first

    def __or__(self, other: "EntrySet") -> "EntrySet":
        if not self or not other:
            return self or other
        return EntrySet.from_bounds(
            np.concatenate((self.starts, other.starts)), np.concatenate((self.ends, other.ends))
        )

    def __and__(self, other: "EntrySet") -> "EntrySet":
        if self == other:
            return self
        # Each interval of self meets the intervals low..high-1 of other; one row per meeting.
        low = np.searchsorted(other.ends, self.starts, "left")
        meetings = np.searchsorted(other.starts, self.ends, "right") - low
        mine = np.repeat(np.arange(len(self.starts)), meetings)
        within = np.arange(len(mine)) - np.repeat(np.cumsum(meetings) - meetings, meetings)
        theirs = np.repeat(low, meetings) + within
        return EntrySet(
            np.maximum(self.starts[mine], other.starts[theirs]),
            np.minimum(self.ends[mine], other.ends[theirs]),
        )

    def __sub__(self, other: "EntrySet") -> "EntrySet":
        if not self or not other:
            return self
        if self == other:
            return EMPTY
        return self & other._complement()

    def __le__(self, other: "EntrySet") -> bool:
        """True when every id of this set is in the other."""
        return (self - other).is_empty

    def clip(self, first: int, last: int) -> "EntrySet":
        """The ids within `first`..`last` inclusive; empty when last < first."""
        if not self or (first <= self.starts[0] and self.ends[-1] <= last):
            return self
        low, high = self.ends.searchsorted(first), self.starts.searchsorted(last, "right")
        if low >= high or last < first:
            return EMPTY
        starts, ends = self.starts[low:high].copy(), self.ends[low:high].copy()
        starts[0], ends[-1] = max(int(starts[0]), first), min(int(ends[-1]), last)
        return EntrySet(starts, ends)

    def _complement(self) -> "EntrySet":
        starts = np.concatenate(([0], self.ends + 1))
        ends = np.concatenate((self.starts - 1, [ENTRY_ID_MAX]))
        real = starts <= ends
        return EntrySet(starts[real], ends[real])

    def runs(self) -> list[tuple[EntryId, int, Pattern]]:
        """The set as a few runs, each (first entry id, count of entries, pattern).

        The inverse of `from_runs`; a copier packs entries into frames this way. Sequences that are
        too long or too far apart for a frame's pattern become consecutive runs.
        """
        runs: list[tuple[EntryId, int, Pattern]] = []
        for first, last, size, period in _merged_groups(
            *_int32_sequences(self.starts, self.ends)
        ).tolist():
            sequences = (last - first) // period + 1 if period else 1
            if 0 < size < period <= PATTERN_MAX:
                runs.append((EntryId(first), sequences * size, Pattern(size, period)))
                continue
            runs.extend(
                (EntryId(first + at * period), size, CONSECUTIVE) for at in range(sequences)
            )
        return runs

    def encode(self) -> bytes:
        """The canonical BP-34 blob: 64 bytes and 24 more for each group."""
        groups = _merged_groups(*_int32_sequences(self.starts, self.ends))
        header = np.zeros(1, _HEADER)
        header["version"], header["groups"] = VERSION, len(groups)
        return header.tobytes().ljust(HEADER_BYTES, b"\0") + groups.tobytes()

    @classmethod
    def decode(cls, blob: Buffer) -> "EntrySet":
        """The set in a BP-34 blob, canonical or not; FrameError when `blob` is not one.

        An empty byte string is an error: a bookie that holds nothing must send an empty set.
        """
        if len(blob) == HEADER_BYTES + _ONE_GROUP.size and (single := _single_interval(blob)):
            return single
        groups = _parsed_groups(blob)
        first, last = groups["first"].astype(np.int64), groups["last"].astype(np.int64)
        size, period = groups["size"].astype(np.int64), groups["period"].astype(np.int64)
        _check_groups(first, last, size, period)
        # Sequences as long as their period have no gaps: one interval.
        solid = (period == 0) | (size >= period)
        step = np.where(solid, 1, period)
        counts = np.where(solid, 1, (last - first) // step + 1)
        if (counts > SEQUENCES_MAX).any() or int(counts.sum()) > SEQUENCES_MAX:
            raise FrameError(f"an availability blob of more than {SEQUENCES_MAX} sequences")
        group = np.repeat(np.arange(len(groups)), counts)
        within = np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = first[group] + within * step[group]
        ends = np.where(solid[group], last[group], starts) + size[group] - 1
        return cls.from_bounds(starts, ends)


EMPTY: Final = EntrySet()


def _int32_sequences(starts: Ids, ends: Ids) -> tuple[Ids, Ids]:
    """Starts and sizes of the intervals; those too long for an int32 size are cut into pieces."""
    pieces = (ends - starts) // _INT32_MAX + 1
    interval = np.repeat(np.arange(len(starts)), pieces)
    within = np.arange(len(interval)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    cut = starts[interval] + within * _INT32_MAX
    return cut, np.minimum(ends[interval] - cut + 1, _INT32_MAX)


def _merged_groups(starts: Ids, sizes: Ids) -> NDArray[np.void]:
    """Merge sequences from the left: equal sizes at equal distances become one group."""
    if len(starts) == 0:
        return np.empty(0, GROUP)
    distance = np.diff(starts)
    distance[(np.diff(sizes) != 0) | (distance > _INT32_MAX)] = 0  # 0: these two never merge
    # Stretches of equal distance; a group may take a whole stretch, its last sequence included.
    stretch_ends = np.append(np.flatnonzero(np.diff(distance)), len(distance) - 1).tolist()
    groups: list[tuple[int, int, int]] = []
    at = 0
    for end in stretch_ends if len(distance) else []:
        if at > end:
            continue  # the group before has taken this one step
        step = int(distance[at])
        if step == 0:
            groups.extend((single, single, 0) for single in range(at, end + 1))
            at = end + 1
        else:
            groups.append((at, end + 1, step))
            at = end + 2
    if at < len(starts):
        groups.append((at, at, 0))
    table = np.array(groups, np.int64)
    merged = np.empty(len(groups), GROUP)
    merged["first"], merged["last"] = starts[table[:, 0]], starts[table[:, 1]]
    merged["size"], merged["period"] = sizes[table[:, 0]], table[:, 2]
    return merged


def _single_interval(blob: Buffer) -> EntrySet | None:
    """The set in a blob of one consecutive sequence, by far the most common; None for others."""
    version, groups = _HEAD.unpack_from(blob)
    first, last, size, period = _ONE_GROUP.unpack_from(blob, HEADER_BYTES)
    plain = (version, groups, period, last) == (VERSION, 1, 0, first)
    if not plain or not 0 <= first <= ENTRY_ID_MAX - _INT32_MAX or size <= 0:
        return None
    return EntrySet(np.array((first,), np.int64), np.array((first + size - 1,), np.int64))


def _parsed_groups(blob: Buffer) -> NDArray[np.void]:
    if len(blob) < HEADER_BYTES:
        raise FrameError(
            f"an availability blob has {HEADER_BYTES} bytes or more, found {len(blob)}"
        )
    header = np.frombuffer(blob, _HEADER, 1)[0]
    version, count = int(header["version"]), int(header["groups"])
    if version != VERSION:
        raise FrameError(f"availability blob of version {version}, expected {VERSION}")
    if count < 0 or len(blob) != HEADER_BYTES + count * GROUP.itemsize:
        raise FrameError(
            f"availability blob of {count} groups has {len(blob)} bytes, "
            f"expected {HEADER_BYTES + count * GROUP.itemsize}"
        )
    return np.frombuffer(blob, GROUP, count, HEADER_BYTES)


def wrong_groups(first: Ids, last: Ids, size: Ids, period: Ids) -> NDArray[np.bool_]:
    """True at each index that is not a valid sequence group."""
    step = np.where(period == 0, 1, period)
    wrong: NDArray[np.bool_] = (
        (first < 0)
        | (last < first)
        | (last > ENTRY_ID_MAX - _INT32_MAX)
        | (size <= 0)
        | (period < 0)
        | ((period == 0) & (first != last))
        | ((last - first) % step != 0)
    )
    return wrong


def _check_groups(first: Ids, last: Ids, size: Ids, period: Ids) -> None:
    wrong = wrong_groups(first, last, size, period)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise FrameError(
            f"availability group {at} is no sequence group: first {first[at]}, last {last[at]}, "
            f"size {size[at]}, period {period[at]}"
        )
