"""From payloads to runs: what `protocol.writer` gathers, numbers, encodes and then tracks.

A batch is consecutive entries pushed together; it is cut into one run per write set: a single run
when E == Qw, otherwise one per residue of the entry id modulo E. Each run is encoded once and the
same bytes go to every member of its write set. The other cut, one run per bookie, would copy and
checksum every entry Qw times, and a share that wraps round the ensemble has two gaps of different
size, which no single pattern describes.
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
"""Payloads in one list of the queue: a batch cuts at most one."""


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """How payloads gather into batches and how much may be under way.

    Below `gather_batches` in flight whatever is queued is sent at once; above, only full batches
    of `batch_bytes` go out, up to `in_flight_batches`. `lag_bytes_max`: bytes of runs some member
    has not answered yet, acked or not; beyond it the writer follows its slowest member.
    """

    batch_bytes: int = 1024 * 1024
    gather_batches: int = 2
    in_flight_batches: int = 16
    lag_bytes_max: int = 64 * 1024 * 1024


@dataclass(slots=True, eq=False)
class PendingRun:
    """One frame on its way. `members`, `waiting`, `stored`: positions of the ensemble as bits."""

    run_id: int
    """Of this writer, rising; no two runs have the same."""
    frame: Buffer
    """What is sent; empty once the run is acknowledged."""
    frame_bytes: int
    """Length of the frame as it was sent."""
    members: int
    """The write set: who should store it."""
    waiting: int = 0
    """To whom it was sent and who has yet to answer; within `members`."""
    stored: int = 0
    """Who has stored it, of the committed ensemble; within `members`, apart from `waiting`."""
    is_acked: bool = False
    """Its batch is acknowledged; the writer waits for the members that are left."""


@dataclass(slots=True, eq=False)
class Batch:
    """Entries that were taken from the queue together."""

    last: EntryId
    """Its highest entry id."""
    count: int
    """Entries of the batch; at least 1."""
    length: int
    """Payload bytes of the ledger up to and including `last`."""
    runs: list[PendingRun]
    """One for each write set: one, or at most as many as the ensemble has members."""

    def is_stored(self, ack_quorum: int) -> bool:
        if len(self.runs) == 1:  # mostly, and asked at every reply
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
        """Their bytes."""
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
        """No entry comes behind it: the metadata could be read by nobody, also if another fragment
        began right there."""
        self._next_run_id = 0
        """Of the run made last."""
        is_striped = metadata.ensemble_size > metadata.write_quorum
        self._stride = metadata.ensemble_size if is_striped else 1
        """Entries whose ids are so far apart have the same write set."""
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
        """As bits, by entry id modulo `_stride`."""

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
        """All or none: BadRequestError when one is too large for an entry, or not bytes, or when
        the ledger would be longer than one may be."""
        if strangers := [k for k in set(map(type, payloads)) if not issubclass(k, bytes)]:
            # Found only while encoding, they would stop a writer that others use too.
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
        """The next batch, its entries carrying this LAC. The queue must not be empty."""
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
        """Until they fill a batch, or the next one would not fit the frame."""
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
        """How many of them go into a batch that has `taken` bytes: until it is full."""
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
        """Of the run that has every `stride`-th of the next `reach` entries."""
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
