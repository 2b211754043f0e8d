"""Normal reads of one ledger, sans-I/O: whom to ask, what the answers mean, where the end is.

One `RangeRead` reads entries of one fragment that the ledger is known to hold: within its closed
end, or acknowledged (at most the LAC). It asks one member of an entry's write set at a time and
goes to the next copy when one is missing, corrupt or silent. Shell: `client.reader`.

The next state for each event. An answer to any read but the one that is out changes nothing in any
state (R17):

| state | event | next state |
|---|---|---|
| NEW | start | ASKING |
| ASKING | on_read | ASKING, ENDED |
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bookie.errors import (
    BookieError,
    DataLossError,
    NoSuchEntryError,
    UnauthorizedError,
)
from bookie.frames.digests import VerifiedRun
from bookie.frames.entry import EntryCodec
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.answers import MemberAnswers, RangeReply, UndecidedError, share_ahead
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.quorum import write_set_positions
from bookie.protocol.status import Status

RANGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""A range read ends early once it has this many payload bytes."""


def judge_read(
    ledger_id: LedgerId, entry_id: EntryId, answers: Mapping[BookieId, Status], *, end: EntryId
) -> BookieError:
    """The error to raise when no member of the write set returned a good copy (R5).

    `end`: the closed end, or the LAC of an open ledger. Beyond it the ledger has no such entry.
    Within it the loss is definite only if every member denies the entry; any other answer leaves it
    undecided.
    """
    if entry_id > end:
        return NoSuchEntryError(ledger_id, entry_id, last=end)
    if set(answers.values()) == {Status.UNAUTHORIZED}:  # a few alone may have learned a wrong key
        return UnauthorizedError(ledger_id)
    if all(status.is_denial for status in answers.values()):
        return DataLossError(ledger_id, entry_id)
    return UndecidedError(ledger_id, entry_id, answers, denials_needed=len(answers))


def check_bounds(ledger_id: LedgerId, *, first: EntryId, last: EntryId, end: EntryId) -> None:
    """Raise NoSuchEntryError for a range past `end`: bookies may hold such entries, but they do not
    belong to the ledger (R15).
    """
    if last > end:
        raise NoSuchEntryError(ledger_id, EntryId(max(first, end + 1)), last=end)


def ask_order(
    entry_id: int,
    ensemble: Sequence[BookieId],
    *,
    write_quorum: int,
    suspects: Collection[BookieId],
    turn: int,
) -> tuple[BookieId, ...]:
    """The members of the entry's write set in the order to ask them, suspects last.

    It is the order of the ensemble, started at position `turn` to spread the load. All entries of a
    range use the same order, so that each bookie is asked for as many of them as it has.
    """
    size = len(ensemble)
    positions = sorted(
        write_set_positions(EntryId(entry_id), ensemble_size=size, write_quorum=write_quorum),
        key=lambda position: (ensemble[position] in suspects, (position - turn) % size),
    )
    return tuple(ensemble[position] for position in positions)


def piece_end(metadata: LedgerMetadata, *, first: EntryId, last: EntryId, size: int) -> EntryId:
    """The last entry to read in one request from `first` on: within its fragment, at most `size`
    entries.
    """
    starts = (fragment.first_entry_id for fragment in metadata.fragments)
    border = next((start - 1 for start in starts if start > first), last)
    return EntryId(min(border, last, first + size - 1))


@dataclass(frozen=True, slots=True)
class AskRange:
    """Read this range from this bookie; pass the answer to `RangeRead.on_read`."""

    op: int
    bookie_id: BookieId
    first: EntryId
    last: EntryId


@dataclass(frozen=True, slots=True)
class ReadEnded:
    """The payloads in order, or the error why there are none. `corrupt`: bad copies seen during the
    read.

    It has fewer payloads than were asked for, but at least one, if the limit on their bytes was
    reached.
    """

    payloads: tuple[bytes, ...]
    error: BookieError | None = None
    corrupt: tuple[tuple[BookieId, EntryId], ...] = ()


