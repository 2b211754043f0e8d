"""Collects what bookies have answered about entries so far, and concludes from it.

Recovery and readers collect range answers here, member by member, and ask for a verdict on one
entry at a time. A copy counts only after its digest was verified (R8). A caller must ask for the
answer of a bookie only if the bookie is in the entry's write set.
"""

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import takewhile
from types import MappingProxyType
from typing import Final, Generic, Protocol, TypeVar

from bookie.errors import FrameError, UndecidableError
from bookie.frames.digests import VerifiedRun, verify_run
from bookie.frames.entry import Buffer, EntryCodec
from bookie.frames.frame import parse_run
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.quorum import covers
from bookie.protocol.status import Status

_is_there: Final = partial(operator.is_not, None)  # in C: runs for each entry


class EntryVerdict(Enum):
    """What the answers of a write set say about one entry."""

    PRESENT = "present"
    ABSENT = "absent"
    PENDING = "pending"
    """Not decided, and some member has still to answer."""
    UNDECIDABLE = "undecidable"
    """Every member has answered, and it is not decided: try again later, close nothing."""


def judge_recovery_read(
    answers: Sequence[Status | None], *, write_quorum: int, ack_quorum: int
) -> EntryVerdict:
    """The verdict of R4 on one entry; `answers`: one of each member of its write set, None = none
    yet.

    Generous on presence: one good copy is enough, as it may be all that is left of an acknowledged
    entry. Strict on absence: it needs so many denials that the others cannot form an ack quorum.
    """
    assert len(answers) == write_quorum
    if Status.OK in answers:
        return EntryVerdict.PRESENT
    denials = sum(answer is not None and answer.is_denial for answer in answers)
    if covers(denials, cohort=write_quorum, ack_quorum=ack_quorum):
        return EntryVerdict.ABSENT
    return EntryVerdict.PENDING if None in answers else EntryVerdict.UNDECIDABLE


class RangeReply(Protocol):
    """The shape of `wire.native.ReadReply`, which this layer does not import."""

    @property
    def lac(self) -> EntryId: ...
    @property
    def answered_through(self) -> EntryId: ...
    @property
    def absent(self) -> Status: ...
    @property
    def unknown(self) -> Sequence[tuple[int, int]]: ...
    @property
    def runs(self) -> Sequence[Buffer]: ...


Kept = TypeVar("Kept")


def share_ahead(entry_id: int, position: int, *, ensemble_size: int, write_quorum: int) -> int:
    """How many consecutive entries this ensemble position stores from `entry_id` on; 0 = not even
    that one.
    """
    if write_quorum == ensemble_size:
        return sys.maxsize
    behind = (position - entry_id) % ensemble_size
    return behind + 1 if behind < write_quorum else 0


