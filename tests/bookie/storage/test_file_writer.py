"""What an append stream has open: the file that it writes and the spare behind it, and no other."""

from collections.abc import Callable

import pytest
from bookie.errors import StorageError
from bookie.storage.file_writer import FileWriter
from bookie.storage.log_files import LOG_FILES, FileHeader
from bookie.storage.ring import Ring
from log_kit import DIRECTORY, SMALL
from storage_kit import TrackedDisk

FIRST, SECOND, THIRD = (f"{LOG_FILES.name(number)}.new" for number in (1, 2, 3))


@pytest.fixture
def disk() -> TrackedDisk:
    made = TrackedDisk()
    made.make_directory(DIRECTORY)
    return made


@pytest.fixture
def writer(disk: TrackedDisk) -> FileWriter:
    return FileWriter(DIRECTORY, disk=disk, kind=LOG_FILES, settings=SMALL)


def begin(writer: FileWriter, file_id: int) -> None:
    """The file becomes the one that is written, and the next one its spare."""
    if not writer.has_spare:
        writer.make_spare(file_id)
    writer.start_file(FileHeader(file_id, file_id - 1, 4096, 7, 0, 0))
    writer.make_spare(file_id + 1)


def test_the_file_before_is_closed_when_the_next_one_begins(
    disk: TrackedDisk, writer: FileWriter
) -> None:
    begin(writer, 1)
    assert disk.open_names == [FIRST, SECOND]
    begin(writer, 2)
    assert disk.open_names == [SECOND, THIRD]


@pytest.mark.parametrize("end", [FileWriter.close, lambda w: w.finish(None), lambda w: w.finish(9)])
def test_at_the_end_nothing_is_open_and_no_spare_lies_there(
    disk: TrackedDisk, writer: FileWriter, end: Callable[[FileWriter], None]
) -> None:
    begin(writer, 1)
    end(writer)
    assert disk.open_names == [] and disk.list_directory(DIRECTORY) == [LOG_FILES.name(1)]


def test_without_space_there_is_no_spare_and_nothing_to_close(
    disk: TrackedDisk, writer: FileWriter
) -> None:
    disk.capacity_bytes = SMALL.file_bytes - 1
    assert not writer.make_spare(1) and not writer.has_spare
    writer.close()
    assert disk.open_names == [] and disk.list_directory(DIRECTORY) == []


def test_what_was_written_is_synced_before_the_next_file_begins(
    disk: TrackedDisk, writer: FileWriter
) -> None:
    begin(writer, 1)
    ring = Ring(SMALL.ring_bytes)
    ring.put(0, b"x" * 100)
    writer.write(ring, start=0, end=100, offset=4096)
    disk.fail("sync", pattern=FIRST)
    with pytest.raises(StorageError):
        writer.start_file(FileHeader(2, 1, 4196, 7, 0, 0))
    assert not disk.exists(DIRECTORY / LOG_FILES.name(2))
