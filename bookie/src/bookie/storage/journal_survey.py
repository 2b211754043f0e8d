"""Surveys a journal directory before a replay: what is there, and whether anything durable is lost.

A crash may tear the end of the last file: the records there were appended, but never known to be
durable, and no client got an answer for them. Everything else must be there. These show that
durable records are gone:
- a good record behind the hole that was appended when the hole was already known to be durable;
- a file whose records do not reach the end, or the number, that the next file's header states;
- a file missing between the lowest one still needed (recorded by every trim) and the last;
- a bad header: a file gets its name after its header is durable.
Then the directory counts as lost, and its owner treats the disk as empty. A loss at the very end,
with nothing written behind it, leaves no evidence here. It takes damage, or a hand: a crash takes
only what was not synced. In every mode the facts and notes of these records are gone then.
"""

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bookie.errors import CorruptError
from bookie.storage.disk import Disk, DiskFile
from bookie.storage.journal_records import RawRecord, RecordKind, find_records, read_records
from bookie.storage.log_files import (
    HEADER_BYTES,
    JOURNAL_FILES,
    FileHeader,
    list_files,
    read_header,
)
from bookie.storage.log_scan import is_zero

TRIM_PAYLOAD: Final = struct.Struct(">Q")
"""The payload of a TRIM record: the lowest file that is still needed."""


@dataclass(frozen=True, slots=True)
class Span:
    """The good records of one file: bytes [HEADER_BYTES, end)."""

    file_id: int
    nonce: int
    first_sequence: int
    end: int


@dataclass(slots=True)
class Survey:
    """The result for a directory. `lost`: reasons why it counts as lost, empty when nothing durable
    is gone.
    """

    spans: list[Span] = field(default_factory=list)
    """The spans of the files that are needed, in order."""
    lost: list[str] = field(default_factory=list)
    torn: bool = False
    """The last file ends in bytes that are not a good record."""
    ended: bool = False
    """The last record says that the journal was closed in order."""
    last_sequence: int = 0
    """The highest sequence number found; 0 when there is none."""
    first_needed: int = 1
    """Id of the first file that is needed."""
    leftovers: list[int] = field(default_factory=list)
    """Ids of files that a trim had no time to unlink."""

    @property
    def tail(self) -> tuple[int, int]:
        """(file id, offset) where the good records end."""
        return (self.spans[-1].file_id, self.spans[-1].end) if self.spans else (0, 0)


@dataclass(slots=True)
class _FileFindings:
    header: FileHeader | None
    """None when the file has no complete header."""
    span: Span
    last_sequence: int
    """The number of the last good record, or of the last record before this file."""
    problems: list[str] = field(default_factory=list)
    """What is wrong, in words; empty = nothing is."""
    torn: bool = False
    """The file ends in bytes that are not a good record."""
    ended: bool = False
    """The file's last record says that the journal was closed in order."""
    first_needed: int = 0
    """The lowest file id that was still needed, by this file's header and TRIM records; 0 =
    unknown."""


def survey(disk: Disk, directory: Path) -> Survey:
    """Survey a directory: it reads the whole journal once. StorageError when the disk cannot be
    read.
    """
    file_ids = list_files(disk, directory, kind=JOURNAL_FILES)
    if not file_ids:
        return Survey()
    headers: dict[int, FileHeader] = {}
    problems: dict[int, str] = {}
    for file_id in file_ids:
        try:
            headers[file_id] = read_header(disk, directory, kind=JOURNAL_FILES, file_id=file_id)
        except CorruptError as error:
            problems[file_id] = str(error)
    findings = []
    sequence = 1
    for file_id, following in zip(file_ids, [*file_ids[1:], None], strict=True):
        header = headers.get(file_id)
        if header is None:
            found = _without_header(file_id, sequence, problems[file_id])
        else:
            after = None if following is None else headers.get(following)
            found = _survey_file(disk, directory, header, after, is_last=following is None)
        findings.append(found)
        sequence = max(sequence, found.last_sequence + 1)
    return _judge(findings)


def _without_header(file_id: int, sequence: int, problem: str) -> _FileFindings:
    span = Span(file_id, 0, sequence, HEADER_BYTES)
    return _FileFindings(None, span, sequence - 1, [problem])


def _survey_file(
    disk: Disk, directory: Path, header: FileHeader, after: FileHeader | None, *, is_last: bool
) -> _FileFindings:
    path = directory / JOURNAL_FILES.name(header.file_id)
    limit = after.previous_end if after and after.previous_id == header.file_id else None
    file = disk.open(path)
    try:
        found = _read_file(file, header, limit)
        if is_last:
            _look_behind(file, header, found)
    finally:
        file.close()
    if limit is not None and after is not None:
        expected = after.first_sequence - 1
        if found.span.end != limit or found.last_sequence != expected:
            found.problems.append(
                f"{path}: good records end at {found.span.end} with number "
                f"{found.last_sequence}, the next file's header says {limit} and {expected}"
            )
    return found


def _read_file(file: DiskFile, header: FileHeader, limit: int | None) -> _FileFindings:
    sequence = header.first_sequence - 1
    end = HEADER_BYTES
    ended = False
    needed = header.first_needed
    for raw in read_records(file, nonce=header.nonce, start=HEADER_BYTES, limit=limit):
        if raw.sequence != sequence + 1:
            break
        sequence, end, ended = raw.sequence, raw.end, raw.kind == RecordKind.END
        needed = max(needed, _needed_by(raw))
    span = Span(header.file_id, header.nonce, header.first_sequence, end)
    return _FileFindings(header, span, sequence, ended=ended, first_needed=needed)


def _needed_by(raw: RawRecord) -> int:
    if raw.kind != RecordKind.TRIM:
        return 0
    (needed,) = TRIM_PAYLOAD.unpack(raw.payload)
    return int(needed)


def _look_behind(file: DiskFile, header: FileHeader, found: _FileFindings) -> None:
    """Decide whether the bytes behind the last good record are a torn end, or prove that synced
    records are gone.
    """
    end = found.span.end
    if is_zero(file, end):
        return
    found.torn = True
    found.ended = False
    missing = found.last_sequence + 1
    for raw in find_records(file, nonce=header.nonce, start=end):
        if raw.synced >= missing:
            found.problems.append(
                f"{file.path}: record {missing} at {end} is gone, and record {raw.sequence} at "
                f"{raw.offset} says that {raw.synced} was durable"
            )
            return


def _judge(findings: list[_FileFindings]) -> Survey:
    verdict = Survey()
    verdict.first_needed = max(1, *(found.first_needed for found in findings))
    verdict.last_sequence = max(found.last_sequence for found in findings)
    kept = [found for found in findings if found.span.file_id >= verdict.first_needed]
    verdict.leftovers = [
        found.span.file_id for found in findings if found.span.file_id < verdict.first_needed
    ]
    expected_id = verdict.first_needed
    for found in kept:
        missing = range(expected_id, found.span.file_id)
        verdict.lost.extend(
            f"journal file {JOURNAL_FILES.name(file_id)} is missing" for file_id in missing
        )
        verdict.lost.extend(found.problems)
        verdict.spans.append(found.span)
        expected_id = found.span.file_id + 1
    assert kept, "a file never says that itself is not needed"
    verdict.torn = findings[-1].torn
    verdict.ended = findings[-1].ended and not verdict.lost
    return verdict
