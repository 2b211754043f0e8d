"""Boots, marks and their end on one bookie with real files: S25-S31, S37-S40, S42, S46."""

import asyncio
import itertools
from pathlib import Path

import pytest
from bookie.boot.boot import Booted
from bookie.errors import StorageError
from bookie.ids import EntryId, LedgerId
from bookie.protocol.admission import LedgerFacts, absent_status, rule_add, rule_read_lac
from bookie.protocol.ledger import Fragment
from bookie.protocol.status import Status
from bookie.server.marks import Marks
from bookie.server.state import BookieState
from bookie.storage.modes import DurabilityMode
from bookie.testing.disk import SimDisk
from boot_lab import ENSEMBLE, ME, OTHERS, BootLab
from storage_kit import ids

KEY = b"k" * 20


def facts(booted: Booted, ledger_id: LedgerId) -> LedgerFacts:
    """What the admission rules are asked with, as the server gathers it."""
    storage = booted.storage
    record, boundary = storage.record(ledger_id), storage.boundary()
    return LedgerFacts(
        is_known=record is not None or storage.last_entry_id(ledger_id) >= 0,
        fenced=record is not None and record.fenced,
        limbo=record is not None and record.limbo,
        unchecked=storage.is_unchecked(ledger_id),
        deleted=record is not None and record.deleted,
        behind_boundary=boundary is not None and boundary.covers(ledger_id),
    )


def normal_add(booted: Booted, ledger_id: LedgerId) -> Status:
    known = facts(booted, ledger_id)
    return rule_add(known, master_key=KEY, is_recovery=False, is_writable=True).status


def marks(lab: BootLab, booted: Booted) -> Marks:
    state = BookieState(ME)
    return Marks(
        booted.storage,
        lab.store,
        bookie_id=ME,
        state=state,
        unchecked=set(booted.unchecked),
    )


async def close_ledger(
    lab: BootLab, ledger_id: LedgerId, end: int, fragments: list[Fragment] | None = None
) -> None:
    found = await lab.store.read_ledger(ledger_id)
    closed = found.value.closed(EntryId(end), length=0, fragments=fragments)
    await lab.store.write_ledger(closed, version=found.version)


async def begin_recovery(lab: BootLab, ledger_id: LedgerId) -> None:
    found = await lab.store.read_ledger(ledger_id)
    await lab.store.write_ledger(found.value.in_recovery(), version=found.version)


async def cleared(lab: BootLab, judge: Marks, ledger_id: LedgerId) -> tuple[bool, str, int]:
    (result,) = await judge.clear([ledger_id])
    return result.may_clear, result.reason.value, result.missing


