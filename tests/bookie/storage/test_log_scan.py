"""After a stop: what the scan finds, what it calls torn, and what it calls damage."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie.errors import CorruptError
from bookie.frames.frame import FRAME_BYTES_MAX
from bookie.storage import log_scan
from bookie.storage.ledger_log import LedgerLog
from bookie.storage.log_files import HEADER_BYTES
from bookie.storage.log_scan import Position
from bookie.testing.disk import SimDisk
from hypothesis import given, settings
from hypothesis import strategies as st
from log_kit import DIRECTORY, SMALL, LogKit, Notified, frame, reopened

LOG = DIRECTORY / "log"
FIRST = LOG / "0000000001.log"
SECOND = LOG / "0000000002.log"


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


@pytest.fixture
def kit(disk: SimDisk) -> Iterator[LogKit]:
    kit = LogKit(disk)
    yield kit
    kit.abandon()


def open_log(disk: SimDisk) -> LedgerLog:
    return LedgerLog.open(DIRECTORY, disk=disk, settings=SMALL, notify=Notified())


def scan(disk: SimDisk, start: tuple[int, int] = (0, 0)) -> tuple[list[bytes], bool]:
    """Frames found and whether the tail is torn; the log is closed again."""
    log = open_log(disk)
    try:
        return [bytes(run.buffer) for _, run in log.scan(start)], log.torn
    finally:
        log.close()


def test_an_empty_log_scans_to_nothing(disk: SimDisk) -> None:
    assert scan(disk) == ([], False)


def test_a_scan_gives_positions_and_checked_frames(kit: LogKit, disk: SimDisk) -> None:
    positions = [kit.append(frame(n)) for n in range(3)]
    kit.log.close()
    log = open_log(disk)
    found = [(position, run.first_entry_id) for position, run in log.scan((0, 0))]
    assert found == list(zip(positions, range(3), strict=True))
    log.close()


def test_a_scan_starts_at_a_checkpoint(kit: LogKit, disk: SimDisk) -> None:
    kit.append(frame(0))
    kit.log.stream.sync()
    checkpoint = kit.log.synced_to()
    kit.append(frame(1))
    kit.log.close()
    assert scan(disk, checkpoint) == ([frame(1)], False)


def test_a_scan_goes_on_over_files_and_over_starts(kit: LogKit, disk: SimDisk) -> None:
    frames = [frame(n, size=10_000) for n in range(14)]
    for each in frames[:10]:
        kit.append(each)
    kit.log.stream.sync()
    again = reopened(kit, disk)
    for each in frames[10:]:
        again.append(each)
    again.log.close()
    assert scan(disk) == (frames, False)


def test_a_checkpoint_of_a_start_without_appends_is_valid_later(disk: SimDisk) -> None:
    log = open_log(disk)
    checkpoint = log.synced_to()
    log.close()
    kit = LogKit(disk)
    kit.append(frame(0))
    kit.log.close()
    assert scan(disk, checkpoint) == ([frame(0)], False)


def test_a_checkpoint_at_the_end_finds_nothing_more(kit: LogKit, disk: SimDisk) -> None:
    kit.append(frame(0))
    kit.log.close()
    assert scan(disk, kit.log.synced_to()) == ([], False)


def test_what_a_scan_shows_after_a_kill_is_durable(kit: LogKit, disk: SimDisk) -> None:
    kit.append(frame(0))
    kit.log.stream.sync()
    with disk.held_syncs() as waiting:
        kit.append(frame(1))
        kit.log.stream.request_sync()
        assert waiting.wait(30)
        after = disk.kill()
    again = reopened(kit, after)
    assert again.scanned() == [frame(0), frame(1)]
    assert scan(after.power_cut())[0] == [frame(0), frame(1)]
    again.abandon()


def write_two_frames() -> tuple[SimDisk, Position]:
    disk = SimDisk()
    kit = LogKit(disk)
    kit.append(frame(0, size=10))
    last = kit.append(frame(1, size=10))
    kit.log.close()
    return disk, last


def test_a_tail_torn_at_any_byte_gives_all_before_it_and_says_so() -> None:
    template, last = write_two_frames()
    content = template.content(FIRST)
    for kept in range(last.length):
        disk = template.kill()
        template = disk
        disk.damage(FIRST, last.offset, content[last.offset : last.offset + kept])
        disk.damage(FIRST, last.offset + kept, bytes(last.length - kept))
        assert scan(disk) == ([frame(0, size=10)], kept > 0)


def test_a_flipped_bit_anywhere_in_the_last_frame_is_torn() -> None:
    disk, last = write_two_frames()
    content = disk.content(FIRST)
    for index in range(last.offset, last.end):
        disk.damage(FIRST, index, bytes([content[index] ^ 0x10]))
        assert scan(disk) == ([frame(0, size=10)], True)
        disk.damage(FIRST, index, content[index : index + 1])


def test_zeros_before_more_frames_are_torn_and_not_a_clean_end(kit: LogKit) -> None:
    first, _ = kit.append(frame(0)), kit.append(frame(1))
    kit.log.stream.sync()
    disk = kit.disk
    assert isinstance(disk, SimDisk)
    disk.damage(FIRST, first.offset, bytes(first.length))
    assert scan(disk.kill()) == ([], True)


def test_a_torn_tail_stays_behind_when_the_next_start_appends(kit: LogKit, disk: SimDisk) -> None:
    kit.append(frame(0))
    last = kit.append(frame(1))
    kit.log.close()
    disk.damage(FIRST, last.offset + 60, b"\xff")
    again = LogKit(disk)
    assert again.scanned() == [frame(0)]
    again.append(frame(2))
    again.log.close()
    assert scan(disk) == ([frame(0), frame(2)], False)


def test_the_tail_is_found_also_when_nobody_scanned(kit: LogKit, disk: SimDisk) -> None:
    kit.append(frame(0))
    kit.log.close()
    again = LogKit(disk)
    again.append(frame(1))
    again.log.close()
    assert scan(disk) == ([frame(0), frame(1)], False)


@pytest.fixture
def two_files(kit: LogKit, disk: SimDisk) -> SimDisk:
    """Frames 0 to 5 in the first file, 6 to 9 in the second."""
    for entry_id in range(10):
        kit.append(frame(entry_id, size=10_000))
    kit.log.close()
    return disk


def test_damage_before_a_later_file_is_corrupt(two_files: SimDisk) -> None:
    two_files.damage(FIRST, 30_000, b"\xff\xff")
    with pytest.raises(CorruptError, match="synced frames are lost"):
        scan(two_files)


def test_a_lost_end_of_a_file_with_a_later_one_is_corrupt(two_files: SimDisk) -> None:
    two_files.damage(FIRST, 54_000, bytes(SMALL.file_bytes - 54_000))
    with pytest.raises(CorruptError, match="good frames end at"):
        scan(two_files)


def test_a_good_frame_behind_the_end_that_the_next_file_names_is_not_of_the_log(
    two_files: SimDisk,
) -> None:
    before = scan(two_files)
    two_files.damage(FIRST, HEADER_BYTES + 6 * len(frame(0, size=10_000)), frame(99))
    assert scan(two_files) == before


def test_a_bad_header_is_corrupt(two_files: SimDisk) -> None:
    two_files.damage(SECOND, 0, bytes(HEADER_BYTES))
    with pytest.raises(CorruptError, match="header"):
        scan(two_files)


def test_a_missing_file_in_the_middle_is_corrupt_behind_a_checkpoint(
    two_files: SimDisk,
) -> None:
    kit = LogKit(two_files)
    kit.append(frame(10))
    kit.log.close()
    two_files.unlink(SECOND)
    with pytest.raises(CorruptError, match="log file 2 is missing"):
        scan(two_files, (1, HEADER_BYTES))


def test_a_missing_checkpoint_file_is_corrupt(two_files: SimDisk) -> None:
    two_files.unlink(SECOND)
    with pytest.raises(CorruptError, match="log file 2"):
        scan(two_files, (2, 10_000))


def test_a_file_shorter_than_the_checkpoint_is_corrupt(two_files: SimDisk) -> None:
    file = two_files.open(SECOND, writable=True)
    file.truncate(HEADER_BYTES)
    with pytest.raises(CorruptError, match="synced frames up to 20000"):
        scan(two_files, (2, 20_000))


def test_files_deleted_by_compaction_leave_the_rest_readable(two_files: SimDisk) -> None:
    kit = LogKit(two_files)
    kit.append(frame(10))
    kit.log.delete_file(2)
    kit.log.close()
    assert scan(two_files)[0] == [*(frame(n, size=10_000) for n in range(6)), frame(10)]


def test_a_rebuild_takes_note_of_damage_and_goes_on(two_files: SimDisk) -> None:
    two_files.damage(FIRST, 30_000, b"\xff\xff")
    log = open_log(two_files)
    damage: list[CorruptError] = []
    ids = [run.first_entry_id for _, run in log.scan((0, 0), on_damage=damage.append)]
    assert ids == [0, 1, 6, 7, 8, 9]
    assert len(damage) == 1
    log.close()


STEPS = st.lists(
    st.one_of(st.integers(0, 12_000), st.sampled_from(["sync", "restart"])), max_size=25
)


@settings(deadline=None, max_examples=60)
@given(STEPS, st.integers(0, 2**16))
def test_all_before_synced_to_survives_every_crash(steps: list[int | str], seed: int) -> None:
    disk = SimDisk()
    kit = LogKit(disk)
    frames: list[bytes] = []
    positions: list[Position] = []
    for step in steps:
        if step == "sync":
            kit.log.stream.sync()
        elif step == "restart":
            kit.log.close()
            kit = LogKit(disk)
        else:
            frames.append(frame(len(frames), size=int(step)))
            positions.append(kit.append(frames[-1]))
    synced = kit.log.synced_to()
    after = disk.crash(seed)
    survivor = reopened(kit, after)
    durable = [position for position in positions if (position.file_id, position.end) <= synced]
    found = survivor.scanned()
    assert found == frames[: len(found)]
    assert len(found) >= len(durable)
    assert [survivor.log.read(each) for each in durable] == frames[: len(durable)]
    survivor.append(frame(99))
    survivor.log.close()
    assert scan(after) == ([*found, frame(99)], False)


def stopped_at(step: int, seed: int) -> tuple[list[bytes], int, SimDisk]:
    """A log whose machine dies at its step-th operation: frames, how many were synced, the disk."""
    disk = SimDisk()
    left = step

    def stop(operation: str, path: Path) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(5, "the machine stops here")

    disk.watch(stop)
    frames = [frame(n, size=9000) for n in range(12)]
    synced = 0
    kit = None
    try:
        kit = LogKit(disk)
        for number, each in enumerate(frames):
            kit.append(each)
            if number % 3 == 2:
                kit.log.stream.sync()
                synced = number + 1
        kit.log.close()
    except Exception:
        assert left < 0
    disk.watch(None)
    after = disk.crash(seed)
    if kit is not None:
        kit.abandon()
    return frames, synced, after


@pytest.mark.parametrize("step", range(0, 60))
def test_a_machine_that_stops_at_any_operation_keeps_what_was_synced(step: int) -> None:
    for seed in range(4):
        frames, synced, after = stopped_at(step, seed)
        found, _ = scan(after)
        assert found == frames[: len(found)]
        assert len(found) >= synced


# ---- what is read at once -----------------------------------------------------------------------


@pytest.mark.parametrize("scan_bytes", [600, 601, 1000, 5000])
def test_frames_are_found_wherever_what_is_read_at_once_ends(
    kit: LogKit, disk: SimDisk, monkeypatch: pytest.MonkeyPatch, scan_bytes: int
) -> None:
    frames = [frame(number, size=100 + 37 * (number % 9)) for number in range(300)]
    for each in frames:
        kit.append(each)
    kit.log.close()
    assert max(map(len, frames)) <= scan_bytes and len(disk.list_directory(LOG)) > 1
    monkeypatch.setattr(log_scan, "SCAN_BYTES", scan_bytes)
    assert scan(disk) == (frames, False)


def test_the_longest_frame_is_read_at_once() -> None:
    assert log_scan.SCAN_BYTES >= FRAME_BYTES_MAX


def test_a_single_byte_far_behind_the_last_frame_is_a_torn_end(
    kit: LogKit, disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.append(frame(0))
    kit.log.stream.sync()
    after = disk.kill()
    monkeypatch.setattr(log_scan, "_ZERO_BYTES", 4096)
    assert scan(after.image(lambda _path, _change: True)) == ([frame(0)], False)
    after = disk.kill()
    after.damage(FIRST, SMALL.file_bytes - 1, b"\x01")
    assert scan(after) == ([frame(0)], True)
