"""Recovery of one ledger: fence it, find its end, write back what is found, close it. Sans-I/O.

Events go in, ordered effects come out; the shell is `client.recovery`. One object is one attempt:
it ends with the effect Recovered or Abort and ignores all later events. What it does in each phase:

MARK    compare-and-set to IN_RECOVERY, before any bookie is asked (R11)
FENCE   fencing LAC reads to the last ensemble until every write set is covered (R2, R9)
READ    fencing range reads from the ensemble seen at the start (R13), judged entry by entry in
        order (R4, `end_search`); what is found goes to `writeback` at once
SETTLE  the end is known: wait until every write-back has its ack quorum (R14); when nothing was
        written back, read the length from the last entry known
CLOSE   one compare-and-set: fragments, last id, length, CLOSED; lost to a CLOSED value: adopt (R15)

The possible next phases for each event. An event may also leave the phase as it is, and an event
without a row always does; answers that nobody waits for change nothing (R17). A step to OVER
returns Recovered or Abort:

| phase | event | next phase |
|---|---|---|
| MARK | start | FENCE, OVER |
| MARK | on_metadata_written | FENCE |
| MARK | on_metadata_conflict | FENCE, OVER |
| FENCE | on_lac | READ, OVER |
| READ | on_read | SETTLE, CLOSE, OVER |
| READ | on_replacement | OVER |
| SETTLE | on_read | CLOSE |
| SETTLE | on_added | CLOSE |
| SETTLE | on_replacement | OVER |
| CLOSE | on_metadata_written | OVER |
| CLOSE | on_metadata_conflict | OVER |
"""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Final

from bookie.errors import (
    BadRequestError,
    BookieError,
    MetadataConflictError,
    UnauthorizedError,
    UndecidableError,
)
from bookie.frames.entry import EntryCodec, parse_header
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.answers import EntryVerdict, RangeReply, UndecidedError
from bookie.protocol.end_search import READ_WINDOW_ENTRIES, EndSearch, MemberReads
from bookie.protocol.lac_read import LacRead
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.quorum import write_set
from bookie.protocol.recovery_effects import (
    Abort,
    AcceptedLoss,
    Effect,
    FenceLac,
    Recovered,
    WriteMetadata,
)
from bookie.protocol.status import Status
from bookie.protocol.writeback import WriteBack

WRITE_BACK_BYTES_MAX: Final = 16 * 1024 * 1024
"""Reading pauses while write-backs of more than this many bytes are under way."""
METADATA_CONFLICTS_MAX: Final = 32
"""How many compare-and-sets one attempt may lose; with more, another client is writing all the
time, and retrying at once cannot win."""
ACCEPTED_LOSS_KEY: Final = "bookie-operator.accepted-loss"
"""Key in the custom metadata of a ledger that a person allowed to close at a possible loss. The
closing compare-and-set itself writes it, so that no such close can lack its record (S33)."""


class RecoveryPhase(Enum):
    """How far one attempt is; the table above shows the transitions."""

    MARK = "mark"
    FENCE = "fence"
    READ = "read"
    SETTLE = "settle"
    CLOSE = "close"
    OVER = "over"


_SEARCHED: Final = (Status.NO_SUCH_LEDGER, Status.NO_SUCH_ENTRY, Status.UNKNOWN, Status.IO_ERROR)
"""Answers of a member that has searched for the entry; a member with any other answer may still
have it."""