async def test_s1_s24_a_ledger_closed_before_the_boot_refuses_its_old_writer(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    await lab.add(ledger, 0)
    lab.kill()
    await close_ledger(lab, ledger, 0)
    assert normal_add(await lab.boot(), ledger) is Status.READ_ONLY


async def test_s40_a_deleted_ledger_refuses_its_old_writer(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    await lab.add(ledger, 0)
    assert lab.now is not None
    await asyncio.to_thread(lab.now.storage.maintenance.delete_ledgers, [ledger])
    await lab.store.delete_ledger(ledger)
    lab.kill()
    booted = await lab.boot()
    assert normal_add(booted, ledger) is Status.FENCED
    assert absent_status(facts(booted, ledger)) is Status.NO_SUCH_LEDGER


async def test_s40_also_when_the_disk_with_the_tombstone_is_gone(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    assert lab.now is not None
    await asyncio.to_thread(lab.now.storage.maintenance.delete_ledgers, [ledger])
    await lab.store.delete_ledger(ledger)
    await lab.stop()
    for place in (0, 1, 2):
        lab.wipe(place)
    lab.lease_wait_s = 0.0  # nothing proves any more that the former process is gone
    assert normal_add(await lab.boot(), ledger) is Status.READ_ONLY


async def test_s46_a_ledger_that_names_this_bookie_nowhere_refuses_its_old_writer(
    lab: BootLab,
) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    await close_ledger(lab, ledger, 0, [Fragment(EntryId(0), OTHERS)])
    lab.kill()
    assert normal_add(await lab.boot(), ledger) is Status.READ_ONLY


async def test_a_ledger_made_after_the_boot_takes_adds(lab: BootLab) -> None:
    await lab.boot()
    lab.kill()
    booted = await lab.boot()
    assert normal_add(booted, await lab.ledger()) is Status.OK


async def test_s2_s42_what_is_not_there_is_unknown_in_limbo_and_unchecked(lab: BootLab) -> None:
    await lab.boot()
    limbo, closed = await lab.ledger(), await lab.ledger(closed_at=4)
    lab.kill()
    booted = await lab.boot()
    for ledger in (limbo, closed):
        known = facts(booted, ledger)
        assert absent_status(known) is Status.UNKNOWN
        assert rule_read_lac(known, master_key=KEY, fence=True).status is Status.UNKNOWN


async def test_s30_limbo_ends_with_the_close_and_the_copies_not_before(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    lab.kill()
    judge = marks(lab, await lab.boot())
    assert await cleared(lab, judge, ledger) == (False, "NotClosed", 0)
    await close_ledger(lab, ledger, 1)
    assert await cleared(lab, judge, ledger) == (False, "EntriesMissing", 2)
    await lab.add(ledger, 0, 2, recovery=True)
    assert await cleared(lab, judge, ledger) == (True, "Cleared", 0)
    assert judge.limbo_count == 0


async def test_s31_cleared_means_that_the_copies_survive_the_next_crash(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    lab.kill()
    judge = marks(lab, await lab.boot())
    await close_ledger(lab, ledger, 1)
    await lab.add(ledger, 0, 2, recovery=True)
    assert (await cleared(lab, judge, ledger))[0]
    lab.kill()
    booted = await lab.boot()
    assert booted.storage.held(ledger) == ids((0, 1))
    assert booted.unchecked == {ledger}


async def test_s31_a_crash_between_copies_and_clearing_starts_the_check_again(
    lab: BootLab,
) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    lab.kill()
    await lab.boot()
    await close_ledger(lab, ledger, 1)
    await lab.add(ledger, 0, 2, recovery=True)
    lab.kill()
    booted = await lab.boot()
    assert booted.storage.held(ledger).is_empty
    assert absent_status(facts(booted, ledger)) is Status.UNKNOWN
    assert await cleared(lab, marks(lab, booted), ledger) == (False, "EntriesMissing", 2)


async def test_s37_a_ledger_that_names_this_bookie_only_at_its_close_is_found_by_the_last_look(
    lab: BootLab,
) -> None:
    await lab.boot()
    ledger = await lab.ledger((0, OTHERS))
    await lab.add(ledger, 0, 2, recovery=True)
    lab.kill()
    judge = marks(lab, await lab.boot())
    await close_ledger(lab, ledger, 1, [Fragment(EntryId(0), ENSEMBLE)])
    assert not await judge.finish_unchecked()
    assert await cleared(lab, judge, ledger) == (False, "EntriesMissing", 2)
    await lab.add(ledger, 0, 2, recovery=True)
    assert (await cleared(lab, judge, ledger))[0]
    assert await judge.finish_unchecked()


async def test_s37_a_bookie_that_returns_as_a_replacement_is_not_checked_before_the_close(
    lab: BootLab,
) -> None:
    await lab.boot()
    ledger = await lab.ledger((0, ENSEMBLE), (2, OTHERS))  # its writer replaced this bookie
    await begin_recovery(lab, ledger)
    await lab.add(ledger, 0, 3, recovery=True)  # and the recoverer chose it again, locally
    lab.kill()
    judge = marks(lab, await lab.boot())
    await lab.add(ledger, 0, 2, recovery=True)
    assert await cleared(lab, judge, ledger) == (False, "NotClosed", 0)
    await close_ledger(lab, ledger, 2, [Fragment(EntryId(0), ENSEMBLE)])
    assert await cleared(lab, judge, ledger) == (False, "EntriesMissing", 1)
    # Catches: e2 denied by a bookie whose acknowledgement of it let the recoverer close.


async def test_s39_after_one_lost_disk_no_ledger_denies_anything(lab: BootLab) -> None:
    await lab.boot()
    ledgers = [await lab.ledger(closed_at=4) for _ in range(6)]
    await lab.stop()
    lab.wipe(2)
    booted = await lab.boot()
    assert {absent_status(facts(booted, ledger)) for ledger in ledgers} == {Status.UNKNOWN}


async def test_s29_the_check_goes_on_when_the_journal_is_switched_on(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    lab.kill()
    booted = await lab.boot(mode=DurabilityMode.JOURNAL)
    assert normal_add(booted, ledger) is Status.READ_ONLY
    assert absent_status(facts(booted, ledger)) is Status.UNKNOWN


@pytest.mark.parametrize("step", range(1, 148, 6))
async def test_s26_wherever_a_boot_dies_the_next_one_denies_nothing(
    tmp_path: Path, step: int
) -> None:
    lab = BootLab(tmp_path, disk=SimDisk())
    await lab.boot()
    ledger = await lab.ledger()
    await lab.add(ledger, 0, 3)
    lab.kill()
    assert isinstance(lab.disk, SimDisk)
    cut_after(lab.disk, step)
    try:
        await lab.boot()
        lab.end()
        lab.now = None
    except StorageError:
        pass
    lab.disk = lab.disk.crash(step)
    booted = await lab.boot()
    assert booted.storage.limbo_ledgers() == [ledger]
    assert normal_add(booted, ledger) is Status.READ_ONLY
    lab.end()


def cut_after(disk: SimDisk, operations: int) -> None:
    """The power is cut when so many operations of the disk were done."""
    left = itertools.count(1 - operations)

    def cut(operation: str, path: Path) -> None:
        if next(left) >= 0:
            raise OSError(f"the power is cut before {operation} of {path}")

    disk.watch(cut)


def wipe_simulated(lab: BootLab, place: int) -> None:
    """A new disk: nothing of the old one, simulated or real, is there."""
    lab.wipe(place)
    folder = lab.directory(place)
    for path in (folder, folder / "log"):
        for name in lab.disk.list_directory(path):
            if path / name != folder / "log":
                lab.disk.unlink(path / name)
        lab.disk.sync_directory(path)


@pytest.mark.parametrize("step", range(1, 148, 6))
@pytest.mark.parametrize("mode", [DurabilityMode.JOURNAL, DurabilityMode.MEMORY])
async def test_s39_wherever_the_boot_on_a_new_disk_dies_nothing_is_denied(
    tmp_path: Path, mode: DurabilityMode, step: int
) -> None:
    lab = BootLab(tmp_path, disk=SimDisk())
    await lab.boot(mode=mode)
    ledgers = [await lab.ledger() for _ in range(4)]
    for ledger in ledgers:
        await lab.add(ledger, 0, 3)
    lab.kill()
    wipe_simulated(lab, 1)
    assert isinstance(lab.disk, SimDisk)
    cut_after(lab.disk, step)
    try:
        await lab.boot(mode=mode)
        lab.end()
        lab.now = None
    except StorageError:
        pass
    lab.disk = lab.disk.crash(step)
    booted = await lab.boot(mode=mode)
    for ledger in ledgers:
        whole = booted.storage.held(ledger) == ids((0, 2))
        assert whole or absent_status(facts(booted, ledger)) is Status.UNKNOWN
        assert normal_add(booted, ledger) is Status.READ_ONLY
    lab.end()


@pytest.mark.parametrize("step", range(1, 148, 6))
async def test_wherever_a_calm_boot_dies_durable_acks_stay(tmp_path: Path, step: int) -> None:
    lab = BootLab(tmp_path, disk=SimDisk())
    await lab.boot(mode=DurabilityMode.JOURNAL)
    ledger = await lab.ledger()
    await lab.add(ledger, 0, 3)
    lab.kill()
    assert isinstance(lab.disk, SimDisk)
    cut_after(lab.disk, step)
    try:
        await lab.boot(mode=DurabilityMode.JOURNAL)
        lab.end()
        lab.now = None
    except StorageError:
        pass
    lab.disk = lab.disk.crash(step)
    booted = await lab.boot(mode=DurabilityMode.JOURNAL)
    assert booted.storage.held(ledger) == ids((0, 2))
    lab.end()
