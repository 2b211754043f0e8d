"""Fence boundary, limbo, unchecked, losses, tombstones: durable when told, and repeatable."""

import errno
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from bookie.errors import BadRequestError, DiskFullError, StorageError
from bookie.ids import EntryId, LedgerId
from bookie.storage.decisions import SHOWN_MAX, DecisionKind, PersonDecision
from bookie.storage.directory import LedgerDirectory
from bookie.storage.facts import Suspicion
from bookie.storage.modes import DurabilityMode
from bookie.storage.records import RETURNS_BY_DOUBT_MAX, Boundary, LedgerRecord
from bookie.storage.routing import route
from storage_kit import StorageKit, ids, run

from bookie import points

L7, L8 = LedgerId(7), LedgerId(8)
BOUNDARY = Boundary(3, LedgerId(20), frozenset({LedgerId(1000)}))


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[StorageKit]:
    opened = StorageKit(tmp_path / "bookie")
    yield opened
    opened.end()


def test_marks_are_durable_when_mark_returns(kit: StorageKit) -> None:
    kit.put(LedgerRecord(L7, master_key=b"k" * 20))
    kit.storage.maintenance.mark(BOUNDARY, [L7, L8], fences_lost=True)
    kit = kit.after_power_cut()
    storage = kit.storage
    assert storage.boundary() == storage.unchecked_boundary() == BOUNDARY
    assert storage.limbo_ledgers() == [L7, L8]
    marked = LedgerRecord(L7, master_key=b"k" * 20, limbo=True, mark_epoch=3)
    assert storage.record(L7) == marked
    storage.close()


def test_a_mark_ends_no_writer_and_keeps_the_fence_of_a_client(kit: StorageKit) -> None:
    kit.put(LedgerRecord(L8, fenced=True))
    kit.storage.maintenance.mark(BOUNDARY, [L7, L8], fences_lost=True)
    kit = kit.after_power_cut()
    records = [kit.storage.record(ledger_id) for ledger_id in (L7, L8)]
    assert [record.fenced for record in records if record is not None] == [False, True]
    kit.storage.close()


def test_no_ledger_is_marked_that_the_boundary_does_not_cover(kit: StorageKit) -> None:
    with pytest.raises(AssertionError):
        kit.storage.maintenance.mark(BOUNDARY, [LedgerId(21)], fences_lost=True)
    kit.storage.close()


def test_the_boundary_lies_in_every_directory_and_one_is_enough(kit: StorageKit) -> None:
    kit.storage.maintenance.mark(BOUNDARY, [], fences_lost=True)
    kit.storage.close()
    for file in (kit.root / "ledger-0").glob("index.sqlite*"):
        file.unlink()
    kit = StorageKit(kit.root, disk=kit.disk)
    assert kit.storage.boundary() == kit.storage.unchecked_boundary() == BOUNDARY
    kit.storage.close()


def test_an_older_state_in_the_journal_takes_no_mark_back(kit: StorageKit) -> None:
    kit.put(LedgerRecord(L7, explicit_lac=EntryId(1)))
    kit.storage.maintenance.mark(BOUNDARY, [L7], fences_lost=True)
    kit = kit.after_power_cut()
    record = kit.storage.record(L7)
    assert kit.storage.report.replayed_records == 1
    assert record is not None and record.limbo and record.explicit_lac == 1
    kit.storage.close()


def test_a_cleared_mark_is_cleared_durably_and_a_later_boot_marks_again(kit: StorageKit) -> None:
    kit.storage.maintenance.mark(BOUNDARY, [L7], fences_lost=True)
    marked = kit.storage.record(L7)
    assert marked is not None
    kit.put(replace(marked, limbo=False, checked_epoch=3))
    kit = kit.after_power_cut()
    assert kit.storage.limbo_ledgers() == []
    kit.storage.maintenance.mark(replace(BOUNDARY, epoch=4), [L7], fences_lost=True)
    assert kit.after_power_cut().storage.limbo_ledgers() == [L7]


