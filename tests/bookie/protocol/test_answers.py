"""Unknown is never negative: what range answers say of one entry."""

from dataclasses import dataclass
from itertools import takewhile

import pytest
from bookie.frames.build import build_run
from bookie.frames.digests import VerifiedRun
from bookie.ids import NO_ENTRY, BookieId, EntryId
from bookie.protocol.answers import (
    EntryVerdict,
    MemberAnswers,
    UndecidedError,
    judge_recovery_read,
    share_ahead,
)
from bookie.protocol.quorum import write_set_positions
from bookie.protocol.status import Status
from bookie.wire.native import ReadReply
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from recovery_lab import CODEC, LEDGER, entry

OK, NO, GONE, UNK, DOWN = (
    Status.OK,
    Status.NO_SUCH_ENTRY,
    Status.NO_SUCH_LEDGER,
    Status.UNKNOWN,
    Status.UNREACHABLE,
)
PRESENT, ABSENT, PENDING, UNDECIDABLE = EntryVerdict


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ((OK, None, None), PRESENT),
        ((NO, NO, OK), PRESENT),
        ((NO, None, None), PENDING),
        ((NO, GONE, None), ABSENT),
        ((NO, UNK, None), PENDING),
        ((NO, UNK, DOWN), UNDECIDABLE),
        ((UNK, UNK, UNK), UNDECIDABLE),
        ((None, None, None), PENDING),
    ],
)
def test_verdict_at_write_quorum_3_ack_quorum_2(
    answers: tuple[Status | None, ...], verdict: EntryVerdict
) -> None:
    assert judge_recovery_read(answers, write_quorum=3, ack_quorum=2) is verdict


def test_with_ack_quorum_1_every_member_must_deny() -> None:
    assert judge_recovery_read((NO, NO, None), write_quorum=3, ack_quorum=1) is PENDING
    assert judge_recovery_read((NO, NO, NO), write_quorum=3, ack_quorum=1) is ABSENT


@pytest.mark.parametrize("status", [s for s in Status if not s.is_known])
def test_no_other_status_counts_as_a_denial(status: Status) -> None:
    assert judge_recovery_read((status, status, NO), write_quorum=3, ack_quorum=2) is UNDECIDABLE


def reply(
    *runs: bytes,
    through: int = 9,
    absent: Status = NO,
    unknown: tuple[tuple[int, int], ...] = (),
) -> ReadReply:
    return ReadReply(NO_ENTRY, NO_ENTRY, EntryId(through), absent, unknown, runs)


def run_of(*ids: int, entries: list[bytes] | None = None) -> bytes:
    return build_run(LEDGER, EntryId(ids[0]), entries or [entry(i) for i in ids], lac=NO_ENTRY)


def member(taken: ReadReply | Status, *, first: int = 0, last: int = 9) -> MemberAnswers[bytes]:
    answers = MemberAnswers(CODEC, VerifiedRun.payloads)
    if isinstance(taken, Status):
        answers.take(taken, None, first=EntryId(first), last=EntryId(last))
    else:
        answers.take(OK, taken, first=EntryId(first), last=EntryId(last))
    return answers


def said(answers: MemberAnswers[bytes], entry_id: int) -> Status | None:
    answers._check()
    return answers.answer(EntryId(entry_id))


def test_a_range_reply_is_taken_apart_entry_by_entry() -> None:
    answers = member(reply(run_of(2, 3), through=5, unknown=((4, 4),)))
    assert [said(answers, i) for i in range(7)] == [NO, NO, OK, OK, UNK, NO, None]


def test_a_copy_beyond_what_was_answered_is_not_counted_yet() -> None:
    assert said(member(reply(run_of(2, 3), through=2)), 3) is None


def test_a_corrupt_copy_is_neither_ok_nor_a_denial() -> None:
    bad = entry(2)[:-1] + b"?"
    answers = member(reply(run_of(2, entries=[bad])))
    assert said(answers, 2) is Status.IO_ERROR and answers.corrupt_within(2, 2)


def test_an_unreadable_frame_makes_every_absence_doubtful() -> None:
    frame = bytearray(run_of(2))
    frame[-1] ^= 1
    assert said(member(reply(bytes(frame))), 5) is Status.IO_ERROR


def test_a_failed_request_speaks_for_its_whole_range() -> None:
    assert said(member(DOWN), 9) is DOWN
    assert said(member(GONE), 0) is GONE


