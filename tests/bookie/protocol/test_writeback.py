"""Write-backs: runs out, acks in, local replacements; nothing counts for the wrong member."""

import itertools
from collections.abc import Sequence

import pytest
from bookie.errors import NotEnoughBookiesError
from bookie.frames.frame import RunFrame, parse_run
from bookie.ids import NO_ENTRY, EntryId
from bookie.protocol import writeback
from bookie.protocol.ledger import Fragment
from bookie.protocol.status import Status
from bookie.protocol.writeback import AddRun, Replace, WriteBack, WriteBackEffect
from recovery_lab import entry, ledger, names


def back(ensemble: int = 3, write: int = 3, ack: int = 2) -> WriteBack:
    return WriteBack(ledger(ensemble, write, ack), lac=NO_ENTRY, ops=itertools.count(1))


def entries(*ids: int) -> list[tuple[EntryId, bytes]]:
    return [(EntryId(i), entry(i)) for i in ids]


def adds(effects: Sequence[WriteBackEffect]) -> list[AddRun]:
    return [effect for effect in effects if isinstance(effect, AddRun)]


def runs_of(effects: Sequence[WriteBackEffect], bookie: int) -> list[RunFrame]:
    wanted = names(bookie)[0]
    return [parse_run(add.frame) for add in adds(effects) if add.bookie_id == wanted]


def ids_of(effects: Sequence[WriteBackEffect], bookie: int) -> list[list[int]]:
    return [list(run.entry_ids()) for run in runs_of(effects, bookie)]


def test_contiguous_entries_are_one_run_whose_bytes_all_members_share() -> None:
    sent = adds(back().add(entries(0, 1, 2)))
    assert len(sent) == 3 and len({id(add.frame) for add in sent}) == 1


def test_a_striped_share_is_one_run_with_the_fragments_pattern() -> None:
    effects = back(4, 2, 2).add(entries(*range(9)))
    assert ids_of(effects, 0) == [[0], [3, 4, 7, 8]]
    assert ids_of(effects, 1) == [[0, 1, 4, 5, 8]]


def test_a_gap_starts_another_run() -> None:
    assert ids_of(back().add(entries(0, 1, 5)), 0) == [[0, 1], [5]]


def test_runs_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writeback, "RUN_BYTES_MAX", 2 * len(entry(0)))
    assert ids_of(back().add(entries(0, 1, 2)), 0) == [[0, 1], [2]]


def test_an_entry_is_settled_by_an_ack_quorum_of_distinct_members() -> None:
    work = back()
    first, second, _third = adds(work.add(entries(0)))
    work.on_added(first.op, Status.OK)
    work.on_added(first.op, Status.OK)
    assert work.pending == 1
    work.on_added(second.op, Status.OK)
    assert (work.pending, work.pending_bytes) == (0, 0)


def test_a_failed_member_is_replaced_and_gets_all_that_is_not_safe() -> None:
    work = back()
    first, _second, third = adds(work.add(entries(0, 1)))
    work.on_added(first.op, Status.OK)
    [asked] = work.on_added(third.op, Status.UNREACHABLE)
    assert isinstance(asked, Replace) and asked.exclude == frozenset(names(0, 1, 2))
    assert ids_of(work.on_replacement(2, names(3)[0]), 3) == [[0, 1]]
    assert work.fragments == (Fragment(EntryId(0), names(0, 1, 3)),)


def test_a_replacement_starts_at_the_first_entry_that_is_not_safe() -> None:
    work = back()
    for add in adds(work.add(entries(0))):
        work.on_added(add.op, Status.OK)
    failing = adds(work.add(entries(1, 2)))[0]
    work.on_added(failing.op, Status.IO_ERROR)
    work.on_replacement(0, names(3)[0])
    assert work.fragments[-1] == Fragment(EntryId(1), names(3, 1, 2))


def test_what_is_stored_behind_an_entry_that_is_not_safe_goes_to_a_replacement_too() -> None:
    work = back()
    _first, _second, failing = adds(work.add(entries(0)))
    for add in adds(work.add(entries(1)))[1:]:
        work.on_added(add.op, Status.OK)
    work.on_added(failing.op, Status.UNREACHABLE)
    assert ids_of(work.on_replacement(2, names(3)[0]), 3) == [[0, 1]] and work.pending == 2


def test_acks_of_a_replaced_member_are_dropped_early_and_late() -> None:
    work = back()
    early, second, _third = adds(work.add(entries(0)))
    late = adds(work.add(entries(1)))[0]
    work.on_added(early.op, Status.OK)
    work.on_added(late.op, Status.UNREACHABLE)
    work.on_replacement(0, names(3)[0])
    work.on_added(second.op, Status.OK)
    work.on_added(late.op, Status.OK)
    assert work.pending == 2


