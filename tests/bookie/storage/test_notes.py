"""Notes: which ledgers may have entries that no disk has; over checkpoints, crashes, versions."""

import errno
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from bookie.errors import DiskFullError
from bookie.ids import LedgerId
from bookie.storage.facts import DirectoryFacts
from bookie.storage.journal_records import NOTED, RecordKind, encode_record, record_at, seed_of
from bookie.storage.maintenance import CheckpointCapture
from bookie.storage.modes import DurabilityMode
from bookie.storage.notes import NOTES_AT_ONCE_MAX
from bookie.storage.records import LedgerRecord
from storage_kit import StorageKit, run, take_back_notes

L7, L8 = LedgerId(7), LedgerId(8)


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[StorageKit]:
    made = StorageKit(tmp_path / "bookie", disks=1, note_idle_flushes=1)
    yield made
    made.end()


def note(kit: StorageKit, *ledgers: LedgerId) -> None:
    for ledger_id in ledgers:
        kit.put(LedgerRecord(ledger_id, master_key=b"k", noted=True))


def take_back(kit: StorageKit) -> list[LedgerId]:
    """What a bookie does after a flush; the ledgers that still have a note."""
    take_back_notes(kit.storage)
    return kit.storage.noted_ledgers()


def flush(kit: StorageKit) -> list[LedgerId]:
    kit.storage.maintenance.checkpoint()
    return take_back(kit)


def test_a_note_is_there_after_a_power_cut_before_and_after_a_checkpoint(kit: StorageKit) -> None:
    note(kit, L7)
    kit = kit.after_power_cut()
    assert kit.storage.noted_ledgers() == [L7]
    kit.storage.maintenance.checkpoint()
    assert kit.after_power_cut().storage.noted_ledgers() == [L7]


def test_a_note_made_after_the_last_checkpoint_is_in_the_journal_alone(kit: StorageKit) -> None:
    kit.storage.maintenance.settle()
    kit.storage.maintenance.checkpoint()
    note(kit, L7)
    assert kit.after_power_cut().storage.noted_ledgers() == [L7]


def test_notes_are_in_the_index_alone_once_the_journal_is_trimmed(kit: StorageKit) -> None:
    note(kit, L7)
    kit.storage.maintenance.journal.begin_file()
    kit.storage.maintenance.checkpoint()
    assert kit.after_power_cut().storage.noted_ledgers() == [L7]


def test_a_note_goes_once_its_ledger_was_idle_for_a_whole_flush_interval(kit: StorageKit) -> None:
    note(kit, L7)
    kit.add(run(7, 0))
    assert flush(kit) == [L7]  # written since the flush before
    assert flush(kit) == []


def test_a_setting_keeps_notes_for_longer(kit: StorageKit) -> None:
    kit = kit.reopened(note_idle_flushes=3)
    note(kit, L7)
    assert [flush(kit) for _ in range(3)] == [[L7], [L7], []]


def test_a_ledger_that_was_written_has_all_its_idle_flushes_before_it_again(
    kit: StorageKit,
) -> None:
    kit = kit.reopened(note_idle_flushes=3)
    note(kit, L7)
    assert flush(kit) == flush(kit) == [L7]
    kit.add(run(7, 0))
    assert [flush(kit) for _ in range(4)] == [[L7], [L7], [L7], []]


def test_a_busy_ledger_keeps_its_note(kit: StorageKit) -> None:
    note(kit, L7, L8)
    for number in range(5):
        kit.add(run(7, number))
        flush(kit)
    assert kit.storage.noted_ledgers() == [L7]


def test_a_note_stays_while_an_entry_is_in_memory_whatever_was_flushed(kit: StorageKit) -> None:
    note(kit, L7)
    assert kit.storage.maintenance.checkpoint() is None
    kit.add(run(7, 0))
    assert take_back(kit) == [L7]


def test_a_note_taken_back_is_gone_for_good_with_the_next_checkpoint(kit: StorageKit) -> None:
    kit.storage.maintenance.settle()
    note(kit, L7)
    flush(kit)
    assert flush(kit) == []
    assert kit.after_power_cut().storage.noted_ledgers() == []