def test_a_peer_that_answers_nothing_is_not_asked_for_ever() -> None:
    answers = member(reply(through=-1))
    assert answers.through == 9 and said(answers, 0) is Status.IO_ERROR


def test_ok_without_a_reply_is_unknown() -> None:
    assert said(member(OK), 0) is UNK


def test_absent_ok_from_a_defective_peer_is_unknown() -> None:
    assert said(member(reply(absent=OK)), 0) is UNK


def test_doubt_about_an_entry_outweighs_a_denial() -> None:
    answers = member(NO)
    answers.take(UNK, None, first=EntryId(3), last=EntryId(3))
    assert said(answers, 3) is UNK


def test_what_is_forgotten_is_no_answer_any_more() -> None:
    answers = member(reply(run_of(2, 3)))
    answers.forget_below(EntryId(3))
    assert said(answers, 3) is OK
    answers.forget_below(EntryId(10))
    assert said(answers, 3) is None


def test_a_stretch_ends_at_the_first_copy_that_is_missing_or_corrupt() -> None:
    bad = entry(4)[:-1] + b"?"
    answers = member(reply(run_of(2, 3, 4, 5, entries=[entry(2), entry(3), bad, entry(5)])))
    assert len(answers.stretch(2, 9)) == 2 and len(answers.stretch(2, 2)) == 1
    assert not answers.stretch(1, 9) and not answers.stretch(4, 9)
    assert answers.corrupt_within(2, 4) == [4] and not answers.corrupt_within(0, 3)


def test_of_an_id_that_comes_twice_the_first_copy_counts() -> None:
    bad = entry(2)[:-1] + b"?"
    right_first = member(reply(run_of(2), run_of(2, 3, entries=[bad, entry(3)])))
    assert [said(right_first, i) for i in (2, 3)] == [OK, OK]
    assert not right_first.corrupt_within(2, 2)
    wrong_first = member(reply(run_of(2, entries=[bad]), run_of(2, 3)))
    assert [said(wrong_first, i) for i in (2, 3)] == [Status.IO_ERROR, OK]


def test_of_what_is_decided_nothing_is_taken_any_more() -> None:
    answers = member(reply(through=1))
    answers.forget_below(EntryId(4))
    answers.take(OK, reply(run_of(2, 3, 4)), first=EntryId(2), last=EntryId(9))
    assert [said(answers, i) for i in (2, 3, 4)] == [NO, NO, OK] and answers.through == 9


def test_an_answer_about_decided_entries_only_moves_on() -> None:
    answers = MemberAnswers(CODEC, VerifiedRun.payloads)
    answers.forget_below(EntryId(10))
    answers.take(OK, reply(run_of(2)), first=EntryId(0), last=EntryId(9))
    assert said(answers, 2) is None and answers.through == 9


@given(
    ensemble=st.integers(1, 7),
    write=st.integers(1, 7),
    entry_id=st.integers(0, 50),
    position=st.integers(0, 6),
)
def test_a_share_ahead_is_counted_as_write_sets_say(
    ensemble: int, write: int, entry_id: int, position: int
) -> None:
    assume(write <= ensemble and position < ensemble)
    share = share_ahead(entry_id, position, ensemble_size=ensemble, write_quorum=write)
    looked_at = range(entry_id, entry_id + 20)
    stored = [position in positions(i, ensemble, write) for i in looked_at]
    assert list(takewhile(bool, stored)) == [True] * min(share, 20)


def positions(entry_id: int, ensemble: int, write: int) -> tuple[int, ...]:
    return write_set_positions(EntryId(entry_id), ensemble_size=ensemble, write_quorum=write)


def test_undecided_names_who_said_what() -> None:
    error = UndecidedError(
        LEDGER,
        EntryId(5),
        {BookieId("b0"): UNK, BookieId("b1"): DOWN, BookieId("b2"): NO},
        denials_needed=2,
    )
    assert "possible loss from 5" in str(error) and "b1: UNREACHABLE" in str(error)


def test_undecided_keeps_what_it_tells_of_and_what_would_decide_it() -> None:
    said_so = {BookieId("b0"): UNK, BookieId("b1"): NO}
    error = UndecidedError(LEDGER, EntryId(5), said_so, denials_needed=2)
    assert (error.ledger_id, error.entry_id, error.answers) == (LEDGER, 5, said_so)
    assert "(b0: UNKNOWN, b1: NO_SUCH_ENTRY)" in str(error)
    assert "a copy or 2 denials are needed, found 1; bring" in str(error)