def test_one_replacement_is_asked_for_at_a_time() -> None:
    work = back(5, 5, 2)
    sent = adds(work.add(entries(0)))
    assert len(work.on_added(sent[0].op, Status.READ_ONLY)) == 1
    assert work.on_added(sent[1].op, Status.READ_ONLY) == []
    then = work.on_replacement(0, names(7)[0])
    assert [e.position for e in then if isinstance(e, Replace)] == [1]


def test_a_bookie_chosen_for_a_position_that_was_not_asked_for_changes_nothing() -> None:
    work = back()
    sent = adds(work.add(entries(0)))
    assert work.on_replacement(0, names(7)[0]) == []
    work.on_added(sent[2].op, Status.READ_ONLY)
    assert work.on_replacement(1, names(7)[0]) == [] and work.on_replacement(0, None) == []
    assert ids_of(work.on_replacement(2, names(3)[0]), 3) == [[0]]
    assert work.fragments == (Fragment(EntryId(0), names(0, 1, 3)),)


def test_a_refused_bookie_is_never_chosen_again() -> None:
    work = back()
    sent = adds(work.add(entries(0)))
    work.on_added(sent[0].op, Status.READ_ONLY)
    [again] = adds(work.on_replacement(0, names(3)[0]))
    [asked] = work.on_added(again.op, Status.READ_ONLY)
    assert isinstance(asked, Replace) and names(0)[0] in asked.exclude


def test_without_a_replacement_the_others_are_enough() -> None:
    work = back()
    first, second, third = adds(work.add(entries(0)))
    work.on_added(third.op, Status.UNREACHABLE)
    assert work.on_replacement(2, None) == []
    for add in (first, second):
        work.on_added(add.op, Status.OK)
    assert work.pending == 0 and work.failure is None


def test_without_a_replacement_nothing_more_is_sent_to_the_failed_member() -> None:
    work = back()
    third = adds(work.add(entries(0)))[2]
    work.on_added(third.op, Status.UNREACHABLE)
    work.on_replacement(2, None)
    assert ids_of(work.add(entries(1)), 2) == []


def test_too_few_members_left_is_a_failure_that_names_them() -> None:
    work = back()
    _first, second, third = adds(work.add(entries(0)))
    work.on_added(third.op, Status.UNREACHABLE)
    work.on_added(second.op, Status.READ_ONLY)
    work.on_replacement(2, None)
    work.on_replacement(1, None)
    work.on_replacement(2, None)
    assert isinstance(work.failure, NotEnoughBookiesError)
    assert "bookie-1: READ_ONLY" in str(work.failure)


def test_a_replacement_that_comes_when_all_is_safe_starts_with_the_next_entry() -> None:
    work = back()
    first, second, third = adds(work.add(entries(0)))
    work.on_added(third.op, Status.UNREACHABLE)
    work.on_added(first.op, Status.OK)
    work.on_added(second.op, Status.OK)
    assert work.on_replacement(2, names(3)[0]) == []
    assert work.fragments[-1].ensemble == names(0, 1, 2)
    assert ids_of(work.add(entries(1)), 3) == [[1]]
    assert work.fragments[-1] == Fragment(EntryId(1), names(0, 1, 3))


def test_a_member_that_failed_on_settled_entries_is_replaced_with_the_next_ones() -> None:
    work = back()
    first, second, third = adds(work.add(entries(0)))
    for add in (first, second):
        work.on_added(add.op, Status.OK)
    assert work.on_added(third.op, Status.UNREACHABLE) == []
    assert [type(e) for e in work.add(entries(1))] == [AddRun, AddRun, Replace]


def test_b3_a_member_that_learned_another_key_is_replaced() -> None:
    work = back()
    effects = work.on_added(adds(work.add(entries(0)))[0].op, Status.UNAUTHORIZED)
    assert [type(effect) for effect in effects] == [Replace] and work.failure is None


def test_a_member_with_a_corrupt_copy_is_not_counted_and_gets_replaced() -> None:
    work = back()
    work.distrust(names(0)[0])
    effects = work.add(entries(0))
    assert ids_of(effects, 0) == [] and isinstance(effects[-1], Replace)


def test_distrust_of_a_bookie_elsewhere_changes_nothing() -> None:
    work = back()
    work.distrust(names(9)[0])
    assert len(adds(work.add(entries(0)))) == 3


def test_runs_are_bounded_in_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writeback, "RUN_ENTRIES_MAX", 2)
    assert ids_of(back().add(entries(0, 1, 2, 7)), 0) == [[0, 1], [2], [7]]
    assert ids_of(back(4, 2, 2).add(entries(*range(9))), 1) == [[0, 1], [4, 5], [8]]


def test_an_ack_of_what_is_safe_already_leaves_nothing_behind() -> None:
    work = back()
    for add in adds(work.add(entries(0, 1))):
        work.on_added(add.op, Status.OK)
    assert work.pending == 0 and not any(work._acked)
