"""What people do to disks of a local fleet: never under a process that uses them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bookie.ids import BookieId
from bookie_operator.errors import LocalError
from bookie_operator.local.faults import replace_disk, swap_disks, wipe_disk
from bookie_operator.observed import Volume
from bookie_operator.plan.actions import template_of
from bookie_operator.platform import folders as module
from bookie_operator.platform.folders import LocalFolders, held, write_json
from bookie_operator.platform.kubelet import Record, record_tree
from bookie_operator.platform.processes import identify
from bookie_operator.platform.volumes import create_volume, volumes_of
from fake_processes import pausing, until
from operator_scenes import cluster

pytestmark = pytest.mark.process
B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")


def openings(path: Path) -> int:
    """How often this process has the file open."""
    descriptors = Path("/proc/self/fd")
    names = [one.readlink() for one in descriptors.iterdir() if one.is_symlink()]
    return sum(name == path for name in names)


def test_a_replaced_disk_is_as_large_as_the_one_before(tmp_path: Path) -> None:
    folders = LocalFolders(tmp_path)
    folders.make()
    before = create_volume(folders, B0, "ledger-0", size="7Gi")
    uid = replace_disk(folders, (B0, "ledger-0"), grace_s=1)
    assert volumes_of(folders, B0) == {"ledger-0": Volume("ledger-0", uid, "7Gi")}
    assert uid != before


def test_a_disk_is_not_swapped_with_itself(tmp_path: Path) -> None:
    folders = LocalFolders(tmp_path)
    folders.make()
    create_volume(folders, B0, "ledger-0", size="1Gi")
    with pytest.raises(LocalError, match=r"bookie-0\.ledger-0 twice"):
        swap_disks(folders, (B0, "ledger-0"), (B0, "ledger-0"), grace_s=1)
    assert folders.volume(B0, "ledger-0").is_dir()


@pytest.mark.parametrize("other", [B0, B1])
@pytest.mark.parametrize("order", [(B0, B1), (B1, B0)])
def test_disks_are_swapped_under_the_locks_of_both_bookies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: BookieId, order: tuple[BookieId, ...]
) -> None:
    """Who has one of them may be starting that bookie."""
    monkeypatch.setattr(module, "BOOKIE_LOCK_WAIT_S", 0.0)
    folders = LocalFolders(tmp_path)
    folders.make()
    first, second = ((bookie_id, "ledger-0") for bookie_id in order)
    for bookie_id in order:
        create_volume(folders, bookie_id, "ledger-0", size="1Gi")
    (folders.volume(*first) / "of-the-first").touch()
    with held(folders.bookie(other) / "lock"), pytest.raises(LocalError, match="held by another"):
        swap_disks(folders, first, second, grace_s=0)
    assert (folders.volume(*first) / "of-the-first").exists()
    swap_disks(folders, first, second, grace_s=0)
    assert (folders.volume(*second) / "of-the-first").exists()


async def test_a_bookie_that_is_started_while_its_lock_is_waited_for_is_stopped_as_well(
    tmp_path: Path,
) -> None:
    folders = LocalFolders(tmp_path)
    folders.make()
    create_volume(folders, B0, "ledger-0", size="1Gi")
    lock = folders.bookie(B0) / "lock"
    with ThreadPoolExecutor() as pool:
        with held(lock):
            wiping = pool.submit(wipe_disk, folders, (B0, "ledger-0"), grace_s=10)
            await until(lambda: openings(lock) == 2)
            child = pausing()
            record = Record(template_of(cluster().spec, B0), identify(child.pid))
            write_json(folders.bookie(B0) / "process.json", record_tree(record))
        wiping.result()
    is_over = child.poll() is not None
    child.kill()
    child.wait()
    assert is_over


def test_of_a_disk_that_is_not_there_it_is_told_which_are(tmp_path: Path) -> None:
    folders = LocalFolders(tmp_path)
    folders.make()
    with pytest.raises(LocalError, match=r"no disk ledger-9; disks \(bookie\.disk\): none$"):
        wipe_disk(folders, (B0, "ledger-9"), grace_s=1)
    for bookie_id in (B1, B0):
        create_volume(folders, bookie_id, "ledger-0", size="1Gi")
    there = r"disks \(bookie\.disk\): bookie-0\.ledger-0, bookie-1\.ledger-0$"
    with pytest.raises(LocalError, match=there):
        swap_disks(folders, (B0, "ledger-0"), (B0, "ledger-9"), grace_s=1)
    with pytest.raises(LocalError, match=there):
        replace_disk(folders, (B1, "ledger-9"), grace_s=1)
