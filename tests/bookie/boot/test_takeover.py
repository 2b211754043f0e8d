"""One process per bookie: what a boot waits for, what it believes, whom it refuses."""

import asyncio
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from bookie.boot.cookie_fix import FixPolicy
from bookie.boot.lock import FolderLock
from bookie.boot.marker import MARKER_NAME
from bookie.boot.takeover import in_thread
from bookie.errors import BootRefusedError, StorageError, UnavailableError
from bookie.metadata.store import BookieInfo, StoredBoot
from bookie.storage.modes import DurabilityMode
from bookie.storage.storage import Storage
from bookie.testing.disk import SimDisk
from bookie.testing.metadata import FaultyStore, Hook
from boot_lab import ME, BootLab, failing_at

JOURNAL, MEMORY, SYNC = DurabilityMode.JOURNAL, DurabilityMode.MEMORY, DurabilityMode.SYNC
WAITING = "waiting until a former process can no longer answer"
ELSEWHERE = ("there", "there", "there")


async def stored(lab: BootLab) -> StoredBoot:
    found = await lab.store.read_boot(ME)
    assert found is not None
    return found.value


async def test_a2_after_a_crash_elsewhere_a_boot_waits_before_it_serves(lab: BootLab) -> None:
    await lab.boot(mode=SYNC)
    lab.kill()
    lab.holders, lab.lease_wait_s = ELSEWHERE, 3600.0
    booting = await lab.begun_until(WAITING, lab.begin(mode=SYNC))
    assert (await asyncio.wait({booting}, timeout=0.5))[1], "it went on at once"
    claimed = await stored(lab)
    assert (claimed.epoch, claimed.served) == (2, 1), "its rival is to notice, while it waits"
    assert {m.marker.boot_epoch for m in lab.markers() if m.marker} == {1}
    booting.cancel()
    await asyncio.wait([booting])


async def test_a2_when_the_wait_is_over_it_serves(lab: BootLab) -> None:
    await lab.boot(mode=SYNC)
    lab.kill()
    lab.holders, lab.lease_wait_s = ELSEWHERE, 0.0
    assert (await lab.boot(mode=SYNC)).record.boot_epoch == 2
    assert WAITING in lab.steps and (await stored(lab)).served == 2


async def test_a2_what_a_former_process_may_take_while_a_boot_waits_is_not_denied(
    lab: BootLab,
) -> None:
    await lab.boot()
    lab.kill()
    lab.holders, lab.lease_wait_s = ELSEWHERE, 0.5
    booting = await lab.begun_until(WAITING, lab.begin())
    younger = await lab.ledger()
    lab.now = await booting
    storage = lab.now.storage
    assert younger in storage.limbo_ledgers() and storage.is_unchecked(younger)
    assert lab.now.record.ledgers_in_limbo == 1