class Recovery:
    """One attempt. Call `start`, then pass in every answer until Recovered or Abort comes out."""

    def __init__(
        self,
        metadata: LedgerMetadata,
        version: int,
        *,
        password: bytes = b"",
        accepted_loss: AcceptedLoss | None = None,
        window: int = READ_WINDOW_ENTRIES,
    ) -> None:
        assert window > 0
        self.phase = RecoveryPhase.MARK
        """The phase of this attempt; it never goes back."""
        self._metadata = metadata
        """The ledger as last written or read: IN_RECOVERY from FENCE on, with the same fragments
        until OVER."""
        self._version = version
        """The version of `_metadata` in the store; the next compare-and-set expects it."""
        self._codec = EntryCodec(metadata.ledger_id, metadata.digest_type, password)
        """Verifies copies (R8)."""
        self._accepted_loss = accepted_loss
        """A person's decision, None = there is none; it applies only at the entry that it names."""
        self._has_accepted = False
        """True when `_accepted_loss` decided the end: the closing write records it."""
        self._window = window
        """How many entries are in one window of reads, > 0."""
        self._ops = itertools.count(1)
        """Numbers for requests, rising; none is used twice in an attempt."""
        self._conflicts = 0
        """How many compare-and-sets were lost, 0 <= conflicts <= METADATA_CONFLICTS_MAX until
        OVER."""
        self._fence_ops: dict[int, int] = {}
        """Fencing reads without an answer, in FENCE: ensemble position by number of the request."""
        # Not ideal: the three objects below are created again when their phase begins, since only
        # then it is known where to start. Until then they are empty, for an attempt that ends
        # early.
        self._fences = LacRead(metadata, fence=True)
        """Answers to the fencing reads; from READ on they cover the last ensemble."""
        self._search = EndSearch(metadata, self._codec, lac=NO_ENTRY, window=window, ops=self._ops)
        """The search for the end; its `end` is final from SETTLE on."""
        self._writeback = WriteBack(metadata, lac=NO_ENTRY, ops=self._ops)
        """The write-back; it has nothing pending from CLOSE on. The close writes its fragments."""
        self._is_paused = False
        """True in READ while too many bytes are being written back: no member is asked for more."""
        self._length_reads = MemberReads(self._codec, (), ops=self._ops, fence=False)
        """In SETTLE, when no entry was found: reads of the last known entry, for the length."""
        self._length = 0
        """Payload bytes of the ledger, for people only; 0 while no member could say."""

    @property
    def ledger_id(self) -> LedgerId:
        return self._metadata.ledger_id

    # MARK
    def start(self) -> list[Effect]:
        """Begin the attempt. A ledger that is CLOSED already is returned as it is (R18)."""
        effects = self._mark()
        self._check()
        return effects

    def _mark(self) -> list[Effect]:
        if self._metadata.is_closed:
            return self._adopt(self._metadata, self._version)
        if self._metadata.state is LedgerState.IN_RECOVERY:
            return self._fence()
        return [WriteMetadata(self._metadata.in_recovery(), self._version)]

    def on_metadata_written(self, metadata: LedgerMetadata, version: int) -> list[Effect]:
        """A WriteMetadata succeeded."""
        effects: list[Effect] = []
        if self.phase is RecoveryPhase.MARK:
            self._metadata, self._version = metadata, version
            effects = self._fence()
        elif self.phase is RecoveryPhase.CLOSE:
            effects = self._finish(self._recovered(metadata, version, adopted=False))
        self._check()
        return effects

    def on_metadata_conflict(self, metadata: LedgerMetadata, version: int) -> list[Effect]:
        """A WriteMetadata lost, or its outcome is unknown; `metadata` is what a linearizable
        re-read shows.
        """
        effects: list[Effect] = []
        if self.phase in (RecoveryPhase.MARK, RecoveryPhase.CLOSE):
            effects = self._write_again(metadata, version)
        self._check()
        return effects

    def _write_again(self, metadata: LedgerMetadata, version: int) -> list[Effect]:
        if metadata.is_closed:
            return self._adopt(metadata, version)
        self._conflicts += 1
        if self._conflicts > METADATA_CONFLICTS_MAX:
            return self._abort(self._conflict("its metadata changes all the time"))
        if self.phase is RecoveryPhase.MARK:
            self._metadata, self._version = metadata, version
            return self._mark()
        # Another recoverer may be at work; our findings hold only for the ensembles that we asked.
        if metadata.state is LedgerState.OPEN or metadata.fragments != self._metadata.fragments:
            return self._abort(self._conflict("its fragments changed during recovery"))
        self._metadata, self._version = metadata, version
        return self._write_end()

    def _conflict(self, what: str) -> MetadataConflictError:
        return MetadataConflictError(f"ledger {self.ledger_id}: {what}; recover it again")

    # FENCE
    def _fence(self) -> list[Effect]:
        self.phase = RecoveryPhase.FENCE
        self._fences = LacRead(self._metadata, fence=True)
        effects: list[Effect] = []
        for position, bookie_id in enumerate(self._metadata.last_fragment.ensemble):
            op = next(self._ops)
            self._fence_ops[op] = position
            effects.append(FenceLac(op, bookie_id))
        return effects

    def on_lac(self, op: int, status: Status, lac: EntryId) -> list[Effect]:
        """Take the answer to a FenceLac; `lac` counts only with OK."""
        effects: list[Effect] = []
        if self.phase is RecoveryPhase.FENCE and op in self._fence_ops:
            self._fences.on_lac(self._fence_ops.pop(op), status, lac)
            if self._fences.is_covered:
                effects = self._begin_reading()
            elif not self._fence_ops:
                effects = self._abort(self._not_fenced())
        self._check()
        return effects

    def _not_fenced(self) -> BookieError:
        if self._fences.is_refused:
            return UnauthorizedError(self.ledger_id)
        return UndecidableError(
            f"ledger {self.ledger_id} cannot be fenced now: too few members of its last ensemble "
            f"answered ({self._fences.text()}); its old writer could go on without them; bring "
            "them back, then try again"
        )

    # READ
    def _begin_reading(self) -> list[Effect]:
        self.phase = RecoveryPhase.READ
        lac = self._fences.lac
        self._search = EndSearch(
            self._metadata, self._codec, lac=lac, window=self._window, ops=self._ops
        )
        self._writeback = WriteBack(self._metadata, lac=lac, ops=self._ops)
        return list(self._search.start())

    def on_read(self, op: int, status: Status, reply: RangeReply | None) -> list[Effect]:
        """Take the answer to a ReadEntries."""
        effects: list[Effect] = []
        if self.phase is RecoveryPhase.READ and self._search.on_read(op, status, reply):
            effects = self._judge()
        elif self.phase is RecoveryPhase.SETTLE and self._length_reads.on_read(op, status, reply):
            effects = self._take_length()
        self._check()
        return effects

    def _judge(self) -> list[Effect]:
        """Write back what can be decided now, then ask on or stop."""
        found, verdict = self._search.judge()
        effects: list[Effect] = []
        for bookie_id in dict.fromkeys(bookie for bookie, _entry in self._search.corrupt):
            effects += self._writeback.distrust(bookie_id)
        if found:
            effects += self._writeback.add(found)
        if failed := self._check_writeback():
            return effects + failed
        if verdict is EntryVerdict.PENDING:
            return effects + self._ask_on()
        return effects + self._stop(verdict)

    def _stop(self, verdict: EntryVerdict) -> list[Effect]:
        """If the entry is denied, the end is the entry before. If it is undecidable, close nothing
        (R4), unless a person has accepted its loss.
        """
        if verdict is EntryVerdict.ABSENT:
            return self._settle()
        entry_id, answers = self._search.next, self._search.answers()
        loss = self._accepted_loss
        if loss is not None and loss.first_entry_id == entry_id:
            away = {bookie: status for bookie, status in answers.items() if status not in _SEARCHED}
            if not away:
                self._has_accepted = True
                return self._settle()
            return self._abort(_refused_loss(self.ledger_id, entry_id, away))
        needed = self._metadata.write_quorum - self._metadata.ack_quorum + 1
        undecided = UndecidedError(
            self.ledger_id,
            entry_id,
            answers,
            denials_needed=needed,
            lac=self._search.proven,
            others=self._search.others(),
        )
        return self._abort(undecided)

    def _ask_on(self) -> list[Effect]:
        """Read on, unless too many bytes are being written back: then `on_added` reads on."""
        self._search.forget_decided()
        self._is_paused = self._writeback.pending_bytes > WRITE_BACK_BYTES_MAX
        return [] if self._is_paused else list(self._search.ask_on())

    # Write-back events
    def on_added(self, op: int, status: Status) -> list[Effect]:
        """Take the answer to an AddRun."""
        effects: list[Effect] = []
        if self.phase in (RecoveryPhase.READ, RecoveryPhase.SETTLE):
            effects = list(self._writeback.on_added(op, status)) + self._go_on()
        self._check()
        return effects

    def on_replacement(self, position: int, bookie_id: BookieId | None) -> list[Effect]:
        """Take the answer to a Replace: the bookie chosen, or None when there is none."""
        effects: list[Effect] = []
        if self.phase in (RecoveryPhase.READ, RecoveryPhase.SETTLE):
            effects = list(self._writeback.on_replacement(position, bookie_id)) + self._go_on()
        self._check()
        return effects

    def _go_on(self) -> list[Effect]:
        if failed := self._check_writeback():
            return failed
        if self.phase is RecoveryPhase.SETTLE:
            return self._close_when_settled()
        return self._ask_on() if self._is_paused else []

    def _check_writeback(self) -> list[Effect]:
        failure = self._writeback.failure
        return self._abort(failure) if failure is not None else []

    # SETTLE
    def _settle(self) -> list[Effect]:
        self.phase = RecoveryPhase.SETTLE
        self._search.stop()
        end = self._search.end
        if self._search.length is not None or end == NO_ENTRY:
            self._length = self._search.length or 0
            return self._close_when_settled()
        # Nothing was written back, so the length is in the last known entry, which may be in an
        # earlier fragment. The length is for people only; the end does not depend on it.
        members = write_set(
            end,
            ensemble=self._metadata.fragment_of(end).ensemble,
            write_quorum=self._metadata.write_quorum,
        )
        reads = self._length_reads = MemberReads(self._codec, members, ops=self._ops, fence=False)
        return [reads.ask(index, end, end) for index in range(len(members))]

    def _take_length(self) -> list[Effect]:
        for member in self._length_reads.answers:
            if (copy := member.copy(self._search.end)) is not None:
                self._length = parse_header(copy).length
                self._length_reads.drop()
        return self._close_when_settled()

    def _close_when_settled(self) -> list[Effect]:
        if self._writeback.pending or self._length_reads.busy:
            return []
        self.phase = RecoveryPhase.CLOSE
        return self._write_end()

    # CLOSE
    def _write_end(self) -> list[Effect]:
        closing = self._metadata.closed(
            self._search.end, length=self._length, fragments=self._closing_fragments()
        )
        if self._has_accepted and self._accepted_loss is not None:
            custom = {**closing.custom, ACCEPTED_LOSS_KEY: self._accepted_loss.record}
            closing = replace(closing, custom=custom)
        return [WriteMetadata(closing, self._version)]

    def _closing_fragments(self) -> tuple[Fragment, ...]:
        fragments = self._writeback.fragments
        seen = self._metadata.fragments
        assert fragments[: len(seen) - 1] == seen[:-1], "recovery changes no earlier fragment"
        return fragments

    def _adopt(self, metadata: LedgerMetadata, version: int) -> list[Effect]:
        loss = self._accepted_loss
        if (
            loss is not None
            and self.phase is RecoveryPhase.MARK
            # Our own close may have landed in an attempt that heard no answer.
            and metadata.custom.get(ACCEPTED_LOSS_KEY) != loss.record
        ):
            return self._abort(_already_closed(metadata))
        return self._finish(self._recovered(metadata, version, adopted=True))

    def _recovered(self, metadata: LedgerMetadata, version: int, *, adopted: bool) -> Recovered:
        search = self._search
        corrupt, missing = tuple(search.corrupt), tuple(search.missing)
        return Recovered(metadata, version, adopted, search.found, corrupt, missing)

    def _abort(self, error: BookieError) -> list[Effect]:
        return self._finish(
            Abort(error, corrupt=tuple(self._search.corrupt), missing=tuple(self._search.missing))
        )

    def _finish(self, outcome: Recovered | Abort) -> list[Effect]:
        self.phase = RecoveryPhase.OVER
        return [outcome]

    def _check(self) -> None:
        """Assert the invariants after each event; recovery is not a hot path."""
        if self.phase is RecoveryPhase.OVER:
            return
        assert not self._metadata.is_closed and self._conflicts <= METADATA_CONFLICTS_MAX
        if self.phase is not RecoveryPhase.MARK:
            assert self._metadata.state is LedgerState.IN_RECOVERY
        if self.phase is RecoveryPhase.FENCE:
            assert self._fence_ops and not self._fences.is_covered
        if self.phase is RecoveryPhase.READ:  # some member has yet to answer
            assert self._writeback.pending if self._is_paused else self._search.is_waiting
        if self.phase is RecoveryPhase.SETTLE:
            assert self._writeback.pending or self._length_reads.busy
        if self.phase is RecoveryPhase.CLOSE:
            assert not self._writeback.pending and not self._length_reads.busy


def _refused_loss(
    ledger_id: LedgerId, entry_id: EntryId, away: Mapping[BookieId, Status]
) -> UndecidableError:
    said = ", ".join(f"{bookie}: {status.name}" for bookie, status in away.items())
    return UndecidableError(
        f"ledger {ledger_id}: the loss of entry {entry_id} on cannot be accepted while members "
        f"that may hold it are merely away ({said}); bring them back first"
    )


def _already_closed(metadata: LedgerMetadata) -> BadRequestError:
    return BadRequestError(
        f"ledger {metadata.ledger_id} is closed at {metadata.last_entry_id}: there is no end to "
        "accept a loss for"
    )
