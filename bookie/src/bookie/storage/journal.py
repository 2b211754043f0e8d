"""The journal of a bookie: small records (in journal mode also runs) that are durable before the
bookie answers.

Every append requests a sync; one sync covers all records appended before it began, and the flusher
thread calls `notify` when `synced_to` has moved. After a restart `open` surveys the whole journal
once; then the caller replays it. `trim` deletes files whose records a checkpoint covers.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bookie.errors import DiskFullError
from bookie.frames.entry import Buffer
from bookie.storage.disk import Disk
from bookie.storage.journal_records import (
    RECORD_HEADER_BYTES,
    JournalRecord,
    RecordKind,
    encode_record,
    read_records,
    seed_of,
)
from bookie.storage.journal_survey import TRIM_PAYLOAD, survey
from bookie.storage.log_files import HEADER_BYTES, JOURNAL_FILES, LogSettings, remove_spares
from bookie.storage.positions import Begin, Place
from bookie.storage.stream import AppendStream

JOURNAL_DIRECTORY: Final = "journal"

_MIB: Final = 1024 * 1024
_TRIM_ROOM_BYTES: Final = 4096


def journal_settings(
    *, ring_bytes: int = 16 * _MIB, file_bytes: int = 64 * _MIB, direct_io: str = "auto"
) -> LogSettings:
    """Settings of a journal: smaller than a log's, and with a smaller reserve, so that it can use
    space that logs leave free.
    """
    return LogSettings(
        ring_bytes=ring_bytes,
        file_bytes=file_bytes,
        direct_io=direct_io,  # type: ignore[arg-type]  # checked by LogSettings
        reserve_bytes=8 * _MIB,
    )


@dataclass(frozen=True, slots=True)
class _JournalFile:
    file_id: int
    first_sequence: int


class Journal:
    """The journal. Any thread may append; call `replay` before the first append."""

    def __init__(
        self, directory: Path, *, disk: Disk, settings: LogSettings, notify: Callable[[], None]
    ) -> None:
        """Use `open`."""
        self._directory = directory
        self._disk = disk
        found = survey(disk, directory)
        self._found = found
        """What `open` found in the directory; the first trim deletes its leftovers."""
        self._sync_tail()
        self._files = [_JournalFile(span.file_id, span.first_sequence) for span in found.spans]
        """The files, ids rising; `trim` removes those from the front whose records are all in the
        indexes."""
        self._first_needed = found.first_needed
        """The lowest file id that a replay needs."""
        self._base_sequence = found.last_sequence
        """The last sequence number of earlier processes; this process continues behind it."""
        self._trimming = threading.Lock()
        """Held by one trim at a time; taken before the stream's lock."""
        self.stream: Final = AppendStream(
            directory,
            disk=disk,
            kind=JOURNAL_FILES,
            settings=settings,
            next_id=found.tail[0] + 1,
            begin=self._begin_file,
            notify=notify,
        )
        """The append stream; it knows of syncs, failures and full disks."""

    @classmethod
    def open(
        cls, directory: Path, *, disk: Disk, settings: LogSettings, notify: Callable[[], None]
    ) -> "Journal":
        """Open the journal under `directory`, or create it. Blocking: it reads the whole journal.

        The flusher thread calls `notify` after each sync, when there is room again after a refused
        append, and on failure; `notify` must not raise and must not block.
        """
        journal_directory = directory / JOURNAL_DIRECTORY
        disk.make_directory(journal_directory)
        remove_spares(disk, journal_directory, kind=JOURNAL_FILES)
        return cls(journal_directory, disk=disk, settings=settings, notify=notify)

    def _sync_tail(self) -> None:
        # Records that `replay` will return must be durable, also those that a killed process left
        # unsynced.
        file_id, _ = self._found.tail
        if file_id:
            file = self._disk.open(self._path(file_id), writable=True)
            try:
                file.fdatasync()
            finally:
                file.close()
        self._disk.sync_directory(self._directory)

    def _path(self, file_id: int) -> Path:
        return self._directory / JOURNAL_FILES.name(file_id)

    # ---- what was found -------------------------------------------------------------------------

    @property
    def lost(self) -> bool:
        """True when durable records are gone: treat the disk as empty. It stays true
        until a trim.
        """
        return bool(self._found.lost)

    @property
    def lost_reasons(self) -> Sequence[str]:
        """What is missing and what proves that, for people."""
        return tuple(self._found.lost)

    @property
    def torn(self) -> bool:
        """True when the last file ends in bytes that are no record: normal after an
        unclean stop.
        """
        return self._found.torn

    @property
    def ended(self) -> bool:
        """True when the journal was closed in order and is complete."""
        return self._found.ended

    @property
    def is_fresh(self) -> bool:
        """True when no journal file was found: it is new, or completely lost (the directory's stamp
        shows which).
        """
        return not self._found.spans

    @property
    def first_kept(self) -> int:
        """The lowest sequence number of a record that `replay` may return: all records before it
        were trimmed. 1 when no journal file was found.
        """
        spans = self._found.spans
        return spans[0].first_sequence if spans else 1

    def replay(self) -> Iterator[JournalRecord]:
        """Yield all records found, in order; if `lost`, all that are still good."""
        for span in self._found.spans:
            if span.end <= HEADER_BYTES:
                continue
            file = self._disk.open(self._path(span.file_id))
            try:
                for raw in read_records(file, nonce=span.nonce, start=HEADER_BYTES, limit=span.end):
                    record = raw.record()
                    if not record.kind.is_internal:
                        yield record
            finally:
                file.close()

    # ---- appending ------------------------------------------------------------------------------

    def append(
        self,
        kind: RecordKind,
        payload: Sequence[Buffer],
        *,
        traits: int = 0,
        begins_file: bool = False,
    ) -> int | None:
        """Append a record and return its sequence number; None when there is no room: try again
        after `notify`.

        It has copied the bytes and requested a sync when it returns. It raises like
        LedgerLog.append.
        """
        length = RECORD_HEADER_BYTES + sum(map(len, payload))
        place = self.stream.append(
            length,
            lambda place: self._render(kind, payload, traits, place),
            begins_file=begins_file,
        )
        if place is None:
            return None
        self.stream.request_sync()
        return self._base_sequence + 1 + place.number

    def has_room(self, payload_bytes: int) -> bool:
        """True when `append` has room for a record of that size now; raises like `append`.

        It counts in the small record that a `trim` or `begin_file` in another thread may append
        before.
        """
        return self.stream.has_room(RECORD_HEADER_BYTES + payload_bytes, beside=_TRIM_ROOM_BYTES)

    def _render(
        self, kind: RecordKind, payload: Sequence[Buffer], traits: int, place: Place
    ) -> Sequence[Buffer]:
        return encode_record(
            kind,
            payload,
            sequence=self._base_sequence + 1 + place.number,
            synced=self._base_sequence + place.synced,
            seed=seed_of(place.nonce, place.offset),
            traits=traits,
        )

    def append_durably(
        self, kind: RecordKind, payload: Sequence[Buffer], *, begins_file: bool = False
    ) -> int:
        """Append a record and wait until it is durable; not for the event loop's thread."""
        while (sequence := self.append(kind, payload, begins_file=begins_file)) is None:
            self.stream.wait_for_room()
        self.stream.sync()
        return sequence

    def _begin_file(self, file_id: int, ended: tuple[int, int] | None) -> Begin:
        previous_id, previous_end = self._found.tail if ended is None else ended
        sequence = self._base_sequence + 1 + self.stream.appends
        if previous_id == 0:
            self._first_needed = file_id
        self._files.append(_JournalFile(file_id, sequence))
        return Begin(previous_id, previous_end, sequence, self._first_needed)

    def last_sequence(self) -> int:
        """The highest sequence number of a record so far; 0 when there is none."""
        return self._base_sequence + self.stream.appends

    def synced_to(self) -> int:
        """The sequence number up to which all records are durable."""
        return self._base_sequence + self.stream.synced_appends

    # ---- trimming and the end -------------------------------------------------------------------

    def begin_file(self) -> None:
        """Begin a new file for the records that follow, so that a trim can delete all earlier ones.

        DiskFullError when there is no space for another file. Blocking; not for the event loop's
        thread.
        """
        with self._trimming:
            # This record repeats what is known: only appending a record begins a file.
            says = [TRIM_PAYLOAD.pack(self._first_needed)]
            self.append_durably(RecordKind.TRIM, says, begins_file=True)

    def trim(self, sequence: int) -> None:
        """Delete the files whose records are all at most `sequence`, which are no longer needed.

        It is durable when it returns. A record says first which files go, so that the next start
        notices a file that is missing for another reason. Blocking; not for the event loop's
        thread.
        """
        with self._trimming:
            files = list(self._files)
            doomed = [
                file.file_id
                for file, following in itertools.pairwise(files)
                if following.first_sequence <= sequence + 1
            ]
            if not doomed and not self._found.leftovers:
                return
            needed = files[len(doomed)].file_id
            self.append_durably(RecordKind.TRIM, [TRIM_PAYLOAD.pack(needed)])
            self._first_needed = needed
            self._delete([*self._found.leftovers, *doomed])
            self._found.leftovers.clear()
            del self._files[: len(doomed)]
            self.stream.look_for_space()

    def _delete(self, file_ids: Sequence[int]) -> None:
        for file_id in file_ids:
            path = self._path(file_id)
            if self._disk.exists(path):
                self._disk.unlink(path)
        self._disk.sync_directory(self._directory)

    def close(self) -> None:
        """Append the END record, write and sync everything, end the flusher; raises the failure, if
        any.
        """
        try:
            if self.stream.appends and not self.stream.is_closed and self.stream.failure is None:
                with contextlib.suppress(DiskFullError):  # the END record is not required
                    self.append_durably(RecordKind.END, [])
        finally:
            self.stream.close()
