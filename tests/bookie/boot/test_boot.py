"""The boot over a real storage: epochs, marks, order, and what each way of stopping means."""

import asyncio
from collections import ChainMap
from collections.abc import Awaitable, Callable
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from bookie.boot.boot import unclean_reason
from bookie.boot.boundary_marks import list_existing, mark_existing
from bookie.boot.cookie_fix import FixPolicy
from bookie.boot.marker import MARKER_NAME
from bookie.boot.stamps import read_stamp
from bookie.boot.verdicts import Decision, Kind
from bookie.errors import BootRefusedError, StorageError, UnavailableError
from bookie.metadata.store import StoredBoot
from bookie.storage.log_files import LOG_FILES
from bookie.storage.modes import DurabilityMode
from bookie.storage.opening import OpenReport
from bookie.storage.rebuild import rebuild_index
from bookie.storage.sqlite import DatabaseFile
from bookie.testing.disk import SimDisk
from bookie.testing.metadata import FaultyStore
from boot_lab import ENSEMBLE, ME, OTHERS, BootLab, failing_at
from storage_kit import ids

JOURNAL, MEMORY, SYNC = DurabilityMode.JOURNAL, DurabilityMode.MEMORY, DurabilityMode.SYNC


# ---- the calm cases -----------------------------------------------------------------------------


async def test_a_new_bookie_gets_cookie_stamps_epoch_and_markers(lab: BootLab) -> None:
    booted = await lab.boot()
    record = booted.record
    assert (record.boot_epoch, record.clean, record.reason) == (1, True, "FirstBoot")
    assert lab.running() == {(1, MEMORY)}
    epoch, cookie = await lab.store.read_boot(ME), await lab.store.read_cookie(ME)
    assert epoch is not None and epoch.value.epoch == 1
    assert cookie is not None and len(cookie.value.ledger_dirs) == 2


async def test_a_new_bookie_fences_nothing_since_writers_are_about_to_choose_it(
    lab: BootLab,
) -> None:
    await lab.ledger((0, OTHERS))
    booted = await lab.boot()
    assert booted.storage.boundary() is None
    assert booted.record.ledgers_fenced == 0


async def test_a_clean_stop_clears_the_markers_and_the_next_boot_is_clean(lab: BootLab) -> None:
    await lab.boot()
    await lab.stop()
    assert not any(found.is_dirty for found in lab.markers())
    record = (await lab.boot()).record
    assert (record.boot_epoch, record.clean, record.reason) == (2, True, "CleanStop")
    assert record.ledgers_fenced == record.ledgers_in_limbo == record.ledgers_unchecked == 0


async def test_every_boot_stamps_every_directory_with_its_epoch(lab: BootLab) -> None:
    await lab.boot()
    lab.kill()
    await lab.boot()
    stamps = [read_stamp(lab.disk, path) for path in lab.settings().directories]
    assert [(s.role, s.index, s.boot_epoch) for s in stamps if s] == [
        ("journal", 0, 2), ("ledger", 0, 2), ("ledger", 1, 2),
    ]  # fmt: skip
    assert len({s.disk_id for s in stamps if s}) == 3


# ---- what an unclean stop means, by the mode of the boot that was stopped -----------------------


