"""Whole runs of entries whose digests are verified at once: loops over entries run in C.

`parse_run` has checked that every entry says the ledger and the id that its frame claims for it.
What is left (R8): the frame is of the ledger asked for, and each digest is right.
"""

import operator
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from bookie.errors import DigestError
from bookie.frames.entry import DIGEST_BYTES, ENTRY_HEADER_BYTES, EntryCodec
from bookie.frames.joint_digests import are_all_right
from bookie.frames.runs import RunFrame
from bookie.ids import EntryId


@dataclass(frozen=True, slots=True)
class VerifiedRun:
    """The entries of a run, within a range of ids, that are right; `corrupt`: ids of the others."""

    ids: Sequence[int]
    payloads: Sequence[bytes]
    corrupt: Sequence[int]
    _buffer: memoryview = field(repr=False)
    _starts: Sequence[int] = field(repr=False)
    _ends: Sequence[int] = field(repr=False)

    def entries(self) -> Sequence[memoryview]:
        """Verbatim, as long as the frame's buffer is there."""
        return list(map(self._buffer.__getitem__, map(slice, self._starts, self._ends)))


def payloads_of(run: VerifiedRun) -> Sequence[bytes]:
    """What readers keep of a copy."""
    return run.payloads


def entries_of(run: VerifiedRun) -> Sequence[memoryview]:
    """What recovery keeps of a copy: it writes back what it found, verbatim."""
    return run.entries()


def verify_run(run: RunFrame, codec: EntryCodec, *, first: int, last: int) -> VerifiedRun:
    """The run's entries with ids `first`..`last`, each digest looked at."""
    ids = ids_of(run)
    low, high = bisect_left(ids, first), bisect_right(ids, last)
    ids = ids[low:high]
    if not ids or run.ledger_id != codec.ledger_id:
        return VerifiedRun((), (), ids, run.buffer, (), ())
    bounds = run.offsets()[low : high + 1]
    payloads = _together(run, codec, bounds)
    if payloads is None:
        return _one_by_one(run, codec, ids, bounds)
    return VerifiedRun(ids, payloads, (), run.buffer, bounds[:-1], bounds[1:])


def ids_of(run: RunFrame) -> Sequence[int]:
    """All ids of a run, rising."""
    first = run.first_entry_id
    return list(run.entry_ids()) if run.pattern.period else range(first, first + run.count)


def _together(run: RunFrame, codec: EntryCodec, bounds: list[int]) -> tuple[bytes, ...] | None:
    """The payloads between these bounds if all is right, None otherwise."""
    digest_bytes = DIGEST_BYTES[codec.digest_type]
    ahead = ENTRY_HEADER_BYTES + digest_bytes
    sizes = list(map(operator.sub, bounds[1:], bounds))
    shortest = min(sizes) - ahead
    if shortest < 0:
        return None
    if len(sizes) == run.count and are_all_right(run, codec):
        return struct.unpack_from(f"{ahead}x{shortest}s" * run.count, run.buffer, bounds[0])
    # Header, digest, payload of each: one call cuts them all.
    each = f"{ENTRY_HEADER_BYTES}s{digest_bytes}s%ds"
    if shortest == max(sizes) - ahead:
        shape = each % shortest * len(sizes)
    else:
        shape = "".join(map(each.__mod__, map((-ahead).__add__, sizes)))
    parts = struct.Struct(shape).unpack_from(run.buffer, bounds[0])
    headers, digests, payloads = parts[0::3], parts[1::3], parts[2::3]
    return payloads if codec.are_right(headers, digests, payloads) else None


def _one_by_one(
    run: RunFrame, codec: EntryCodec, ids: Sequence[int], bounds: list[int]
) -> VerifiedRun:
    right: list[tuple[int, bytes, int, int]] = []
    corrupt: list[int] = []
    for entry_id, start, end in zip(ids, bounds, bounds[1:], strict=False):
        try:
            _header, payload = codec.decode(run.buffer[start:end], entry_id=EntryId(entry_id))
        except DigestError:
            corrupt.append(entry_id)
        else:
            right.append((entry_id, payload, start, end))
    good, payloads, starts, ends = zip(*right, strict=True) if right else ((), (), (), ())
    return VerifiedRun(good, payloads, corrupt, run.buffer, starts, ends)
