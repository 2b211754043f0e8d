"""Where things are in an append stream: of `stream`, and of the journal, which writes it down.

A position counts the bytes of the stream from its start; a place is a file and an offset in it.
"""

from dataclasses import dataclass
from typing import NamedTuple

from bookie.storage.log_files import FileHeader


class Place(NamedTuple):
    """Where a record goes, known before its bytes are made."""

    file_id: int
    offset: int
    nonce: int
    number: int
    """How many records this stream took before this one."""
    synced: int
    """How many of those are known to be durable."""


@dataclass(frozen=True, slots=True)
class Begin:
    """What the header of a new file says beside its own id."""

    previous_id: int
    previous_end: int
    first_sequence: int
    first_needed: int


@dataclass(slots=True)
class StreamFile:
    """One of its files, as long as the ring may hold bytes of it."""

    header: FileHeader
    base: int
    """Stream position of the file's offset 0."""
    end: int | None = None
    """Stream position behind its last record; None while it is the last file."""

    def place(self, start: int, number: int, synced: int) -> Place:
        """Of the record that begins at this position of the stream."""
        header = self.header
        return Place(header.file_id, start - self.base, header.nonce, number, synced)
