"""The writer of one ledger: payloads in, runs out, acks in order, ensemble changes, close.

A state object without I/O, driven by the shell in `client.writer`: every event is a method that
returns effects, and the shell carries them out in the order given. The work is per run, never per
entry, except for building the entries themselves.

The phases. In each phase, an event without a row changes nothing:

| phase | event | then |
|---|---|---|
| OPEN | `append`, `append_one`, `pump` | queues, sends as far as the limits let it |
| OPEN | `replied` OK | counts; acknowledges in order unless changing; sends more |
| OPEN | `replied` FENCED, UNAUTHORIZED or BAD_REQUEST | STOPPED |
| OPEN | `replied` with any other status | the member is down; a change begins or goes on |
| OPEN, changing | `replace` | writes the changed ensemble, or sends again to the same members |
| OPEN, changing | `no_replacement` | the change is given up, acknowledging goes on |
| OPEN, degraded | `retry_change` | a change begins |
| OPEN | `close` | CLOSING: writes CLOSED, after a change whose write is under way |
| OPEN, CLOSING | `store_answered`: as before our write | writes the same value again |
| OPEN, CLOSING | `store_answered`: OPEN, an ensemble of ours | adopted; sends or closes on |
| OPEN, CLOSING | `store_answered`: OPEN, another ensemble, or too often | STOPPED |
| CLOSING | `store_answered`: CLOSED at our LAC | CLOSED |
| OPEN, CLOSING | `store_answered`: not OPEN, otherwise | STOPPED: somebody recovers the ledger |
| OPEN, CLOSING | `fail` | STOPPED |
| CLOSED, STOPPED | all | nothing any more |

Acks. A batch is acknowledged when each of its runs is stored by Qa distinct members of the
*committed* ensemble and every earlier batch is (R3). Replies are matched to the run, the position
and the generation of that position they were sent for (R17): once a member has failed, nothing it
says later about earlier sends counts.

Ensemble change (R20). Choosing the start (LAC + 1) freezes the LAC until the compare-and-set has an
outcome. While an attempt may still land in the store (outcome unknown) the same value is written
again, because an ack given in between could end up in a fragment that names other bookies. There is
one change at a time; members that fail meanwhile wait for the next one.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bookie.errors import (
    BadRequestError,
    BookieError,
    LedgerClosedError,
    LedgerFencedError,
    MetadataConflictError,
    UnauthorizedError,
)
from bookie.frames.buffers import FrameBuffers
from bookie.ids import NO_ENTRY, BookieId, EntryId
from bookie.protocol.batches import (
    Batch,
    BatchQueue,
    PendingRun,
    WriterLimits,
    bits,
    positions_of,
)
from bookie.protocol.ledger import LedgerMetadata, LedgerState, changed_ensemble
from bookie.protocol.status import Status
from bookie.protocol.writer_effects import (
    Acked,
    Closed,
    Effect,
    Failed,
    NeedReplacement,
    Recipient,
    SendRun,
    WriteMetadata,
    send_run,
)

CONFLICTS_MAX: Final = 32
"""The writer stops after it has lost more compare-and-sets in a row on a ledger that is still
OPEN."""


class Phase(Enum):
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    STOPPED = "stopped"


_OPEN: Final = Phase.OPEN
_OK: Final = Status.OK


@dataclass(slots=True)
class _Change:
    """An ensemble change under way; `proposed` is None until replacements are known."""

    first_entry_id: EntryId
    """First entry of the fragment that the change begins, or whose ensemble it replaces."""
    proposed: LedgerMetadata | None = None


class Writer:
    """The add pipeline of one OPEN ledger, from its creation to its close.

    `metadata` and `version` are what the store holds. Frames are built in `buffers`, which several
    writers may share. Events return effects; after `Failed` or `Closed` no event returns any.
    """

    def __init__(
        self,
        metadata: LedgerMetadata,
        *,
        version: int,
        limits: WriterLimits | None = None,
        buffers: FrameBuffers | None = None,
    ) -> None:
        if metadata.state is not LedgerState.OPEN:
            raise LedgerClosedError(metadata.ledger_id)
        self.metadata = metadata
        """Committed: what the store holds, as far as this writer knows. OPEN until it is CLOSED."""
        self.version = version
        """The version of `metadata` in the store."""
        self._ensemble = metadata.last_fragment.ensemble
        """The last ensemble of `metadata`; positions are indexes into it."""
        self.phase = Phase.OPEN
        """CLOSING from `close` on; CLOSED and STOPPED are final."""
        self.error: BookieError | None = None
        """The error that ended the writer; not None exactly when STOPPED."""
        self.lac = NO_ENTRY
        """Every id up to it is stored by its ack quorum; only grows, frozen during a change."""
        self._limits = limits or WriterLimits()
        self._gathered = BatchQueue(metadata, batch_bytes=self._limits.batch_bytes, buffers=buffers)
        """Numbers and encodes the appended payloads; holds those that are not sent yet."""
        self._was_single = False
        """The last batch was a single entry: probably the application waits for each ack."""
        self._length_acked = 0
        """Payload bytes up to and including `lac`."""
        self._batches: deque[Batch] = deque()
        """Batches sent and not acknowledged, in order; at most in_flight_batches of the limits."""
        self._runs: dict[int, PendingRun] = {}
        """By run id: the runs of `_batches`, and acknowledged runs that a member has yet to
        answer."""
        self._lag_bytes = 0
        """Bytes of the frames of `_runs`; beyond lag_bytes_max of the limits nothing more is
        sent."""
        self._generations = [0] * metadata.ensemble_size
        """By position: how often its member has failed or was replaced (R17)."""
        self._recipients: dict[int, tuple[Recipient, ...]] = {}
        """Cache of recipients, by positions as bits, for the present ensemble and generations."""
        self._down = 0
        """Positions, as bits, whose member has failed and is not replaced."""
        self._change: _Change | None = None
        """The ensemble change under way; only while OPEN or CLOSING."""
        self._conflicts = 0
        """How many compare-and-sets were lost in a row; at most CONFLICTS_MAX while OPEN or
        CLOSING."""

    def _check(self) -> None:
        """Assert the invariants between events. As events are hot, only tests call it
        (`writer_sim`).
        """
        assert NO_ENTRY <= self.lac <= self._gathered.last_pushed <= self.last_appended
        assert (self.error is not None) == (self.phase is Phase.STOPPED)
        assert self._lag_bytes == sum(run.frame_bytes for run in self._runs.values())
        assert all(run.run_id in self._runs for batch in self._batches for run in batch.runs)
        assert all(not run.waiting & run.stored for run in self._runs.values())
        assert self._change is None or self.phase in (Phase.OPEN, Phase.CLOSING)

    # Questions of the shell

    @property
    def last_appended(self) -> EntryId:
        """The id of the newest payload, sent or still queued."""
        return self._gathered.last_appended

    @property
    def unacked_bytes(self) -> int:
        """Payload bytes appended and not yet acknowledged."""
        gathered = self._gathered
        return gathered.queued_bytes + gathered.length_pushed - self._length_acked

    @property
    def is_changing(self) -> bool:
        return self._change is not None

    @property
    def is_degraded(self) -> bool:
        """True while a position has failed and is not replaced."""
        return self._down != 0

    @property
    def missing(self) -> tuple[int, ...]:
        """Positions whose member has failed and is not replaced, rising."""
        return positions_of(self._down)

    @property
    def is_stalled(self) -> bool:
        """True when a pending run cannot reach its ack quorum on the members that are left."""
        quorum = self.metadata.ack_quorum
        return any(
            (run.stored | run.waiting).bit_count() < quorum
            for batch in self._batches
            for run in batch.runs
        )

    # Events: appending

    def append(self, payloads: Sequence[bytes]) -> EntryId:
        """Queue payloads and return the id of the last. Nothing is sent before `pump`.

        Raises the error that ended the writer, LedgerClosedError, or BadRequestError when a payload
        is too large; in each case it queues none of them.
        """
        self._check_open()
        self._gathered.append(payloads)
        return self._gathered.last_appended

    def append_one(self, payload: bytes) -> EntryId:
        """Queue one payload and return its id; see `append`."""
        if self.phase is not _OPEN or self.error is not None:
            self._check_open()
        return self._gathered.append_one(payload)

    @property
    def goes_at_once(self) -> bool:
        """True when the shell should `pump` without waiting for more payloads: nothing is in
        flight, and the last batch was a single entry, so the application probably waits for each
        ack.
        """
        return self._was_single and not self._batches

    def _check_open(self) -> None:
        if self.error is not None:
            raise self.error
        if self.phase is not _OPEN:
            raise LedgerClosedError(self.metadata.ledger_id)

    def pump(self) -> list[Effect]:
        """Send queued payloads as far as the limits allow."""
        effects: list[Effect] = []
        while self._gathered.queued and self._may_push():
            effects += self._push(self._gathered.take(lac=self.lac))
        return effects

    def _push(self, batch: Batch) -> list[SendRun]:
        sends: list[SendRun] = []
        self._batches.append(batch)
        self._was_single = batch.count == 1
        for run in batch.runs:
            self._runs[run.run_id] = run
            self._lag_bytes += run.frame_bytes
            if positions := run.members & ~self._down:
                sends.append(self._sent(run, positions))
        return sends

    def _may_push(self) -> bool:
        limits, in_flight = self._limits, len(self._batches)
        if self.phase is not _OPEN or self._change is not None:
            return False
        if self._lag_bytes > limits.lag_bytes_max or in_flight >= limits.in_flight_batches:
            return False
        return in_flight < limits.gather_batches or self._gathered.is_full

    def _sent(self, run: PendingRun, positions: int) -> SendRun:
        """Make the effect that sends a run to these positions, and wait for their answers."""
        run.waiting |= positions
        recipients = self._recipients.get(positions) or self._recipients_at(positions)
        return send_run((run.run_id, run.frame, recipients))

    def _recipients_at(self, positions: int) -> tuple[Recipient, ...]:
        found = self._recipients[positions] = tuple(
            Recipient(self._ensemble[position], position, self._generations[position])
            for position in positions_of(positions)
        )
        return found

    # Events: replies of bookies

    def replied(self, run_id: int, sender: Recipient, status: Status) -> list[Effect]:
        """A member answered one send. An answer that is late, repeated or of a replaced member does
        nothing.
        """
        bookie_id, position, generation = sender
        bit = 1 << position
        run = self._runs.get(run_id)
        if (
            self.phase is not _OPEN
            or run is None
            or generation != self._generations[position]
            or not run.waiting & bit
        ):
            return []
        if status is _OK:
            run.waiting &= ~bit
            run.stored |= bit
            if run.is_acked:
                self._forget_if_done(run)
            elif run.stored.bit_count() >= self.metadata.ack_quorum:
                return self._advance()
            # This answer can only make room for more.
            return self.pump() if self._gathered.queued else []
        if status is Status.FENCED:
            return self.fail(LedgerFencedError(self.metadata.ledger_id))
        if status is Status.UNAUTHORIZED:
            return self.fail(UnauthorizedError(self.metadata.ledger_id))
        if status is Status.BAD_REQUEST:
            return self.fail(
                BadRequestError(
                    f"ledger {self.metadata.ledger_id}: bookie {bookie_id} calls a run of "
                    f"{run.frame_bytes} bytes malformed; stopped, the outcome of adds is unknown"
                )
            )
        return self._member_failed(position)

    def _advance(self) -> list[Effect]:
        """Acknowledge batches in order, as far as the committed ensemble stores them, and send
        more.
        """
        if self._change is not None or self.phase is not _OPEN:
            return []
        quorum, before = self.metadata.ack_quorum, self.lac
        batches = self._batches
        while batches and batches[0].is_stored(quorum):
            batch = batches.popleft()
            self.lac, self._length_acked = batch.last, batch.length
            for run in batch.runs:
                run.is_acked, run.frame = True, b""
                self._forget_if_done(run)
        acked: list[Effect] = [] if self.lac == before else [Acked(self.lac)]
        return acked + self.pump() if self._gathered.queued else acked

    def _forget_if_done(self, run: PendingRun) -> None:
        if run.is_acked and not run.waiting:
            del self._runs[run.run_id]
            self._lag_bytes -= run.frame_bytes

    def _member_failed(self, position: int) -> list[Effect]:
        self._down |= 1 << position
        self._drop_answers(1 << position)
        return self._begin_change()

    def _drop_answers(self, positions: int) -> None:
        """From now on ignore what these positions answer to earlier sends."""
        self._recipients.clear()
        for position in positions_of(positions):
            self._generations[position] += 1
        for run in list(self._runs.values()):
            run.waiting &= ~positions
            self._forget_if_done(run)

    # Events: ensemble change (R20)

    def retry_change(self) -> list[Effect]:
        """Ask again for the replacements that were not available before."""
        return self._begin_change()

    def _begin_change(self) -> list[Effect]:
        if self._change is not None or not self._down or self.phase is not _OPEN:
            return []
        self._change = _Change(EntryId(self.lac + 1))
        return [NeedReplacement(self._ensemble, self.missing)]

    def replace(self, replacements: Mapping[int, BookieId]) -> list[Effect]:
        """The shell has chosen replacements for some or all of the failed positions.

        A position may get its own bookie back (if it is reachable again and there is no other): the
        pending runs are sent to it once more. If nothing else changes, the fragments stay as they
        are.
        """
        change = self._change
        if change is None or change.proposed is not None:
            return []  # closed or stopped while the shell was choosing
        assert replacements
        assert not bits(replacements) & ~self._down
        change.proposed = self.metadata
        again = [p for p, bookie in replacements.items() if self._ensemble[p] == bookie]
        if len(again) == len(replacements):
            return self._committed(self.metadata, self.version, readmitted=bits(again))
        change.proposed = self.metadata.with_fragments(
            changed_ensemble(
                self.metadata.fragments,
                first_entry_id=change.first_entry_id,
                replacements=replacements,
            )
        )
        assert len(set(change.proposed.last_fragment.ensemble)) == self.metadata.ensemble_size
        return [WriteMetadata(change.proposed, self.version)]

    def no_replacement(self) -> list[Effect]:
        """No bookie is available now: go on with the remaining members, as far as they suffice.

        Entries that the failed member stored before count, as it is still in the committed
        ensemble. `retry_change` asks again.
        """
        if self._change is None or self._change.proposed is not None:
            return []
        self._change = None
        return self._advance()

    def store_answered(self, metadata: LedgerMetadata, version: int) -> list[Effect]:
        """The store holds `metadata` after a WriteMetadata: our value, or the value of a re-read.

        The shell re-reads (linearizable) after a lost compare-and-set and after an attempt whose
        outcome is unknown.
        """
        if self.phase in (Phase.CLOSED, Phase.STOPPED):
            return []
        if metadata.state is not LedgerState.OPEN:
            return self._ended_in_store(metadata)
        if version == self.version:
            # Our write has not landed but still may, so only the same value may be written again.
            return self._write_again()
        change = self._change
        is_ours = (
            change is not None
            and change.proposed is not None
            and (change.proposed.fragments == metadata.fragments)
        )
        self._conflicts = 0 if is_ours else self._conflicts + 1
        if self._conflicts > CONFLICTS_MAX or not self._can_adopt(metadata):
            return self.fail(
                MetadataConflictError(
                    f"ledger {self.metadata.ledger_id}: someone else keeps changing its fragments "
                    f"(found {metadata.last_fragment}, expected {self.metadata.last_fragment}); "
                    "stopped: recover the ledger and go on in a new one"
                )
            )
        return self._committed(metadata, version, readmitted=0)

    def _write_again(self) -> list[Effect]:
        if self._change is None:
            assert self.phase is Phase.CLOSING
            return self._write_closed()
        assert self._change.proposed is not None
        return [WriteMetadata(self._change.proposed, self.version)]

    def _can_adopt(self, found: LedgerMetadata) -> bool:
        starts = {self.metadata.last_fragment.first_entry_id}
        if self._change is not None:
            starts.add(self._change.first_entry_id)
        return found.last_fragment.first_entry_id in starts

    def _committed(
        self, metadata: LedgerMetadata, version: int, *, readmitted: int
    ) -> list[Effect]:
        """Adopt what the store holds: drop the acks of replaced positions, send their runs again,
        then acknowledge in order.
        """
        replaced = readmitted | bits(
            position
            for position, (old, new) in enumerate(
                zip(self._ensemble, metadata.last_fragment.ensemble, strict=True)
            )
            if old != new
        )
        self.metadata, self.version, self._change = metadata, version, None
        self._ensemble = metadata.last_fragment.ensemble
        self._drop_answers(replaced)
        self._down &= ~replaced
        if self.phase is Phase.CLOSING:
            return self._write_closed()
        sends: list[Effect] = []
        for run in (run for batch in self._batches for run in batch.runs):
            run.stored &= ~replaced
            if positions := run.members & replaced:
                sends.append(self._sent(run, positions))
        return sends + self._advance() + self._begin_change()

    # Events: the end

    def close(self) -> list[Effect]:
        """Close the ledger at the LAC (R21). Adds above it fail, and their outcome is unknown."""
        if self.phase is not _OPEN:
            return []
        self.phase = Phase.CLOSING
        effects: list[Effect] = []
        if self.last_appended > self.lac:
            effects.append(Failed(LedgerClosedError(self.metadata.ledger_id)))
            self._clear()
        if self._change is not None and self._change.proposed is not None:
            return effects  # never two writes of metadata at once: `_committed` goes on
        self._change = None
        return effects + self._write_closed()

    def fail(self, error: BookieError) -> list[Effect]:
        """Stop this writer permanently: the outcome of pending adds is unknown, and the ledger
        stays as it is.
        """
        if self.phase in (Phase.CLOSED, Phase.STOPPED):
            return []
        self.phase, self.error, self._change = Phase.STOPPED, error, None
        self._clear()
        return [Failed(error)]

    def _write_closed(self) -> list[Effect]:
        closed = self.metadata.closed(self.lac, length=self._length_acked)
        return [WriteMetadata(closed, self.version)]

    def _ended_in_store(self, found: LedgerMetadata) -> list[Effect]:
        if self.phase is Phase.CLOSING and found.is_closed and found.last_entry_id == self.lac:
            self.phase, self.metadata = Phase.CLOSED, found
            return [Closed(self.lac)]
        return self.fail(LedgerFencedError(self.metadata.ledger_id))

    def _clear(self) -> None:
        self._gathered.clear()
        self._batches.clear()
        self._runs.clear()
        self._lag_bytes = 0