def test_until_that_checkpoint_a_crash_brings_it_back(kit: StorageKit) -> None:
    note(kit, L7)
    kit.storage.maintenance.checkpoint()
    assert take_back(kit) == []
    assert kit.after_power_cut().storage.noted_ledgers() == [L7]


def test_a_note_made_again_is_there_though_the_index_says_it_went(kit: StorageKit) -> None:
    note(kit, L7)
    flush(kit)
    flush(kit)
    note(kit, L7)
    assert kit.after_power_cut().storage.noted_ledgers() == [L7]


def test_a_later_change_of_the_record_takes_no_note_back(kit: StorageKit) -> None:
    note(kit, L7)
    kit.put(LedgerRecord(L7, fenced=True))
    assert kit.after_power_cut().storage.noted_ledgers() == [L7]


def test_many_notes_are_looked_at_in_pieces(kit: StorageKit) -> None:
    note(kit, *(LedgerId(number) for number in range(NOTES_AT_ONCE_MAX + 1)))
    kit.storage.maintenance.checkpoint()
    assert [kit.storage.take_back_notes() for _ in range(3)] == [True, True, False]
    assert kit.storage.noted_ledgers() == []


def test_taking_a_note_back_takes_the_permit_too(kit: StorageKit) -> None:
    note(kit, L7)
    kit.storage.permits.grant(L7, b"k", as_of=kit.storage.permits.version)
    flush(kit)
    assert L7 not in kit.storage.permits.keys


# ---- whether any note may be missing ------------------------------------------------------------


def settled(kit: StorageKit) -> StorageKit:
    """As a boot leaves it: from here on notes are whole."""
    kit.storage.maintenance.settle()
    return kit


def test_a_storage_of_a_version_without_notes_has_none_that_are_whole(kit: StorageKit) -> None:
    assert not kit.storage.report.notes_are_whole
    assert not kit.after_power_cut().storage.report.notes_are_whole


def test_notes_are_whole_over_power_cuts_and_trimmed_files(kit: StorageKit) -> None:
    settled(kit)
    for _ in range(3):
        note(kit, L7)
        kit.storage.maintenance.journal.begin_file()
        kit.storage.maintenance.checkpoint()
        kit = kit.after_power_cut()
        assert kit.storage.report.notes_are_whole


@pytest.mark.parametrize("noted_to", range(5, 10))
def test_notes_are_whole_where_an_index_has_those_of_every_trimmed_record(
    kit: StorageKit, noted_to: int
) -> None:
    maintenance = settled(kit).storage.maintenance
    for _ in range(3):
        note(kit, L7)
        maintenance.journal.begin_file()
        maintenance.checkpoint()
    for directory in maintenance.directories:
        directory.write(facts=replace(directory.facts, noted_to=noted_to))
    found = kit.after_power_cut().storage
    trimmed_to = found.maintenance.journal.first_kept - 1
    assert trimmed_to == 7, "so that there are cases on both sides, and at it"
    assert found.report.notes_are_whole is (noted_to >= trimmed_to)


def test_who_trims_the_journal_without_its_notes_is_found_out(kit: StorageKit) -> None:
    """What a version does that keeps none: it replays, commits its own facts, and trims."""
    directory = settled(kit).storage.maintenance.directories[0]
    before = directory.facts
    note(kit, L7)
    kit.storage.maintenance.journal.begin_file()
    kit.storage.maintenance.checkpoint()
    stale = replace(directory.facts, noted_to=before.noted_to)
    directory.write(facts=stale, records=[LedgerRecord(L7, master_key=b"k")])
    for _ in range(2):  # also at the open after the one that found out
        kit = kit.after_power_cut()
        assert not kit.storage.report.notes_are_whole
    assert settled(kit).after_power_cut().storage.report.notes_are_whole


def test_a_commit_in_the_middle_of_a_replay_takes_no_later_note_away(kit: StorageKit) -> None:
    kit = journal_of_runs(kit, then=LedgerRecord(L8, master_key=b"k", noted=True))
    kit = kit.after_power_cut(checkpoint_rows=4)
    assert kit.storage.report.replayed_runs == 6, "it committed in between"
    assert kit.storage.noted_ledgers() == [L8]


