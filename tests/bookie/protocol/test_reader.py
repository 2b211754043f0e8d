"""What a normal read means: the next copy, the end, a definite loss, or not to be told now."""

import pytest
from bookie.errors import (
    DataLossError,
    NoSuchEntryError,
    UnauthorizedError,
)
from bookie.frames.build import build_run
from bookie.ids import NO_ENTRY, BookieId, EntryId
from bookie.protocol import reader as module
from bookie.protocol.answers import UndecidedError
from bookie.protocol.reader import (
    RANGE_BYTES_MAX,
    AskRange,
    RangeRead,
    ReadEnded,
    ask_order,
    check_bounds,
    judge_read,
    piece_end,
)
from bookie.protocol.status import Status
from bookie.wire.native import ReadReply, ReadRequest
from hypothesis import given, settings
from hypothesis import strategies as st
from recovery_lab import CODEC, KEY, LEDGER, PAYLOAD, RecoveryLab, entry, ledger, names
from state_tables import transitions

OK, NO, UNK = Status.OK, Status.NO_SUCH_ENTRY, Status.UNKNOWN
B = names(0, 1, 2)
TABLE = transitions(module)

SIZE = len(PAYLOAD)


def judged(*statuses: Status, entry_id: int = 5, end: int = 9) -> Exception:
    answers = dict(zip(B, statuses, strict=True))
    return judge_read(LEDGER, EntryId(entry_id), answers, end=EntryId(end))


@pytest.mark.parametrize(
    ("statuses", "error"),
    [
        ((NO, NO, NO), DataLossError),
        ((NO, Status.NO_SUCH_LEDGER, NO), DataLossError),
        ((NO, NO, UNK), UndecidedError),
        ((NO, Status.UNREACHABLE, NO), UndecidedError),
        ((Status.IO_ERROR, NO, NO), UndecidedError),
        ((NO, Status.UNAUTHORIZED, NO), UndecidedError),
        ((Status.UNAUTHORIZED,) * 3, UnauthorizedError),
    ],
)
def test_within_the_end_only_denials_from_all_are_a_loss(
    statuses: tuple[Status, ...], error: type[Exception]
) -> None:
    assert type(judged(*statuses)) is error


def test_beyond_the_end_the_entry_is_simply_not_there() -> None:
    assert type(judged(NO, NO, NO, entry_id=10)) is NoSuchEntryError


def test_bounds_are_those_of_the_ledger_whatever_bookies_hold() -> None:
    check_bounds(LEDGER, first=EntryId(0), last=EntryId(9), end=EntryId(9))
    with pytest.raises(NoSuchEntryError, match="no entry 10: its last entry is 9"):
        check_bounds(LEDGER, first=EntryId(3), last=EntryId(12), end=EntryId(9))


def test_the_order_spreads_load_and_leaves_suspects_for_last() -> None:
    ensemble = names(0, 1, 2)
    assert ask_order(0, ensemble, write_quorum=3, suspects=(), turn=1) == names(1, 2, 0)
    assert ask_order(0, ensemble, write_quorum=3, suspects=names(1), turn=1) == names(2, 0, 1)


def test_a_striped_entry_is_asked_of_its_own_write_set() -> None:
    ensemble = names(0, 1, 2, 3)
    assert ask_order(3, ensemble, write_quorum=2, suspects=(), turn=0) == names(0, 3)


def test_pieces_end_at_fragment_borders_and_at_the_size() -> None:
    metadata = ledger(3, 3, 2, (0, (0, 1, 2)), (4, (0, 1, 3)))
    ends = [piece_end(metadata, first=EntryId(i), last=EntryId(9), size=4) for i in (1, 4, 8)]
    assert ends == [3, 7, 9]


def range_read(
    first: int,
    last: int,
    *,
    quorums: tuple[int, int, int] = (3, 3, 2),
    bytes_max: int = RANGE_BYTES_MAX,
) -> RangeRead:
    low, high = EntryId(first), EntryId(last)
    return RangeRead(ledger(*quorums), CODEC, first=low, last=high, end=high, bytes_max=bytes_max)


