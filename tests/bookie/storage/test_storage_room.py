"""Who waits for room in a storage, and what a disk that is nearly full must keep free."""

from collections.abc import Callable
from pathlib import Path

import pytest
from bookie.errors import DiskFullError, StorageError
from bookie.ids import EntryId, LedgerId
from bookie.storage.acks import Taken
from bookie.storage.journal_records import RECORD_HEADER_BYTES
from bookie.storage.log_files import HEADER_BYTES
from bookie.storage.modes import DurabilityMode
from bookie.storage.records import LedgerRecord
from bookie.testing.inline import InlineDisk
from storage_kit import KIB, StorageKit, run

L7 = LedgerId(7)
FILE_BYTES = 64 * KIB - HEADER_BYTES
"""What records of the journal find in one file."""
TRIM_BYTES = RECORD_HEADER_BYTES + 8
FILL = next(
    fill
    for fill in map(bytes, range(1000))
    if FILE_BYTES % (RECORD_HEADER_BYTES + len(run(7, 0, fill=fill).buffer)) < TRIM_BYTES
)
"""Payload of runs that, one after the other, leave a file no room for the record of a trim."""


def begun(root: Path, mode: DurabilityMode) -> StorageKit:
    """Without threads; flushers run in `settle`."""
    return StorageKit(root / "bookie", mode, disk=InlineDisk(), log_file_bytes=1024 * KIB)


def settle(kit: StorageKit) -> None:
    """Until no flusher has anything to do and no callback waits."""
    assert isinstance(kit.disk, InlineDisk)
    while kit.disk.run_flushers():
        kit.drain()


def ignored(_error: StorageError | None) -> None:
    """For what is not waited for."""


def put_record(kit: StorageKit, number: int, *, done: Callable[..., None] = ignored) -> None:
    kit.storage.put_record(LedgerRecord(L7, explicit_lac=EntryId(number)), done=done)


def add_run(kit: StorageKit, number: int, *, done: Callable[..., None] = ignored) -> None:
    kit.storage.add_run(run(7, number, fill=FILL), done=done)


# ---- who is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", DurabilityMode, ids=lambda mode: mode.value)
def test_who_was_refused_is_called_once_and_nobody_else_is(
    tmp_path: Path, mode: DurabilityMode
) -> None:
    kit, calls, number = begun(tmp_path, mode), list[int](), 0
    kit.storage.on_room = lambda: calls.append(number)
    for refusals in range(3):
        for number in range(1000 * refusals, 1000 * (refusals + 1)):
            if kit.storage.add_run(run(7, number, fill=bytes(9000)), done=ignored) is Taken.NO_ROOM:
                break
        assert len(calls) == refusals, "nobody is called before there is room"
        for _ in range(2):
            settle(kit)
            assert len(calls) == refusals + 1
            kit.storage.maintenance.checkpoint()
    kit.end()


def test_when_the_journal_fails_every_record_that_waits_for_room_in_it_is_told(
    tmp_path: Path,
) -> None:
    kit, answers = begun(tmp_path, DurabilityMode.MEMORY), list[StorageError | None]()
    for number in range(6000):
        kit.storage.put_record(LedgerRecord(LedgerId(number)), done=answers.append)
    kit.sim.fail("sync", pattern="*.jnl*")
    settle(kit)
    assert len(answers) == 6000 and kit.storage.failure is not None and None not in answers
    kit.end()


# ---- a full disk --------------------------------------------------------------------------------


def fill_journal(kit: StorageKit, take: Callable[[StorageKit, int], None]) -> None:
    """Two files of it, the second one to its end, and no space for a third."""
    for number in range(1000):
        take(kit, number)
    settle(kit)
    spare_bytes = kit.storage.maintenance.settings.journal.reserve_bytes + 64 * KIB
    kit.sim.capacity_bytes -= kit.sim.space(kit.root).free_bytes - spare_bytes + 16 * KIB
    for number in range(1000, 3000):
        take(kit, number)
    settle(kit)


@pytest.mark.parametrize("take", [put_record, add_run], ids=["journal", "log"])
def test_space_that_others_have_freed_is_found_by_the_next_checkpoint(
    tmp_path: Path, take: Callable[[StorageKit, int], None]
) -> None:
    kit = begun(tmp_path, DurabilityMode.MEMORY)
    taken_bytes = kit.sim.space(kit.root).free_bytes - 32 * KIB  # enough for the index alone
    kit.sim.capacity_bytes -= taken_bytes
    take(kit, 0)  # begins the file that was allocated in advance
    for is_full in (True, False):
        kit.storage.maintenance.checkpoint()
        settle(kit)
        assert kit.storage.maintenance.is_full is is_full
        kit.sim.capacity_bytes += taken_bytes
    kit.end()


@pytest.mark.parametrize(
    ("take", "mode"),
    [(put_record, DurabilityMode.MEMORY), (add_run, DurabilityMode.JOURNAL)],
    ids=["records", "runs"],
)
def test_what_fills_the_journal_leaves_room_for_the_trim_that_frees_it(
    tmp_path: Path, take: Callable[..., None], mode: DurabilityMode
) -> None:
    kit = begun(tmp_path, mode)
    fill_journal(kit, take)
    answers: list[StorageError | None] = []
    take(kit, 4000, done=answers.append)
    kit.drain()
    assert isinstance(answers.pop(), DiskFullError) and kit.storage.failure is None
    kit.storage.maintenance.checkpoint()
    settle(kit)
    take(kit, 4001, done=answers.append)
    settle(kit)
    assert answers == [None]
    kit.end()


def test_a_journal_that_has_no_space_for_another_file_makes_the_bookie_full(tmp_path: Path) -> None:
    kit = begun(tmp_path, DurabilityMode.MEMORY)
    fill_journal(kit, put_record)
    assert kit.storage.maintenance.is_full
    kit.storage.maintenance.checkpoint()  # trims it
    settle(kit)
    assert not kit.storage.maintenance.is_full
    kit.end()