def journal_of_runs(kit: StorageKit, *, then: LedgerRecord) -> StorageKit:
    """A journal with runs that the log lacks, as their ledger was collected and came back."""
    kit = settled(kit).reopened(mode=DurabilityMode.JOURNAL)
    kit.add(*(run(7, number) for number in range(6)))
    kit = kit.after_power_cut(mode=DurabilityMode.MEMORY)
    kit.storage.maintenance.delete_ledgers([L7])
    assert kit.storage.maintenance.revive_ledgers([L7], epoch=2) == 1
    kit.put(then)
    return kit


def test_a_note_that_comes_while_a_checkpoint_commits_is_not_counted_as_in_the_index(
    kit: StorageKit,
) -> None:
    maintenance = settled(kit).storage.maintenance
    note(kit, L7)
    capture = maintenance.capture

    def and_then_a_note() -> CheckpointCapture:
        captured = capture()
        kit.storage.put_record(LedgerRecord(L8, noted=True), done=lambda _error: None)
        return captured

    maintenance.capture = and_then_a_note
    maintenance.checkpoint()
    maintenance.journal.stream.sync()
    assert kit.after_power_cut().storage.noted_ledgers() == [L7, L8]


def test_a_note_is_found_though_its_number_was_another_records_before_a_crash(
    kit: StorageKit,
) -> None:
    directory = settled(kit).storage.maintenance.directories[0]
    note(kit, L7)
    directory.write(facts=replace(directory.facts, noted_to=50))  # appended, and never synced
    kit = kit.after_power_cut()
    note(kit, L8)
    assert L8 in kit.after_power_cut().storage.noted_ledgers()


def test_a_note_outlives_a_commit_that_failed(kit: StorageKit) -> None:
    maintenance = settled(kit).storage.maintenance
    note(kit, L7)
    kit.sim.fail("commit", error=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        maintenance.checkpoint()
    maintenance.checkpoint()
    maintenance.journal.begin_file()
    maintenance.checkpoint()
    assert kit.after_power_cut().storage.noted_ledgers() == [L7]


def test_notes_are_not_whole_where_one_directory_lacks_some(kit: StorageKit) -> None:
    kit = settled(StorageKit(kit.root.with_name("two"), disks=2))
    maintenance = kit.storage.maintenance
    note(kit, L7)
    maintenance.journal.begin_file()
    maintenance.checkpoint()
    stale = replace(maintenance.directories[1].facts, noted_to=0)
    maintenance.directories[1].write(facts=stale)
    left = kit.after_power_cut()
    assert not left.storage.report.notes_are_whole
    left.end()


def test_what_a_crash_takes_from_the_end_of_the_journal_is_no_missing_note(
    kit: StorageKit,
) -> None:
    settled(kit)
    kit.storage.put_record(LedgerRecord(L7, noted=True), done=lambda _error: None)
    for directory in kit.storage.maintenance.directories:
        ahead = kit.storage.maintenance.journal.last_sequence() + 5
        directory.write(facts=replace(directory.facts, noted_to=ahead))
    assert kit.after_power_cut().storage.report.notes_are_whole


# ---- what older versions read -------------------------------------------------------------------

_RECORD_OF_0_1_0 = struct.Struct(">4sB3xIQQ")
"""Its header of a journal record: three bytes of padding where the traits are now."""


def test_an_older_version_reads_a_noted_record_as_one_without_a_note() -> None:
    payload = LedgerRecord(L7, master_key=b"k").encode()
    seed = seed_of(3, 4096)
    parts = encode_record(
        RecordKind.LEDGER, [payload], sequence=9, synced=8, seed=seed, traits=NOTED
    )
    raw = b"".join(map(bytes, parts))
    assert _RECORD_OF_0_1_0.unpack_from(raw)[1:] == (RecordKind.LEDGER, len(payload), 9, 8)
    found = record_at(memoryview(raw), nonce=3, offset=4096)
    assert found is not None and found.traits == NOTED and bytes(found.payload) == payload


def test_a_note_changes_no_byte_of_an_encoded_record() -> None:
    record = LedgerRecord(L7, master_key=b"k", noted=True)
    assert record.encode() == replace(record, noted=False).encode()


def test_facts_without_notes_are_read_as_such() -> None:
    rows = DirectoryFacts(noted_to=4).encode()
    del rows["noted_to"]
    assert DirectoryFacts.decode({k: v for k, v in rows.items() if v}).noted_to is None
