"""The lease: how long a process answers as the bookie without being confirmed."""

import asyncio
import errno
import threading
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import cast

import pytest
from bookie.boot.claim import SupersededError
from bookie.boot.marker import MARKER_NAME, Marker
from bookie.errors import UnavailableError
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import StoredBoot
from bookie.server.lease import Lease
from bookie.server.settings import Lease as LeaseSettings
from bookie.server.state import BookieState, Phase
from bookie.testing.disk import SimDisk
from bookie.testing.metadata import FaultyStore
from boot_lab import ME, BootLab
from storage_kit import run


class LeaseLab:
    """A booted bookie's lease of 75 s, and a clock that tests move."""

    def __init__(self, lab: BootLab, store: FaultyStore) -> None:
        self.lab, self.store, self.now = lab, store, 1000.0
        self.state = BookieState("bookie-0", Phase.SERVING, clock=lambda: self.now)
        assert lab.now is not None
        self.lease = Lease(lab.now, self.state, seconds=75.0)

    async def stored(self) -> StoredBoot:
        found = await self.store.read_boot(ME)
        assert found is not None
        return found.value


@pytest.fixture
async def lab(faulty: tuple[BootLab, FaultyStore]) -> LeaseLab:
    boot, store = faulty
    await boot.boot()
    lab = LeaseLab(boot, store)
    await lab.lease.confirm()
    return lab


async def test_a2_an_outage_shorter_than_the_lease_changes_nothing(lab: LeaseLab) -> None:
    lab.now += 74.9
    assert lab.state.look_at_lease() and lab.state.is_writable


async def test_a2_a_process_that_was_not_confirmed_for_longer_takes_nothing(lab: LeaseLab) -> None:
    lab.now += 75.0
    assert not lab.state.look_at_lease()
    assert not lab.state.is_writable and "may have taken its place" in lab.state.message


async def test_the_lease_runs_from_before_the_write_that_confirmed_it(lab: LeaseLab) -> None:
    async def slow(name: str) -> None:
        lab.now += 60.0

    lab.store.before = slow
    await lab.lease.confirm()
    lab.now += 15.0
    assert not lab.state.look_at_lease()


async def test_a_confirmation_that_took_longer_than_the_lease_gives_none(lab: LeaseLab) -> None:
    async def slow(name: str) -> None:
        lab.now += 75.0

    lab.store.before = slow
    await lab.lease.confirm()
    assert not lab.state.is_leased


async def test_a_confirmation_ends_what_its_absence_began(lab: LeaseLab) -> None:
    lab.now += 3600.0
    lab.state.look_at_lease()
    await lab.lease.confirm()
    assert lab.state.is_leased and lab.state.is_writable and not lab.state.message


async def test_a_store_that_is_away_prolongs_nothing(lab: LeaseLab) -> None:
    lab.store.is_out = True
    lab.now += 70.0
    with pytest.raises(UnavailableError):
        await lab.lease.confirm()
    lab.now += 5.0
    assert not lab.state.look_at_lease()


async def test_a2_another_process_that_booted_ends_it(lab: LeaseLab) -> None:
    found = await lab.store.read_boot(ME)
    assert found is not None
    await lab.store.write_boot(ME, StoredBoot(2, "rival"), version=found.version)
    with pytest.raises(SupersededError):
        await lab.lease.confirm()


async def test_a2_a_newer_epoch_that_somebody_names_ends_it_until_the_store_denies(
    lab: LeaseLab,
) -> None:
    heard: list[int] = []
    lab.state.on_newer_epoch = lambda: heard.append(lab.state.epoch_heard)
    lab.state.boot_epoch = 1
    for epoch in (1, 2, 2):
        lab.state.hear_epoch(epoch)
    assert heard == [2] and not lab.state.is_leased
    await lab.lease.confirm()
    assert lab.state.is_leased


async def test_a2_a_confirmation_denies_no_epoch_that_was_named_while_it_was_under_way(
    lab: LeaseLab,
) -> None:
    async def named(name: str) -> None:
        lab.state.hear_epoch(7)

    lab.store.before = named
    await lab.lease.confirm()
    assert not lab.state.is_leased
    await lab.lease.confirm()
    assert lab.state.is_leased and lab.state.is_writable


# Generations


async def test_a4_the_generation_rises_with_what_is_written_and_only_then(lab: LeaseLab) -> None:
    before = await lab.stored()
    await lab.lease.confirm()
    assert await lab.stored() == before
    await lab.lab.add(await lab.lab.ledger(), 0)
    await lab.lease.confirm()
    assert (await lab.stored()).generation == before.generation + 1


