"""Recovery of one ledger: fence it, find its end, write back what is found, close it. Sans-I/O.

Events go in, ordered effects come out; the shell is `client.recovery`. One object is one attempt:
it ends in Done or Abort and is then deaf. Phases:

MARK    compare-and-set to IN_RECOVERY, before any bookie is asked (R11)
FENCE   fencing LAC reads to the last ensemble until every write set is covered (R2, R9)
READ    fencing range reads from the ensemble seen at the start (R13), judged entry by entry in
        order (R4); what is found goes to `writeback` at once
SETTLE  the end is known: wait until every write-back has its ack quorum (R14); when nothing was
        written back, read the length from the last entry known
CLOSE   one compare-and-set: fragments, last id, length, CLOSED; lost to a CLOSED value: adopt (R15)
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from bookie.errors import (
    BadRequestError,
    BookieError,
    MetadataConflictError,
    UnauthorizedError,
    UndecidableError,
)
from bookie.frames.digests import VerifiedRun
from bookie.frames.entry import ENTRY_HEADER, EntryCodec, parse_header
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.answers import (
    MemberAnswers,
    RangeReply,
    UndecidedError,
    Verdict,
    judge_recovery_read,
    share_ahead,
)
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.quorum import fence_covers, write_set, write_set_positions
from bookie.protocol.recovery_effects import (
    Abort,
    AcceptedLoss,
    Done,
    Effect,
    FenceLac,
    Missing,
    ReadEntries,
    WriteMetadata,
)
from bookie.protocol.status import Status
from bookie.protocol.writeback import WriteBack

READ_WINDOW_ENTRIES: Final = 16384
"""Entries asked for ahead of the one being judged. Bytes are bounded by the answers: a member is
asked on only when all that it has sent is judged."""
WRITE_BACK_BYTES_MAX: Final = 16 * 1024 * 1024
"""Reading pauses while more than this is on its way back."""
METADATA_CONFLICTS_MAX: Final = 32
"""Lost compare-and-sets of one attempt; more means a duel that retrying at once cannot win."""
ACCEPTED_LOSS_KEY: Final = "bookie-operator.accepted-loss"
"""Custom metadata of a ledger a person let close at a possible loss: written by the closing
compare-and-set itself, so that no such close can lack its record (S33)."""


class _Phase(Enum):
    MARK = "mark"
    FENCE = "fence"
    READ = "read"
    SETTLE = "settle"
    CLOSE = "close"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class _Range:
    member: int  # ensemble position, or index into the write set for the length
    first: EntryId
    last: EntryId


_SEARCHED: Final = (Status.NO_SUCH_LEDGER, Status.NO_SUCH_ENTRY, Status.UNKNOWN, Status.IO_ERROR)
"""Answers of a member that has looked: all others may have the entry once they are back."""


class Recovery:
    """One attempt. Call `start`, then feed every answer back until Done or Abort comes out."""

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
        self._metadata = metadata
        self._version = version
        self._codec = EntryCodec(metadata.ledger_id, metadata.digest_type, password)
        self._accepted_loss = accepted_loss
        self._window = window
        self._phase = _Phase.MARK
        self._ops = itertools.count(1)
        self._conflicts = 0
        self._fence_asked: dict[int, int] = {}
        self._fence_answers: dict[int, Status] = {}
        self._lac = NO_ENTRY
        self._proven = NO_ENTRY
        self._reads: dict[int, _Range] = {}
        self._answers: list[MemberAnswers[memoryview]] = []
        self._write_sets: list[tuple[int, ...]] = []  # by entry id modulo the ensemble's size
        self._next = EntryId(0)
        self._window_last = NO_ENTRY
        self._paused = False
        self._end = NO_ENTRY
        self._length: int | None = None
        self._recovered = 0
        self._corrupt: dict[tuple[BookieId, EntryId], None] = {}
        self._missing: list[Missing] = []
        self._accepted = False
        self._writeback = WriteBack(metadata, lac=NO_ENTRY, ops=self._ops)

    @property
    def ledger_id(self) -> LedgerId:
        return self._metadata.ledger_id

    # MARK
    def start(self) -> list[Effect]:
        """The first effects; a CLOSED ledger is returned as it is, for ever (R18)."""
        if self._metadata.is_closed:
            return self._adopt(self._metadata, self._version)
        if self._metadata.state is LedgerState.IN_RECOVERY:
            return self._fence()
        return [WriteMetadata(self._metadata.in_recovery(), self._version)]

    def on_metadata_written(self, metadata: LedgerMetadata, version: int) -> list[Effect]:
        """A WriteMetadata won."""
        if self._phase is _Phase.MARK:
            self._metadata, self._version = metadata, version
            return self._fence()
        if self._phase is _Phase.CLOSE:
            return self._finish(self._done(metadata, version, adopted=False))
        return []

    def on_metadata_conflict(self, metadata: LedgerMetadata, version: int) -> list[Effect]:
        """A WriteMetadata lost, or its outcome is unknown: what a linearizable re-read shows."""
        if self._phase not in (_Phase.MARK, _Phase.CLOSE):
            return []
        if metadata.is_closed:
            return self._adopt(metadata, version)
        self._conflicts += 1
        if self._conflicts > METADATA_CONFLICTS_MAX:
            return self._abort(self._conflict("its metadata changes all the time"))
        if self._phase is _Phase.MARK:
            self._metadata, self._version = metadata, version
            return self.start()
        # Another recoverer may be at work; what we found holds only for the ensembles we asked.
        if metadata.state is LedgerState.OPEN or metadata.fragments != self._metadata.fragments:
            return self._abort(self._conflict("its fragments changed during recovery"))
        self._metadata, self._version = metadata, version
        return self._write_end()

    def _conflict(self, what: str) -> MetadataConflictError:
        return MetadataConflictError(f"ledger {self.ledger_id}: {what}; recover it again")

    # FENCE
    def _fence(self) -> list[Effect]:
        self._phase = _Phase.FENCE
        effects: list[Effect] = []
        for position, bookie_id in enumerate(self._ensemble):
            op = next(self._ops)
            self._fence_asked[op] = position
            effects.append(FenceLac(op, bookie_id))
        return effects

    @property
    def _ensemble(self) -> tuple[BookieId, ...]:
        """The last ensemble as seen at the start: where recovery reads, to the end (R13)."""
        return self._metadata.last_fragment.ensemble

    def on_lac(self, op: int, status: Status, lac: EntryId) -> list[Effect]:
        """An answer to FenceLac; `lac` counts only with OK."""
        if self._phase is not _Phase.FENCE or op not in self._fence_asked:
            return []
        self._fence_answers[self._fence_asked.pop(op)] = status
        if status is Status.OK:
            self._lac = max(self._lac, lac)
        if self._is_fenced():
            return self._begin_reading()
        return [] if self._fence_asked else self._abort(self._not_fenced())

    def _is_fenced(self) -> bool:
        # UNKNOWN comes only from a bookie whose unclean boot has fenced the ledger durably, so it
        # is fenced like the others (R26); its LAC is no word to go by, which only costs reads.
        fenced = [
            position
            for position, status in self._fence_answers.items()
            if status.is_known or status is Status.UNKNOWN
        ]
        return fence_covers(
            fenced,
            ensemble_size=self._metadata.ensemble_size,
            write_quorum=self._metadata.write_quorum,
            ack_quorum=self._metadata.ack_quorum,
        )

    def _not_fenced(self) -> BookieError:
        # A single member may have learned a wrong key, of whoever asked it first after it lost its
        # disks: it is unknown like one that is down, and names itself. All of them are no accident.
        if set(self._fence_answers.values()) == {Status.UNAUTHORIZED}:
            return UnauthorizedError(self.ledger_id)
        said = ", ".join(
            f"{self._ensemble[position]}: {status.name}"
            for position, status in sorted(self._fence_answers.items())
        )
        return UndecidableError(
            f"ledger {self.ledger_id} cannot be fenced now: too few members of its last ensemble "
            f"answered ({said}); its old writer could go on without them; bring them back, then "
            "try again"
        )

    # READ
    def _begin_reading(self) -> list[Effect]:
        self._phase = _Phase.READ
        floor = EntryId(self._metadata.last_fragment.first_entry_id - 1)
        self._proven = self._end = EntryId(max(self._lac, floor))
        self._next = EntryId(self._end + 1)
        self._writeback = WriteBack(self._metadata, lac=self._lac, ops=self._ops)
        self._answers = [MemberAnswers(self._codec, VerifiedRun.entries) for _ in self._ensemble]
        size, quorum = self._metadata.ensemble_size, self._metadata.write_quorum
        self._write_sets = [
            write_set_positions(EntryId(residue), ensemble_size=size, write_quorum=quorum)
            for residue in range(size)
        ]
        return self._next_window()

    def _next_window(self) -> list[Effect]:
        self._window_last = EntryId(self._next + self._window - 1)
        self._reads.clear()  # answers to an older window are no longer waited for (R17)
        return [self._read(position) for position in range(len(self._ensemble))]

    def _read(self, position: int) -> ReadEntries:
        first = EntryId(max(self._answers[position].through + 1, self._next))
        op = next(self._ops)
        self._reads[op] = _Range(position, first, self._window_last)
        return ReadEntries(op, self._ensemble[position], first, self._window_last, fence=True)

    def on_read(self, op: int, status: Status, reply: RangeReply | None) -> list[Effect]:
        """An answer to ReadEntries."""
        asked = self._reads.pop(op, None)
        if asked is None or self._phase not in (_Phase.READ, _Phase.SETTLE):
            return []
        member = self._answers[asked.member]
        member.take(status, reply, first=asked.first, last=asked.last)
        if self._phase is _Phase.SETTLE:
            return self._take_length()
        if reply is not None and status is Status.OK:
            self._proven = max(self._proven, reply.lac)
        return self._judge()

    def _judge(self) -> list[Effect]:
        """Decide entries in order as far as the answers reach, then stop or ask on."""
        found: list[tuple[EntryId, memoryview]] = []
        verdict, answers = self._verdict()
        while verdict is Verdict.PRESENT or self._is_missing(verdict):
            if verdict is Verdict.PRESENT:
                found += self._take_stretch()
            else:
                self._pass_over(answers)
            verdict, answers = self._verdict()
        effects: list[Effect] = list(self._writeback.add(found)) if found else []
        self._recovered += len(found)
        if failed := self._check_writeback():
            return effects + failed
        if verdict is Verdict.PENDING:
            return effects + self._ask_on()
        return effects + self._stop(verdict, answers)

    def _verdict(self) -> tuple[Verdict, dict[BookieId, Status | None]]:
        """On the entry whose turn it is; beyond the window nobody has been asked."""
        if self._next > self._window_last:
            return Verdict.PENDING, {}
        answers = self._answers_of(self._next)
        verdict = judge_recovery_read(
            list(answers.values()),
            write_quorum=self._metadata.write_quorum,
            ack_quorum=self._metadata.ack_quorum,
        )
        return verdict, answers

    def _is_missing(self, verdict: Verdict) -> bool:
        # A LAC beyond it proves that it was acknowledged: it is not the end, whoever denies it.
        # Starting at that LAC would never have asked for it (R12); here it is reported as well.
        return self._next <= self._proven and verdict in (Verdict.ABSENT, Verdict.UNDECIDABLE)

    def _answers_of(self, entry_id: EntryId) -> dict[BookieId, Status | None]:
        self._note_corrupt(entry_id, entry_id)
        return {
            self._ensemble[position]: self._answers[position].answer(entry_id)
            for position in self._write_set(entry_id)
        }

    def _write_set(self, entry_id: EntryId) -> tuple[int, ...]:
        return self._write_sets[entry_id % len(self._write_sets)]

    def _note_corrupt(self, first: EntryId, last: EntryId) -> None:
        for position, member in enumerate(self._answers):
            for entry_id in member.corrupt_within(first, last):
                if position in self._write_set(entry_id):
                    self._corrupt[self._ensemble[position], entry_id] = None
                    self._writeback.distrust(self._ensemble[position])

    def _take_stretch(self) -> list[tuple[EntryId, memoryview]]:
        """Verified entries, verbatim: all that one member has in a row from the next one on.

        What R4 says of the first of them it says of each: one good copy in its write set is there.
        """
        entries = max(map(self._stretch, self._write_set(self._next)), key=len)
        last = EntryId(self._next + len(entries) - 1)
        self._note_corrupt(self._next, last)
        _ledgers, _ids, lacs, lengths = zip(*map(ENTRY_HEADER.unpack_from, entries), strict=True)
        self._proven = EntryId(max(self._proven, *lacs))
        self._length = lengths[-1]
        ids = map(EntryId, range(self._next, last + 1))
        self._move_past(last)
        return list(zip(ids, entries, strict=True))

    def _stretch(self, position: int) -> list[memoryview]:
        share = share_ahead(
            self._next,
            position,
            ensemble_size=self._metadata.ensemble_size,
            write_quorum=self._metadata.write_quorum,
        )
        last = min(self._window_last, self._next + share - 1)
        return self._answers[position].stretch(self._next, last)

    def _move_past(self, entry_id: EntryId) -> None:
        self._end, self._next = entry_id, EntryId(entry_id + 1)

    def _pass_over(self, answers: Mapping[BookieId, Status | None]) -> None:
        said = {bookie: status for bookie, status in answers.items() if status is not None}
        self._missing.append(Missing(self._next, said))
        self._move_past(self._next)

    def _stop(self, verdict: Verdict, answers: Mapping[BookieId, Status | None]) -> list[Effect]:
        """The entry is denied: the end is the one before. Undecidable: close nothing (R4)."""
        said = {bookie: status for bookie, status in answers.items() if status is not None}
        loss = self._accepted_loss
        if verdict is Verdict.ABSENT:
            return self._settle()
        if loss is not None and loss.first_entry_id == self._next:
            away = {bookie: status for bookie, status in said.items() if status not in _SEARCHED}
            if not away:
                self._accepted = True
                return self._settle()
            return self._abort(_refused_loss(self.ledger_id, self._next, away))
        needed = self._metadata.write_quorum - self._metadata.ack_quorum + 1
        return self._abort(UndecidedError(self.ledger_id, self._next, said, denials_needed=needed))

    def _ask_on(self) -> list[Effect]:
        """Go on reading: the next window, or from an idle member that has not spoken so far."""
        for member in self._answers:
            member.forget_below(self._next)
        self._paused = self._writeback.pending_bytes > WRITE_BACK_BYTES_MAX
        if self._paused:
            return []  # `on_added` comes here again
        if self._next > self._window_last:
            return self._next_window()
        busy = {asked.member for asked in self._reads.values()}
        return [
            self._read(position)
            for position, member in enumerate(self._answers)
            if position not in busy and member.through < self._next
        ]

    # Write-back events
    def on_added(self, op: int, status: Status) -> list[Effect]:
        """An answer to AddRun."""
        if self._phase not in (_Phase.READ, _Phase.SETTLE):
            return []
        return list(self._writeback.on_added(op, status)) + self._go_on()

    def on_replacement(self, position: int, bookie_id: BookieId | None) -> list[Effect]:
        """An answer to Replace: the bookie chosen, or None when there is none."""
        if self._phase not in (_Phase.READ, _Phase.SETTLE):
            return []
        return list(self._writeback.on_replacement(position, bookie_id)) + self._go_on()

    def _go_on(self) -> list[Effect]:
        failed = self._check_writeback()
        if failed:
            return failed
        if self._phase is _Phase.SETTLE:
            return self._close_when_settled()
        return self._ask_on() if self._paused else []

    def _check_writeback(self) -> list[Effect]:
        failure = self._writeback.failure
        return self._abort(failure) if failure is not None else []

    # SETTLE
    def _settle(self) -> list[Effect]:
        self._phase = _Phase.SETTLE
        self._reads.clear()
        if self._length is not None or self._end == NO_ENTRY:
            return self._close_when_settled()
        # Nothing was written back: the length is in the last entry known, which an earlier
        # fragment may hold. It is a figure for people; the end does not hang on it.
        fragment = self._metadata.fragment_of(self._end)
        members = write_set(
            self._end, ensemble=fragment.ensemble, write_quorum=self._metadata.write_quorum
        )
        self._answers = [MemberAnswers(self._codec, VerifiedRun.entries) for _ in members]
        effects: list[Effect] = []
        for index, bookie_id in enumerate(members):
            op = next(self._ops)
            self._reads[op] = _Range(index, self._end, self._end)
            effects.append(ReadEntries(op, bookie_id, self._end, self._end, fence=False))
        return effects

    def _take_length(self) -> list[Effect]:
        for member in self._answers:
            if (copy := member.copy(self._end)) is not None:
                self._length = parse_header(copy).length
                self._reads.clear()
        return self._close_when_settled()

    def _close_when_settled(self) -> list[Effect]:
        if self._writeback.pending or self._reads:
            return []
        self._phase = _Phase.CLOSE
        return self._write_end()

    # CLOSE
    def _write_end(self) -> list[Effect]:
        closing = self._metadata.closed(
            self._end, length=self._length or 0, fragments=self._closing_fragments()
        )
        if self._accepted and self._accepted_loss is not None:
            custom = {**closing.custom, ACCEPTED_LOSS_KEY: self._accepted_loss.record}
            closing = replace(closing, custom=custom)
        return [WriteMetadata(closing, self._version)]

    def _closing_fragments(self) -> tuple[Fragment, ...]:
        fragments = self._writeback.fragments
        seen = self._metadata.fragments
        assert fragments[: len(seen) - 1] == seen[:-1], "recovery changes no earlier fragment"
        return fragments

    def _adopt(self, metadata: LedgerMetadata, version: int) -> list[Effect]:
        if self._accepted_loss is not None and self._phase is _Phase.MARK:
            return self._abort(_already_closed(metadata))
        return self._finish(self._done(metadata, version, adopted=True))

    def _done(self, metadata: LedgerMetadata, version: int, *, adopted: bool) -> Done:
        return Done(
            metadata,
            version,
            adopted,
            recovered=self._recovered,
            corrupt=tuple(self._corrupt),
            missing=tuple(self._missing),
        )

    def _abort(self, error: BookieError) -> list[Effect]:
        return self._finish(
            Abort(error, corrupt=tuple(self._corrupt), missing=tuple(self._missing))
        )

    def _finish(self, outcome: Done | Abort) -> list[Effect]:
        self._phase = _Phase.OVER
        self._reads.clear()
        return [outcome]


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
