"""Replaced, wiped, swapped, cloned and foreign disks at a boot, and who decides about them."""

import asyncio
import shutil
from dataclasses import replace

import pytest
from bookie.boot.boot import Boot, Booted
from bookie.boot.cookie_fix import FixPolicy
from bookie.boot.stamps import STAMP_NAME, read_stamp, write_stamp
from bookie.boot.verdicts import DiskVerdict
from bookie.errors import BootRefusedError, UnavailableError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import RUN_ENDPOINT, BookieInfo, Endpoint, StoredBoot, Versioned
from bookie.storage.index import INDEX_NAME
from bookie.storage.modes import DurabilityMode
from bookie.testing.metadata import FaultyStore
from boot_lab import ME, OTHERS, BootLab, failing_at
from fake_processes import until
from storage_kit import ids

JOURNAL = DurabilityMode.JOURNAL
AUTO, APPROVE, NEVER = FixPolicy.AUTO, FixPolicy.APPROVE, FixPolicy.NEVER
UIDS = ("uid-j", "uid-0", "uid-1")


async def settled(lab: BootLab) -> None:
    """Booted once and stopped in order, with one open and one closed ledger that name it."""
    await lab.boot(uids=UIDS)
    await lab.ledger()
    await lab.ledger(closed_at=4)
    await lab.stop()


async def refused(lab: BootLab, *, policy: FixPolicy = AUTO) -> str:
    with pytest.raises(BootRefusedError) as caught:
        await lab.boot(policy=policy, uids=UIDS)
    return str(caught.value)


async def asked(lab: BootLab, policy: FixPolicy) -> "tuple[Boot, asyncio.Task[Booted]]":
    """A boot that has come to its question."""
    boot = lab.begin(policy=policy, uids=UIDS)
    return boot, await lab.begun_until("awaiting approval", boot)


@pytest.mark.parametrize("between", [(), ("uid-j", "", ""), ("", "uid-0", ""), ("", "", "uid-1")])
@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_clone_is_noticed_also_after_boots_whose_platform_named_not_all_volumes(
    lab: BootLab, between: tuple[str, ...], place: int
) -> None:
    for uids in (UIDS, between, between):
        await lab.boot(uids=uids)
        await lab.stop()
    cloned = [*UIDS[:place], "uid-clone", *UIDS[place + 1 :]]
    with pytest.raises(BootRefusedError, match="stale: stamped on volume"):
        await lab.boot(policy=NEVER, uids=cloned)


async def cancelled(running: "asyncio.Task[Booted]") -> None:
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


# ---- replaced -----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_s39_one_empty_directory_makes_all_ledgers_unknown(lab: BootLab, place: int) -> None:
    await settled(lab)
    lab.wipe(place)
    booted = await lab.boot(uids=UIDS)
    record = booted.record
    assert (record.clean, record.reason, record.cookie_fixed) == (False, "DiskReplaced", True)
    assert (record.ledgers_in_limbo, record.ledgers_unchecked) == (1, 1)
    assert all(booted.storage.is_unchecked(i) for i in booted.unchecked)
    verdicts = lab.pending and lab.pending.progress.verdicts
    assert verdicts and verdicts[place] is DiskVerdict.EMPTY


async def test_a_fixed_disk_is_ours_at_the_next_boot(lab: BootLab) -> None:
    await settled(lab)
    before = await lab.store.read_cookie(ME)
    lab.wipe(1)
    await lab.boot(uids=UIDS)
    await lab.stop()
    after = await lab.store.read_cookie(ME)
    assert before and after and after.version == before.version + 1
    assert (await lab.boot(policy=NEVER, uids=UIDS)).record.clean


async def test_the_other_disk_keeps_what_it_had(lab: BootLab) -> None:
    await lab.boot()
    ledgers = [await lab.ledger() for _ in range(8)]
    for ledger in ledgers:
        await lab.add(ledger, 0, 3)
    await lab.stop()
    lab.wipe(1)
    booted = await lab.boot()
    held = [booted.storage.held(ledger) for ledger in ledgers]
    assert {h.is_empty for h in held} == {True, False}
    assert all(h == ids((0, 2)) for h in held if not h.is_empty)


async def test_only_the_stamp_is_left_counts_as_empty(lab: BootLab) -> None:
    await settled(lab)
    stamp = read_stamp(lab.disk, lab.directory(1))
    lab.wipe(1)
    assert stamp is not None
    write_stamp(lab.disk, lab.directory(1), stamp)
    assert (await lab.boot(uids=UIDS)).record.reason == "DiskReplaced"