class MemberAnswers(Generic[Kept]):
    """What one bookie has answered to range requests so far, by entry."""

    def __init__(self, codec: EntryCodec, keep: Callable[[VerifiedRun], Sequence[Kept]]) -> None:
        self._codec = codec
        """Verifies copies (R8)."""
        self._keep = keep
        """Returns what to keep of each entry of a verified run, in order."""
        self._copies: dict[int, Kept] = {}
        """Verified copies by entry id, all >= floor."""
        self._corrupt: set[int] = set()
        """Ids of copies that did not verify, all >= floor; disjoint from `_copies`."""
        self._spans: list[tuple[int, int, Status]] = []
        """(first, last, status): the bookie's answer for ids without a copy, in order of arrival.
        Spans may overlap, and those of a defective bookie may be empty."""
        self._floor = 0
        """All entries below this id are decided, and nothing is kept of them. Never falls."""
        self.through = -1
        """The bookie has answered for every id asked for up to here, -1 = for none. Never falls."""

    def take(
        self, status: Status, reply: RangeReply | None, *, first: EntryId, last: EntryId
    ) -> None:
        """Keep the answer to a request for `first`..`last`."""
        if status is not Status.OK or reply is None:
            self._speak(first, last, Status.UNKNOWN if status is Status.OK else status)
            return
        through = min(int(reply.answered_through), last)
        if through < first:  # no progress: never ask a defective peer without end
            self._speak(first, last, Status.IO_ERROR)
            return
        if through < self._floor:  # all of it is decided
            self.through = max(self.through, through)
            return
        intact = self._take_runs(reply.runs, first=max(first, self._floor), last=through)
        self._spans += [(low, high, Status.UNKNOWN) for low, high in reply.unknown]
        absent = reply.absent if reply.absent is not Status.OK else Status.UNKNOWN
        # A frame that cannot be parsed may hold any of the ids: then nothing counts as denied.
        self._speak(first, through, absent if intact else Status.IO_ERROR)

    def _speak(self, first: int, last: int, status: Status) -> None:
        self._spans.append((first, last, status))
        self.through = max(self.through, last)

    def _take_runs(self, runs: Sequence[Buffer], *, first: int, last: int) -> bool:
        intact = True
        for buffer in runs:
            try:
                run = parse_run(buffer)
            except FrameError:
                intact = False
                continue
            self._take_run(verify_run(run, self._codec, first=first, last=last))
        return intact

    def _take_run(self, run: VerifiedRun) -> None:
        """Keep the copies of one run. If an id comes twice, the first copy counts, right or
        corrupt.
        """
        fresh = dict(zip(run.ids, self._keep(run), strict=True))
        corrupt = set(run.corrupt)
        known = self._copies.keys()
        if self._corrupt or not known.isdisjoint(fresh.keys()):
            fresh = {i: c for i, c in fresh.items() if i not in known and i not in self._corrupt}
        self._corrupt |= corrupt - known
        self._copies.update(fresh)

    def answer(self, entry_id: EntryId) -> Status | None:
        """This member's answer about one entry, None when it has not answered about it yet.

        OK only for a copy whose digest is right; a corrupt copy is IO_ERROR, neither OK nor a
        denial.
        """
        if entry_id in self._copies:
            return Status.OK
        if entry_id in self._corrupt:
            return Status.IO_ERROR
        said = [status for low, high, status in self._spans if low <= entry_id <= high]
        unsure = [status for status in said if not status.is_denial]
        first = unsure or said
        return first[0] if first else None

    def corrupt_within(self, first: int, last: int) -> list[EntryId]:
        """Ids of the member's corrupt copies within `first`..`last`."""
        return sorted(EntryId(i) for i in self._corrupt if first <= i <= last)

    def copy(self, entry_id: EntryId) -> Kept | None:
        """The verified copy of one entry; None when there is none."""
        return self._copies.get(entry_id)

    def stretch(self, first: int, last: int) -> list[Kept]:
        """The verified copies from `first` on without a gap, at most to `last`."""
        found = map(self._copies.get, range(first, last + 1))
        return list(takewhile(_is_there, found))  # type: ignore[arg-type]

    def forget_below(self, entry_id: EntryId) -> None:
        """Drop the answers about entries below this one, which are decided."""
        self._floor = max(self._floor, entry_id)
        self._copies = {i: c for i, c in self._copies.items() if i >= entry_id}
        self._corrupt = {i for i in self._corrupt if i >= entry_id}
        self._spans = [span for span in self._spans if span[1] >= entry_id]

    def _check(self) -> None:
        """Assert the invariants. Only tests call it: it looks at every entry, and reads are hot."""
        assert self._floor >= 0 and self.through >= -1
        assert self._copies.keys().isdisjoint(self._corrupt)
        assert min(self._copies, default=self._floor) >= self._floor
        assert min(self._corrupt, default=self._floor) >= self._floor


NOBODY: Final[Mapping[BookieId, Status]] = MappingProxyType({})


class UndecidedError(UndecidableError):
    """There is no verdict on one entry. The message says what each bookie answered, so that a
    person sees which bookie to wait for.
    """

    def __init__(
        self,
        ledger_id: LedgerId,
        entry_id: EntryId,
        answers: Mapping[BookieId, Status],
        *,
        denials_needed: int,
        lac: EntryId = NO_ENTRY,
        others: Mapping[BookieId, Status] = NOBODY,
    ) -> None:
        said = ", ".join(f"{bookie}: {status.name}" for bookie, status in answers.items())
        denials = sum(status.is_denial for status in answers.values())
        super().__init__(
            f"ledger {ledger_id} entry {entry_id} cannot be decided now: possible loss from "
            f"{entry_id} on ({said}); a copy or {denials_needed} denials are needed, found "
            f"{denials}; bring the members back or wait for their repair, then try again"
        )
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.lac = lac
        """Entries to this id were acknowledged for certain; NO_ENTRY: of none it is known."""
        self.answers = dict(answers)
        """The last answer of each member of the write set; a member without an answer is not in
        it."""
        self.others = dict(others)
        """What members outside the write set answered, of whom a LAC could have come."""