async def test_memory_mode_forgets_and_says_so(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    await lab.add(ledger, 0, 5)
    lab.kill()
    booted = await lab.boot()
    assert (booted.record.clean, booted.record.reason) == (False, "UncleanShutdown")
    assert booted.record.previous_mode is MEMORY
    assert booted.storage.held(ledger).is_empty
    assert booted.storage.limbo_ledgers() == [ledger]


@pytest.mark.parametrize("mode", [JOURNAL, SYNC])
async def test_journal_and_sync_modes_lose_nothing_and_mark_nothing(
    lab: BootLab, mode: DurabilityMode
) -> None:
    await lab.boot(mode=mode)
    ledger = await lab.ledger()
    await lab.add(ledger, 0, 5)
    lab.kill()
    booted = await lab.boot(mode=mode)
    assert (booted.record.clean, booted.record.reason) == (False, "UncleanShutdown")
    assert booted.storage.held(ledger) == ids((0, 4))
    assert booted.storage.boundary() is None and not booted.storage.limbo_ledgers()


@pytest.mark.parametrize(("mode", "marks"), [(SYNC, True), (JOURNAL, False)])
async def test_a_torn_log_tail_counts_unless_the_journal_has_it(
    lab: BootLab, mode: DurabilityMode, marks: bool
) -> None:
    await lab.boot(mode=mode)
    ledger = await lab.ledger()
    await lab.add(ledger, 0, 5)
    lab.kill()
    tear_logs(lab)
    booted = await lab.boot(mode=mode)
    assert booted.record.reason == ("TornLog" if marks else "UncleanShutdown")
    assert booted.storage.limbo_ledgers() == ([ledger] if marks else [])


def tear_logs(lab: BootLab) -> None:
    """The last 100 bytes that were written to each log are something else."""
    for path in lab.settings().storage.ledger_dirs:
        for name in (path / "log").glob("*" + LOG_FILES.suffix):
            content = name.read_bytes()
            end = len(content.rstrip(b"\0"))
            name.write_bytes(content[: end - 100] + b"torn" * 25 + content[end:])


async def test_a_torn_log_is_remembered_by_a_boot_that_comes_after_a_stopped_one(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await lab.boot(mode=SYNC)
    ledger = await lab.ledger()
    await lab.add(ledger, 0, 5)
    lab.kill()
    tear_logs(lab)
    store.before = failing_at("new_ledger_id")
    with pytest.raises(UnavailableError):
        await lab.boot(mode=SYNC)
    store.before = None
    assert (await lab.boot(mode=SYNC)).record.reason == "TornLog"


async def test_s29_the_mode_in_the_marker_decides_not_todays(lab: BootLab) -> None:
    await lab.boot(mode=MEMORY)
    ledger = await lab.ledger()
    await lab.add(ledger, 0)
    lab.kill()
    record = (await lab.boot(mode=JOURNAL)).record
    assert (record.reason, record.ledgers_in_limbo) == ("UncleanShutdown", 1)
    assert (record.previous_mode, record.mode) == (MEMORY, JOURNAL)


async def test_after_a_clean_stop_the_modes_may_change_without_marks(lab: BootLab) -> None:
    await lab.boot(mode=MEMORY)
    await lab.ledger()
    await lab.stop()
    assert (await lab.boot(mode=SYNC)).record.clean


async def test_an_unreadable_marker_counts_as_memory_mode(lab: BootLab) -> None:
    await lab.boot(mode=JOURNAL)
    await lab.ledger()
    lab.kill()
    for place in range(3):
        (lab.directory(place) / MARKER_NAME).write_bytes(b"{half a mark")
    lab.lease_wait_s = 0.0  # nor does it say whose lock it was
    record = (await lab.boot(mode=JOURNAL)).record
    assert (record.reason, record.ledgers_in_limbo) == ("UncleanShutdown", 1)


async def test_one_marker_in_one_directory_is_enough(lab: BootLab) -> None:
    await lab.boot()
    lab.kill()
    for place in (0, 2):
        (lab.directory(place) / MARKER_NAME).unlink()
    assert (await lab.boot()).record.reason == "UncleanShutdown"


# ---- marks --------------------------------------------------------------------------------------


async def test_marks_by_what_metadata_says_of_a_ledger(lab: BootLab) -> None:
    await lab.boot()
    open_here = await lab.ledger()
    closed_here = await lab.ledger(closed_at=4)
    earlier_fragment = await lab.ledger((0, ENSEMBLE), (10, OTHERS))
    elsewhere = await lab.ledger((0, OTHERS))
    lab.kill()
    booted = await lab.boot()
    storage, record = booted.storage, booted.record
    assert storage.limbo_ledgers() == [open_here]
    assert booted.unchecked == {closed_here, earlier_fragment}
    assert (record.ledgers_fenced, record.ledgers_in_limbo, record.ledgers_unchecked) == (4, 1, 2)
    boundary = storage.boundary()
    assert boundary is not None and boundary.covers(elsewhere)


async def test_s24_s40_s46_all_that_existed_is_fenced_closed_deleted_or_of_others(
    lab: BootLab,
) -> None:
    await lab.boot()
    closed = await lab.ledger(closed_at=3)
    deleted = await lab.ledger()
    elsewhere = await lab.ledger((0, OTHERS), closed_at=0)
    lab.kill()
    await lab.store.delete_ledger(deleted)
    boundary = (await lab.boot()).storage.boundary()
    assert boundary is not None
    assert all(boundary.covers(ledger_id) for ledger_id in (closed, deleted, elsewhere))
    assert not boundary.covers(await lab.store.new_ledger_id())


async def test_ledgers_with_explicit_ids_above_the_generator_are_fenced_one_by_one(
    lab: BootLab,
) -> None:
    await lab.boot()
    chosen = await lab.ledger(ledger_id=10**12)
    lab.kill()
    boundary = (await lab.boot()).storage.boundary()
    assert boundary is not None and boundary.extra_ids == {chosen}


async def test_s40_an_explicit_id_that_was_deleted_is_marked_while_entries_lie_here(
    lab: BootLab,
) -> None:
    lab.note_idle_flushes = None
    await lab.boot()
    chosen = await lab.ledger(ledger_id=10**12)
    await lab.add(chosen, 0)
    assert lab.now is not None
    await asyncio.to_thread(lab.now.storage.maintenance.checkpoint)
    await lab.store.delete_ledger(chosen)
    lab.kill()
    boundary = (await lab.boot()).storage.boundary()
    assert boundary is not None and boundary.covers(chosen)


async def test_s38_an_ensemble_change_that_was_acked_in_puts_the_ledger_in_limbo(
    lab: BootLab,
) -> None:
    await lab.boot()
    ledger = await lab.ledger((0, OTHERS))
    before = await lab.store.read_ledger(ledger)
    fragments = [*before.value.fragments, type(before.value.last_fragment)(7, ENSEMBLE)]  # type: ignore[arg-type]
    await lab.store.write_ledger(before.value.with_fragments(fragments), version=before.version)
    await lab.add(ledger, 7)
    lab.kill()
    assert (await lab.boot()).storage.limbo_ledgers() == [ledger]


async def test_s30_limbo_stays_over_clean_and_unclean_restarts(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    lab.kill()
    await lab.boot()
    await lab.stop()
    booted = await lab.boot()
    assert booted.record.clean
    assert booted.storage.limbo_ledgers() == [ledger]
    lab.kill()
    assert (await lab.boot()).storage.limbo_ledgers() == [ledger]


async def test_what_is_unchecked_stays_so_over_a_clean_restart(lab: BootLab) -> None:
    await lab.boot()
    closed = await lab.ledger(closed_at=4)
    lab.kill()
    await lab.boot()
    await lab.stop()
    booted = await lab.boot()
    assert booted.unchecked == {closed}
    assert booted.storage.is_unchecked(closed)


# ---- order and interruptions --------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["new_ledger_id", "ledger_ids", "read_ledger", "write_boot"])
async def test_s26_a_boot_that_dies_leaves_the_older_markers_and_the_next_marks_all(
    faulty: tuple[BootLab, FaultyStore], operation: str
) -> None:
    lab, store = faulty
    await lab.boot()
    ledger = await lab.ledger()
    lab.kill()
    store.before = failing_at(operation)
    with pytest.raises(UnavailableError):
        await lab.boot()
    assert lab.running() == {(1, MEMORY)}
    store.before = None
    booted = await lab.boot()
    assert booted.record.reason == "UncleanShutdown"
    assert booted.storage.limbo_ledgers() == [ledger]
    assert booted.record.boot_epoch > 1


async def test_s26_a_stop_while_marking_keeps_the_older_markers(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await lab.boot()
    await lab.ledger()
    lab.kill()
    reached = asyncio.Event()

    async def hang(name: str) -> None:
        if name == "ledger_ids":
            reached.set()
            await asyncio.Event().wait()

    store.before = hang
    booting = asyncio.create_task(lab.begin().run())
    await reached.wait()
    assert lab.steps[-1] == "marking"
    assert not booting.done(), "S25: nothing is served while the listing goes on"
    booting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await booting
    assert lab.running() == {(1, MEMORY)}


async def test_marks_of_a_boot_that_died_before_it_stamped_are_of_an_unclean_stop(
    lab: BootLab,
) -> None:
    booted = await lab.boot(mode=SYNC)
    mark_existing(booted.storage, 2, await list_existing(lab.store, ME))
    await lab.stop()
    assert (await lab.boot(mode=SYNC)).record.reason == "MarkingInterrupted"


REASONS: list[tuple[str, dict[str, Any]]] = [
    ("DiskReplaced", {"kind": Kind.FIX}),
    ("JournalLost", {"journal_lost": True}),
    ("IndexRebuilt", {"index_rebuilt": True}),
    ("UncleanShutdown", {"is_dirty": True, "previous_mode": MEMORY}),
    ("JournalLost", {"lacks_journal": True}),
    ("TornLog", {"torn": True}),
]
"""docs/design.md, section 4: what each shows alone, the gravest first."""


@pytest.mark.parametrize("shown", [*product((False, True), repeat=len(REASONS))])
def test_of_all_that_shows_a_loss_the_gravest_gives_the_reason(shown: tuple[bool, ...]) -> None:
    found = [one for one, is_shown in zip(REASONS, shown, strict=True) if is_shown]
    facts = ChainMap(*(facts for _, facts in found), {"kind": Kind.NORMAL, "previous_mode": SYNC})
    of_report = {field.name for field in fields(OpenReport)}
    decision = Decision(verdicts=(), **{k: v for k, v in facts.items() if k not in of_report})
    report = OpenReport(**{k: v for k, v in facts.items() if k in of_report})
    assert unclean_reason(decision, report) == (found[0][0] if found else "")


async def stopped(lab: BootLab) -> None:
    await lab.stop()


async def killed(lab: BootLab) -> None:
    lab.kill()


async def stopped_and_rebuilt(lab: BootLab) -> None:
    await lab.stop()
    rebuild_index(lab.directory(1), disk=lab.disk)


async def stopped_and_wiped(lab: BootLab) -> None:
    await lab.stop()
    lab.wipe(2)


@pytest.mark.parametrize("mode", [JOURNAL, MEMORY, SYNC])
@pytest.mark.parametrize("end", [stopped, killed, stopped_and_rebuilt, stopped_and_wiped])
async def test_a_boot_that_dies_before_it_serves_passes_for_clean_after_a_clean_stop_alone(
    faulty: tuple[BootLab, FaultyStore],
    mode: DurabilityMode,
    end: Callable[[BootLab], Awaitable[None]],
) -> None:
    lab, store = faulty
    await lab.boot(mode=mode)
    await end(lab)
    store.before = failing_at("write_boot", after=1)  # the store would know that it serves
    with pytest.raises(UnavailableError):
        await lab.boot(mode=mode)
    assert {(m.marker.boot_epoch, m.is_dirty) for m in lab.markers() if m.marker} == {
        (2, end is not stopped)
    }


async def test_an_interrupted_first_boot_is_still_a_first_boot(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    store.before = failing_at("write_boot")
    with pytest.raises(UnavailableError):
        await lab.boot()
    store.before = None
    (lab.directory(2) / "STAMP").unlink()  # as if it had come no further than the first two
    assert (await lab.boot()).record.reason == "FirstBoot"


async def test_a_first_boot_that_is_interrupted_again_and_again_is_still_one(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    store.before = failing_at("write_boot")
    for _ in range(3):
        with pytest.raises(UnavailableError):
            await lab.boot(policy=FixPolicy.NEVER)
        (lab.directory(2) / "STAMP").unlink()
    store.before = None
    assert (await lab.boot(policy=FixPolicy.NEVER)).record.reason == "FirstBoot"


async def test_the_epoch_is_above_all_that_any_disk_or_the_store_says(lab: BootLab) -> None:
    await lab.boot()
    await lab.stop()
    found = await lab.store.read_boot(ME)
    assert found is not None
    lab.disk.unlink(lab.directory(1) / "STAMP")
    booted = await lab.boot()
    assert booted.record.boot_epoch == 2
    await lab.stop()
    assert (await lab.boot()).record.boot_epoch == 3


async def test_another_process_of_the_same_id_that_booted_meanwhile_is_noticed(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await lab.boot()
    await lab.stop()
    lab.wipe(1)

    async def rival(name: str) -> None:
        if name == "write_cookie":  # long after this boot has read the epoch
            store.before = None
            found = await store.inner.read_boot(ME)
            assert found is not None
            await store.inner.write_boot(ME, StoredBoot(2), version=found.version)

    store.before = rival
    with pytest.raises(BootRefusedError, match="another process uses this bookie id"):
        await lab.boot()


async def test_s27_markers_outlive_a_power_cut_right_after_the_boot(sim: BootLab) -> None:
    await sim.boot()
    assert isinstance(sim.disk, SimDisk)
    cut = sim.disk.power_cut()
    sim.end()
    sim.now, sim.disk = None, cut
    assert all(found.is_dirty for found in sim.markers())


@pytest.mark.parametrize("operation", ["sync", "unlink", "syncdir"])
async def test_s28_a_stop_that_could_not_flush_keeps_a_marker(sim: BootLab, operation: str) -> None:
    ledger = await sim.ledger()
    await sim.boot()
    await sim.add(ledger, 0, 5)
    assert isinstance(sim.disk, SimDisk)
    sim.disk.fail(operation)
    with pytest.raises(StorageError):
        await sim.stop()
    assert any(found.is_dirty for found in sim.disk_after_power_cut().markers())


async def test_a_bookie_that_ledgers_name_is_not_new_whatever_its_disks_say(lab: BootLab) -> None:
    ledger = await lab.ledger()
    record = (await lab.boot()).record
    assert (record.clean, record.reason, record.ledgers_in_limbo) == (False, "IdentityLost", 1)
    assert lab.now is not None and lab.now.storage.limbo_ledgers() == [ledger]


async def test_a_bookie_that_once_booted_fences_although_nothing_names_it_any_more(
    lab: BootLab,
) -> None:
    elsewhere = await lab.ledger((0, OTHERS), closed_at=0)
    await lab.store.initialise()
    await lab.store.write_boot(ME, StoredBoot(7), version=None)
    booted = await lab.boot()
    boundary = booted.storage.boundary()
    assert (booted.record.boot_epoch, booted.record.reason) == (8, "IdentityLost")
    assert boundary is not None and boundary.covers(elsewhere)


async def test_b4_a_boot_makes_durable_what_was_left_in_every_index(
    lab: BootLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled, settle = list[Path](), DatabaseFile.settle

    def noted(database: DatabaseFile) -> None:
        settled.append(database.path.parent)
        settle(database)

    monkeypatch.setattr(DatabaseFile, "settle", noted)
    await lab.boot()
    assert settled == list(lab.settings().storage.ledger_dirs)