# ---- policies -----------------------------------------------------------------------------------


async def test_never_refuses_before_anything_is_touched(lab: BootLab) -> None:
    await settled(lab)
    lab.wipe(1)
    message = await refused(lab, policy=NEVER)
    assert "ledger 0" in message and "policy is Never" in message
    assert list(lab.directory(1).iterdir()) == []


async def test_approve_touches_nothing_before_the_word_and_fences_after_it(lab: BootLab) -> None:
    await settled(lab)
    lab.wipe(1)
    boot, running = await asked(lab, APPROVE)
    assert boot.progress.plan is not None and boot.progress.plan.disks == (1,)
    assert lab.steps == ["awaiting approval"] and not any(lab.directory(1).iterdir())
    assert boot.approve("another plan", "me") != ""
    assert not running.done()
    assert boot.approve(boot.progress.plan.plan_id, "me") == ""
    lab.now = await running
    assert lab.now.record.cookie_fixed and lab.now.record.ledgers_in_limbo == 1
    assert boot.progress.plan is None
    [decision] = lab.now.storage.decisions
    assert (decision.kind, decision.by) == ("CookieFixApproved", "me")


async def test_the_old_disk_comes_back_unharmed_while_a_person_thinks(lab: BootLab) -> None:
    await lab.boot(mode=JOURNAL, uids=UIDS)
    ledgers = [await lab.ledger() for _ in range(4)]
    for ledger in ledgers:
        await lab.add(ledger, 0, 3)
    lab.kill()
    lab.directory(1).rename(lab.root / "kept")
    lab.directory(1).mkdir()
    _boot, running = await asked(lab, APPROVE)
    await cancelled(running)
    lab.wipe(1)
    lab.directory(1).rmdir()
    (lab.root / "kept").rename(lab.directory(1))
    booted = await lab.boot(mode=JOURNAL, uids=UIDS)
    assert not booted.storage.limbo_ledgers()
    assert all(booted.storage.held(ledger) == ids((0, 2)) for ledger in ledgers)


