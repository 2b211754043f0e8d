"""From payloads to runs: `BatchQueue` gathers, numbers and encodes payloads for `protocol.writer`.

A batch is a row of consecutive entries that are sent together. It is cut into one run per write
set: a single run when E == Qw, otherwise one per residue of the entry id modulo E. Each run is
encoded once, and the same bytes go to every member of its write set. The alternative, one run per
bookie, would copy and checksum every entry Qw times; and a bookie's share that wraps round the
ensemble has two gaps of different size, which no single pattern describes.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import Final

from bookie.errors import BadRequestError
from bookie.frames.buffers import FrameBuffers
from bookie.frames.build import build_run
from bookie.frames.entry import ENTRY_BYTES_MAX, Buffer, EntryCodec
from bookie.frames.frame import (
    CONSECUTIVE,
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES,
    RUN_ENTRIES_MAX,
    Pattern,
)
from bookie.ids import NO_ENTRY, EntryId
from bookie.protocol.assignment import entries_max
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.quorum import write_set_positions

QUEUE_LIST_MAX: Final = 1024
"""Payloads in one list of the queue. Taking a batch splits at most one such list."""


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """How payloads gather into batches and how much may be in flight.

    With fewer than `gather_batches` in flight the writer sends whatever is queued at once; with
    more it sends only full batches of `batch_bytes`, up to `in_flight_batches`. `lag_bytes_max`
    limits the bytes of runs that some member has not answered yet, acknowledged or not; beyond it
    the writer waits for its slowest member.
    """

    batch_bytes: int = 1024 * 1024
    gather_batches: int = 2
    in_flight_batches: int = 16
    lag_bytes_max: int = 64 * 1024 * 1024


@dataclass(slots=True, eq=False)
class PendingRun:
    """One frame on its way. `members`, `waiting` and `stored` are ensemble positions as bits."""

    run_id: int
    """Number of the run; rises, and is unique within this writer."""
    frame: Buffer
    """The bytes to send; empty once the run is acknowledged."""
    frame_bytes: int
    """Length of the frame as it was sent."""
    members: int
    """The write set: the members that should store the run."""
    waiting: int = 0
    """Members that the run was sent to and that have yet to answer; within `members`."""
    stored: int = 0
    """Members of the committed ensemble that have stored it; within `members`, disjoint from
    `waiting`."""
    is_acked: bool = False
    """Its batch is acknowledged; the writer still waits for the remaining members."""


@dataclass(slots=True, eq=False)
class Batch:
    """Entries that `BatchQueue.take` took from the queue together."""

    last: EntryId
    """The highest entry id of the batch."""
    count: int
    """Entries of the batch; at least 1."""
    length: int
    """Payload bytes of the ledger up to and including `last`."""
    runs: list[PendingRun]
    """One run for each write set: a single one, or at most as many as the ensemble has members."""

    def is_stored(self, ack_quorum: int) -> bool:
        if len(self.runs) == 1:  # the usual case; this runs at every reply
            return self.runs[0].stored.bit_count() >= ack_quorum
        return all(run.stored.bit_count() >= ack_quorum for run in self.runs)


class BatchQueue:
    """The queue of payloads of one ledger; numbers and encodes them batch by batch."""

    def __init__(
        self, metadata: LedgerMetadata, *, batch_bytes: int, buffers: FrameBuffers | None = None
    ) -> None:
        self.last_pushed = NO_ENTRY
        """Id of the last entry that a batch has taken."""
        self.length_pushed = 0
        """Payload bytes of the ledger up to and including `last_pushed`."""
        self.queued = 0
        """Payloads that no batch has taken yet."""
        self.queued_bytes = 0
        """The sum of the bytes of these payloads."""
        self._queue: deque[list[bytes]] = deque()
        """These payloads in the order of their ids, in lists of 1 to QUEUE_LIST_MAX."""
        self._ledger_id = metadata.ledger_id
        self._batch_bytes = batch_bytes
        self._buffers = buffers or FrameBuffers()
        self._codec = EntryCodec(metadata.ledger_id, metadata.digest_type, metadata.password)
        self._head_bytes = self._codec.head_bytes
        self.payload_bytes_max = ENTRY_BYTES_MAX - self._head_bytes
        """The largest payload one entry of this ledger can carry."""
        self._last_max = entries_max(metadata) - 2
        """The highest entry id that `append` allows. Beyond it, readers would refuse the metadata
        as too long, even if another fragment began right there."""
        self._next_run_id = 0
        """Id of the run that was made last."""
        is_striped = metadata.ensemble_size > metadata.write_quorum
        self._stride = metadata.ensemble_size if is_striped else 1
        """Entries whose ids differ by this number have the same write set."""
        self._write_sets = tuple(
            bits(
                write_set_positions(
                    EntryId(residue),
                    ensemble_size=metadata.ensemble_size,
                    write_quorum=metadata.write_quorum,
                )
            )
            for residue in range(self._stride)
        )
        """Write sets as bits, by entry id modulo `_stride`."""

    def _check(self) -> None:
        """The queue and its counters agree. For tests: it looks at each payload."""
        assert self.queued == sum(map(len, self._queue))
        assert self.queued_bytes == sum(len(one) for some in self._queue for one in some)
        assert all(0 < len(some) <= QUEUE_LIST_MAX for some in self._queue)
        assert self.last_pushed >= NO_ENTRY and self.length_pushed >= 0

    @property
    def last_appended(self) -> EntryId:
        """The id of the newest payload, pushed or still queued."""
        return EntryId(self.last_pushed + self.queued)

    @property
    def is_full(self) -> bool:
        """True when the queue fills a batch."""
        return self.queued_bytes >= self._batch_bytes or self.queued >= RUN_ENTRIES_MAX

    def append(self, payloads: Sequence[bytes]) -> None:
        """Queue all of the payloads or none. BadRequestError when one is too large for an entry or
        is not bytes, or when the ledger would exceed the longest that is allowed.
        """
        if strangers := [k for k in set(map(type, payloads)) if not issubclass(k, bytes)]:
            # If the encoding found them, the error would stop a writer that other callers use too.
            names = ", ".join(sorted(kind.__name__ for kind in strangers))
            raise BadRequestError(
                f"ledger {self._ledger_id}: payloads are bytes, found {names}; nothing was sent"
            )
        lengths = list(map(len, payloads))
        largest = max(lengths, default=0)
        if largest > self.payload_bytes_max:
            raise BadRequestError(
                f"ledger {self._ledger_id}: a payload of {largest} bytes exceeds the "
                f"{self.payload_bytes_max} that fit an entry; nothing was sent: split it"
            )
        if (last := self.last_appended + len(payloads)) > self._last_max:
            raise BadRequestError(
                f"ledger {self._ledger_id} would end at entry {last}, expected {self._last_max} at "
                "most; nothing was sent: go on in another ledger"
            )
        for start in range(0, len(payloads), QUEUE_LIST_MAX):
            self._queue.append(list(payloads[start : start + QUEUE_LIST_MAX]))
        self.queued += len(payloads)
        self.queued_bytes += sum(lengths)

    def append_one(self, payload: bytes) -> EntryId:
        """Queue one payload and return its id. Hot: called for each entry that has a future."""
        if (
            type(payload) is not bytes
            or (size := len(payload)) > self.payload_bytes_max
            or self.last_pushed + self.queued >= self._last_max
        ):
            self.append((payload,))
            return self.last_appended
        queue = self._queue
        if queue and len(latest := queue[-1]) < QUEUE_LIST_MAX:
            latest.append(payload)
        else:
            queue.append([payload])
        self.queued = queued = self.queued + 1
        self.queued_bytes += size
        return EntryId(self.last_pushed + queued)

    def clear(self) -> None:
        self._queue.clear()
        self.queued = self.queued_bytes = 0

    def take(self, *, lac: EntryId) -> Batch:
        """Take the next batch; its entries carry this LAC. The queue must not be empty."""
        first, length_before = EntryId(self.last_pushed + 1), self.length_pushed
        taken_bytes = self.queued_bytes
        if self.queued == 1:
            payloads = self._queue.popleft()
            self.queued = self.queued_bytes = 0
        else:
            payloads = self._take_payloads()
            taken_bytes -= self.queued_bytes
        count = len(payloads)
        heads = self._codec.heads(first, payloads, lac=lac, length_before=length_before)
        self.last_pushed, self.length_pushed = (
            EntryId(first + count - 1),
            length_before + taken_bytes,
        )
        if count == 1:
            frame = build_run(self._ledger_id, first, payloads, heads=heads, lac=lac)
            return Batch(first, 1, self.length_pushed, [self._run(first, frame)])
        stride = self._stride
        runs = [
            self._run(
                first + at,
                build_run(
                    self._ledger_id,
                    EntryId(first + at),
                    payloads[at::stride],
                    heads=heads[at::stride],
                    lac=lac,
                    pattern=self._pattern(count - at),
                    buffers=self._buffers,
                ),
            )
            for at in range(min(stride, count))
        ]
        return Batch(self.last_pushed, count, self.length_pushed, runs)

    def _take_payloads(self) -> list[bytes]:
        """Take payloads until they fill a batch, or until the next one would not fit the frame."""
        payloads: list[bytes] = []
        taken = 0
        while self._queue and taken < self._batch_bytes and len(payloads) < RUN_ENTRIES_MAX:
            queued = self._queue.popleft()
            size = sum(map(len, queued))
            if taken + size >= self._batch_bytes or len(payloads) + len(queued) > RUN_ENTRIES_MAX:
                count = min(self._fitting(queued, taken), RUN_ENTRIES_MAX - len(payloads))
                if rest := queued[count:]:
                    self._queue.appendleft(rest)
                del queued[count:]
                size = sum(map(len, queued))
            payloads += queued
            taken += size
        self.queued -= len(payloads)
        self.queued_bytes -= taken
        self._put_back_what_does_not_fit(payloads, taken)
        return payloads

    def _fitting(self, queued: list[bytes], taken: int) -> int:
        """How many of `queued` go into a batch that already has `taken` bytes, until it is full."""
        before = accumulate(map(len, queued), initial=taken)
        return len(list(takewhile(self._batch_bytes.__gt__, before)))

    def _put_back_what_does_not_fit(self, payloads: list[bytes], taken: int) -> None:
        per_entry = self._head_bytes + 4
        while FRAME_HEADER_BYTES + taken + len(payloads) * per_entry > FRAME_BYTES_MAX:
            last = payloads.pop()
            taken -= len(last)
            self._queue.appendleft([last])
            self.queued += 1
            self.queued_bytes += len(last)
        assert payloads, "one entry always fits a frame"

    def _pattern(self, reach: int) -> Pattern:
        """The pattern of the run that has every `_stride`-th of the next `reach` entries."""
        return (
            CONSECUTIVE if reach <= self._stride or self._stride == 1 else Pattern(1, self._stride)
        )

    def _run(self, first: int, frame: Buffer) -> PendingRun:
        self._next_run_id += 1
        members = self._write_sets[first % self._stride]
        return PendingRun(self._next_run_id, frame, len(frame), members)


def bits(positions: Iterable[int]) -> int:
    """Positions of an ensemble as a bit mask."""
    return sum(1 << position for position in positions)


@lru_cache(maxsize=1024)
def positions_of(mask: int) -> tuple[int, ...]:
    """The positions in a bit mask, rising."""
    return tuple(position for position in range(mask.bit_length()) if mask >> position & 1)
