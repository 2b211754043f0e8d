"""Who takes over which part of a ledger: finished fragments only, never a member twice."""

import pytest
from bookie.errors import NotEnoughBookiesError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.placement import Racks
from bookie.repair.mend.move_plan import in_order_of_preference, moved, owed_by_target, plan_moves

B = [BookieId(f"bookie-{number}") for number in range(8)]


def ledger(
    *fragments: tuple[int, tuple[int, ...]],
    write: int = 3,
    last: int | None = None,
    ledger_id: int = 1,
) -> LedgerMetadata:
    return LedgerMetadata(
        LedgerId(ledger_id),
        len(fragments[0][1]),
        write,
        2,
        tuple(Fragment(EntryId(first), tuple(B[n] for n in on)) for first, on in fragments),
        state=LedgerState.OPEN if last is None else LedgerState.CLOSED,
        last_entry_id=EntryId(-1 if last is None else last),
    )


def spans(entries: EntrySet) -> list[tuple[int, int]]:
    return [(int(first), int(last)) for first, last in entries.ranges()]


def test_every_fragment_of_a_closed_ledger_moves_to_one_that_was_not_in_it() -> None:
    metadata = ledger((0, (0, 1, 2)), (10, (3, 0, 1)), (20, (1, 2, 3)), last=29)
    moves = plan_moves(metadata, B[0], B[1:5])
    assert [(m.fragment, m.position, spans(m.owed)) for m in moves] == [
        (0, 0, [(0, 9)]), (1, 1, [(10, 19)]),
    ]  # fmt: skip
    after = moved(metadata, moves)
    assert not after.names(B[0])
    assert all(len(set(f.ensemble)) == 3 for f in after.fragments)
    assert after.fragments[2] == metadata.fragments[2]


def test_of_an_open_ledger_the_last_fragment_is_left_to_its_writer() -> None:
    metadata = ledger((0, (0, 1, 2)), (5, (0, 1, 3)))
    (move,) = plan_moves(metadata, B[0], B[3:])
    assert (move.fragment, spans(move.owed)) == (0, [(0, 4)])
    assert moved(metadata, [move]).last_fragment.ensemble == (B[0], B[1], B[3])


def test_nothing_of_a_ledger_in_recovery_moves() -> None:
    metadata = ledger((0, (0, 1, 2)), (5, (1, 2, 3))).in_recovery()
    assert plan_moves(metadata, B[0], B) == ()


def test_fragments_behind_the_end_change_hands_without_entries() -> None:
    metadata = ledger((0, (0, 1, 2)), (5, (0, 1, 3)), last=4)
    first, second = plan_moves(metadata, B[0], B[4:])
    assert (spans(first.owed), second.owed) == ([(0, 4)], EMPTY)
    (empty,) = plan_moves(ledger((0, (0, 1, 2)), last=-1), B[0], B[4:])
    assert empty.owed == EMPTY


def test_of_a_striped_ledger_only_the_share_of_the_position_moves() -> None:
    metadata = ledger((0, (0, 1, 2, 3)), write=2, last=7)
    (move,) = plan_moves(metadata, B[1], B[4:])
    assert spans(move.owed) == [(0, 1), (4, 5)]


def test_the_shares_of_one_target_are_taken_together() -> None:
    metadata = ledger((0, (0, 1, 2)), (10, (2, 1, 0)), last=29)
    owed = owed_by_target(plan_moves(metadata, B[0], [B[5]]))
    assert {target: spans(entries) for target, entries in owed.items()} == {B[5]: [(0, 29)]}


def test_when_every_candidate_is_a_member_nothing_can_move() -> None:
    with pytest.raises(NotEnoughBookiesError, match="start one more"):
        plan_moves(ledger((0, (0, 1, 2)), last=3), B[0], B[1:3])


def test_the_choice_is_the_same_at_each_run_and_spreads_over_the_candidates() -> None:
    first = [in_order_of_preference(LedgerId(i), B)[0] for i in range(800)]
    again = [in_order_of_preference(LedgerId(i), list(reversed(B)))[0] for i in range(800)]
    assert first == again
    assert all(60 < first.count(bookie) < 140 for bookie in B)


def test_a_target_keeps_the_copies_in_several_racks() -> None:
    racks = Racks({bookie_id: f"/r{n % 3}" for n, bookie_id in enumerate(B)})
    for number in range(20):
        metadata = ledger((0, (0, 1, 2)), last=3, ledger_id=number)
        (move,) = plan_moves(metadata, B[0], B[3:9], racks=racks)
        assert racks.place(move.target) == "/r0"