class RangeRead:
    """A read of entries `first`..`last`, all of one fragment. At most one request is out at any
    time.

    Once it has `bytes_max` of payloads, it asks for no more and ends with those.
    """

    def __init__(
        self,
        metadata: LedgerMetadata,
        codec: EntryCodec,
        *,
        first: EntryId,
        last: EntryId,
        end: EntryId,
        suspects: Collection[BookieId] = (),
        turn: int = 0,
        bytes_max: int = RANGE_BYTES_MAX,
    ) -> None:
        assert 0 <= first <= last <= end and bytes_max > 0
        assert metadata.fragment_of(first) == metadata.fragment_of(last)
        self._metadata = metadata
        """The ledger as the caller sees it; this read never fetches it again."""
        self._ensemble = metadata.fragment_of(first).ensemble
        """The ensemble of the one fragment that holds `first`..`last`."""
        self._codec = codec
        """Verifies copies (R8)."""
        self._first = first
        self._last = last
        """0 <= first <= last <= end."""
        self._end = end
        """The closed end, or the LAC: an entry beyond it may be absent, an entry within it may
        not."""
        self._suspects = suspects
        """Bookies to ask last. Not ideal: it is the caller's own set, which other reads may
        change."""
        self._turn = turn
        """Ensemble position to begin at, modulo E; it spreads reads over the members."""
        self._bytes_left = bytes_max
        """Payload bytes that the read may still take; it ends at 0 or below."""
        self._ops = itertools.count(1)
        """Numbers for requests, rising."""
        self._asked: AskRange | None = None
        """The request that is out; None before `start` and once the read has ended."""
        self._members: dict[BookieId, MemberAnswers[bytes]] = {}
        """The answers of each bookie asked so far; the bookies are a subset of the ensemble."""
        self._next = first
        """The next entry to read, first <= next <= last + 1."""
        self._payloads: list[bytes] = []
        """Payloads of `first`..next - 1, in order."""
        self._corrupt: dict[tuple[BookieId, EntryId], None] = {}
        """Copies that did not verify, in the order they were seen; an ordered set."""

    def start(self) -> AskRange | ReadEnded:
        """The first request. Call this once."""
        step = self._advance()
        self._check()
        return step

    def on_read(
        self, op: int, status: Status, reply: RangeReply | None
    ) -> AskRange | ReadEnded | None:
        """Take an answer and return the next step; None when the answer is not to the request that
        is out.
        """
        asked = self._asked
        if asked is None or asked.op != op:
            return None
        self._asked = None
        member = self._members.get(asked.bookie_id)
        if member is None:
            member = self._members[asked.bookie_id] = MemberAnswers(
                self._codec, VerifiedRun.payloads
            )
        member.take(status, reply, first=asked.first, last=asked.last)
        self._note_corrupt(asked, member)
        step = self._advance()
        self._check()
        return step

    def _note_corrupt(self, asked: AskRange, member: MemberAnswers[bytes]) -> None:
        position = self._ensemble.index(asked.bookie_id)
        for entry_id in member.corrupt_within(asked.first, asked.last):
            if self._share(entry_id, position):
                self._corrupt[asked.bookie_id, entry_id] = None

    def _share(self, entry_id: int, position: int) -> int:
        return share_ahead(
            entry_id,
            position,
            ensemble_size=self._metadata.ensemble_size,
            write_quorum=self._metadata.write_quorum,
        )

    def _advance(self) -> AskRange | ReadEnded:
        orders = self._orders()  # suspects do not change meanwhile
        size = len(orders)
        while self._next <= self._last and self._bytes_left > 0:
            order = orders[self._next % size]
            if not self._take(order):
                return self._ask_or_fail(order)
        return self._end_with(None)

    def _orders(self) -> list[tuple[BookieId, ...]]:
        """`ask_order` by entry id modulo E; that suffices, as all entries are of one fragment."""
        size = self._metadata.ensemble_size
        return [
            ask_order(
                residue,
                self._ensemble,
                write_quorum=self._metadata.write_quorum,
                suspects=self._suspects,
                turn=self._turn,
            )
            for residue in range(size)
        ]

    def _take(self, order: tuple[BookieId, ...]) -> bool:
        """Take the payloads up to a gap from the first member with a good copy of the next entry;
        False when no member has one.
        """
        for bookie_id in order:
            member = self._members.get(bookie_id)
            if member is None:
                continue
            share = self._share(self._next, self._ensemble.index(bookie_id))
            payloads = member.stretch(self._next, min(self._last, self._next + share - 1))
            if payloads:
                self._payloads += payloads
                self._bytes_left -= sum(map(len, payloads))
                self._next = EntryId(self._next + len(payloads))
                return True
        return False

    def _ask_or_fail(self, order: tuple[BookieId, ...]) -> AskRange | ReadEnded:
        answers: dict[BookieId, Status] = {}
        for bookie_id in order:
            member = self._members.get(bookie_id)
            said = member.answer(self._next) if member is not None else None
            if said is None:
                self._asked = AskRange(next(self._ops), bookie_id, self._next, self._last)
                return self._asked
            answers[bookie_id] = said
        error = judge_read(self._metadata.ledger_id, self._next, answers, end=self._end)
        return self._end_with(error)

    def _end_with(self, error: BookieError | None) -> ReadEnded:
        payloads = () if error is not None else tuple(self._payloads)
        return ReadEnded(payloads, error, tuple(self._corrupt))

    def _check(self) -> None:
        """Assert the invariants after each event. It runs once for each answer of a bookie, not for
        each entry.
        """
        assert self._first <= self._next <= self._last + 1
        assert len(self._payloads) == self._next - self._first
        assert self._asked is None or self._next == self._asked.first <= self._asked.last
        assert self._members.keys() <= set(self._ensemble)