def reply(*ids: int, through: int = 99) -> ReadReply:
    runs = tuple(build_run(LEDGER, EntryId(i), [entry(i)], lac=NO_ENTRY) for i in ids)
    return ReadReply(NO_ENTRY, NO_ENTRY, EntryId(through), NO, (), runs)


def asked(step: AskRange | ReadEnded | None) -> AskRange:
    assert isinstance(step, AskRange)
    return step


def ended(step: AskRange | ReadEnded | None) -> ReadEnded:
    assert isinstance(step, ReadEnded)
    return step


def test_one_bookie_that_has_the_whole_range_is_enough() -> None:
    read = range_read(0, 2)
    ask = asked(read.start())
    assert len(ended(read.on_read(ask.op, OK, reply(0, 1, 2))).payloads) == 3


def test_a_partial_answer_is_asked_on_where_it_ended() -> None:
    read = range_read(0, 3)
    ask = asked(read.start())
    more = asked(read.on_read(ask.op, OK, reply(0, 1, through=1)))
    assert (more.bookie_id, more.first, more.last) == (ask.bookie_id, 2, 3)


def test_a_missing_entry_is_asked_of_the_next_member_only_from_there_on() -> None:
    read = range_read(0, 2)
    ask = asked(read.start())
    more = asked(read.on_read(ask.op, OK, reply(0, 2)))
    assert (more.bookie_id, more.first) == (B[1], 1)
    assert ended(read.on_read(more.op, OK, reply(1))).error is None


def test_a_corrupt_copy_falls_over_to_the_next_one_and_is_reported() -> None:
    read = range_read(0, 0)
    ask = asked(read.start())
    bad = build_run(LEDGER, EntryId(0), [entry(0)[:-1] + b"?"], lac=NO_ENTRY)
    broken = ReadReply(NO_ENTRY, NO_ENTRY, EntryId(0), NO, (), (bad,))
    more = asked(read.on_read(ask.op, OK, broken))
    assert ended(read.on_read(more.op, OK, reply(0))).corrupt == ((B[0], 0),)


def test_all_denials_end_in_a_loss() -> None:
    read = range_read(0, 0)
    step = read.start()
    for _ in range(3):
        step = read.on_read(asked(step).op, OK, reply()) or step
    assert isinstance(ended(step).error, DataLossError)


def test_one_silent_member_leaves_it_open() -> None:
    read = range_read(0, 0)
    step = read.on_read(asked(read.start()).op, Status.UNREACHABLE, None)
    for _ in range(2):
        step = read.on_read(asked(step).op, OK, reply())
    assert isinstance(ended(step).error, UndecidedError)


def test_striped_members_are_asked_for_their_own_entries_only() -> None:
    read = range_read(0, 3, quorums=(4, 2, 2))
    step: AskRange | ReadEnded | None = read.start()
    order: list[tuple[BookieId, int]] = []
    shares = {names(0)[0]: (0, 3), names(1)[0]: (0, 1), names(2)[0]: (1, 2), names(3)[0]: (2, 3)}
    while isinstance(step, AskRange):
        order.append((step.bookie_id, step.first))
        step = read.on_read(step.op, OK, reply(*shares[step.bookie_id]))
    assert len(ended(step).payloads) == 4 and [first for _b, first in order] == [0, 1, 2]


def test_a_read_ends_early_at_its_bound_in_bytes_and_never_with_nothing() -> None:
    read = range_read(0, 9, bytes_max=2 * len(PAYLOAD))
    ask = asked(read.start())
    more = asked(read.on_read(ask.op, OK, reply(0, through=0)))
    step = ended(read.on_read(more.op, OK, reply(1, 2, through=2)))
    assert (len(step.payloads), step.error) == (3, None)


@pytest.mark.parametrize(("bytes_max", "payloads"), [(1, 1), (SIZE, 1), (SIZE + 1, 2)])
def test_a_read_goes_on_while_one_byte_of_its_bound_is_left(bytes_max: int, payloads: int) -> None:
    read = range_read(0, 9, bytes_max=bytes_max)
    step: AskRange | ReadEnded | None = read.start()
    for entry_id in range(payloads):
        step = read.on_read(asked(step).op, OK, reply(entry_id, through=entry_id))
    assert len(ended(step).payloads) == payloads


