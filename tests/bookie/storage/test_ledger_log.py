"""The ledger log: appends, group commit, reads, rolls, failures, and what a full disk does."""

import contextlib
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bookie.errors import CorruptError, DiskFullError, FrameError, StorageError
from bookie.storage.disk import RealDisk
from bookie.storage.ledger_log import LedgerLog
from bookie.storage.log_files import (
    HEADER_BYTES,
    LOG_FILES,
    FileHeader,
    LogSettings,
    read_header,
)
from bookie.storage.log_scan import Position
from bookie.testing.disk import SimDisk
from log_kit import DIRECTORY, SMALL, LogKit, Notified, frame, reopened
from storage_kit import TrackedDisk

FIRST = DIRECTORY / "log" / "0000000001.log"


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


@pytest.fixture
def kit(disk: SimDisk) -> Iterator[LogKit]:
    kit = LogKit(disk)
    yield kit
    kit.abandon()


def test_frames_lie_one_behind_the_other(kit: LogKit) -> None:
    first, second = kit.append(frame(0)), kit.append(frame(1))
    assert first == Position(1, HEADER_BYTES, len(frame(0)))
    assert second == Position(1, first.end, len(frame(1)))
    assert kit.log.end() == Position(1, second.end, 0)


def test_a_frame_is_read_before_it_is_written(kit: LogKit, disk: SimDisk) -> None:
    position = kit.append(frame(0))
    assert not disk.exists(FIRST)
    assert kit.log.read(position) == frame(0)


def test_a_synced_frame_is_on_disk_followed_by_zeros(kit: LogKit, disk: SimDisk) -> None:
    position = kit.append(frame(0))
    kit.log.stream.sync()
    content = disk.content(FIRST)
    assert content[position.offset : position.end] == frame(0)
    assert not any(content[position.end :])


def test_the_tail_block_is_written_again_when_more_arrives(kit: LogKit, disk: SimDisk) -> None:
    for entry_id in range(3):
        kit.append(frame(entry_id))
        kit.log.stream.sync()
    start = HEADER_BYTES
    assert disk.content(FIRST)[start:].startswith(frame(0) + frame(1) + frame(2))


def test_nothing_is_synced_before_a_sync_was_asked_for(kit: LogKit) -> None:
    kit.append(frame(0))
    assert kit.log.synced_to() == (1, HEADER_BYTES)


def test_request_sync_notifies_when_all_before_it_is_durable(kit: LogKit, disk: SimDisk) -> None:
    position = kit.append(frame(0))
    kit.log.stream.request_sync()
    kit.notified.wait_for(lambda: kit.log.synced_to() == (1, position.end))
    assert disk.power_cut().content(FIRST)[HEADER_BYTES : position.end] == frame(0)


def test_many_requests_between_two_syncs_cost_one(kit: LogKit, disk: SimDisk) -> None:
    kit.append(frame(0))
    with disk.held_syncs() as waiting:
        kit.log.stream.request_sync()
        assert waiting.wait(30)
        for entry_id in range(1, 50):
            kit.append(frame(entry_id))
            kit.log.stream.request_sync()
        before = disk.sync_count
    kit.notified.wait_for(lambda: kit.log.synced_to()[1] == kit.log.end().offset)
    assert disk.sync_count - before == 3  # the new file's header, the first frame, all the others


def test_a_full_ring_refuses_and_notify_tells_of_room(disk: SimDisk) -> None:
    kit = LogKit(disk, settings=LogSettings(64 * 1024, 1024 * 1024, reserve_bytes=0))
    with disk.held_syncs() as waiting:
        kit.append(frame(0))
        kit.log.stream.request_sync()
        assert waiting.wait(30)
        taken = [kit.log.append(frame(n, size=4000)) for n in range(20)]
        assert taken[-1] is None
        before = kit.notified.calls
    kit.notified.wait_for_more(before)
    position = kit.append(frame(20, size=4000))
    assert kit.log.read(position) == frame(20, size=4000)
    kit.log.close()


def test_half_a_ring_is_written_without_being_asked(kit: LogKit, disk: SimDisk) -> None:
    written = threading.Event()

    def see(operation: str, path: Path) -> None:
        if operation == "write" and path.name.endswith(".log.new"):
            written.set()

    disk.watch(see)
    for entry_id in range(9):
        kit.append(frame(entry_id, size=4000))
    assert written.wait(30)


