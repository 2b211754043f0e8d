"""The search for the end of a fenced ledger: fencing reads, judged entry by entry, in order (R4).

Part of `recovery`, sans-I/O. It asks every member of the last ensemble for the same window of
entries, and asks a member for more when all that the member has sent is judged. The search stops at
the first entry that is denied or cannot be decided; `recovery` writes back the entries found
before.
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
"""How many entries are asked for ahead of the one being judged. Memory stays bounded: a member is
asked for more only when all that it has sent is judged."""


class MemberReads:
    """Range reads, at most one at a time from each member, and what each member has answered."""

    def __init__(
        self, codec: EntryCodec, members: Sequence[BookieId], *, ops: Iterator[int], fence: bool
    ) -> None:
        self._members = members
        """The members to ask; methods name a member by its index here."""
        self.answers = [MemberAnswers(codec, VerifiedRun.entries) for _ in members]
        """All answers of each member, by index."""
        self._ops = ops
        """Numbers for reads; the whole attempt shares them, so that none is used twice."""
        self._fence = fence
        """True when each read fences the ledger on the bookie that serves it."""
        self._open: dict[int, tuple[int, ReadEntries]] = {}
        """Reads without an answer yet, by number, with the index of the member; at most one
        each."""

    def ask(self, index: int, first: EntryId, last: EntryId) -> ReadEntries:
        """Make the read that asks this member for `first`..`last`."""
        read = ReadEntries(next(self._ops), self._members[index], first, last, fence=self._fence)
        self._open[read.op] = index, read
        return read

    def on_read(self, op: int, status: Status, reply: RangeReply | None) -> bool:
        """Take an answer; False when no read waits for it (R17)."""
        asked = self._open.pop(op, None)
        if asked is None:
            return False
        index, read = asked
        self.answers[index].take(status, reply, first=read.first, last=read.last)
        return True

    def drop(self) -> None:
        """Ignore all answers to reads made so far."""
        self._open.clear()

    @property
    def busy(self) -> set[int]:
        """Indexes of the members that have yet to answer."""
        return {index for index, _read in self._open.values()}


class EndSearch:
    """The search of one attempt: call `start`, then for each answer `on_read`,
    `judge`, `ask_on`.
    """

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
        """The ledger as seen when the search began; entries are read from its last ensemble
        (R13)."""
        self._ensemble = metadata.last_fragment.ensemble
        self._window = window
        """Entries in a window, > 0."""
        self._write_sets = [
            write_set_positions(EntryId(residue), ensemble_size=size, write_quorum=quorum)
            for residue in range(size)
        ]
        """Ensemble positions that store an entry, by its id modulo E."""
        self._reads = MemberReads(codec, self._ensemble, ops=ops, fence=True)
        """Reads of the present window; the index of a member is its ensemble position."""
        floor = EntryId(metadata.last_fragment.first_entry_id - 1)
        self.proven = EntryId(max(lac, floor))
        """Highest id known to be acknowledged, -1 = none; never falls. It comes from the fences'
        LAC and from the LACs seen since."""
        self.next = EntryId(self.proven + 1)
        """Id of the entry to be judged next; all before it are decided. Never falls."""
        self._window_last = self.proven
        """Last id of the window that members were asked for; next <= window_last + 1."""
        self.length: int | None = None
        """Payload bytes of the ledger up to the last entry found; None while none was found."""
        self.found = 0
        """How many entries were found so far."""
        self.corrupt: dict[tuple[BookieId, EntryId], None] = {}
        """Copies that did not verify, on members that should hold the entry; an ordered set."""
        self.missing: list[Missing] = []
        """Acknowledged entries that no member could return; ids rise, all < next."""

    @property
    def end(self) -> EntryId:
        """The last entry decided so far to be in the ledger, -1 = none."""
        return EntryId(self.next - 1)

    @property
    def is_waiting(self) -> bool:
        """True while a member has yet to answer."""
        return bool(self._reads.busy)

    def start(self) -> list[ReadEntries]:
        """Ask every member for the next window."""
        self._window_last = EntryId(self.next + self._window - 1)
        self._reads.drop()  # answers to reads of an older window do not count (R17)
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
        """The verdict on the next entry; PENDING beyond the window, as no member was asked."""
        if self.next > self._window_last:
            return EntryVerdict.PENDING
        self._note_corrupt(self.next, self.next)
        verdict = judge_recovery_read(
            [self._reads.answers[position].answer(self.next) for position in self._write_set()],
            write_quorum=self._metadata.write_quorum,
            ack_quorum=self._metadata.ack_quorum,
        )
        # Any other member may hold a later entry, whose LAC proves that this one was acknowledged:
        # its loss is certain then, and what follows is kept.
        if verdict is EntryVerdict.UNDECIDABLE and self.next > self.proven and self._is_silent():
            return EntryVerdict.PENDING
        return verdict

    def _is_silent(self) -> bool:
        """Whether a member has not said anything of the next entry yet."""
        return any(member.answer(self.next) is None for member in self._reads.answers)

    def _is_missing(self, verdict: EntryVerdict) -> bool:
        # A LAC at or beyond the entry proves that it was acknowledged: the end is not before it,
        # whoever denies it. A search that started at that LAC would not have asked for the entry
        # (R12); this one reports it as missing and goes on.
        undecided = (EntryVerdict.ABSENT, EntryVerdict.UNDECIDABLE)
        return self.next <= self.proven and verdict in undecided

    def answers(self) -> dict[BookieId, Status]:
        """What the members of its write set have answered about the next entry."""
        said = {p: self._reads.answers[p].answer(self.next) for p in self._write_set()}
        return {self._ensemble[p]: status for p, status in said.items() if status is not None}

    def others(self) -> dict[BookieId, Status]:
        """What the members outside its write set have answered about the next entry."""
        said = {p: member.answer(self.next) for p, member in enumerate(self._reads.answers)}
        return {
            self._ensemble[position]: Status.UNREACHABLE if status is None else status
            for position, status in said.items()
            if position not in self._write_set()
        }

    def _write_set(self) -> tuple[int, ...]:
        return self._write_sets[self.next % len(self._write_sets)]

    def _note_corrupt(self, first: EntryId, last: EntryId) -> None:
        for position, member in enumerate(self._reads.answers):
            for entry_id in member.corrupt_within(first, last):
                if position in self._write_sets[entry_id % len(self._write_sets)]:
                    self.corrupt[self._ensemble[position], entry_id] = None

    def _take_stretch(self) -> list[tuple[EntryId, memoryview]]:
        """Take verified entries, verbatim: from the next on, all that one member holds without a
        gap.

        R4 holds for each of them as for the first: its write set has one good copy.
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
        """Read on: the next window, or from idle members that have not answered for `next`."""
        if self.next > self._window_last:
            return self.start()
        busy = self._reads.busy
        return [
            self._read(position)
            for position, member in enumerate(self._reads.answers)
            if position not in busy and member.through < self.next
        ]

    def forget_decided(self) -> None:
        """Drop the answers about decided entries, and their copies."""
        for member in self._reads.answers:
            member.forget_below(self.next)

    def stop(self) -> None:
        """Ignore all further answers: the end is known, or this attempt is over."""
        self._reads.drop()

    def _check(self) -> None:
        assert self._metadata.last_fragment.first_entry_id - 1 <= self.proven
        assert 0 <= self.next <= self._window_last + 1
        assert (self.length is None) == (self.found == 0)
        assert len(self._reads.busy) <= len(self._ensemble)
        assert not self.missing or self.missing[-1].entry_id < self.next
        assert self.end >= NO_ENTRY