class Dumb:
    """What one member has said, entry by entry."""

    def __init__(self) -> None:
        self.copies: dict[int, bool] = {}
        """Whether the first copy that came was right."""
        self.words: dict[int, list[Status]] = {}
        self.floor = 0
        self.through = -1

    def take(self, status: Status, told: "Shown", first: int, last: int) -> None:
        through = min(told.through, last) if status is OK else last
        if status is not OK:
            self.say(first, last, status)
        elif through < first:
            self.say(first, last, Status.IO_ERROR)
        elif through >= self.floor:
            for entry_id, is_right in told.copies:
                if max(first, self.floor) <= entry_id <= through:
                    self.copies.setdefault(entry_id, is_right)
            for low, high in told.unknown:
                self.say(low, high, UNK)
            self.say(first, through, UNK if told.absent is OK else told.absent)
        self.through = max(self.through, last if through < first else through)

    def say(self, first: int, last: int, status: Status) -> None:
        for entry_id in range(first, last + 1):
            self.words.setdefault(entry_id, []).append(status)

    def answer(self, entry_id: int) -> Status | None:
        if entry_id in self.copies:
            return OK if self.copies[entry_id] else Status.IO_ERROR
        words = self.words.get(entry_id, [])
        return next((word for word in words if not word.is_denial), words[0] if words else None)


@dataclass(frozen=True)
class Shown:
    through: int
    absent: Status
    unknown: tuple[tuple[int, int], ...]
    copies: tuple[tuple[int, bool], ...]
    """In the order in which they came, each in a run of its own."""

    def reply(self) -> ReadReply:
        frames = [
            run_of(i, entries=[entry(i) if is_right else entry(i)[:-1] + b"?"])
            for i, is_right in self.copies
        ]
        return reply(*frames, through=self.through, absent=self.absent, unknown=self.unknown)


IDS = st.integers(0, 7)
TOLD = st.builds(
    Shown,
    through=st.integers(-1, 9),
    absent=st.sampled_from([OK, NO, GONE, UNK]),
    unknown=st.lists(st.tuples(IDS, IDS).map(lambda pair: (min(pair), max(pair))), max_size=2).map(
        tuple
    ),
    copies=st.lists(st.tuples(IDS, st.booleans()), max_size=4).map(tuple),
)
TAKES = st.tuples(st.sampled_from([OK, OK, NO, DOWN]), TOLD, IDS, IDS, st.integers(0, 3))


@settings(deadline=None, max_examples=300)
@given(st.lists(TAKES, max_size=4))
def test_whatever_comes_is_kept_as_one_would_keep_it_entry_by_entry(
    takes: list[tuple[Status, Shown, int, int, int]],
) -> None:
    answers, dumb = MemberAnswers(CODEC, VerifiedRun.payloads), Dumb()
    for status, told, one, other, forgotten in takes:
        first, last = min(one, other), max(one, other)
        answers.take(
            status, told.reply() if status is OK else None, first=EntryId(first), last=EntryId(last)
        )
        dumb.take(status, told, first, last)
        assert answers.through == dumb.through
        if forgotten:
            dumb.floor = max(dumb.floor, forgotten)
            answers.forget_below(EntryId(forgotten))
        for entry_id in range(dumb.floor, 10):
            assert said(answers, entry_id) is dumb.answer(entry_id)
            is_right = dumb.copies.get(entry_id)
            assert (answers.copy(EntryId(entry_id)) is not None) is (is_right is True)
            assert bool(answers.corrupt_within(entry_id, entry_id)) is (is_right is False)


def test_what_comes_with_a_refusal_is_no_answer() -> None:
    answers = MemberAnswers(CODEC, VerifiedRun.payloads)
    answers.take(DOWN, reply(run_of(2)), first=EntryId(0), last=EntryId(9))
    assert said(answers, 2) is DOWN and answers.copy(EntryId(2)) is None


def test_a_frame_that_cannot_be_read_hides_none_of_those_behind_it() -> None:
    answers = member(reply(b"no frame", run_of(3)))
    assert said(answers, 3) is OK and said(answers, 5) is Status.IO_ERROR
