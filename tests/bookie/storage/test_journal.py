"""The journal: durable before told, replayed in order, torn told from lost, trimmed safely."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie.errors import DiskFullError, StorageError
from bookie.storage.disk import RealDisk
from bookie.storage.journal import Journal, journal_settings
from bookie.storage.journal_records import (
    RECORD_HEADER_BYTES,
    RecordKind,
    encode_record,
    record_at,
    seed_of,
)
from bookie.storage.log_files import HEADER_BYTES, LogSettings
from bookie.testing.disk import SimDisk
from hypothesis import given, settings
from hypothesis import strategies as st
from log_kit import SMALL, Notified

HOME = Path("/journal-disk")
DIRECTORY = HOME / "journal"
FIRST = DIRECTORY / "0000000001.jnl"
SECOND = DIRECTORY / "0000000002.jnl"
RUN = RecordKind.RUN


def test_a_journal_is_smaller_than_a_log_and_may_use_space_that_logs_leave_alone() -> None:
    mine, of_a_log = journal_settings(), LogSettings()
    for name in ("ring_bytes", "file_bytes", "reserve_bytes"):
        assert 0 < getattr(mine, name) < getattr(of_a_log, name)
    asked = {"ring_bytes": 1 << 20, "file_bytes": 2 << 20, "direct_io": "off"}
    assert {name: getattr(journal_settings(**asked), name) for name in asked} == asked  # type: ignore[arg-type]


def open_journal(disk: SimDisk, notified: Notified | None = None) -> Journal:
    return Journal.open(HOME, disk=disk, settings=SMALL, notify=notified or Notified())


def payload(number: int, *, size: int = 40) -> bytes:
    return (f"{number:07d}." * (size // 8 + 1)).encode()[:size]


def write(journal: Journal, *numbers: int, size: int = 40) -> list[int]:
    return [journal.append_durably(RUN, [payload(number, size=size)]) for number in numbers]


def abandon(journal: Journal) -> None:
    with contextlib.suppress(StorageError):
        journal.close()


def found_in(disk: SimDisk) -> tuple[list[bytes], Journal]:
    """Payloads replayed, and the journal, already closed without an append."""
    journal = open_journal(disk)
    payloads = [bytes(record.payload) for record in journal.replay()]
    journal.close()
    return payloads, journal


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


@pytest.fixture
def journal(disk: SimDisk) -> Iterator[Journal]:
    journal = open_journal(disk)
    yield journal
    abandon(journal)


def test_a_new_journal_is_fresh_and_neither_torn_nor_lost(disk: SimDisk) -> None:
    payloads, journal = found_in(disk)
    assert payloads == []
    assert (journal.is_fresh, journal.torn, journal.lost) == (True, False, False)


def test_records_come_back_in_order_with_kind_and_number(journal: Journal, disk: SimDisk) -> None:
    journal.append_durably(RecordKind.LEDGER, [b"led", bytearray(b"g"), memoryview(b"er")])
    journal.append_durably(RecordKind.RUN, [])
    journal.close()
    again = open_journal(disk)
    found = [(each.sequence, each.kind, bytes(each.payload)) for each in again.replay()]
    assert found == [(1, RecordKind.LEDGER, b"ledger"), (2, RecordKind.RUN, b"")]
    again.close()


def test_every_append_is_synced_unasked_and_notified(disk: SimDisk) -> None:
    notified = Notified()
    journal = open_journal(disk, notified)
    sequence = journal.append(RUN, [payload(0)])
    notified.wait_for(lambda: journal.synced_to() == sequence)
    assert found_in(disk.power_cut())[0] == [payload(0)]
    abandon(journal)


def test_one_sync_answers_all_appends_before_it(disk: SimDisk) -> None:
    notified = Notified()
    journal = open_journal(disk, notified)
    write(journal, 0)
    before = disk.sync_count
    with disk.held_syncs() as waiting:
        journal.append(RUN, [payload(1)])
        assert waiting.wait(30)
        for number in range(2, 40):
            journal.append(RUN, [payload(number)])
    notified.wait_for(lambda: journal.synced_to() == 40)
    assert disk.sync_count - before == 2
    journal.close()


def test_what_arrives_during_a_sync_waits_for_the_next_one(disk: SimDisk) -> None:
    told: list[int] = []
    journal: Journal
    journal = Journal.open(
        HOME, disk=disk, settings=SMALL, notify=lambda: told.append(journal.synced_to())
    )

    def append(operation: str, path: Path) -> None:
        if operation == "rename":  # of the first file: the flusher is in its pass
            journal.append(RUN, [payload(1)])

    disk.watch(append)
    write(journal, 0)
    journal.close()
    assert told[:2] == [1, 2]


def test_what_replay_shows_after_a_kill_is_durable(disk: SimDisk) -> None:
    journal = open_journal(disk)
    write(journal, 0)
    with disk.held_syncs() as waiting:
        journal.append(RUN, [payload(1)])
        assert waiting.wait(30)
        after = disk.kill()
    abandon(journal)
    again = open_journal(after)
    assert [bytes(each.payload) for each in again.replay()] == [payload(0), payload(1)]
    assert found_in(after.power_cut())[0] == [payload(0), payload(1)]
    abandon(again)


def test_a_full_ring_refuses_and_notify_tells_of_room(disk: SimDisk) -> None:
    notified = Notified()
    journal = open_journal(disk, notified)
    with disk.held_syncs() as waiting:
        journal.append(RUN, [payload(0)])
        assert waiting.wait(30)
        taken = [journal.append(RUN, [payload(n, size=6000)]) for n in range(20)]
        assert taken[-1] is None
        before = notified.calls
    notified.wait_for_more(before)
    assert journal.append(RUN, [payload(1)]) is not None
    journal.close()


def test_a_failed_sync_is_final_and_nothing_is_claimed(journal: Journal, disk: SimDisk) -> None:
    write(journal, 0)
    disk.fail("sync", pattern="*.jnl*")
    with pytest.raises(StorageError, match="cannot sync"):
        write(journal, 1)
    assert journal.synced_to() == 1
    assert journal.stream.failure is not None
    for _ in range(2):
        with pytest.raises(StorageError, match="cannot sync"):
            journal.append(RUN, [b"x"])
        with pytest.raises(StorageError, match="cannot sync"):
            journal.close()


def test_a_full_disk_refuses_but_a_trim_of_the_past_helps(disk: SimDisk) -> None:
    disk.capacity_bytes = 3 * SMALL.file_bytes
    notified = Notified()
    journal = open_journal(disk, notified)
    with pytest.raises(DiskFullError):
        write(journal, *range(10_000), size=1000)
    assert journal.stream.failure is None
    journal.close()


def test_an_orderly_end_is_recorded(journal: Journal, disk: SimDisk) -> None:
    write(journal, 0)
    after_kill = found_in(disk.kill())[1]
    assert (after_kill.ended, after_kill.torn, after_kill.lost) == (False, False, False)
    abandon(journal)


def test_closing_twice_records_one_end(journal: Journal, disk: SimDisk) -> None:
    write(journal, 0)
    journal.close()
    journal.close()
    payloads, again = found_in(disk)
    assert (payloads, again.ended, again.last_sequence()) == ([payload(0)], True, 2)


# ---- torn ends -----------------------------------------------------------------------------------


def last_record(disk: SimDisk) -> tuple[SimDisk, int, int]:
    """A killed journal of three records: its disk, where the last one lies, and its length."""
    journal = open_journal(disk)
    write(journal, 0, 1, 2)
    after = disk.kill()
    abandon(journal)
    length = RECORD_HEADER_BYTES + 40
    return after, HEADER_BYTES + 2 * length, length


def test_a_tail_torn_at_any_byte_keeps_all_before_it(disk: SimDisk) -> None:
    disk, start, length = last_record(disk)
    record = disk.content(FIRST)[start : start + length]
    for kept in range(length):
        disk.damage(FIRST, start, record[:kept] + bytes(length - kept))
        payloads, journal = found_in(disk)
        assert payloads == [payload(0), payload(1)]
        assert (journal.torn, journal.lost) == (kept > 0, False)


def test_a_flipped_bit_anywhere_in_the_last_record_is_a_torn_end(disk: SimDisk) -> None:
    disk, start, length = last_record(disk)
    content = disk.content(FIRST)
    for index in range(start, start + length):
        disk.damage(FIRST, index, bytes([content[index] ^ 0x08]))
        payloads, journal = found_in(disk)
        assert payloads == [payload(0), payload(1)]
        assert (journal.torn, journal.lost) == (True, False)
        disk.damage(FIRST, index, content[index : index + 1])


def test_a_hole_before_records_that_were_never_synced_is_torn(disk: SimDisk) -> None:
    journal = open_journal(disk)
    write(journal, 0)
    with disk.held_syncs() as waiting:
        journal.append(RUN, [payload(1)])
        journal.append(RUN, [payload(2)])
        assert waiting.wait(30)
    journal.stream.sync()
    after = disk.kill()
    abandon(journal)
    after.damage(FIRST, HEADER_BYTES + RECORD_HEADER_BYTES + 40, bytes(20))
    payloads, again = found_in(after)
    assert payloads == [payload(0)]
    assert (again.torn, again.lost) == (True, False)


def test_numbers_of_a_torn_end_are_given_again_and_it_stays_behind(disk: SimDisk) -> None:
    disk, start, _ = last_record(disk)
    disk.damage(FIRST, start, b"\xff")
    journal = open_journal(disk)
    assert write(journal, 7) == [3]
    journal.close()
    payloads, again = found_in(disk)
    assert payloads == [payload(0), payload(1), payload(7)]
    assert (again.torn, again.lost, again.ended) == (False, False, True)


# ---- lost ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [0, 1])
def test_a_flip_before_records_that_knew_it_durable_is_lost(disk: SimDisk, record: int) -> None:
    disk, _, length = last_record(disk)
    start = HEADER_BYTES + record * length
    content = disk.content(FIRST)
    for index in range(start, start + length):
        disk.damage(FIRST, index, bytes([content[index] ^ 0x80]))
        assert found_in(disk)[1].lost
        disk.damage(FIRST, index, content[index : index + 1])


def test_a_loss_says_what_is_gone_and_how_that_is_known(disk: SimDisk) -> None:
    disk, _, _ = last_record(disk)
    disk.damage(FIRST, HEADER_BYTES, bytes(20))
    (reason,) = found_in(disk)[1].lost_reasons
    assert "record 1 at 4096 is gone" in reason


def test_a_lost_end_is_noticed_after_an_orderly_stop(journal: Journal, disk: SimDisk) -> None:
    write(journal, 0, 1)
    journal.close()
    disk.damage(FIRST, HEADER_BYTES + RECORD_HEADER_BYTES + 40, bytes(30))
    assert found_in(disk)[1].lost


@pytest.fixture
def three_files(journal: Journal, disk: SimDisk) -> SimDisk:
    """Records 0 to 149, about 60 to a file."""
    write(journal, *range(150), size=1000)
    journal.close()
    assert len(disk.list_directory(DIRECTORY)) == 3
    return disk


def test_records_of_several_files_come_back_in_order(three_files: SimDisk) -> None:
    payloads, journal = found_in(three_files)
    assert payloads == [payload(number, size=1000) for number in range(150)]
    assert not journal.lost


@pytest.mark.parametrize("name", [FIRST.name, SECOND.name])
def test_a_missing_file_is_lost(three_files: SimDisk, name: str) -> None:
    three_files.unlink(DIRECTORY / name)
    assert f"journal file {name} is missing" in found_in(three_files)[1].lost_reasons


def test_a_bad_header_is_lost_and_the_other_files_are_replayed(three_files: SimDisk) -> None:
    three_files.damage(SECOND, 0, b"\0")
    payloads, journal = found_in(three_files)
    assert journal.lost
    assert payloads[0] == payload(0, size=1000)
    assert payloads[-1] == payload(149, size=1000)


def test_a_zeroed_end_of_a_file_that_is_not_the_last_is_lost(three_files: SimDisk) -> None:
    three_files.damage(FIRST, 60_000, bytes(SMALL.file_bytes - 60_000))
    assert found_in(three_files)[1].lost


def test_an_unreadable_journal_is_an_error_and_not_an_empty_one(three_files: SimDisk) -> None:
    three_files.fail("read", pattern="*.jnl")
    with pytest.raises(StorageError, match="cannot read"):
        open_journal(three_files)


def test_a_record_of_a_newer_version_is_refused_not_skipped() -> None:
    parts = encode_record(RUN, [b"x"], sequence=1, synced=0, seed=seed_of(5, 4096))
    raw = record_at(memoryview(b"".join(parts)), nonce=5, offset=4096)
    assert raw is not None
    newer = type(raw)(raw.offset, 77, raw.sequence, raw.synced, raw.payload)
    with pytest.raises(StorageError, match="unknown kind 77"):
        newer.record()


def test_a_copy_of_a_record_inside_a_payload_proves_nothing(disk: SimDisk) -> None:
    # An entry may hold any bytes, those of a journal record too.
    copied = b"".join(encode_record(RUN, [b"x"], sequence=9, synced=8, seed=seed_of(0, 0)))
    journal = open_journal(disk)
    journal.append_durably(RUN, [copied])
    after = disk.kill()
    abandon(journal)
    after.damage(FIRST, HEADER_BYTES, b"\xff")
    _, again = found_in(after)
    assert (again.torn, again.lost) == (True, False)


# ---- trim ----------------------------------------------------------------------------------------


def test_a_trim_deletes_whole_files_only(three_files: SimDisk) -> None:
    journal = open_journal(three_files)
    journal.trim(100)
    journal.close()
    payloads, again = found_in(three_files)
    assert not three_files.exists(FIRST)
    assert three_files.exists(SECOND)
    assert payload(100, size=1000) in payloads
    assert not again.lost


def test_a_trim_of_everything_keeps_the_file_in_use(journal: Journal, disk: SimDisk) -> None:
    write(journal, *range(100), size=1000)
    journal.trim(journal.last_sequence())
    write(journal, 777)
    journal.close()
    payloads, again = found_in(disk)
    assert payloads[-1] == payload(777)
    assert len(disk.list_directory(DIRECTORY)) == 1
    assert (again.lost, again.last_sequence()) == (False, 103)


def test_behind_the_begin_of_a_file_a_trim_leaves_nothing_of_what_was_before(
    journal: Journal, disk: SimDisk
) -> None:
    write(journal, 0, 1)
    journal.begin_file()
    journal.trim(2)
    write(journal, 2)
    assert not disk.exists(FIRST)
    abandon(journal)
    assert found_in(disk.power_cut())[0] == [payload(2)]


def test_on_a_full_disk_no_file_is_begun_and_appends_go_on_in_the_last_one(disk: SimDisk) -> None:
    disk.capacity_bytes = 2 * SMALL.file_bytes
    journal = open_journal(disk)
    write(journal, 0)
    disk.capacity_bytes = SMALL.file_bytes
    journal.begin_file()  # the file that was there ahead of time
    with pytest.raises(DiskFullError, match="free space"):
        journal.begin_file()
    write(journal, 1)
    journal.close()
    assert found_in(disk)[0] == [payload(0), payload(1)]


def test_a_trim_of_nothing_writes_nothing(journal: Journal) -> None:
    write(journal, 0, 1)
    journal.trim(1)
    assert journal.last_sequence() == 2


def test_a_trim_that_was_recorded_is_finished_later(three_files: SimDisk) -> None:
    journal = open_journal(three_files)
    three_files.fail("unlink", pattern=FIRST.name)
    with pytest.raises(StorageError, match="cannot unlink"):
        journal.trim(100)
    abandon(journal)
    again = open_journal(three_files)
    assert not again.lost
    assert payload(0, size=1000) not in [bytes(each.payload) for each in again.replay()]
    again.trim(0)
    assert not three_files.exists(FIRST)
    again.close()


def test_the_first_file_missing_without_a_trim_is_lost_after_a_trim(three_files: SimDisk) -> None:
    journal = open_journal(three_files)
    journal.trim(100)
    journal.close()
    three_files.unlink(SECOND)
    assert found_in(three_files)[1].lost


def test_a_trim_behind_the_damage_heals_a_lost_journal(three_files: SimDisk) -> None:
    three_files.unlink(SECOND)
    journal = open_journal(three_files)
    assert journal.lost
    write(journal, 500)  # what the owner marks after treating the disk as empty
    journal.trim(journal.last_sequence() - 1)
    journal.close()
    payloads, again = found_in(three_files)
    assert payloads == [payload(500)]
    assert not again.lost


def test_appends_go_on_while_a_trim_runs(three_files: SimDisk) -> None:
    notified = Notified()
    journal = open_journal(three_files, notified)

    def append(operation: str, path: Path) -> None:
        if operation == "unlink" and path == FIRST:
            assert journal.append(RUN, [payload(900)]) is not None

    three_files.watch(append)
    journal.trim(100)
    three_files.watch(None)
    journal.close()
    payloads, again = found_in(three_files)
    assert payload(900) in payloads
    assert not again.lost


# ---- crashes -------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(st.integers(0, 9000), st.sampled_from(["sync", "trim", "restart"])), max_size=30
)


@settings(deadline=None, max_examples=60)
@given(STEPS, st.integers(0, 2**16))
def test_every_durable_record_survives_every_crash(steps: list[int | str], seed: int) -> None:
    disk = SimDisk()
    journal = open_journal(disk)
    written: dict[int, bytes] = {}
    trimmed = 0
    for step in steps:
        if step == "sync":
            journal.stream.sync()
        elif step == "trim":
            trimmed = journal.last_sequence()
            journal.trim(trimmed)
        elif step == "restart":
            journal.close()
            journal = open_journal(disk)
        else:
            content = payload(len(written), size=int(step))
            while (number := journal.append(RUN, [content])) is None:
                journal.stream.sync()
            written[number] = content
    durable = {number for number in written if trimmed < number <= journal.synced_to()}
    after = disk.crash(seed)
    abandon(journal)
    again = open_journal(after)
    found = {each.sequence: bytes(each.payload) for each in again.replay()}
    again.close()
    assert not again.lost
    assert durable <= found.keys()
    assert found.items() <= written.items()


def stopped_at(step: int, seed: int) -> tuple[set[int], SimDisk]:
    """A journal whose machine dies at its step-th operation: what must be there, and the disk."""
    disk = SimDisk()
    left = step

    def stop(operation: str, path: Path) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(5, "the machine stops here")

    disk.watch(stop)
    durable: list[int] = []
    journal = None
    with contextlib.suppress(StorageError):
        journal = open_journal(disk)
        for number in range(16):
            durable += write(journal, number, size=9000)
            if number % 7 == 6:
                trimmed, durable = durable[-4], durable[-3:]
                journal.trim(trimmed)
        journal.close()
    disk.watch(None)
    after = disk.crash(seed)
    if journal is not None:
        abandon(journal)
    return set(durable), after


@pytest.mark.parametrize("step", range(0, 120))
def test_a_machine_that_stops_at_any_operation_loses_nothing_durable(step: int) -> None:
    for seed in range(3):
        durable, after = stopped_at(step, seed)
        again = open_journal(after)
        numbers = {each.sequence for each in again.replay()}
        again.close()
        assert not again.lost
        assert durable <= numbers


def test_on_a_real_disk_all_comes_back(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, disk=RealDisk(), settings=SMALL, notify=Notified())
    write(journal, *range(150), size=1000)
    journal.trim(100)
    journal.close()
    again = Journal.open(tmp_path, disk=RealDisk(), settings=SMALL, notify=Notified())
    assert [bytes(each.payload) for each in again.replay()][-1] == payload(149, size=1000)
    assert (again.lost, again.torn, again.ended) == (False, False, True)
    again.close()
