"""From payloads to runs: what `protocol.writer` gathers, numbers, encodes and then tracks.

A batch is consecutive entries pushed together; it is cut into one run per write set: a single run
when E == Qw, otherwise one per residue of the entry id modulo E. Each run is encoded once and the
same bytes go to every member of its write set. The other cut, one run per bookie, would copy and
checksum every entry Qw times, and a share that wraps round the ensemble has two gaps of different
size, which no single pattern describes.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate, takewhile
from operator import add
from typing import Any, Final

import numpy as np

from bookie.errors import BadRequestError
from bookie.frames.entry import (
    DIGEST_BYTES,
    ENTRY_BYTES_MAX,
    ENTRY_HEADER_BYTES,
    Buffer,
    EntryCodec,
)
from bookie.frames.frame_buffers import FrameBuffers
from bookie.frames.heads import EntryHeads
from bookie.frames.runs import (
    CONSECUTIVE,
    FEW_ENTRIES_MAX,
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES,
    RUN_ENTRIES_MAX,
    Pattern,
    fill_run,
    join_run,
    lone_run,
)
from bookie.ids import NO_ENTRY, EntryId
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
    """One frame, and the positions (bits) that should store it, did, and have yet to answer."""

    run_id: int
    frame: Buffer
    frame_bytes: int
    members: int
    waiting: int = 0
    stored: int = 0
    is_acked: bool = False


@dataclass(slots=True, eq=False)
class Batch:
    """Entries up to `last`; `length`: payload bytes of the ledger up to there."""

    last: EntryId
    length: int
    runs: list[PendingRun]

    def is_stored(self, ack_quorum: int) -> bool:
        if len(self.runs) == 1:  # mostly, and asked at every reply
            return self.runs[0].stored.bit_count() >= ack_quorum
        return all(run.stored.bit_count() >= ack_quorum for run in self.runs)


class Gatherer:
    """The queue of payloads of one ledger; numbers and encodes them batch by batch."""

    def __init__(
        self, metadata: LedgerMetadata, *, batch_bytes: int, buffers: FrameBuffers | None = None
    ) -> None:
        self.last_pushed = NO_ENTRY
        self.length_pushed = 0
        self.queued_bytes = 0
        self.was_lone = False
        """The last batch taken was one entry."""
        self.queued = 0
        """Payloads that no batch has taken yet."""
        self._ledger_id = metadata.ledger_id
        self._batch_bytes = batch_bytes
        self._buffers = buffers or FrameBuffers()
        self._codec = EntryCodec(metadata.ledger_id, metadata.digest_type, metadata.password)
        self._heads = EntryHeads(metadata.ledger_id, metadata.digest_type, metadata.password)
        self._overhead = ENTRY_HEADER_BYTES + DIGEST_BYTES[metadata.digest_type]
        self.payload_bytes_max = ENTRY_BYTES_MAX - self._overhead
        """The largest payload one entry of this ledger can carry."""
        self._queue: deque[list[bytes]] = deque()
        """Payloads in the order of their ids, in lists of at most QUEUE_LIST_MAX."""
        self._next_run_id = 0
        is_striped = metadata.ensemble_size > metadata.write_quorum
        self._stride = metadata.ensemble_size if is_striped else 1
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

    @property
    def last_appended(self) -> EntryId:
        """The id of the newest payload, pushed or still queued."""
        return EntryId(self.last_pushed + self.queued)

    @property
    def is_full(self) -> bool:
        """True when the queue fills a batch."""
        return self.queued_bytes >= self._batch_bytes or self.queued >= RUN_ENTRIES_MAX

    def append(self, payloads: Sequence[bytes]) -> None:
        """All or none: BadRequestError when one is too large for an entry, or not bytes."""
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
        for start in range(0, len(payloads), QUEUE_LIST_MAX):
            self._queue.append(list(payloads[start : start + QUEUE_LIST_MAX]))
        self.queued += len(payloads)
        self.queued_bytes += sum(lengths)

    def append_one(self, payload: bytes) -> EntryId:
        """The same of one, and its id: most of what a future for each entry costs is here."""
        if type(payload) is not bytes or (size := len(payload)) > self.payload_bytes_max:
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
        first = EntryId(self.last_pushed + 1)
        self.was_lone = self.queued == 1
        if self.was_lone:
            (payload,) = self._queue.popleft()
            self.queued = self.queued_bytes = 0
            return self.take_alone(payload, lac=lac)
        payload_bytes = self.queued_bytes
        payloads = self._take_payloads()
        payload_bytes -= self.queued_bytes
        few = len(payloads) <= FEW_ENTRIES_MAX
        runs = (self._few if few else self._many)(first, payloads, lac)
        self.length_pushed += payload_bytes
        self.last_pushed = EntryId(first + len(payloads) - 1)
        return Batch(self.last_pushed, self.length_pushed, runs)

    def has_room_alone(self, payload: bytes) -> bool:
        """True when `take_alone` may have it: nothing is queued before, and it fits an entry."""
        return not self.queued and type(payload) is bytes and len(payload) <= self.payload_bytes_max

    def take_alone(self, payload: bytes, *, lac: EntryId) -> Batch:
        """The batch of this payload alone, which was not queued."""
        entry_id = EntryId(self.last_pushed + 1)
        length = self.length_pushed + len(payload)
        head = self._codec.head(entry_id, payload, lac=lac, length=length)
        frame = lone_run(self._ledger_id, entry_id, head, payload, lac=lac)
        self.last_pushed, self.length_pushed = entry_id, length
        return Batch(entry_id, length, [self._run(entry_id, frame)])

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
        per_entry = self._overhead + 4
        while FRAME_HEADER_BYTES + taken + len(payloads) * per_entry > FRAME_BYTES_MAX:
            last = payloads.pop()
            taken -= len(last)
            self._queue.appendleft([last])
            self.queued += 1
            self.queued_bytes += len(last)
        assert payloads, "one entry always fits a frame"

    def _few(self, first: EntryId, payloads: list[bytes], lac: EntryId) -> list[PendingRun]:
        headers, digests = self._codec.encode_many(
            first, payloads, lac=lac, length_before=self.length_pushed
        )
        columns = (list(map(add, headers, digests)), payloads)
        return self._runs(first, columns, partial(join_run, lac=lac))

    def _many(self, first: EntryId, payloads: list[bytes], lac: EntryId) -> list[PendingRun]:
        lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
        heads = self._heads.of(first, payloads, lengths, lac=lac, length_before=self.length_pushed)
        return self._runs(first, (heads, payloads, lengths), partial(fill_run, lac=lac))

    def _runs(
        self, first: EntryId, columns: Sequence[Any], build: Callable[..., memoryview]
    ) -> list[PendingRun]:
        """One run per write set; `columns`: what `build` takes of each entry, for all of them."""
        count, stride, buffers = len(columns[0]), self._stride, self._buffers
        return [
            self._run(
                first + at,
                build(
                    self._ledger_id,
                    EntryId(first + at),
                    *(column[at::stride] for column in columns),
                    pattern=self._pattern(count - at),
                    buffers=buffers,
                ),
            )
            for at in range(min(stride, count))
        ]

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