def test_copies_come_in_order_from_whoever_has_them() -> None:
    read = range_read(0, 5)
    step = read.on_read(asked(read.start()).op, OK, reply(0, 1, 3, 5))
    step = read.on_read(asked(step).op, OK, reply(2, 3, 4))
    assert len(ended(step).payloads) == 6


def test_a_copy_on_a_bookie_outside_the_write_set_is_not_its_business() -> None:
    read = range_read(0, 3, quorums=(4, 2, 2))
    step = asked(read.on_read(asked(read.start()).op, OK, reply(0, 1, 2, 3)))
    assert (step.bookie_id, step.first) == (names(1)[0], 1)


def test_an_answer_to_another_question_is_ignored() -> None:
    read = range_read(0, 0)
    ask = asked(read.start())
    assert read.on_read(ask.op + 1, OK, reply(0)) is None


# Any mixture of holders against a dumb oracle
HELD, ABSENT, LIMBO, DOWN = range(4)


@settings(max_examples=150, deadline=None)
@given(
    quorums=st.sampled_from([(3, 3, 2), (4, 2, 2), (5, 3, 2), (3, 2, 1)]),
    data=st.data(),
    turn=st.integers(0, 5),
)
def test_any_mixture_of_holders_reads_as_the_oracle_says(
    quorums: tuple[int, int, int], data: st.DataObject, turn: int
) -> None:
    lab = RecoveryLab(ledger(*quorums))
    moods = data.draw(st.lists(st.sampled_from([HELD, HELD, LIMBO, DOWN]), min_size=quorums[0]))
    holders = data.draw(
        st.lists(st.sets(st.integers(0, quorums[0] - 1), min_size=1), min_size=1, max_size=6)
    )
    for entry_id, on in enumerate(holders):
        lab.put(entry_id, *on)
    for position in range(quorums[0]):
        lab[position].down = moods[position] == DOWN
        if moods[position] == LIMBO:
            lab[position].mark(LEDGER, limbo=True)
    last = EntryId(len(holders) - 1)
    core = RangeRead(lab.metadata, CODEC, first=EntryId(0), last=last, end=last, turn=turn)
    outcome = drive(lab, core)
    expected = next(
        (e for i, on in enumerate(holders) if (e := expected_error(i, on, quorums, moods))), None
    )
    assert type(outcome.error) is (expected or type(None))
    assert expected is not None or len(outcome.payloads) == len(holders)


def drive(lab: RecoveryLab, core: RangeRead) -> ReadEnded:
    step: AskRange | ReadEnded | None = core.start()
    assert ("NEW", "start", state_after(step)) in TABLE
    while isinstance(step, AskRange):
        assert core.on_read(step.op + 1, Status.OK, None) is None  # nobody waits for it
        bookie = lab.bookies[step.bookie_id]
        request = ReadRequest(LEDGER, step.first, step.last, 100, KEY)
        down = (Status.UNREACHABLE, None)
        step = core.on_read(step.op, *(down if bookie.down else bookie.read(request, fence=False)))
        assert ("ASKING", "on_read", state_after(step)) in TABLE
    assert core.on_read(1, Status.OK, None) is None
    return ended(step)


def state_after(step: AskRange | ReadEnded | None) -> str:
    assert step is not None
    return "ASKING" if isinstance(step, AskRange) else "ENDED"


def test_every_transition_of_the_table_happens() -> None:
    states = ["NEW"]
    read = range_read(0, 1)
    states.append(state_after(step := read.start()))
    states.append(state_after(step := read.on_read(asked(step).op, OK, reply(0, through=0))))
    states.append(state_after(read.on_read(asked(step).op, OK, reply(1))))
    events = ("start", "on_read", "on_read")
    assert set(zip(states[:-1], events, states[1:], strict=True)) == TABLE


def expected_error(
    entry_id: int, on: set[int], quorums: tuple[int, int, int], moods: list[int]
) -> type[Exception] | None:
    positions = [(entry_id + step) % quorums[0] for step in range(quorums[1])]
    if any(p in on and moods[p] != DOWN for p in positions):
        return None
    return DataLossError if all(moods[p] == HELD for p in positions) else UndecidedError
