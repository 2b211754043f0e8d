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
from itertools import accumulate, chain, islice, takewhile

from bookie.protocol.entry import (
    DIGEST_BYTES,
    ENTRY_BYTES_MAX,
    ENTRY_HEADER_BYTES,
    Buffer,
    EntryCodec,
)
from bookie.protocol.errors import BadRequestError
from bookie.protocol.ids import NO_ENTRY, EntryId
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.quorum import write_set_positions
from bookie.protocol.runs import (
    CONSECUTIVE,
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES,
    RUN_ENTRIES_MAX,
    Pattern,
    join_run,
)


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
        return all(run.stored.bit_count() >= ack_quorum for run in self.runs)


class Gatherer:
    """The queue of payloads of one ledger; numbers and encodes them batch by batch."""

    def __init__(self, metadata: LedgerMetadata, *, batch_bytes: int) -> None:
        self.last_pushed = NO_ENTRY
        self.length_pushed = 0
        self.queued_bytes = 0
        self._ledger_id = metadata.ledger_id
        self._batch_bytes = batch_bytes
        self._codec = EntryCodec(metadata.ledger_id, metadata.digest_type, metadata.password)
        self._overhead = ENTRY_HEADER_BYTES + DIGEST_BYTES[metadata.digest_type]
        self.payload_bytes_max = ENTRY_BYTES_MAX - self._overhead
        """The largest payload one entry of this ledger can carry."""
        self._queue: deque[bytes] = deque()
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
        return EntryId(self.last_pushed + len(self._queue))

    @property
    def is_empty(self) -> bool:
        return not self._queue

    @property
    def is_full(self) -> bool:
        """True when the queue fills a batch."""
        return self.queued_bytes >= self._batch_bytes or len(self._queue) >= RUN_ENTRIES_MAX

    def append(self, payloads: Sequence[bytes]) -> None:
        """All or none: BadRequestError when one is too large for an entry, or not bytes."""
        if strangers := [k for k in set(map(type, payloads)) if not issubclass(k, bytes)]:
            # Found only while encoding, they would stop a writer that others use too.
            names = ", ".join(sorted(kind.__name__ for kind in strangers))
            raise BadRequestError(
                f"ledger {self._ledger_id}: payloads are bytes, found {names}; nothing was sent"
            )
        largest = max(map(len, payloads), default=0)
        if largest > self.payload_bytes_max:
            raise BadRequestError(
                f"ledger {self._ledger_id}: a payload of {largest} bytes exceeds the "
                f"{self.payload_bytes_max} that fit an entry; nothing was sent: split it"
            )
        self._queue.extend(payloads)
        self.queued_bytes += sum(map(len, payloads))

    def append_one(self, payload: bytes) -> None:
        """The same of one: most of what a future for each entry costs is here."""
        if type(payload) is not bytes or len(payload) > self.payload_bytes_max:
            self.append((payload,))
            return
        self._queue.append(payload)
        self.queued_bytes += len(payload)

    def clear(self) -> None:
        self._queue.clear()
        self.queued_bytes = 0

    def take(self, *, lac: EntryId) -> Batch:
        """The next batch, its entries carrying this LAC. The queue must not be empty."""
        first = EntryId(self.last_pushed + 1)
        payloads = self._take_payloads()
        headers, digests = self._codec.encode_many(
            first, payloads, lac=lac, length_before=self.length_pushed
        )
        self.length_pushed += sum(map(len, payloads))
        self.last_pushed = EntryId(first + len(payloads) - 1)
        columns = (headers, digests, payloads)
        runs = [
            self._build(EntryId(first + offset), [c[offset :: self._stride] for c in columns], lac)
            for offset in range(min(self._stride, len(payloads)))
        ]
        return Batch(self.last_pushed, self.length_pushed, runs)

    def _take_payloads(self) -> list[bytes]:
        """Until they fill a batch, or the next one would not fit the frame."""
        queue, per_entry = self._queue, self._overhead + 4
        bytes_before = accumulate(map(len, islice(queue, RUN_ENTRIES_MAX)), initial=0)
        wanted = list(takewhile(self._batch_bytes.__gt__, bytes_before))
        count = min(len(wanted), len(queue), RUN_ENTRIES_MAX)
        payloads = [queue.popleft() for _ in range(count)]
        taken = sum(map(len, payloads))
        while FRAME_HEADER_BYTES + taken + len(payloads) * per_entry > FRAME_BYTES_MAX:
            queue.appendleft(payloads.pop())
            taken -= len(queue[0])
        assert payloads, "one entry always fits a frame"
        self.queued_bytes -= taken
        return payloads

    def _build(
        self, first: EntryId, columns: Sequence[Sequence[bytes]], lac: EntryId
    ) -> PendingRun:
        """`columns`: headers, digests and payloads of the run's entries."""
        payloads = columns[-1]
        is_consecutive = self._stride == 1 or len(payloads) == 1
        pattern = CONSECUTIVE if is_consecutive else Pattern(1, self._stride)
        parts = chain.from_iterable(zip(*columns, strict=True))
        lengths = [self._overhead + len(payload) for payload in payloads]
        frame = join_run(self._ledger_id, first, parts, lengths, lac=lac, pattern=pattern)
        self._next_run_id += 1
        members = self._write_sets[first % self._stride]
        return PendingRun(self._next_run_id, frame, len(frame), members)


def bits(positions: Iterable[int]) -> int:
    """Positions of an ensemble as a bit mask."""
    return sum(1 << position for position in positions)


def positions_of(mask: int) -> list[int]:
    """The positions in a bit mask, rising."""
    return [position for position in range(mask.bit_length()) if mask >> position & 1]
