"""Which files of a journal a survey finds needed: what trims and headers say, and a crash between.

Torn ends and what is lost are in `test_journal`.
"""

from pathlib import Path

import pytest
from bookie.errors import StorageError
from bookie.storage import journal_records
from bookie.storage.journal import JOURNAL_DIRECTORY, Journal
from bookie.storage.journal_records import RecordKind
from bookie.storage.journal_survey import Survey, survey
from bookie.storage.log_files import JOURNAL_FILES, read_header
from bookie.testing.inline import InlineDisk
from log_kit import SMALL, Notified

HOME = Path("/journal-disk")
DIRECTORY = HOME / JOURNAL_DIRECTORY
OF_ONE_FILE = 59
"""Records that nearly fill one."""


@pytest.fixture
def disk() -> InlineDisk:
    return InlineDisk()


def opened(disk: InlineDisk) -> Journal:
    return Journal.open(HOME, disk=disk, settings=SMALL, notify=Notified())


def write(journal: Journal, count: int = 1) -> None:
    for _ in range(count):
        journal.append_durably(RecordKind.RUN, [bytes(1000)])


def found(disk: InlineDisk) -> Survey:
    seen = survey(disk, DIRECTORY)
    assert seen.lost == [] and not seen.torn
    return seen


def needed_by_header(disk: InlineDisk, file_id: int) -> int:
    return read_header(disk, DIRECTORY, kind=JOURNAL_FILES, file_id=file_id).first_needed


def test_what_a_trim_needs_is_needed_though_no_header_says_so(disk: InlineDisk) -> None:
    journal = opened(disk)
    write(journal, 2 * OF_ONE_FILE)
    journal.trim(OF_ONE_FILE + 20)
    assert [span.file_id for span in found(disk).spans] == [2] and needed_by_header(disk, 2) == 1
    assert (found(disk).first_needed, found(disk).leftovers) == (2, [])
    journal.close()


def test_what_a_header_needs_is_needed_when_the_trim_is_in_a_file_that_is_gone(
    disk: InlineDisk,
) -> None:
    journal = opened(disk)
    for _ in range(3):
        write(journal, 2 * OF_ONE_FILE)
        journal.trim(journal.last_sequence() - 1)
    write(journal, OF_ONE_FILE)
    last = found(disk).spans[-1].file_id
    assert needed_by_header(disk, last) == found(disk).first_needed == found(disk).spans[0].file_id
    journal.close()


def test_of_two_trims_in_one_file_the_second_counts(disk: InlineDisk) -> None:
    journal = opened(disk)
    write(journal, 3 * OF_ONE_FILE)
    for file_id in (1, 2):
        journal.trim(file_id * OF_ONE_FILE + 20)
        assert found(disk).first_needed == file_id + 1
    journal.close()


def test_a_file_that_a_trim_had_not_come_to_unlink_is_left_over(disk: InlineDisk) -> None:
    journal = opened(disk)
    write(journal, 2 * OF_ONE_FILE)
    disk.fail("unlink", pattern=JOURNAL_FILES.name(1))
    with pytest.raises(StorageError):
        journal.trim(OF_ONE_FILE + 20)
    assert (found(disk).first_needed, found(disk).leftovers) == (2, [1])
    journal.close()


def test_a_journal_that_was_never_trimmed_needs_its_first_file(disk: InlineDisk) -> None:
    journal = opened(disk)
    assert found(disk) == Survey()
    write(journal)
    assert (found(disk).first_needed, found(disk).tail[0], found(disk).last_sequence) == (1, 1, 1)
    journal.close()
    assert found(disk).ended and found(disk).last_sequence == 2


def test_a_journal_with_bytes_behind_its_end_record_is_torn_and_was_not_closed(
    disk: InlineDisk,
) -> None:
    journal = opened(disk)
    write(journal)
    journal.close()
    path, end = DIRECTORY / JOURNAL_FILES.name(1), found(disk).tail[1]
    file = disk.open(path, writable=True)
    file.pwrite([b"x"], end)
    file.close()
    seen = survey(disk, DIRECTORY)
    assert (seen.torn, seen.ended, seen.lost, seen.tail) == (True, False, [], (1, end))


@pytest.mark.parametrize("window_bytes", [1032, 1033, 3000])
def test_records_are_found_wherever_what_is_read_at_once_ends(
    disk: InlineDisk, monkeypatch: pytest.MonkeyPatch, window_bytes: int
) -> None:
    journal = opened(disk)
    write(journal, 2 * OF_ONE_FILE)
    journal.close()
    monkeypatch.setattr(journal_records, "_WINDOW_BYTES", window_bytes)
    assert found(disk).ended and found(disk).last_sequence == 2 * OF_ONE_FILE + 1