def test_marking_may_be_interrupted_between_directories_and_repeated(
    kit: StorageKit,
) -> None:
    kit.storage.maintenance.mark(Boundary(2, LedgerId(9)), [L7], fences_lost=True)
    kit.storage._directories[1].index.close()
    with pytest.raises(StorageError):
        kit.storage.maintenance.mark(BOUNDARY, [L7, L8], fences_lost=True)
    kit = kit.after_power_cut()
    found = kit.storage.boundary()
    assert found == BOUNDARY and kit.storage.unchecked_boundary() == BOUNDARY
    kit.storage.maintenance.mark(BOUNDARY, [L7, L8], fences_lost=True)
    assert kit.storage.limbo_ledgers() == [L7, L8]
    kit.storage.close()


def test_a_marking_that_ends_after_one_directory_leaves_the_suspicion_in_all(
    kit: StorageKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(point: str) -> None:
        raise StorageError(point)

    lost = frozenset({Suspicion.TORN})
    for directory in kit.storage._directories:
        directory.write(facts=directory.facts.with_suspicions(lost))
    with monkeypatch.context() as patched, pytest.raises(StorageError, match="is marked"):
        patched.setattr(points, "_observers", [ended])
        kit.storage.maintenance.mark(BOUNDARY, [], fences_lost=True)
    kit = kit.after_power_cut()
    assert all(directory.facts.suspicions == lost for directory in kit.storage._directories)
    kit.storage.close()


def test_an_interrupted_marking_leaves_the_suspicion_for_the_next_boot(
    kit: StorageKit,
) -> None:
    for directory in kit.storage._directories:
        found = frozenset({Suspicion.JOURNAL_LOST})
        directory.write(facts=directory.facts.with_suspicions(found))
    kit.storage._directories[1].index.close()
    with pytest.raises(StorageError):
        kit.storage.maintenance.mark(BOUNDARY, [], fences_lost=True)
    kit = kit.after_power_cut()
    assert kit.storage.report.journal_lost
    kit.storage.maintenance.mark(BOUNDARY, [], fences_lost=True)
    kit = kit.after_power_cut()
    assert not kit.storage.report.is_suspect
    kit.storage.close()


def test_a_ledger_is_unchecked_until_its_check_or_the_whole_one_has_ended(kit: StorageKit) -> None:
    storage = kit.storage
    storage.maintenance.mark(BOUNDARY, [], fences_lost=True)
    assert storage.is_unchecked(L7) and not storage.is_unchecked(LedgerId(21))
    assert storage.is_unchecked(LedgerId(1000))
    kit.put(LedgerRecord(L7, checked_epoch=3))
    assert not storage.is_unchecked(L7) and storage.is_unchecked(L8)
    storage.maintenance.finish_unchecked(2)
    assert storage.is_unchecked(L8)
    storage.maintenance.finish_unchecked(3)
    assert not storage.is_unchecked(L8) and storage.unchecked_boundary() is None
    assert storage.boundary() == BOUNDARY
    assert kit.after_power_cut().storage.unchecked_boundary() is None


def test_an_end_of_the_check_that_found_no_space_is_durable_once_it_is_told(
    kit: StorageKit,
) -> None:
    kit.storage.maintenance.mark(BOUNDARY, [], fences_lost=False)
    kit.sim.fail("commit", error=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        kit.storage.maintenance.finish_unchecked(BOUNDARY.epoch)
    assert kit.storage.is_unchecked(L7)
    kit.storage.maintenance.finish_unchecked(BOUNDARY.epoch)
    assert kit.after_power_cut().storage.unchecked_boundary() is None


def test_a_check_of_an_earlier_boot_does_not_count_for_a_later_one(kit: StorageKit) -> None:
    kit.put(LedgerRecord(L7, checked_epoch=3))
    kit.storage.maintenance.mark(replace(BOUNDARY, epoch=4), [], fences_lost=True)
    assert kit.storage.is_unchecked(L7)


def test_marking_a_hundred_thousand_ledgers_takes_a_moment(tmp_path: Path) -> None:
    kit = StorageKit(tmp_path / "bookie")
    limbo = [LedgerId(i) for i in range(100_000)]
    began = time.process_time()
    kit.storage.maintenance.mark(Boundary(2, LedgerId(100_000)), limbo, fences_lost=True)
    seconds = time.process_time() - began
    assert len(kit.storage.limbo_ledgers()) == 100_000
    assert seconds < 10, "about one second of CPU on the project's machine; no row-wise commits"
    kit.storage.close()


# ---- losses -------------------------------------------------------------------------------------


def test_losses_add_up_and_are_durable_on_every_disk(kit: StorageKit) -> None:
    kit.storage.maintenance.record_loss(L7, ids((3, 4)), reason="all members answered")
    kit.storage.maintenance.record_loss(L7, ids((4, 6)), reason="accepted by a person")
    kit.storage.maintenance.record_loss(L7, ids((3, 6)), reason="nothing new")
    kit = kit.after_power_cut()
    assert kit.storage.loss(L7) == ids((3, 6)) and kit.storage.loss(L8) == ids()
    kept = {loss.reason for d in kit.storage._directories for loss in d.index.losses()}
    assert kept == {"all members answered", "accepted by a person"}
    assert all(len(d.index.losses()) == 2 for d in kit.storage._directories)
    kit.storage.close()


def test_a_loss_that_the_disk_had_no_space_for_is_on_no_record(kit: StorageKit) -> None:
    kit.sim.fail("commit", error=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        kit.storage.maintenance.record_loss(L7, ids((3, 4)), reason="all members answered")
    assert not kit.storage.loss(L7)
    kit.storage.maintenance.record_loss(L7, ids((3, 4)), reason="all members answered")
    assert kit.after_power_cut().storage.loss(L7) == ids((3, 4))


def taken_back(about: str = "a mistake") -> PersonDecision:
    return PersonDecision(7, DecisionKind.RETRACTION, "ann", about)


@pytest.mark.parametrize("end", [StorageKit.after_power_cut, StorageKit.after_kill])
def test_a_loss_that_was_taken_back_is_gone_from_every_disk_with_who_did_it(
    kit: StorageKit, end: Callable[[StorageKit], StorageKit]
) -> None:
    kit.storage.maintenance.record_loss(L7, ids((3, 6)), reason="wrong")
    kit.storage.maintenance.record_loss(L8, ids((0, 0)), reason="right")
    retract = kit.storage.maintenance.retract_loss
    assert retract(L7, ids((5, 9)), decision=taken_back(), limbo_since=4) == ids((5, 6))
    assert retract(L7, ids((5, 9)), decision=taken_back("again"), limbo_since=4) == ids()
    kit = end(kit)
    assert kit.storage.loss(L7) == ids((3, 4)) and kit.storage.loss(L8) == ids((0, 0))
    assert kit.storage.limbo_ledgers() == [L7] and kit.storage.decisions == (taken_back(),)
    assert all(d.index.decisions() == [taken_back()] for d in kit.storage._directories)
    kit.storage.close()


def test_the_mark_of_a_loss_taken_back_outlives_a_clearing_that_was_under_way(
    kit: StorageKit,
) -> None:
    kit.storage.maintenance.mark(BOUNDARY, [L7], fences_lost=True)
    judged = kit.storage.record(L7)
    assert judged is not None
    kit.put(replace(judged, limbo=False, checked_epoch=3))
    kit.storage.maintenance.record_loss(L7, ids((3, 6)), reason="wrong")
    kit.storage.maintenance.retract_loss(L7, ids((3, 6)), decision=taken_back(), limbo_since=3)
    kit.put(replace(judged, limbo=False, checked_epoch=3))
    assert kit.storage.limbo_ledgers() == [L7]
    kit = kit.after_kill()
    assert kit.storage.limbo_ledgers() == [L7], "the journal has the clearing, and the mark wins"
    kit.storage.close()


def test_a_loss_that_could_not_be_taken_back_stays_and_so_does_the_mark_that_is_seen(
    kit: StorageKit,
) -> None:
    kit.storage.maintenance.record_loss(L7, ids((3, 4)), reason="all members answered")
    kit.sim.fail("commit", error=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        kit.storage.maintenance.retract_loss(L7, ids((3, 4)), decision=taken_back(), limbo_since=3)
    seen = kit.storage.record(L7)
    kit.storage.maintenance.checkpoint()
    kit = kit.after_power_cut()
    assert kit.storage.loss(L7) == ids((3, 4)) and kit.storage.record(L7) == seen


def test_a_ledger_cannot_be_marked_again_without_end(kit: StorageKit) -> None:
    retract = kit.storage.maintenance.retract_loss
    for _turn in range(RETURNS_BY_DOUBT_MAX):
        kit.storage.maintenance.record_loss(L7, ids((3, 3)), reason="wrong")
        retract(L7, ids((3, 3)), decision=taken_back(), limbo_since=4)
    kit.storage.maintenance.record_loss(L7, ids((3, 3)), reason="wrong")
    with pytest.raises(BadRequestError, match="15 times"):
        retract(L7, ids((3, 3)), decision=taken_back(), limbo_since=4)
    assert kit.storage.loss(L7) == ids((3, 3))
    kit.storage.close()


def test_decisions_are_kept_on_every_disk_and_the_oldest_go(
    kit: StorageKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    decisions = [PersonDecision(i, DecisionKind.COLLECTION, "ann", f"plan {i}") for i in range(40)]
    for one in decisions:
        kit.storage.maintenance.note_decision(one)
    kit = kit.after_power_cut()
    assert kit.storage.decisions == tuple(decisions[-SHOWN_MAX:])
    assert all(d.index.decisions() == decisions for d in kit.storage._directories)
    kit.storage.close()


# ---- deletion -----------------------------------------------------------------------------------


def test_a_deleted_ledger_leaves_a_tombstone_and_nothing_else(kit: StorageKit) -> None:
    kit.add(run(7, 0, 5), run(8, 0, 5))
    kit.storage.maintenance.checkpoint()
    kit.add(run(7, 5, 5, lac=4))
    kit.storage.maintenance.mark(BOUNDARY, [L7], fences_lost=True)
    kit.storage.maintenance.record_loss(L7, ids((20, 20)), reason="gone")
    kit.storage.maintenance.delete_ledgers([L7])
    only_a_tombstone_is_left(kit)
    only_a_tombstone_is_left(kit.after_power_cut())


def only_a_tombstone_is_left(kit: StorageKit) -> None:
    record = kit.storage.record(L7)
    assert record is not None and record.deleted and not record.limbo
    assert kit.held(7) == ids() and kit.storage.lac(L7) == -1
    assert kit.storage.loss(L7) == ids() and kit.storage.limbo_ledgers() == []
    assert kit.held(8) == ids((0, 4)) and kit.storage.ledger_ids() == [L7, L8]


def test_what_the_index_had_no_space_to_delete_is_seen_until_it_is_deleted(
    kit: StorageKit,
) -> None:
    kit.add(run(7, 0, 5), run(8, 0, 5))
    kit.storage.maintenance.checkpoint()
    kit.sim.fail("commit", error=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        kit.storage.maintenance.delete_ledgers([L7])
    kit.add(run(7, 5, 5))  # late, and dropped by the checkpoint
    kit.storage.maintenance.checkpoint()
    assert kit.storage.last_entry_id(L7) == 4
    kit = kit.reopened()
    assert kit.storage.last_entry_id(L7) == 4
    kit.storage.maintenance.delete_ledgers([L7])
    only_a_tombstone_is_left(kit)


@pytest.mark.parametrize("mode", list(DurabilityMode))
def test_a_deleted_ledger_does_not_come_back_from_log_or_journal(
    tmp_path: Path, mode: DurabilityMode
) -> None:
    kit = StorageKit(tmp_path / "bookie", mode)
    kit.add(run(7, 0, 5))
    kit.storage.maintenance.delete_ledgers([L7])
    kit = kit.after_kill()
    assert kit.held(7) == ids()
    kit = kit.reopened()
    assert kit.held(7) == ids()
    kit.storage.close()


@pytest.mark.parametrize("mode", list(DurabilityMode))
def test_a5_a_tombstone_gives_way_to_limbo_durably_and_takes_the_entries_back(
    tmp_path: Path, mode: DurabilityMode
) -> None:
    kit = StorageKit(tmp_path / "bookie", mode)
    kit.add(run(7, 0, 5), run(8, 0, 5))
    kit.storage.maintenance.checkpoint()
    kit.storage.maintenance.delete_ledgers([L7])
    assert kit.storage.maintenance.revive_ledgers([L7, L8, LedgerId(9)], epoch=4) == 1
    assert kit.held(7) == ids()
    kit = kit.after_power_cut()
    record = kit.storage.record(L7)
    assert record is not None and record.limbo and not record.deleted
    assert kit.storage.limbo_ledgers() == [L7]
    kit.add(run(7, 0, 5, recovery=True))
    kit.storage.maintenance.checkpoint()
    assert kit.after_power_cut().held(7) == ids((0, 4))


def test_a5_a_return_that_the_disk_had_no_space_for_is_none(kit: StorageKit) -> None:
    kit.storage.maintenance.delete_ledgers([L7])
    kit.sim.fail("commit", error=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        kit.storage.maintenance.revive_ledgers([L7], epoch=3)
    record = kit.storage.record(L7)
    assert record is not None and record.deleted
    assert kit.storage.maintenance.revive_ledgers([L7], epoch=3) == 1
    assert kit.after_power_cut().storage.limbo_ledgers() == [L7]


def test_a_deletion_that_found_no_space_leaves_the_loss_to_the_next_one(kit: StorageKit) -> None:
    kit.storage.maintenance.record_loss(L7, ids((3, 4)), reason="gone")
    kit.sim.fail("commit", error=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        kit.storage.maintenance.delete_ledgers([L7])
    assert kit.storage.loss(L7) == ids((3, 4))
    kit.storage.maintenance.delete_ledgers([L7])
    assert not kit.after_power_cut().storage.loss(L7)


def test_a5_a_ledger_that_came_back_is_collected_again(kit: StorageKit) -> None:
    kit.add(run(8, 0, 5))
    for _ in range(2):
        kit.add(run(7, 0, 5))
        kit.storage.maintenance.delete_ledgers([L7])
        assert kit.storage.record(L7).deleted and kit.held(7) == ids()  # type: ignore[union-attr]
        kit = kit.after_power_cut()
        assert kit.storage.maintenance.revive_ledgers([L7], epoch=1) == 1
    assert kit.storage.record(L7).returns == 2  # type: ignore[union-attr]


def test_a5_a_boot_that_finds_a_tombstone_named_marks_it_as_any_other(kit: StorageKit) -> None:
    kit.storage.maintenance.delete_ledgers([L7])
    kit.storage.maintenance.mark(BOUNDARY, [L7], fences_lost=True)
    assert kit.after_power_cut().storage.limbo_ledgers() == [L7]


@pytest.mark.parametrize("mode", list(DurabilityMode))
def test_b5_an_add_that_was_ruled_before_the_deletion_and_stored_after_leaves_no_row(
    tmp_path: Path, mode: DurabilityMode
) -> None:
    kit = StorageKit(tmp_path / "bookie", mode)
    kit.add(run(7, 0, 5), run(8, 0, 5))
    kit.storage.maintenance.delete_ledgers([L7])
    kit.add(run(7, 5, 5))
    kit.storage.maintenance.checkpoint()
    only_a_tombstone_is_left(kit)
    kit = kit.reopened()
    only_a_tombstone_is_left(kit)
    assert all(d.index.all_rows(L7) == [] for d in kit.storage._directories)
    kit.storage.close()


def test_deleting_many_ledgers_is_one_transaction_for_each_directory(
    kit: StorageKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[Path] = []
    forget = LedgerDirectory.forget

    def counted(directory: LedgerDirectory, *args: object) -> None:
        commits.append(directory.path)
        forget(directory, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(LedgerDirectory, "forget", counted)
    kit.add(*(run(ledger, 0) for ledger in range(50)))
    kit.storage.maintenance.delete_ledgers([LedgerId(i) for i in range(50)])
    assert len(commits) == 2 and all(not kit.held(ledger) for ledger in range(50))


# ---- what SQLite itself holds -------------------------------------------------------------------


def test_every_directory_keeps_the_records_of_its_own_ledgers_only(kit: StorageKit) -> None:
    for number in range(20):
        kit.put(LedgerRecord(LedgerId(number)))
    kit.storage.close()
    for index in range(2):
        database = kit.sim.open_database(kit.root / f"ledger-{index}" / "index.sqlite")
        with database.reading("look") as connection:
            found = [row[0] for row in connection.execute("SELECT ledger FROM records")]
        assert found == [n for n in range(20) if route(LedgerId(n), 2) == index]