async def test_a2_a_former_process_is_outlived_once_though_the_store_goes_away(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await lab.boot()
    lab.kill()
    lab.holders, lab.lease_wait_s = ELSEWHERE, 0.1
    booting = await lab.begun_until(WAITING, lab.begin())
    store.is_out = True
    with pytest.raises(UnavailableError):
        await booting
    store.is_out, lab.lease_wait_s = False, 3600.0
    assert (await lab.boot()).record.reason == "UncleanShutdown"


async def test_a2_a_boot_outwaits_the_lease_that_was_told_and_not_its_own(lab: BootLab) -> None:
    lab.lease_s = 3600.0
    await lab.boot(mode=SYNC)
    lab.kill()
    lab.holders, lab.lease_wait_s, lab.lease_s = ELSEWHERE, 0.0, 0.0
    for _ in range(2):  # the second finds the claim of the first, who waited
        booting = await lab.begun_until(WAITING, lab.begin(mode=SYNC))
        assert (await asyncio.wait({booting}, timeout=0.2))[1], "it went on at once"
        booting.cancel()
        await asyncio.wait([booting])


async def test_a2_the_lease_that_is_told_is_that_of_whoever_serves(lab: BootLab) -> None:
    for lease_s in (3600.0, 75.0):
        lab.lease_s = lease_s
        await lab.boot()
        assert (await stored(lab)).lease_s == lease_s
        lab.kill()


async def test_a2_the_lock_of_the_same_folder_proves_that_the_former_process_is_gone(
    lab: BootLab,
) -> None:
    await lab.boot()
    lab.kill()
    await lab.boot()
    assert WAITING not in lab.steps


async def test_a2_a_lock_proves_nothing_of_whoever_served_elsewhere_since(lab: BootLab) -> None:
    await lab.boot()
    lab.kill()
    found = await lab.store.read_boot(ME)
    assert found is not None
    await lab.store.write_boot(ME, StoredBoot(2, "elsewhere", served=2), version=found.version)
    lab.lease_wait_s = 0.0
    booting = await lab.begun_until("awaiting approval", lab.begin())
    assert lab.pending is not None and lab.pending.progress.plan is not None
    lab.pending.approve(lab.pending.progress.plan.plan_id)
    lab.now = await booting
    assert WAITING in lab.steps


async def test_a2_a_clean_stop_proves_it_anywhere(lab: BootLab) -> None:
    await lab.boot()
    await lab.stop()
    lab.holders = ELSEWHERE
    await lab.boot()
    assert WAITING not in lab.steps


async def test_a2_with_every_disk_new_nothing_proves_that_the_former_process_is_gone(
    lab: BootLab,
) -> None:
    await lab.boot()
    lab.kill()
    for place in range(3):
        lab.wipe(place)
    lab.lease_wait_s = 0.0
    assert (await lab.boot()).record.reason == "DiskReplaced"
    assert WAITING in lab.steps


async def test_a2_a_boot_with_new_disks_that_dies_proves_nothing_to_the_next_one(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await lab.boot()
    lab.kill()
    for place in range(3):
        lab.wipe(place)
    lab.lease_wait_s, store.before = 0.0, failing_at("write_boot")
    with pytest.raises(UnavailableError):
        await lab.boot()
    store.before = None
    await lab.boot()
    assert WAITING in lab.steps


async def test_a2_one_disk_that_stayed_proves_it_for_those_that_are_new(lab: BootLab) -> None:
    await lab.boot()
    lab.kill()
    for place in range(2):
        lab.wipe(place)
    await lab.boot()
    assert WAITING not in lab.steps


async def test_a2_locks_that_cannot_be_named_prove_nothing(lab: BootLab) -> None:
    lab.holders = ("", "", "")
    await lab.boot()
    lab.kill()
    lab.lease_wait_s = 0.0
    await lab.boot()
    assert WAITING in lab.steps


async def test_a2_a_cloned_folder_has_other_locks(lab: BootLab) -> None:
    with FolderLock([lab.directory(place) for place in range(3)]) as lock:
        ours = lock.holders()
    clone = lab.root.with_name("clone")
    shutil.copytree(lab.root, clone)
    paths = [clone / lab.directory(place).relative_to(lab.root) for place in range(3)]
    with FolderLock(paths) as lock:
        assert not set(lock.holders()) & set(ours) and "" not in lock.holders()


async def test_a2_the_same_folder_has_the_same_lock_again(lab: BootLab) -> None:
    names = []
    for _ in range(2):
        with FolderLock([lab.directory(0)]) as lock:
            names.append(lock.holders())
    assert names[0] == names[1]


async def test_a2_of_two_boots_at_once_one_is_refused(lab: BootLab) -> None:
    await lab.boot(mode=SYNC)
    lab.kill()
    lab.holders, lab.lease_wait_s = ELSEWHERE, 0.05
    booting = await lab.begun_until(WAITING, lab.begin(mode=SYNC))
    found = await lab.store.read_boot(ME)
    assert found is not None
    await lab.store.write_boot(ME, StoredBoot(3, "rival", served=1), version=found.version)
    with pytest.raises(BootRefusedError, match="another process uses this bookie id"):
        await booting


@pytest.mark.parametrize("operation", ["write_boot", "create_cookie"])
async def test_a8_whichever_answer_of_the_store_is_lost_the_next_attempt_gets_through(
    faulty: tuple[BootLab, FaultyStore], operation: str
) -> None:
    lab, store = faulty

    async def lose(name: str) -> None:
        store.lost_replies = int(name == operation)

    store.before = lose
    with pytest.raises(UnavailableError):
        await lab.boot()
    store.before, store.lost_replies = None, 0
    assert (await lab.boot()).record.clean


async def test_a8_an_own_claim_that_lands_after_the_next_attempt_has_looked_is_ours(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await lab.boot()
    await lab.stop()
    found = await store.read_boot(ME)
    assert found is not None

    async def late(name: str) -> None:
        if name == "write_boot":
            store.before = None
            own = StoredBoot(2, "one process", found.value.generation, served=1)
            await store.inner.write_boot(ME, own, version=found.version)

    store.before = late
    lab.nonce = "one process"
    assert (await lab.boot()).record.boot_epoch == 2


async def test_a_boot_that_the_store_does_not_answer_takes_no_clean_stop_away(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    for is_late in (False, True) * 2:
        await lab.boot()
        await lab.stop()
        store.before = out_at_the_last_claim(store, is_late=is_late)
        with pytest.raises(UnavailableError):
            await lab.boot()
        store.before, store.is_out = None, False
        assert (await lab.boot()).record.reason == "CleanStop"
        await store.land()
        await lab.stop()


async def test_a_boot_that_the_store_does_not_answer_makes_no_clean_stop_of_a_crash(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await lab.boot(mode=SYNC)
    await lab.add(await lab.ledger(), 0)
    lab.kill()
    store.before = out_at_the_last_claim(store, is_late=False)
    with pytest.raises(UnavailableError):
        await lab.boot(mode=SYNC)
    store.before, store.is_out = None, False
    record = (await lab.boot(mode=SYNC)).record
    assert (record.clean, record.previous_mode) == (False, SYNC)


async def test_a_first_claim_that_goes_unheard_takes_no_clean_stop_of_a_version_before_away(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await lab.boot()
    await lab.stop()
    await as_a_version_before_left_it(lab)
    store.lost_replies = 1
    with pytest.raises(UnavailableError):
        await lab.boot()
    assert (await lab.boot()).record.reason == "CleanStop"


async def as_a_version_before_left_it(lab: BootLab) -> None:
    """It took its markers away, and wrote bare digits."""
    for place in range(3):
        (lab.directory(place) / MARKER_NAME).unlink()
    found = await lab.store.read_boot(ME)
    assert found is not None
    bare = StoredBoot(found.value.epoch, served=found.value.epoch, is_bare=True)
    await lab.store.write_boot(ME, bare, version=found.version)


def out_at_the_last_claim(store: FaultyStore, *, is_late: bool) -> Hook:
    """A boot writes its claim twice: the second write is late, or never made."""
    writes: list[str] = []

    async def hook(name: str) -> None:
        writes.extend([name] * (name == "write_boot"))
        if len(writes) == 2:
            store.is_out, store.late_writes = not is_late, int(is_late)

    return hook


async def test_whoever_serves_after_a_clean_stop_is_marked_as_dirty(lab: BootLab) -> None:
    for _ in range(2):
        await lab.boot()
        assert all(found.is_dirty for found in lab.markers())
        await lab.stop()
        assert not any(found.is_dirty for found in lab.markers())


# Copies that were put back


@pytest.mark.parametrize("mode", [SYNC, JOURNAL])
async def test_a4_a_copy_elsewhere_of_a_bookie_that_rested_is_not_believed_to_have_synced_all(
    lab: BootLab, mode: DurabilityMode
) -> None:
    await lab.boot(mode=mode)
    ledger = await lab.ledger()
    lab.kill()
    lab.holders, lab.lease_wait_s = ELSEWHERE, 0.0
    booted = await lab.boot(mode=mode)
    assert booted.record.reason == "UncleanShutdown"
    assert booted.storage.limbo_ledgers() == [ledger]


@pytest.mark.parametrize("mode", [SYNC, JOURNAL])
async def test_after_a_power_cut_the_same_files_are_the_same_disks(
    lab: BootLab, mode: DurabilityMode
) -> None:
    lab.holders = tuple(f"boot-1 9 file-{place}" for place in range(3))
    await lab.boot(mode=mode)
    ledger = await lab.ledger()
    await lab.add(ledger, 0)
    lab.kill()
    lab.holders, lab.lease_wait_s = tuple(f"boot-2 8 file-{n}" for n in range(3)), 0.0
    booted = await lab.boot(mode=mode)
    assert WAITING in lab.steps, "the machine was started anew: nothing proves the end"
    assert booted.record.ledgers_in_limbo == 0


async def test_a_registration_that_outstays_a_boot_on_its_own_disks_is_waited_for(
    lab: BootLab,
) -> None:
    await lab.boot(mode=SYNC)
    lab.kill()
    lab.holders, lab.lease_wait_s, lab.rival_wait_s = ELSEWHERE, 0.0, 0.0
    await lab.store.register(BookieInfo(ME, (), {}))
    with pytest.raises(UnavailableError, match="registered and alive"):
        await lab.boot(mode=SYNC)
    await lab.store.unregister(ME)
    assert (await lab.boot(mode=SYNC)).record.boot_epoch == 2


async def test_the_same_volumes_by_the_platforms_word_are_no_copy(lab: BootLab) -> None:
    uids = ("j", "a", "b")
    await lab.boot(mode=SYNC, uids=uids)
    lab.kill()
    lab.holders, lab.lease_wait_s = ELSEWHERE, 0.0
    booted = await lab.boot(mode=SYNC, uids=uids)
    assert booted.record.ledgers_in_limbo == 0 and booted.record.previous_mode is SYNC


@pytest.mark.parametrize("mode", DurabilityMode)
async def test_a4_a_copy_from_before_the_first_answer_is_stale(
    faulty: tuple[BootLab, FaultyStore], mode: DurabilityMode
) -> None:
    lab, store = faulty
    await lab.boot(mode=mode)
    await lab.stop()
    snapshot = lab.root.with_name("snapshot")

    async def copy(name: str) -> None:
        if name == "write_boot":
            shutil.copytree(lab.root, snapshot, dirs_exist_ok=True)

    store.before = copy
    await lab.boot(mode=mode)
    store.before = None
    await lab.confirm()
    lab.kill()
    shutil.rmtree(lab.root)
    snapshot.rename(lab.root)
    with pytest.raises(BootRefusedError, match="older copy of the same boot"):
        await lab.boot(mode=mode, policy=FixPolicy.NEVER)


@pytest.mark.parametrize("mode", DurabilityMode)
async def test_a4_a_volume_put_back_to_an_older_copy_of_the_same_boot_is_stale(
    lab: BootLab, mode: DurabilityMode
) -> None:
    await lab.boot(mode=mode)
    snapshot = lab.root.with_name("snapshot")
    shutil.copytree(lab.root, snapshot)
    await lab.add(await lab.ledger(), 0)
    assert lab.now is not None
    claim, markers = lab.now.claim, lab.now.markers
    raised = markers.raise_generation(confirmed=claim.stored.generation)
    await claim.write(replace(claim.stored, generation=raised))
    lab.kill()
    shutil.rmtree(lab.root)
    snapshot.rename(lab.root)
    with pytest.raises(BootRefusedError, match="older copy of the same boot"):
        await lab.boot(mode=mode, policy=FixPolicy.NEVER)
    booting = await lab.begun_until("awaiting approval", lab.begin(mode=mode))
    assert lab.pending is not None and lab.pending.progress.plan is not None
    plan = lab.pending.progress.plan
    assert lab.pending.approve(plan.plan_id) == ""
    lab.now = await booting
    assert lab.now.record.reason == "DiskStale" and lab.now.record.ledgers_in_limbo == 1


async def test_a4_a_store_put_back_is_told_by_the_next_boot(lab: BootLab) -> None:
    await lab.boot()
    early = dict(lab.cluster.boots)
    await lab.stop()
    for _ in range(2):
        await lab.boot()
        await lab.stop()
    lab.cluster.boots.update(early)
    lab.lease_wait_s = 0.0
    await lab.boot()
    assert "whose directories saw" in (await stored(lab)).rolled_back


@pytest.mark.parametrize("written", [0, 1])
async def test_a4_a_boot_that_died_before_it_wrote_to_the_store_is_no_store_put_back(
    faulty: tuple[BootLab, FaultyStore], written: int
) -> None:
    """Its markers must not call confirmed what the store never came to see."""
    lab, store = faulty
    for _ in range(2):
        await lab.boot()
        lab.kill()
        store.before = failing_at("write_boot", after=written)
        with pytest.raises(UnavailableError):
            await lab.boot()
        store.before = None
        assert (await lab.boot()).claim.stored.rolled_back == ""
        lab.kill()


@pytest.mark.parametrize("is_clean", [True, False])
async def test_a5_a_store_put_back_is_told_over_boots_until_a_person_accepts_it(
    lab: BootLab, is_clean: bool
) -> None:
    for boots in range(3):
        claim = (await lab.boot()).claim
        if boots == 0:
            await claim.write(replace(claim.stored, rolled_back="it says less"))
        assert claim.stored.rolled_back == "it says less"
        await lab.stop() if is_clean else lab.kill()
    found = await lab.store.read_boot(ME)
    assert found is not None
    await lab.store.write_boot(ME, replace(found.value, rolled_back=""), version=found.version)
    assert (await lab.boot()).claim.stored.rolled_back == ""


async def stopped_as_before(lab: BootLab) -> None:
    """A clean stop of a version that left no marker, and digits alone in the store."""
    await lab.boot()
    await lab.stop()
    for place in range(3):
        (lab.directory(place) / "DIRTY").unlink()
    found = await lab.store.read_boot(ME)
    assert found is not None
    bare = StoredBoot(1, served=1, is_bare=True)
    await lab.store.write_boot(ME, bare, version=found.version)


async def test_a_stop_of_a_version_before_is_believed_once(lab: BootLab) -> None:
    await stopped_as_before(lab)
    assert (await lab.boot()).record.reason == "CleanStop"
    await lab.stop()
    for place in range(3):
        (lab.directory(place) / "DIRTY").unlink()
    lab.lease_wait_s = 0.0
    assert (await lab.boot()).record.reason == "UncleanShutdown"


async def test_a_boot_that_dies_before_it_serves_leaves_a_stop_of_before_believed(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await stopped_as_before(lab)
    store.lost_replies, lab.lease_wait_s = 1, 0.0
    with pytest.raises(UnavailableError):
        await lab.boot()
    assert (await stored(lab)).epoch == 2, "the claim has happened, unheard"
    assert (await lab.boot()).record.reason == "CleanStop"
    assert WAITING not in lab.steps


async def test_a_boot_that_dies_before_it_serves_takes_no_clean_stop_away(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await lab.boot()
    await lab.stop()
    claims: list[str] = []

    async def hook(name: str) -> None:
        claims.append(name)
        if name == "write_boot":
            store.lost_replies = 1

    store.before = hook
    with pytest.raises(UnavailableError):
        await lab.boot()
    store.before, store.lost_replies = None, 0
    assert (await lab.boot()).record.reason == "CleanStop"


async def test_work_that_fails_after_its_boot_was_stopped_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began, may_fail = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        may_fail.wait(30)
        raise StorageError("no space")

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(began.wait)
    task.cancel()
    asyncio.get_running_loop().call_soon(may_fail.set)
    with pytest.raises(asyncio.CancelledError) as ended:
        await task
    assert isinstance(ended.value.__cause__, StorageError)
    assert "failed when nobody waited for it any more: no space" in caplog.text


async def test_work_comes_to_its_end_however_often_its_boot_is_cancelled() -> None:
    began, may_end = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        may_end.wait(30)

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(began.wait)
    for _ in range(3):
        task.cancel()
        await asyncio.wait([task], timeout=0)
        assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("cancels", [1, 2, 3])
async def test_a_boot_that_is_stopped_while_it_opens_leaves_nothing_open(
    tmp_path: Path, cancels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, closed, close = BootLab(tmp_path, disk=(disk := SimDisk())), list[Storage](), Storage.close
    monkeypatch.setattr(Storage, "close", lambda one: (close(one), closed.append(one)))
    opening, go_on = threading.Event(), threading.Event()

    def hold(_operation: str, _path: Path) -> None:
        if "replaying" in lab.steps and not opening.is_set():
            opening.set()
            assert go_on.wait(30)

    disk.watch(hold)
    booting = asyncio.create_task(lab.begin().run())
    await asyncio.to_thread(opening.wait)
    for _ in range(cancels):
        booting.cancel()
        await asyncio.wait([booting], timeout=0)
        assert not booting.done(), "its folders would be given up while a thread works on them"
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await booting
    assert len(closed) == 1