async def test_an_old_disk_that_comes_back_after_half_a_fix_denies_nothing(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await lab.boot(mode=JOURNAL, uids=UIDS)
    ledgers = [await lab.ledger() for _ in range(4)]
    for ledger in ledgers:
        for first in range(0, 900, 300):  # more than one file of the journal
            await lab.add(ledger, first, 300)
    lab.kill()
    lab.directory(1).rename(lab.root / "kept")
    lab.directory(1).mkdir()
    store.before = failing_at("new_ledger_id")  # replayed and trimmed, and then it dies
    with pytest.raises(UnavailableError):
        await lab.boot(mode=JOURNAL, uids=UIDS)
    store.before = None
    lab.wipe(1)
    lab.directory(1).rmdir()
    (lab.root / "kept").rename(lab.directory(1))
    booted = await lab.boot(mode=JOURNAL, uids=UIDS)
    missing = [i for i in ledgers if booted.storage.held(i) != ids((0, 899))]
    assert missing, "the journal was trimmed, else this proves nothing"
    assert set(missing) <= set(booted.storage.limbo_ledgers())
    assert booted.record.reason == "UncleanShutdown"


async def test_a_stop_while_it_waits_changes_nothing_and_the_question_stays_the_same(
    lab: BootLab,
) -> None:
    await settled(lab)
    lab.wipe(1)
    first, running = await asked(lab, APPROVE)
    await cancelled(running)
    assert read_stamp(lab.disk, lab.directory(1)) is None
    second, running = await asked(lab, APPROVE)
    assert first.progress.plan == second.progress.plan
    await cancelled(running)


async def put_late(lab: BootLab, bookie_id: BookieId) -> "tuple[Boot, asyncio.Task[Booted]]":
    """A boot that found a disk empty, and waits; then that bookie's disk was mounted there."""
    await settled(lab)
    mounted = lab.root / "mounted"
    shutil.copytree(lab.directory(1), mounted)
    stamp = read_stamp(lab.disk, mounted)
    assert stamp is not None
    write_stamp(lab.disk, mounted, replace(stamp, bookie_id=bookie_id))
    lab.wipe(1)
    boot, running = await asked(lab, APPROVE)
    lab.directory(1).rmdir()
    mounted.rename(lab.directory(1))
    assert boot.progress.plan is not None and boot.approve(boot.progress.plan.plan_id) == ""
    return boot, running


async def test_a_consent_to_an_empty_disk_is_none_to_another_bookies_that_is_mounted_late(
    lab: BootLab,
) -> None:
    _boot, running = await put_late(lab, OTHERS[0])
    with pytest.raises(BootRefusedError, match="stamped as a disk of bookie bookie-1"):
        await running
    stamp = read_stamp(lab.disk, lab.directory(1))
    assert stamp is not None and stamp.bookie_id == OTHERS[0]


async def test_an_own_disk_that_is_mounted_before_the_consent_was_never_replaced(
    lab: BootLab,
) -> None:
    _boot, running = await put_late(lab, ME)
    lab.now = await running
    assert (lab.now.record.clean, lab.now.record.reason) == (True, "CleanStop")


async def test_a_disk_that_vanishes_during_the_wait_needs_a_consent_of_its_own(
    lab: BootLab,
) -> None:
    await settled(lab)
    lab.wipe(1)
    boot, running = await asked(lab, APPROVE)
    lab.wipe(2)
    first = boot.progress.plan
    assert first is not None and boot.approve(first.plan_id) == ""
    await until(lambda: boot.progress.plan not in (None, first))
    assert boot.progress.plan is not None and boot.progress.plan.disks == (1, 2)
    await cancelled(running)


async def test_nothing_to_approve_is_said_so(lab: BootLab) -> None:
    assert "no cookie fix waits" in lab.begin().approve("plan")


@pytest.mark.parametrize("policy", [AUTO, APPROVE])
async def test_a_stale_disk_is_a_persons_decision_under_every_policy(
    lab: BootLab, policy: FixPolicy
) -> None:
    await settled(lab)
    snapshot = lab.root / "snapshot"
    shutil.copytree(lab.directory(1), snapshot)
    await lab.boot(uids=UIDS)
    await lab.stop()
    shutil.rmtree(lab.directory(1))
    snapshot.rename(lab.directory(1))
    boot, running = await asked(lab, policy)
    assert boot.progress.plan is not None and "snapshot" in boot.progress.plan.description
    boot.approve(boot.progress.plan.plan_id)
    lab.now = await running
    assert (lab.now.record.reason, lab.now.record.ledgers_in_limbo) == ("DiskStale", 1)


async def test_a_stale_disk_under_never_is_refused(lab: BootLab) -> None:
    await settled(lab)
    stamp = read_stamp(lab.disk, lab.directory(1))
    assert stamp is not None
    await lab.boot(uids=UIDS)
    await lab.stop()
    write_stamp(lab.disk, lab.directory(1), stamp)
    assert "stamped by boot 1, the last was 2" in await refused(lab, policy=NEVER)


async def test_our_stamp_on_another_volume_is_asked_for(lab: BootLab) -> None:
    await settled(lab)
    boot = lab.begin(policy=NEVER, uids=("uid-j", "uid-clone", "uid-1"))
    with pytest.raises(BootRefusedError, match="stamped on volume uid-0, found on uid-clone"):
        await boot.run()


# ---- refused ------------------------------------------------------------------------------------


async def test_swapped_disks_are_refused_and_boot_again_once_put_back(lab: BootLab) -> None:
    await settled(lab)
    lab.swap(1, 2)
    assert "the disks are swapped" in await refused(lab)
    lab.swap(1, 2)
    assert (await lab.boot(uids=UIDS)).record.clean


async def test_another_count_of_directories_is_refused(lab: BootLab) -> None:
    await settled(lab)
    lab.ledger_disks = 3
    message = await refused(lab)
    assert "stamped with 2" in message and "fixed for a bookie's life" in message
    assert not lab.directory(3).exists() or list(lab.directory(3).iterdir()) == []


async def test_a_metadata_store_of_another_cluster_is_refused(lab: BootLab) -> None:
    await settled(lab)
    lab.store = MemoryStore()
    await lab.store.initialise()
    assert "the metadata store was reset or is another one" in await refused(lab)


async def test_an_empty_metadata_store_beside_stamped_disks_is_refused_and_left_empty(
    lab: BootLab,
) -> None:
    await settled(lab)
    lab.store = MemoryStore()
    assert "cluster (none)" in await refused(lab)
    assert await lab.store.instance_id() is None


async def test_a_deleted_cookie_is_refused(lab: BootLab) -> None:
    await settled(lab)
    del lab.cluster.cookies[ME]
    assert "restore the cookie, never delete the stamps" in await refused(lab)


async def test_an_unreadable_stamp_is_refused(lab: BootLab) -> None:
    await settled(lab)
    (lab.directory(2) / STAMP_NAME).write_bytes(b'{"instance_id": ')
    message = await refused(lab)
    assert "is no stamp" in message and "restore the file" in message


async def test_a_directory_of_something_else_is_refused(lab: BootLab) -> None:
    (lab.directory(1) / "letters.txt").write_text("dear")
    message = await refused(lab)
    assert "letters.txt" in message and "name the right directory" in message


async def test_a_cookie_changed_meanwhile_is_a_rival(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await settled(lab)
    lab.wipe(1)

    async def rival(name: str) -> None:
        if name == "write_cookie":
            store.before = None
            found = await store.inner.read_cookie(ME)
            assert isinstance(found, Versioned)
            other = replace(found.value, ledger_dirs=("/elsewhere/1", "/elsewhere/2"))
            await store.inner.write_cookie(other, version=found.version)

    store.before = rival
    assert "another process uses this bookie id" in await refused(lab)


async def test_a8_a_cookie_that_an_earlier_attempt_wrote_late_is_ours(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await settled(lab)
    lab.wipe(1)

    async def late(name: str) -> None:
        if name == "write_cookie":
            store.before = None
            found = await store.inner.read_cookie(ME)
            assert found is not None
            await store.inner.write_cookie(found.value, version=found.version)

    store.before = late
    assert (await lab.boot()).record.reason == "DiskReplaced"


async def test_the_cookie_comes_after_the_marks_and_the_epoch_last(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await settled(lab)
    lab.wipe(1)
    store.calls.clear()
    await lab.boot(uids=UIDS)
    order = [c for c in store.calls if c in ("ledger_ids", "write_cookie", "write_boot")]
    assert order == ["ledger_ids", "write_cookie", "write_boot", "write_boot"]
    assert lab.steps == ["replaying", "marking", "fixing the cookie", "stamping"]


# ---- lost contents beside a stamp ---------------------------------------------------------------


async def test_a_directory_without_its_index_counts_as_empty(lab: BootLab) -> None:
    await settled(lab)
    for path in lab.directory(1).glob(INDEX_NAME + "*"):
        path.unlink()
    assert (await lab.boot(uids=UIDS)).record.reason == "DiskReplaced"


async def test_a_directory_whose_index_was_emptied_counts_as_empty(lab: BootLab) -> None:
    await settled(lab)
    for path in lab.directory(1).glob(INDEX_NAME + "*"):
        path.write_bytes(b"")
    assert (await lab.boot(uids=UIDS)).record.reason == "DiskReplaced"


async def test_logs_without_their_index_are_refused_with_the_way_out(lab: BootLab) -> None:
    await lab.boot()
    for _ in range(4):
        await lab.add(await lab.ledger(), 0)
    await lab.stop()
    for path in lab.directory(1).glob(INDEX_NAME + "*"):
        path.unlink()
    assert "bookie index rebuild" in await refused(lab)


async def test_a_journal_that_vanished_after_an_unclean_stop_is_a_lost_one(lab: BootLab) -> None:
    await lab.boot(mode=JOURNAL)
    ledger = await lab.ledger()
    await lab.add(ledger, 0)
    lab.kill()
    for path in (lab.directory(0) / "journal").iterdir():
        path.unlink()
    booted = await lab.boot(mode=JOURNAL)
    assert booted.record.reason == "JournalLost"
    assert booted.storage.limbo_ledgers() == [ledger]


async def test_a7_one_ledger_that_nobody_can_read_refuses_no_boot(
    lab: BootLab, caplog: pytest.LogCaptureFixture
) -> None:
    await lab.boot()
    mine, foreign = await lab.ledger(), await lab.ledger((0, OTHERS), closed_at=0)
    lab.cluster.garbled.add(foreign)
    lab.kill()
    booted = await lab.boot()
    record, boundary = booted.record, booted.storage.boundary()
    assert (record.ledgers_unreadable, record.unreadable) == (1, (foreign,))
    assert booted.storage.limbo_ledgers() == [mine, foreign]
    assert boundary is not None and boundary.covers(foreign) and foreign in boundary.recovering
    assert f"metadata of 1 ledgers cannot be read ({foreign})" in caplog.text


async def test_a7_a_new_bookie_fences_what_it_cannot_read_and_no_more(lab: BootLab) -> None:
    await lab.store.initialise()
    foreign, other = await lab.ledger((0, OTHERS)), await lab.ledger((0, OTHERS))
    lab.cluster.garbled.add(foreign)
    booted = await lab.boot()
    boundary = booted.storage.boundary()
    assert booted.record.reason == "FirstBoot" and booted.record.ledgers_unreadable == 1
    assert booted.storage.limbo_ledgers() == [foreign]
    assert boundary is not None and boundary.covers(foreign) and not boundary.covers(other)


async def test_a11_what_is_created_while_an_unclean_boot_lists_counts_as_an_explicit_id(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    # Nothing of it can be forgotten, but nothing tells it from a ledger with an id of its own.
    lab, store = faulty
    await lab.boot()
    lab.kill()
    made: list[LedgerId] = []

    async def create(name: str) -> None:
        if name == "ledger_ids" and not made:
            made.append(await lab.ledger())

    store.before = create
    storage = (await lab.boot()).storage
    boundary = storage.boundary()
    assert boundary is not None and boundary.last_ledger_id < made[0]
    assert boundary.covers(made[0]) and storage.limbo_ledgers() == made
    assert not boundary.covers(await lab.ledger())


# ---- another process of the same id -------------------------------------------------------------


async def registered_elsewhere(lab: BootLab) -> MemoryStore:
    """A session of another process that serves as this bookie."""
    rival = MemoryStore(lab.cluster)
    await rival.register(BookieInfo(ME, (Endpoint(RUN_ENDPOINT, "10.0.0.9", 3182, "bookie-run"),)))
    return rival


@pytest.mark.parametrize("wiped", [True, False])
async def test_other_directories_are_refused_while_a_process_of_this_id_lives(
    lab: BootLab, wiped: bool
) -> None:
    if wiped:
        await settled(lab)
        lab.wipe(1)
    lab.rival_wait_s = 0.0
    await registered_elsewhere(lab)
    message = await refused(lab)
    assert "registered and alive at 10.0.0.9:3182" in message
    assert read_stamp(lab.disk, lab.directory(1)) is None


async def test_the_left_over_of_a_killed_process_is_outlived(lab: BootLab) -> None:
    await settled(lab)
    lab.wipe(1)
    rival = await registered_elsewhere(lab)
    running = await lab.begun_until(
        "waiting for the former process to be gone", lab.begin(uids=UIDS)
    )
    await rival.close()
    lab.now = await running
    assert lab.now.record.cookie_fixed


async def test_a_look_that_began_before_the_wait_was_over_makes_nobody_a_rival(
    lab: BootLab,
) -> None:
    await settled(lab)
    lab.wipe(1)
    lab.rival_wait_s = 0.0
    rival = await registered_elsewhere(lab)
    running = await lab.begun_until(
        "waiting for the former process to be gone", lab.begin(uids=UIDS)
    )
    await rival.close()
    lab.now = await running
    assert lab.now.record.cookie_fixed


async def test_a_boot_on_its_own_disks_waits_for_nobody(lab: BootLab) -> None:
    await settled(lab)
    await registered_elsewhere(lab)
    assert (await lab.boot(uids=UIDS)).record.clean


@pytest.mark.parametrize("place", [1, 2])
async def test_the_loser_of_two_boots_does_not_keep_the_winners_stamps(
    faulty: tuple[BootLab, FaultyStore], place: int
) -> None:
    lab, store = faulty
    await settled(lab)
    lab.wipe(1)

    async def rival(name: str) -> None:
        if name == "write_boot":
            store.before = None
            found = await store.inner.read_boot(ME)
            assert found is not None
            await store.inner.write_boot(ME, StoredBoot(2), version=found.version)

    store.before = rival
    assert "boot epoch" in await refused(lab)
    stamp = read_stamp(lab.disk, lab.directory(place))
    assert (stamp.boot_epoch if stamp else None) == {1: None, 2: 1}[place]


# ---- a deleted identity -------------------------------------------------------------------------


async def test_a_deleted_identity_is_for_whoever_decides_about_disks(lab: BootLab) -> None:
    await lab.ledger()
    assert "identity was deleted" in await refused(lab, policy=NEVER)
    boot, running = await asked(lab, APPROVE)
    assert boot.progress.plan is not None
    boot.approve(boot.progress.plan.plan_id, "me")
    lab.now = await running
    assert lab.now.record.reason == "IdentityLost"
