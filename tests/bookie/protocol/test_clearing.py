"""When a bookie may clear a mark, and what it takes as lost (R27, S33)."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.clearing import (
    ClearReason,
    ClearVerdict,
    Retraction,
    found_losses,
    judge_clear,
    judge_retraction,
    must_hold,
    refuse_loss,
)
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.quorum import write_set
from bookie.protocol.recovery import ACCEPTED_LOSS_KEY
from hypothesis import given
from hypothesis import strategies as st
from storage_kit import ids

B0, B1, B2, B3 = (BookieId(f"bookie-{index}") for index in range(4))
WITH, WITHOUT = (B0, B1, B2), (B3, B1, B2)
CLEARED, MISSING = ClearReason.CLEARED, ClearReason.ENTRIES_MISSING


def ledger(*fragments: tuple[int, tuple[BookieId, ...]], quorum: int = 3) -> LedgerMetadata:
    return LedgerMetadata(
        LedgerId(1),
        ensemble_size=len(fragments[0][1]),
        write_quorum=quorum,
        ack_quorum=2,
        fragments=tuple(Fragment(EntryId(first), ensemble) for first, ensemble in fragments),
    )


def closed(end: int, *fragments: tuple[int, tuple[BookieId, ...]]) -> LedgerMetadata:
    return ledger(*(fragments or ((0, WITH),))).closed(EntryId(end), length=0)


def judge(
    metadata: LedgerMetadata | None,
    held: EntrySet = EMPTY,
    lost: EntrySet = EMPTY,
    *,
    in_limbo: bool = True,
    was_recovering: bool = True,
) -> ClearVerdict:
    return judge_clear(
        metadata, B0, held=held, lost=lost, in_limbo=in_limbo, was_recovering=was_recovering
    )


@pytest.mark.parametrize("as_state", [lambda m: m, LedgerMetadata.in_recovery])
def test_limbo_stays_while_the_last_fragment_of_a_ledger_that_is_not_closed_names_the_bookie(
    as_state: Callable[[LedgerMetadata], LedgerMetadata],
) -> None:
    verdict = judge(as_state(ledger((0, WITHOUT), (5, WITH))), ids((0, 9)))
    assert verdict.reason is ClearReason.NOT_CLOSED
    assert "its writer replaces it, or recover the ledger" in verdict.message


def test_limbo_ends_once_the_writer_has_replaced_the_bookie_which_has_all_before_that() -> None:
    replaced = ledger((0, WITH), (5, WITHOUT))
    assert judge(replaced, ids((0, 4))).may_clear
    short = judge(replaced, ids((0, 2), (4, 4)))
    assert (short.reason, short.missing) == (MISSING, 1)


def test_limbo_stays_while_a_recoverer_may_have_chosen_the_bookie_again() -> None:
    recovering = ledger((0, WITH), (5, WITHOUT)).in_recovery()
    assert judge(recovering, ids((0, 9))).reason is ClearReason.NOT_CLOSED
    never_chosen = judge(recovering, ids((0, 9)), was_recovering=False)
    assert never_chosen.reason is ClearReason.NOT_CLOSED


def test_a_closed_ledger_is_cleared_when_every_entry_is_here() -> None:
    assert judge(closed(9), ids((0, 9))).may_clear


def test_one_missing_entry_is_counted_and_named() -> None:
    verdict = judge(closed(9), ids((0, 3), (5, 9)))
    assert (verdict.reason, verdict.missing) == (MISSING, 1)
    assert "4..4" in verdict.message


def test_a_durable_loss_record_stands_for_the_entry() -> None:
    assert judge(closed(9), ids((0, 3), (5, 9)), ids((4, 4))).may_clear


def test_entries_beyond_the_end_neither_help_nor_hurt() -> None:
    assert judge(closed(3), ids((0, 3), (7, 9))).may_clear
    assert judge(closed(3), ids((1, 9))).missing == 1


def test_a_deleted_ledger_owes_nothing() -> None:
    assert judge(None).may_clear


def test_an_empty_closed_ledger_owes_nothing() -> None:
    assert judge(closed(-1)).may_clear


def test_a_striped_ledger_owes_this_bookies_share_only() -> None:
    striped = ledger((0, (B0, B1, B2)), quorum=2).closed(EntryId(5), length=0)
    assert must_hold(striped, B0) == ids((0, 0), (2, 3), (5, 5))
    assert judge(striped, ids((0, 0), (2, 3), (5, 5))).may_clear


def test_an_end_that_somebody_made_up_costs_no_memory() -> None:
    striped = ledger((0, WITH), quorum=2).closed(EntryId(3 * 2**40 - 1), length=0)
    assert judge(striped, ids((0, 0))).missing == 2**41 - 1


def test_unchecked_of_an_open_ledger_needs_its_earlier_fragments_only() -> None:
    metadata = ledger((0, WITH), (10, WITHOUT))
    assert judge(metadata, ids((0, 9)), in_limbo=False).may_clear
    assert judge(metadata, ids((0, 8)), in_limbo=False).missing == 1


def test_unchecked_and_named_again_by_a_last_fragment_younger_than_the_mark() -> None:
    # Had the last fragment named it at the boot, the ledger would be in limbo.
    metadata = ledger((0, WITH), (10, WITHOUT), (20, WITH))
    assert must_hold(metadata, B0) == ids((0, 9))


def test_s37_unchecked_stays_while_a_recoverer_may_have_chosen_this_bookie() -> None:
    # It acknowledged a write-back, forgot it, and only the closing write will name it for it.
    recovering = ledger((0, WITH), (10, WITHOUT)).in_recovery()
    verdict = judge(recovering, ids((0, 9)), in_limbo=False)
    assert verdict.reason is ClearReason.NOT_CLOSED and "IN_RECOVERY" in verdict.message
    assert judge(closed(10, (0, WITH), (10, WITH)), ids((0, 9)), in_limbo=False).missing == 1


def test_s37_a_recovery_that_began_after_the_boot_does_not_wait_for_this_bookie() -> None:
    recovering = ledger((0, WITH), (10, WITHOUT)).in_recovery()
    told = judge(recovering, ids((0, 9)), in_limbo=False, was_recovering=False)
    assert told == ClearVerdict(ClearReason.CLEARED)
    assert judge(recovering, ids((0, 8)), in_limbo=False, was_recovering=False).missing == 1
    assert not judge(recovering, ids((0, 9)), in_limbo=True, was_recovering=False).may_clear


def test_who_does_not_say_since_when_it_is_recovered_has_it_stay() -> None:
    recovering = ledger((0, WITH), (10, WITHOUT)).in_recovery()
    verdict = judge_clear(recovering, B0, held=ids((0, 9)), lost=EMPTY, in_limbo=False)
    assert verdict.reason is ClearReason.NOT_CLOSED


def test_unchecked_and_closed_meanwhile_needs_all_up_to_the_end() -> None:
    assert judge(closed(12, (0, WITH), (10, WITH)), ids((0, 9)), in_limbo=False).missing == 3


def test_s37_a_ledger_that_came_to_name_this_bookie_at_its_close_needs_its_copies() -> None:
    assert judge(closed(4, (0, WITH)), EMPTY, in_limbo=False).missing == 5


def test_a_ledger_that_names_this_bookie_no_more_is_cleared() -> None:
    assert judge(closed(9, (0, WITHOUT)), EMPTY).may_clear


# ---- losses -------------------------------------------------------------------------------------

ALL = frozenset({B0, B1, B2})


def loss(
    metadata: LedgerMetadata,
    lost: EntrySet,
    *,
    held: EntrySet = EMPTY,
    answered: frozenset[BookieId] = ALL,
    person: bool = False,
    on: BookieId = B1,
) -> str:
    return refuse_loss(metadata, lost, own_id=on, held=held, answered_by=answered, by_person=person)


def test_a_loss_is_taken_when_every_member_answered() -> None:
    assert loss(closed(9), ids((4, 4))) == ""


@pytest.mark.parametrize("silent", [B0, B1, B2])
def test_a_loss_is_refused_while_a_member_is_silent(silent: BookieId) -> None:
    assert silent in loss(closed(9), ids((4, 4)), answered=ALL - {silent})


def test_members_of_every_fragment_of_a_long_loss_must_answer() -> None:
    metadata = closed(9, (0, WITH), (5, WITHOUT))
    assert B3 in loss(metadata, ids((0, 9)))


def test_members_of_every_fragment_that_is_touched_must_answer() -> None:
    metadata = closed(9, (0, WITH), (5, WITHOUT))
    assert loss(metadata, ids((2, 4))) == ""
    assert B3 in loss(metadata, ids((4, 5)))


def test_only_the_write_set_of_the_entry_must_answer() -> None:
    striped = ledger((0, (B0, B1, B2, B3)), quorum=2).closed(EntryId(7), length=0)
    assert loss(striped, ids((1, 1)), answered=frozenset({B1, B2})) == ""
    assert B3 in loss(striped, ids((2, 2)), answered=frozenset({B1, B2}), on=B2)


ENDS = st.lists(st.integers(1, 11), unique=True, max_size=3).map(sorted)
BOOKIES = [BookieId(f"bookie-{number}") for number in range(5)]


@given(data=st.data(), starts=ENDS, quorum=st.integers(1, 3))
def test_a_loss_waits_for_exactly_those_in_the_write_set_of_a_lost_entry(
    data: st.DataObject, starts: list[int], quorum: int
) -> None:
    """The dumb way: the write set of each lost entry, one by one."""
    ensembles = st.permutations(BOOKIES).map(lambda order: tuple(order[:3]))
    metadata = LedgerMetadata(
        LedgerId(1), 3, quorum, 1,
        fragments=tuple(Fragment(EntryId(s), data.draw(ensembles)) for s in [0, *starts]),
    ).closed(EntryId(11), length=0)  # fmt: skip
    sets = {
        entry: write_set(
            EntryId(entry),
            ensemble=metadata.fragment_of(EntryId(entry)).ensemble,
            write_quorum=quorum,
        )
        for entry in range(12)
    }
    mine = [entry for entry, members in sets.items() if B1 in members]
    lost = data.draw(st.sets(st.sampled_from(mine), min_size=1) if mine else st.nothing())
    answered = frozenset(data.draw(st.sets(st.sampled_from(BOOKIES))))
    silent = {member for entry in lost for member in sets[entry]} - answered
    refusal = loss(metadata, ids(*((entry, entry) for entry in lost)), answered=answered)
    words = f"{', '.join(sorted(silent))} did not answer definitely: a copy may still be there"
    assert refusal == (words if silent else "")


@pytest.mark.parametrize("person", [True, False])
def test_nobody_records_as_lost_what_is_here(person: bool) -> None:
    assert "are here" in loss(closed(9), ids((3, 5)), held=ids((5, 5)), person=person)


@pytest.mark.parametrize("person", [True, False])
def test_a_loss_of_nothing_is_refused(person: bool) -> None:
    assert "no entry" in loss(closed(9), EMPTY, person=person)


def test_without_a_person_the_end_must_be_known() -> None:
    assert "not known to be lost" in loss(ledger((0, WITH)), ids((4, 4)))
    assert "not known to be lost" in loss(closed(3), ids((3, 4)))


def test_s33_a_person_may_accept_what_is_undecidable() -> None:
    recovering = ledger((0, WITH)).in_recovery()
    assert loss(recovering, ids((5, 5)), answered=frozenset(), person=True) == ""


def test_a10_a_bookie_records_no_loss_of_entries_it_is_not_to_hold() -> None:
    striped = ledger((0, (B0, B1, B2, B3)), quorum=2)
    for metadata, person in ((striped.closed(EntryId(7), length=0), False), (striped, True)):
        state = metadata.in_recovery() if person else metadata
        everyone = frozenset({*ALL, B3})
        assert loss(state, ids((4, 4)), answered=everyone, person=person, on=B0) == ""
        refusal = loss(state, ids((4, 5)), answered=everyone, person=person, on=B0)
        assert "entries 5..5" in refusal and "not stored on bookie-0" in refusal
    assert "not stored on" in loss(closed(9), ids((4, 4)), on=B3)


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (closed(9), "CLOSED at 9"),
        (ledger((0, WITH)), "is OPEN: recover it first"),
        (ledger((0, WITH), (6, WITH)).in_recovery(), "entry 5 is before the last fragment"),
    ],
)
def test_a10_a_person_decides_about_the_tail_of_a_ledger_in_recovery_only(
    metadata: LedgerMetadata, words: str
) -> None:
    assert words in loss(metadata, ids((5, 5)), person=True)


@pytest.mark.parametrize(
    ("lost", "is_refused"),
    [(ids((6, 6)), False), (ids((6, 9)), False), (ids((5, 7)), True), (ids((2, 2), (8, 9)), True)],
)
def test_a10_the_tail_begins_with_the_first_entry_of_the_last_fragment(
    lost: EntrySet, is_refused: bool
) -> None:
    refusal = loss(ledger((0, WITH), (6, WITH)).in_recovery(), lost, person=True)
    assert ("before the last fragment, which starts at 6" in refusal) is is_refused
    assert is_refused or refusal == ""


def test_without_a_person_a_loss_may_be_of_the_last_entry_and_of_none_behind_it() -> None:
    assert loss(closed(4), ids((4, 4))) == ""
    assert "ends at 4: entry 5 is not known to be lost" in loss(closed(4), ids((4, 5)))


def test_an_end_that_an_open_ledger_carries_along_is_none() -> None:
    carried = replace(ledger((0, WITH)), last_entry_id=EntryId(9))
    assert "is OPEN and ends at 9: entry 4 is not known" in loss(carried, ids((4, 4)))


# ---- losses taken back --------------------------------------------------------------------------

INTO_LIMBO, AS_IT_IS = Retraction(into_limbo=True), Retraction()


def retract(
    metadata: LedgerMetadata | None,
    entries: EntrySet,
    *,
    held: EntrySet = EMPTY,
    in_limbo: bool = False,
    is_unchecked: bool = False,
    on: BookieId = B0,
) -> Retraction:
    return judge_retraction(
        metadata, on, entries, held=held, in_limbo=in_limbo, is_unchecked=is_unchecked
    )


def test_an_entry_that_may_have_been_denied_on_the_word_of_a_record_is_unknown_again() -> None:
    assert retract(closed(9), ids((4, 4)), held=ids((0, 3))) == INTO_LIMBO
    recovering = ledger((0, WITH), (5, WITH)).in_recovery()
    assert retract(recovering, ids((4, 6)), held=ids((0, 3))) == INTO_LIMBO


def test_a2_a_record_on_a_bookie_that_owes_nothing_goes_and_nothing_else_changes() -> None:
    assert retract(closed(2999), ids((0, 2999)), on=B3) == AS_IT_IS
    assert retract(closed(2999), ids((0, 2999)), held=ids((0, 2999))) == AS_IT_IS
    assert retract(None, ids((0, 9))) == AS_IT_IS


def test_an_open_ledger_keeps_its_writer_when_a_record_is_taken_back() -> None:
    written = ledger((0, WITH), (5, WITH))
    assert "recover it first" in retract(written, ids((3, 7)), held=ids((0, 2))).refusal
    assert retract(written, ids((3, 7)), held=ids((0, 4))) == AS_IT_IS, "its tail is not owed yet"
    assert retract(written, ids((3, 7)), in_limbo=True) == INTO_LIMBO, "it is refused already"


def test_a_mark_that_is_being_cleared_on_the_word_of_the_record_is_outlived() -> None:
    assert retract(closed(9), ids((4, 4)), in_limbo=True) == INTO_LIMBO


def test_a_mark_of_a_ledger_that_may_be_closed_and_cleared_meanwhile_is_outlived() -> None:
    recovering = ledger((0, WITH), (5, WITH)).in_recovery()
    assert retract(recovering, ids((6, 6)), in_limbo=True) == INTO_LIMBO
    assert "ask again" in retract(recovering, ids((6, 6)), is_unchecked=True).refusal
    assert retract(recovering, ids((6, 6))) == AS_IT_IS
    assert retract(closed(9), ids((4, 4)), is_unchecked=True) == INTO_LIMBO


def test_an_end_that_a_person_accepted_stays() -> None:
    ended = replace(closed(3), custom={ACCEPTED_LOSS_KEY: b"{}"})
    assert "cannot be undone" in retract(ended, ids((2, 7))).refusal
    assert retract(ended, ids((2, 2))) == INTO_LIMBO
    assert retract(closed(3), ids((5, 7))) == AS_IT_IS, "nobody accepted anything"


@given(data=st.data(), starts=ENDS, state=st.sampled_from(["OPEN", "IN_RECOVERY", "CLOSED"]))
def test_unknown_is_never_negative_after_a_record_was_taken_back(
    data: st.DataObject, starts: list[int], state: str
) -> None:
    """A bookie without marks lacks nothing that it owes but what is on record: the dumb way."""
    ensembles = st.permutations(BOOKIES).map(lambda order: tuple(order[:3]))
    opened = LedgerMetadata(
        LedgerId(1), 3, data.draw(st.integers(1, 3)), 1,
        fragments=tuple(Fragment(EntryId(s), data.draw(ensembles)) for s in [0, *starts]),
    )  # fmt: skip
    metadata = opened.in_recovery() if state == "IN_RECOVERY" else opened
    metadata = opened.closed(EntryId(11), length=0) if state == "CLOSED" else metadata
    some = st.sets(st.integers(0, 14)).map(lambda found: ids(*((i, i) for i in found)))
    held, extra = data.draw(some), data.draw(some)
    lost = (must_hold(metadata, B0) - held) | extra
    entries = lost & data.draw(some)
    done = retract(metadata, entries, held=held)
    if not done.refusal and not done.into_limbo:
        assert must_hold(metadata, B0) - held <= lost - entries
    if done.into_limbo:
        assert state != "OPEN" and not judge(metadata, held, lost - entries).may_clear


def test_only_what_is_here_and_within_a_closed_end_is_found_of_what_was_lost() -> None:
    lost, held = ids((2, 5), (12, 12)), ids((3, 3), (7, 7), (12, 12))
    assert found_losses(closed(9), lost, held=held) == ids((3, 3))
    assert found_losses(ledger((0, WITH)), lost, held=held).is_empty
