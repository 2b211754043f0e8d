"""The journal of a bookie: small records (in journal mode also runs), durable before answered.

Every append asks for a sync; one sync answers all records appended before it began, and `notify`
(called from the flusher thread) says that `synced_to` moved. After a restart the whole journal is
surveyed once in `open`, then replayed; `trim` deletes files whose records a checkpoint covers.
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
    """Settings of a journal: smaller than a log's, and it may use space that logs leave alone."""
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
    """Appends from any thread; `replay` before the first one."""

    def __init__(
        self, directory: Path, *, disk: Disk, settings: LogSettings, notify: Callable[[], None]
    ) -> None:
        """Use `open`."""
        self._directory = directory
        self._disk = disk
        found = survey(disk, directory)
        self._found = found
        """What lay there at the open; its leftovers go with the first trim."""
        self._sync_tail()
        self._files = [_JournalFile(span.file_id, span.first_sequence) for span in found.spans]
        """Rising; files whose records are all in the indexes go from the front."""
        self._first_needed = found.first_needed
        """Lowest file id that a replay needs; below it nothing is missed."""
        self._base_sequence = found.last_sequence
        """Numbers up to this one were given by processes before; records of this one follow."""
        self._trimming = threading.Lock()
        """One trim at a time; taken before the stream's lock."""
        self.stream: Final = AppendStream(
            directory,
            disk=disk,
            kind=JOURNAL_FILES,
            settings=settings,
            next_id=found.tail[0] + 1,
            begin=self._begin_file,
            notify=notify,
        )
        """Syncs, fails and gets full; whoever wants to know asks it."""

    @classmethod
    def open(
        cls, directory: Path, *, disk: Disk, settings: LogSettings, notify: Callable[[], None]
    ) -> "Journal":
        """The journal under `directory`, made if there is none. Blocking: reads all of it.

        `notify` is called from the flusher thread after each sync, when room was made for a
        refused append, and on failure; it must not raise and must not block.
        """
        journal_directory = directory / JOURNAL_DIRECTORY
        disk.make_directory(journal_directory)
        remove_spares(disk, journal_directory, kind=JOURNAL_FILES)
        return cls(journal_directory, disk=disk, settings=settings, notify=notify)

    def _sync_tail(self) -> None:
        # What replay is going to show must be durable, also what a killed process left unsynced.
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
        """Records that were durable are gone: treat the disk as empty. Survives until a trim."""
        return bool(self._found.lost)

    @property
    def lost_reasons(self) -> Sequence[str]:
        """What is gone and how that is known, for people."""
        return tuple(self._found.lost)

    @property
    def torn(self) -> bool:
        """The last file ended in bytes that are no record: normal after an unclean stop."""
        return self._found.torn

    @property
    def ended(self) -> bool:
        """It was closed in order, and all of it is there."""
        return self._found.ended

    @property
    def is_fresh(self) -> bool:
        """No file at all was found: new, or lost altogether (its stamp knows which)."""
        return not self._found.spans

    def replay(self) -> Iterator[JournalRecord]:
        """All records found, in order; where `lost`, all that is still good."""
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
        self, kind: RecordKind, payload: Sequence[Buffer], *, begins_file: bool = False
    ) -> int | None:
        """The record's sequence number; None when there is no room: try again after `notify`.

        The bytes are copied and a sync is on its way when it returns. Raises like LedgerLog.append.
        """
        length = RECORD_HEADER_BYTES + sum(map(len, payload))
        place = self.stream.append(
            length, lambda place: self._render(kind, payload, place), begins_file=begins_file
        )
        if place is None:
            return None
        self.stream.request_sync()
        return self._base_sequence + 1 + place.number

    def has_room(self, payload_bytes: int) -> bool:
        """True when a record of that size, appended next, will be taken; raises like `append`.

        Leaves space for the small record that a `trim` or `begin_file` in another thread may put
        before it.
        """
        return self.stream.has_room(RECORD_HEADER_BYTES + payload_bytes, beside=_TRIM_ROOM_BYTES)

    def _render(
        self, kind: RecordKind, payload: Sequence[Buffer], place: Place
    ) -> Sequence[Buffer]:
        return encode_record(
            kind,
            payload,
            sequence=self._base_sequence + 1 + place.number,
            synced=self._base_sequence + place.synced,
            seed=seed_of(place.nonce, place.offset),
        )

    def append_durably(
        self, kind: RecordKind, payload: Sequence[Buffer], *, begins_file: bool = False
    ) -> int:
        """Appends and waits until it is durable; not for the event loop's thread."""
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
        """The highest number given to a record so far; 0 when there is none."""
        return self._base_sequence + self.stream.appends

    def synced_to(self) -> int:
        """All records with a number up to this one are durable."""
        return self._base_sequence + self.stream.synced_appends

    # ---- trimming and the end -------------------------------------------------------------------

    def begin_file(self) -> None:
        """What follows lies in another file, so that a trim can let go of all that came before.

        DiskFullError: there is no space for another file. Blocking; not for the event loop's
        thread.
        """
        with self._trimming:
            # A record that says nothing new: a file is begun by a record only.
            says = [TRIM_PAYLOAD.pack(self._first_needed)]
            self.append_durably(RecordKind.TRIM, says, begins_file=True)

    def trim(self, sequence: int) -> None:
        """Records up to `sequence` are no longer needed: deletes the files that hold no others.

        Durable when it returns. What is to be missing is recorded before it goes, so that a file
        missing for another reason is noticed. Blocking; not for the event loop's thread.
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
        """Records the orderly end, writes and syncs all, ends the flusher; raises the failure."""
        try:
            if self.stream.appends and not self.stream.is_closed and self.stream.failure is None:
                with contextlib.suppress(DiskFullError):  # the end is a proof more, not a must
                    self.append_durably(RecordKind.END, [])
        finally:
            self.stream.close()
