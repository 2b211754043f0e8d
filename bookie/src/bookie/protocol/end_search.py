"""Finding the end of a ledger that is fenced: fencing reads, judged entry by entry, in order (R4).

Part of `recovery`, sans-I/O. Every member of the last ensemble is asked for the same window of
entries, and asked on when all that it has sent is judged. The search stops at the first entry that
is denied, or that cannot be decided; `recovery` writes back what it finds on the way.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from bookie.frames.digests import VerifiedRun
from bookie.frames.entry import ENTRY_HEADER, EntryCodec
from bookie.ids import NO_ENTRY, BookieId, EntryId
from bookie.protocol.answers import (
    EntryVerdict,
    MemberAnswers,
    RangeReply,
    judge_recovery_read,
    share_ahead,
)
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.quorum import write_set_positions
from bookie.protocol.recovery_effects import Missing, ReadEntries
from bookie.protocol.status import Status

READ_WINDOW_ENTRIES: Final = 16384
"""Entries asked for ahead of the one being judged. Bytes are bounded by the answers: a member is
asked on only when all that it has sent is judged."""


class MemberReads:
    """Range reads from some members, one at a time from each, and what each has answered."""

    def __init__(
        self, codec: EntryCodec, members: Sequence[BookieId], *, ops: Iterator[int], fence: bool
    ) -> None:
        self._members = members
        """Whom to ask; other methods name them by their index here."""
        self.answers = [MemberAnswers(codec, VerifiedRun.entries) for _ in members]
        """All that each member has said, by index."""
        self._ops = ops
        """Numbers of questions; shared by a whole attempt, so that none is used twice."""
        self._fence = fence
        """True when each read fences the ledger on the bookie that serves it."""
        self._open: dict[int, tuple[int, ReadEntries]] = {}
        """Questions that are out, by number, with the index of the member; at most one of each."""

    def ask(self, index: int, first: EntryId, last: EntryId) -> ReadEntries:
        """Ask this member for `first`..`last`."""
        read = ReadEntries(next(self._ops), self._members[index], first, last, fence=self._fence)
        self._open[read.op] = index, read
        return read

    def on_read(self, op: int, status: Status, reply: RangeReply | None) -> bool:
        """Take an answer; False when nobody waits for it (R17)."""
        asked = self._open.pop(op, None)
        if asked is None:
            return False
        index, read = asked
        self.answers[index].take(status, reply, first=read.first, last=read.last)
        return True

    def drop(self) -> None:
        """Wait for no answer any more."""
        self._open.clear()

    @property
    def busy(self) -> set[int]:
        """Indexes of the members that have still to answer."""
        return {index for index, _read in self._open.values()}


class EndSearch:
    """The search of one attempt: `start` it, hand it answers, `judge` after each, then `ask_on`."""

    def __init__(
        self,
        metadata: LedgerMetadata,
        codec: EntryCodec,
        *,
        lac: EntryId,
        window: int,
        ops: Iterator[int],
    ) -> None:
        size, quorum = metadata.ensemble_size, metadata.write_quorum
        self._metadata = metadata
        """The ledger as seen when the search began; it is read from that last ensemble (R13)."""
        self._ensemble = metadata.last_fragment.ensemble
        self._window = window
        """Entries in a window, > 0."""
        self._write_sets = [
            write_set_positions(EntryId(residue), ensemble_size=size, write_quorum=quorum)
            for residue in range(size)
        ]
        """Positions that hold an entry, by its id modulo E."""
        self._reads = MemberReads(codec, self._ensemble, ops=ops, fence=True)
        """Reads of the window that is out; members by ensemble position."""
        floor = EntryId(metadata.last_fragment.first_entry_id - 1)
        self.proven = EntryId(max(lac, floor))
        """Highest id known to be acknowledged, -1 = none; never falls. Start and later LACs."""
        self.next = EntryId(self.proven + 1)
        """Id of the entry to be judged next; all before it are decided. Never falls."""
        self._window_last = self.proven
        """Last id that members were asked for; next <= window_last + 1."""
        self.length: int | None = None
        """Payload bytes of the ledger up to the last entry found; None while none was."""
        self.found = 0
        """Entries found so far."""
        self.corrupt: dict[tuple[BookieId, EntryId], None] = {}
        """Copies that did not verify, of members that should hold the entry; in order, as a set."""
        self.missing: list[Missing] = []
        """Acknowledged entries that nobody could return; ids rise, all < next."""

    @property
    def end(self) -> EntryId:
        """The last entry that is decided to be the ledger's, -1 = none."""
        return EntryId(self.next - 1)

    @property
    def is_waiting(self) -> bool:
        """True while a member has still to answer."""
        return bool(self._reads.busy)

    def start(self) -> list[ReadEntries]:
        """Ask every member for the next window."""
        self._window_last = EntryId(self.next + self._window - 1)
        self._reads.drop()  # answers to an older window are no longer waited for (R17)
        return [self._read(position) for position in range(len(self._ensemble))]

    def _read(self, position: int) -> ReadEntries:
        first = EntryId(max(self._reads.answers[position].through + 1, self.next))
        return self._reads.ask(position, first, self._window_last)

    def on_read(self, op: int, status: Status, reply: RangeReply | None) -> bool:
        """Take an answer; False when nobody waits for it."""
        if not self._reads.on_read(op, status, reply):
            return False
        if reply is not None and status is Status.OK:
            self.proven = max(self.proven, reply.lac)
        return True

    def judge(self) -> tuple[list[tuple[EntryId, memoryview]], EntryVerdict]:
        """Decide entries in order as far as the answers reach.

        Returns the entries found, verbatim, and the verdict on the one that stopped it.
        """
        found: list[tuple[EntryId, memoryview]] = []
        verdict = self._verdict()
        while verdict is EntryVerdict.PRESENT or self._is_missing(verdict):
            if verdict is EntryVerdict.PRESENT:
                found += self._take_stretch()
            else:
                self._pass_over()
            verdict = self._verdict()
        self.found += len(found)
        self._check()
        return found, verdict

    def _verdict(self) -> EntryVerdict:
        """On the entry whose turn it is; beyond the window nobody has been asked."""
        if self.next > self._window_last:
            return EntryVerdict.PENDING
        self._note_corrupt(self.next, self.next)
        return judge_recovery_read(
            [self._reads.answers[position].answer(self.next) for position in self._write_set()],
            write_quorum=self._metadata.write_quorum,
            ack_quorum=self._metadata.ack_quorum,
        )

    def _is_missing(self, verdict: EntryVerdict) -> bool:
        # A LAC beyond it proves that it was acknowledged: it is not the end, whoever denies it.
        # Starting at that LAC would never have asked for it (R12); here it is reported as well.
        undecided = (EntryVerdict.ABSENT, EntryVerdict.UNDECIDABLE)
        return self.next <= self.proven and verdict in undecided

    def answers(self) -> dict[BookieId, Status]:
        """What the write set has answered about the entry that is next."""
        said = {p: self._reads.answers[p].answer(self.next) for p in self._write_set()}
        return {self._ensemble[p]: status for p, status in said.items() if status is not None}

    def _write_set(self) -> tuple[int, ...]:
        return self._write_sets[self.next % len(self._write_sets)]

    def _note_corrupt(self, first: EntryId, last: EntryId) -> None:
        for position, member in enumerate(self._reads.answers):
            for entry_id in member.corrupt_within(first, last):
                if position in self._write_sets[entry_id % len(self._write_sets)]:
                    self.corrupt[self._ensemble[position], entry_id] = None

    def _take_stretch(self) -> list[tuple[EntryId, memoryview]]:
        """Verified entries, verbatim: all that one member has in a row from the next one on.

        What R4 says of the first of them it says of each: one good copy in its write set is there.
        """
        first = self.next
        entries = max(map(self._stretch, self._write_set()), key=len)
        last = EntryId(first + len(entries) - 1)
        self._note_corrupt(first, last)
        _ledgers, _ids, lacs, lengths = zip(*map(ENTRY_HEADER.unpack_from, entries), strict=True)
        self.proven = EntryId(max(self.proven, *lacs))
        self.length = lengths[-1]
        self.next = EntryId(last + 1)
        return list(zip(map(EntryId, range(first, last + 1)), entries, strict=True))

    def _stretch(self, position: int) -> list[memoryview]:
        share = share_ahead(
            self.next,
            position,
            ensemble_size=self._metadata.ensemble_size,
            write_quorum=self._metadata.write_quorum,
        )
        last = min(self._window_last, self.next + share - 1)
        return self._reads.answers[position].stretch(self.next, last)

    def _pass_over(self) -> None:
        self.missing.append(Missing(self.next, self.answers()))
        self.next = EntryId(self.next + 1)

    def ask_on(self) -> list[ReadEntries]:
        """Go on reading: the next window, or from an idle member that has not spoken so far."""
        if self.next > self._window_last:
            return self.start()
        busy = self._reads.busy
        return [
            self._read(position)
            for position, member in enumerate(self._reads.answers)
            if position not in busy and member.through < self.next
        ]

    def forget_decided(self) -> None:
        """Drop what members have said of entries that are decided, and the copies with it."""
        for member in self._reads.answers:
            member.forget_below(self.next)

    def stop(self) -> None:
        """Wait for no answer any more: the end is known, or this attempt is over."""
        self._reads.drop()

    def _check(self) -> None:
        assert self._metadata.last_fragment.first_entry_id - 1 <= self.proven
        assert 0 <= self.next <= self._window_last + 1
        assert (self.length is None) == (self.found == 0)
        assert len(self._reads.busy) <= len(self._ensemble)
        assert not self.missing or self.missing[-1].entry_id < self.next
        assert self.end >= NO_ENTRY
