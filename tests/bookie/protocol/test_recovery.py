"""One recovery attempt: fence, judge, write back, close; in every order of answers."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from bookie.errors import (
    BadRequestError,
    MetadataConflictError,
    NotEnoughBookiesError,
    UnauthorizedError,
    UndecidableError,
)
from bookie.frames.frame import parse_run
from bookie.ids import NO_ENTRY, EntryId
from bookie.protocol import recovery as recovery_module
from bookie.protocol.answers import UndecidedError
from bookie.protocol.end_search import READ_WINDOW_ENTRIES
from bookie.protocol.ledger import Fragment, LedgerState
from bookie.protocol.quorum import write_set_positions
from bookie.protocol.recovery import (
    ACCEPTED_LOSS_KEY,
    METADATA_CONFLICTS_MAX,
    Recovery,
    RecoveryPhase,
)
from bookie.protocol.recovery_effects import (
    Abort,
    AcceptedLoss,
    Effect,
    FenceLac,
    ReadEntries,
    Recovered,
    WriteMetadata,
)
from bookie.protocol.status import Status
from bookie.protocol.writeback import AddRun, Replace
from bookie.testing.fake_bookie import FakeLedger
from hypothesis import given, settings
from hypothesis import strategies as st
from recovery_lab import LEDGER, PAYLOAD, Pick, RecoveryLab, entry, first, ledger, names


def done(lab: RecoveryLab, recovery: Recovery | None = None, pick: Pick = first) -> Recovered:
    outcome = lab.run(recovery or lab.recovery(), pick)
    assert isinstance(outcome, Recovered), outcome
    return outcome


def aborted(lab: RecoveryLab, recovery: Recovery | None = None) -> Abort:
    outcome = lab.run(recovery or lab.recovery())
    assert isinstance(outcome, Abort), outcome
    return outcome


def lab_of(*entry_ids: int) -> RecoveryLab:
    """Three bookies, write quorum 3, ack quorum 2, these entries everywhere."""
    lab = RecoveryLab(ledger(3, 3, 2))
    for entry_id in entry_ids:
        lab.put(entry_id, 0, 1, 2)
    return lab


def test_an_untouched_ledger_closes_empty() -> None:
    lab = lab_of()
    assert done(lab).metadata.last_entry_id == NO_ENTRY
    assert lab.metadata.is_closed and lab.metadata.length == 0


def test_the_first_effect_is_the_compare_and_set_and_nothing_else() -> None:
    effects = lab_of(0).recovery().start()
    assert [type(effect) for effect in effects] == [WriteMetadata]


def test_every_bookie_is_fenced_and_every_read_fences() -> None:
    lab = lab_of(0, 1)
    done(lab)
    asked = [effect for effect in lab.sent if isinstance(effect, FenceLac)]
    reads = [effect for effect in lab.sent if isinstance(effect, ReadEntries)]
    assert len(asked) == 3 and all(read.fence for read in reads)


def test_the_end_and_the_length_are_those_of_the_last_entry_found() -> None:
    lab = lab_of(0, 1, 2)
    result = done(lab)
    assert (result.metadata.last_entry_id, result.metadata.length) == (2, 3 * len(PAYLOAD))


def test_length_is_read_when_nothing_had_to_be_written_back() -> None:
    lab = RecoveryLab(ledger(3, 3, 2, (0, (0, 1, 2)), (2, (0, 1, 3))))
    for entry_id in (0, 1):
        lab.put(entry_id, 0, 1, 2)
    assert done(lab).metadata.length == 2 * len(PAYLOAD)
    assert not [effect for effect in lab.sent if isinstance(effect, AddRun)]


@pytest.mark.parametrize(
    ("quorums", "former", "last", "holders"),
    [
        ((3, 3, 2), (0, 1, 2), (3, 4, 5), (0, 1, 2)),
        ((2, 2, 2), (0, 1), (2, 1), (0,)),
        ((4, 2, 2), (0, 1, 2, 3), (0, 4, 5, 3), (1, 2)),
    ],
)
def test_the_length_is_asked_of_who_has_the_last_entry(
    quorums: tuple[int, int, int],
    former: tuple[int, ...],
    last: tuple[int, ...],
    holders: tuple[int, ...],
) -> None:
    """A writer has changed its ensemble and written nothing more: the last fragment is empty."""
    lab = RecoveryLab(ledger(*quorums, (0, former), (2, last)))
    lab.put(1, *holders)
    assert done(lab).metadata.length == 2 * len(PAYLOAD)


def test_the_length_of_one_member_is_enough() -> None:
    """The others may be down: each would cost the time-out of a read."""
    lab = RecoveryLab(ledger(3, 3, 2, (0, (0, 1, 2)), (2, (0, 1, 3))))
    for entry_id in (0, 1):
        lab.put(entry_id, 0, 1, 2)

    def metadata_first(waiting: Sequence[Effect]) -> int:
        return max(range(len(waiting)), key=lambda at: isinstance(waiting[at], WriteMetadata))

    assert isinstance(lab.run(lab.recovery(), metadata_first), Recovered)
    assert len([one for one in lab.sent if isinstance(one, ReadEntries) and one.last == 1]) == 1


def test_recovered_entries_go_back_verbatim_as_one_run_with_the_frozen_lac() -> None:
    lab = RecoveryLab(ledger(3, 3, 2))
    for entry_id in range(4):
        lab.put(entry_id, 1, lac=-1)
    done(lab)
    runs = [parse_run(effect.frame) for effect in lab.sent if isinstance(effect, AddRun)]
    assert {(run.first_entry_id, run.count, run.lac, run.is_recovery) for run in runs} == {
        (0, 4, NO_ENTRY, True)
    }
    assert lab[0].ledgers[LEDGER].entries[EntryId(3)] == entry(3, lac=-1)


def test_striped_entries_go_back_to_their_write_sets_only() -> None:
    lab = RecoveryLab(ledger(4, 2, 2))
    for entry_id in range(8):
        lab.put(entry_id, entry_id % 4, (entry_id + 1) % 4, lac=-1)
    assert done(lab).metadata.last_entry_id == 7
    assert lab[0].held(LEDGER) == [0, 3, 4, 7]


def test_an_already_closed_ledger_is_returned_untouched() -> None:
    lab = RecoveryLab(ledger(3, 3, 2).closed(EntryId(4), length=9))
    result = done(lab)
    assert result.adopted and result.metadata.last_entry_id == 4 and not lab.sent


def test_a_ledger_in_recovery_is_fenced_again_without_another_write() -> None:
    lab = RecoveryLab(ledger(3, 3, 2).in_recovery())
    lab.put(0, 0, 1)
    assert done(lab).metadata.last_entry_id == 0
    assert sum(isinstance(effect, WriteMetadata) for effect in lab.sent) == 1


def test_nothing_below_the_last_fragment_is_read_or_moved() -> None:
    lab = RecoveryLab(ledger(2, 2, 2, (0, (1, 2)), (1000, (2, 3)), (2000, (4, 5))))
    assert done(lab).metadata.last_entry_id == 1999
    assert all(e.first >= 1999 for e in lab.sent if isinstance(e, ReadEntries))
    assert lab.metadata.fragments[:2] == ledger(2, 2, 2, (0, (1, 2)), (1000, (2, 3))).fragments


def test_one_member_down_does_not_stop_a_recovery() -> None:
    lab = lab_of(0, 1)
    lab[2].down = True
    assert done(lab).metadata.last_entry_id == 1
    assert lab.metadata.last_fragment.ensemble == names(0, 1, 2)


def test_a_failed_member_is_replaced_from_the_first_entry_that_is_not_safe() -> None:
    lab = RecoveryLab(ledger(3, 3, 2), spares=[3])
    for entry_id in range(3):
        lab.put(entry_id, 0, 1, lac=-1)
    lab[2].refuse_adds = Status.READ_ONLY
    pick_adds_of_bookie_2 = next_of(AddRun, bookie=2)
    assert done(lab, pick=pick_adds_of_bookie_2).metadata.last_fragment == Fragment(
        EntryId(0), names(0, 1, 3)
    )
    assert lab[3].held(LEDGER) == [0, 1, 2]


def next_of(kind: type[Effect], *, bookie: int) -> Pick:
    """Prefer effects of this kind to this bookie."""

    def pick(waiting: object) -> int:
        assert isinstance(waiting, list)
        wanted = names(bookie)[0]
        for index, effect in enumerate(waiting):
            if isinstance(effect, Replace) or (
                isinstance(effect, kind) and getattr(effect, "bookie_id", None) == wanted
            ):
                return index
        return 0

    return pick


def test_the_ensemble_changed_in_recovery_is_written_by_the_closing_write_only() -> None:
    lab = RecoveryLab(ledger(3, 3, 2), spares=[3])
    lab.put(0, 0, 1)
    lab[2].refuse_adds = Status.READ_ONLY
    done(lab, pick=next_of(AddRun, bookie=2))
    first_write, last_write = [e for e in lab.sent if isinstance(e, WriteMetadata)]
    assert first_write.metadata.fragments == ledger(3, 3, 2).fragments
    assert last_write.metadata.state is LedgerState.CLOSED


def test_too_few_write_back_acks_abort_and_name_who_failed() -> None:
    lab = lab_of(0)
    lab[0].refuse_adds = lab[1].refuse_adds = Status.IO_ERROR
    error = aborted(lab).error
    assert isinstance(error, NotEnoughBookiesError) and "bookie-1: IO_ERROR" in str(error)
    assert not lab.metadata.is_closed


def test_reads_never_count_as_acks() -> None:
    lab = lab_of(0)  # every bookie holds the entry already
    for number in range(3):
        lab[number].refuse_adds = Status.READ_ONLY
    assert isinstance(aborted(lab).error, NotEnoughBookiesError)


def test_no_close_before_the_write_backs_are_acked() -> None:
    lab = lab_of(0)
    recovery = lab.recovery()
    waiting = recovery.start()
    adds: list[Effect] = []
    while waiting:
        effect = waiting.pop(0)
        if isinstance(effect, AddRun):
            adds.append(effect)
        else:
            waiting += lab.answer(recovery, effect)
    assert len(adds) == 3 and not lab.metadata.is_closed


def test_too_few_fence_answers_abort() -> None:
    lab = lab_of(0)
    lab[0].down = lab[1].down = True
    error = aborted(lab).error
    assert isinstance(error, UndecidableError) and "bookie-0: UNREACHABLE" in str(error)


def test_one_fenced_bookie_of_three_does_not_begin_the_reading() -> None:
    recovery = Recovery(ledger(3, 3, 2).in_recovery(), 0)
    fences = [effect for effect in recovery.start() if isinstance(effect, FenceLac)]
    assert recovery.on_lac(fences[0].op, Status.OK, NO_ENTRY) == []
    assert any(
        isinstance(e, ReadEntries) for e in recovery.on_lac(fences[1].op, Status.OK, NO_ENTRY)
    )
    # Only here (R6): fencing reads make up for a threshold too low, end to end nothing shows.


def test_b3_a_master_key_that_all_refuse_aborts() -> None:
    lab = lab_of(0)
    for number in range(3):
        lab[number].ledgers[LEDGER].master_key = b"another"
    assert isinstance(aborted(lab).error, UnauthorizedError)


def test_b3_one_member_that_learned_a_wrong_key_does_not_block_a_recovery() -> None:
    lab = RecoveryLab(ledger(3, 3, 2), spares=(3,))
    lab.put(0, 0, 2)
    lab[1].ledgers[LEDGER] = FakeLedger(master_key=b"another")
    assert done(lab).metadata.last_entry_id == 0
    assert lab[0].held(LEDGER) == [0] and lab[1].held(LEDGER) == []


def test_b3_a_refused_key_fences_nobody_and_denies_nothing() -> None:
    lab = lab_of(0)
    lab[0].down = True
    lab[1].ledgers[LEDGER].master_key = b"another"
    error = aborted(lab).error
    assert isinstance(error, UndecidableError) and "bookie-1: UNAUTHORIZED" in str(error)


def test_undecidable_names_the_entry_and_the_members() -> None:
    lab = RecoveryLab(ledger(3, 3, 2))
    for number in (0, 1):
        lab[number].mark(LEDGER, limbo=True)
    error = aborted(lab).error
    assert isinstance(error, UndecidedError)
    assert error.entry_id == 0 and error.answers[names(0)[0]] is Status.UNKNOWN


def test_undecidable_names_what_each_member_outside_of_the_write_set_said() -> None:
    lab = RecoveryLab(ledger(5, 2, 2))
    lab.put(0, 2, lac=-1)  # a copy that entry 0's write set, bookies 0 and 1, does not have
    for number in (0, 1):
        lab[number].mark(LEDGER, limbo=True)
    lab[4].down = True
    error = aborted(lab).error
    assert isinstance(error, UndecidedError)
    said = (Status.OK, Status.NO_SUCH_ENTRY, Status.UNREACHABLE)
    assert error.others == dict(zip(names(2, 3, 4), said, strict=True))


def test_an_entry_below_a_proven_lac_is_passed_over_and_reported() -> None:
    lab = RecoveryLab(ledger(5, 3, 2))
    for entry_id in (0, 1, 3):
        lab.put(entry_id, *write_set_positions(EntryId(entry_id), ensemble_size=5, write_quorum=3))
    lab.put(3, 3, lac=2)
    for number in range(5):
        lab[number].mark(LEDGER, limbo=True)
    outcome = aborted(lab)
    assert [missing.entry_id for missing in outcome.missing] == [2]
    assert isinstance(outcome.error, UndecidedError) and outcome.error.entry_id == 4


def accepting(lab: RecoveryLab, entry_id: int) -> Recovery:
    loss = AcceptedLoss(EntryId(entry_id), b"who and why")
    return Recovery(lab.metadata, lab.version, accepted_loss=loss)


def test_an_accepted_loss_closes_with_its_record_in_the_same_write() -> None:
    lab = lab_of(0)
    lab[0].mark(LEDGER, limbo=True)
    lab[1].mark(LEDGER, limbo=True)
    result = done(lab, accepting(lab, 1))
    assert result.metadata.last_entry_id == 0
    assert lab.metadata.custom[ACCEPTED_LOSS_KEY] == b"who and why"


def test_an_accepted_loss_leaves_what_the_application_keeps_with_its_ledger() -> None:
    lab = lab_of(0)
    lab[0].mark(LEDGER, limbo=True)
    lab[1].mark(LEDGER, limbo=True)
    lab.metadata = replace(lab.metadata, custom={"owner": b"ann"})
    done(lab, accepting(lab, 1))
    assert lab.metadata.custom == {"owner": b"ann", ACCEPTED_LOSS_KEY: b"who and why"}


@pytest.mark.parametrize("corrupt", [(2,), (1, 2), (0, 1, 2)])
def test_an_accepted_loss_holds_where_the_only_copies_are_wrong(corrupt: tuple[int, ...]) -> None:
    lab = lab_of(0)
    lab.put(1, *corrupt)
    for number in range(3):
        if number in corrupt:
            lab[number].corrupt(LEDGER, EntryId(1))
        else:
            lab[number].mark(LEDGER, limbo=True)
    assert done(lab, accepting(lab, 1)).metadata.last_entry_id == 0
    assert ACCEPTED_LOSS_KEY in lab.metadata.custom


def test_an_accepted_loss_is_refused_while_a_member_is_merely_away() -> None:
    lab = lab_of(0)
    lab[0].mark(LEDGER, limbo=True)
    lab[1].down = True
    assert "merely away (bookie-1" in str(aborted(lab, accepting(lab, 1)).error)


def test_an_accepted_loss_does_not_hold_for_another_entry() -> None:
    lab = lab_of(0, 1)
    lab[0].mark(LEDGER, limbo=True)
    lab[1].mark(LEDGER, limbo=True)
    error = aborted(lab, accepting(lab, 1)).error  # 1 has a copy after all
    assert isinstance(error, UndecidedError) and error.entry_id == 2


def test_a_loss_that_did_not_happen_leaves_no_record() -> None:
    lab = lab_of(0)
    done(lab, accepting(lab, 1))
    assert ACCEPTED_LOSS_KEY not in lab.metadata.custom


def test_no_loss_can_be_accepted_of_a_closed_ledger() -> None:
    lab = RecoveryLab(ledger(3, 3, 2).closed(EntryId(4), length=9))
    assert isinstance(aborted(lab, accepting(lab, 2)).error, BadRequestError)


# Metadata conflicts
def start_of(lab: RecoveryLab) -> tuple[Recovery, list[Effect]]:
    recovery = lab.recovery()
    return recovery, recovery.start()


def test_a_lost_first_write_is_repeated_on_what_the_writer_wrote() -> None:
    lab = lab_of(0)
    recovery, _effects = start_of(lab)
    changed = ledger(3, 3, 2, (0, (0, 1, 3)))
    effects = recovery.on_metadata_conflict(changed, 5)
    assert effects == [WriteMetadata(changed.in_recovery(), 5)]


def test_a_ledger_closed_meanwhile_is_adopted() -> None:
    recovery, _effects = start_of(lab_of(0))
    [outcome] = recovery.on_metadata_conflict(ledger(3, 3, 2).closed(EntryId(9), length=1), 5)
    assert isinstance(outcome, Recovered) and outcome.adopted and outcome.version == 5


def closing(lab: RecoveryLab) -> tuple[Recovery, WriteMetadata]:
    """A recovery whose closing write is on its way."""
    recovery, waiting = start_of(lab)
    while True:
        effect = waiting.pop(0)
        if isinstance(effect, WriteMetadata) and effect.metadata.is_closed:
            return recovery, effect
        waiting += lab.answer(recovery, effect)


def test_a_lost_closing_write_adopts_the_other_end() -> None:
    lab = lab_of(0)
    recovery, _write = closing(lab)
    [outcome] = recovery.on_metadata_conflict(ledger(3, 3, 2).closed(NO_ENTRY, length=0), 9)
    assert isinstance(outcome, Recovered) and outcome.adopted
    assert outcome.metadata.last_entry_id == NO_ENTRY


def test_a_lost_closing_write_is_repeated_while_the_fragments_are_the_same() -> None:
    lab = lab_of(0)
    recovery, write = closing(lab)
    assert recovery.on_metadata_conflict(lab.metadata, 9) == [replace(write, version=9)]


def test_a_lost_closing_write_aborts_when_the_fragments_changed() -> None:
    lab = lab_of(0)
    recovery, _write = closing(lab)
    changed = ledger(3, 3, 2, (0, (0, 1, 3))).in_recovery()
    [outcome] = recovery.on_metadata_conflict(changed, 9)
    assert isinstance(outcome, Abort) and isinstance(outcome.error, MetadataConflictError)


def test_an_attempt_that_never_began_has_seen_no_copy() -> None:
    ended = Abort(MetadataConflictError("somebody else was first"))
    assert (ended.corrupt, ended.missing) == ((), ())


def test_a_duel_over_the_metadata_ends() -> None:
    recovery, _write = closing(lab_of(0))
    same = ledger(3, 3, 2).in_recovery()
    rounds = [recovery.on_metadata_conflict(same, v) for v in range(METADATA_CONFLICTS_MAX + 1)]
    assert isinstance(rounds[-1][0], Abort)


# Late and foreign answers (R17)
def test_late_and_foreign_answers_change_nothing() -> None:
    lab = lab_of(0)
    recovery, _write = closing(lab)
    for op in range(40):
        assert recovery.on_lac(op, Status.OK, EntryId(99)) == []
        assert recovery.on_read(op, Status.NO_SUCH_LEDGER, None) == []
        assert recovery.on_added(op, Status.IO_ERROR) == []
    assert recovery.on_replacement(0, names(3)[0]) == []
    assert recovery.on_metadata_conflict(lab.metadata, 9) != []


def test_an_ended_recovery_is_deaf() -> None:
    lab = lab_of(0)
    recovery = lab.recovery()
    done(lab, recovery)
    assert recovery.on_metadata_written(lab.metadata, 3) == []
    assert recovery.on_metadata_conflict(lab.metadata, 3) == []


def test_small_windows_recover_the_same() -> None:
    lab = RecoveryLab(ledger(3, 3, 2))
    for entry_id in range(20):
        lab.put(entry_id, entry_id % 3, (entry_id + 1) % 3, lac=-1)
    assert done(lab, lab.recovery(window=3)).metadata.last_entry_id == 19
    assert all(lab[number].held(LEDGER) == list(range(20)) for number in range(3))


@pytest.mark.parametrize("entries", [1, 2, 3])
def test_a_member_whose_reply_had_no_more_room_is_asked_on(entries: int) -> None:
    lab = RecoveryLab(ledger(3, 3, 2))
    lab.reply_bytes = entries * len(entry(0))
    for entry_id in range(10):
        lab.put(entry_id, 0, 1, lac=-1)
    assert done(lab).metadata.last_entry_id == 9
    reads = [sent for sent in lab.sent if isinstance(sent, ReadEntries)]
    firsts = [read.first for read in reads if read.bookie_id == names(0)[0]]
    assert firsts[: 9 // entries + 1] == [*range(0, 10, entries)]


# Every order of answers, every mixture of holders, against what is possible at all
ABSENT, HELD, LIMBO, DOWN = range(4)
CELL = st.sampled_from([ABSENT, HELD, HELD])


@st.composite
def holdings(draw: st.DrawFn) -> tuple[tuple[int, int, int], list[list[bool]], list[int]]:
    quorums = draw(st.sampled_from([(3, 3, 2), (3, 3, 1), (3, 2, 2), (4, 2, 2), (5, 3, 2)]))
    ensemble = quorums[0]
    count = draw(st.integers(0, 6))
    cells = [[draw(st.booleans()) for _ in range(ensemble)] for _ in range(count)]
    moods = [draw(st.sampled_from([HELD, HELD, LIMBO, DOWN])) for _ in range(ensemble)]
    return quorums, cells, moods


def possible_ends(
    quorums: tuple[int, int, int], cells: list[list[bool]], moods: list[int]
) -> tuple[set[int], bool]:
    """The ends R4 allows, and whether an abort is allowed: a dumb oracle, entry by entry."""
    ensemble, write, ack = quorums
    ends: set[int] = set()
    for entry_id in range(len(cells) + 1):
        held = cells[entry_id] if entry_id < len(cells) else [False] * ensemble
        positions = [(entry_id + step) % ensemble for step in range(write)]
        copies = sum(held[p] and moods[p] != DOWN for p in positions)
        denials = sum(not held[p] and moods[p] == HELD for p in positions)
        if denials >= write - ack + 1:
            ends.add(entry_id - 1)
        if not copies:
            return ends, denials < write - ack + 1
    raise AssertionError("the entry after the last is held by nobody")


@settings(max_examples=150, deadline=None)
@given(
    case=holdings(),
    seed=st.randoms(use_true_random=False),
    window=st.sampled_from([1, 2, READ_WINDOW_ENTRIES]),
    reply_bytes=st.sampled_from([1, 2 * len(entry(0)), 1 << 20]),
)
def test_every_order_of_answers_ends_where_the_oracle_allows(
    case: tuple[tuple[int, int, int], list[list[bool]], list[int]],
    seed: random.Random,
    window: int,
    reply_bytes: int,
) -> None:
    quorums, cells, moods = case
    lab = RecoveryLab(ledger(*quorums))
    lab.reply_bytes = reply_bytes
    for entry_id, held in enumerate(cells):
        lab.put(entry_id, *[p for p, has in enumerate(held) if has], lac=-1)
    for position, mood in enumerate(moods):
        lab[position].down = mood == DOWN
        if mood == LIMBO:
            lab[position].mark(LEDGER, limbo=True)
    outcome = lab.run(lab.recovery(window=window), lambda waiting: seed.randrange(len(waiting)))
    ends, may_abort = possible_ends(quorums, cells, moods)
    if isinstance(outcome, Recovered):
        assert outcome.metadata.last_entry_id in ends
        check_copies(lab, quorums, cells)
    else:
        assert isinstance(outcome, Abort)
        too_few_alive = moods.count(DOWN) > 0
        assert may_abort or too_few_alive


def check_copies(lab: RecoveryLab, quorums: tuple[int, int, int], cells: list[list[bool]]) -> None:
    """Every entry up to the end is on an ack quorum of its write set."""
    ensemble, write, ack = quorums
    for entry_id in range(lab.metadata.last_entry_id + 1):
        positions = [(entry_id + step) % ensemble for step in range(write)]
        assert sum(entry_id in lab[p].held(LEDGER) for p in positions) >= ack


def test_a_run_that_does_not_verify_is_recovered_from_another_copy() -> None:
    lab = lab_of(0)
    lab[0].corrupt(LEDGER, EntryId(0))
    result = done(lab)
    assert result.corrupt == ((names(0)[0], EntryId(0)),)
    assert lab.metadata.last_entry_id == 0


def test_a_corrupt_copy_amid_anothers_good_ones_is_noticed_before_they_go_back() -> None:
    lab = RecoveryLab(ledger(3, 3, 2))
    for entry_id in range(3):
        lab.put(entry_id, 0, 1, 2, lac=-1)
    lab[0].lose(LEDGER, [EntryId(0)])
    lab[0].corrupt(LEDGER, EntryId(2))
    assert done(lab).corrupt == ((names(0)[0], EntryId(2)),)
    assert names(0)[0] not in {sent.bookie_id for sent in lab.sent if isinstance(sent, AddRun)}


def test_a_corrupt_copy_outside_its_write_set_says_nothing() -> None:
    lab = RecoveryLab(ledger(4, 2, 2))
    lab.put(0, 0, 1, 2, lac=-1)
    lab[2].corrupt(LEDGER, EntryId(0))
    outcome = lab.run(lab.recovery(), lambda waiting: len(waiting) - 1)
    assert isinstance(outcome, Recovered) and not outcome.corrupt


@pytest.mark.parametrize(
    ("quorums", "outside"),
    [((4, 2, 2), (0, 3)), ((4, 2, 2), (0,)), ((5, 3, 2), (0, 4)), ((3, 2, 1), (0,))],
)
@pytest.mark.parametrize("answered", [first, lambda waiting: len(waiting) - 1])
def test_a_good_copy_outside_its_write_set_is_not_the_ledgers(
    quorums: tuple[int, int, int], outside: tuple[int, ...], answered: Pick
) -> None:
    lab = RecoveryLab(ledger(*quorums))
    lab.put(0, *range(quorums[1]), lac=-1)
    lab.put(1, *outside, lac=-1)
    assert done(lab, pick=answered).metadata.last_entry_id == 0


def test_a_recovery_reads_no_further_while_too_much_is_on_its_way_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = RecoveryLab(ledger(3, 3, 2))
    for entry_id in range(40):
        lab.put(entry_id, 0, 1, 2, lac=NO_ENTRY)
    recovery, pending = lab.recovery(window=2), list[int]()

    def reads_first(effects: Sequence[Effect]) -> int:
        if recovery.phase is RecoveryPhase.READ:
            pending.append(recovery._writeback.pending_bytes)
        return next((at for at, e in enumerate(effects) if isinstance(e, ReadEntries)), 0)

    window_bytes = 2 * len(entry(0))
    monkeypatch.setattr(recovery_module, "WRITE_BACK_BYTES_MAX", 5 * window_bytes)
    assert done(lab, recovery, reads_first).metadata.last_entry_id == 39
    assert 5 * window_bytes < max(pending) <= 6 * window_bytes


@pytest.mark.parametrize("seed", range(20))
def test_a_corrupt_copy_that_is_seen_during_a_write_back_does_not_stop_the_recovery(
    seed: int,
) -> None:
    lab = RecoveryLab(ledger(2, 2, 2), spares=(2,))
    lab.reply_bytes = 1  # an entry a reply
    for entry_id in (0, 1):
        lab.put(entry_id, 0, 1, lac=-1)
    lab.put(2, 1, lac=-1)
    lab[1].corrupt(LEDGER, EntryId(2))
    rng = random.Random(seed)
    assert isinstance(
        lab.run(lab.recovery(), lambda waiting: rng.randrange(len(waiting))), Recovered | Abort
    )