def test_a_frame_longer_than_half_the_ring_is_refused(kit: LogKit) -> None:
    with pytest.raises(FrameError, match="ring_bytes or file_bytes"):
        kit.log.append(frame(0, size=SMALL.ring_bytes // 2))


def test_frames_roll_to_the_next_file_and_never_span_two(kit: LogKit, disk: SimDisk) -> None:
    frames = [frame(n, size=10_000) for n in range(20)]
    positions = [kit.append(each) for each in frames]
    assert {position.file_id for position in positions} == {1, 2, 3, 4}
    assert all(position.end <= SMALL.file_bytes for position in positions)
    assert [kit.log.read(position) for position in positions] == frames


def test_a_file_is_synced_before_the_next_one_gets_its_name(kit: LogKit, disk: SimDisk) -> None:
    frames = [frame(n, size=10_000) for n in range(8)]
    for each in frames:
        kit.append(each)
    kit.log.stream.sync()
    survivor = LogKit(disk.power_cut())
    assert survivor.scanned() == frames
    survivor.log.close()


def test_the_header_of_a_log_says_where_the_file_before_it_ended_and_no_more(
    kit: LogKit, disk: SimDisk
) -> None:
    ends = {
        each.file_id: each.end for each in [kit.append(frame(n, size=10_000)) for n in range(8)]
    }
    kit.log.stream.sync()
    for file_id, previous in ((1, (0, 0)), (2, (1, ends[1]))):
        found = read_header(disk, DIRECTORY / "log", kind=LOG_FILES, file_id=file_id)
        assert found == FileHeader(file_id, *previous, found.nonce, 0, 0)


def test_reading_what_was_never_appended_is_corrupt(kit: LogKit) -> None:
    position = kit.append(frame(0))
    with pytest.raises(CorruptError, match="never appended"):
        kit.log.read(Position(1, position.offset, position.length + 1))


def test_a_read_that_comes_back_short_is_corrupt(kit: LogKit, disk: SimDisk) -> None:
    kit.append(frame(0))
    again = reopened(kit, disk)
    with pytest.raises(CorruptError, match="expected 9999999"):
        again.log.read(Position(1, HEADER_BYTES, 9_999_999))
    again.log.close()


def test_a_read_error_is_a_storage_error_and_no_failure_of_the_log(
    kit: LogKit, disk: SimDisk
) -> None:
    position = kit.append(frame(0))
    again = reopened(kit, disk)
    disk.fail("read", pattern="*.log")
    with pytest.raises(StorageError, match="cannot read"):
        again.log.read(position)
    assert again.log.read(position) == frame(0)
    assert again.log.stream.failure is None
    again.log.close()


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_failed_write_or_sync_is_final(kit: LogKit, disk: SimDisk, operation: str) -> None:
    kit.append(frame(0))
    kit.log.stream.sync()
    disk.fail(operation, pattern="*.log*")
    kit.append(frame(1))
    kit.log.stream.request_sync()
    kit.notified.wait_for(lambda: kit.log.stream.failure is not None)
    before = disk.sync_count
    calls: list[Callable[[], object]] = [kit.log.stream.sync, kit.log.close, kit.log.close]
    for call in (lambda: kit.log.append(frame(2)), *calls):
        with pytest.raises(StorageError, match=f"cannot {operation}"):
            call()
    assert disk.sync_count == before


def test_a_failed_sync_claims_nothing_as_durable(kit: LogKit, disk: SimDisk) -> None:
    kit.append(frame(0))
    kit.log.stream.sync()
    synced = kit.log.synced_to()
    disk.fail("sync", pattern="*.log*")
    kit.append(frame(1))
    with pytest.raises(StorageError):
        kit.log.stream.sync()
    assert kit.log.synced_to() == synced


def test_a_defect_in_the_flusher_is_a_failure_and_not_silence(disk: SimDisk) -> None:
    def broken() -> None:
        raise ValueError("a defect")

    log = LedgerLog.open(DIRECTORY, disk=disk, settings=SMALL, notify=broken)
    log.append(frame(0))
    with contextlib.suppress(StorageError):
        log.stream.sync()
    with pytest.raises(StorageError, match="a defect"):
        log.close()


def test_without_space_for_a_spare_the_log_is_full_but_takes_more() -> None:
    disk = SimDisk(capacity_bytes=2 * SMALL.file_bytes - 1)
    kit = LogKit(disk)
    was_full = kit.log.stream.is_full
    kit.append(frame(0))
    kit.log.stream.sync()
    assert (was_full, kit.log.stream.is_full) == (False, True)
    kit.append(frame(1))
    kit.log.stream.sync()
    kit.log.close()


def fill(kit: LogKit) -> None:
    with pytest.raises(DiskFullError, match="free space"):
        for entry_id in range(100):
            kit.append(frame(entry_id, size=10_000))


def test_a_full_disk_is_no_failure_and_ends_when_a_file_is_deleted() -> None:
    kit = LogKit(SimDisk(capacity_bytes=3 * SMALL.file_bytes))
    fill(kit)
    assert kit.log.stream.failure is None
    kit.log.delete_file(1)
    kit.notified.wait_for(lambda: not kit.log.stream.is_full)
    kit.append(frame(100, size=10_000))
    kit.log.close()


def test_space_freed_by_others_is_found_at_the_next_sync() -> None:
    disk = SimDisk(capacity_bytes=SMALL.file_bytes)
    kit = LogKit(disk)
    fill(kit)
    disk.capacity_bytes = 10 * SMALL.file_bytes
    kit.log.stream.sync()
    kit.notified.wait_for(lambda: not kit.log.stream.is_full)
    kit.log.close()


def test_the_reserve_is_left_free() -> None:
    settings = LogSettings(ring_bytes=64 * 1024, file_bytes=64 * 1024, reserve_bytes=100_000)
    disk = SimDisk(capacity_bytes=5 * 64 * 1024)
    kit = LogKit(disk, settings=settings)
    fill(kit)
    assert disk.space(DIRECTORY).free_bytes >= 100_000
    kit.log.close()


def test_a_log_opens_on_a_full_disk_to_serve_reads(kit: LogKit, disk: SimDisk) -> None:
    position = kit.append(frame(0))
    kit.log.close()
    disk.capacity_bytes = 0
    again = LogKit(disk)
    assert again.log.stream.is_full
    assert again.log.read(position) == frame(0)
    again.log.close()


def test_closing_writes_all_gives_space_back_and_leaves_no_spare(
    kit: LogKit, disk: SimDisk
) -> None:
    position = kit.append(frame(0))
    kit.log.close()
    assert disk.list_directory(DIRECTORY / "log") == [FIRST.name]
    assert len(disk.content(FIRST)) == 2 * HEADER_BYTES
    survivor = LogKit(disk.power_cut())
    assert survivor.log.read(position) == frame(0)
    survivor.log.close()


def test_appending_after_close_is_refused(kit: LogKit) -> None:
    kit.log.close()
    with pytest.raises(StorageError, match="closed"):
        kit.log.append(frame(0))


def test_a_start_never_appends_to_an_old_file(kit: LogKit, disk: SimDisk) -> None:
    old = kit.append(frame(0))
    again = reopened(kit, disk)
    new = again.append(frame(1))
    assert (old.file_id, new.file_id) == (1, 2)
    assert [again.log.read(each) for each in (old, new)] == [frame(0), frame(1)]
    again.log.close()


def test_a_header_that_rotted_keeps_no_new_frame_out(kit: LogKit, disk: SimDisk) -> None:
    old = kit.append(frame(0))
    again = reopened(kit, disk)
    disk.damage(DIRECTORY / "log" / "0000000001.log", 8, b"\xff")
    new = again.append(frame(1))
    assert [again.log.read(each) for each in (old, new)] == [frame(0), frame(1)]
    again.log.close()
    # Catches: a bookie that serves on and answers every add with an I/O error (seed 40).


def test_a_log_whose_end_cannot_be_read_has_failed(kit: LogKit, disk: SimDisk) -> None:
    kit.append(frame(0))
    again = reopened(kit, disk)
    disk.fail("read", pattern="*.log")
    for call in (lambda: again.log.append(frame(1)), again.log.close):
        with pytest.raises(StorageError, match="cannot read"):
            call()
    assert again.log.stream.failure is not None


def test_a_spare_of_a_killed_process_is_removed(kit: LogKit, disk: SimDisk) -> None:
    after = disk.kill()
    again = reopened(kit, after)
    again.log.close()
    assert after.list_directory(DIRECTORY / "log") == []


def test_the_last_file_is_never_deleted(kit: LogKit, disk: SimDisk) -> None:
    kit.append(frame(0))
    again = reopened(kit, disk)
    assert [(each.file_id, each.is_last) for each in again.log.files()] == [(1, True)]
    with pytest.raises(StorageError, match="cannot be deleted"):
        again.log.delete_file(1)
    again.log.close()


def test_a_deleted_file_is_gone_for_good(kit: LogKit, disk: SimDisk) -> None:
    positions = [kit.append(frame(n, size=10_000)) for n in range(8)]
    kit.log.stream.sync()
    kit.log.delete_file(1)
    assert [each.file_id for each in kit.log.files()] == [2]
    assert not disk.power_cut().exists(FIRST)
    assert kit.log.read(positions[-1]) == frame(7, size=10_000)


def test_a_file_goes_without_a_sync_of_the_log_whose_last_file_is_durable(
    kit: LogKit, disk: SimDisk
) -> None:
    for n in range(8):
        kit.append(frame(n, size=10_000))
    kit.log.stream.sync()
    kit.append(frame(8))
    before = disk.sync_count
    kit.log.delete_file(1)
    assert disk.sync_count == before


def test_reads_from_many_threads_see_whole_frames_while_the_ring_wraps(disk: SimDisk) -> None:
    kit = LogKit(disk)
    positions: list[Position] = []
    wrong: list[object] = []
    done = threading.Event()

    def read(seed: int) -> None:
        chance = random.Random(seed)
        while not done.is_set() and not wrong:
            known = len(positions)
            if known:
                chosen = chance.randrange(max(0, known - 40), known)
                found = kit.log.read(positions[chosen])
                if found != frame(chosen, size=3000):
                    wrong.append(chosen)

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for reader in readers:
        reader.start()
    for entry_id in range(400):
        positions.append(kit.append(frame(entry_id, size=3000)))
    done.set()
    for reader in readers:
        reader.join()
    kit.log.close()
    assert wrong == []


ORPHAN = """
import sys
from pathlib import Path
from bookie.storage.disk import RealDisk
from bookie.storage.ledger_log import LedgerLog, LogSettings
settings = LogSettings(65536, 65536, reserve_bytes=0)
log = LedgerLog.open(Path(sys.argv[1]), disk=RealDisk(), settings=settings, notify=lambda: None)
log.append(b"x")
"""


@pytest.mark.process
def test_a_process_that_forgets_to_close_ends_and_flushes_nothing(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", ORPHAN, str(tmp_path)], check=True, timeout=60)
    assert not (tmp_path / "log" / "0000000001.log").exists()


def open_flags(suffix: str) -> list[int]:
    """The flags of this process's open files whose name ends so."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").endswith(suffix):
                lines = Path(f"/proc/self/fdinfo/{name}").read_text().splitlines()
                found.append(next(int(x.split()[1], 8) for x in lines if x.startswith("flags:")))
    return found


def test_real_files_are_written_directly_where_the_file_system_allows(tmp_path: Path) -> None:
    if not RealDisk().supports_direct(tmp_path):
        pytest.skip("the file system of the temporary folder has no direct writes")
    kit = LogKit(RealDisk(), directory=tmp_path)
    positions = [kit.append(frame(n, size=10_000)) for n in range(20)]
    kit.log.stream.sync()
    assert kit.log.stream.is_direct
    assert any(flags & os.O_DIRECT for flags in open_flags("0000000004.log"))
    kit.log.close()
    again = LogKit(RealDisk(), directory=tmp_path)
    assert [again.log.read(each) for each in positions] == again.scanned()
    again.log.close()


@pytest.mark.parametrize(
    ("wanted", "supported", "direct"),
    [
        ("auto", True, True),
        ("auto", False, False),
        ("off", True, False),
        ("off", False, False),
        ("on", True, True),
    ],
)
def test_writes_are_direct_where_that_is_wanted_and_possible(
    wanted: str, supported: bool, direct: bool
) -> None:
    settings = LogSettings(64 * 1024, 64 * 1024, wanted, reserve_bytes=0)  # type: ignore[arg-type]
    kit = LogKit(SimDisk(direct=supported), settings=settings)
    position = kit.append(frame(0))
    kit.log.stream.sync()
    assert kit.log.stream.is_direct is direct
    assert kit.log.read(position) == frame(0)
    kit.log.close()


def test_direct_writes_insisted_on_and_impossible_are_refused() -> None:
    settings = LogSettings(direct_io="on")
    with pytest.raises(StorageError, match="set it to auto or off"):
        LedgerLog.open(DIRECTORY, disk=SimDisk(direct=False), settings=settings, notify=Notified())


def test_a_reader_who_comes_as_a_file_is_deleted_does_not_keep_its_space() -> None:
    kit = LogKit(disk := TrackedDisk())
    position = kit.append(frame(0))
    kit.log.close()
    again = reopened(kit, disk)
    again.append(frame(1))
    again.log.stream.sync()
    disk.watch(lambda operation, _path: operation == "unlink" and again.log.read(position))
    again.log.delete_file(1)
    disk.watch(None)
    assert FIRST.name not in disk.open_names
    again.log.close()
