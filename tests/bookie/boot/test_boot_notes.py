"""After an unclean stop only ledgers with a note are in doubt; after anything else all are."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest
from bookie.boot.boot import Booted
from bookie.boot.marker import MARKER_NAME, read_marker
from bookie.errors import UnavailableError
from bookie.ids import LedgerId
from bookie.protocol.ledger import LedgerState
from bookie.storage.decisions import DecisionKind, PersonDecision
from bookie.storage.disk import write_file
from bookie.storage.journal import JOURNAL_DIRECTORY
from bookie.storage.modes import DurabilityMode
from bookie.storage.rebuild import rebuild_index
from bookie.storage.records import Boundary, LedgerRecord
from bookie.testing.metadata import FaultyStore
from boot_lab import ME, OTHERS, BootLab, failing_at
from storage_kit import ids, take_back_notes

LOSS_TAKEN_BACK = PersonDecision(1, DecisionKind.RETRACTION, "ann", "it was found")


async def put(lab: BootLab, record: LedgerRecord) -> None:
    assert lab.now is not None
    done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    lab.now.storage.put_record(record, done=done.set_result)
    await done


async def go_idle(lab: BootLab) -> None:
    """So many flushes that every note is taken back, durably."""
    assert lab.now is not None
    storage = lab.now.storage
    for _ in range((lab.note_idle_flushes or 0) + 2):
        await asyncio.to_thread(storage.maintenance.checkpoint)
        take_back_notes(storage)
    assert storage.noted_ledgers() == []


async def crashed(lab: BootLab) -> tuple[LedgerId, LedgerId]:
    """SIGKILL of a bookie with an idle ledger and a busy one, both open; they are returned."""
    await lab.boot()
    idle, busy = await lab.ledger(), await lab.ledger()
    await lab.add(idle, 0, 3)
    await go_idle(lab)
    await lab.add(busy, 0, 3)
    lab.kill()
    return idle, busy


def takes_adds(booted: Booted, ledger_id: LedgerId) -> bool:
    record, boundary = booted.storage.record(ledger_id), booted.storage.boundary()
    is_refused = record is not None and (record.fenced or record.limbo)
    is_refused |= booted.storage.is_unchecked(ledger_id)
    return not is_refused and not (boundary is not None and boundary.covers(ledger_id))


async def test_an_idle_ledger_is_left_alone_and_a_busy_one_is_in_limbo(lab: BootLab) -> None:
    idle, busy = await crashed(lab)
    booted = await lab.boot()
    assert booted.record.reason == "UncleanShutdown" and not booted.record.clean
    assert booted.storage.limbo_ledgers() == [busy]
    assert takes_adds(booted, idle) and not booted.storage.is_unchecked(idle)
    assert booted.storage.held(idle) == ids((0, 2)) and booted.storage.held(busy).is_empty


async def test_the_record_counts_only_what_is_in_doubt(lab: BootLab) -> None:
    await crashed(lab)
    record = (await lab.boot()).record
    assert (record.ledgers_fenced, record.ledgers_in_limbo, record.ledgers_unchecked) == (0, 1, 0)


async def test_with_nothing_in_doubt_nothing_is_marked(lab: BootLab) -> None:
    await lab.boot()
    idle = await lab.ledger()
    await lab.add(idle, 0)
    await go_idle(lab)
    lab.kill()
    storage = (await lab.boot()).storage
    assert storage.boundary() is None and storage.unchecked_boundary() is None


async def test_a_closed_ledger_with_a_note_is_unchecked(lab: BootLab) -> None:
    await lab.boot()
    closed = await lab.ledger(closed_at=1)
    await lab.add(closed, 0, 2, recovery=True)
    lab.kill()
    booted = await lab.boot()
    assert booted.unchecked == {closed} and booted.storage.is_unchecked(closed)
    assert booted.storage.limbo_ledgers() == []


async def test_r24_no_ledger_is_fenced_where_fences_are_as_they_were(lab: BootLab) -> None:
    _idle, busy = await crashed(lab)
    storage = (await lab.boot()).storage
    assert storage.boundary() is None and storage.unchecked_boundary() is not None
    record = storage.record(busy)
    assert record is not None and record.limbo and not record.fenced


async def test_r24_a_boundary_of_before_stays(lab: BootLab) -> None:
    lab.note_idle_flushes = None
    await lab.boot()
    ledger = await lab.ledger()
    lab.kill()
    lab.note_idle_flushes = 1
    assert not takes_adds(await lab.boot(), ledger)
    await lab.add(await lab.ledger(), 0)
    lab.kill()
    assert (await lab.boot()).record.ledgers_fenced == 0
    await lab.stop()
    boundary = (await lab.boot()).storage.boundary()
    assert boundary is not None and boundary.covers(ledger) and boundary.epoch == 2


async def test_an_epoch_that_marks_had_is_never_taken_again(lab: BootLab) -> None:
    idle, busy = await crashed(lab)
    storage = (await lab.boot()).storage
    marked = storage.record(busy)
    assert marked is not None and marked.mark_epoch == 2
    await put(lab, replace(marked, limbo=False, checked_epoch=2))
    await asyncio.to_thread(storage.maintenance.finish_unchecked, 2)
    await lab.stop()
    lab.forget_identity()
    booted = await lab.boot()
    assert booted.record.boot_epoch == 3 and booted.storage.limbo_ledgers() == [idle, busy]


async def test_s40_a_deleted_ledger_with_a_note_is_unchecked(lab: BootLab) -> None:
    await lab.boot()
    deleted = await lab.ledger()
    await lab.add(deleted, 0)
    await lab.store.delete_ledger(deleted)
    lab.kill()
    booted = await lab.boot()
    assert booted.storage.is_unchecked(deleted) and not takes_adds(booted, deleted)


async def test_s37_a_write_back_that_no_metadata_names_yet_is_in_doubt(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger((0, OTHERS))
    found = await lab.store.read_ledger(ledger)
    await lab.store.write_ledger(found.value.in_recovery(), version=found.version)
    await lab.add(ledger, 0, recovery=True)
    lab.kill()
    storage = (await lab.boot()).storage
    boundary = storage.unchecked_boundary()
    assert storage.is_unchecked(ledger)
    assert boundary is not None and boundary.recovering == {ledger}


async def test_marks_of_before_stay_without_a_note(lab: BootLab) -> None:
    _idle, busy = await crashed(lab)
    await lab.boot()
    await go_idle(lab)
    lab.kill()
    assert (await lab.boot()).storage.limbo_ledgers() == [busy]


async def test_an_unchecked_ledger_of_before_is_marked_again_without_a_note(lab: BootLab) -> None:
    await lab.boot()
    closed = await lab.ledger(closed_at=1)
    await lab.add(closed, 0, recovery=True)
    lab.kill()
    await lab.boot()
    await go_idle(lab)
    lab.kill()
    boundary = (await lab.boot()).storage.unchecked_boundary()
    assert boundary is not None and boundary.epoch == 3 and boundary.covers(closed)


async def test_an_unchecked_ledger_that_nobody_lists_any_more_stays_unchecked(lab: BootLab) -> None:
    await lab.boot()
    deleted = await lab.ledger()
    await lab.add(deleted, 0)
    await asyncio.to_thread(lab.now.storage.maintenance.checkpoint)  # type: ignore[union-attr]
    await lab.add(deleted, 1)
    await lab.store.delete_ledger(deleted)
    lab.kill()
    await lab.boot()
    await go_idle(lab)
    lab.kill()
    assert (await lab.boot()).storage.is_unchecked(deleted)


async def test_a_ledger_in_limbo_of_before_is_marked_again_without_a_note(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    assert lab.now is not None
    maintenance, decision = lab.now.storage.maintenance, LOSS_TAKEN_BACK
    await lab.add(ledger, 0)
    await asyncio.to_thread(maintenance.record_loss, ledger, ids((5, 5)), reason="none has it")
    await asyncio.to_thread(
        maintenance.retract_loss, ledger, ids((5, 5)), decision=decision, limbo_since=1
    )
    await go_idle(lab)
    lab.kill()
    record = (await lab.boot()).storage.record(ledger)
    assert record is not None and (record.limbo, record.mark_epoch) == (True, 2)


@pytest.mark.parametrize("operation", ["barrier", "write_boot"], ids=["before", "behind"])
async def test_a_boot_that_dies_before_or_behind_its_marks_leaves_idle_ledgers_alone(
    faulty: tuple[BootLab, FaultyStore], operation: str
) -> None:
    lab, store = faulty
    idle, busy = await crashed(lab)
    store.before = failing_at(operation)
    with pytest.raises(UnavailableError):
        await lab.boot()
    store.before = None
    booted = await lab.boot()
    assert booted.storage.limbo_ledgers() == [busy] and takes_adds(booted, idle)


# ---- every other row of the boot's table: all ledgers are in doubt, whatever notes say ----------


def rewrite_markers(lab: BootLab, **changes: object) -> None:
    """Of all directories."""
    for directory in lab.settings().directories:
        marker = read_marker(lab.disk, directory).marker
        assert marker is not None
        content = replace(marker, **changes).encode()  # type: ignore[arg-type]
        write_file(lab.disk, directory / MARKER_NAME, content)


def rewrite_one_marker(lab: BootLab) -> None:
    directory = lab.directory(1)
    marker = read_marker(lab.disk, directory).marker
    assert marker is not None
    write_file(lab.disk, directory / MARKER_NAME, replace(marker, keeps_notes=False).encode())


def spoil_a_marker(lab: BootLab) -> None:
    write_file(lab.disk, lab.directory(2) / MARKER_NAME, b"?")


def lose_a_marker(lab: BootLab) -> None:
    (lab.directory(2) / MARKER_NAME).unlink()


def lose_the_journal(lab: BootLab) -> None:
    for path in (lab.directory(0) / JOURNAL_DIRECTORY).iterdir():
        path.unlink()


def be_elsewhere(lab: BootLab) -> None:
    lab.holders, lab.lease_wait_s = ("there",) * 3, 0.0


def be_partly_a_copy(lab: BootLab) -> None:
    lab.holders = ("here", "here", "there")


def leave_the_former_process_running(lab: BootLab) -> None:
    lab.holders, lab.lease_wait_s = ("another-machine here",) * 3, 0.0


def no_version_of_notes(lab: BootLab) -> None:
    rewrite_markers(lab, keeps_notes=False)


def rebuild(lab: BootLab) -> None:
    rebuild_index(lab.directory(1), disk=lab.disk)


def wipe_a_ledger_disk(lab: BootLab) -> None:
    lab.wipe(1)


def wipe_the_journal_disk(lab: BootLab) -> None:
    lab.wipe(0)


@pytest.mark.parametrize(
    "happens",
    [
        no_version_of_notes, rewrite_one_marker, spoil_a_marker, lose_a_marker, lose_the_journal,
        be_elsewhere, be_partly_a_copy, leave_the_former_process_running, rebuild,
        wipe_a_ledger_disk, wipe_the_journal_disk,
    ],
)  # fmt: skip
async def test_where_more_happened_than_a_stop_every_ledger_is_in_doubt(
    lab: BootLab, happens: Callable[[BootLab], None]
) -> None:
    closed = await lab.ledger(closed_at=0)
    idle, busy = await crashed(lab)
    happens(lab)
    booted = await lab.boot()
    assert booted.storage.limbo_ledgers() == [idle, busy]
    assert not takes_adds(booted, idle) and not takes_adds(booted, closed)


@pytest.mark.parametrize("before", ["no boundary", "a boundary"])
async def test_a_marking_that_was_interrupted_doubts_everything(lab: BootLab, before: str) -> None:
    if before == "a boundary":
        lab.note_idle_flushes = None
        await lab.boot()
        lab.kill()
        lab.note_idle_flushes = 1
    await lab.boot()
    idle = await lab.ledger()
    await lab.add(idle, 0)
    await go_idle(lab)
    assert lab.now is not None
    begun = Boundary(lab.now.record.boot_epoch + 1, LedgerId(-1), frozenset({LedgerId(99)}))
    await asyncio.to_thread(lab.now.storage.maintenance.mark, begun, [], fences_lost=False)
    lab.kill()  # as if it had died in the next boot, before the stamps
    assert (await lab.boot()).storage.limbo_ledgers() == [idle]


async def test_where_an_older_version_has_trimmed_the_journal_every_ledger_is_in_doubt(
    lab: BootLab,
) -> None:
    await lab.boot()
    assert lab.now is not None
    ledger, maintenance = await lab.ledger(), lab.now.storage.maintenance
    before = [directory.facts.noted_to for directory in maintenance.directories]
    await lab.add(ledger, 0)
    await asyncio.to_thread(maintenance.journal.begin_file)
    await asyncio.to_thread(maintenance.checkpoint)
    for directory, noted_to in zip(maintenance.directories, before, strict=True):
        directory.write(facts=replace(directory.facts, noted_to=noted_to))
    lab.kill()
    booted = await lab.boot()
    assert booted.storage.limbo_ledgers() == [ledger]
    assert booted.storage.boundary() is not None
    assert booted.storage.boundary().last_ledger_id >= ledger  # type: ignore[union-attr]


async def test_a_disk_that_comes_back_after_a_fix_that_was_interrupted_leaves_all_in_doubt(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    idle, busy = await crashed(lab)
    old = lab.root.with_name("old")
    shutil.copytree(lab.directory(1), old)
    lab.wipe(1)
    store.before = failing_at("barrier")  # the journal is replayed and trimmed without that disk
    with pytest.raises(UnavailableError):
        await lab.boot()
    store.before = None
    shutil.rmtree(lab.directory(1))
    old.rename(lab.directory(1))
    assert (await lab.boot()).storage.limbo_ledgers() == [idle, busy]


async def test_what_is_checked_under_a_boundary_that_stays_is_listed_again(lab: BootLab) -> None:
    """The new mark raises the boundary's epoch over it too."""
    lab.note_idle_flushes = None
    await lab.boot()
    checked, other = await lab.ledger(closed_at=0), await lab.ledger(closed_at=0)
    for ledger in (checked, other):
        await lab.add(ledger, 0, recovery=True)
    lab.kill()
    lab.note_idle_flushes = 1
    await lab.boot()
    await put(lab, LedgerRecord(checked, checked_epoch=2))
    await go_idle(lab)
    lab.kill()
    booted = await lab.boot()
    assert booted.storage.is_unchecked(checked) and booted.unchecked == {checked, other}


async def test_other_modes_neither_need_notes_nor_mark_by_them(lab: BootLab) -> None:
    await lab.boot(mode=DurabilityMode.SYNC)
    ledger = await lab.ledger()
    await lab.add(ledger, 0)
    assert lab.now is not None and lab.now.storage.noted_ledgers() == []
    lab.kill()
    assert (await lab.boot()).storage.limbo_ledgers() == []


async def test_every_open_ledger_is_in_the_state_that_the_test_means(lab: BootLab) -> None:
    idle, _busy = await crashed(lab)
    found = (await lab.store.read_ledger(idle)).value
    assert found.state is LedgerState.OPEN and ME in found.last_fragment.ensemble


async def test_a_bookie_that_keeps_no_notes_doubts_everything(lab: BootLab) -> None:
    lab.note_idle_flushes = None
    await lab.boot()
    ledger = await lab.ledger()
    await lab.add(ledger, 0)
    assert lab.now is not None and lab.now.storage.noted_ledgers() == []
    await asyncio.to_thread(lab.now.storage.maintenance.checkpoint)
    lab.kill()
    lab.note_idle_flushes = 1
    assert (await lab.boot()).storage.limbo_ledgers() == [ledger]