async def test_a4_what_is_written_while_the_generation_rises_has_it_rise_again(
    tmp_path: Path,
) -> None:
    disk, loop = SimDisk(), asyncio.get_running_loop()
    boot = BootLab(tmp_path, store=FaultyStore(MemoryStore()), disk=disk)
    await boot.boot()
    lab, ledger = LeaseLab(boot, cast(FaultyStore, boot.store)), await boot.ledger()
    await boot.add(ledger, 0)
    rising, added = asyncio.Event(), threading.Event()

    def observe(operation: str, path: Path) -> None:
        if path.name.startswith(MARKER_NAME) and not added.is_set():
            loop.call_soon_threadsafe(rising.set)
            assert added.wait(30)

    disk.watch(observe)
    confirming = asyncio.create_task(lab.lease.confirm())
    await rising.wait()
    assert boot.now is not None
    boot.now.storage.add_run(run(ledger, 1), done=lambda _error: None)
    added.set()
    await confirming
    before = await lab.stored()
    await lab.lease.confirm()
    assert (await lab.stored()).generation == before.generation + 1
    boot.end()


async def test_a4_the_disks_have_a_generation_before_the_store_has_it(lab: LeaseLab) -> None:
    before = (await lab.stored()).generation
    await lab.lab.add(await lab.lab.ledger(), 0)
    lab.store.is_out = True
    with pytest.raises(UnavailableError):
        await lab.lease.confirm()
    found = [each.marker for each in lab.lab.markers()]
    assert {(m.generation, m.confirmed) for m in found if isinstance(m, Marker)} == {
        (before + 1, before)
    }


async def test_a4_a_generation_that_a_full_disk_did_not_take_is_not_claimed(tmp_path: Path) -> None:
    disk = SimDisk()
    full = BootLab(tmp_path, store=FaultyStore(MemoryStore()), disk=disk)
    await full.boot()
    lab = LeaseLab(full, cast(FaultyStore, full.store))
    await full.add(await full.ledger(), 0)
    disk.fail("write", pattern=f"{MARKER_NAME}*", error=errno.ENOSPC)
    await lab.lease.confirm()
    lowest = min(each.generation or 0 for each in full.markers())
    assert (await lab.stored()).generation <= lowest
    full.end()


@pytest.mark.parametrize("at", range(4))
async def test_a4_a_generation_that_found_no_room_in_any_directory_rises_at_the_next_turn(
    tmp_path: Path, at: int
) -> None:
    full = BootLab(tmp_path, store=FaultyStore(MemoryStore()), disk=(disk := SimDisk()))
    await full.boot()
    lab, writes = LeaseLab(full, cast(FaultyStore, full.store)), count()

    def fill(operation: str, path: Path) -> None:
        if operation == "write" and path.name.startswith(MARKER_NAME) and next(writes) == at:
            raise OSError(errno.ENOSPC, "full")

    await lab.lease.confirm()
    before = await lab.stored()
    await full.add(await full.ledger(), 0)
    disk.watch(fill)
    await lab.lease.confirm()
    await lab.lease.confirm()
    assert (await lab.stored()).generation > before.generation
    full.end()


async def test_a_rollback_of_the_store_is_told_until_a_person_accepts_it(lab: LeaseLab) -> None:
    assert isinstance(lab.store.inner, MemoryStore)
    for _ in range(2):
        lab.store.inner.cluster.boots.clear()
        for _turn in range(2):
            await lab.lease.confirm()
            assert "it says nothing of bookie-0" in lab.state.metadata_rolled_back
        found = await lab.store.read_boot(ME)
        assert found is not None
        accepted = replace(found.value, rolled_back="")
        await lab.store.write_boot(ME, accepted, version=found.version)
        await lab.lease.confirm()
        assert lab.state.metadata_rolled_back == ""


def test_the_lease_outlives_an_ordinary_outage_and_its_successor_waits_longer() -> None:
    assert LeaseSettings().seconds > 60.0
    assert LeaseSettings().wait_s > LeaseSettings().seconds


def test_a_lease_too_short_for_some_tries_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 3 times"):
        LeaseSettings.model_validate({"seconds": 10, "confirmSeconds": 5})


def test_that_the_lease_is_over_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    state = BookieState(ME)
    state.lease_until = 0.0
    for _ in range(3):
        assert not state.look_at_lease()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
