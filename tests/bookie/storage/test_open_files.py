"""Whatever a storage opens it closes: over a whole life, and where any operation of the disk fails.

A descriptor that leaks is seen by nobody until a bookie that runs for weeks has no more of them.
"""

import contextlib
import errno
import os
from pathlib import Path

import pytest
from bookie.errors import StorageError
from bookie.ids import LedgerId
from bookie.storage.modes import DurabilityMode
from bookie.storage.rebuild import rebuild_index
from bookie.storage.records import LedgerRecord
from storage_kit import StorageKit, TrackedDisk, ids, run

each_mode = pytest.mark.parametrize("mode", DurabilityMode, ids=lambda mode: mode.value)


def lived(root: Path, mode: DurabilityMode) -> StorageKit:
    """Several files of log and journal; entries of each, one ledger deleted, frames copied."""
    kit = StorageKit(root / "bookie", mode, disk=TrackedDisk(), disks=1)
    for ledger_id in (7, 8):
        kit.add(*(run(ledger_id, first, 10, fill=b"y" * 900) for first in range(0, 200, 10)))
        kit.put(LedgerRecord(LedgerId(ledger_id), master_key=b"k" * 20))
    kit.storage.maintenance.checkpoint()
    kit.storage.maintenance.delete_ledgers([LedgerId(8)])
    assert kit.compact().files_deleted
    kit.add(run(7, 200, 10, fill=b"y" * 900))
    assert kit.read(7, 0, 209)[0] == ids((0, 209))
    return kit


def still_open(kit: StorageKit) -> list[str]:
    assert isinstance(kit.disk, TrackedDisk)
    return kit.disk.open_names


@each_mode
def test_after_a_whole_life_no_file_is_open(tmp_path: Path, mode: DurabilityMode) -> None:
    kit = lived(tmp_path, mode)
    again = kit.after_kill()
    assert still_open(kit) == []
    again.storage.close()
    assert still_open(again) == []
    last = again.reopened()
    last.storage.close()
    assert still_open(last) == []


@each_mode
def test_an_open_that_fails_anywhere_leaves_no_file_open(
    tmp_path: Path, mode: DurabilityMode
) -> None:
    kit = lived(tmp_path, mode)
    left = kit.sim.snapshot({})
    kit.end()
    for step in range(1000):
        disk = failing_from(left.image(lambda _path, _change: True), step)
        with contextlib.suppress(StorageError):
            StorageKit(kit.root, mode, disk=disk, disks=1).storage.close()
            break
        assert disk.open_names == [], f"from operation {step} on the disk has failed"
    assert 50 < step < 999


@each_mode
def test_a_first_open_that_fails_anywhere_leaves_no_file_open(
    tmp_path: Path, mode: DurabilityMode
) -> None:
    for step in range(1000):
        disk = failing_from(TrackedDisk(), step)
        with contextlib.suppress(StorageError):
            StorageKit(tmp_path / "bookie", mode, disk=disk, disks=1).storage.close()
            break
        assert disk.open_names == [], f"from operation {step} on the disk has failed"
    assert 10 < step < 999


def test_a_rebuild_that_fails_anywhere_leaves_no_file_open(tmp_path: Path) -> None:
    kit = lived(tmp_path, DurabilityMode.SYNC)
    kit.storage.close()
    left = kit.sim.snapshot({})
    for step in range(1000):
        disk = failing_from(left.image(lambda _path, _change: True), step)
        with contextlib.suppress(StorageError):
            rebuild_index(kit.root / "ledger-0", disk=disk)
            break
        assert disk.open_names == [], f"from operation {step} on the disk has failed"
    assert 20 < step < 999
    assert disk.open_names == []


def failing_from(disk: TrackedDisk, step: int) -> TrackedDisk:
    """From that operation on every one fails."""
    left = [step]

    def observe(_operation: str, _path: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk.watch(observe)
    return disk
