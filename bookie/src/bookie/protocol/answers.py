"""What bookies have answered about entries so far, and what may be concluded from it.

Recovery and readers collect range answers here, member by member, and ask for a verdict on one
entry at a time. A copy counts only after its digest was verified (R8); an entry outside a bookie's
write set is none of its business and must not be asked of it.
"""

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import takewhile
from typing import Final, Generic, Protocol, TypeVar

from bookie.errors import FrameError, UndecidableError
from bookie.frames.digests import VerifiedRun, verify_run
from bookie.frames.entry import Buffer, EntryCodec
from bookie.frames.frame import parse_run
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.quorum import covers
from bookie.protocol.status import Status

_is_there: Final = partial(operator.is_not, None)  # in C: asked of every entry that is read


class EntryVerdict(Enum):
    """What the answers of a write set say about one entry."""

    PRESENT = "present"
    ABSENT = "absent"
    PENDING = "pending"
    """Not decided, and someone has still to answer."""
    UNDECIDABLE = "undecidable"
    """Everyone has answered, and it is not decided: try again later, close nothing."""


def judge_recovery_read(
    answers: Sequence[Status | None], *, write_quorum: int, ack_quorum: int
) -> EntryVerdict:
    """The verdict of R4 on one entry; `answers` of its write set, None = none yet.

    Generous on presence: one good copy may be all that is left of an acknowledged entry. Strict on
    absence: enough denials that no ack quorum can be formed from the others.
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
    """How many consecutive entries, from this one on, the ensemble position stores; 0 = not it."""
    if write_quorum == ensemble_size:
        return sys.maxsize
    behind = (position - entry_id) % ensemble_size
    return behind + 1 if behind < write_quorum else 0


class MemberAnswers(Generic[Kept]):
    """What one bookie has said, from one range request to the next."""

    def __init__(self, codec: EntryCodec, keep: Callable[[VerifiedRun], Sequence[Kept]]) -> None:
        self._codec = codec
        """Verifies copies (R8)."""
        self._keep = keep
        """Makes of a verified run what is kept of each of its entries, in order."""
        self._copies: dict[int, Kept] = {}
        """Verified copies by entry id, all >= floor."""
        self._corrupt: set[int] = set()
        """Ids of copies that did not verify, all >= floor; disjoint from `_copies`."""
        self._spans: list[tuple[int, int, Status]] = []
        """(first, last, status) of what was said of ids without a copy, in order of arrival; they
        may overlap, and a bad peer's may be empty."""
        self._floor = 0
        """Everything below is decided: nothing of it is kept. Never falls."""
        self.through = -1
        """It has spoken of every id asked for up to here, -1 = of none. Never falls."""

    def take(
        self, status: Status, reply: RangeReply | None, *, first: EntryId, last: EntryId
    ) -> None:
        """Keep the answer to a request for `first`..`last`."""
        if status is not Status.OK or reply is None:
            self._speak(first, last, Status.UNKNOWN if status is Status.OK else status)
            return
        through = min(int(reply.answered_through), last)
        if through < first:  # no progress: a defective peer must not be asked for ever
            self._speak(first, last, Status.IO_ERROR)
            return
        if through < self._floor:  # all of it is decided: not worth a look
            self.through = max(self.through, through)
            return
        intact = self._take_runs(reply.runs, first=max(first, self._floor), last=through)
        self._spans += [(low, high, Status.UNKNOWN) for low, high in reply.unknown]
        absent = reply.absent if reply.absent is not Status.OK else Status.UNKNOWN
        # A frame that cannot be read may hold any of the ids: nothing is denied then.
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
        """Of an id that comes twice the first copy counts, right or corrupt."""
        fresh = dict(zip(run.ids, self._keep(run), strict=True))
        corrupt = set(run.corrupt)
        known = self._copies.keys()
        if self._corrupt or not known.isdisjoint(fresh.keys()):
            fresh = {i: c for i, c in fresh.items() if i not in known and i not in self._corrupt}
        self._corrupt |= corrupt - known
        self._copies.update(fresh)

    def answer(self, entry_id: EntryId) -> Status | None:
        """This member's word on one entry, None when it has not spoken of it yet.

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
        """Ids of its corrupt copies from here to there."""
        return sorted(EntryId(i) for i in self._corrupt if first <= i <= last)

    def copy(self, entry_id: EntryId) -> Kept | None:
        """The verified copy of one entry."""
        return self._copies.get(entry_id)

    def stretch(self, first: int, last: int) -> list[Kept]:
        """The verified copies from `first` on without a gap, at most to `last`."""
        found = map(self._copies.get, range(first, last + 1))
        return list(takewhile(_is_there, found))  # type: ignore[arg-type]

    def forget_below(self, entry_id: EntryId) -> None:
        """Drop what was said of entries below this one, which are decided."""
        self._floor = max(self._floor, entry_id)
        self._copies = {i: c for i, c in self._copies.items() if i >= entry_id}
        self._corrupt = {i for i in self._corrupt if i >= entry_id}
        self._spans = [span for span in self._spans if span[1] >= entry_id]

    def _check(self) -> None:
        """For tests alone: it looks at every entry, and readers are measured."""
        assert self._floor >= 0 and self.through >= -1
        assert self._copies.keys().isdisjoint(self._corrupt)
        assert min(self._copies, default=self._floor) >= self._floor
        assert min(self._corrupt, default=self._floor) >= self._floor


class UndecidedError(UndecidableError):
    """No verdict on one entry: names who said what, so that a person sees whom to wait for."""

    def __init__(
        self,
        ledger_id: LedgerId,
        entry_id: EntryId,
        answers: Mapping[BookieId, Status],
        *,
        denials_needed: int,
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
        self.answers = dict(answers)
        """What each member of the write set said last; who is not among them said nothing."""
